"""Which cells share a statistic, drawn for the family of norms."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from normtutor import norms
from normtutor_studies.plotting.style import INK, PALE, FloatArray, norm_colour


def _rectangle(left: float, bottom: float, width: float, height: float) -> FloatArray:
    right, top = left + width, bottom + height
    corners = [[left, bottom], [right, bottom], [right, top], [left, top]]
    return np.array(corners, dtype=np.float64)


def shared_axes(name: str) -> str:
    """Say in words which axes of (B, L, H) share a statistic, as `norms.TABLE` has it."""
    letters = norms.TABLE[name].axes
    if not letters:
        return "no activations, the weights of one unit"
    part = "the first entries of H" if name == "pRMSNorm" else "a group of H"
    return " and ".join(part if letter == "h" else letter for letter in letters)


def sharing_cells_figure(
    *, shape: tuple[int, int, int], cell: tuple[int, int, int], moved: Mapping[str, ArrayLike]
) -> Figure:
    """Draw which cells of x share a statistic with one cell, one row of sheets a norm.

    Every sheet is one sequence of the batch, a row of it one token, a column one feature, so
    that no cell hides another. Filled cells share the statistic, by `norms.sharing_cells`,
    which reads `norms.TABLE`; the framed cell is the one asked about.

    Parameters
    ----------
    shape, cell : (B, L, H) and (b, l, h)
    moved : mapping of name -> boolean array of shape (B, L, H)
        A measurement, drawn from top to bottom: where the output of a norm of `norms.TABLE`
        changed when `cell` of the input changed. These cells get a white dot. If the table is
        right, dots and filled cells coincide.

    Returns
    -------
    Figure
        One axes a norm. Its cells are one `PolyCollection` in the order of ``np.ndindex(shape)``;
        the dots are one `PathCollection`.
    """
    batch, length, features = shape
    gap = 1.4
    foot = 1.9  # room for the words below the last row, in cells
    heights = [length + 0.2] * (len(moved) - 1) + [length + 0.2 + foot]
    scale = 5.4 / (batch * (features + gap))  # inches a cell
    fig, axes = plt.subplots(
        len(moved),
        1,
        figsize=(5.6, scale * sum(heights) + 0.36 * len(moved)),
        squeeze=False,
        layout="constrained",
        height_ratios=heights,
    )
    for ax, (name, changed) in zip(axes[:, 0], moved.items(), strict=True):
        shares = np.asarray(norms.sharing_cells(name, shape, cell, num_groups=2, p=0.5))
        squares = [_rectangle(b * (features + gap) + h, t, 1, 1) for b, t, h in np.ndindex(*shape)]
        colours = [norm_colour(name) if shares[i] else PALE for i in np.ndindex(*shape)]
        ax.add_collection(
            PolyCollection(squares, facecolors=colours, edgecolors="white", linewidths=1.2)
        )
        sheets, rows, columns = np.nonzero(np.asarray(changed))
        left = sheets * (features + gap) + columns
        ax.scatter(left + 0.5, rows + 0.5, s=13, color="white", zorder=3)
        b, t, h = cell
        ax.plot(
            b * (features + gap) + h + np.array([0, 1, 1, 0, 0]),
            t + np.array([0, 0, 1, 1, 0]),
            color=INK,
            linewidth=2.4,
            zorder=4,
            solid_joinstyle="miter",
        )
        ax.set_title(f"{name}: {shared_axes(name)}", fontsize=11, pad=4)
        ax.set_xlim(-0.9, batch * (features + gap) - gap + 0.2)
        ax.set_ylim(length + 0.1, -0.1)
        ax.set_aspect("equal")
        ax.set_axis_off()
    last = axes[-1, 0]
    for b in range(batch):
        last.text(
            b * (features + gap) + features / 2,
            length + 0.15,
            f"sequence {b + 1}\nfeatures →",
            ha="center",
            va="top",
            fontsize=10,
        )
    for ax in axes[:, 0]:
        ax.text(-0.25, length / 2, "← tokens", rotation=90, ha="right", va="center", fontsize=10)
    last.set_ylim(length + 0.1 + foot, -0.1)
    return fig


def books_figure(captions: Mapping[str, str]) -> Figure:
    """Draw the stack of books: which printed characters share a statistic, one panel a norm.

    A book is one sequence or image of the batch, a page one feature, a character one position.
    Every book is folded like a concertina and lies open, so that no page hides another. The
    character asked about is the last of the top line of page 2 in book 2.

    Parameters
    ----------
    captions : mapping from a key of `norms.TABLE` to what stands below its name

    Returns
    -------
    Figure
        One axes a norm. Each page is one `PolyCollection`, labelled "book b, page h" from 1.
    """
    books, pages, lines, characters = 3, 4, 2, 3
    shape, cell = (books, lines * characters, pages), (1, characters - 1, 1)
    slope, gap = 0.28, 1.1
    width, height = pages * characters, books * (lines + gap)
    scale = 4.7 / (2 * (width + 3.6))  # inches a character
    size = (5.0, 2 * (scale * (height + 1.6) + 0.55))
    fig, axes = plt.subplots(2, 2, figsize=size, layout="constrained")
    for ax, (name, caption) in zip(axes.flat, captions.items(), strict=True):
        shares = np.asarray(norms.sharing_cells(name, shape, cell, num_groups=2, p=0.5))
        for b, page in np.ndindex(books, pages):
            # Every other page rises, the rest fall: the folds of a concertina.
            rising = slope if page % 2 == 0 else -slope
            foot = 0.0 if page % 2 == 0 else slope * characters
            squares, fills, edges, widths = [], [], [], []
            # The frame is drawn last, on top of its neighbours' edges.
            for spot in sorted(range(lines * characters), key=lambda spot: spot == cell[1]):
                line, character = divmod(spot, characters)
                square = _rectangle(character, lines - 1 - line, 1, 1)
                square[:, 1] += foot + rising * square[:, 0] - b * (lines + gap)
                square[:, 0] += page * characters
                asked = (b, spot, page) == cell
                squares.append(square)
                fills.append(norm_colour(name) if shares[b, spot, page] else PALE)
                edges.append(INK if asked else "white")
                widths.append(2.2 if asked else 0.8)
            ax.add_collection(
                PolyCollection(
                    squares,
                    facecolors=fills,
                    edgecolors=edges,
                    linewidths=widths,
                    zorder=3 if (b, page) == (cell[0], cell[2]) else 2,
                    label=f"book {b + 1}, page {page + 1}",
                )
            )
        for b in range(books):
            middle = lines / 2 - b * (lines + gap)
            ax.text(-0.3, middle, f"book {b + 1}", ha="right", va="center", fontsize=11)
        for page in range(pages):
            ax.text(
                (page + 0.5) * characters,
                -(books - 1) * (lines + gap) - 0.35,
                f"page {page + 1}" if page == 0 else str(page + 1),
                ha="center",
                va="top",
                fontsize=11,
            )
        ax.set_title(f"{name}\n{caption}", fontsize=11, pad=3)
        ax.set_xlim(-3.4, width + 0.2)
        ax.set_ylim(-(books - 1) * (lines + gap) - 1.5, lines + slope * characters + 0.15)
        ax.set_aspect("equal")
        ax.set_axis_off()
    return fig


def cubes_figure(panels: Mapping[str, tuple[str, int]]) -> Figure:
    """Draw x as a cube of features by examples by positions, one panel per norm.

    The front shows the first example, its features to the right and its positions downwards; the
    other examples stand behind it. For images these are C, N and (H, W), for sequences H, B and L.
    The framed cell is the first position of the last feature of the first example.

    Parameters
    ----------
    panels : mapping from what stands above a cube to (a key of `norms.TABLE`, number of groups)

    Returns
    -------
    Figure
        One axes per panel. Its faces are `PolyCollection`s, labelled "front", "right" and "top".
    """
    examples, positions, features = shape = (4, 4, 6)
    cell = (0, 0, features - 1)
    behind = np.array([0.5, 0.36])  # from an example to the one behind it

    def corners(b: int, t: int, h: int, *sides: tuple[int, int, int]) -> FloatArray:
        """The corners of one side of a cell, as they are drawn."""
        steps = np.array([(0, 0, 0), sides[0], np.add(sides[0], sides[1]), sides[1]]) + np.array(
            [b, t, h]
        )
        return np.array([[h, -t] + b * behind for b, t, h in steps])

    rows = (len(panels) + 1) // 2
    fig, axes = plt.subplots(rows, 2, figsize=(5.4, 2.1 * rows), layout="constrained")
    for ax, (title, (name, groups)) in zip(axes.flat, panels.items(), strict=True):
        shares = np.asarray(norms.sharing_cells(name, shape, cell, num_groups=groups))
        for face, visible, start, sides in (
            ("front", (0, slice(None), slice(None)), (0, 0, 0), ((0, 1, 0), (0, 0, 1))),
            ("right", (slice(None), slice(None), -1), (0, 0, 1), ((1, 0, 0), (0, 1, 0))),
            ("top", (slice(None), 0, slice(None)), (0, 0, 0), ((1, 0, 0), (0, 0, 1))),
        ):
            cells = np.argwhere(np.ones(shape)).reshape(*shape, 3)[visible].reshape(-1, 3)
            squares = [corners(*(at + start), *sides) for at in cells]
            colours = [norm_colour(name) if shares[tuple(at)] else PALE for at in cells]
            ax.add_collection(
                PolyCollection(
                    squares, facecolors=colours, edgecolors="white", linewidths=1.0, label=face
                )
            )
            framed = squares[[tuple(at) for at in cells].index(cell)]
            ax.plot(*np.vstack([framed, framed[:1]]).T, color=INK, linewidth=1.8)
        ax.set_title(title, fontsize=11, pad=3)
        ax.text(features / 2, -positions - 0.25, "C or H →", ha="center", va="top", fontsize=11)
        ax.text(
            -0.25,
            -positions / 2,
            "← (H, W) or L",
            rotation=90,
            ha="right",
            va="center",
            fontsize=11,
        )
        x, y = [features + 0.35, -positions] + examples / 2 * behind
        ax.text(x, y, "N or B →", rotation=36, ha="left", va="center", fontsize=11)
        ax.set_xlim(-1.3, features + examples * behind[0] + 1.0)
        ax.set_ylim(-positions - 1.4, examples * behind[1] + 0.2)
        ax.set_aspect("equal")
        ax.set_axis_off()
    return fig
