"""The section to which an entry of the ledger sends its reader speaks of the claim.

``spoken.tsv`` gives each claim a few words (or beginnings of words) by which one sees it. Entries
once sent readers to sections that did not mention the claim at all. If a section is rewritten in
other words, write those down; if it has fallen silent, send the reader elsewhere.
"""

import functools
import re
from pathlib import Path

import nbformat
import pytest
from normtutor_studies import claims
from normtutor_studies.claims.ledger import Place

BOOK = Path(__file__).resolve().parents[2] / "book"
ROWS = [
    line.split("\t")
    for line in Path(__file__).with_name("spoken.tsv").read_text(encoding="utf-8").splitlines()
]


@functools.cache
def prose(page: str) -> str:
    """A page's text cells and the captions of its figures, in order."""
    cells = nbformat.read(BOOK / f"{page}.ipynb", as_version=4).cells
    return "\n\n".join(
        cell.source
        if cell.cell_type == "markdown"
        else cell.metadata.get("mystnb", {}).get("figure", {}).get("caption", "")
        for cell in cells
    )


def section(place: Place) -> str:
    """What stands below a heading, with it, up to the next heading of its level."""
    text = prose(place.page)
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
    assert [name for name, _ in ROWS] == [claim.name for claim in claims.CLAIMS]
    assert all(len(words.split(", ")) >= 2 for _, words in ROWS)


@pytest.mark.parametrize(("name", "words"), ROWS, ids=[name for name, _ in ROWS])
def test_the_section_speaks_of_the_claim(name, words):
    place = claims.named(name).place
    assert not missing(place, words), f"{place.page}, {place.section!r} is silent"


def test_a_silent_section_is_noticed():
    words = dict(ROWS)
    tanh = Place("08_after_2020", "Dynamic tanh: proofs", in_depth=True)
    tokens = Place(
        "03_batch_norm_vs_layer_norm", "How many tokens is a batch worth?", in_depth=True
    )
    mean = Place("05_rms_norm", "Is there a mean to remove?")
    assert missing(tanh, words["layer-norm-regularizes"])
    assert missing(tokens, words["small-batches-in-language"])
    assert missing(mean, words["noise-removed"])
