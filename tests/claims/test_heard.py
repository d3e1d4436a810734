"""What readers have heard before they come to the book: each statement leads to its answer.

``heard.tsv`` lists the statements of five popular texts, in our words: a number (which text, which
statement), the statement, and the place of its answer. A place is an entry of the ledger
(claim-NAME), a label, or a heading of a page.
"""

import posixpath
import re
from pathlib import Path

import nbformat
import pytest
from myst_parser.mdit_to_docutils.base import default_slugify
from normtutor_studies import claims

BOOK = Path(__file__).resolve().parents[2] / "book"
LINES = Path(__file__).with_name("heard.tsv").read_text(encoding="utf-8").splitlines()
ROWS = [tuple(line.split("\t")) for line in LINES]


def words_of(path: Path) -> str:
    """The prose of a page, with the names of its figures."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    cells = nbformat.read(path, as_version=4).cells
    words = [cell.source for cell in cells if cell.cell_type == "markdown"]
    figures = (cell.metadata.get("mystnb", {}).get("figure", {}) for cell in cells)
    words += [f":name: {figure['name']}" for figure in figures if "name" in figure]
    return "\n\n".join(words)


PAGES = {
    path.relative_to(BOOK).as_posix(): words_of(path)
    for pattern in ("*.md", "*.ipynb", "in_depth/*.ipynb")
    for path in BOOK.glob(pattern)
}
LABELS = {
    name or anchor
    for text in PAGES.values()
    for name, anchor in re.findall(
        r"^ *:(?:label|name): *(\S+)|^\(([^)\s]+)\)=$", text, re.MULTILINE
    )
} | {f"claim-{claim.name}" for claim in claims.CLAIMS}


def exists(place: str) -> bool:
    page, found, heading = place.partition("#")
    if not found:
        return place in LABELS
    heads = re.findall(r"^##+ (.*)$", PAGES.get(posixpath.normpath(page), ""), re.MULTILINE)
    return heading in {default_slugify(head) for head in heads}


def test_the_list_is_whole():
    assert len(ROWS) >= 131 and {len(row) for row in ROWS} == {3}
    for field in (0, 1):
        assert len({row[field] for row in ROWS}) == len(ROWS)
    for text in ("000", "001", "002", "003", "004"):
        numbers = [int(row[0][4:]) for row in ROWS if row[0].startswith(text)]
        assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) >= 15


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_statement_leads_to_an_answer(row):
    assert exists(row[2]), f"{row[1]}: {row[2]} is gone"


def test_an_answer_that_is_gone_is_noticed():
    for place in ("claim-nothing", "thm-no-such", "questions.md#no-such", "no.md#theory"):
        assert not exists(place)
    assert exists("questions.md#theory") and exists("claim-unit-sphere")
