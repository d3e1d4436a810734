"""Figures: each function draws arrays or records that it is given, and never runs a model.

One place holds the style, so that a norm has the same colour in every chapter and a
figure reads on a phone, in print and for colour-blind readers. Figures keep a white
background on dark pages too: the theme shows them as white cards.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from normtutor import norms

FloatArray = NDArray[np.float64]

# Six colours that keep 4.5:1 contrast on white and stay apart under the three kinds of
# dichromacy (tests/test_plotting.py computes both). Neighbours in the list differ most.
PALETTE = {
    "blue": "#0a4a86",
    "vermilion": "#cc4a00",
    "green": "#0f8563",
    "purple": "#b338bd",
    "brown": "#6e4212",
    "black": "#222222",
}
PALE = "#e4e7eb"  # a cell or a region that is there but not meant
INK = "#222222"

# A norm wears one colour throughout the book. Relatives share a colour and differ in dashes.
NORM_COLOURS = {
    "BatchNorm": PALETTE["blue"],
    "LayerNorm": PALETTE["vermilion"],
    "InstanceNorm": PALETTE["brown"],
    "GroupNorm": PALETTE["green"],
    "RMSNorm": PALETTE["purple"],
    "pRMSNorm": PALETTE["purple"],
    "PowerNorm-V": PALETTE["black"],
    "PowerNorm": PALETTE["black"],
    "WeightNorm": PALETTE["brown"],
}

STYLE: dict[Any, Any] = {
    "figure.figsize": (5.0, 3.3),  # inches; at 11 pt it still reads when a phone shrinks it
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.constrained_layout.use": True,
    "axes.facecolor": "white",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.prop_cycle": cycler(color=list(PALETTE.values())),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "font.size": 11,
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same figure on every machine
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 2.0,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "svg.hashsalt": "normtutor",  # equal figures are equal files
}


def use_book_style() -> None:
    """Set matplotlib to the book's style; in a notebook, figures become SVG."""
    plt.rcParams.update(STYLE)
    # Only a notebook has imported the inline backend's shell by now.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and hasattr(shell, "kernel"):
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("svg", metadata={"Date": None})


def norm_colour(name: str) -> str:
    """Return the colour that the norm called `name` wears in every figure of the book.

    Names that are no norm (a model, a data set) raise ``KeyError``: give those a colour
    from `PALETTE` yourself.
    """
    if name not in NORM_COLOURS:
        known = ", ".join(NORM_COLOURS)
        raise KeyError(f"no colour is reserved for {name!r}; norms with a colour are {known}")
    return NORM_COLOURS[name]


# Student's t: the 97.5% points for 1 to 30 degrees of freedom, scipy.stats.t.ppf(0.975, df).
# A table, so that figures need matplotlib and no scipy.
# fmt: off
_T_975 = (
    12.70620, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691, 2.36462, 2.30600, 2.26216, 2.22814,
    2.20099, 2.17881, 2.16037, 2.14479, 2.13145, 2.11991, 2.10982, 2.10092, 2.09302, 2.08596,
    2.07961, 2.07387, 2.06866, 2.06390, 2.05954, 2.05553, 2.05183, 2.04841, 2.04523, 2.04227,
)
# fmt: on


def _t_975(degrees: int) -> float:
    if degrees <= len(_T_975):
        return _T_975[degrees - 1]
    # Beyond the table, two terms of the expansion around the normal quantile are exact to 1e-5.
    z = 1.959964
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / degrees + second / degrees**2


