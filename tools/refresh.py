"""Store in notebooks the outputs that are checked, and no others.

Usage: python tools/refresh.py book/02_family_of_norms.ipynb ...

A cell whose first line is `# NBVAL_CHECK_OUTPUT` keeps its outputs and execution count, so that
nbval compares them from then on. Every other output, and metadata that changes from run to run or
from machine to machine, is removed. They come from the build's cache, or are computed
where that is out of date. A second run changes nothing.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbval.plugin import coalesce_streams  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "book" / "_ext"))
import execution

MARKER = "# NBVAL_CHECK_OUTPUT"
CELL_METADATA = {"tags", "mystnb", "myst", "glue", "jupyter", "slideshow"}
NOTEBOOK_METADATA = {"kernelspec", "language_info", "myst", "jupytext", "title"}


def is_checked(cell: NotebookNode) -> bool:
    """Say whether nbval compares this cell's output."""
    source = cell.source.lstrip("\n")
    return cell.cell_type == "code" and source.split("\n", 1)[0].rstrip() == MARKER


def checked_outputs(cell: NotebookNode) -> list[NotebookNode]:
    """The outputs of a cell without what differs between two runs of it."""
    outputs = []
    for output in coalesce_streams(nbformat.from_dict(cell).outputs):
        if "metadata" in output:
            output.metadata = NotebookNode()
        # Pictures are never compared; they would only make the file large.
        for kind in [kind for kind in output.get("data", {}) if kind.startswith("image/")]:
            del output.data[kind]
        outputs.append(output)
    return outputs


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
    for cell, run in zip(result.cells, executed.cells, strict=True):
        cell.metadata = NotebookNode(
            {key: value for key, value in cell.metadata.items() if key in CELL_METADATA}
        )
        cell.pop("attachments", None)
        if cell.cell_type != "code":
            continue
        cell.outputs, cell.execution_count = [], None
        if is_checked(cell):
            cell.outputs, cell.execution_count = checked_outputs(run), run.execution_count
    return nbformat.validator.normalize(result)[1]  # a cell without an id gets one


def refresh(path: Path, executed: NotebookNode) -> bool:
    """Rewrite one notebook in place; say whether it changed."""
    before = path.read_text(encoding="utf-8")
    result = refreshed(nbformat.reads(before, as_version=4), executed)
    nbformat.validate(result)
    after = nbformat.writes(result).rstrip("\n") + "\n"
    if after != before:
        path.write_text(after, encoding="utf-8")
    return after != before


def main(names: Iterable[str]) -> None:
    paths, build = [Path(name).resolve() for name in names], execution.CACHE
    own = build.with_name(".refreshed")
    cache = execution.open_cache(build if execution.is_current(build) else own)
    execution.execute(cache, paths)
    for path in paths:
        changed = refresh(path, execution.executed(cache, path))
        print(f"{path.name}: {'outputs changed' if changed else 'unchanged'}")


if __name__ == "__main__":
    main(sys.argv[1:])
