"""Language models on text: which learning rates train them, and what the last norm costs."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from normtutor.intervals import t_interval
from normtutor_studies.plotting.drawings import on_narrow
from normtutor_studies.plotting.general import grid_map
from normtutor_studies.plotting.style import INK, NO_NORM, norm_colour


class Trained(NamedTuple):
    """What one network did over the learning rates."""

    norm: str  # a key of `norms.TABLE`, or "none"
    tried: Sequence[float]
    working: Sequence[float]
    best: ArrayLike  # the loss at the best rate, one entry a seed; NaN where a run diverged
    clipped: float = math.nan  # the share of steps there whose gradient was cut short


def working_rates_figure(
    networks: Mapping[str, Trained],
    *,
    title: str = "",
    unit: str = "nats/token",
    width: float = 5.6,
) -> Figure:
    """Draw for each network which learning rates work, and write its best loss beside them.

    One row a network, from top to bottom. A filled dot is a rate that works, a small open one a
    rate that was tried and does not; a bar joins the lowest and the highest that work. On the right
    stands the mean of `best` with the half-width of its 95% t-interval; or that there is one seed,
    that runs diverged, or that there is no run. Where `clipped` is known, it follows in percent.

    Returns
    -------
    Figure
        One axes. Row i has its dots at the height i; bars have the label ``"bar " + name``, filled
        dots ``"works " + name``, open ones ``"fails " + name``.
    """
    fig, ax = plt.subplots(figsize=(width, 0.36 * len(networks) + 1.0), layout="constrained")
    for row, (name, found) in enumerate(networks.items()):
        colour = norm_colour(found.norm)
        working = sorted(found.working)
        fails = [rate for rate in found.tried if rate not in found.working]
        if working:
            ax.plot(
                [working[0], working[-1]],
                [row, row],
                color=colour,
                linewidth=6,
                alpha=0.45,
                solid_capstyle="round",
                label=f"bar {name}",
            )
        ax.plot(working, [row] * len(working), "o", color=colour, label=f"works {name}")
        ax.plot(
            fails,
            [row] * len(fails),
            "o",
            markersize=4,
            color=INK,
            markerfacecolor="white",
            label=f"fails {name}",
        )
        ax.annotate(
            _in_words(found.best) + _share(found.clipped),
            (1.02, row),
            xycoords=("axes fraction", "data"),
            verticalalignment="center",
        )
    ax.set_xscale("log")
    ax.set_xlabel("learning rate")
    ax.set_yticks(range(len(networks)), list(networks))
    ax.set_ylim(len(networks) - 0.5, -0.6)
    ax.tick_params(axis="y", length=0, labelsize=11)
    ax.spines["left"].set_visible(False)
    shares = any(not math.isnan(found.clipped) for found in networks.values())
    ax.annotate(
        f"best loss ({unit}),\nsteps clipped" if shares else f"best loss\n({unit})",
        (1.02, 1.0),
        xycoords="axes fraction",
        verticalalignment="bottom",
        fontsize=10,
    )
    ax.set_title(title)
    on_narrow(fig, _words_on_two_lines)
    return fig


def _words_on_two_lines(figure: Figure) -> Callable[[], None]:
    """Leave more of a narrow figure to the learning rates."""
    (ax,) = figure.axes
    names = [label.get_text() for label in ax.get_yticklabels()]
    words = [(text, text.get_text()) for text in ax.texts]
    ax.set_yticks(range(len(names)), [textwrap.fill(name, 14) for name in names])
    for text, line in words:
        text.set_text(line.replace(" ± ", "\n± ").replace(", ", ",\n"))
    most = max(text.get_text().count("\n") for text in ax.texts)
    figure.set_figheight((0.34 + 0.18 * most) * len(names) + 1.0)

    def undo() -> None:
        ax.set_yticks(range(len(names)), names)
        for text, line in words:
            text.set_text(line)

    return undo


def _share(clipped: float) -> str:
    return "" if math.isnan(clipped) else f", {clipped:.0%}"


def depths_figure(
    networks: Mapping[int, Mapping[str, Trained]],
    *,
    worst: float = 1.0,
    title: str = "",
) -> Figure:
    """Draw a map of networks by depth: how far each ends behind the best one of its depth.

    A cell says three things: the mean of `best`, how many of the rates work, and the share of
    steps that were clipped. It is the darker, the further its loss lies above the smallest one of
    its column, up to `worst`; it is white where a run diverged, and empty where nothing was run.

    Parameters
    ----------
    networks : depth -> name -> Trained
        A name may be missing at some depths.
    worst : float
        The difference at which a cell has its darkest shade.
    title : str

    Returns
    -------
    Figure
        One axes with an image: a row for each name, a column for each depth.
    """
    rows = list(dict.fromkeys(name for column in networks.values() for name in column))
    losses = np.full((len(rows), len(networks)), np.nan)
    texts = [["" for _ in networks] for _ in rows]
    for j, column in enumerate(networks.values()):
        for name, found in column.items():
            i, mean = rows.index(name), float(np.asarray(found.best, dtype=np.float64).mean())
            losses[i, j] = mean
            loss = "diverges" if math.isnan(mean) else f"{mean:.2f}" if mean < 10 else f"{mean:.0f}"
            texts[i][j] = f"{loss}\n{len(found.working)} of {len(found.tried)}"
            if not math.isnan(found.clipped):
                texts[i][j] += f"\n{found.clipped:.0%}"
    fig, ax = plt.subplots(figsize=(5.6, 0.62 * len(rows) + 0.6), layout="constrained")
    grid_map(
        losses - np.nanmin(losses, axis=0),
        rows=rows,
        columns=[str(depth) for depth in networks],
        texts=texts,
        low=0.0,
        high=worst,
        ax=ax,
    )
    ax.set_xlabel("layers")
    ax.set_title(title)
    on_narrow(fig, _names_on_two_lines)
    return fig


def _names_on_two_lines(figure: Figure) -> Callable[[], None]:
    (ax,) = figure.axes
    names = [label.get_text() for label in ax.get_yticklabels()]
    ax.set_yticks(range(len(names)), [textwrap.fill(name, 14) for name in names])

    def undo() -> None:
        ax.set_yticks(range(len(names)), names)

    return undo


def _in_words(losses: ArrayLike) -> str:
    values = np.asarray(losses, dtype=np.float64).ravel()
    if not len(values):
        return "not run"
    diverged = int(np.isnan(values).sum())
    if diverged:
        return f"{diverged} of {len(values)} diverge"
    mean, half = t_interval(values)
    return f"{mean:.2f}, one seed" if np.isnan(half) else f"{mean:.2f} ± {half:.2f}"


def final_norm_figure(
    rates: Sequence[float],
    losses: Mapping[str, Mapping[str, Mapping[str, ArrayLike]]],
    *,
    colours: Mapping[str, str],
    unit: str = "nats/token",
    highest: float | None = None,
) -> Figure:
    """Draw losses over learning rates with and without the norm after the last layer.

    Parameters
    ----------
    rates : sequence of float
    losses : column -> row -> curve -> array of shape (n_seeds, n_rates)
        Columns stand side by side ("tied", "untied"), rows below each other ("LayerNorm", ...).
        The curves of a panel are "final norm", "no final norm" and "no norm"; NaN where a run
        diverged.
    colours : mapping of row -> colour
        "no norm" wears its own in every row.
    unit : str
    highest : float, optional
        Where the axis of losses ends. A curve that goes on above it leaves the panel.

    Returns
    -------
    Figure
        One axes a panel, row by row. The line of each curve carries the curve's name as label.
    """
    columns = list(losses)
    names = list(next(iter(losses.values())))
    fig, axes = plt.subplots(
        len(names),
        len(columns),
        figsize=(5.6, 2.0 * len(names) + 0.7),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    styles: dict[str, Any] = {
        "final norm": "-",
        "no final norm": (0, (5, 2)),
        "no norm": (0, (1.5, 1.5)),
    }
    for i, name in enumerate(names):
        for j, column in enumerate(columns):
            ax = axes[i, j]
            for curve, dash in styles.items():
                values = np.atleast_2d(np.asarray(losses[column][name][curve], dtype=np.float64))
                mean, half = t_interval(values)  # NaN where a seed diverged: the line ends there
                colour = NO_NORM if curve == "no norm" else colours[name]
                ax.plot(rates, mean, color=colour, linestyle=dash, marker="o", label=curve)
                if highest is not None:  # else the band of what blew up would cover the panel
                    half = np.where(mean > highest, np.nan, half)
                ax.fill_between(
                    rates, mean - half, mean + half, color=colour, alpha=0.18, linewidth=0
                )
            ax.set_title(f"{name}, {column}")
            if j == 0:
                ax.set_ylabel(f"loss ({unit})")
            if i == len(names) - 1:
                ax.set_xlabel("learning rate")
    if highest is not None:
        drawn = [
            np.asarray(curve, dtype=np.float64)
            for rows in losses.values()
            for row in rows.values()
            for curve in row.values()
        ]
        lowest = min(float(np.nanmin(curve)) for curve in drawn)
        axes[0, 0].set_ylim(lowest - 0.05 * (highest - lowest), highest)
    axes[0, 0].set_xscale("log", base=2)
    axes[0, 0].set_xticks(list(rates), [f"{rate:g}" for rate in rates])
    # One legend stands for all panels, in no panel's colour.
    handles = [Line2D([], [], color=INK, linestyle=d, marker="o") for d in styles.values()]
    fig.legend(handles, list(styles), loc="outside upper center", ncols=3)
    return fig
