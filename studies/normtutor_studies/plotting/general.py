"""Figures for any chapter: curves, histograms, maps of a grid."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from normtutor.intervals import t_interval
from normtutor_studies.plotting.style import INK, LOSSES, NORM_COLOURS, OTHER_COLOURS, PALETTE

_DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (3, 1, 1, 1, 1, 1)))


def curves(
    x: ArrayLike,
    ys: Mapping[str, ArrayLike],
    *,
    labels: Mapping[str, str] | None = None,
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
    labels : mapping of name -> text, optional
        What the legend says; by default the names themselves.
    xlabel, ylabel : str
        With units, as in "steps" or "loss (nats/token)".
    colours : mapping of name -> colour, optional
        By default a norm wears its own colour and the rest take the palette in turn.

    Returns
    -------
    Axes
        The line of each curve carries its legend text as label; its band has the label
        ``"_band " + text``, which keeps it out of the legend.
    """
    if ax is None:
        _, ax = plt.subplots()
    chosen = colours_for(ys, colours)
    for position, (key, rows) in enumerate(ys.items()):
        values = np.atleast_2d(np.asarray(rows, dtype=np.float64))  # (n_seeds, n_steps)
        mean, half = t_interval(values)
        text, colour = (labels or {}).get(key, key), chosen[key]
        # Dashes tell the curves apart for who sees no colour.
        dash = _DASHES[position % len(_DASHES)]
        ax.plot(x, mean, color=colour, linestyle=dash, label=text)
        if len(values) > 1:
            ends, label = (mean - half, mean + half), f"_band {text}"
            ax.fill_between(x, *ends, color=colour, alpha=0.18, linewidth=0, label=label)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if len(ys) > 1:
        ax.legend()
    return ax


def colours_for(names: Iterable[str], colours: Mapping[str, str] | None) -> dict[str, str]:
    """The colours given, those that a name has for itself, and for the rest the palette in turn."""
    own = {**NORM_COLOURS, **OTHER_COLOURS, **(colours or {})}
    chosen = {name: own.get(name, "") for name in names}
    free = [c for c in PALETTE.values() if c not in chosen.values()] or list(PALETTE.values())
    missing = [name for name, colour in chosen.items() if not colour]
    return chosen | dict(zip(missing, itertools.cycle(free), strict=False))


def histograms(
    samples: Mapping[str, ArrayLike],
    *,
    xlabel: str,
    ylabel: str,
    bins: ArrayLike,
    colours: Mapping[str, str],
) -> Axes:
    """Draw the distribution of each sample as steps over common bins; the shares sum to one."""
    _, ax = plt.subplots()
    for dash, (text, sample) in zip(_DASHES, samples.items(), strict=False):
        values = np.ravel(sample)
        counts, edges = np.histogram(values, bins)
        shares, colour = counts / values.size, colours[text]
        ax.stairs(shares, edges, color=colour, linewidth=2, linestyle=dash, label=text)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.set_ylim(bottom=0)
    ax.legend()
    return ax


def grid_map(
    values: ArrayLike,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    texts: Sequence[Sequence[str]],
    low: float,
    high: float,
    ax: Axes,
) -> None:
    """Draw a table of numbers as shaded cells, each with its text.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns)
        What shades a cell; NaN leaves it white.
    rows, columns : sequences of text
    texts : sequence of sequences of text
        What a cell says, in the shape of `values`.
    low, high : float
        The values of the palest and the darkest cell.
    """
    table = np.asarray(values, dtype=np.float64)
    ax.imshow(table, cmap=LOSSES, vmin=low, vmax=high, aspect="auto")
    for (i, j), value in np.ndenumerate(table):
        dark = np.isfinite(value) and (value - low) / (high - low) > 0.5
        ax.text(
            j, i, texts[i][j], ha="center", va="center", fontsize=10,
            color="white" if dark else INK,
        )  # fmt: skip
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
