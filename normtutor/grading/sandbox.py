"""The judging side of a submission: starts its process, asks, waits no longer than it must.

What comes back is read as data with limits on size and time. A process that ends, hangs or babbles
is killed with all that it started; the question that killed it fails, and a new process answers the
next one.
"""

import atexit
import contextlib
import json
import os
import re
import secrets
import select
import selectors
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from normtutor.grading import answers
from normtutor.grading.judging import GraderFailed, printable, received
from normtutor.grading.wall import Wall

MOST_PRINTED = 4000  # characters kept of what a submission prints
MOST_WRITTEN = 200_000_000  # bytes in a submission's folder
MOST_THREADS = 256
BLOCK = 40_000  # bytes that even an empty file counts for: removing many takes minutes
MOST_STARTS = 6
MOST_PARTS = 100_000  # lists, dictionaries and commas in one reply
MOST_STRAY = 1000  # lines that answer no question
NAP = 5.0  # seconds that a process may sleep after all its alarms have rung
WATCH = 0.2  # seconds between two looks at what a submission takes
PREPARED = ("torch", "scipy", "matplotlib.pyplot")  # worth importing once for all submissions


class Limits(NamedTuple):
    """How much a submission may use; seconds are of computing, see ``answers.PATIENCE``."""

    seconds: float = 10.0  # for one cell or one call
    total_seconds: float = 120.0  # for all cells together, and again for all calls
    megabytes: int = 2048  # beyond what Python and torch take
    start_seconds: float = 240.0  # for Python and torch to be there, on a busy machine


class Silent(Exception):
    """The process ended or did not answer in time."""


class Starter:
    """A process that has imported NumPy and torch and forks one for each submission.

    It holds nothing of the grader: neither checks nor references nor the environment. Without
    ``fork`` it becomes the submission's process itself, where a system does not fork safely.
    """

    def __init__(self, fork: bool = True) -> None:
        self.fork = fork
        self.folder = tempfile.TemporaryDirectory(prefix="grader-", ignore_cleanup_errors=True)
        self.control, theirs = socket.socketpair()
        try:
            with theirs:
                self.process = self._popen(theirs.fileno())
        except OSError:  # this user may not run the interpreter, or has too many processes
            self.control.close()
            self.folder.cleanup()
            raise
        self.lock = threading.Lock()

    def _popen(self, control: int) -> subprocess.Popen:
        home = self.folder.name
        return subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("child.py")), str(control)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(control,),
            cwd=home,
            # Nothing of the grader's environment is passed on, secrets least of all.
            env={"OMP_NUM_THREADS": "1", "HOME": home, "MPLCONFIGDIR": home, "LANG": "C.UTF-8"},
            start_new_session=True,
        )

    def _ask(self, order: dict[str, Any], descriptors: Sequence[int], seconds: float) -> Any:
        try:
            with self.lock:
                self.control.settimeout(seconds)
                socket.send_fds(self.control, [json.dumps(order).encode()], list(descriptors))
                reply = self.control.recv(4096)
            return json.loads(reply)
        except (OSError, ValueError) as error:
            self.close()
            raise Silent("the process that starts submissions has ended") from error

    def start(self, order: dict[str, Any], descriptors: Sequence[int], seconds: float) -> int:
        """Start a submission's process with three descriptors; the id of the process."""
        return int(self._ask({**order, "fork": self.fork}, descriptors, seconds)["pid"])

    def end(self, pid: int) -> None:
        """Kill a submission's process."""
        if not self.fork:
            self.close()
            return
        with contextlib.suppress(Silent):
            self._ask({"end": pid}, [], 60.0)

    def alive(self) -> bool:
        """Whether it can start another one."""
        return self.process.poll() is None and self.control.fileno() >= 0

    def close(self) -> None:
        """End it, and with it what it has started."""
        self.control.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


_shared: dict[int, Starter] = {}  # by the process that made it: a fork has none


def starter() -> Starter:
    """The starter of this process, made when it is first needed."""
    if sys.platform != "linux":
        return Starter(fork=False)
    here = _shared.get(os.getpid())
    if here is None or not here.alive():
        here = _shared[os.getpid()] = Starter()
        atexit.register(here.close)
    return here


def begun(order: dict[str, Any], descriptors: Sequence[int], seconds: float) -> tuple[Starter, int]:
    """Start a submission's process: what started it, and its id. A dead starter is replaced."""
    try:
        here = starter()
        return here, here.start(order, descriptors, seconds)
    except (OSError, Silent):
        here = starter()
        return here, here.start(order, descriptors, seconds)


