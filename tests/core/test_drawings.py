"""The two drawings of a figure: the narrow one fits a telephone, and leaves no trace."""

import re

import matplotlib.pyplot as plt
import pytest
from normtutor_studies.plotting import drawings

LONG = "difference of the losses of two networks that differ in where"

pytestmark = pytest.mark.usefixtures("book_style")


def figure_with(words: str):
    figure, ax = plt.subplots(figsize=(5.0, 3.0))
    ax.plot([0, 1], [0, 1])
    ax.set_xlabel(words)
    return figure


def width_of(drawing: str) -> float:
    return float(re.search(r'width="([0-9.]+)pt"', drawing)[1]) / 72


def test_the_site_gets_a_narrow_drawing_too(monkeypatch):
    monkeypatch.setenv(drawings.BOTH, "yes")
    figure = figure_with("step")
    alone = drawings.svg(figure)
    shown = drawings.shown(figure)
    monkeypatch.delenv(drawings.BOTH)
    assert drawings.separate(drawings.shown(figure)) == (alone, None)  # as in a notebook
    wide, narrow = drawings.separate(shown)
    assert wide == alone == drawings.svg(figure)
    assert width_of(wide) == pytest.approx(5.12, abs=0.1)
    assert width_of(narrow) == pytest.approx(4.22, abs=0.1)

    # Whatever shows the file whole shows the wide drawing: the other is no part of the picture.
    assert shown.startswith(wide[: wide.rindex("</svg>")])


@pytest.mark.parametrize(
    ("names", "rotation"), [(["a", "b", "c", "d"], 0), (["LayerNorm, first"] * 4, 90)]
)
def test_names_that_would_meet_are_turned_on_the_narrow_drawing_alone(names, rotation):
    """Four arms in two panels lay on each other on a telephone."""
    figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.0))
    for ax in axes:
        ax.set_xticks(range(4), names)

    def rotations():
        return {name.get_rotation() for ax in axes for name in ax.get_xticklabels()}

    with drawings.narrowed(figure):
        assert rotations() == {rotation}
    assert rotations() == {0}


def test_long_lines_are_broken_on_the_narrow_drawing_alone():
    figure = figure_with(LONG)
    label = figure.axes[0].xaxis.label
    with drawings.narrowed(figure):
        assert "\n" in label.get_text()
        assert label.get_window_extent().width <= figure.bbox.width
    assert label.get_text() == LONG
    assert list(figure.get_size_inches()) == [5.0, 3.0]
