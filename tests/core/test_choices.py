"""The table of the three choices against what the norms really do."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from normtutor.norms import RELATIVES, TABLE, Source, Statistic, sharing_cells
from normtutor.norms.choices import GROUPS, SHARE

SHAPE = (2, 3, 8)
ROWS = TABLE | RELATIVES

# What has a statistic of the activations.
TAKING = {name: row for name, row in ROWS.items() if row.axes}


@pytest.mark.parametrize("name", TAKING)
def test_the_table_says_which_cells_move_a_statistic(name):
    x = np.random.default_rng(0).standard_normal(SHAPE) + 1.0
    inverse = TAKING[name].inverse
    before = np.broadcast_to(inverse(x), SHAPE)
    for moved in np.ndindex(SHAPE):
        shifted = x.copy()
        shifted[moved] += 2.0
        after = np.broadcast_to(inverse(shifted), SHAPE)
        changed = ~np.isclose(before, after, rtol=1e-12)
        for cell in ((0, 0, 0), (0, 1, 3), (1, 2, 7), (1, 0, 4)):
            said = sharing_cells(name, SHAPE, cell, num_groups=GROUPS, p=SHARE)[moved]
            assert said == changed[cell], (TAKING[name].axes, moved, cell)


@pytest.mark.parametrize("name", TAKING)
def test_the_formula_multiplies_by_the_inverse_statistic(name):
    row = TAKING[name]
    x = np.random.default_rng(0).standard_normal(SHAPE) + 1.0
    size = np.sqrt(SHAPE[-1]) if name == "ScaleNorm" else 1.0  # where its g starts
    if name == "PowerNorm":  # this batch is divided by the average before it, which starts at 1
        assert_allclose(row.formula(x, 0.0), x)
        return
    spread = x - x.mean(axis=axes_of(row), keepdims=True) if row.statistic.centred else x
    if name == "GroupNorm":
        groups = x.reshape(2, 3, GROUPS, -1)
        spread = (groups - groups.mean(axis=(1, 3), keepdims=True)).reshape(SHAPE)
    assert_allclose(row.formula(x, 1e-5), size * spread * row.inverse(x), rtol=1e-4)


def axes_of(row):
    return tuple("BLH".index(letter) for letter in row.axes.upper())


@pytest.mark.parametrize("name", ROWS)
def test_the_statistic_named_is_the_statistic_taken(name):
    """Adding a constant to the shared cells moves a root mean square, not a standard deviation."""
    x, row = np.random.default_rng(0).standard_normal(SHAPE) + 1.0, ROWS[name]
    none = row.statistic is Statistic.NONE
    assert (row.inverse is None) == none == (row.source is Source.NOWHERE)
    if name in TAKING:
        kept = np.allclose(row.inverse(x), row.inverse(x + 5.0), rtol=1e-10)
        assert kept == row.statistic.centred
        narrow = x.astype(np.float32)
        assert row.formula(narrow, 1e-5).dtype == row.inverse(narrow).dtype == np.float32


def test_every_norm_cites_a_paper_that_the_bibliography_has():
    entries = (Path(__file__).resolve().parents[2] / "book" / "references.bib").read_text("utf-8")
    for name, row in ROWS.items():
        assert f"{{{row.citation}," in entries, name
