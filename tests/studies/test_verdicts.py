"""A page lists claims with their verdicts, in the words of the ledger."""

import re

import pytest
from normtutor_studies import claims

from tests.studies.test_measured import built

ONE = claims.named("padding-shifts")


def words(text):
    return {*re.findall(r"[A-Za-z]+", text)}


@pytest.mark.parametrize("option", ["", ":list:\n"])
def test_each_claim_is_listed_with_its_verdict_and_answer(option, tmp_path):
    page = f"# Page\n\n```{{verdicts}} {ONE.name} fails-on-text\n{option}```\n"
    text, _ = built(page, tmp_path)
    # In a table of text, the words of a cell stand on several lines.
    assert words(ONE.words + ONE.answer) <= words(text)
    assert text.count(f"**{claims.label(ONE)}**") == text.count("**open**") == 1


def test_a_claim_that_there_is_not_is_a_warning(tmp_path):
    _, warned = built("# Page\n\n```{verdicts} padding-shfits\n```\n", tmp_path)
    assert "no claim is called 'padding-shfits'" in warned
