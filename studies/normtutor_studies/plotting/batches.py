"""Figures on what shares a batch: the dose of one-topic batches, and a norm's two modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from normtutor.intervals import t_interval
from normtutor_studies.plotting.style import INK, norm_colour

Dose = Mapping[float, ArrayLike]  # share of one-topic batches -> (n_seeds,)


def dose_figure(
    panels: Mapping[str, Mapping[str, Dose]],
    *,
    ylabel: str = "loss minus LayerNorm's\n(nats/token)",
    size: tuple[float, float] = (5.0, 5.4),
) -> Figure:
    """Draw, one panel a text, how a norm falls behind as one-topic batches become frequent.

    Parameters
    ----------
    panels : mapping of title -> (norm -> (share -> array of shape (n_seeds,)))
        Test losses minus LayerNorm's, paired by seed. The panels stand above each other, and each
        has its own scale of losses: texts differ in how much there is to lose. A norm keeps the
        name that it has in ``normtutor_studies.plotting.NORM_COLOURS``.
    ylabel : str
    size : (width, height) in inches
    """
    if not panels:
        raise ValueError("dose_figure needs at least one panel; got an empty mapping.")
    fig, axes = plt.subplots(len(panels), 1, sharex=True, figsize=size, squeeze=False)
    for ax, (title, doses) in zip(axes[:, 0], panels.items(), strict=True):
        ax.plot([0, 1], [0, 0], color=norm_colour("LayerNorm"), linewidth=1.5, zorder=0)
        for norm, dose in doses.items():
            _dose(ax, norm, dose)
        ax.set_title(title)
        ax.set_ylabel(ylabel)
        ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "¼", "½", "¾", "1"])
        ax.set_xlim(-0.06, 1.42)
        ax.spines["bottom"].set_bounds(0, 1)
        _direct_labels(ax, {"LayerNorm": 0.0} | {n: _last(d) for n, d in doses.items()})
    axes[-1, 0].set_xlabel("share of batches that are of one topic", x=0.36)
    return fig


def _dose(ax: Axes, norm: str, dose: Dose) -> None:
    shares = sorted(dose)
    values = np.stack([np.asarray(dose[share], dtype=np.float64) for share in shares], axis=1)
    mean, half = t_interval(values)
    colour = norm_colour(norm)
    ax.errorbar(shares, mean, yerr=half, fmt="o-", color=colour, markersize=6, capsize=4)
    for share, column in zip(shares, values.T, strict=True):
        ax.plot([share + 0.025] * len(column), column, ".", color=colour, markersize=3.5, alpha=0.7)


def _last(dose: Dose) -> float:
    return float(np.mean(np.asarray(dose[max(dose)])))


def _direct_labels(ax: Axes, ends: Mapping[str, float]) -> None:
    """Write each name beside the end of its line, moved apart where two would overlap."""
    low, high = ax.get_ylim()
    apart, previous = 0.1 * (high - low), -np.inf
    for name, height in sorted(ends.items(), key=lambda item: item[1]):
        place = max(height, previous + apart)
        previous = place
        ax.annotate(
            name,
            (1.0, height),
            xytext=(1.07, place),
            color=norm_colour(name),
            va="center",
            fontsize=10,
        )


def modes_figure(
    rows: Mapping[str, Mapping[str, ArrayLike]],
    *,
    xlabel: str = "BatchNorm's test loss minus LayerNorm's (nats/token)",
    modes: Sequence[str] = ("running statistics", "the batch's statistics"),
    colour: str | None = None,
    colours: Mapping[str, str] | None = None,
    size: tuple[float, float] | None = None,
) -> Figure:
    """Draw two modes of a norm for each kind of batches: filled and hollow, with intervals.

    Parameters
    ----------
    rows : mapping of text -> (mode -> array of shape (n_seeds,))
        Differences that are paired by seed, from top to bottom.
    xlabel : str
    modes : sequence of two str
        The keys in each row: filled, then hollow.
    colour : str, optional
        By default that of BatchNorm.
    colours : mapping of text -> colour, optional
        For rows that show another norm.
    size : (width, height) in inches, optional
    """
    if not rows:
        raise ValueError("modes_figure needs at least one row; got an empty mapping.")
    common = norm_colour("BatchNorm") if colour is None else colour
    fig, ax = plt.subplots(figsize=size or (5.0, 1.5 + 0.62 * len(rows)))
    ax.axvline(0.0, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    for position, (text, by_mode) in enumerate(rows.items()):
        colour = (colours or {}).get(text, common)
        for mode, shift, face in zip(modes, (-0.17, 0.17), (colour, "white"), strict=True):
            if mode not in by_mode:
                raise ValueError(f"rows[{text!r}] lacks the mode {mode!r}; it has {list(by_mode)}.")
            values = np.asarray(by_mode[mode], dtype=np.float64)
            mean, half = t_interval(values)
            height = position + shift
            ax.plot(
                values, [height + 0.11] * len(values), ".", color=colour, markersize=3.5, alpha=0.7
            )
            ax.errorbar(
                [float(mean)],
                [height],
                xerr=[float(half)],
                fmt="o",
                markersize=7,
                capsize=4,
                color=colour,
                markerfacecolor=face,
                label=mode if position == 0 else None,
            )
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(xlabel, x=1.0, ha="right")
    fig.legend(loc="outside upper left", ncols=2, handletextpad=0.3, columnspacing=1.2)
    return fig
