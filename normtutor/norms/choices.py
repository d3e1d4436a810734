"""The three choices that make a norm: which axes share a statistic, which statistic, from where.

The table that the chapters, the figures and the exercises read.
"""

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from normtutor.validation import check_groups, partial_count


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


class Choices(NamedTuple):
    """One row of the table, for x of shape (B, L, H).

    ``axes`` names what shares a statistic, as letters of "BLH". "h" is a part of H: a group in
    GroupNorm, the first entries in pRMSNorm. It is empty for a norm of the weights, and for what
    takes no statistic. ``light`` and ``dark`` are the colours that the norm wears on a light and on
    a dark page: figures, style sheets and scripts all take them from here. Relatives share a colour
    and differ in dashes. ``citation`` is the paper's key in the bibliography; ``parameters`` says
    where γ and β come from, if not from one entry per feature.
    """

    axes: str
    statistic: Statistic
    source: Source
    light: str
    dark: str
    citation: str
    parameters: str = ""


TABLE: dict[str, Choices] = {
    "BatchNorm": Choices(
        *("BL", Statistic.MOMENTS, Source.BATCH_THEN_AVERAGE),
        *("#0a4a86", "#8cc4ee", "ioffe2015"),
    ),
    "LayerNorm": Choices(
        *("H", Statistic.MOMENTS, Source.TOKEN),
        *("#cc4a00", "#fa8e2e", "ba2016"),
    ),
    "InstanceNorm": Choices(
        *("L", Statistic.MOMENTS, Source.SEQUENCE),
        *("#6e4212", "#c59e5e", "ulyanov2016"),
    ),
    "GroupNorm": Choices(
        *("Lh", Statistic.MOMENTS, Source.SEQUENCE),
        *("#0f8563", "#2ee09a", "wu2018"),
    ),
    "RMSNorm": Choices(
        *("H", Statistic.MEAN_SQUARE, Source.TOKEN),
        *("#b338bd", "#b980fb", "zhang2019rms"),
    ),
    "pRMSNorm": Choices(
        *("h", Statistic.MEAN_SQUARE, Source.TOKEN),
        *("#b338bd", "#b980fb", "zhang2019rms"),
    ),
    "PowerNorm-V": Choices(
        *("BL", Statistic.MEAN_SQUARE, Source.BATCH),
        *("#222222", "#e6e6e6", "shen2020"),
    ),
    "PowerNorm": Choices(
        *("BL", Statistic.MEAN_SQUARE, Source.AVERAGE),
        *("#222222", "#e6e6e6", "shen2020"),
    ),
    "WeightNorm": Choices(
        *("", Statistic.LENGTH, Source.WEIGHTS),
        *("#6e4212", "#c59e5e", "salimans2016"),
    ),
}

# A network without a norm, on a light and on a dark page; its lines are dashed.
NO_NORM = ("#6a6a6a", "#a8a8a8")

# Relatives that the figures of the family leave out: the same statistic, in its colours, another γ
# and β. A row without axes takes no statistic.
RELATIVES: dict[str, Choices] = {
    "ScaleNorm": TABLE["RMSNorm"]._replace(
        statistic=Statistic.LENGTH, citation="nguyen2019", parameters="one g for all features"
    ),
    "AdaLN": TABLE["LayerNorm"]._replace(
        citation="peebles2023", parameters="γ and β from a condition"
    ),
    "AdaLN-Zero": TABLE["LayerNorm"]._replace(
        citation="peebles2023", parameters="γ, β and a gate from a condition"
    ),
    "FiLM": Choices(
        *("", Statistic.NONE, Source.NOWHERE),
        *(*NO_NORM, "perez2018", "γ and β from a condition"),
    ),
}


def sharing_cells(
    name: str,
    shape: tuple[int, int, int],
    cell: tuple[int, int, int],
    *,
    num_groups: int = 2,
    p: float = 0.25,
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
        All False for WeightNorm and FiLM, which take no statistic of the activations.

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
