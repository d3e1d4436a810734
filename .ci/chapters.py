"""Execute chapters, each only when something has changed that it reaches, and keep what comes out.

The executed copy of a notebook lies in ``_build/executed`` under the notebook's own name. Its
metadata say, under ``execution``, what it depends on: its code; the files of this repository that
it opened or imported, saved runs included, with their digest; the versions of the packages that it
imported. The kernel itself reports them, so that nothing has to be declared, and a change in the
grader, in a test, in a sentence or in a comment executes nothing. ``cpu_seconds`` is what the
kernel and the processes that it started took; ``_build/cpu_seconds.json`` lists it for every
chapter: ``{"book/01_internal_covariate_shift.ipynb": 8.41, ...}``.

Usage: python .ci/chapters.py [NOTEBOOK ...]   (all those in the table of contents without names)
"""

import ast
import asyncio
import functools
import hashlib
import itertools
import json
import os
import platform
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4.rwbase import rejoin_lines

ROOT = Path(__file__).resolve().parent.parent
EXECUTED = "executed"  # the folder below the build folder
# Seconds; for a cell that hangs. A whole chapter takes 30 on a quiet core, and a minute more where
# the text is read out of the packages for the first time; but a machine may do much else meanwhile.
CELL_TIMEOUT = 3600
LINES_OF_A_FAILURE = 50
numbers = itertools.count()

# Runs in the kernel before the first cell: what is opened from now on is remembered, and figures
# are drawn for two widths of the page.
WATCH = """
import os as _os, sys as _sys
_os.environ["NORMTUTOR_BOTH_DRAWINGS"] = "yes"
_opened_files = set()
_sys.addaudithook(
    lambda event, arguments: event == "open"
    and isinstance(arguments[0], str)
    and _opened_files.add(arguments[0])
)
"""
# The value that the kernel reports after the last cell. A reader's kernel draws each figure once.
REPORT = """__import__("json").dumps({
    "opened": sorted(_opened_files),
    "modules": {
        name: getattr(module, "__file__", None) or ""
        for name, module in list(_sys.modules.items())
    },
    "cpu_seconds": sum(__import__("os").times()[:4])
    - getattr(_sys.modules.get("normtutor_studies.plotting.drawings"), "seconds", 0.0),
})"""


# --- which notebooks there are --------------------------------------------------------------------


def notebooks_in_toc(root: Path = ROOT) -> list[Path]:
    """List the notebooks to execute that the table of contents names, in its order.

    The stubs of the exercises fail until a student has filled them in.
    """

    toc = (root / "_toc.yml").read_text(encoding="utf-8")
    candidates = [root / f"{name}.ipynb" for name in re.findall(r"(?:root|file): (\S+)", toc)]
    return [path for path in candidates if path.exists() and path.parent.name != "exercises"]


# --- what a chapter depends on --------------------------------------------------------------------


def read(path: Path) -> NotebookNode:
    """Read a notebook that was checked when it was written, in a tenth of nbformat's time."""
    return rejoin_lines(nbformat.from_dict(json.loads(path.read_text(encoding="utf-8"))))


def code_of(notebook: NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def digest_of_code(notebook: NotebookNode) -> str:
    """Identify what a notebook computes: prose, captions, tags and outputs do not count."""
    return hashlib.sha256(json.dumps(code_of(notebook)).encode()).hexdigest()


@functools.cache
def versions() -> dict[str, str]:
    """Give the version of the distribution behind each top-level module that is installed."""
    return {
        module: ", ".join(sorted(f"{name} {metadata.version(name)}" for name in set(names)))
        for module, names in metadata.packages_distributions().items()
    }


@functools.cache
def digest_of_module(source: bytes) -> bytes:
    """Hash the code of a module, whatever its comments and lines; most chapters reach the same."""
    try:
        code = ast.dump(ast.parse(source)).encode()
    except (SyntaxError, ValueError):
        code = source
    return hashlib.sha256(code).digest()


def digest_of_file(path: Path) -> bytes:
    """Hash what a file means to a kernel."""
    content = path.read_bytes() if path.is_file() else b"missing"
    return digest_of_module(content) if path.suffix == ".py" else hashlib.sha256(content).digest()


def digest_behind(files: Iterable[str], packages: Iterable[str], root: Path = ROOT) -> str:
    """Hash the files of the repository and the versions of the packages behind a chapter."""
    digest = hashlib.sha256(f"{platform.python_version()} {platform.platform()}".encode())
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + digest_of_file(root / name))
    for name in sorted(packages):
        digest.update(f"{name}\0{versions().get(name, '')}\0".encode())
    return digest.hexdigest()


