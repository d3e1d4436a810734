"""The style of the book's figures: one place for colours, sizes and fonts.

A norm has the same colour in every chapter, and a figure reads on a phone, in print and for
colour-blind readers. Figures keep a white background on dark pages too.
"""

from __future__ import annotations

import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from numpy.typing import NDArray

from normtutor import norms

FloatArray = NDArray[np.float64]

# A norm wears one colour throughout the book: in figures, style sheets and scripts it comes from
# its row of norms.TABLE. Relatives share a colour and differ in dashes.
NORM_COLOURS = {name: row.light for name, row in norms.TABLE.items()}
NO_NORM = norms.NO_NORM[0]  # its lines are dashed

# Six colours that keep 4.5:1 contrast on white and stay apart under the three kinds of
# dichromacy (tests/core/test_plotting.py computes both). Neighbours in the list differ most.
# They are those of the norms. What is no norm (a verdict, a wiring, a batch) is told apart by
# shape, dashes and shades of grey, or by these where no norm stands in the same figure.
PALETTE = {
    "blue": NORM_COLOURS["BatchNorm"],
    "vermilion": NORM_COLOURS["LayerNorm"],
    "green": NORM_COLOURS["GroupNorm"],
    "purple": NORM_COLOURS["RMSNorm"],
    "brown": NORM_COLOURS["InstanceNorm"],
    "black": NORM_COLOURS["PowerNorm"],
}
PALE = "#e4e7eb"  # a cell or a region that is there but not meant
INK = "#222222"

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
    from `PALETTE` yourself. "none" is a network without a norm; draw it dashed.
    """
    if name == "none":
        return NO_NORM
    if name not in NORM_COLOURS:
        known = ", ".join(NORM_COLOURS)
        raise KeyError(f"no colour is reserved for {name!r}; norms with a colour are {known}")
    return NORM_COLOURS[name]
