"""Where the norm stands in a residual block, and what that does to the gradients of the layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator
from numpy.typing import ArrayLike

from normtutor.intervals import t_interval
from normtutor_studies.plotting.style import INK, PALE, PALETTE, WARM, FloatArray


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def wiring_labels(row: Any, *, layer: int, depth: int) -> dict[str, str]:
    """Say in short texts what a row of `wiring.WIRINGS` does to the factors and the weights.

    Keys are "skip", "branch", "inside" and "weights"; a factor that changes nothing is missing.
    Numbers are those of one layer; one with a star is learned and starts there.
    """
    found = {}
    for part in ("skip", "branch", "inside"):
        value = getattr(row, part)(layer, depth)
        if row.learned == part:
            found[part] = f"×{_number(value)}*"
        elif value != 1:
            found[part] = f"×{_number(value)}"
    _, reads, writes = row.weights(layer, depth)
    if reads == writes != 1:
        found["weights"] = f"W ×{_number(writes)}"
    elif (reads, writes) != (1, 1):
        found["weights"] = f"W ×{_number(reads)}, {_number(writes)}"
    return found


def wirings_figure(
    wirings: Mapping[str, Any], *, layer: int = 4, depth: int = 12, columns: int = 4
) -> Figure:
    """Draw residual wirings side by side, each read off its row of the table.

    The stream runs upwards on the left, the branch with its sublayer F on the right; a dark box is
    a norm. Numbers are factors in the given layer; one with a star is learned and starts there.
    "W" is a factor on the branch's initial weights (those that read the stream, those that write).
    A pale box on top is the norm after the last layer. A second arrow to the sum, on the left,
    comes from the bottom of the layer.

    Parameters
    ----------
    wirings : mapping of name -> row
        `wiring.WIRINGS`, or a part of it.
    layer, depth : int
        Where the numbers are taken.
    columns : int
        Drawings in a row.

    Returns
    -------
    Figure
        One axes a wiring, its title the name. A norm's box is a text "norm" whose gid is "in",
        "out", "stream" or "final".
    """
    lines = -(-len(wirings) // columns)
    fig, grid = plt.subplots(
        lines, columns, figsize=(5.6, 2.35 * lines), squeeze=False, layout="constrained"
    )
    for ax in grid.flat:
        ax.set_axis_off()
    stream, branch, plus = 0.3, 1.35, 3.3
    arrow = {"arrowstyle": "-|>", "color": INK, "shrinkA": 0, "shrinkB": 0, "linewidth": 1.4}
    norm_box = {"boxstyle": "round,pad=0.25", "facecolor": "#5a5a5a", "edgecolor": "none"}
    for ax, (name, row) in zip(grid.flat, wirings.items(), strict=False):
        labels = wiring_labels(row, layer=layer, depth=depth)
        ax.set_title(name, loc="center", fontsize=11, pad=2)
        ax.annotate("", xy=(stream, 5.3), xytext=(stream, -0.2), arrowprops=arrow)
        ax.plot([stream, branch, branch], [0.35, 0.35, plus], color=INK, linewidth=1.4)
        ax.annotate("", xy=(stream + 0.17, plus), xytext=(branch, plus), arrowprops=arrow)
        sum_box = {"boxstyle": "circle,pad=0.12", "facecolor": "white", "edgecolor": INK}
        ax.text(stream, plus, "+", ha="center", va="center", fontsize=10, bbox=sum_box)
        if row.bottom:
            beside = stream - 0.85
            ax.plot([beside, beside], [-0.2, plus], color=INK, linewidth=1.4)
            ax.annotate("", xy=(stream - 0.17, plus), xytext=(beside, plus), arrowprops=arrow)
        heights = {"in": (branch, 0.95), "out": (branch, 2.75), "stream": (stream, 4.15)}
        for place, (x, y) in heights.items():
            if place in row.norms:
                ax.text(
                    x, y, "norm", ha="center", va="center", color="white", fontsize=9.5,
                    bbox=norm_box, gid=place,
                )  # fmt: skip
        sublayer = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": INK}
        ax.text(branch, 1.85, "F", ha="center", va="center", fontsize=11, bbox=sublayer)
        if row.final_norm:
            final = {"boxstyle": "round,pad=0.25", "facecolor": PALE, "edgecolor": INK}
            ax.text(
                stream, 5.0, "norm", ha="center", va="center", fontsize=9.5, bbox=final, gid="final"
            )
        for part, (x, y, side) in {
            "skip": (stream - 0.1, 1.85, "right"),
            "branch": (branch + 0.1, 3.5, "center"),
            "inside": (branch + 0.32, 1.4, "left"),
            "weights": (stream + 0.15, 0.0, "left"),
        }.items():
            if part in labels:
                factor = ax.text(x, y, labels[part], ha=side, va="center", fontsize=9.5, color=WARM)
                factor.set_in_layout(False)  # it may reach over the edge, where nothing stands
        ax.set(xlim=(-0.75, 2.25), ylim=(-0.2, 5.4))
    return fig


def first_steps_figure(
    steps: ArrayLike,
    panels: Mapping[str, Mapping[str, ArrayLike]],
    *,
    colours: Mapping[str, str],
    log: Sequence[str] = (),
) -> Figure:
    """Draw what happens to several runs in their first steps, one panel a quantity.

    Parameters
    ----------
    steps : array of shape (n_steps,)
    panels : mapping of ylabel -> (name of the run -> array of shape (n_seeds, n_steps))
        A line is the mean over seeds, in a logarithmic panel the geometric mean; its band reaches
        from the lowest seed to the highest. The name stands at the end of its line.
    colours : mapping of name -> colour
    log : sequence of str
        The panels whose axis is logarithmic.
    """
    at = np.asarray(steps, dtype=np.float64)
    fig, axes = plt.subplots(len(panels), 1, sharex=True, figsize=(5.0, 5.6), squeeze=False)
    for ax, (ylabel, runs) in zip(axes[:, 0], panels.items(), strict=True):
        ends = {}
        for name, values in runs.items():
            rows = np.asarray(values, dtype=np.float64)
            middle = np.exp(np.log(rows).mean(0)) if ylabel in log else rows.mean(0)
            ax.plot(at, middle, color=colours[name])
            band = rows.min(0), rows.max(0)
            ax.fill_between(at, *band, color=colours[name], alpha=0.18, linewidth=0)
            ends[name] = float(middle[-1])
        if ylabel in log:
            ax.set_yscale("log")
        ax.set(ylabel=ylabel, xlim=(at[0], at[-1] * 1.85))
        ax.spines["bottom"].set_bounds(at[0], at[-1])
        _names_at_the_end(ax, ends, float(at[-1]), colours)
    axes[-1, 0].set_xlabel("step", x=0.5 / 1.85)
    axes[-1, 0].set_xticks(np.linspace(at[0], at[-1], 5))
    return fig


def _names_at_the_end(
    ax: Axes, ends: Mapping[str, float], last: float, colours: Mapping[str, str]
) -> None:
    """Write each name beside the end of its line, moved apart where two would overlap."""
    apart = 0.09  # of the height of the axes
    axis = ax.transAxes.inverted()
    heights = {
        name: float(axis.transform(ax.transData.transform((last, end)))[1])
        for name, end in ends.items()
    }
    order = sorted(heights, key=heights.__getitem__)
    places: dict[str, float] = {}
    placed = -1.0
    for name in order:
        places[name] = placed = max(heights[name], placed + apart)
    above = 1.0
    for name in reversed(order):  # none above the axes
        places[name] = above = min(places[name], above)
        above -= apart
    for name, placed in places.items():
        x = float(axis.transform(ax.transData.transform((last, ends[name])))[0])
        ax.annotate(
            name, (x + 0.02, placed), xycoords="axes fraction", va="center", fontsize=10,
            color=colours[name],
        )  # fmt: skip


def layer_gradients_figure(
    panels: Mapping[str, Mapping[str, ArrayLike]], *, dashed: Sequence[str] = ()
) -> Figure:
    """Draw gradients layer by layer, each as a multiple of the last layer's, on a doubling scale.

    Parameters
    ----------
    panels : mapping of title -> (label -> array of shape (n_seeds, n_layers))
        Gradient norms, the first layer first; each seed is divided by its own last layer. The
        band around a line is the 95% interval of the mean of the logarithms.
    dashed : sequence of str
        Labels that are drawn dashed and thin, such as a prediction.
    """
    fig, axes = plt.subplots(len(panels), 1, sharex=True, sharey=True, figsize=(5.0, 5.4))
    colours = [PALETTE["teal"], PALETTE["plum"], INK]
    for ax, (title, lines) in zip(axes, panels.items(), strict=True):
        ax.axhline(0.0, color=INK, linewidth=0.8, zorder=0)
        found = {label: t_interval(_against_last(values)) for label, values in lines.items()}
        heights = [
            float(mean[len(mean) // 2]) for label, (mean, _) in found.items() if label not in dashed
        ]
        for colour, (label, (mean, half)) in zip(colours, found.items(), strict=False):
            numbers = np.arange(1, len(mean) + 1)
            thin = label in dashed
            width, dash = (1.5, (0, (4, 2))) if thin else (2.0, "-")
            ax.plot(numbers, mean, color=colour, linewidth=width, linestyle=dash)
            if not thin:
                ax.fill_between(numbers, mean - half, mean + half, color=colour, alpha=0.2, lw=0)
            middle = len(mean) // 2
            crowded = any(0 < other - float(mean[middle]) < 1.5 for other in heights)
            ax.annotate(
                label,
                (float(numbers[middle]), float(mean[middle])),
                xytext=(8, -16) if thin else (-8, -16 if crowded else 8),
                textcoords="offset points",
                ha="left" if thin else "right",
                color=colour,
                fontsize=10,
            )
        ax.set(title=title, ylabel="gradient\n(last layer: 1×)")
        ax.yaxis.set_major_locator(MultipleLocator(2))
        ax.yaxis.set_major_formatter(FuncFormatter(_times))
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[-1].set_xlabel("layer, counted from the input")
    return fig


def _against_last(gradients: ArrayLike) -> FloatArray:
    """log2 of each layer's gradient over the last layer's, (n_seeds, n_layers)."""
    values = np.asarray(gradients, dtype=np.float64)
    return np.log2(values / values[:, -1:])


def _times(power: float, position: int | None = None) -> str:
    """2 to this power as a multiple: 4×, 1×, 1/4×."""
    return f"{2 ** round(power):d}×" if power >= 0 else f"1/{2 ** round(-power):d}×"


def layers_figure() -> Figure:
    """Draw one whole Transformer layer, Post-LN on the left and Pre-LN on the right.

    The stream runs upwards, thick; each branch leaves it, passes its sublayer and rejoins it at a
    sum. A dark box is a norm, an outlined one the norm after the last layer.
    """
    fig, axes = plt.subplots(1, 2, figsize=(5.6, 6.0), layout="constrained")
    for ax, post in zip(axes, (True, False), strict=True):
        _draw_layer(ax, post=post)
        ax.set_title("Post-LN" if post else "Pre-LN", loc="center", fontsize=12, pad=4)
        ax.set(xlim=(-0.75, 2.9), ylim=(-0.6, 13.2))
        ax.set_axis_off()
    return fig


def _draw_layer(ax: Axes, *, post: bool) -> None:
    stream, branch, gap = 0.0, 1.75, 0.32  # gap: from the middle of a box to its edge
    line = {"arrowstyle": "-|>", "color": INK, "shrinkA": 0, "shrinkB": 0, "linewidth": 1.4}
    thick = line | {"color": PALETTE["teal"], "linewidth": 2.6}
    plain = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": INK}
    dark = plain | {"facecolor": "#5a5a5a", "edgecolor": "none"}

    def box(x: float, y: float, said: str, style: dict[str, Any] = plain, ink: str = INK) -> None:
        ax.text(x, y, said, ha="center", va="center", fontsize=10, color=ink, bbox=style, zorder=4)

    def arrow(start: tuple[float, float], end: tuple[float, float], how: Any = line) -> None:
        ax.annotate("", xy=end, xytext=start, arrowprops=how)

    arrow((stream, -0.1), (stream, 13.0), thick)
    ax.text(stream, -0.2, "x", ha="center", va="top", fontsize=11)
    for bottom, sublayer in ((0.4, ("  attention  ",)), (6.3, ("linear", "ReLU", "linear"))):
        plus, y = bottom + 4.4, bottom
        ax.plot([stream, branch], [y, y], color=INK, linewidth=1.4)
        if not post:
            arrow((branch, y), (branch, y + 1.0 - gap))
            y = bottom + 1.0
            box(branch, y, "norm", dark, "white")
            y += gap
        if len(sublayer) == 1:  # three arrows: queries, keys and values
            places, fork, left, right = [bottom + 3.2], bottom + 1.7, branch - 0.6, branch + 0.6
            ax.plot([branch, branch], [y, fork], color=INK, linewidth=1.4)
            ax.plot([left, right], [fork, fork], color=INK, linewidth=1.4)
            for x, name in ((left, "q"), (branch, "k"), (right, "v")):
                arrow((x, fork), (x, places[0] - gap - 0.08))
                ax.text(x + 0.08, fork + 0.3, name, ha="left", fontsize=10)
        else:
            places = [bottom + 2.0, bottom + 2.9, bottom + 3.8]
            for place in places:
                arrow((branch, y), (branch, place - gap))
                y = place + gap
        for place, said in zip(places, sublayer, strict=True):
            box(branch, place, said)
        ax.plot([branch, branch], [places[-1] + gap, plus], color=INK, linewidth=1.4)
        arrow((branch, plus), (stream + 0.2, plus))
        box(stream, plus, "+", plain | {"boxstyle": "circle,pad=0.14"})
        if post:
            box(stream, plus + 0.95, "norm", dark, "white")
    if not post:
        box(stream, 12.0, "norm", plain | {"facecolor": PALE})
