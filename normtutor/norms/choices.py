"""The three choices that define a norm: which axes share a statistic, which one, and its source.

The table that the chapters, the figures, the audit of invariances, the models and the exercises
read: what is said of a norm as a whole stands in its row.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from normtutor.norms.batch_norm import batch_norm
from normtutor.norms.conditional import film
from normtutor.norms.dynamic_tanh import dynamic_tanh
from normtutor.norms.group_norm import group_norm, instance_norm
from normtutor.norms.layer_norm import layer_norm
from normtutor.norms.power_norm import power_norm, power_norm_v
from normtutor.norms.rms_norm import partial_rms_norm, rms_norm
from normtutor.norms.scale_norm import scale_norm
from normtutor.norms.weight_norm import weight_norm
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
    BATCH = "the batch"
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
    the arguments ``before`` it.
    """

    name: str
    called: str = ""
    before: tuple[Any, ...] = ()
    options: Mapping[str, Any] = MappingProxyType({})


class Choices(NamedTuple):
    """One row of the table, for x of shape (B, L, H).

    ``axes`` names what shares a statistic, as letters of "BLH". "h" is a part of H: a group in
    GroupNorm, the first entries in pRMSNorm. It is empty for a norm of the weights, and for what
    takes no statistic. ``light`` and ``dark`` are the colours that the norm wears on a light and on
    a dark page: figures, style sheets and scripts all take them from here. Relatives share a colour
    and differ in dashes. ``citation`` is the paper's key in the bibliography; ``parameters`` says
    where γ and β come from, if not from one entry per feature.

    ``formula(x, eps)`` is y in training, with all parameters as they are at the start; for a norm
    of the weights, x and y are the weights of shape (H, d). ``inverse(x)`` is what each cell of x
    is multiplied by, of a shape that broadcasts to x's, or None where there is no statistic.
    """

    axes: str
    statistic: Statistic
    source: Source
    light: str
    dark: str
    citation: str
    layer: Layer
    formula: Callable[[Array, float], Array]
    inverse: Callable[[Array], Array] | None
    parameters: str = ""


# GroupNorm's number of groups and pRMSNorm's share of entries, on the few features of an example.
GROUPS, SHARE = 2, 0.25