def t_interval(samples: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the mean over the first axis and the half-width of its 95% t-interval.

    The interval has that coverage if the rows are independent and Gaussian.

    Parameters
    ----------
    samples : array of shape (n_seeds, ...)
        One row a seed. With one row there is no spread to estimate: the half-width is NaN.

    Returns
    -------
    mean, half_width : arrays of shape (...)
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim == 0 or values.shape[0] == 0:
        raise ValueError(
            f"t_interval needs at least one row, one a seed; got an array of shape {values.shape}"
        )
    seeds = values.shape[0]
    mean = values.mean(axis=0)
    if seeds == 1:
        return mean, np.full_like(mean, np.nan)
    return mean, _t_975(seeds - 1) * values.std(axis=0, ddof=1) / np.sqrt(seeds)


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
    given = dict(colours or {})
    chosen = {name: given.get(name, NORM_COLOURS.get(name, "")) for name in names}
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
    """Draw, one row an entry, the mean over seeds as a dot in its 95% t-interval as a bar.

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
    _label_rows(ax, list(rows), xlabel, reference)
    return ax


def _rectangle(left: float, bottom: float, width: float, height: float) -> FloatArray:
    right, top = left + width, bottom + height
    return np.array([[left, bottom], [right, bottom], [right, top], [left, top]])


def shared_axes(name: str) -> str:
    """Say in words which axes of (B, L, H) share a statistic, as `norms.TABLE` has it."""
    letters = norms.TABLE[name].axes
    if not letters:
        return "no activations, the weights of one unit"
    part = "the first entries of H" if name == "pRMSNorm" else "a group of H"
    return " and ".join(part if letter == "h" else letter for letter in letters)


def sharing_cells_figure(
    names: Sequence[str] = ("BatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm"),
    *,
    shape: tuple[int, int, int] = (3, 4, 6),
    cell: tuple[int, int, int] = (1, 1, 2),
    num_groups: int = 2,
    p: float = 0.5,
    moved: Mapping[str, ArrayLike] | None = None,
) -> Figure:
    """Draw which cells of x share a statistic with one cell, one row of sheets a norm.

    Every sheet is one sequence of the batch, a row of it one token, a column one feature, so
    that no cell hides another. Filled cells share the statistic, by `norms.sharing_cells`,
    which reads `norms.TABLE`; the framed cell is the one asked about.

    Parameters
    ----------
    names : sequence of str
        Keys of `norms.TABLE`, drawn from top to bottom.
    shape : (B, L, H)
    cell : (b, l, h)
    num_groups, p
        What GroupNorm and pRMSNorm need to know, as in `norms.sharing_cells`.
    moved : mapping of name -> boolean array of shape (B, L, H), optional
        A measurement: where the output changed when `cell` of the input changed. These cells
        get a white dot. If the table is right, dots and filled cells coincide.

    Returns
    -------
    Figure
        One axes a norm. Its cells are one `PolyCollection` in the order of ``np.ndindex(shape)``;
        the dots are one `PathCollection`.
    """
    batch, length, features = shape
    gap = 1.4
    foot = 1.9  # room for the words below the last row, in cells
    heights = [length + 0.2] * (len(names) - 1) + [length + 0.2 + foot]
    scale = 5.4 / (batch * (features + gap))  # inches a cell
    fig, axes = plt.subplots(
        len(names),
        1,
        figsize=(5.6, scale * sum(heights) + 0.36 * len(names)),
        squeeze=False,
        layout="constrained",
        height_ratios=heights,
    )
    for ax, name in zip(axes[:, 0], names, strict=True):
        shares = np.asarray(norms.sharing_cells(name, shape, cell, num_groups=num_groups, p=p))
        squares = [_rectangle(b * (features + gap) + h, t, 1, 1) for b, t, h in np.ndindex(*shape)]
        colours = [norm_colour(name) if shares[i] else PALE for i in np.ndindex(*shape)]
        ax.add_collection(
            PolyCollection(squares, facecolors=colours, edgecolors="white", linewidths=1.2)
        )
        if moved is not None and name in moved:
            sheets, rows, columns = np.nonzero(np.asarray(moved[name]))
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


def books_figure(
    names: Sequence[str] = ("BatchNorm", "InstanceNorm", "GroupNorm", "LayerNorm"),
    *,
    captions: Mapping[str, str] | None = None,
    books: int = 3,
    pages: int = 6,
    lines: int = 3,
    characters: int = 4,
    num_groups: int = 2,
) -> Figure:
    """Draw the stack of books: which printed characters share a statistic, one panel a norm.

    A book is one sequence or image of the batch, a page one feature, a character one position.
    The pages are fanned out, so that the top line and the last character of each line can be
    seen. The character asked about is the last of the top line of page 3 in book 2.

    Parameters
    ----------
    names : sequence of str
        Keys of `norms.TABLE`.
    captions : mapping of name -> text, optional
        What follows the name in the title.
    books, pages, lines, characters : int
        Of the stack: B books, H pages, L = lines x characters positions on a page.
    num_groups : int

    Returns
    -------
    Figure
        One axes a norm. Each page is one `PolyCollection`, labelled "book b, page h" from 1.
    """
    shape = (books, lines * characters, pages)
    # The last character of the top line peeks out on every page of the fan.
    cell = (min(1, books - 1), characters - 1, min(2, pages - 1))
    step_x, step_y = 0.62, 0.62
    width = characters + (pages - 1) * step_x + 1.1
    height = lines + (pages - 1) * step_y + 0.4
    scale = 5.4 / (books * width)  # inches a character
    fig, axes = plt.subplots(
        len(names),
        1,
        figsize=(5.6, (scale * height + 0.36) * len(names)),
        squeeze=False,
        layout="constrained",
    )
    for ax, name in zip(axes[:, 0], names, strict=True):
        shares = np.asarray(norms.sharing_cells(name, shape, cell, num_groups=num_groups, p=0.5))
        for b in range(books):
            for page in reversed(range(pages)):
                squares, fills, edges, widths = [], [], [], []
                # The frame is drawn last, on top of its neighbours.
                spots = sorted(range(lines * characters), key=lambda spot: spot == cell[1])
                for spot in spots:
                    line, character = divmod(spot, characters)
                    left = b * width + character + page * step_x
                    squares.append(_rectangle(left, -line - 1 + page * step_y, 1, 1))
                    asked = (b, spot, page) == cell
                    fills.append(norm_colour(name) if shares[b, spot, page] else PALE)
                    edges.append(INK if asked else "white")
                    widths.append(2.0 if asked else 0.7)
                ax.add_collection(
                    PolyCollection(
                        squares,
                        facecolors=fills,
                        edgecolors=edges,
                        linewidths=widths,
                        zorder=pages - page,  # a page covers those behind it
                        label=f"book {b + 1}, page {page + 1}",
                    )
                )
        caption = f": {captions[name]}" if captions and name in captions else ""
        ax.set_title(f"{name}{caption}", fontsize=11, pad=4)
        ax.set_xlim(-0.3, books * width - 0.8)
        ax.set_ylim(-lines - 0.2, (pages - 1) * step_y + 0.2)
        ax.set_aspect("equal")
        ax.set_axis_off()
    return fig


def sphere_figure(
    x: ArrayLike,
    y: ArrayLike,
    *,
    weight: ArrayLike,
    bias: ArrayLike,
) -> Figure:
    """Draw three-dimensional tokens before and after LayerNorm, without and with its affine.

    Left, the sphere of radius √3, the plane 1ᵀy = 0 and the circle in which they meet. Right,
    what γ and β make of the three.

    Parameters
    ----------
    x : array of shape (n, 3)
        Inputs, drawn grey with a thin line to their output.
    y : array of shape (n, 3)
        Outputs without affine; on the right they are drawn as ``weight * y + bias``.
    weight, bias : arrays of shape (3,)

    Returns
    -------
    Figure
        Two axes. The scatters are labelled "input", "output" and "output with γ, β".
    """
    inputs = np.asarray(x, dtype=np.float64)
    outputs = np.asarray(y, dtype=np.float64)
    if inputs.ndim != 2 or inputs.shape[1] != 3 or inputs.shape != outputs.shape:
        raise ValueError(
            f"sphere_figure draws points of shape (n, 3), inputs and outputs alike; got "
            f"{inputs.shape} and {outputs.shape}"
        )
    scale, shift = np.asarray(weight, dtype=float), np.asarray(bias, dtype=float)
    circle = _circle_in_plane()
    fig = plt.figure(figsize=(5.2, 3.2), layout="constrained")
    colour = norm_colour("LayerNorm")

    ax = _space(fig, 1)
    _wire_sphere(ax, np.ones(3), np.zeros(3))
    _plane_patch(ax, circle * 1.3)
    ax.plot(*circle.T, color=INK, linewidth=1.2)
    for start, end in zip(inputs, outputs, strict=True):
        ax.plot(*np.stack([start, end]).T, color="#9aa0a8", linewidth=0.7)
    ax.scatter(*inputs.T, color="#70767e", s=10, depthshade=False, label="input")
    ax.scatter(*outputs.T, color=colour, s=18, depthshade=False, label="output")
    ax.set_title("without γ, β", y=1.02)

    ax = _space(fig, 2)
    _wire_sphere(ax, scale, shift)
    _plane_patch(ax, circle * 1.3 * scale + shift)
    ax.plot(*(circle * scale + shift).T, color=INK, linewidth=1.2)
    ax.scatter(
        *(outputs * scale + shift).T,
        color=colour,
        marker="D",
        s=14,
        depthshade=False,
        label="output with γ, β",
    )
    ax.set_title("with γ, β", y=1.02)
    handles, texts = zip(
        *(pair for a in fig.axes for pair in zip(*a.get_legend_handles_labels(), strict=True)),
        strict=True,
    )
    fig.legend(handles, texts, loc="outside lower center", ncols=3, columnspacing=1.0)
    return fig


def _circle_in_plane(points: int = 200) -> FloatArray:
    """Points of the circle of radius √3 in the plane 1ᵀy = 0."""
    first = np.array([1.0, -1.0, 0.0]) / np.sqrt(2)
    second = np.array([1.0, 1.0, -2.0]) / np.sqrt(6)
    angle = np.linspace(0, 2 * np.pi, points)[:, None]
    return np.sqrt(3) * (np.cos(angle) * first + np.sin(angle) * second)


def _space(fig: Figure, number: int) -> Any:
    """An empty three-dimensional panel with its three axes drawn through the origin."""
    ax: Any = fig.add_subplot(1, 2, number, projection="3d")
    limit, end = 2.2, 2.2
    ax.set(xlim=(-limit, limit), ylim=(-limit, limit), zlim=(-limit, limit))
    for index in range(3):
        tip = np.zeros(3)
        tip[index] = end
        ax.plot(*np.stack([-tip, tip]).T, color="#70767e", linewidth=0.8)
        ax.text(*(1.13 * tip), f"$y_{index + 1}$", ha="center", va="center")
    ax.set_box_aspect((1, 1, 1), zoom=1.2)
    ax.view_init(elev=16, azim=10)
    ax.set_axis_off()
    return ax


def _wire_sphere(ax: Any, scale: FloatArray, shift: FloatArray) -> None:
    radius = np.sqrt(3)
    polar, around = np.linspace(0, np.pi, 40), np.linspace(0, 2 * np.pi, 60)
    lines = []
    for angle in np.linspace(0, np.pi, 7)[1:-1]:
        ring = [np.cos(around) * np.sin(angle), np.sin(around) * np.sin(angle)]
        lines.append(np.stack([*ring, np.full_like(around, np.cos(angle))], axis=1))
    for angle in np.linspace(0, 2 * np.pi, 13)[:-1]:
        arc = [np.sin(polar) * np.cos(angle), np.sin(polar) * np.sin(angle), np.cos(polar)]
        lines.append(np.stack(arc, axis=1))
    for line in lines:
        ax.plot(*(radius * line * scale + shift).T, color="#c9ced6", linewidth=0.6)


def _plane_patch(ax: Any, outline: FloatArray) -> None:
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

    ax.add_collection3d(
        Poly3DCollection([outline], facecolor=PALETTE["blue"], alpha=0.10, edgecolor="none")
    )


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


def keys_figure(
    panels: Mapping[str, tuple[ArrayLike, ArrayLike]],
) -> Figure:
    """Draw attention keys in the plane: which of them a query can select, and their hull.

    Parameters
    ----------
    panels : mapping of title -> (keys of shape (n, 2), selectable: boolean of shape (n,))

    Returns
    -------
    Figure
        One axes a panel. Line "hull" joins the selectable keys in the order of their angle about
        their mean; the scatters "selectable" and "not selectable" hold the keys.
    """
    fig, axes = plt.subplots(
        1, len(panels), figsize=(5.2, 3.2), squeeze=False, layout="constrained"
    )
    for ax, (title, (points, mask)) in zip(axes[0], panels.items(), strict=True):
        keys = np.asarray(points, dtype=np.float64)
        selectable = np.asarray(mask, dtype=bool)
        outer = keys[selectable]
        around = outer - outer.mean(axis=0)
        outer = outer[np.argsort(np.arctan2(around[:, 1], around[:, 0]))]
        ax.plot(*np.concatenate([outer, outer[:1]]).T, color=INK, linewidth=1, label="hull")
        ax.scatter(*keys[selectable].T, color=PALETTE["blue"], s=38, zorder=3, label="selectable")
        ax.scatter(
            *keys[~selectable].T,
            color=PALETTE["vermilion"],
            marker="x",
            s=38,
            zorder=3,
            label="not selectable",
        )
        ax.set_title(title)
        ax.set_aspect("equal", adjustable="datalim")
        ax.set_xlabel("coordinate 1")
    axes[0, 0].set_ylabel("coordinate 2")
    handles, texts = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, texts, loc="outside lower center", ncols=3)
    return fig


def half_plane_figure(mean: ArrayLike, deviation: ArrayLike) -> Figure:
    """Draw what LayerNorm and RMSNorm do, in the half-plane of mean μ and standard deviation σ.

    A token's direction within the hyperplane of zero mean is not touched by either norm, so this
    plane shows all that they change. RMSNorm moves a point along its ray to the unit circle;
    LayerNorm moves it to (0, 1), whatever its mean.

    Parameters
    ----------
    mean, deviation : arrays of shape (n,)
        μ and σ > 0 of n tokens.

    Returns
    -------
    Figure
        One axes. The scatters are labelled "token", "after RMSNorm" and "after LayerNorm".
    """
    mu = np.asarray(mean, dtype=np.float64)
    sigma = np.asarray(deviation, dtype=np.float64)
    if mu.ndim != 1 or mu.shape != sigma.shape or not (sigma > 0).all():
        raise ValueError(
            "half_plane_figure draws n points: mean and deviation of shape (n,), deviations above "
            f"0; got shapes {mu.shape} and {sigma.shape}"
        )
    radius = np.hypot(mu, sigma)
    fig, ax = plt.subplots(figsize=(5.6, 3.1))
    angle = np.linspace(0, np.pi, 200)
    ax.plot(np.cos(angle), np.sin(angle), color=INK, linewidth=1)
    limit = 1.1 * max(1.0, float(np.abs(mu).max()))
    for m, s, r in zip(mu, sigma, radius, strict=True):
        ax.plot([m, m / r], [s, s / r], color=NORM_COLOURS["RMSNorm"], linewidth=1)
        # LayerNorm in two steps: centre, then along the axis.
        ax.plot([m, 0, 0], [s, s, 1], color=NORM_COLOURS["LayerNorm"], linewidth=1, linestyle=":")
    ax.scatter(mu, sigma, color="#70767e", s=26, zorder=3, label="token")
    rms = NORM_COLOURS["RMSNorm"]
    ax.scatter(mu / radius, sigma / radius, color=rms, s=36, zorder=3, label="after RMSNorm")
    layer = NORM_COLOURS["LayerNorm"]
    ax.scatter([0], [1], color=layer, marker="D", s=56, zorder=4, label="after LayerNorm")
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.set_xlim(-limit, limit)
    ax.set_ylim(0, 1.1 * max(1.0, float(sigma.max())))
    ax.set_aspect("equal", adjustable="box")
    ax.set_xlabel("mean μ of the token")
    ax.set_ylabel("standard deviation σ")
    fig.legend(loc="outside lower center", ncols=3, columnspacing=1.0)
    return fig


def repeats(
    rows: Mapping[str, ArrayLike],
    *,
    xlabel: str,
    reference: float | None = 1.0,
    colours: Mapping[str, str] | None = None,
) -> Axes:
    """Draw measurements that were repeated: a dot at each median, a bar from quartile to quartile.

    Parameters
    ----------
    rows : mapping of text -> array of shape (n_repeats, 3)
        Lower quartile, median and upper quartile of each repeat; drawn from top to bottom.
    xlabel : str
    reference : float or None
        Where the vertical line stands; None draws no line.
    colours : mapping of text -> colour, optional

    Returns
    -------
    Axes
        One error bar container a row, its label the row's text, in `ax.containers`.
    """
    _, ax = plt.subplots(figsize=(5.0, 1.0 + 0.42 * len(rows)))
    chosen = _colours_for(list(rows), colours)
    for position, (text, samples) in enumerate(rows.items()):
        values = np.asarray(samples, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != 3:
            raise ValueError(
                f"rows[{text!r}] must have shape (n_repeats, 3): quartile, median, quartile; "
                f"got {values.shape}"
            )
        low, median, high = values.T
        offsets = 0.14 * (np.arange(len(values)) - (len(values) - 1) / 2)
        ax.errorbar(
            median,
            position + offsets,
            xerr=[median - low, high - median],
            fmt="o",
            markersize=5,
            linewidth=1.5,
            color=chosen[text],
            label=text,
        )
    _label_rows(ax, list(rows), xlabel, reference)
    return ax


def graph_figure(
    nodes: Mapping[str, tuple[float, float]],
    edges: Sequence[tuple[str, str]],
    *,
    figsize: tuple[float, float] = (5.6, 2.2),
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
    unknown = sorted({end for edge in edges for end in edge} - nodes.keys())
    if unknown:
        raise ValueError(f"edges name nodes that are not there: {', '.join(unknown)}")
    fig, ax = plt.subplots(figsize=figsize)
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
    ax.set_xlim(min(columns) - 0.5, max(columns) + 0.5)
    ax.set_ylim(min(rows) - 0.5, max(rows) + 0.5)
    ax.set_axis_off()
    return fig


# --- residual wirings -----------------------------------------------------------------------------


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
    norm_box = {"boxstyle": "round,pad=0.25", "facecolor": PALETTE["blue"], "edgecolor": "none"}
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
    image = ax.imshow(table, cmap="cividis_r", vmin=low, vmax=high, aspect="auto")
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
