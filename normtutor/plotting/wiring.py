"""Where the norm stands in a residual block, drawn from the table of wirings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from normtutor.plotting.style import INK, PALE


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
    A pale box on top is the norm after the last layer.

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
        heights = {"in": (branch, 0.95), "out": (branch, 2.75), "stream": (stream, 4.15)}
        for place, (x, y) in heights.items():
            if place in row.norms:
                ax.text(
                    x, y, "norm", ha="center", va="center", color="white", fontsize=9,
                    bbox=norm_box, gid=place,
                )  # fmt: skip
        sublayer = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": INK}
        ax.text(branch, 1.85, "F", ha="center", va="center", fontsize=11, bbox=sublayer)
        if row.final_norm:
            final = {"boxstyle": "round,pad=0.25", "facecolor": PALE, "edgecolor": INK}
            ax.text(
                stream, 5.0, "norm", ha="center", va="center", fontsize=9, bbox=final, gid="final"
            )
        for part, (x, y, side) in {
            "skip": (stream - 0.1, 1.85, "right"),
            "branch": (branch + 0.1, 3.5, "center"),
            "inside": (branch + 0.32, 1.4, "left"),
            "weights": (branch, 0.0, "center"),
        }.items():
            if part in labels:
                ax.text(x, y, labels[part], ha=side, va="center", fontsize=9, color="#a33c00")
        ax.set_xlim(-0.75, 2.25)
        ax.set_ylim(-0.2, 5.4)
    return fig
