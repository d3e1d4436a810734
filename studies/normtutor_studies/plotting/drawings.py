"""A figure's two drawings: the wide one that a notebook shows, and a narrow one for telephones.

The site shows one or the other. A figure is drawn again at another width rather than shrunk, so
that its letters stay as large; long titles are broken, names that would meet under an axis are
turned, and `on_narrow` says what else changes.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from weakref import WeakKeyDictionary

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

# Inches; with the margin that is saved around it, a telephone shows it at nine tenths.
NARROW = 4.1

# Where the narrow drawing lies in the file of the wide one.
OPENS, CLOSES = '<metadata id="narrow"><![CDATA[', "]]></metadata>"
EMBEDDED = re.compile(re.escape(OPENS) + "(.*?)" + re.escape(CLOSES), re.DOTALL)

# The build of the site asks for two drawings; a reader's notebook shows one.
BOTH = "NORMTUTOR_BOTH_DRAWINGS"

Undo = Callable[[], None]


# What else changes in which figure.
_changes: WeakKeyDictionary[Figure, list[Callable[[Figure], Undo]]] = WeakKeyDictionary()


def on_narrow(figure: Figure, change: Callable[[Figure], Undo]) -> None:
    """Let a function change a figure for its narrow drawing, and return what undoes the change."""
    _changes.setdefault(figure, []).append(change)


def _texts(ax: Axes) -> list[Text]:
    """List the titles (in the middle, left and right) and what else is written on axes."""
    return [text for text in ax.get_children() if isinstance(text, Text)]


def _break_long_texts(figure: Figure) -> Undo:
    """Break the lines that reach beyond a figure that has been laid out, or into another."""
    before: list[tuple[Text, str]] = []

    def write(text: Text, words: str) -> None:
        before.append((text, text.get_text()))
        text.set_text(words)

    for ax in figure.axes:
        _, left, right = (text for text in _texts(ax) if text not in ax.texts)
        both = left.get_text() and right.get_text()
        if both and left.get_window_extent().overlaps(right.get_window_extent()):
            write(left, f"{left.get_text()}\n{right.get_text()}")
            write(right, "")
        for text in [ax.xaxis.label, *_texts(ax)]:
            box, words = text.get_window_extent(), text.get_text()
            room = figure.bbox.width - max(
                0.0, box.x0 if text.get_horizontalalignment() == "left" else 0.0
            )
            if text.get_visible() and box.width > room and "$" not in words:
                letters = int(max(map(len, words.split("\n"))) * room / box.width)
                write(text, textwrap.fill(words.replace("\n", " "), letters))

    def undo() -> None:
        for text, words in reversed(before):
            text.set_text(words)

    return undo


def _turn_crowded_names(figure: Figure) -> Undo:
    """Write the names under an axis upwards where they meet in a figure that has been laid out."""
    turned = []
    for ax in figure.axes:
        names = [name for name in ax.get_xticklabels() if name.get_visible() and name.get_text()]
        boxes = sorted((name.get_window_extent() for name in names), key=lambda box: box.x0)
        if any(one.x1 > other.x0 for one, other in pairwise(boxes)):
            ax.tick_params(axis="x", labelrotation=90)
            turned.append(ax)

    def undo() -> None:
        for ax in turned:
            ax.tick_params(axis="x", labelrotation=0)

    return undo


@contextmanager
def narrowed(figure: Figure) -> Iterator[None]:
    """Lay a figure out for a narrow screen, and afterwards as it was."""
    width, height = figure.get_size_inches()
    undone: list[Undo] = [lambda: figure.set_size_inches(width, height)]
    try:
        figure.set_size_inches(NARROW, height)
        for change in _changes.get(figure, []):
            undone.append(change(figure))
        figure.draw_without_rendering()
        undone.append(_turn_crowded_names(figure))
        figure.draw_without_rendering()
        undone.append(_break_long_texts(figure))
        yield
    finally:
        for undo in reversed(undone):
            undo()


def svg(figure: Figure) -> str:
    """Draw a figure as SVG, the same for the same figure."""
    from IPython.core.pylabtools import print_figure

    return str(print_figure(figure, "svg", bbox_inches="tight", metadata={"Date": None}))


def shown(figure: Figure) -> str:
    """Draw a figure for a notebook; where the site is built, with the narrow drawing inside."""
    wide = svg(figure)
    if not os.environ.get(BOTH) or figure.get_figwidth() <= NARROW:
        return wide
    with narrowed(figure):
        narrow = svg(figure)
    before, after = wide.rsplit("</svg>", 1)
    return f"{before}{OPENS}{narrow[narrow.index('<svg') :]}{CLOSES}</svg>{after}"


def separate(drawing: str) -> tuple[str, str | None]:
    """Take the two drawings of a figure apart: the wide one, and the narrow one if there is one."""
    found = EMBEDDED.search(drawing)
    return EMBEDDED.sub("", drawing), found[1] if found else None
