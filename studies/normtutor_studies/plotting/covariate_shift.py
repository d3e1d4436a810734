"""Figures of chapter 1: a deep network with and without a norm; tests of covariate shift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from normtutor.intervals import t_interval
from normtutor_studies.plotting.general import grid_map
from normtutor_studies.plotting.style import INK, norm_colour


def times(value: float) -> str:
    """A factor as a reader says it: 0.41×, 2×."""
    return f"{value:.2g}×"


def training_curves_figure(
    panels: Mapping[str, ArrayLike],
    *,
    steps: ArrayLike,
    rates: Sequence[float],
    guessing: float,
) -> Figure:
    """Draw the training losses of several networks, a panel each and a line per learning rate.

    Parameters
    ----------
    panels : mapping of "none" or a norm's name -> array of shape (n_seeds, n_rates, n_points)
        What was lost to overflow is NaN.
    steps : array of shape (n_points,)
    rates : sequence of float
        The smallest is drawn palest.
    guessing : float
        The loss of guessing, drawn as a thin line.
    """
    fig, axes = plt.subplots(len(panels), 1, figsize=(5.0, 0.9 + 1.9 * len(panels)), sharex=True)
    shades = np.linspace(0.3, 1.0, len(rates))
    for ax, (name, values) in zip(axes, panels.items(), strict=True):
        mean = np.asarray(values, dtype=np.float64).mean(axis=0)
        for curve, shade in zip(mean, shades, strict=True):
            ax.plot(
                np.asarray(steps),
                np.minimum(curve, 1.3 * guessing),
                color=norm_colour(name),
                alpha=shade,
                linestyle="--" if name == "none" else "-",
            )
        ax.axhline(guessing, color=INK, linewidth=1, linestyle=":")
        ax.set(ylim=(0, 1.3 * guessing), ylabel="training loss")
        ax.set_title("no norm" if name == "none" else name, color=norm_colour(name))
        ax.annotate(
            "guessing", (float(np.asarray(steps)[-1]), guessing), (0, 4),
            textcoords="offset points", ha="right", va="bottom", fontsize=10,
        )  # fmt: skip
    axes[-1].set_xlabel("training step")
    return fig


def spreads_figure(without: Mapping[float, ArrayLike], with_norm: ArrayLike) -> Figure:
    """Draw the spread of what each activation receives, layer by layer, at the start.

    Parameters
    ----------
    without : mapping of the factor on the initial weights -> array of shape (n_layers,)
    with_norm : array of shape (n_scales, n_layers)
        The same behind a norm. The lines coincide, so they look like one.
    """
    norm = "BatchNorm"
    fig, ax = plt.subplots(figsize=(5.0, 3.7))
    for scale, spread in without.items():
        values = np.asarray(spread, dtype=np.float64)
        layers = np.arange(1, len(values) + 1)
        ax.plot(layers, values, color=norm_colour("none"), linestyle="--")
        place = layers[-1] + 0.3, values[-1]
        ax.text(*place, times(scale), va="center", fontsize=10, color=norm_colour("none"))
    for values in np.asarray(with_norm, dtype=np.float64):
        ax.plot(np.arange(1, len(values) + 1), values, color=norm_colour(norm))
    ax.annotate(
        f"{norm}, any scale", (8, 1), (8, 1.25), textcoords="data", color=norm_colour(norm),
        fontsize=10, va="bottom",
    )  # fmt: skip
    ax.set_yscale("log")
    depth = len(np.asarray(with_norm)[0])
    ax.set_xlim(1, depth + 2.4)
    ax.set_xticks([1, *range(4, depth + 1, 4)])
    ax.set(xlabel="hidden layer", ylabel="spread over images")
    return fig


def training_map_figure(
    shares: Mapping[str, ArrayLike], *, scales: Sequence[float], rates: Sequence[float]
) -> Figure:
    """Draw, for each network, the share of images right over initial scale and learning rate.

    Dark cells have failed, as in the maps of losses.

    Parameters
    ----------
    shares : mapping of "none" or a norm's name -> array of shape (n_scales, n_rates)
    """
    fig, axes = plt.subplots(len(shares), 1, figsize=(5.0, 0.8 + 2.3 * len(shares)), sharex=True)
    for ax, (name, values) in zip(axes, shares.items(), strict=True):
        table = np.asarray(values, dtype=np.float64)
        grid_map(
            1 - table,
            rows=[times(scale) for scale in scales],
            columns=[f"{rate:g}" for rate in rates],
            texts=[[f"{100 * value:.0f}" for value in row] for row in table],
            low=0.0,
            high=0.9,
            ax=ax,
        )
        ax.set_title("no norm" if name == "none" else name, color=norm_colour(name))
        ax.set_ylabel("initial scale")
    axes[-1].set_xlabel("learning rate")
    return fig


def dots(
    rows: Mapping[str, ArrayLike],
    *,
    xlabel: str,
    reference: float,
    colours: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw each seed as a dot beside the mean with its 95% interval, one row an entry.

    Parameters
    ----------
    rows : mapping of text -> array of shape (n_seeds,)
        Drawn from top to bottom.
    reference : float
        Where the vertical line stands.
    """
    if ax is None:
        _, ax = plt.subplots(figsize=(5.0, 1.0 + 0.5 * len(rows)))
    for position, (text, samples) in enumerate(rows.items()):
        values = np.asarray(samples, dtype=np.float64)
        mean, half = t_interval(values)
        colour = (colours or {}).get(text, INK)
        ax.plot(values, np.full(len(values), position + 0.16), ".", color=colour, alpha=0.45)
        ax.plot([mean - half, mean + half], [position, position], color=colour)
        ax.plot([mean], [position], "o", markersize=7, color=colour)
    ax.axvline(reference, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(xlabel)
    return ax


def drift_figure(
    panels: Mapping[str, ArrayLike], *, steps: ArrayLike, colours: Mapping[str, str]
) -> Figure:
    """Draw three percentiles of one unit's input over training, a panel per network.

    Parameters
    ----------
    panels : mapping of text -> array of shape (3, n_points)
        Low, median and high percentile.
    """
    fig, axes = plt.subplots(
        len(panels), 1, figsize=(5.0, 0.9 + 1.7 * len(panels)), sharex=True, sharey=True
    )
    for ax, (text, values) in zip(axes, panels.items(), strict=True):
        low, median, high = np.asarray(values, dtype=np.float64)
        colour, x = colours[text], np.asarray(steps)
        ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        for line, dash in ((low, "--"), (median, "-"), (high, "--")):
            ax.plot(x, line, color=colour, linestyle=dash)
        ax.set_title(text, color=colour)
        ax.set_ylabel("sigmoid's input")
    axes[-1].set_xlabel("training step")
    return fig