def status_of(pid: int) -> list[str]:
    """What Linux says about a process, from its state on."""
    text = Path(f"/proc/{pid}/stat").read_bytes().decode(errors="replace")  # its name is its own
    return text.rpartition(")")[2].split()


def computing_time(pid: int) -> float:
    """How many seconds a process has computed; by the clock where the system does not say."""
    try:
        fields = status_of(pid)
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return time.monotonic() if sys.platform != "linux" else 0.0


def asleep(pid: int) -> bool:
    """Whether a process sleeps or is stopped: it would not compute on an idle machine either."""
    try:
        return status_of(pid)[0] in "STt"
    except OSError:
        return False


def size_of(folder: str, pid: int = 0) -> int:
    """How many bytes lie in a folder, and in files that a process has removed and still holds."""
    found, folders = 0, [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    found += max(entry.stat(follow_symlinks=False).st_size, BLOCK)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):  # it has just been removed
            continue
        except OSError:  # too deep, or closed to us: nobody needs such a folder
            return sys.maxsize
        if found > MOST_WRITTEN:
            return found
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                status = os.stat(f"/proc/{pid}/fd/{name}")
                if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                    found += status.st_size
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", "rb") as maps:
        for line in maps:  # closed and removed, and still mapped
            if line.rstrip().endswith(b" (deleted)") and folder.encode() in line:
                begin, end = (int(part, 16) for part in line.split(b" ")[0].split(b"-"))
                found += end - begin
    return found


def remove(folder: str) -> None:
    """Remove a folder, also where it is too deep for Python, or closed to its owner."""
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(folder)
        return
    for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
        subprocess.run([*command, "--", folder], check=False, stderr=subprocess.DEVNULL)