def reached(report: dict[str, Any], folder: Path, root: Path = ROOT) -> tuple[list[str], list[str]]:
    """List the files of the repository and the packages that a kernel has reached from a folder."""
    files, packages = set(), set()
    opened = [os.path.join(folder, name) for name in report["opened"]]
    for name in itertools.chain(opened, filter(None, report["modules"].values())):
        path = Path(os.path.normpath(name))
        if path.is_relative_to(root) and path.is_file():
            relative = path.relative_to(root)
            if not {"__pycache__", "_build", ".ci", ".venv", ".git"} & set(relative.parts):
                files.add(relative.as_posix())
    for name in report["modules"]:
        top = name.split(".")[0]
        if top in versions() and top not in ("normtutor", "normtutor_studies"):
            packages.add(top)
    return sorted(files), sorted(packages)


# --- the executed copies --------------------------------------------------------------------------


def kept_at(path: Path, build: Path, root: Path = ROOT) -> Path:
    """Where the executed copy of a notebook is kept."""
    return build / EXECUTED / path.resolve().relative_to(root)


def kept(path: Path, build: Path, root: Path = ROOT) -> NotebookNode | None:
    """Read the executed copy of a notebook, if there is one with the same code."""
    copy = kept_at(path, build, root)
    if not copy.exists():
        return None
    executed = read(copy)
    same = executed.metadata.get("execution", {}).get("code") == digest_of_code(read(path))
    return executed if same else None


def is_fresh(path: Path, build: Path, root: Path = ROOT) -> bool:
    """Say whether a notebook would do again what its executed copy shows."""
    executed = kept(path, build, root)
    if executed is None:
        return False
    record = executed.metadata.execution
    return record.digest == digest_behind(record.files, record.packages, root)


def with_outputs(notebook: NotebookNode, executed: NotebookNode) -> NotebookNode:
    """Return a copy of the notebook with the outputs of its execution; all else stays its own."""
    result = nbformat.from_dict(notebook)
    cells = [cell for cell in result.cells if cell.cell_type == "code"]
    runs = [cell for cell in executed.cells if cell.cell_type == "code"]
    for cell, run in zip(cells, runs, strict=True):
        cell.outputs, cell.execution_count = run.outputs, run.execution_count
    return result


def write_cpu_seconds(build: Path) -> None:
    """List what the kernel of each chapter took."""
    seconds = {}
    for copy in sorted((build / EXECUTED).rglob("*.ipynb")):
        record = read(copy).metadata.execution
        seconds[copy.relative_to(build / EXECUTED).as_posix()] = record.cpu_seconds
    (build / "cpu_seconds.json").write_text(json.dumps(seconds, indent=1) + "\n")


# --- executing ------------------------------------------------------------------------------------


def new_client(notebook: NotebookNode, path: Path, sockets: Path) -> NotebookClient:
    """Make a client for a copy of a notebook, which is to run in the notebook's own folder.

    Its kernel listens on files: no other process can take its address. The system takes paths up to
    some 100 letters.
    """
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    file = str(sockets / f"{next(numbers)}.json")
    return NotebookClient(
        notebook,
        km=AsyncKernelManager(
            kernel_name="python3", transport="ipc", ip=file, connection_file=file
        ),
        timeout=CELL_TIMEOUT,
        startup_timeout=CELL_TIMEOUT,
        resources={"metadata": {"path": str(path.resolve().parent)}},
    )


