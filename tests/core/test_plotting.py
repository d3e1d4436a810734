"""The figures: what is drawn equals the data."""

import itertools

import matplotlib

matplotlib.use("agg")

import matplotlib.colors as mcolors
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.path import Path as Outline
from normtutor_studies import plotting
from normtutor_studies.plotting import drawings
from numpy.testing import assert_allclose, assert_array_equal

from normtutor import norms
from normtutor.wiring import WIRINGS

pytestmark = pytest.mark.usefixtures("book_style")


def rows(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_curves_draw_the_mean_and_its_band():
    x, data = np.arange(5.0), {"BatchNorm": rows(6, 5), "other": rows(6, 5, seed=1)}
    ax = plotting.curves(
        x, data, labels={"other": "no norm"}, xlabel="steps", ylabel="loss (nats/token)"
    )
    lines = {line.get_label(): line for line in ax.lines}
    for label, key in (("BatchNorm", "BatchNorm"), ("no norm", "other")):
        mean, half = plotting.t_interval(data[key])
        assert_array_equal(lines[label].get_xdata(), x)
        assert_allclose(lines[label].get_ydata(), mean)
        band = next(c for c in ax.collections if c.get_label() == f"_band {label}")
        vertices = band.get_paths()[0].vertices
        for step in range(5):
            heights = vertices[vertices[:, 0] == x[step], 1]
            assert_allclose(
                [heights.min(), heights.max()], [(mean - half)[step], (mean + half)[step]]
            )
    assert lines["BatchNorm"].get_color() == plotting.norm_colour("BatchNorm")
    ax = plotting.curves([1, 2], {"a": [3.0, 4.0]}, xlabel="x", ylabel="y")
    assert_array_equal(ax.lines[0].get_ydata(), [3.0, 4.0])
    assert not ax.collections and ax.get_legend() is None


# --- the table, drawn


def filled(collection):
    return ~np.isclose(collection.get_facecolor()[:, :3], mcolors.to_rgb(plotting.PALE)).all(axis=1)


def test_sharing_cells_figure_draws_the_table():
    shape, cell = (2, 3, 4), (1, 2, 1)
    moved = np.random.default_rng(0).random(shape) > 0.5
    moves = dict.fromkeys(norms.TABLE, moved)
    fig = plotting.sharing_cells_figure(shape=shape, cell=cell, moved=moves)
    for ax, name in zip(fig.axes, norms.TABLE, strict=True):
        (cells,) = (c for c in ax.collections if isinstance(c, PolyCollection))
        shares = norms.sharing_cells(name, shape, cell, num_groups=2, p=0.5)
        assert_array_equal(filled(cells), shares.ravel())
        corners = np.array([path.vertices[0] for path in cells.get_paths()])
        assert len(np.unique(corners, axis=0)) == shares.size  # no cell hides another
        (dots,) = (c for c in ax.collections if isinstance(c, PathCollection))
        assert_array_equal(np.asarray(dots.get_offsets()) - 0.5, corners[moved.ravel()])


NAMES = ("BatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm")


def test_books_figure_draws_the_table():
    fig = plotting.books_figure(dict.fromkeys(NAMES, "a needle"))
    shape, cell = (3, 6, 4), (1, 2, 1)
    for ax, name in zip(fig.axes, NAMES, strict=True):
        shares = norms.sharing_cells(name, shape, cell, num_groups=2, p=0.5)
        pages = {c.get_label(): c for c in ax.collections}
        assert len(pages) == 12
        for book, page in np.ndindex(3, 4):
            collection = pages[f"book {book + 1}, page {page + 1}"]
            assert filled(collection).sum() == shares[book, :, page].sum()


def test_cubes_figure_draws_the_table():
    panels = {name: (name, 2) for name in NAMES} | {"the whole image": ("GroupNorm", 1)}
    fig = plotting.cubes_figure(panels | {"in groups of two": ("GroupNorm", 3)})
    shape, cell = (4, 4, 6), (0, 0, 5)
    for ax, (name, groups) in zip(fig.axes, panels.values(), strict=False):
        shares = norms.sharing_cells(name, shape, cell, num_groups=groups)
        faces = {c.get_label(): c for c in ax.collections}
        sides = {"front": shares[0], "right": shares[:, :, -1], "top": shares[:, 0]}
        for face, side in sides.items():
            assert_array_equal(filled(faces[face]), side.ravel())


# --- geometry


def test_sphere_figure_draws_its_points():
    x = rows(7, 3)
    y = norms.layer_norm(x, eps=0.0)[0]
    weight, bias = np.array([1.5, 0.5, 1.0]), np.array([0.1, 0.2, 0.3])
    fig = plotting.sphere_figure(x, y, weight=weight, bias=bias)
    drawn = {c.get_label(): c for ax in fig.axes for c in ax.collections}
    for label, points in (("input", x), ("output", y), ("output with γ, β", weight * y + bias)):
        assert_allclose(np.stack(drawn[label]._offsets3d, axis=1), points)
    circle = max(fig.axes[0].lines, key=lambda line: line.get_linewidth())
    points = np.stack(circle.get_data_3d(), axis=1)
    assert_allclose(points.sum(axis=1), 0, atol=1e-12)
    assert_allclose(np.linalg.norm(points, axis=1), np.sqrt(3))


def test_a_full_dot_stands_for_yes_and_wears_the_norm_s_colour():
    table = {"LayerNorm, late": {"a": True, "b": False}, "own": {"a": False, "b": True}}
    (ax,) = plotting.verdicts_figure(table).axes
    lines = {line.get_label(): line for line in ax.lines}
    assert lines["LayerNorm, late"].get_xydata().tolist() == [[0, 0]]
    assert lines["_moves LayerNorm, late"].get_xydata().tolist() == [[1, 0]]
    assert lines["own"].get_xydata().tolist() == [[1, 1]]
    colour = lines["LayerNorm, late"].get_color()
    assert mcolors.to_hex(colour) == plotting.norm_colour("LayerNorm")


def test_gradients_are_drawn_as_multiples_of_the_last_layer():
    gradients = 2.0 ** np.array([[-3.0, -1.0, 1.0], [-5.0, -2.0, 1.0]])
    panels = {"one": {"a": gradients, "b": gradients[:, ::-1]}, "two": {"c": gradients}}
    fig = plotting.layer_gradients_figure(panels, dashed=("b",))
    drawn = [line for line in fig.axes[0].get_lines() if len(line.get_xdata()) == 3]
    assert_allclose(drawn[0].get_ydata(), [-5, -2.5, 0])
    format_of = fig.axes[0].yaxis.get_major_formatter()
    assert [format_of(power) for power in (2, 0, -4)] == ["4×", "1×", "1/16×"]


# --- names beside lines


def corners_of(text):
    """The corners of a text that may be turned, in pixels."""
    degrees = text.get_rotation()
    text.set_rotation(0)
    box = text.get_window_extent()
    text.set_rotation(degrees)
    middle = np.array([(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2])
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    half = np.array([box.width, box.height]) / 2
    return middle + (half * [(-1, -1), (-1, 1), (1, 1), (1, -1)]) @ turn.T


def touches(text, line):
    ends = line.get_transform().transform(line.get_xydata())
    shares = np.linspace(0, 1, 500)[:, None]
    points = np.concatenate([a + shares * (b - a) for a, b in itertools.pairwise(ends)])
    return Outline(corners_of(text)).contains_points(points).any()


@pytest.mark.parametrize("sloped", [False, True])
def test_the_names_of_lines_touch_no_line_wide_or_narrow(sloped):
    x = np.linspace(0, 1, 50)
    ys = {"falls": 1 - x, "rises": x, "level": 0 * x + 0.8, "steep": 5 * x}
    ax = plotting.curves(x, ys, xlabel="x", ylabel="y")
    ax.get_legend().remove()
    ax.set_ylim(0, 1.2)
    named = {"falls": "falls", "rises": "grows", "steep": "steep"}
    texts = plotting.label_lines(ax, named, sloped=sloped)
    lines = {line.get_label(): line for line in ax.lines}
    assert [text.get_text() for text in texts] == ["falls", "grows", "steep"]
    before = [(text.get_position(), text.get_rotation()) for text in texts]
    assert not any(touches(text, line) for text in texts for line in lines.values())
    with drawings.narrowed(ax.figure):
        assert not any(touches(text, line) for text in texts for line in lines.values())
        assert [(text.get_position(), text.get_rotation()) for text in texts] != before
    assert [(text.get_position(), text.get_rotation()) for text in texts] == before
    with pytest.raises(ValueError, match="no line is labelled 'other'; the labels"):
        plotting.label_lines(ax, ["other"])


def test_the_drawing_has_the_norms_and_the_factors_of_the_table():
    figure = plotting.wirings_figure(WIRINGS)
    for ax, (name, row) in zip(figure.axes, WIRINGS.items(), strict=False):
        assert ax.get_title() == name
        drawn = {text.get_gid() for text in ax.texts if text.get_text() == "norm"}
        assert drawn == set(row.norms) | ({"final"} if row.final_norm else set())
    plt.close("all")
    labels = {name: plotting.wiring_labels(row, layer=4, depth=8) for name, row in WIRINGS.items()}
    assert labels["post"] == labels["pre"] == labels["none"] == {}
    assert labels["deepnorm"] == {"skip": "×2", "weights": "W ×0.35"}
    assert labels["ln-scaling"] == {"inside": "×0.5"}
    assert labels["rezero"] == {"branch": "×0*"}
    assert labels["gpt-2"] == {"weights": "W ×1, 0.25"}
