"""Figures: each function draws arrays or records that it is given, and never runs a model.

One place holds the style, so that a norm has the same colour in every chapter and a
figure reads on a phone, in print and for colour-blind readers. Figures keep a white
background on dark pages too: the theme shows them as white cards.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray
from scipy import stats

FloatArray = NDArray[np.float64]

# Six colours that keep 4.5:1 contrast on white and stay apart under the three kinds of
# dichromacy (tests/test_plotting.py computes both). Neighbours in the list differ most.
PALETTE = {
    "blue": "#0b5fa5",
    "vermilion": "#c0440a",
    "green": "#00805f",
    "purple": "#8e3f97",
    "brown": "#7a5a00",
    "black": "#222222",
}
PALE = "#e4e7eb"  # a cell or a region that is there but not meant
INK = "#222222"

# A norm wears one colour throughout the book. Relatives share a colour and differ in dashes.
NORM_COLOURS = {
    "BatchNorm": PALETTE["blue"],
    "LayerNorm": PALETTE["vermilion"],
    "InstanceNorm": PALETTE["brown"],
    "GroupNorm": PALETTE["green"],
    "RMSNorm": PALETTE["purple"],
    "pRMSNorm": PALETTE["purple"],
    "PowerNorm-V": PALETTE["black"],
    "PowerNorm": PALETTE["black"],
    "WeightNorm": PALETTE["brown"],
}

STYLE: dict[Any, Any] = {
    "figure.figsize": (5.6, 3.5),  # inches; at 11 pt it still reads when a phone shrinks it
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.constrained_layout.use": True,
    "axes.facecolor": "white",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.prop_cycle": cycler(color=list(PALETTE.values())),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "font.size": 11,
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same figure on every machine
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 2.0,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "svg.hashsalt": "normtutor",  # equal figures are equal files
}


def use_book_style() -> None:
    """Set matplotlib to the book's style; in a notebook, figures become SVG."""
    plt.rcParams.update(STYLE)
    # Only a notebook has imported the inline backend's shell by now.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and hasattr(shell, "kernel"):
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("svg", metadata={"Date": None})


def norm_colour(name: str) -> str:
    """Return the colour that the norm called `name` wears in every figure of the book.

    Names that are no norm (a model, a data set) raise ``KeyError``: give those a colour
    from `PALETTE` yourself.
    """
    if name not in NORM_COLOURS:
        known = ", ".join(NORM_COLOURS)
        raise KeyError(f"no colour is reserved for {name!r}; norms with a colour are {known}")
    return NORM_COLOURS[name]


def t_interval(samples: ArrayLike, confidence: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Return the mean over the first axis and the half-width of its t-interval.

    Parameters
    ----------
    samples : array of shape (n_seeds, ...)
        One row a seed. With one row there is no spread to estimate: the half-width is NaN.
    confidence : float
        Coverage of the interval if the rows are independent and Gaussian.

    Returns
    -------
    mean, half_width : arrays of shape (...)
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim == 0 or values.shape[0] == 0:
        raise ValueError(
            f"t_interval needs at least one row, one a seed; got an array of shape {values.shape}"
        )
    seeds = values.shape[0]
    mean = values.mean(axis=0)
    if seeds == 1:
        return mean, np.full_like(mean, np.nan)
    quantile = float(stats.t.ppf(0.5 + confidence / 2, df=seeds - 1))
    return mean, quantile * values.std(axis=0, ddof=1) / np.sqrt(seeds)


def _label_of(key: str, position: int, labels: Mapping[str, str] | Sequence[str] | None) -> str:
    if labels is None:
        return key
    if isinstance(labels, Mapping):
        return labels.get(key, key)
    return labels[position]


_DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (3, 1, 1, 1, 1, 1)))


