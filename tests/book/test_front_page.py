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
        "(#sec-questions-modes)",
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


@pytest.mark.parametrize("row", [row for row in ROWS if not row.startswith("Which ε")])
def test_an_answer_of_the_guide_says_what_kind_of_evidence_it_has(row):
    text = ROWS[row].lower()
    evidence = any(f"*{kind}" in text for kind in KINDS) or "[chapter" in text
    assert evidence
    assert len(ROWS[row].split()) <= 110