class Sandbox:
    """A submission's code cells in a process of their own.

    Use as a context manager; ``answer(name)`` gives what :func:`normtutor.grading.judge` asks.
    ``walled`` says, once the cells have run, what the kernel held around them.
    """

    def __init__(self, cells: Sequence[str], limits: Limits | None = None) -> None:
        self.cells, self.limits = list(cells), limits or Limits()
        self.walled: Wall | None = None
        self.errors: list[str] = []
        self.stopped: list[str] = []
        self.printed, self.printed_bytes = "", 0
        self.starts = 0
        whole = 2 * answers.PATIENCE * self.limits.total_seconds
        whole += MOST_STARTS * self.limits.start_seconds
        self.deadline, self.computed = time.monotonic() + whole, 0.0
        self._starter: Starter | None = None
        self._pid = 0
        self._folder = tempfile.mkdtemp(prefix="submission-")

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()
        remove(self._folder)

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
            if self.computed > 2 * self.limits.total_seconds:
                self.starts = MOST_STARTS
                raise Silent("the submission used up its time")
            if self._starter is None:
                self._start()
            self._send(question)
            # The process stops a slow call by itself, if it is let.
            return self._receive(2 * self.limits.seconds + 1)
        except Silent as silent:
            self._stop()
            self.stopped.append(str(silent))
            return {"error": str(silent)}

    def _start(self) -> None:
        if self.starts >= MOST_STARTS:
            raise Silent("the submission has ended its process too often")
        self.starts += 1
        try:
            self._begin()
        except (OSError, ValueError, Silent) as error:
            self._stop()
            raise GraderFailed(f"no process could be started for it: {error}") from error
        started, computed, errors = time.monotonic(), self.computed, list[str]()
        for number, cell in enumerate(self.cells, start=1):
            by_the_clock = (time.monotonic() - started) / answers.PATIENCE
            if max(by_the_clock, self.computed - computed) > self.limits.total_seconds:
                errors.append(f"code cell {number}: not run, the notebook had used up its time")
                break
            try:
                self._send({"cell": cell, "number": number})
                # Here, too, the process stops by itself, if it is let.
                wrong = self._receive(2 * self.limits.seconds + 1).get("error")
            except Silent as silent:
                self.starts = MOST_STARTS  # the cell would do so again
                self.errors = [*errors[:50], f"while code cell {number} ran, {silent}"]
                raise
            if wrong:
                errors.append(f"code cell {number}: {printable(str(wrong)[:500])}")
        if self.starts == 1:
            self.errors = errors[:50]

    def _begin(self) -> None:
        """Start the process, up to where the first cell would run."""
        source = "\n".join(self.cells)
        order = {
            **self.limits._asdict(),
            "prepare": [name for name in PREPARED if name.split(".")[0] in source],
            "own": self._folder,
            "patience": answers.PATIENCE,
        }
        questions, self._questions = os.pipe()
        printed, theirs_printed = os.pipe()
        self._answers, theirs = os.pipe()
        self._rest = bytearray()
        self._drainer = threading.Thread(target=self._drain, args=(printed,), daemon=True)
        self._drainer.start()
        try:
            descriptors = [questions, theirs_printed, theirs]
            self._starter, self._pid = begun(order, descriptors, self.limits.start_seconds)
        except BaseException:
            os.close(self._questions)
            os.close(self._answers)
            raise
        finally:
            for descriptor in (questions, theirs_printed, theirs):
                os.close(descriptor)
        self._seen = computing_time(self._pid)
        os.set_blocking(self._answers, False)
        os.set_blocking(self._questions, False)
        self._send({})
        reply = self._receive(self.limits.start_seconds)
        if "failed" in reply:
            raise OSError(reply["failed"])
        # No line of the submission has run yet: this is the grader's own word.
        self.walled = Wall(*reply["wall"])

    def _drain(self, descriptor: int) -> None:
        """Read what a submission prints, keep the beginning, count the rest."""
        with open(descriptor, "rb", buffering=0) as stream:
            while data := stream.read(65536):
                self.printed_bytes += len(data)
                if len(self.printed) < MOST_PRINTED:
                    self.printed += data.decode(errors="replace")
                    self.printed = self.printed[:MOST_PRINTED]

    def _send(self, content: dict[str, Any]) -> None:
        # A reply must repeat this, so that nothing written in advance is taken for one.
        self._question = secrets.token_hex(8)
        content = {**content, "question": self._question}
        try:
            longest = answers.PATIENCE * self.limits.seconds + NAP
            rest = memoryview(json.dumps(content).encode() + b"\n")
            while rest:
                _, ready, _ = select.select([], [self._questions], [], longest)
                if not ready:
                    raise Silent("the submission no longer reads its questions")
                rest = rest[os.write(self._questions, rest) :]
        except OSError as error:
            raise Silent("the submission ended its process") from error

    def _receive(self, seconds: float) -> dict[str, Any]:
        """Wait for the reply to the last question; what is no reply to it is thrown away.

        Wait for as long as the process has not computed for so many seconds, up to ``PATIENCE``
        times as long by the clock.
        """
        end = min(time.monotonic() + answers.PATIENCE * seconds, self.deadline)
        # What it has computed since the last reply counts: it may have begun before we look.
        begun, before = self._seen, self.computed
        if sys.platform != "linux":
            begun = computing_time(self._pid)

        def spent() -> float:
            now = max(computing_time(self._pid) - begun, 0.0)
            self.computed, self._seen = max(self.computed, before + now), begun + now
            return now

        received, stray, looked, watched = 0, 0, 0, time.monotonic()
        awake, last = watched, 0.0
        longest = answers.PATIENCE * min(seconds, self.limits.seconds) + NAP
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while True:
                while (line_end := self._rest.find(b"\n", looked)) >= 0:
                    line, looked = bytes(self._rest[:line_end]), 0
                    del self._rest[: line_end + 1]
                    reply = read_reply(line)
                    if reply.get("question") == self._question:
                        spent()
                        self._watch()
                        return reply
                    stray += 1
                    if stray > MOST_STRAY:
                        raise Silent("the submission answered with too much data")
                looked = len(self._rest)
                left = end - time.monotonic()
                if spent() > last or not asleep(self._pid):
                    awake, last = time.monotonic(), spent()
                if time.monotonic() - awake > longest:
                    raise Silent("the submission slept through its time")
                if last > seconds or left <= 0:
                    raise Silent("the submission did not finish in time")
                ready = selector.select(min(left, WATCH))
                if time.monotonic() - watched > WATCH:
                    self._watch()
                    watched = time.monotonic()
                if not ready:
                    continue
                data = os.read(self._answers, 1 << 20)
                if not data:
                    raise Silent("the submission ended its process")
                self._rest += data
                received += len(data)
                if received > 2 * answers.MOST_BYTES:
                    raise Silent("the submission answered with too much data")

    def _watch(self) -> None:
        """Stop a process that takes what all need: the disk, or the system's threads."""
        if size_of(self._folder, self._pid) > MOST_WRITTEN:
            raise Silent("the submission wrote too much into its folder")
        with contextlib.suppress(OSError):
            if len(os.listdir(f"/proc/{self._pid}/task")) > MOST_THREADS:
                raise Silent("the submission started too many threads")

    def _stop(self) -> None:
        here, self._starter = self._starter, None
        if here is None:
            return
        if self._pid:
            here.end(self._pid)
        self._pid = 0
        os.close(self._questions)
        self._drainer.join(5)
        os.close(self._answers)


class Remote:
    """An answer that runs in a submission's process."""

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
