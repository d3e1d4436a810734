"""The figures: what is drawn equals the data."""

import itertools
import subprocess
import sys

import matplotlib

matplotlib.use("agg")

import matplotlib.colors as mcolors
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.path import Path as Outline
from normtutor_studies import plotting
from normtutor_studies.plotting import drawings, pictures
from numpy.testing import assert_allclose, assert_array_equal

from normtutor import norms

pytestmark = pytest.mark.usefixtures("book_style")


def rows(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


# --- what figures import


def test_a_figure_brings_no_other_subject_and_none_runs_a_model():
    """Otherwise a chapter is executed again for a figure that it does not draw."""
    code = (
        "import sys; from normtutor_studies import plotting; plotting.sphere_figure; plotting.INK\n"
        "print(*(name for name in sys.modules if name.startswith('normtutor_studies.plotting.')))\n"
        "found = [getattr(plotting, name) for name in plotting.__all__]\n"
        "print(*{'torch', 'jax', 'scipy'} & set(sys.modules))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    subjects, models = answer.stdout.splitlines()
    assert set(subjects.split()) == {
        "normtutor_studies.plotting.geometry",
        "normtutor_studies.plotting.style",
    }
    assert models == ""


# --- curves and intervals


def test_curves_draw_the_mean_and_its_band():
    x, data = np.arange(5.0), {"BatchNorm": rows(6, 5), "other": rows(6, 5, seed=1)}
    ax = plotting.curves(
        x, data, labels={"other": "no norm"}, xlabel="steps", ylabel="loss (nats/token)"
    )
    lines = {line.get_label(): line for line in ax.lines}
    dashes = {str(line._dash_pattern) for line in ax.lines}
    assert len(dashes) == 2  # the lines differ without colour too
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
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("steps", "loss (nats/token)")
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["BatchNorm", "no norm"]
    assert lines["BatchNorm"].get_color() == plotting.norm_colour("BatchNorm")


def test_a_single_run_is_drawn_without_a_band_and_on_the_given_axes():
    _, ax = plt.subplots()
    names = {"labels": ["run"], "xlabel": "x", "ylabel": "y"}
    assert plotting.curves([1, 2], {"a": [3.0, 4.0]}, **names, ax=ax) is ax
    assert ax.lines[0].get_label() == "run"
    assert not ax.collections
    assert ax.get_legend() is None
    assert_array_equal(ax.lines[0].get_ydata(), [3.0, 4.0])


def bar_ends(container):
    """The dot and the two ends of the bar of a row."""
    dot, _, (bar,) = container.lines
    return dot.get_xydata(), bar.get_segments()[0]


def test_intervals_draw_the_mean_and_its_bar():
    data = {"BatchNorm": rows(5), "mine": rows(7, seed=1)}
    ax = plotting.intervals(data, xlabel="difference (nats/token)", reference=0.5)
    seeds = [line for line in ax.lines if line.get_label() == "_seeds"]
    for position, values in enumerate(data.values()):
        mean, half = plotting.t_interval(values)
        dot, ends = bar_ends(ax.containers[position])
        assert_allclose(dot, [[mean, position]])
        assert_allclose(ends, [[mean - half, position], [mean + half, position]])
        assert_array_equal(seeds[position].get_xdata(), values)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(data)
    line = next(line for line in ax.lines if line.get_linewidth() == 1)
    assert_array_equal(line.get_xdata(), [0.5, 0.5])
    top, bottom = ax.transData.transform([(0, 0), (0, 1)])[:, 1]
    assert top > bottom  # the first row is the upper one
    without = plotting.intervals({"a": rows(3)}, xlabel="x", reference=None)
    assert all(line.get_linewidth() != 1 for line in without.lines)


REFUSED = {
    r"ys\['a'\] must have shape \(n_seeds, 3\)": lambda: plotting.curves(
        range(3), {"a": rows(3, 4)}, xlabel="x", ylabel="y"
    ),
    "x must have shape": lambda: plotting.curves(
        rows(2, 2), {"a": rows(3, 4)}, xlabel="x", ylabel="y"
    ),
    "at least two seeds": lambda: plotting.intervals({"a": [1.0]}, xlabel="x"),
    "at least one row": lambda: plotting.intervals({}, xlabel="x"),
    r"points of shape \(n, 3\)": lambda: plotting.sphere_figure(
        rows(4, 2), rows(4, 2), weight=np.ones(3), bias=np.ones(3)
    ),
    "lie within the bins": lambda: plotting.histograms({"a": [9.0]}, bins=[0, 1], xlabel="x"),
    "deviations above 0": lambda: plotting.half_plane_figure([1.0], [-1.0]),
    "not there: y": lambda: plotting.graph_figure({"x": (0, 0)}, [("x", "y")]),
    "at least one panel": lambda: plotting.layer_gradients_figure({}),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_drawn_is_refused(reason):
    with pytest.raises(ValueError, match=reason):
        REFUSED[reason]()


# --- the table, drawn


def filled(collection):
    return ~np.isclose(collection.get_facecolor()[:, :3], mcolors.to_rgb(plotting.PALE)).all(axis=1)


def test_sharing_cells_figure_draws_the_table():
    shape, cell = (2, 3, 4), (1, 2, 1)
    fig = plotting.sharing_cells_figure(tuple(norms.TABLE), shape=shape, cell=cell)
    assert len(fig.axes) == len(norms.TABLE)
    for ax, name in zip(fig.axes, norms.TABLE, strict=True):
        (cells,) = (c for c in ax.collections if isinstance(c, PolyCollection))
        shares = norms.sharing_cells(name, shape, cell, num_groups=2, p=0.5)
        assert_array_equal(filled(cells), shares.ravel())
        assert ax.get_title(loc="left").startswith(f"{name}: ")
        corners = np.array([path.vertices[0] for path in cells.get_paths()])
        assert len(np.unique(corners, axis=0)) == shares.size  # no cell hides another
        frame = ax.lines[0].get_xydata()
        assert_array_equal(frame[0], corners[np.ravel_multi_index(cell, shape)])


def test_dots_stand_where_outputs_moved():
    shape = (2, 3, 4)
    moved = np.random.default_rng(0).random(shape) > 0.5
    fig = plotting.sharing_cells_figure(
        ["LayerNorm"], shape=shape, cell=(0, 0, 0), moved={"LayerNorm": moved}
    )
    (cells,) = (c for c in fig.axes[0].collections if isinstance(c, PolyCollection))
    (dots,) = (c for c in fig.axes[0].collections if isinstance(c, PathCollection))
    corners = np.array([path.vertices[0] for path in cells.get_paths()])
    assert_array_equal(np.asarray(dots.get_offsets()) - 0.5, corners[moved.ravel()])


NAMES = ("BatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm")


def test_books_figure_draws_the_table():
    fig = plotting.books_figure(NAMES, captions={"LayerNorm": "a needle"})
    shape, cell = (3, 6, 4), (1, 2, 1)
    for ax, name in zip(fig.axes, NAMES, strict=True):
        shares = norms.sharing_cells(name, shape, cell, num_groups=2, p=0.5)
        pages = {c.get_label(): c for c in ax.collections}
        assert len(pages) == 12
        for book, page in np.ndindex(3, 4):
            collection = pages[f"book {book + 1}, page {page + 1}"]
            assert filled(collection).sum() == shares[book, :, page].sum()
    assert fig.axes[1].get_title(loc="left") == "LayerNorm\na needle"


def test_no_page_of_the_books_hides_another():
    for ax in plotting.books_figure(NAMES).axes:
        cells = [path for collection in ax.collections for path in collection.get_paths()]
        for cell in cells:
            corners = cell.vertices[:4]
            inside = 0.9 * corners + 0.1 * corners.mean(axis=0)
            hidden_by = [path for path in cells if path.contains_points(inside).any()]
            assert hidden_by == [cell]


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
    assert {t.get_text() for t in fig.axes[0].texts} == {"$y_2$", "$y_3$"}


def test_histograms_draw_shares():
    samples = {"a": rows(100), "b": rows(50, seed=1)}
    edges = np.linspace(-5, 5, 11)
    ax = plotting.histograms(samples, bins=edges, xlabel="cosine", ylabel="share of pairs")
    for patch, (text, values) in zip(ax.patches, samples.items(), strict=True):
        assert patch.get_label() == text
        heights, drawn_edges, _ = patch.get_data()
        assert_allclose(heights, np.histogram(values, edges)[0] / values.size)
        assert heights.sum() == pytest.approx(1)
        assert_array_equal(drawn_edges, edges)


def test_keys_figure_draws_its_keys():
    keys = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [1.0, 1.2]])
    selectable = np.array([True, True, True, True, False])
    fig = plotting.keys_figure({"raw": (keys, selectable)})
    (ax,) = fig.axes
    drawn = {c.get_label(): np.asarray(c.get_offsets()) for c in ax.collections}
    assert_array_equal(drawn["selectable"], keys[:4])
    assert_array_equal(drawn["not selectable"], keys[4:])
    hull = ax.lines[0].get_xydata()
    assert_array_equal(hull[0], hull[-1])
    steps = np.abs(np.diff(hull, axis=0)).sum(axis=1)
    assert_array_equal(steps, 2.0)  # round the square, never across it


def test_half_plane_figure_draws_tokens_and_where_the_norms_take_them():
    mean, deviation = np.array([-1.0, 0.5, 3.0]), np.array([1.0, 2.0, 4.0])
    fig = plotting.half_plane_figure(mean, deviation)
    (ax,) = fig.axes
    drawn = {c.get_label(): np.asarray(c.get_offsets()) for c in ax.collections}
    assert_allclose(drawn["token"], np.stack([mean, deviation], axis=1))
    assert_allclose(np.linalg.norm(drawn["after RMSNorm"], axis=1), 1)
    assert_allclose(drawn["after RMSNorm"][:, 0] / drawn["after RMSNorm"][:, 1], mean / deviation)
    assert_allclose(drawn["after LayerNorm"], [[0, 1]])


# --- computational graphs


def test_a_graph_shows_its_nodes_and_edges():
    nodes = {"x": (0, 0), "μ": (1, -1), "c": (2, 0)}
    fig = plotting.graph_figure(nodes, [("x", "μ"), ("x", "c"), ("μ", "c")])
    texts = fig.axes[0].texts
    drawn = {text.get_text(): text.get_position() for text in texts if text.get_text()}
    assert drawn == nodes
    arrows = [text for text in texts if not text.get_text()]
    assert [(arrow.xyann, arrow.xy) for arrow in arrows] == [
        (nodes["x"], nodes["μ"]),
        (nodes["x"], nodes["c"]),
        (nodes["μ"], nodes["c"]),
    ]


# --- what stands in the place of an interactive figure --------------------------------------------


def test_the_pictures_draw_what_they_are_given():
    fig = pictures.depth_figure({"× 2": ("none", [1, 2, 4]), "LN": ("LayerNorm", [1, 1, 1])})
    lines = fig.axes[0].lines
    assert [list(line.get_ydata()) for line in lines] == [[1, 2, 4], [1, 1, 1]]
    assert [line.get_linestyle() for line in lines] == ["--", "-"]
    assert mcolors.same_color(lines[1].get_color(), plotting.norm_colour("LayerNorm"))

    fig = pictures.padding_figure([1, 2], 3, {"after": [-1, 1]})
    assert [len(line.get_xdata()) for line in fig.axes[0].lines] == [2, 3]
    assert list(fig.axes[1].lines[0].get_xdata()) == [-1, 1]

    fig = pictures.triangle_figure({"one": ([1, 0], [0, 0.5])})
    assert list(fig.axes[0].lines[2].get_ydata()) == [0, 0.5]

    fig = pictures.future_figure({"BatchNorm": 0.25, "LayerNorm": 0.0})
    said = [text.get_text().strip() for text in fig.axes[0].texts]
    assert said == ["does not move", "0.25"]

    fig = pictures.running_mean_figure([1, -1], [0.1, 0.0])
    assert [list(line.get_ydata()) for line in fig.axes[0].lines] == [[1, -1], [0.1, 0.0]]

    rows = {"before": {"x": [1, 2], "−x": [-1, -2]}, "RMSNorm": {"x": [0, 1], "−x": [0, -1]}}
    fig = pictures.forgets_figure(rows)
    assert [patch.get_height() for patch in fig.axes[3].patches] == [0, -1]


# --- gradients layer by layer


def test_gradients_are_drawn_as_multiples_of_the_last_layer():
    gradients = 2.0 ** np.array([[-3.0, -1.0, 1.0], [-5.0, -2.0, 1.0]])
    panels = {"one": {"a": gradients, "b": gradients[:, ::-1]}, "two": {"c": gradients}}
    fig = plotting.layer_gradients_figure(panels, dashed=("b",))
    lines = {text.get_text(): text for ax in fig.axes for text in ax.texts}
    assert set(lines) == {"a", "b", "c"}
    drawn = [line for line in fig.axes[0].get_lines() if len(line.get_xdata()) == 3]
    assert_allclose(drawn[0].get_ydata(), [-5, -2.5, 0])
    assert drawn[1].get_linestyle() != "-"
    format_of = fig.axes[0].yaxis.get_major_formatter()
    assert [format_of(power) for power in (2, 0, -4)] == ["4×", "1×", "1/16×"]


def test_the_first_steps_are_named_at_the_end_of_their_lines():
    steps = np.arange(0, 41, 2)
    flat = np.ones((3, 21)) + np.array([[0.0], [0.01], [0.02]])
    runs = {"one": flat, "another": 1.001 * flat, "third": np.geomspace(1, 1e-5, 21) * flat}
    colours = dict.fromkeys(runs, "#000000")
    fig = plotting.first_steps_figure(steps, {"a": runs, "b": runs}, colours=colours, log=("b",))
    linear, logarithmic = fig.axes
    assert linear.get_yscale() == "linear" and logarithmic.get_yscale() == "log"
    for ax in fig.axes:
        heights = sorted(text.xyann[1] for text in ax.texts)
        assert [text.get_text() for text in ax.texts].count("third") == 1
        assert min(np.diff(heights)) > 0.08 and heights[-1] <= 1.0
    # The line of a logarithmic panel is the geometric mean.
    last = logarithmic.lines[2].get_ydata()[-1]
    np.testing.assert_allclose(last, np.exp(np.log(runs["third"][:, -1]).mean()))


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
    texts = plotting.label_lines(ax, {"falls": "falls", "rises": "grows", "steep": "steep"},
                                 sloped=sloped)  # fmt: skip
    lines = {line.get_label(): line for line in ax.lines}
    assert [text.get_text() for text in texts] == ["falls", "grows", "steep"]
    assert [text.get_color() for text in texts] == [
        lines[name].get_color() for name in ("falls", "rises", "steep")
    ]
    before = [(text.get_position(), text.get_rotation()) for text in texts]
    assert not any(touches(text, line) for text in texts for line in lines.values())
    with drawings.narrowed(ax.figure):
        assert not any(touches(text, line) for text in texts for line in lines.values())
        assert [(text.get_position(), text.get_rotation()) for text in texts] != before
    assert [(text.get_position(), text.get_rotation()) for text in texts] == before


def test_each_name_stands_once_in_a_panel_that_has_its_line():
    _, axes = plt.subplots(2, 1)
    axes[0].plot([0, 1], [0, 1], label="both")
    for name, height in (("both", 0.2), ("below", 0.8)):
        axes[1].plot([0, 1], [height, height], label=name)
    axes[1].plot([0, 1], [9, 9], label="beyond")
    axes[1].set_ylim(0, 1)
    names = ["both", "below", "beyond"]
    texts = dict(zip(names, plotting.label_lines(list(axes), names), strict=True))
    assert texts["below"].get_transform() == axes[1].transAxes
    assert [text.get_visible() for text in texts.values()] == [True, True, False]
    with pytest.raises(ValueError, match="no line is labelled 'other'; the labels"):
        plotting.label_lines(axes[0], ["other"])
