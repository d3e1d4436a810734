"""What a norm does not see: patterns of a change, and the table as dots."""

from __future__ import annotations

import string
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from normtutor_studies.plotting.style import INK, NORM_COLOURS, PALE, TINTS


def patterns_figure(grids: Mapping[str, ArrayLike], *, split: int) -> Figure:
    """Draw grids of tokens by features; cells with the same number share a shade and a letter.

    Parameters
    ----------
    grids : mapping of title -> integer array of shape (n_tokens, n_features)
        Drawn in rows of three; an empty title leaves its place free.
    split : int
        Tokens of the first sequence: a line is drawn below them.

    Returns
    -------
    Figure
        One axes a grid, with the title as its title.
    """
    count = -(-len(grids) // 3)
    figure, axes = plt.subplots(count, 3, figsize=(5.0, 1.72 * count), squeeze=False)
    for ax in axes.flat[len(grids) :]:
        ax.axis("off")
    for ax, (title, numbers) in zip(axes.flat, grids.items(), strict=False):
        if not title.strip():
            ax.axis("off")
            continue
        cells = np.asarray(numbers)
        # Pale enough for black text, and cells with the same number look alike.
        ax.pcolormesh(
            cells % len(TINTS),
            cmap=ListedColormap(TINTS),
            vmin=-0.5,
            vmax=len(TINTS) - 0.5,
            edgecolors="#ffffff",
            linewidth=1,
        )
        for (row, column), number in np.ndenumerate(cells):
            name = string.ascii_lowercase[number]
            ax.text(column + 0.5, row + 0.5, name, ha="center", va="center", fontsize=9.5)
        ax.axhline(split, color=INK, linewidth=1.5)
        ax.set(
            xticks=[],
            yticks=[],
            xlim=(0, cells.shape[1]),
            ylim=(cells.shape[0], 0),
        )
        ax.set_title(title, fontsize=11, loc="center")
        for spine in ax.spines.values():
            spine.set_visible(True)
    return figure


def verdicts_figure(table: Mapping[str, Mapping[str, bool]]) -> Figure:
    """Draw a table of yes and no as dots: full where the output stays, a small ring where not.

    Parameters
    ----------
    table : mapping of row -> mapping of column -> bool
        Each row has the same columns. A row whose name begins with a norm's wears its colour.

    Returns
    -------
    Figure
        One axes. The full dots of a row are one line, labelled with the row's name.
    """
    columns = list(next(iter(table.values())))
    figure, ax = plt.subplots(figsize=(5.0, 1.7 + 0.36 * len(table)))
    for y, (name, row) in enumerate(table.items()):
        colour = NORM_COLOURS.get(name.split(",")[0].split(" ")[0], INK)
        stays = [x for x, column in enumerate(columns) if row[column]]
        moves = [x for x, column in enumerate(columns) if not row[column]]
        ax.plot(stays, [y] * len(stays), "o", markersize=13, color=colour, label=name)
        ax.plot(
            moves,
            [y] * len(moves),
            "o",
            markersize=5,
            markerfacecolor="none",
            markeredgecolor=INK,
            label=f"_moves {name}",
        )
        ax.axhline(y + 0.5, color=PALE, linewidth=1, zorder=0)
    ax.set_xticks(range(len(columns)), columns, rotation=50, ha="left", rotation_mode="anchor")
    ax.xaxis.tick_top()
    ax.set_yticks(range(len(table)), list(table))
    ax.set(xlim=(-0.6, len(columns) - 0.4), ylim=(len(table) - 0.5, -0.5))
    ax.tick_params(length=0, labelsize=11)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return figure
