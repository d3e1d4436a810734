"""Figures for any chapter: curves, intervals, histograms, repeated runs, maps of a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from normtutor.intervals import t_interval
from normtutor_studies.plotting.style import INK, LOSSES, NORM_COLOURS, OTHER_COLOURS, PALETTE


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
    own = {**NORM_COLOURS, **OTHER_COLOURS, **(colours or {})}
    chosen = {name: own.get(name, "") for name in names}
    free = [c for c in PALETTE.values() if c not in chosen.values()] or list(PALETTE.values())
    missing = [name for name in names if not chosen[name]]
    for position, name in enumerate(missing):
        chosen[name] = free[position % len(free)]
    return chosen


def _label_rows(ax: Axes, rows: list[str], xlabel: str, reference: float | None) -> None:
    """Name the rows from top to bottom, and draw the line that they are compared with."""
    if reference is not None:
        ax.axvline(reference, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    ax.set_yticks(range(len(rows)), rows)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(xlabel)


def intervals(
    rows: Mapping[str, ArrayLike],
    *,
    xlabel: str,
    ax: Axes | None = None,
    reference: float | None = 0.0,
    colours: Mapping[str, str] | None = None,
) -> Axes:
    """Draw, one row an entry, the mean over seeds in its 95% t-interval, and the seeds below.

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
        _, ax = plt.subplots(figsize=(5.0, 1.0 + 0.42 * len(rows)))
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
        # Each seed, a little below.
        below = np.full(values.shape, position + 0.24)
        ax.plot(values, below, "o", color=chosen[text], markersize=3, alpha=0.55, label="_seeds")
    _label_rows(ax, list(rows), xlabel, reference)
    return ax


def histograms(
    samples: Mapping[str, ArrayLike],
    *,
    xlabel: str,
    ylabel: str = "share",
    bins: ArrayLike,
    colours: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the distribution of each sample as steps over common bins; the shares sum to one.

    Parameters
    ----------
    samples : mapping of text -> array
        Flattened.
    xlabel, ylabel : str
    bins : array of shape (n_bins + 1,)
        Edges. Values outside raise ``ValueError``, because they would vanish silently.
    colours : mapping of text -> colour, optional
    ax : Axes, optional

    Returns
    -------
    Axes
        One `StepPatch` a sample, with the text as label.
    """
    edges = np.asarray(bins, dtype=np.float64)
    if ax is None:
        _, ax = plt.subplots()
    chosen = _colours_for(list(samples), colours)
    for position, (text, sample) in enumerate(samples.items()):
        values = np.asarray(sample, dtype=np.float64).ravel()
        if values.size == 0 or values.min() < edges[0] or values.max() > edges[-1]:
            raise ValueError(
                f"samples[{text!r}] must be non-empty and lie within the bins "
                f"[{edges[0]:g}, {edges[-1]:g}]"
            )
        counts, _ = np.histogram(values, edges)
        ax.stairs(
            counts / values.size,
            edges,
            color=chosen[text],
            linewidth=2,
            linestyle=_DASHES[position % len(_DASHES)],
            label=text,
        )
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.set_ylim(bottom=0)
    if len(samples) > 1:
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
) -> Any:
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

    Returns
    -------
    AxesImage
        For a colour bar.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.shape != (len(rows), len(columns)):
        raise ValueError(
            f"values must have shape ({len(rows)}, {len(columns)}), one row a name in rows; "
            f"got {table.shape}"
        )
    image = ax.imshow(table, cmap=LOSSES, vmin=low, vmax=high, aspect="auto")
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
    return image
