"""A reader of the site can type along: the cells that one sees run by themselves, in order."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

pytestmark = pytest.mark.slow

BOOK = Path(__file__).parents[2] / "book"
CHAPTERS = sorted(path.name for path in BOOK.glob("0*.ipynb"))
HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
WIDTH = 94  # characters that a page shows without scrolling


def visible(path: Path) -> list[str]:
    """The code that a reader of the page sees, cell by cell."""
    cells = nbformat.read(path, as_version=4).cells
    return [
        cell.source
        for cell in cells
        if cell.cell_type == "code" and not HIDDEN & set(cell.metadata.get("tags", []))
    ]


@pytest.mark.parametrize("name", CHAPTERS)
def test_what_one_sees_fits_the_page_and_runs_by_itself(name, tmp_path):
    cells = [cell.removeprefix("# NBVAL_CHECK_OUTPUT\n") for cell in visible(BOOK / name)]
    for cell in cells:
        assert max(map(len, cell.splitlines())) <= WIDTH, cell
    code = "\n\n".join(cells)
    assert "from normtutor import" in code or "from normtutor." in code
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert max(map(len, ran.stdout.splitlines())) <= WIDTH, ran.stdout
