"""The judging side of a submission: starts its process, asks, waits no longer than it must.

What comes back is read as data with limits on size and time. A process that ends, hangs or floods
its pipe is killed with all that it started; the question that killed it fails, and a new process
answers the next one.
"""

import contextlib
import itertools
import json
import os
import re
import secrets
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from normtutor.grading import answers
from normtutor.grading.judging import GraderFailed, printable, received
from normtutor_grader import wall

CHILD = Path(__file__).with_name("child.py")
MOST_PRINTED = 4000  # characters kept of what a submission prints
MOST_STARTS = 6
MOST_PARTS = 100_000  # lists, dictionaries and commas in one reply
MOST_STRAY = 1000  # lines that answer no question
GRACE = 2.0  # seconds in which a process may stop a slow call by itself
WATCH = 0.01  # seconds between two looks at a submission's files; it makes thousands in a tenth
MEMORY = 10  # so many looks at them for one at its memory, which costs more
MOST_FILES = 10_000  # each takes the kernel a kilobyte, whatever is in it
PREPARED = ("torch", "scipy", "matplotlib.pyplot")  # imported before the memory is limited


class Limits(NamedTuple):
    """How much a submission may use; seconds are by the clock."""

    seconds: float = 20.0  # for one cell or one call
    total_seconds: float = 240.0  # for all cells together, and again for all calls
    megabytes: int = 2048  # beyond what Python and torch take, all its processes together
    start_seconds: float = 240.0  # for Python and torch to be there, on a busy machine


class Silent(Exception):
    """The process ended or did not answer in time."""


