"""The three choices that make a norm: which axes share a statistic, which statistic, from where.

The table that the chapters, the figures and the exercises read.
"""

from typing import NamedTuple

import numpy as np

from normtutor.validation import check_groups, partial_count


class Choices(NamedTuple):
    """One row of the table, for x of shape (B, L, H).

    ``axes`` names what shares a statistic, as letters of "BLH". "h" is a part of H: a group in
    GroupNorm, the first entries in pRMSNorm. It is empty for a norm of the weights. ``light`` and
    ``dark`` are the colours that the norm wears on a light and on a dark page: figures, style
    sheets and scripts all take them from here. Relatives share a colour and differ in dashes.
    """

    axes: str
    statistic: str
    source: str
    light: str
    dark: str


TABLE: dict[str, Choices] = {
    "BatchNorm": Choices(
        "BL",
        "mean and variance",
        "the batch in training, a running average in evaluation",
        "#0a4a86",
        "#8cc4ee",
    ),
    "LayerNorm": Choices("H", "mean and variance", "the token itself", "#cc4a00", "#fa8e2e"),
    "InstanceNorm": Choices("L", "mean and variance", "the sequence itself", "#6e4212", "#c59e5e"),
    "GroupNorm": Choices("Lh", "mean and variance", "the sequence itself", "#0f8563", "#2ee09a"),
    "RMSNorm": Choices("H", "root mean square", "the token itself", "#b338bd", "#b980fb"),
    "pRMSNorm": Choices("h", "root mean square", "the token itself", "#b338bd", "#b980fb"),
    "PowerNorm-V": Choices("BL", "root mean square", "the batch", "#222222", "#e6e6e6"),
    "PowerNorm": Choices(
        "BL", "root mean square", "a running average, in training too", "#222222", "#e6e6e6"
    ),
    "WeightNorm": Choices("", "Euclidean norm", "the weights of one unit", "#6e4212", "#c59e5e"),
}

# A network without a norm, on a light and on a dark page; its lines are dashed.
NO_NORM = ("#6a6a6a", "#a8a8a8")

# Relatives that the figures of the family leave out: the same statistic, in its colours, another γ
# and β. A row without axes takes no statistic.
RELATIVES: dict[str, Choices] = {
    "ScaleNorm": Choices(
        "H", "Euclidean norm", "the token itself; one g for all features", *TABLE["RMSNorm"][3:]
    ),
    "AdaLN": Choices(
        "H",
        "mean and variance",
        "the token itself; γ and β from a condition",
        *TABLE["LayerNorm"][3:],
    ),
    "AdaLN-Zero": Choices(
        "H",
        "mean and variance",
        "the token itself; γ, β and a gate from a condition",
        *TABLE["LayerNorm"][3:],
    ),
    "FiLM": Choices("", "none", "no statistic; γ and β from a condition", *NO_NORM),
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
