"""What the chapters store is what they compute, as the build's cache has it, and nothing else."""

import json
import re
from pathlib import Path

import execution
import nbformat
import pytest
import refresh

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted([*ROOT.glob("book/*.ipynb"), *ROOT.glob("book/in_depth/*.ipynb")])


@pytest.fixture(scope="module")
def cache():
    """The cache, with every chapter in it: `make book` fills it."""
    found = execution.open_cache(execution.CACHE)
    execution.execute(found, CHAPTERS)
    return found


def uncounted(cell):
    """A cell that says that it was executed, and not as which; a new cell above changes that."""
    outputs = [{**output, "execution_count": 0} for output in cell.get("outputs", [])]
    count = cell.get("execution_count") and 0
    return {**cell, "execution_count": count, "outputs": outputs}


@pytest.mark.slow
@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_stores_what_it_computes(path, cache):
    stored = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(stored)  # all cells have ids of their own, for instance
    fresh = refresh.refreshed(stored, execution.executed(cache, path))
    for cell, computed in zip(stored.cells, fresh.cells, strict=True):
        assert uncounted(cell) == uncounted(computed), "make refresh stores it anew"
    assert stored.metadata == fresh.metadata, "make refresh stores it anew"
    outputs = json.dumps([cell.get("outputs") for cell in stored.cells])
    assert not re.search(r"0x[0-9a-f]{6,}|(^|[\s'\"])/\w+/\w+|\"stderr\"", outputs)


def test_refresh_stores_the_checked_outputs_alone_and_is_idempotent(tmp_path, monkeypatch):
    v4 = nbformat.v4
    path = tmp_path / "chapter.ipynb"
    stale = v4.new_output("stream", name="stdout", text="7\n")
    cells = [
        v4.new_code_cell("print(1)\n1", execution_count=5, outputs=[stale]),
        v4.new_code_cell(f"{refresh.MARKER}\nprint(2)\n[3]", execution_count=9, outputs=[stale]),
    ]
    notebook = v4.new_notebook(cells=cells, metadata={"widgets": {}, "myst": {"html_meta": {}}})
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    notebook.cells[0].metadata = {"execution": {"iopub.status.busy": "now"}, "tags": ["hide-input"]}
    nbformat.write(notebook, path)
    cache = execution.open_cache(tmp_path / "cache")
    execution.execute(cache, [path])
    assert refresh.refresh(path, execution.executed(cache, path))
    first = path.read_text(encoding="utf-8")
    result = nbformat.reads(first, as_version=4)
    plain, checked = result.cells
    assert plain.outputs == [] and plain.execution_count is None
    assert plain.metadata == {"tags": ["hide-input"]}
    assert checked.outputs[0].text == "2\n"
    assert checked.outputs[1].data == {"text/plain": "[3]"}
    assert checked.execution_count == 2
    assert set(result.metadata) == {"kernelspec", "language_info", "myst"}
    assert not refresh.refresh(path, execution.executed(cache, path))
    assert path.read_text(encoding="utf-8") == first
