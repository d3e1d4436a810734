"""The style of the book's figures: one place for colours, sizes and fonts.

A norm has the same colour in every chapter, and a figure reads on a phone, in print and for
colour-blind readers. `DARK` says what each colour becomes on a dark page; a figure with another
colour, such as a heat map, keeps its colours there and lies on a white card.
"""

from __future__ import annotations

import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from normtutor.colours import COLOURS
from normtutor.colours import NO_NORM as NO_NORM_ON_PAGES

FloatArray = NDArray[np.float64]

# A norm wears one colour throughout the book: in figures, style sheets and scripts it comes from
# normtutor.colours. Relatives share a colour and differ in dashes.
NORM_COLOURS = {name: light for name, (light, _) in COLOURS.items()}
NO_NORM = NO_NORM_ON_PAGES[0]  # its lines are dashed

# Five colours for anything else, none of which a norm wears. They keep 4.5:1 contrast on white and
# stay apart under the three kinds of dichromacy (tests/core/test_plotting_style.py computes both).
OTHERS = {  # on a light and on a dark page
    "teal": ("#0081a1", "#3fc9c1"),
    "crimson": ("#c4204f", "#fa8f8b"),
    "olive": ("#6f7a00", "#dfe04a"),
    "plum": ("#5a0a52", "#f3bcfd"),
    "indigo": ("#3d3ae0", "#439aff"),
}
PALETTE = {name: light for name, (light, _) in OTHERS.items()}
# What has one of them for itself, in all figures.
OTHER_COLOURS = {
    "Pre-LN": PALETTE["teal"],
    "Post-LN": PALETTE["plum"],
    "Peri-LN": PALETTE["olive"],
    "DeepNorm": PALETTE["indigo"],
    "QK-norm": PALETTE["crimson"],
    "DyT": PALETTE["indigo"],
}
# A map of losses: what failed is darkest, and wears no norm's colour.
LOSSES = LinearSegmentedColormap.from_list("losses", ["#f8f0f7", PALETTE["plum"]])
PALE = "#e4e7eb"  # a cell or a region that is there but not meant
INK = "#222222"
WARM = "#a33c00"  # words about a part of a drawing

# Colours of ordered things, such as the steps of a training run: the later, the paler.
SHADES = ("#440154", "#424086", "#2c728e", "#1fa088", "#5ec962")
# Grounds of cells that hold a number: white where there is nothing, then one a group.
TINTS = ("#ffffff", "#cfe2f3", "#f7d9c4", "#cdeadf", "#ecd5ee", "#f1e3b5", "#d9d9d9", "#b9cbe0")

# What a colour becomes on a dark page: the site's drawings are written once more, in these.
_DARK_SHADES = ("#f4e61e", "#a5db36", "#3dbc74", "#22a08a", "#3b7c9b")
_DARK_TINTS = (
    *("#121212", "#1d3b57", "#5a3018", "#16483a", "#51275a", "#4c4316", "#444444", "#3a5270"),
)
DARK = {
    **dict([*COLOURS.values(), NO_NORM_ON_PAGES, *OTHERS.values()]),
    INK: "#e6e6e6",
    PALE: "#33393f",
    WARM: "#ffad70",
    # Greys, from pale to strong.
    "#c9ced6": "#454b54",
    "#9aa0a8": "#737a84",
    "#8a9099": "#7b828c",
    "#70767e": "#979ea8",
    "#555b63": "#b0b7c0",
    "#5a5a5a": "#b4b4b4",
    **dict(zip(SHADES, _DARK_SHADES, strict=True)),
    **dict(zip(TINTS, _DARK_TINTS, strict=True)),
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

        from normtutor_studies.plotting import drawings

        set_matplotlib_formats("svg")
        shell.display_formatter.formatters["image/svg+xml"].for_type(Figure, drawings.shown)


def norm_colour(name: str) -> str:
    """Return the colour that the norm called `name` wears in every figure of the book.

    Names that are no norm (a model, a data set) raise ``KeyError``: those have their colour in
    `OTHER_COLOURS`, or get one from `PALETTE`. "none" is a network without a norm; draw it dashed.
    """
    if name == "none":
        return NO_NORM
    if name not in NORM_COLOURS:
        known = ", ".join(NORM_COLOURS)
        raise KeyError(f"no colour is reserved for {name!r}; norms with a colour are {known}")
    return NORM_COLOURS[name]
