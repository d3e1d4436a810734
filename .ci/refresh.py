"""Execute notebooks and store only the outputs that are checked.

Usage: python .ci/refresh.py book/02_family_of_norms.ipynb ...

A cell whose first line is `# NBVAL_CHECK_OUTPUT` keeps its outputs and execution count, so that
nbval compares them from then on. Every other output, and metadata that changes from run to run or
from machine to machine, is removed. Running the script twice changes nothing the second time.
"""

import argparse
import hashlib
import os
import sys
import tempfile
from pathlib import Path

import nbformat
from chapters import CELL_TIMEOUT
from kernels import new_kernel
from nbclient import NotebookClient
from nbformat import NotebookNode

MARKER = "# NBVAL_CHECK_OUTPUT"
CELL_METADATA = {"tags", "mystnb", "myst", "glue", "jupyter", "slideshow"}
NOTEBOOK_METADATA = {"kernelspec", "language_info", "myst", "jupytext", "title"}


def is_checked(cell: NotebookNode) -> bool:
    """Say whether nbval compares this cell's output."""
    source = cell.source.lstrip("\n")
    return cell.cell_type == "code" and source.split("\n", 1)[0].rstrip() == MARKER


def execute(notebook: NotebookNode, folder: Path, timeout: int, copied: bool) -> NotebookNode:
    """Run a copy of the notebook from top to bottom in its own folder."""
    executed = nbformat.from_dict(notebook)
    for cell in executed.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    with tempfile.TemporaryDirectory(prefix="kernels-") as sockets:
        client = NotebookClient(
            executed,
            km=new_kernel(Path(sockets), copied),
            timeout=timeout,
            startup_timeout=timeout,
            resources={"metadata": {"path": str(folder)}},
        )
        client.execute(cleanup_kc=True)
    return executed


def clean_output(output: NotebookNode, count: int) -> NotebookNode:
    """Drop what differs between two runs of the same cell."""
    output = nbformat.from_dict(output)
    if "metadata" in output:
        output.metadata = NotebookNode()
    if output.output_type == "execute_result":
        output.execution_count = count
    if "data" in output:
        # Pictures are never compared; they would only make the file large.
        output.data = NotebookNode(
            {kind: value for kind, value in output.data.items() if not kind.startswith("image/")}
        )
    return output


def merged_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join neighbouring pieces of one stream, which arrive split at random."""
    merged: list[NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and merged and merged[-1].get("name") == output.name:
            merged[-1].text += output.text
        else:
            merged.append(output)
    return merged


def cell_id(cell: NotebookNode, position: int, taken: set[str]) -> str:
    """Keep a cell's id where it has a unique one, else derive one from what it says."""
    identifier = cell.get("id", "")
    if not identifier or identifier in taken:
        text = f"{position}\0{cell.cell_type}\0{cell.source}"
        identifier = hashlib.sha256(text.encode()).hexdigest()[:8]
    while identifier in taken:
        identifier = hashlib.sha256(identifier.encode()).hexdigest()[:8]
    taken.add(identifier)
    return identifier


def refreshed(notebook: NotebookNode, executed: NotebookNode) -> NotebookNode:
    """Return the notebook with the checked outputs of its execution and no others."""
    result = nbformat.from_dict(notebook)
    result.nbformat, result.nbformat_minor = 4, 5
    result.metadata = NotebookNode(
        {key: value for key, value in notebook.metadata.items() if key in NOTEBOOK_METADATA}
    )
    result.metadata.kernelspec = {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    }
    # The version of Python is left out: it would change with the reader's machine.
    result.metadata.language_info = {"name": "python", "pygments_lexer": "ipython3"}
    taken: set[str] = set()
    for position, (cell, run) in enumerate(zip(result.cells, executed.cells, strict=True)):
        cell.id = cell_id(cell, position, taken)
        cell.metadata = NotebookNode(
            {key: value for key, value in cell.metadata.items() if key in CELL_METADATA}
        )
        cell.pop("attachments", None)
        if cell.cell_type != "code":
            continue
        cell.outputs, cell.execution_count = [], None
        if is_checked(cell):
            outputs = merged_streams([o for o in run.outputs if o.output_type != "error"])
            cell.outputs = [clean_output(output, run.execution_count) for output in outputs]
            cell.execution_count = run.execution_count
    return result


def refresh(path: Path, timeout: int = CELL_TIMEOUT, copied: bool = False) -> bool:
    """Rewrite one notebook in place; say whether it changed."""
    before = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(before, as_version=4)
    executed = execute(notebook, path.resolve().parent, timeout, copied)
    result = refreshed(notebook, executed)
    nbformat.validate(result)
    after = nbformat.writes(result).rstrip("\n") + "\n"
    if after != before:
        path.write_text(after, encoding="utf-8")
    return after != before


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--timeout", type=int, default=CELL_TIMEOUT, help="seconds for each cell")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for path in options.notebooks:
        changed = refresh(path, options.timeout, copied=len(options.notebooks) > 1)
        print(f"{path}: {'outputs changed' if changed else 'unchanged'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
