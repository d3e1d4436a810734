"""Execute readers' notebooks as a reader does: in an empty folder, with nothing but the wheels.

The packages are the wheels that lie beside the notebooks; what they need comes from this
environment.
Usage: python tools/readers.py [NOTEBOOK ...]   (all those of the built site without names)
"""

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "_build" / "html" / "notebooks"

# Binder's public service ends a session at 2 GB; JupyterLab itself takes some 150 MB of them.
MEGABYTES = 1800
TIMEOUT = 3600  # seconds, for a cell that hangs

# Runs with the reader's Python, which is also the kernel's.
EXECUTE = """
import resource
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
for cell in notebook.cells:
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = [], None
limit = int(sys.argv[2])
client = NotebookClient(notebook, timeout=limit, startup_timeout=limit, kernel_name="python3")
client.execute()
nbformat.write(notebook, sys.argv[3])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


class Run(NamedTuple):
    """The execution of a notebook."""

    seconds: float
    megabytes: float  # what its kernel took at most
    problem: str


@contextmanager
def reader(wheels: Iterable[Path]) -> Iterator[Path]:
    """Make an environment with the wheels; what they need is borrowed. Yield its Python."""
    with tempfile.TemporaryDirectory(prefix="reader-") as folder:
        venv.create(folder, with_pip=False)
        python = Path(folder) / "bin" / "python"
        ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        packages = Path(subprocess.run(ask, capture_output=True, text=True, check=True).stdout[:-1])
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        command += ["--disable-pip-version-check", "--no-deps", "--no-index", *map(str, wheels)]
        subprocess.run(command, check=True)
        # An editable install there is no package here: only its .pth file would lead to it.
        (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
        yield python


def execute(notebook: Path, python: Path) -> Run:
    """Execute a copy of a notebook in an empty folder."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CI")}
    environment |= {
        "OMP_NUM_THREADS": "1",
        "PYTHONNOUSERSITE": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="empty-") as folder,
        tempfile.TemporaryDirectory() as to,
    ):
        command = [str(python), "-c", EXECUTE, str(notebook.resolve()), str(TIMEOUT)]
        run = subprocess.run(
            [*command, str(Path(to) / notebook.name)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        if run.returncode:
            lines = run.stderr.strip().splitlines()
            return Run(time.monotonic() - started, 0, "\n".join(lines[-25:]))
        executed = json.loads((Path(to) / notebook.name).read_text("utf-8"))
    # macOS counts in bytes, Linux in kilobytes.
    megabytes = int(run.stdout.split()[-1]) / (1024**2 if sys.platform == "darwin" else 1024)
    problem = warnings_in(executed)
    if megabytes > MEGABYTES:
        problem += f"It takes {megabytes:.0f} MB, more than Binder has."
    return Run(time.monotonic() - started, megabytes, problem)


def warnings_in(notebook: dict) -> str:
    """What a notebook wrote to its standard error."""
    outputs = (output for cell in notebook["cells"] for output in cell.get("outputs", []))
    return "".join(
        "".join(output["text"]) for output in outputs if output.get("name") == "stderr"
    ).strip()


def execute_all(notebooks: Iterable[Path], wheels: Iterable[Path]) -> dict[Path, str]:
    """Execute notebooks one after the other; return the problems."""
    problems = {}
    with reader(wheels) as python:
        for path in notebooks:
            done = execute(path, python)
            said = "FAILED" if done.problem else "executed"
            print(
                f"{path.name}: {said} in {done.seconds:.0f} s, {done.megabytes:.0f} MB", flush=True
            )
            if done.problem:
                problems[path] = done.problem
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("notebooks", nargs="*", type=Path)
    arguments = parser.parse_args()
    wheels = sorted(NOTEBOOKS.glob("*.whl"))
    problems = execute_all(arguments.notebooks or sorted(NOTEBOOKS.rglob("*.ipynb")), wheels)
    for path, problem in problems.items():
        print(f"\n{path}:\n{problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
