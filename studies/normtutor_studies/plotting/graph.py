"""The computational graph of a norm and what flows back through it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from normtutor_studies.plotting.style import INK, PALE


def graph_figure(
    nodes: Mapping[str, tuple[float, float]], edges: Sequence[tuple[str, str]]
) -> Figure:
    """Draw a computational graph: a circle a value, an arrow from a value to what uses it.

    Parameters
    ----------
    nodes : mapping of text -> (x, y)
        Where each circle stands, in units of the distance between two columns.
    edges : sequence of (text, text)
        From, to.

    Returns
    -------
    Figure
        One annotation an edge, and one text a node, in ``figure.axes[0].texts``.
    """
    fig, ax = plt.subplots(figsize=(5.6, 2.2))
    for start, end in edges:
        ax.annotate(
            "",
            xy=nodes[end],
            xytext=nodes[start],
            arrowprops={"arrowstyle": "-|>", "color": INK, "shrinkA": 15, "shrinkB": 15},
        )
    for text, (x, y) in nodes.items():
        circle = {"boxstyle": "circle,pad=0.35", "facecolor": PALE, "edgecolor": INK}
        ax.text(x, y, text, ha="center", va="center", bbox=circle)
    columns, rows = zip(*nodes.values(), strict=True)
    ax.set(xlim=(min(columns) - 0.5, max(columns) + 0.5), ylim=(min(rows) - 0.5, max(rows) + 0.5))
    ax.set_axis_off()
    return fig
