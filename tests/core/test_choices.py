"""The table of the three choices against what the norms really do."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from normtutor import norms
from normtutor.norms import TABLE, sharing_cells

SHAPE = (2, 3, 8)
GROUPS, P = 2, 0.25

# The statistic that normalizes each cell, recomputed by its own norm after one cell was moved.
INVERSE_STATISTIC = {
    "BatchNorm": lambda x: norms.batch_norm(x, feature_axis=-1)[1].inverse_std,
    "LayerNorm": lambda x: norms.layer_norm(x)[1].inverse_std,
    "InstanceNorm": lambda x: np.squeeze(
        norms.instance_norm(x, feature_axis=-1)[1].inverse_std, axis=-1
    ),
    "GroupNorm": lambda x: np.repeat(
        norms.group_norm(x, num_groups=GROUPS, feature_axis=-1)[1].inverse_std[..., 0], 4, axis=-1
    ),
    "RMSNorm": lambda x: norms.rms_norm(x)[1].inverse_rms,
    "pRMSNorm": lambda x: 1 / norms.partial_rms_norm(x, p=P)[1].rms,
    "PowerNorm-V": lambda x: norms.power_norm_v(x)[1].inverse_psi,
    "PowerNorm": lambda x: 1 / np.sqrt(norms.power_norm(x, None, None, np.ones(8))[2]),
}


@pytest.mark.parametrize("name", INVERSE_STATISTIC)
def test_the_table_says_which_cells_move_a_statistic(name):
    x = np.random.default_rng(0).standard_normal(SHAPE) + 1.0
    before = np.broadcast_to(INVERSE_STATISTIC[name](x), SHAPE)
    for moved in np.ndindex(SHAPE):
        shifted = x.copy()
        shifted[moved] += 2.0
        after = np.broadcast_to(INVERSE_STATISTIC[name](shifted), SHAPE)
        changed = ~np.isclose(before, after, rtol=1e-12)
        for cell in ((0, 0, 0), (0, 1, 3), (1, 2, 7), (1, 0, 4)):
            said = sharing_cells(name, SHAPE, cell, num_groups=GROUPS, p=P)[moved]
            assert said == changed[cell], (name, cell, moved)


def test_weight_norm_shares_nothing_of_the_activations():
    assert not sharing_cells("WeightNorm", SHAPE, (0, 0, 0)).any()
    assert TABLE["WeightNorm"].axes == ""


def test_the_sizes_of_the_sets():
    count = {n: int(sharing_cells(n, SHAPE, (0, 0, 0)).sum()) for n in TABLE}
    assert count == {
        "BatchNorm": 6,
        "LayerNorm": 8,
        "InstanceNorm": 3,
        "GroupNorm": 12,
        "RMSNorm": 8,
        "pRMSNorm": 2,
        "PowerNorm-V": 6,
        "PowerNorm": 6,
        "WeightNorm": 0,
    }


def test_the_statistic_named_is_the_statistic_taken():
    """Adding a constant to the shared cells moves a root mean square, not a standard deviation."""
    x = np.random.default_rng(0).standard_normal(SHAPE) + 1.0
    for name, inverse_statistic in INVERSE_STATISTIC.items():
        before, after = inverse_statistic(x), inverse_statistic(x + 5.0)
        centred = TABLE[name].statistic.centred
        assert np.allclose(before, after) == centred, name
        if centred:
            assert_allclose(before, after, rtol=1e-10)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: sharing_cells("Batchnorm", SHAPE, (0, 0, 0)), "BatchNorm, LayerNorm"),
        (lambda: sharing_cells("LayerNorm", SHAPE, (2, 0, 0)), "outside"),
        (lambda: sharing_cells("LayerNorm", SHAPE, (-1, 0, 0)), "outside"),
        (lambda: sharing_cells("GroupNorm", SHAPE, (0, 0, 0), num_groups=3), "divide"),
        (lambda: sharing_cells("pRMSNorm", SHAPE, (0, 0, 0), p=0.1), "at least 1"),
    ],
)
def test_bad_input(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_every_norm_cites_a_paper_that_the_bibliography_has():
    from normtutor.norms import RELATIVES

    entries = (Path(__file__).resolve().parents[2] / "book" / "references.bib").read_text("utf-8")
    for name, row in (TABLE | RELATIVES).items():
        assert f"{{{row.citation}," in entries, name
