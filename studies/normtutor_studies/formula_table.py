"""The table "One formula, nine norms": what each norm makes of the one formula, forward and back.

Every norm computes x̂ = c · r and, on the way back, dx = r · (g + shift + stretch) with g = γ · dy.
A row says over which values its means run, what c and r are, and which of the two terms is there.
It follows from the norm's axes, statistic and source in :data:`normtutor.norms.TABLE`.
"""

import re
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from normtutor import norms
from normtutor.norms import Source, Statistic
from normtutor.norms.normalize import normalize, normalize_backward
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
        return _row("BL", Statistic.MOMENTS, EVALUATION)
    rows = norms.TABLE | norms.RELATIVES
    if name not in rows:
        raise ValueError(f"unknown norm {name!r}. Choose from: {', '.join([*rows, EVALUATION])}.")
    axes, statistic, source = (
        getattr(rows[name], field) for field in ("axes", "statistic", "source")
    )
    if statistic is Statistic.NONE:
        raise ValueError(f"{name} takes no statistic, so it is no case of the formula.")
    return _row(axes, statistic, source)


def _row(axes: str, statistic: Statistic, source: str) -> Row:
    """What three choices make of the formula; the source EVALUATION is a running average."""
    over = _AXES[axes]
    if source == EVALUATION:
        c, r = ("x − μ", "1 / √(σ² + ε)") if statistic.centred else ("x", "1 / √(ψ² + ε)")
        return Row("earlier batches", c, r, ABSENT, ABSENT)
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


# --- the three choices, to be chosen --------------------------------------------------------------

SHAPE = (2, 3, 4)  # (B, L, H): a block that one can see whole
THIS, RUNNING, MEMORY = "this batch", "a running average", "PowerNorm's memory"
# The axes of a norm, as those of a block whose features are split into groups.
_SPLIT = {"BL": (0, 1), "H": (2, 3), "L": (1,), "Lh": (1, 3)}


def latex(text: str) -> str:
    r"""A row's text as LaTeX.

    Examples
    --------
    >>> print(latex("1 / √(mean(c²) + ε)"))
    1 / \sqrt{\operatorname{mean}(c^2) + \varepsilon}
    """
    inner = re.compile(r"√\(((?:[^()]|\([^()]*\))*)\)")
    text = inner.sub(lambda found: rf"\sqrt{{{found[1]}}}", text)
    words = {"mean": r"\operatorname{mean}", "x̂": r"\hat x", "²": "^2", "−": "-", "·": r"\,"}
    greek = {"μ": r"\mu", "σ": r"\sigma", "ψ": r"\psi", "ν": r"\nu", "ε": r"\varepsilon"}
    for sign, written in (words | greek).items():
        text = text.replace(sign, written)
    return text


def _reach(axes: str, statistic: Statistic, *, remembered: bool) -> list[list[int]]:
    """For each entry of a block the entries whose gradient a loss on its output alone reaches.

    These are the entries on which its output depends: the row of the Jacobian.
    """
    batch, length, features = SHAPE
    x = np.random.default_rng(0).normal(size=(batch, length, 2, features // 2))
    memory = (np.zeros(1), np.ones(1)) if remembered else None
    _, cache = normalize(x, _SPLIT[axes], centred=statistic.centred, memory=memory)
    unit = np.eye(x.size).reshape(-1, *x.shape)
    gradients = [normalize_backward(g, cache).ravel() for g in unit]
    return [np.flatnonzero(abs(dx) > 1e-9).tolist() for dx in gradients]


def _name(axes: str, statistic: Statistic, source: str) -> str:
    """The norm of the package that has made these choices, if there is one."""
    for name, row in norms.TABLE.items():
        follows = row.source.follows if source == THIS else row.source is Source.AVERAGE
        if (row.axes, row.statistic) == (axes, statistic) and follows and source != RUNNING:
            return name
    if source == RUNNING:
        return EVALUATION if statistic.centred else "PowerNorm, evaluation"
    return ""


def all_choices() -> list[dict[str, Any]]:
    """Every combination of axes, statistic and source that can be computed, for the playground.

    A memory needs values that come again in the next batch: it is one per feature.

    Returns
    -------
    list of dict
        "axes", "statistic" and "source" as a reader sees them; "name", empty where the package has
        no such norm; "row", as :func:`row_of` has it; and "reach", for each entry of a block of
        ``SHAPE``, flattened, the entries on which its output depends.

    Examples
    --------
    >>> choices = {choice["name"]: choice for choice in all_choices()}
    >>> choices["LayerNorm"]["reach"][0], choices["BatchNorm, evaluation"]["reach"][0]
    ([0, 1, 2, 3], [0])
    """
    statistics = (Statistic.MOMENTS, Statistic.MEAN_SQUARE)
    chosen = [(axes, statistic, THIS) for axes in _SPLIT for statistic in statistics]
    chosen += [("BL", statistic, RUNNING) for statistic in statistics]
    chosen.append(("BL", Statistic.MEAN_SQUARE, MEMORY))
    kinds = {THIS: Source.BATCH_THEN_AVERAGE, RUNNING: EVALUATION, MEMORY: Source.AVERAGE}
    return [
        {
            "axes": _AXES[axes],
            "statistic": statistic.value,
            "source": source,
            "name": _name(axes, statistic, source),
            "row": _row(axes, statistic, kinds[source])._asdict(),
            "reach": _reach(axes, statistic, remembered=source != THIS),
        }
        for axes, statistic, source in chosen
    ]


def formula_table(*names: str, mark: str | tuple[str, ...] = ()) -> Table:
    """Show some norms, or all nine, as cases of the one formula.

    Parameters
    ----------
    *names : str
        As in :func:`row_of`, in the order of the table's rows; all of ``norms.TABLE`` by default.
    mark : str or tuple of str
        Rows in bold type: those that the page is about.

    Examples
    --------
    >>> formula_table("LayerNorm", "RMSNorm").text.splitlines()[1].split()[:4]
    ['LayerNorm', 'H:', 'the', 'token']
    """
    rows = {name: row_of(name) for name in names or norms.TABLE}
    heads = ["means over", "c", "r", "shift", "stretch"]
    frame = pd.DataFrame([list(row) for row in rows.values()], index=list(rows), columns=heads)
    shown = table(frame, mark=mark, words=heads)
    shown.html = shown.html.replace("<table ", '<table class="formula" ', 1)  # cards on a phone
    return shown