class Sandbox:
    """A submission's code cells in a process of their own.

    Use as a context manager; ``answer(name)`` gives what :func:`normtutor.grading.judge` asks.
    Without ``walled`` it is a plain process of this user.
    """

    def __init__(
        self, cells: Sequence[str], limits: Limits | None = None, *, walled: bool = True
    ) -> None:
        self.cells, self.limits, self.walled = list(cells), limits or Limits(), walled
        self.errors: list[str] = []  # what went wrong in the cells
        self.stopped: list[str] = []  # why the process was ended, each time
        self.printed, self.cut = "", False
        self.starts = 0
        self._calls = self.limits.total_seconds  # what is left for calls
        self._process: subprocess.Popen | None = None
        self._ended = "the process ended"  # what is said once it has
        if walled:
            wall.tried()

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    def answer(self, name: str) -> "Remote":
        """What stands under ``name`` in the submission."""
        return Remote(self, name)

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Put one question; the reply is data, or says that there was none.

        Raises
        ------
        GraderFailed
            If no process can be started for the submission.
        """
        try:
            if self._calls <= 0:
                raise Silent("the submission used up its time")
            if self._process is None:
                self._start()
            with self._counted():
                # The process stops a slow call by itself, if it is let.
                return self._reply(question, self.limits.seconds + GRACE)
        except Silent as silent:
            self._stop()
            self.stopped.append(str(silent))
            return {"error": str(silent)}

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Take the time that something needs off what is left for calls."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self._calls -= time.monotonic() - begun

    def _start(self) -> None:
        if self.starts >= MOST_STARTS:
            raise Silent("the submission has ended its process too often")
        self.starts += 1
        try:
            self._begin()
        except (OSError, ValueError, Silent) as error:
            self._stop()
            raise GraderFailed(f"no process could be started for it: {error}") from error
        if self.starts == 1:
            self._run_cells(self.limits.total_seconds)
        else:  # once more, in the time that is left for calls
            with self._counted():
                self._run_cells(self._calls)

    def _run_cells(self, seconds: float) -> None:
        end, errors = time.monotonic() + seconds, list[str]()
        for number, cell in enumerate(self.cells, start=1):
            left = end - time.monotonic()
            if left <= 0:
                errors.append(f"code cell {number}: not run, the notebook had used up its time")
                break
            try:
                question = {"cell": cell, "number": number}
                reply = self._reply(question, min(left, self.limits.seconds) + GRACE)
            except Silent as silent:
                self.starts = MOST_STARTS  # the cell would do so again
                self.errors = [*errors[:50], f"while code cell {number} ran, {silent}"]
                raise
            wrong = reply.get("errors")
            for words in wrong if isinstance(wrong, list) else ():
                errors.append(f"code cell {number}: {printable(str(words)[:500])}")
        if self.starts == 1:
            self.errors = errors[:50]

    def _begin(self) -> None:
        """Start the process, up to where the first cell would run."""
        source = "\n".join(self.cells)
        replies, theirs = os.pipe()
        program = [wall.PYTHON, "-I", f"{wall.CODE}/{CHILD.name}", str(theirs)]
        files = {CHILD.name: CHILD, "answers.py": Path(answers.__file__)}
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        how: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        how |= {"stderr": subprocess.STDOUT, "pass_fds": (theirs,), "start_new_session": True}
        try:
            if self.walled:
                self._process = wall.started(program, files, **how)
            else:
                folder = Path(self._folder.name)
                for name, path in files.items():
                    (folder / name).write_bytes(path.read_bytes())
                program[2] = str(folder / CHILD.name)
                how |= {"cwd": folder, "env": wall.environment(str(folder))}
                self._process = subprocess.Popen(program, **how)
        except BaseException:
            os.close(replies)
            self._folder.cleanup()
            raise
        finally:
            os.close(theirs)
        self._drainer = threading.Thread(
            target=self._drain, args=(self._process.stdout,), daemon=True
        )
        self._drainer.start()
        assert self._process.stdin is not None
        self._questions, self._replies, self._rest = self._process.stdin.fileno(), replies, b""
        os.set_blocking(self._questions, False)
        os.set_blocking(self._replies, False)
        prepare = [name for name in PREPARED if name.split(".")[0] in source]
        self._reply({"prepare": prepare, **self.limits._asdict()}, self.limits.start_seconds)
        self._ended = "the submission ended its process"
        folders = folders_of(self._process) if self.walled else []
        watched = (self._process, used(self._process), folders)
        threading.Thread(target=self._watch, args=watched, daemon=True).start()

    def _stop(self) -> None:
        """End the process and all that it has started; behind the wall nothing can be left."""
        if self._process is None:
            return
        self._kill(self._process)
        self._process.wait()
        self._drainer.join(GRACE)  # without the wall, somebody may live who could still print
        os.close(self._replies)
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        self._process = None
        self._folder.cleanup()

    def _kill(self, process: subprocess.Popen) -> None:
        for one in family(process):
            with contextlib.suppress(psutil.Error):
                one.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()

    def _watch(self, process: subprocess.Popen, before: int, folders: Sequence[int]) -> None:
        """End a process that takes too much, also while nobody asks it anything."""
        try:
            for looks in itertools.count(1):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(WATCH)
                    return
                if sum(map(files_in, folders)) > MOST_FILES:
                    self._ended = "the submission made too many files"
                elif looks % MEMORY:
                    continue
                elif used(process) - before > self.limits.megabytes * 2**20:
                    self._ended = f"the submission took more than {self.limits.megabytes} MB"
                else:
                    continue
                self._kill(process)
        finally:
            for folder in folders:
                os.close(folder)

    def _drain(self, stream: Any) -> None:
        """Read what a submission prints, keep the beginning."""
        with stream:
            while data := os.read(stream.fileno(), 65536):
                self.cut = self.cut or len(self.printed) + len(data) > MOST_PRINTED
                self.printed = (self.printed + data.decode(errors="replace"))[:MOST_PRINTED]

    # --- questions and replies

    def _reply(self, content: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Put a question and wait for its reply; what is no reply to it is thrown away."""
        # A reply must repeat this, so that nothing written in advance is taken for one.
        question = secrets.token_hex(8)
        unsent = json.dumps({**content, "question": question}).encode() + b"\n"
        end, stray = time.monotonic() + seconds, 0
        with selectors.DefaultSelector() as ready:
            ready.register(self._replies, selectors.EVENT_READ)
            ready.register(self._questions, selectors.EVENT_WRITE)
            while (left := end - time.monotonic()) > 0:
                for key, _ in ready.select(left):
                    if key.fd == self._questions:
                        with contextlib.suppress(BlockingIOError):
                            unsent = unsent[self._write(unsent) :]
                        if not unsent:
                            ready.unregister(self._questions)
                        continue
                    for line in self._lines():
                        reply = read_reply(line)
                        if reply.get("question") == question:
                            return reply
                        stray += 1
                        if stray > MOST_STRAY:
                            raise Silent("the submission floods its answers")
        raise Silent(f"the submission did not answer within {seconds - GRACE:g} seconds")

    def _write(self, data: bytes) -> int:
        try:
            return os.write(self._questions, data)
        except BrokenPipeError as error:
            raise Silent(self._ended) from error

    def _lines(self) -> list[bytes]:
        data = os.read(self._replies, 1 << 20)
        if not data:
            raise Silent(self._ended)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > answers.MOST_BYTES + 1000:
            raise Silent("the submission's answer is too large")
        return lines