def curves(
    x: ArrayLike,
    ys: Mapping[str, ArrayLike],
    *,
    labels: Mapping[str, str] | Sequence[str] | None = None,
    xlabel: str,
    ylabel: str,
    colours: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one curve for each entry of `ys`: the mean over seeds, in its 95% t-interval.

    Parameters
    ----------
    x : array of shape (n_steps,)
        Shared by all curves.
    ys : mapping of name -> array of shape (n_seeds, n_steps)
        One row a seed. An array of shape (n_steps,), or with one row, is drawn without a band.
    labels : mapping of name -> text, or a sequence in the order of `ys`, optional
        What the legend says; by default the names themselves.
    xlabel, ylabel : str
        With units, as in "steps" or "loss (nats/token)".
    colours : mapping of name -> colour, optional
        By default a norm wears its own colour and the rest take the palette in turn.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        The line of each curve carries its legend text as label; its band has the label
        ``"_band " + text``, which keeps it out of the legend.
    """
    steps = np.asarray(x, dtype=np.float64)
    if steps.ndim != 1:
        raise ValueError(f"x must have shape (n_steps,); got {steps.shape}")
    if ax is None:
        _, ax = plt.subplots()
    chosen = _colours_for(list(ys), colours)
    for position, (key, rows) in enumerate(ys.items()):
        values = np.atleast_2d(np.asarray(rows, dtype=np.float64))  # (n_seeds, n_steps)
        if values.ndim != 2 or values.shape[1] != steps.shape[0]:
            raise ValueError(
                f"ys[{key!r}] must have shape (n_seeds, {steps.shape[0]}) to match x; "
                f"got {np.shape(rows)}. Transpose it if seeds are its last axis."
            )
        mean, half = t_interval(values)
        text = _label_of(key, position, labels)
        colour = chosen[key]
        # Dashes tell the curves apart for who sees no colour.
        dash = _DASHES[position % len(_DASHES)]
        ax.plot(steps, mean, color=colour, linestyle=dash, label=text)
        if values.shape[0] > 1:
            ax.fill_between(
                steps,
                mean - half,
                mean + half,
                color=colour,
                alpha=0.18,
                linewidth=0,
                label=f"_band {text}",
            )
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if len(ys) > 1:
        ax.legend()
    return ax


def _colours_for(names: Sequence[str], colours: Mapping[str, str] | None) -> dict[str, str]:
    given = dict(colours or {})
    chosen = {name: given.get(name, NORM_COLOURS.get(name, "")) for name in names}
    free = [c for c in PALETTE.values() if c not in chosen.values()] or list(PALETTE.values())
    missing = [name for name in names if not chosen[name]]
    for position, name in enumerate(missing):
        chosen[name] = free[position % len(free)]
    return chosen


def intervals(
    rows: Mapping[str, ArrayLike],
    *,
    xlabel: str,
    ax: Axes | None = None,
    reference: float | None = 0.0,
    colours: Mapping[str, str] | None = None,
) -> Axes:
    """Draw, one row an entry, the mean over seeds as a dot in its 95% t-interval as a bar.

    Made for differences that are paired by seed: an interval that misses the reference line
    is a difference that the seeds agree on.

    Parameters
    ----------
    rows : mapping of text -> array of shape (n_seeds,)
        At least two seeds each; drawn from top to bottom.
    xlabel : str
        With units, and for a difference with its sign, as in
        "BatchNorm - LayerNorm, loss (nats/token)".
    reference : float or None
        Where the vertical line of "no difference" stands; None draws no line.
    colours : mapping of text -> colour, optional
    ax : Axes, optional
        Where to draw; by default a new figure as high as the rows need.

    Returns
    -------
    Axes
        One error bar container a row, its label the row's text, in `ax.containers`.
    """
    if not rows:
        raise ValueError("intervals needs at least one row; got an empty mapping")
    if ax is None:
        _, ax = plt.subplots(figsize=(5.6, 1.0 + 0.42 * len(rows)))
    chosen = _colours_for(list(rows), colours)
    for position, (text, samples) in enumerate(rows.items()):
        values = np.asarray(samples, dtype=np.float64)
        if values.ndim != 1 or values.shape[0] < 2:
            raise ValueError(
                f"rows[{text!r}] must have shape (n_seeds,) with at least two seeds; "
                f"got {values.shape}. One seed has no interval."
            )
        mean, half = t_interval(values)
        ax.errorbar(
            [float(mean)],
            [position],
            xerr=[float(half)],
            fmt="o",
            markersize=7,
            capsize=4,
            color=chosen[text],
            label=text,
        )
    if reference is not None:
        ax.axvline(reference, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(xlabel)
    return ax