async def ask(client: NotebookClient, code: str, value: str = "None") -> Any:
    """Run code beside the cells, which leaves no trace in their count; return a value's literal."""
    kernel: Any = client.kc
    assert kernel is not None
    message = kernel.execute(
        code, silent=True, store_history=False, user_expressions={"value": value}
    )
    reply = await client.async_wait_for_reply(message)
    assert reply is not None
    # The kernel is still busy when it has replied. Who stops it then interrupts it, and it says so.
    while True:
        news = await kernel.get_iopub_msg(timeout=CELL_TIMEOUT)
        if news["parent_header"].get("msg_id") == message and (
            news["content"].get("execution_state") == "idle"
        ):
            break
    answer = reply["content"]["user_expressions"]["value"]
    if answer["status"] != "ok":
        raise RuntimeError(f"The kernel could not report: {answer}")
    return eval(answer["data"]["text/plain"], {"__builtins__": {}})


async def run_notebook(path: Path, sockets: Path, root: Path) -> NotebookNode:
    """Execute a copy of a notebook from top to bottom."""
    notebook = nbformat.read(path, as_version=4)
    client = new_client(notebook, path, sockets)
    client.reset_execution_trackers()
    started, began = time.monotonic(), time.time()
    async with client.async_setup_kernel(cleanup_kc=True):
        # Who interrupts stops all notebooks; nbclient would stop the one that came last.
        for interruption in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(interruption)
        await ask(client, WATCH)
        count = 0
        for position, cell in enumerate(notebook.cells):
            if cell.cell_type == "code" and cell.source.strip():
                count += 1
            await client.async_execute_cell(cell, position, execution_count=count)
        report = json.loads(await ask(client, "", REPORT))
        client.set_widgets_metadata()
    files, packages = reached(report, path.parent, root)
    # What was written meanwhile may have been read before or after.
    sure = all((root / name).stat().st_mtime < began for name in files)
    notebook.metadata["execution"] = NotebookNode(
        code=digest_of_code(notebook),
        digest=digest_behind(files, packages, root) if sure else "",
        cpu_seconds=round(report["cpu_seconds"], 2),
        wall_seconds=round(time.monotonic() - started, 2),
        files=files,
        packages=packages,
    )
    return notebook


def description_of(error: Exception) -> str:
    """Say what went wrong in a cell in at most as many lines as a screen has."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = text.strip().splitlines()
    if len(lines) > LINES_OF_A_FAILURE:
        lines = [*lines[: LINES_OF_A_FAILURE // 2], "...", *lines[-LINES_OF_A_FAILURE // 2 :]]
    return "\n".join(lines)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def execute(paths: Iterable[Path], build: Path, root: Path = ROOT) -> dict[Path, str]:
    """Execute notebooks side by side and keep their copies; return what failed and why."""
    # More than one thread makes small tensors wait for each other: 100 s instead of 0.7 s.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    failures: dict[Path, str] = {}

    async def one(path: Path, gate: asyncio.Semaphore, sockets: Path) -> None:
        async with gate:
            try:
                notebook = await run_notebook(path, sockets, root)
            except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
                failures[path] = description_of(error)
                return
        copy = kept_at(path, build, root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        unfinished = copy.with_suffix(".part")
        nbformat.write(notebook, unfinished)
        unfinished.replace(copy)
        print(f"Executed {path.relative_to(root)}", flush=True)

    async def all_of_them() -> None:
        gate = asyncio.Semaphore(cores())
        with tempfile.TemporaryDirectory(prefix="kernels-") as sockets:
            await asyncio.gather(*(one(path, gate, Path(sockets)) for path in paths))

    asyncio.run(all_of_them())
    write_cpu_seconds(build)
    return failures


def bring_up_to_date(
    notebooks: Iterable[Path], build: Path, root: Path = ROOT
) -> tuple[list[Path], dict[Path, str]]:
    """Execute the notebooks whose copies are not fresh; return these, and failures."""
    stale = [path for path in notebooks if not is_fresh(path, build, root)]
    return stale, execute(stale, build, root) if stale else {}


def report_failures(failures: dict[Path, str], root: Path = ROOT) -> None:
    for path, text in failures.items():
        print(f"\n{path.relative_to(root)} failed:\n{text}", file=sys.stderr)


def main() -> int:
    notebooks = [Path(name).resolve() for name in sys.argv[1:]] or notebooks_in_toc()
    started = time.monotonic()
    executed, failures = bring_up_to_date(notebooks, ROOT / "_build")
    report_failures(failures)
    print(
        f"Chapters: {len(executed) - len(failures)} executed, "
        f"{len(notebooks) - len(executed)} as they were ({time.monotonic() - started:.0f} s)"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