def _in_each_group(x: Array) -> Array:
    """GroupNorm's inverse statistic, (B, L, H): each group's beside each of its features."""
    inverse = group_norm(x, num_groups=GROUPS, feature_axis=-1)[1].inverse_std[..., 0]
    return np.repeat(inverse, x.shape[-1] // GROUPS, axis=-1)


def _as_it_starts(x: Array, eps: float = 1e-5) -> tuple[Array, Any, Array]:
    return power_norm(x, None, None, np.ones(x.shape[-1], dtype=x.dtype), eps=eps)


TABLE: dict[str, Choices] = {
    "BatchNorm": Choices(
        *("BL", Statistic.MOMENTS, Source.BATCH_THEN_AVERAGE),
        *("#0a4a86", "#8cc4ee", "ioffe2015"),
        Layer("BatchNorm", "batch"),
        lambda x, eps: batch_norm(x, eps=eps, feature_axis=-1)[0],
        lambda x: batch_norm(x, feature_axis=-1)[1].inverse_std,
    ),
    "LayerNorm": Choices(
        *("H", Statistic.MOMENTS, Source.TOKEN),
        *("#cc4a00", "#fa8e2e", "ba2016"),
        Layer("LayerNorm", "layer"),
        lambda x, eps: layer_norm(x, eps=eps)[0],
        lambda x: layer_norm(x)[1].inverse_std,
    ),
    "InstanceNorm": Choices(
        *("L", Statistic.MOMENTS, Source.SEQUENCE),
        *("#6e4212", "#c59e5e", "ulyanov2016"),
        Layer("InstanceNorm", "instance"),
        lambda x, eps: instance_norm(x, eps=eps, feature_axis=-1)[0],
        lambda x: instance_norm(x, feature_axis=-1)[1].inverse_std[..., 0],
    ),
    "GroupNorm": Choices(
        *("Lh", Statistic.MOMENTS, Source.SEQUENCE),
        *("#0f8563", "#2ee09a", "wu2018"),
        Layer("GroupNorm", "group", before=(4,)),
        lambda x, eps: group_norm(x, num_groups=GROUPS, eps=eps, feature_axis=-1)[0],
        _in_each_group,
    ),
    "RMSNorm": Choices(
        *("H", Statistic.MEAN_SQUARE, Source.TOKEN),
        *("#b338bd", "#b980fb", "zhang2019rms"),
        Layer("RMSNorm", "rms"),
        lambda x, eps: rms_norm(x, eps=eps)[0],
        lambda x: rms_norm(x)[1].inverse_rms,
    ),
    "pRMSNorm": Choices(
        *("h", Statistic.MEAN_SQUARE, Source.TOKEN),
        *("#b338bd", "#b980fb", "zhang2019rms"),
        Layer("PartialRMSNorm", "partial-rms", options=MappingProxyType({"p": SHARE})),
        lambda x, eps: partial_rms_norm(x, p=SHARE, eps=eps)[0],
        lambda x: 1 / partial_rms_norm(x, p=SHARE)[1].rms,
    ),
    "PowerNorm-V": Choices(
        *("BL", Statistic.MEAN_SQUARE, Source.BATCH),
        *("#222222", "#e6e6e6", "shen2020"),
        Layer("PowerNorm", "power-v", options=MappingProxyType({"variant": "pn-v"})),
        lambda x, eps: power_norm_v(x, eps=eps)[0],
        lambda x: power_norm_v(x)[1].inverse_psi,
    ),
    "PowerNorm": Choices(
        *("BL", Statistic.MEAN_SQUARE, Source.AVERAGE),
        *("#222222", "#e6e6e6", "shen2020"),
        Layer("PowerNorm", "power"),
        lambda x, eps: _as_it_starts(x, eps)[0],
        # Of the average that this batch has moved: it divides the next batch.
        lambda x: 1 / np.sqrt(_as_it_starts(x)[2]),
    ),
    "WeightNorm": Choices(
        *("", Statistic.LENGTH, Source.WEIGHTS),
        *("#6e4212", "#c59e5e", "salimans2016"),
        Layer("weight_norm"),
        lambda weight, _: weight_norm(weight)[0],
        lambda weight: 1 / weight_norm(weight)[1].norm,
    ),
}

# A network without a norm, on a light and on a dark page; its lines are dashed.
NO_NORM = ("#6a6a6a", "#a8a8a8")
# The same for what is no norm, such as wirings and verdicts. No norm wears one of them.
OTHERS = {
    "teal": ("#0081a1", "#3fc9c1"),
    "crimson": ("#c4204f", "#fa8f8b"),
    "olive": ("#6f7a00", "#dfe04a"),
    "plum": ("#5a0a52", "#f3bcfd"),
    "indigo": ("#3d3ae0", "#439aff"),
}

# Relatives that the figures of the family leave out, in the colours of the row that they vary: with
# another γ and β, or another statistic. A row without axes takes no statistic.
RELATIVES: dict[str, Choices] = {
    "ScaleNorm": TABLE["RMSNorm"]._replace(
        statistic=Statistic.LENGTH,
        citation="nguyen2019",
        layer=Layer("ScaleNorm", "scale"),
        formula=lambda x, eps: scale_norm(x, np.full(1, x.shape[-1] ** 0.5, x.dtype), eps=eps)[0],
        inverse=lambda x: scale_norm(x, np.ones(1, x.dtype))[1].inverse_norm,
        parameters="one g for all features",
    ),
    "AdaLN": TABLE["LayerNorm"]._replace(
        citation="peebles2023",
        layer=Layer("AdaptiveLayerNorm"),
        parameters="γ and β from a condition",
    ),
    "AdaLN-Zero": TABLE["LayerNorm"]._replace(
        citation="peebles2023",
        layer=Layer("AdaptiveLayerNormZero"),
        parameters="γ, β and a gate from a condition",
    ),
    "FiLM": Choices(
        *("", Statistic.NONE, Source.NOWHERE),
        *(*NO_NORM, "perez2018"),
        Layer("FiLM"),
        lambda x, _: film(x, *np.zeros((2, x.shape[0], x.shape[-1]), x.dtype))[0],
        None,
        parameters="γ and β from a condition",
    ),
    "DyT": Choices(
        *("", Statistic.NONE, Source.NOWHERE),
        *(*OTHERS["indigo"], "zhu2025"),
        Layer("DynamicTanh", "tanh"),
        lambda x, _: dynamic_tanh(x, np.full(1, 0.5, x.dtype))[0],
        None,
        parameters="one α for all features, then γ and β",
    ),
}


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
