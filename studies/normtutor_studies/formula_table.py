"""The table "One formula, nine norms": what each norm makes of the one formula, forward and back.

Every norm computes x̂ = c · r and, on the way back, dx = r · (g + shift + stretch) with g = γ · dy.
A row says over which values its means run, what c and r are, and which of the two terms is there.
It follows from the norm's axes, statistic and source in :data:`normtutor.norms.TABLE`.
"""

from typing import NamedTuple

import pandas as pd

from normtutor import norms
from normtutor.norms import Source, Statistic
from normtutor_studies.html_tables import Table, table

EVALUATION = "BatchNorm, evaluation"
ABSENT = "–"
_AXES = {
    "BL": "B and L: the batch",
    "H": "H: the token",
    "L": "L: the sequence",
    "Lh": "L and a group of H",
    "h": "the first k of H",
    "": "one unit's weights",
}


class Row(NamedTuple):
    """One norm in the formula; each field is text that a reader sees and a test evaluates."""

    over: str
    c: str
    r: str
    shift: str
    stretch: str


def row_of(name: str) -> Row:
    """The row of a norm, from its three choices.

    Parameters
    ----------
    name : str
        A key of :data:`normtutor.norms.TABLE` or :data:`normtutor.norms.RELATIVES`, or
        "BatchNorm, evaluation".

    Raises
    ------
    ValueError
        For an unknown name, or a layer that takes no statistic.

    Examples
    --------
    >>> row_of("RMSNorm")
    Row(over='H: the token', c='x', r='1 / √(mean(c²) + ε)', shift='–', stretch='− x̂ · mean(g · x̂)')
    """
    if name == EVALUATION:
        return Row("earlier batches", "x − μ", "1 / √(σ² + ε)", ABSENT, ABSENT)
    rows = norms.TABLE | norms.RELATIVES
    if name not in rows:
        raise ValueError(f"unknown norm {name!r}. Choose from: {', '.join([*rows, EVALUATION])}.")
    axes, statistic, source = (
        getattr(rows[name], field) for field in ("axes", "statistic", "source")
    )
    if statistic is Statistic.NONE:
        raise ValueError(f"{name} takes no statistic, so it is no case of the formula.")
    over = _AXES[axes]
    if source is Source.AVERAGE:
        return Row("B and L: earlier batches", "x", "1 / √(ψ² + ε)", ABSENT, "− ν · x̂")
    if source is Source.WEIGHTS:
        return Row(over, "w", "1 / √(sum(c²))", ABSENT, "− x̂ · sum(g · x̂)")
    if statistic is Statistic.LENGTH:
        return Row(over, "x", "1 / √(sum(c²) + ε)", ABSENT, "− x̂ · sum(g · x̂)")
    if axes == "h":
        r = "1 / (√(mean(c²)) + ε)"
        return Row(over, "x", r, ABSENT, "− [i ≤ k] · x̂ · sum(g · x̂) / k")
    r, stretch = "1 / √(mean(c²) + ε)", "− x̂ · mean(g · x̂)"
    if statistic.centred:
        return Row(over, "x − mean(x)", r, "− mean(g)", stretch)
    return Row(over, "x", r, ABSENT, stretch)


def formula_table(*names: str, mark: str | tuple[str, ...] = ()) -> Table:
    """Show some norms, or all nine, as cases of the one formula.

    Parameters
    ----------
    *names : str
        As in :func:`row_of`, in the order of the table's rows; all of ``norms.TABLE`` by default.
    mark : str or tuple of str
        Rows in bold type: those that the page is about.

    Returns
    -------
    Table

    Examples
    --------
    >>> formula_table("LayerNorm", "RMSNorm").text.splitlines()[1].split()[:4]
    ['LayerNorm', 'H:', 'the', 'token']
    """
    rows = {name: row_of(name) for name in names or norms.TABLE}
    heads = ["means over", "c", "r", "shift", "stretch"]
    frame = pd.DataFrame([list(row) for row in rows.values()], index=list(rows), columns=heads)
    return table(frame, mark=mark)
