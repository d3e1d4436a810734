"""A reader of the site can type along: what one sees rests on nothing that is hidden."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

BOOK = Path(__file__).parents[2] / "book"
CHAPTERS = sorted(path.name for path in BOOK.glob("0*.ipynb"))
HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
WIDTH = 94  # characters that a page shows without scrolling
RUFF = Path(sys.executable).with_name("ruff")


def undefined(code: str) -> str:
    """The names that code uses and does not make."""
    command = [RUFF, "check", "--isolated", "--select=F821", "--output-format=concise", "-"]
    return subprocess.run(command, input=code, capture_output=True, text=True).stdout


@pytest.mark.parametrize("name", CHAPTERS)
def test_what_one_sees_fits_the_page_and_uses_no_name_of_a_hidden_cell(name):
    cells = [
        cell
        for cell in nbformat.read(BOOK / name, as_version=4).cells
        if cell.cell_type == "code" and not HIDDEN & set(cell.metadata.get("tags", []))
    ]
    code = "\n\n".join(cell.source.removeprefix("# NBVAL_CHECK_OUTPUT\n") for cell in cells)
    assert "from normtutor import" in code or "from normtutor." in code
    assert "All checks passed" in undefined(code) and "F821" in undefined(f"{code}\nno_such_name")
    printed = "".join(output.get("text", "") for cell in cells for output in cell.outputs)
    assert max(map(len, [*code.splitlines(), *printed.splitlines()])) <= WIDTH
