"""The first page answers its question at once; the guide gives each answer its kind of evidence."""

import re
from pathlib import Path

import nbformat
import pytest

BOOK = Path(__file__).resolve().parents[2] / "book"
CELLS = nbformat.read(BOOK / "index.ipynb", as_version=4).cells
FRONT = "\n\n".join(cell.source for cell in CELLS if cell.cell_type == "markdown")
GUIDE = (BOOK / "which_norm.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^### (.*?)\n(.*?)(?=^##|\Z)", GUIDE, re.MULTILINE | re.DOTALL))
KINDS = ("measured", "proved", "reported", "opinion")


def answer_of(page: str) -> str:
    return page.split("**The answer.**")[1].split("\n\n")[0]


def test_the_answer_comes_first_and_is_short():
    assert FRONT.index("**The answer.**") < FRONT.index("## ")
    assert 60 <= len(answer_of(FRONT).split()) <= 120


def test_the_ways_into_the_book_stand_under_the_answer():
    ways = FRONT.split(":::{div} ways")[1].split(":::")[0]
    for target in (
        "(fifteen_minutes.ipynb)",
        "(which_norm.md)",
        "(questions.md)",
        "(playground.md)",
        "(#sec-work-symptoms)",
    ):
        assert target in ways


def test_twelve_reasons_have_a_verdict_each():
    reasons = re.findall(r"^- \*(.*?)\*(.*)$", FRONT, re.MULTILINE)
    assert len(reasons) == 12
    for reason, verdict in reasons:
        assert re.search(r"\*\*(true|false|half|open|not supported)\*\*", verdict), reason


def test_the_findings_are_figures_with_a_sentence_and_a_link_each():
    figures = [cell.metadata["mystnb"]["figure"] for cell in CELLS if "mystnb" in cell.metadata]
    assert 4 <= len(figures) <= 6
    for figure in figures:
        assert re.match(r"\*\*.+\*\*.*\[Chapter \d\]\(0\d_\w+\.ipynb\)$", figure["caption"])
        assert len(figure["caption"].split()) <= 45
    place = FRONT.index("## What we found")
    assert FRONT.index("{dropdown} Twelve reasons") < place < FRONT.index("## The chapters")


def guide_problems(row: str) -> list[str]:
    """Say what a row of the guide lacks: a kind of evidence, the setting that matters."""
    problems = []
    if not re.search(rf"\*({'|'.join(KINDS)})\b", row, re.IGNORECASE):
        problems.append("no kind of evidence")
    if row.count("*Setting that matters:*") != 1:
        problems.append("no setting that matters, or two")
    elif len(row.split("*Setting that matters:*")[1].split()) < 2:
        problems.append("a setting without a word about it")
    if len(row.split()) > 120:
        problems.append("too long")
    return problems


# The last row is a table of settings.
ANSWERS = [row for row in ROWS if not row.startswith("Which ε")]


def test_the_guide_has_twenty_rows_of_which_the_last_is_a_table_of_settings():
    assert len(ROWS) == len(ANSWERS) + 1 >= 20


@pytest.mark.parametrize("row", ANSWERS)
def test_a_row_of_the_guide_names_its_evidence_and_the_setting_that_matters(row):
    assert guide_problems(ROWS[row]) == []


def test_a_row_that_lacks_something_is_noticed():
    assert guide_problems("BatchNorm. *Setting that matters:* the axes. *Reported.*") == []
    assert guide_problems("BatchNorm. *Setting that matters:* the axes.") != []
    assert guide_problems("BatchNorm, [chapter 3](03.ipynb). *Measured:* so.") != []
    assert guide_problems("BatchNorm. *Measured:* so. *Setting that matters:*") != []
