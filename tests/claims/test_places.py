"""Where a reader is sent, the answer stands: statements that are heard, and entries of the ledger.

``statements.tsv`` lists the statements of five popular texts, in our words: a number (which text,
which statement), the statement, and the place of its answer: an entry of the ledger (claim-NAME), a
label, or a heading of a page. ``section_words.tsv`` gives each claim a few words (or beginnings of
words) by which one sees that the section to which its entry leads speaks of it. If a section is
rewritten in other words, write those down; if it has fallen silent, send the reader elsewhere.
"""

import re
from pathlib import Path

import pytest
from book_text import PAGES, exists
from normtutor_studies import claims
from normtutor_studies.claims.ledger import Place


def rows_of(name: str) -> list[list[str]]:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()]


STATEMENTS, SECTION_WORDS = rows_of("statements.tsv"), rows_of("section_words.tsv")


def test_a_statement_leads_to_an_answer():
    assert [(said, place) for _, said, place in STATEMENTS if not exists(place)] == []


def section(place: Place) -> str:
    """What stands below a heading, with it, up to the next heading of its level."""
    text = PAGES[f"{place.page}.ipynb"]
    heading = re.search(rf"^(#+) {re.escape(place.section)}\s*$", text, re.MULTILINE)
    assert heading, f"{place.page} has no heading {place.section!r}"
    rest = text[heading.end() :]
    end = re.search(rf"^#{{1,{len(heading[1])}}} ", rest, re.MULTILINE)
    return heading[0] + (rest[: end.start()] if end else rest)


def missing(place: Place, words: str) -> list[str]:
    """The words that the section does not have."""
    text = " ".join(section(place).split()).lower()
    return [word for word in words.split(", ") if word.lower() not in text]


def test_each_claim_has_its_words():
    assert [name for name, _ in SECTION_WORDS] == [claim.name for claim in claims.CLAIMS]


@pytest.mark.parametrize(("name", "words"), SECTION_WORDS, ids=[name for name, _ in SECTION_WORDS])
def test_the_section_speaks_of_the_claim(name, words):
    place = claims.named(name).place
    listed = re.search(rf"\{{verdicts\}}[^\n]* {name}\b", section(place))  # drawn from the ledger
    assert listed or not missing(place, words), f"{place.page}, {place.section!r} is silent"