def family(process: subprocess.Popen) -> list[psutil.Process]:
    """A process and all that it has started."""
    with contextlib.suppress(psutil.Error):
        first = psutil.Process(process.pid)
        return [first, *first.children(recursive=True)]
    return []


def used(process: subprocess.Popen) -> int:
    """Bytes of memory of a process and all that it has started; what several share counts once."""
    found = 0
    for one in family(process):
        with contextlib.suppress(psutil.Error, OSError):
            more = one.memory_full_info()
            found += getattr(more, "pss", more.rss) + getattr(more, "swap", 0)
    return found


def folders_of(process: subprocess.Popen) -> list[int]:
    """Descriptors of the folders that a submission may write to."""
    found = []
    for place in (wall.SCRATCH, "/dev/shm"):
        with contextlib.suppress(OSError, IndexError):  # the process has ended
            found.append(os.open(f"/proc/{family(process)[-1].pid}/root{place}", os.O_PATH))
    return found


def files_in(folder: int) -> int:
    """How many files a file system holds, those that have no name any more included."""
    status = os.fstatvfs(folder)
    return status.f_files - status.f_ffree


class Remote:
    """An answer that lives in a submission."""

    def __init__(self, sandbox: Sandbox, name: str) -> None:
        self.sandbox, self.name = sandbox, name

    def _ask(self, arguments: Sequence[Any], **more: Any) -> Any:
        encoded = [answers.encode(argument) for argument in arguments]
        reply = self.sandbox.ask({"name": self.name, "arguments": encoded, **more})
        if reply.get("missing"):
            reply["why"] = why_missing(self.name, self.sandbox.cells, self.sandbox.errors)
        return received(reply)

    def __call__(self, *arguments: Any) -> Any:
        return self._ask(arguments)

    def drive(self, arguments: Sequence[Any], steps: Sequence[Any]) -> tuple:
        return self._ask(arguments, steps=[answers.encode(step) for step in steps])


def why_missing(name: str, cells: Sequence[str], errors: Sequence[str]) -> str:
    """Why nothing stands under a name: what stopped the cell that would have defined it."""
    defines = re.compile(rf"^[ \t]*((def|class)\s+{name}\b|{name}\s*[:=])", re.MULTILINE)
    numbers = [number for number, cell in enumerate(cells, start=1) if defines.search(cell)]
    for error in errors:
        stopped = re.match(r"code cell (\d+): (not run)?", error)
        if stopped and any(
            number == int(stopped[1]) or (stopped[2] and number > int(stopped[1]))
            for number in numbers
        ):
            return error
    return "its cell ran and did not keep it" if numbers else "no cell defines it"


def parsed(text: bytes, most_parts: int) -> Any:
    """Parse JSON that a stranger wrote; three bytes of it can cost a hundred of memory.

    Raises
    ------
    ValueError
        If it is no JSON, or has more parts than it may.
    """
    if sum(map(text.count, (b"[", b"{", b","))) > most_parts:
        raise ValueError("too many parts")
    return json.loads(text)


def read_reply(line: bytes) -> dict[str, Any]:
    """One line of a submission's process, or nothing where it is no reply."""
    try:
        reply = parsed(line, MOST_PARTS)
    except (ValueError, RecursionError):
        return {}
    return reply if isinstance(reply, dict) else {}
