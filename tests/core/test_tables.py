"""Tables: rounded, aligned, marked, and the same on every machine."""

import pandas as pd
import pytest
from bs4 import BeautifulSoup
from normtutor_studies import html_tables as tables

FRAME = pd.DataFrame(
    {"loss (nats/token)": [2.34567, -0.0001], "norm": ["LayerNorm", "BatchNorm"], "seeds": [5, 6]},
    index=["shuffled", "equal length"],
)


def parsed(table):
    return BeautifulSoup(table._repr_html_(), "html.parser")


def test_numbers_are_rounded_and_words_stay():
    page = parsed(tables.table(FRAME, form=".2f"))
    rows = [[cell.text for cell in row.find_all(["th", "td"])] for row in page.select("tbody tr")]
    assert rows == [
        ["shuffled", "2.35", "LayerNorm", "5"],
        ["equal length", "0.00", "BatchNorm", "6"],
    ]
    assert [cell.text for cell in page.select("thead th")][1:] == list(FRAME.columns)


def test_only_the_row_that_matters_is_marked():
    page = parsed(tables.table(FRAME, mark="equal length"))
    marked = [row.select("td.marked") for row in page.select("tbody tr")]
    assert [len(cells) for cells in marked] == [0, 3]
    with pytest.raises(ValueError, match="must be in the table"):
        tables.table(FRAME, mark="padded")


WORDS = pd.DataFrame({"norm": ["BatchNorm 1", "LayerNorm 2"], "least": ["below 0.1", "0.2"]})


@pytest.mark.parametrize(
    ("frame", "kinds"), [(FRAME, ["number", "text", "number"]), (WORDS, ["text", "number"])]
)
def test_numbers_and_words_are_aligned_apart(frame, kinds):
    cells = parsed(tables.table(frame)).select("tbody tr")[0].select("td")
    assert [cell["class"][-1] for cell in cells] == kinds
