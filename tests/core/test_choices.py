"""The table of the three choices against what the norms really do."""

import inspect

import numpy as np
import pytest

from normtutor import layers, norms
from normtutor.norms import RELATIVES, TABLE, Source, Statistic, sharing_cells
from normtutor.norms.choices import GROUPS, SHARE

SHAPE = (2, 3, 8)
ROWS = TABLE | RELATIVES

# What each cell of x is multiplied by, of a shape that broadcasts to x's.
INVERSE = {
    "BatchNorm": lambda x: norms.batch_norm(x, feature_axis=-1)[1].r,
    "LayerNorm": lambda x: norms.layer_norm(x)[1].r,
    "InstanceNorm": lambda x: norms.instance_norm(x, feature_axis=-1)[1].r,
    "GroupNorm": lambda x: np.repeat(
        norms.group_norm(x, num_groups=GROUPS, feature_axis=-1)[1].r[..., 0],
        x.shape[-1] // GROUPS,
        axis=-1,
    ),
    "RMSNorm": lambda x: norms.rms_norm(x)[1].normalized.r,
    "pRMSNorm": lambda x: 1 / norms.partial_rms_norm(x, p=SHARE)[1].rms,
    "PowerNorm-V": lambda x: norms.power_norm_v(x)[1].r,
    # Of the average that this batch has moved: it divides the next batch.
    "PowerNorm": lambda x: (
        1 / np.sqrt(norms.power_norm(x, running_mean_square=np.ones(x.shape[-1], x.dtype))[2])
    ),
    "ScaleNorm": lambda x: norms.scale_norm(x, np.ones(1, x.dtype))[1].r,
    "AdaLN": lambda x: norms.layer_norm(x)[1].r,
    "AdaLN-Zero": lambda x: norms.layer_norm(x)[1].r,
}
# What has a statistic of the activations.
TAKING = {name: row for name, row in ROWS.items() if row.axes}


@pytest.mark.parametrize("name", TAKING)
def test_the_table_says_which_cells_move_a_statistic(name):
    x = np.random.default_rng(0).standard_normal(SHAPE) + 1.0
    inverse = INVERSE[name]
    before = np.broadcast_to(inverse(x), SHAPE)
    for moved in np.ndindex(SHAPE):
        shifted = x.copy()
        shifted[moved] += 2.0
        after = np.broadcast_to(inverse(shifted), SHAPE)
        changed = ~np.isclose(before, after, rtol=1e-12)
        for cell in ((0, 0, 0), (0, 1, 3), (1, 2, 7), (1, 0, 4)):
            said = sharing_cells(name, SHAPE, cell, num_groups=GROUPS, p=SHARE)[moved]
            assert said == changed[cell], (TAKING[name].axes, moved, cell)


@pytest.mark.parametrize("name", ROWS)
def test_the_statistic_named_is_the_statistic_taken(name):
    """Adding a constant to the shared cells moves a root mean square, not a standard deviation."""
    x, row = np.random.default_rng(0).standard_normal(SHAPE) + 1.0, ROWS[name]
    none = row.statistic is Statistic.NONE
    assert none == (row.source is Source.NOWHERE)
    assert set(INVERSE) == set(TAKING)
    if name in TAKING:
        kept = np.allclose(INVERSE[name](x), INVERSE[name](x + 5.0), rtol=1e-10)
        assert kept == row.statistic.centred
        narrow = x.astype(np.float32)
        assert (
            norms.formula_of(row)(narrow, 1e-5).dtype == INVERSE[name](narrow).dtype == np.float32
        )


@pytest.mark.parametrize("name", ROWS)
def test_the_row_says_where_layer_and_formula_have_the_features(name):
    row = ROWS[name]
    for function in (getattr(layers, row.layer.name), getattr(norms, row.function)):
        parameters = inspect.signature(function).parameters
        axis = parameters["feature_axis"].default if "feature_axis" in parameters else -1
        assert axis == row.layer.feature_axis
