"""Where a reader is sent, something stands: statements that are heard, and entries of the ledger.

``statements.tsv`` lists the statements of five popular texts, in our words: a number (which text,
which statement), the statement, and the place of its answer: an entry of the ledger (claim-NAME), a
label, or a heading of a page.
"""

import re
from pathlib import Path

from book_text import PAGES, exists
from normtutor_studies import claims

TABLE = Path(__file__).with_name("statements.tsv").read_text(encoding="utf-8")
STATEMENTS = [line.split("\t") for line in TABLE.splitlines()]


def test_a_statement_leads_to_an_answer():
    assert [(said, place) for _, said, place in STATEMENTS if not exists(place)] == []


def test_a_claim_leads_to_a_section():
    for claim in claims.CLAIMS:
        heading = rf"^#+ {re.escape(claim.place.section)}\s*$"
        page = PAGES[f"{claim.place.page}.ipynb"]
        assert re.search(heading, page, re.MULTILINE), claim.name
