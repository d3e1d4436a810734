"""The first page answers its question at once; the guide gives each answer its kind of evidence."""

import re

import nbformat
import pytest
from answers import BOOK, entries_of, headings_beside, numbers_in, places, problems, prose_of

CELLS = nbformat.read(BOOK / "index.ipynb", as_version=4).cells
FRONT = "\n\n".join(cell.source for cell in CELLS if cell.cell_type == "markdown")
GUIDE = (BOOK / "which_norm.md").read_text(encoding="utf-8")
ROWS = entries_of(GUIDE)
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


def test_reasons_have_a_plain_verdict_each():
    reasons = re.findall(r"^- \*(.*?)\*(.*)$", FRONT, re.MULTILINE)
    assert len(reasons) >= 6
    for reason, verdict in reasons:
        assert re.match(r":? \*\*(true|false|open)\*\*", verdict), reason
    assert sum("**false**" in verdict for _, verdict in reasons) >= 3


def test_the_findings_are_figures_with_a_headline_and_a_link_each():
    figures = [cell.metadata["mystnb"]["figure"] for cell in CELLS if "mystnb" in cell.metadata]
    assert 4 <= len(figures) <= 6
    for figure in figures:
        headline = re.match(r"\*\*(.+)\*\*.*\[Chapter \d\]\(0\d_\w+\.ipynb\)$", figure["caption"])
        assert headline and len(headline[1].split()) <= 9
        assert len(figure["caption"].split()) <= 45
    assert (
        FRONT.index("{dropdown}") < FRONT.index("## What we found") < FRONT.index("## The chapters")
    )


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_guide_keeps_the_form_and_names_its_kind_of_evidence(row):
    assert problems(ROWS[row]) + evidence_problems(ROWS[row]) == []


def evidence_problems(row: str) -> list[str]:
    """Say what the evidence of a row of the guide lacks."""
    good, gone = places(row)
    found = [f"{link} is gone; there are {headings_beside([link])}" for link in gone]
    if not re.search(rf"\*({'|'.join(KINDS)})\b", row, re.IGNORECASE):
        found.append("no kind of evidence")
    if not good and "{cite" not in row:
        found.append("no evidence")
    return found


def test_a_row_without_evidence_is_noticed():
    assert evidence_problems("**Do.** *Proved:* {prf:ref}`thm-rms-convert`.") == []
    assert evidence_problems("**Do.** *Reported:* {cite:p}`wu2018`.") == []
    assert evidence_problems("**Do.** See {prf:ref}`thm-rms-convert`.") != []
    assert evidence_problems("**Do.** *Proved.*") != []
    assert evidence_problems("**Do.** *Proved:* {prf:ref}`thm-no-such`.") != []


def test_the_guide_is_words_and_no_table_of_numbers():
    prose = prose_of(GUIDE.split("---\n", 2)[2])
    assert len(numbers_in(prose)) <= 0.015 * len(prose.split())
