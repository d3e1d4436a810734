"""A reader of the site can type along: the cells that one sees run by themselves, in order."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

BOOK = Path(__file__).parents[2] / "book"
CHAPTERS = sorted(path.name for path in BOOK.glob("0*.ipynb"))
HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
LINES = 12


def visible(path: Path) -> list[str]:
    """The code that a reader of the page sees, cell by cell."""
    cells = nbformat.read(path, as_version=4).cells
    return [
        cell.source
        for cell in cells
        if cell.cell_type == "code" and not HIDDEN & set(cell.metadata.get("tags", []))
    ]


@pytest.mark.parametrize("name", CHAPTERS)
def test_what_one_sees_runs_by_itself(name, tmp_path):
    code = "\n\n".join(visible(BOOK / name))
    assert code.removeprefix("# NBVAL_CHECK_OUTPUT\n").startswith(
        ("from normtutor", "import", "from")
    )
    assert "from normtutor import" in code or "from normtutor." in code
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]


@pytest.mark.parametrize("name", CHAPTERS)
def test_there_are_some_short_cells_to_see(name):
    cells = visible(BOOK / name)
    assert 6 <= len(cells) <= 10
    for cell in cells:
        lines = [line for line in cell.splitlines() if line.strip()]
        assert len([line for line in lines if not line.startswith("# NBVAL")]) <= LINES, cell


def test_a_name_from_a_hidden_cell_is_noticed(tmp_path):
    cells = [
        nbformat.v4.new_code_cell("scale = 2", metadata={"tags": ["hide-input"]}),
        nbformat.v4.new_code_cell("import math\nprint(math.sqrt(scale))"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "page.ipynb")
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join(visible(tmp_path / "page.ipynb"))],
        capture_output=True,
        text=True,
    )
    assert ran.returncode and "NameError" in ran.stderr
