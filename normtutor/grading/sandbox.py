"""The judging side of a submission: starts its process, asks, waits no longer than it must.

What comes back is read as data with limits on size and time. A process that ends, hangs or babbles
is killed with all that it started; the question that killed it fails, and a new process answers the
next one.
"""

import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from normtutor.grading import child
from normtutor.grading.judging import printable, received

PACKAGE = Path(__file__).resolve().parent.parent
MOST_PRINTED = 4000  # characters kept of what a submission prints
MOST_STARTS = 6


class Limits(NamedTuple):
    """How much a submission may use."""

    seconds: float = 10.0  # for one cell or one call
    total_seconds: float = 120.0  # for all cells together, and again for all calls
    megabytes: int = 2048  # beyond what Python and torch take
    start_seconds: float = 60.0  # for Python and torch to be there, on a busy machine


class Silent(Exception):
    """The process ended or did not answer in time."""


class Sandbox:
    """A submission's code cells in a process of their own.

    Use as a context manager; ``answer(name)`` gives what :func:`normtutor.grading.judge` asks.
    """

    def __init__(
        self, cells: Sequence[str], limits: Limits | None = None, hidden: Sequence[str] = ()
    ) -> None:
        self.cells, self.limits = list(cells), limits or Limits()
        self.hidden = [str(PACKAGE), *hidden]
        self.errors: list[str] = []
        self.changed: list[str] = []
        self.printed, self.printed_bytes = "", 0
        self.starts = 0
        whole = 2 * self.limits.total_seconds + MOST_STARTS * self.limits.start_seconds
        self.deadline = time.monotonic() + whole
        self._process: subprocess.Popen | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="submission-", ignore_cleanup_errors=True)

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        self._folder.cleanup()

    def answer(self, name: str) -> "Remote":
        """What stands under ``name`` in the submission."""
        return Remote(self, name)

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Put one question; the reply is data, or says that there was none."""
        try:
            if self._process is None:
                self._start()
            self._send(question)
            # The process stops a slow call by itself, if it is let.
            return self._receive(2 * self.limits.seconds + 1)
        except Silent as silent:
            self._stop()
            return {"error": str(silent)}

    def _start(self) -> None:
        if self.starts >= MOST_STARTS:
            raise Silent("the submission has ended its process too often")
        self.starts += 1
        answers, theirs = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-u", child.__file__, str(theirs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs,),
            cwd=self._folder.name,
            # Nothing of the grader's environment is passed on, secrets least of all.
            env={"OMP_NUM_THREADS": "1", "HOME": self._folder.name, "LANG": "C.UTF-8"},
            start_new_session=True,
        )
        os.close(theirs)
        os.set_blocking(answers, False)
        self._answers, self._rest = answers, b""
        self._drainer = threading.Thread(target=self._drain, args=(self._process,), daemon=True)
        self._drainer.start()
        source = "\n".join(self.cells)
        self._send(
            {
                "cells": self.cells,
                "mentions": [word for word in ("torch", "scipy", "matplotlib") if word in source],
                "hidden": self.hidden,
                "seconds": self.limits.seconds,
                "total": self.limits.total_seconds,
                "megabytes": self.limits.megabytes,
            }
        )
        try:
            reply = self._receive(self.limits.total_seconds + self.limits.start_seconds)
        except Silent as silent:
            self.starts = MOST_STARTS  # its cells would do so again
            self.errors = [f"while the cells ran, {silent}"]
            raise
        if self.starts == 1:
            self.errors = [printable(e)[:500] for e in listed(reply.get("errors"))[:50]]
            self.changed = [printable(name)[:100] for name in listed(reply.get("changed"))[:20]]

    def _drain(self, process: subprocess.Popen) -> None:
        """Read what a submission prints, keep the beginning, count the rest."""
        assert process.stdout is not None
        with process.stdout as stream:
            while data := stream.read1(65536):  # type: ignore[attr-defined]
                self.printed_bytes += len(data)
                if len(self.printed) < MOST_PRINTED:
                    self.printed += data.decode(errors="replace")
                    self.printed = self.printed[:MOST_PRINTED]

    def _send(self, content: dict[str, Any]) -> None:
        assert self._process is not None and self._process.stdin is not None
        # A reply must repeat this, so that nothing written in advance is taken for one.
        self._question = secrets.token_hex(8)
        content = {**content, "question": self._question}
        try:
            self._process.stdin.write(json.dumps(content).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, OSError) as error:
            raise Silent("the submission ended its process") from error

    def _receive(self, seconds: float) -> dict[str, Any]:
        """Wait for the reply to the last question; what is no reply to it is thrown away."""
        end = min(time.monotonic() + seconds, self.deadline)
        received = 0
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while True:
                while b"\n" in self._rest:
                    line, self._rest = self._rest.split(b"\n", 1)
                    reply = read_reply(line)
                    if reply.get("question") == self._question:
                        return reply
                left = end - time.monotonic()
                if left <= 0:
                    raise Silent("the submission did not finish in time")
                if not selector.select(left):
                    continue
                data = os.read(self._answers, 1 << 20)
                if not data:
                    raise Silent("the submission ended its process")
                self._rest += data
                received += len(data)
                if received > 2 * child.MOST_BYTES:
                    raise Silent("the submission answered with too much data")

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
        process.wait()
        self._drainer.join(5)
        os.close(self._answers)
        if process.stdin is not None:
            try:
                process.stdin.close()
            except OSError:
                pass


class Remote:
    """An answer that runs in a submission's process."""

    def __init__(self, sandbox: Sandbox, name: str) -> None:
        self.sandbox, self.name = sandbox, name

    def _ask(self, arguments: Sequence[Any], **more: Any) -> Any:
        encoded = [child.encode(argument) for argument in arguments]
        return received(self.sandbox.ask({"name": self.name, "arguments": encoded, **more}))

    def __call__(self, *arguments: Any) -> Any:
        return self._ask(arguments)

    def drive(self, arguments: Sequence[Any], steps: Sequence[Any]) -> tuple:
        return self._ask(arguments, steps=[child.encode(step) for step in steps])


def read_reply(line: bytes) -> dict[str, Any]:
    """One line of a submission's process, or nothing where it is no reply."""
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return reply if isinstance(reply, dict) else {}


def listed(value: Any) -> list:
    """A list that came from a submission, or an empty one in place of anything else."""
    return value if isinstance(value, list) else []
