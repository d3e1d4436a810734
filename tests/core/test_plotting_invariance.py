"""The figures of chapter 4: patterns of cells, and verdicts as dots."""

import matplotlib.colors as mcolors
import numpy as np
import pytest
from normtutor_studies import plotting

pytestmark = pytest.mark.usefixtures("book_style")


def test_cells_with_the_same_number_are_shaded_alike():
    grid = np.array([[0, 1, 0], [2, 1, 2]])
    figure = plotting.patterns_figure({"one": grid, "two": np.zeros((2, 3), int)}, split=1)
    shown = [ax for ax in figure.axes if ax.get_title()]
    assert [ax.get_title() for ax in shown] == ["one", "two"]
    mesh = shown[0].collections[0]
    colours = mesh.cmap(mesh.norm(mesh.get_array().ravel()))
    for i, first in enumerate(grid.ravel()):
        for j, second in enumerate(grid.ravel()):
            assert (colours[i] == colours[j]).all() == (first == second)
    assert [text.get_text() for text in shown[0].texts] == ["1", "2", "1", "3", "2", "3"]


def test_a_full_dot_stands_for_yes_and_wears_the_norm_s_colour():
    table = {"LayerNorm, late": {"a": True, "b": False}, "own": {"a": False, "b": True}}
    (ax,) = plotting.verdicts_figure(table).axes
    lines = {line.get_label(): line for line in ax.lines}
    assert lines["LayerNorm, late"].get_xydata().tolist() == [[0, 0]]
    assert lines["_moves LayerNorm, late"].get_xydata().tolist() == [[1, 0]]
    assert lines["own"].get_xydata().tolist() == [[1, 1]]
    colour = lines["LayerNorm, late"].get_color()
    assert mcolors.to_hex(colour) == plotting.norm_colour("LayerNorm")
    assert [label.get_text() for label in ax.get_yticklabels()] == list(table)


def test_rows_with_other_columns_are_refused():
    with pytest.raises(ValueError, match="columns"):
        plotting.verdicts_figure({"a": {"x": True}, "b": {"y": True}})
