"""The three choices that define a norm: which axes share a statistic, which one, and its source.

The one list of the norms. A formula takes from its row the axes of its statistic, and whether that
subtracts a mean or takes sums; WeightNorm and pRMSNorm say their axes themselves, since these are
no whole axes of x. The chapters, the figures, the audit of invariances, the models and the
exercises read the list, too.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from normtutor.validation import check_groups, partial_count

Array = Any


class Statistic(StrEnum):
    """What is computed from the cells that share; the value is how a page says it."""

    MOMENTS = "mean and variance"
    MEAN_SQUARE = "root mean square"
    LENGTH = "Euclidean norm"
    NONE = "none"

    @property
    def centred(self) -> bool:
        """Whether a mean is taken away, and with it a shift of all that share."""
        return self is Statistic.MOMENTS


class Source(StrEnum):
    """Where the statistic comes from; the value is how a page says it."""

    BATCH_THEN_AVERAGE = "the batch in training, a running average in evaluation"
    AVERAGE = "a running average, in training too"
    SEQUENCE = "the sequence itself"
    TOKEN = "the token itself"
    WEIGHTS = "the weights of one unit"
    NOWHERE = "no statistic"

    @property
    def follows(self) -> bool:
        """Whether a change of the present data or weights changes the statistic in training."""
        return self not in (Source.AVERAGE, Source.NOWHERE)


class Layer(NamedTuple):
    """Who builds the norm in :mod:`normtutor.layers`, and how.

    ``name`` is the class or function there. ``called`` is what :func:`normtutor.models.make_norm`
    calls it; empty where a layer needs more than its number of features. That number comes behind
    the arguments ``before`` it. ``feature_axis`` is where layer and formula have the features by
    default: on axis 1 where torch.nn has the norm of a channel, else last.
    """

    name: str
    called: str = ""
    before: tuple[Any, ...] = ()
    options: Mapping[str, Any] = MappingProxyType({})
    feature_axis: int = -1


class Choices(NamedTuple):
    """One row of the table, for x of shape (B, L, H).

    ``axes`` names what shares a statistic, as letters of "BLH". "h" is a part of H: a group in
    GroupNorm, the first entries in pRMSNorm. It is empty for a norm of the weights, and for what
    takes no statistic. ``function`` is the formula in :mod:`normtutor.norms`, and ``start(x)`` what
    it takes beside x, as it is at the start. ``parameters`` says where γ and β come from, if not
    from one entry per feature.
    """

    axes: str
    statistic: Statistic
    source: Source
    layer: Layer
    function: str
    start: Callable[[Array], Mapping[str, Any]] = lambda x: {}
    parameters: str = ""

    @property
    def centred(self) -> bool:
        """Whether the mean is subtracted."""
        return self.statistic.centred

    @property
    def sums(self) -> bool:
        """Whether the squares are summed, not averaged."""
        return self.statistic is Statistic.LENGTH

    def statistic_axes(self, ndim: int, *features: int) -> tuple[int, ...]:
        """The axes over which the statistic runs, in an x of ``ndim`` axes.

        B is the first, H are the axes ``features``, L all others; a part of H is an axis as those
        of L are, once the features are split.
        """
        hidden = [a % ndim for a in features]
        letters = ["H" if a in hidden else "B" if a == 0 else "L" for a in range(ndim)]
        return tuple([a for a, letter in enumerate(letters) if letter in self.axes])


# GroupNorm's number of groups and pRMSNorm's share of entries, on the few features of an example.
GROUPS, SHARE = 2, 0.25
LAST = {"feature_axis": -1}


def _modulation(x: Array) -> dict[str, Array]:
    zeros = np.zeros((x.shape[0], x.shape[-1]), x.dtype)
    return {"scale": zeros, "shift": zeros}


# fmt: off
TABLE: dict[str, Choices] = {
    "BatchNorm": Choices(
        "BL", Statistic.MOMENTS, Source.BATCH_THEN_AVERAGE,
        Layer("BatchNorm", "batch", feature_axis=1), "batch_norm", lambda x: LAST,
    ),
    "LayerNorm": Choices(
        "H", Statistic.MOMENTS, Source.TOKEN,
        Layer("LayerNorm", "layer"), "layer_norm",
    ),
    "InstanceNorm": Choices(
        "L", Statistic.MOMENTS, Source.SEQUENCE,
        Layer("InstanceNorm", "instance", feature_axis=1), "instance_norm", lambda x: LAST,
    ),
    "GroupNorm": Choices(
        "Lh", Statistic.MOMENTS, Source.SEQUENCE,
        Layer("GroupNorm", "group", before=(4,), feature_axis=1), "group_norm",
        lambda x: {"num_groups": GROUPS, **LAST},
    ),
    "RMSNorm": Choices(
        "H", Statistic.MEAN_SQUARE, Source.TOKEN,
        Layer("RMSNorm", "rms"), "rms_norm",
    ),
    "pRMSNorm": Choices(
        "h", Statistic.MEAN_SQUARE, Source.TOKEN,
        Layer("PartialRMSNorm", "partial-rms", options=MappingProxyType({"p": SHARE})),
        "partial_rms_norm", lambda x: {"p": SHARE},
    ),
    "PowerNorm-V": Choices(
        "BL", Statistic.MEAN_SQUARE, Source.BATCH_THEN_AVERAGE,
        Layer("PowerNorm", "power-v", options=MappingProxyType({"variant": "pn-v"})),
        "power_norm_v",
    ),
    "PowerNorm": Choices(
        "BL", Statistic.MEAN_SQUARE, Source.AVERAGE,
        Layer("PowerNorm", "power"), "power_norm",
        lambda x: {"running_mean_square": np.ones(x.shape[-1], x.dtype)},
    ),
    "WeightNorm": Choices(
        "", Statistic.LENGTH, Source.WEIGHTS,
        Layer("weight_norm"), "weight_norm",
    ),
}

# Relatives that the figures of the family leave out: with another γ and β, or another statistic.
RELATIVES: dict[str, Choices] = {
    "ScaleNorm": Choices(
        "H", Statistic.LENGTH, Source.TOKEN,
        Layer("ScaleNorm", "scale"), "scale_norm",
        lambda x: {"g": np.full(1, x.shape[-1] ** 0.5, x.dtype)}, "one g for all features",
    ),
    "AdaLN": Choices(
        "H", Statistic.MOMENTS, Source.TOKEN,
        Layer("AdaptiveLayerNorm"), "adaptive_layer_norm",
        _modulation, "γ and β from a condition",
    ),
    "AdaLN-Zero": Choices(
        "H", Statistic.MOMENTS, Source.TOKEN,
        Layer("AdaptiveLayerNormZero"), "adaptive_layer_norm",
        _modulation, "γ, β and a gate from a condition",
    ),
    "FiLM": Choices(
        "", Statistic.NONE, Source.NOWHERE,
        Layer("FiLM"), "film", _modulation, "γ and β from a condition",
    ),
    "DyT": Choices(
        "", Statistic.NONE, Source.NOWHERE,
        Layer("DynamicTanh", "tanh"), "dynamic_tanh",
        lambda x: {"alpha": np.full(1, 0.5, x.dtype)}, "one α for all features, then γ and β",
    ),
}
# fmt: on


def sharing_cells(
    name: str,
    shape: tuple[int, int, int],
    cell: tuple[int, int, int],
    *,
    num_groups: int = GROUPS,
    p: float = SHARE,
) -> np.ndarray:
    """Mark the cells of x from which the statistic that normalizes ``cell`` is computed.

    Parameters
    ----------
    name : str
        A key of :data:`TABLE` or of :data:`RELATIVES`.
    shape : (B, L, H)
    cell : (b, l, h)
        Indices of one cell, from 0.
    num_groups : int
        GroupNorm's number of groups.
    p : float
        pRMSNorm's share of entries.

    Returns
    -------
    boolean array of shape (B, L, H)
        All False for WeightNorm, FiLM and DyT, which take no statistic of the activations.

    Raises
    ------
    ValueError
        For an unknown name, a cell outside the shape, groups that do not divide H, or a p that
        leaves no entry.

    Examples
    --------
    >>> sharing_cells("LayerNorm", (2, 2, 3), (0, 1, 0)).astype(int)
    array([[[0, 0, 0],
            [1, 1, 1]],
    <BLANKLINE>
           [[0, 0, 0],
            [0, 0, 0]]])
    """
    rows = TABLE | RELATIVES
    if name not in rows:
        raise ValueError(f"unknown norm {name!r}. Choose one of: {', '.join(rows)}.")
    if not all(0 <= i < n for i, n in zip(cell, shape, strict=True)):
        raise ValueError(
            f"cell {cell} lies outside the shape {shape}. Indices count from 0 to length minus 1."
        )
    axes = rows[name].axes
    if not axes:
        return np.zeros(shape, dtype=bool)
    b, length, h = np.ogrid[: shape[0], : shape[1], : shape[2]]
    shared = np.ones(shape, dtype=bool)
    if "B" not in axes:
        shared = shared & (b == cell[0])
    if "L" not in axes:
        shared = shared & (length == cell[1])
    if name == "pRMSNorm":
        shared = shared & (h < partial_count(shape[2], p))
    elif "h" in axes:
        check_groups(num_groups, shape[2])
        width = shape[2] // num_groups
        shared = shared & (h // width == cell[2] // width)
    elif "H" not in axes:
        shared = shared & (h == cell[2])
    return shared
