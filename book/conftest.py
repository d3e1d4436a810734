"""What the tests of the chapters run in: kernels of their own, or the executed copies.

`pytest --nbval book/NAME.ipynb` executes a chapter and compares its stored outputs. Where
NORMTUTOR_EXECUTED names a build folder, as in `make test`, nothing is executed a second time: nbval
reads what `.ci/chapters.py` has kept there, and compares it in the same way.

By default a kernel gets five TCP ports that were free a moment before, and dies where somebody was
quicker. Files in a folder of its own are safe. The system takes paths up to some 100 letters.
"""

import itertools
import os
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

import nbval.kernel
from jupyter_client.manager import KernelManager
from nbval.plugin import IPyNbFile

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / ".ci"))
import chapters

addresses = tempfile.TemporaryDirectory(prefix="kernels-")
numbers = itertools.count()


def kernel_manager(**settings: object) -> KernelManager:
    """Manage a kernel that listens on files instead of ports."""
    file = Path(addresses.name) / f"{next(numbers)}.json"
    return KernelManager(transport="ipc", connection_file=str(file), **settings)


class ReplayedKernel:
    """Answers like a kernel, with the outputs of a notebook that was executed before."""

    def __init__(self, executed: dict[str, Any]) -> None:
        self.cells = deque(cell for cell in executed["cells"] if cell["cell_type"] == "code")
        self.messages: deque[dict[str, Any]] = deque()
        self.number = 0

    def execute_cell_input(self, source: str, allow_stdin: bool | None = None) -> str:
        """Find the next cell that says this, past those that a test skips."""
        while self.cells and self.cells[0]["source"] != source:
            self.cells.popleft()
        if not self.cells:
            raise RuntimeError("The chapter has changed since it was executed.")
        self.number += 1
        for output in self.cells.popleft()["outputs"]:
            self.say(output["output_type"], output)
        self.say("status", {"execution_state": "idle"})
        return str(self.number)

    def say(self, kind: str, content: dict[str, Any]) -> None:
        header = {"msg_id": str(self.number)}
        self.messages.append({"msg_type": kind, "content": content, "parent_header": header})

    def get_message(self, stream: str, timeout: float | None = None) -> dict[str, Any]:
        return self.messages.popleft()

    def await_reply(self, message: str, timeout: float | None = None) -> None:
        """The outputs are there already."""

    def await_idle(self, message: str, timeout: float | None = None) -> None:
        self.messages.clear()

    def is_alive(self) -> bool:
        return True

    def stop(self) -> None:
        self.messages.clear()


def replay(file: IPyNbFile) -> None:
    """Set a notebook's tests up with its executed copy, which must be up to date."""
    build = (chapters.ROOT / os.environ["NORMTUTOR_EXECUTED"]).resolve()
    executed = chapters.kept(file.path, build) if chapters.is_fresh(file.path, build) else None
    if executed is None:
        raise RuntimeError(f"{file.path.name} was not executed: run .ci/chapters.py first.")
    file.kernel = ReplayedKernel(executed)
    file.setup_sanitize_files()


nbval.kernel.KernelManager = kernel_manager
if os.environ.get("NORMTUTOR_EXECUTED"):
    IPyNbFile.setup = replay
