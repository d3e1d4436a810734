"""The figures: what is drawn equals the data, and can be read by everybody."""

import ast
import itertools
import re
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.colors as mcolors
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PathCollection, PolyCollection
from normtutor_studies import plotting
from normtutor_studies.plotting import drawings, pictures
from normtutor_studies.plotting.style import DARK as DARK_PAGE
from normtutor_studies.plotting.style import INK, TINTS, WARM
from numpy.testing import assert_allclose, assert_array_equal

from normtutor import norms, wiring

pytestmark = pytest.mark.usefixtures("book_style")


def rows(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


# --- the style


def relative_luminance(colour):
    """As the Web Content Accessibility Guidelines define it."""
    channels = np.array(mcolors.to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(first, second):
    high, low = sorted([relative_luminance(first), relative_luminance(second)], reverse=True)
    return (high + 0.05) / (low + 0.05)


# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
DICHROMACY = {
    "none": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def seen_as_lab(colour, kind):
    channels = np.array(mcolors.to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.asarray(DICHROMACY[kind]) @ linear, 0, 1)
    to_xyz = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    ratio = to_xyz @ linear / [0.95047, 1.0, 1.08883]
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_the_contrast_checker_knows_black_and_white_and_can_fail():
    assert contrast("black", "white") == pytest.approx(21)
    assert contrast("#ffff00", "white") < 1.1


@pytest.mark.parametrize("name", plotting.PALETTE)
def test_every_colour_reads_on_the_white_card(name):
    assert contrast(plotting.PALETTE[name], "white") >= 4.5


DARK_PALETTE = [dark for _, dark in norms.OTHERS.values()]


@pytest.mark.parametrize("kind", DICHROMACY)
def test_colours_stay_apart_for_every_kind_of_colour_vision(kind):
    norm_colours = [*set(plotting.NORM_COLOURS.values())]
    for palette in (norm_colours, plotting.PALETTE.values(), DARK_PALETTE):
        assert_apart(palette, kind)


def assert_apart(colours, kind):
    for first, second in itertools.combinations(colours, 2):
        distance = np.linalg.norm(seen_as_lab(first, kind) - seen_as_lab(second, kind))
        assert distance > 15, (kind, first, second, distance)


DARK = {name: row.dark for name, row in norms.TABLE.items()}
GROUNDS = ("#14181e", "#29313d")  # of a dark page and of the boxes on it


@pytest.mark.parametrize("colour", [*DARK.values(), norms.NO_NORM[1], *DARK_PALETTE])
def test_every_colour_reads_on_a_dark_page(colour):
    assert min(contrast(colour, ground) for ground in GROUNDS) >= 4.5


@pytest.mark.parametrize("kind", DICHROMACY)
def test_colours_stay_apart_on_a_dark_page_too(kind):
    assert_apart(set(DARK.values()), kind)


def test_what_is_no_norm_wears_no_norms_colour():
    """Pre-LN once had BatchNorm's blue, as failure in a map; dynamic tanh PowerNorm's black."""
    light = [*plotting.NORM_COLOURS.values(), plotting.NO_NORM]
    dark = [*DARK.values(), norms.NO_NORM[1]]
    _, ax = plt.subplots()
    image = plotting.grid_map(
        [[0.0, 1.0]], rows="a", columns="bc", texts=["xy"], low=0, high=1, ax=ax
    )
    failed = mcolors.to_hex(image.cmap(1.0))
    for others, of_norms in (
        (plotting.PALETTE.values(), light),
        (DARK_PALETTE, dark),
        ([failed], light),
    ):
        for other, of_norm in itertools.product(others, of_norms):
            distance = np.linalg.norm(seen_as_lab(other, "none") - seen_as_lab(of_norm, "none"))
            assert distance > 30, (other, of_norm, distance)
    assert set(plotting.OTHER_COLOURS.values()) <= set(plotting.PALETTE.values())
    assert norms.RELATIVES["DyT"].light == plotting.OTHER_COLOURS["DyT"]
    assert (
        plotting.curves(range(3), {"QK-norm": rows(4, 3)}, xlabel="x", ylabel="y")
        .lines[0]
        .get_color()
        == plotting.OTHER_COLOURS["QK-norm"]
    )


def test_no_norm_is_grey_and_relatives_share_a_colour():
    for colour in norms.NO_NORM:
        red, green, blue = mcolors.to_rgb(colour)
        assert red == green == blue
    assert contrast(plotting.norm_colour("none"), "white") >= 4.5
    alike = {}
    for row in norms.TABLE.values():
        alike.setdefault(row.light, set()).add(row.dark)
    assert all(len(darks) == 1 for darks in alike.values())


def test_filled_cells_stand_out_from_pale_ones():
    for colour in plotting.NORM_COLOURS.values():
        assert contrast(colour, plotting.PALE) >= 3


def test_every_norm_of_the_table_has_a_colour():
    assert set(plotting.NORM_COLOURS) == set(norms.TABLE)
    assert plotting.norm_colour("LayerNorm") == plotting.NORM_COLOURS["LayerNorm"]
    with pytest.raises(KeyError, match="no colour is reserved for 'Norm'"):
        plotting.norm_colour("Norm")


def colours_in(text):
    return set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", text))


def test_every_colour_of_a_figure_has_one_for_dark_pages():
    assert {*plotting.NORM_COLOURS.values(), plotting.NO_NORM, *plotting.SHADES} <= set(DARK_PAGE)
    drawn = {name: wiring.WIRINGS[name] for name in ("pre", "deepnorm")}
    figure = plotting.wirings_figure(drawn, columns=2)
    drawing = drawings.svg(figure)
    assert colours_in(drawing) - set(DARK_PAGE) == set() and len(colours_in(drawing)) > 3


@pytest.mark.parametrize("light", [INK, *plotting.SHADES, WARM])
def test_what_reads_on_a_white_page_reads_on_a_dark_one(light):
    assert contrast(DARK_PAGE[light], DARK_PAGE["#ffffff"]) >= 3
    assert contrast(DARK_PAGE[INK], DARK_PAGE["#ffffff"]) > 10


@pytest.mark.parametrize("tint", TINTS)
def test_numbers_read_on_their_cells(tint):
    assert contrast(INK, tint) >= 4.5
    assert contrast(DARK_PAGE[INK], DARK_PAGE[tint]) >= 4.5


def test_figures_are_white_cards():
    assert plt.rcParams["figure.facecolor"] == plt.rcParams["savefig.facecolor"] == "white"


def test_equal_figures_are_equal_files(tmp_path):
    contents = []
    for name in ("first.svg", "second.svg"):
        ax = plotting.curves(range(3), {"a": rows(4, 3)}, xlabel="steps", ylabel="loss (nats)")
        ax.figure.savefig(tmp_path / name, metadata={"Date": None})
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]


# --- what figures import


def test_no_figure_runs_a_model():
    files = sorted(Path(plotting.__file__).parent.glob("*.py"))
    assert len(files) > 3
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    imported = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    assert not any(name.split(".")[0] in {"torch", "jax", "scipy"} for name in imported)
    ours = {name for name in imported if name.startswith("normtutor")}
    lower = {"normtutor.norms", "normtutor.intervals.t_interval"}
    assert {name for name in ours if ".plotting" not in name} == lower
    used = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "norms"
    }
    assert used == {
        *("NO_NORM", "OTHERS", "RELATIVES", "TABLE", "sharing_cells")
    }  # the tables, never a formula


def test_a_figure_brings_no_other_subject():
    """Otherwise a chapter is executed again for a figure that it does not draw."""
    code = (
        "import sys; from normtutor_studies import plotting; plotting.sphere_figure; plotting.INK;"
        "print(*(name for name in sys.modules if name.startswith('normtutor_studies.plotting.')))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert set(answer.stdout.split()) == {
        "normtutor_studies.plotting.geometry",
        "normtutor_studies.plotting.style",
    }


def test_every_public_name_is_found_where_it_is_said_to_be():
    assert plotting.__all__ == sorted(set(plotting.__all__)) and set(plotting.__all__) <= set(
        dir(plotting)
    )
    for name in plotting.__all__:
        found = getattr(plotting, name)
        assert getattr(found, "__module__", "normtutor").startswith(("normtutor", "builtins"))
    with pytest.raises(AttributeError, match="has no attribute 'curve'"):
        plotting.curve  # noqa: B018


# --- intervals over seeds


@pytest.mark.parametrize("seeds", [2, 3, 5, 10, 31, 32, 60, 200])
def test_the_interval_is_that_of_scipy(seeds):
    stats = pytest.importorskip("scipy.stats")
    values = rows(seeds, 4)
    mean, half = plotting.t_interval(values)
    assert_allclose(mean, values.mean(0))
    quantile = half / stats.sem(values, axis=0)
    assert_allclose(quantile, stats.t.ppf(0.975, seeds - 1), rtol=0, atol=1e-5)


def test_one_seed_has_no_interval():
    mean, half = plotting.t_interval(rows(1, 4))
    assert_array_equal(mean, rows(1, 4)[0])
    assert np.isnan(half).all()
    with pytest.raises(ValueError, match="at least one row"):
        plotting.t_interval(np.zeros((0, 3)))


def test_curves_draw_the_mean_and_its_band():
    x, data = np.arange(5.0), {"BatchNorm": rows(6, 5), "other": rows(6, 5, seed=1)}
    ax = plotting.curves(
        x, data, labels={"other": "no norm"}, xlabel="steps", ylabel="loss (nats/token)"
    )
    lines = {line.get_label(): line for line in ax.lines}
    assert list(lines) == ["BatchNorm", "no norm"]
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


def test_curves_tell_apart_without_colour_and_take_labels_in_order():
    data = {name: rows(3, 4, seed=i) for i, name in enumerate("abcd")}
    ax = plotting.curves(range(4), data, labels=list("wxyz"), xlabel="x", ylabel="y")
    assert [line.get_label() for line in ax.lines] == list("wxyz")
    assert len({str(line._dash_pattern) for line in ax.lines}) == 4
    assert len({line.get_color() for line in ax.lines}) == 4


def test_a_single_run_is_drawn_without_a_band_and_on_the_given_axes():
    _, ax = plt.subplots()
    assert plotting.curves([1, 2], {"a": [3.0, 4.0]}, xlabel="x", ylabel="y", ax=ax) is ax
    assert not ax.collections
    assert ax.get_legend() is None
    assert_array_equal(ax.lines[0].get_ydata(), [3.0, 4.0])


def test_curves_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match=r"ys\['a'\] must have shape \(n_seeds, 3\)"):
        plotting.curves(range(3), {"a": rows(3, 4)}, xlabel="x", ylabel="y")
    with pytest.raises(ValueError, match="x must have shape"):
        plotting.curves(rows(2, 2), {"a": rows(3, 4)}, xlabel="x", ylabel="y")


def test_intervals_draw_the_mean_and_its_bar():
    data = {"BatchNorm": rows(5), "mine": rows(7, seed=1)}
    ax = plotting.intervals(data, xlabel="difference (nats/token)", reference=0.5)
    for position, (text, values) in enumerate(data.items()):
        container = ax.containers[position]
        assert container.get_label() == text
        mean, half = plotting.t_interval(values)
        dot, _, (bar,) = container.lines
        assert_allclose(dot.get_xydata(), [[mean, position]])
        assert_allclose(bar.get_segments()[0], [[mean - half, position], [mean + half, position]])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(data)
    assert ax.get_xlabel() == "difference (nats/token)"
    seeds = [line for line in ax.lines if line.get_label() == "_seeds"]
    for line, values in zip(seeds, data.values(), strict=True):
        assert_array_equal(line.get_xdata(), values)
    line = next(line for line in ax.lines if line.get_linewidth() == 1)
    assert_array_equal(line.get_xdata(), [0.5, 0.5])
    top, bottom = ax.transData.transform([(0, 0), (0, 1)])[:, 1]
    assert top > bottom  # the first row is the upper one


def test_intervals_refuse_one_seed_and_nothing():
    with pytest.raises(ValueError, match="at least two seeds"):
        plotting.intervals({"a": [1.0]}, xlabel="x")
    with pytest.raises(ValueError, match="at least one row"):
        plotting.intervals({}, xlabel="x")
    without = plotting.intervals({"a": rows(3)}, xlabel="x", reference=None)
    assert all(line.get_linewidth() != 1 for line in without.lines)


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
    words = " ".join(text.get_text() for text in fig.axes[-1].texts)
    assert "sequence 2" in words and "features" in words and "tokens" in words


def test_dots_stand_where_outputs_moved():
    shape, cell = (2, 3, 4), (0, 0, 0)
    moved = np.random.default_rng(0).random(shape) > 0.5
    fig = plotting.sharing_cells_figure(
        ["LayerNorm", "BatchNorm"], shape=shape, cell=cell, moved={"LayerNorm": moved}
    )
    first, second = fig.axes
    (cells,) = (c for c in first.collections if isinstance(c, PolyCollection))
    (dots,) = (c for c in first.collections if isinstance(c, PathCollection))
    corners = np.array([path.vertices[0] for path in cells.get_paths()])
    assert_array_equal(np.asarray(dots.get_offsets()) - 0.5, corners[moved.ravel()])
    assert not any(isinstance(c, PathCollection) for c in second.collections)


def test_the_words_for_the_axes_come_from_the_table():
    assert plotting.shared_axes("BatchNorm") == "B and L"
    assert plotting.shared_axes("GroupNorm") == "L and a group of H"
    assert plotting.shared_axes("pRMSNorm") == "the first entries of H"
    assert "weights" in plotting.shared_axes("WeightNorm")


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


def hidden_points(ax):
    """Points well inside a cell that another cell of the same drawing covers too."""
    cells = [path for collection in ax.collections for path in collection.get_paths()]
    corners = np.array([path.vertices[:4] for path in cells])  # (cells, 4, 2)
    weights = np.random.default_rng(0).dirichlet(np.ones(4), size=20)
    points = np.einsum("pk,ckx->cpx", 0.8 * weights + 0.05, corners)
    count = 0
    for own, inside in enumerate(points):
        others = [path for other, path in enumerate(cells) if other != own]
        count += sum(int(path.contains_points(inside).sum()) for path in others)
    return count


def test_no_page_of_the_books_hides_another():
    for ax in plotting.books_figure(NAMES).axes:
        assert hidden_points(ax) == 0


def test_a_page_that_hides_another_is_noticed():
    ax = plotting.books_figure(["BatchNorm"]).axes[0]
    first = ax.collections[0]
    first.set_paths([path.vertices + np.array([1.5, 0.2]) for path in first.get_paths()])
    assert hidden_points(ax) > 0


def test_undo_figure_draws_the_best_way_back():
    x = rows(50, 3)
    outputs = {"BatchNorm": 2 * x + 1, "LayerNorm": x**3}
    fig = plotting.undo_figure(x, outputs, feature=1)
    for ax, (name, y) in zip(fig.axes, outputs.items(), strict=True):
        assert ax.get_title(loc="left") == name
        (tokens,) = ax.collections
        assert_allclose(tokens.get_offsets(), np.column_stack([y[:, 1], x[:, 1]]))
        after, before = ax.lines[0].get_data()
        gain = (before[1] - before[0]) / (after[1] - after[0])
        assert_allclose(gain, np.polyfit(y[:, 1], x[:, 1], 1)[0])
    assert_allclose(gain * 0 + 0.5, np.polyfit(outputs["BatchNorm"][:, 1], x[:, 1], 1)[0])


def test_differences_figure_draws_seeds_and_intervals():
    panels = {
        "as they are": {"LayerNorm per pixel": rows(5), "no norm": rows(5) + 1},
        "noisy": {"GroupNorm(1)": rows(5)},
    }
    fig = plotting.differences_figure(panels, xlabel="error (points)", better="← better")
    assert [ax.get_title(loc="left") for ax in fig.axes] == list(panels)
    for ax, rows_of_panel in zip(fig.axes, panels.values(), strict=True):
        assert [tick.get_text() for tick in ax.get_yticklabels()] == list(rows_of_panel)
        dots = [c for c in ax.collections if isinstance(c, PathCollection)]
        for seeds, bar, values in zip(dots, ax.containers, rows_of_panel.values(), strict=True):
            assert_allclose(np.asarray(seeds.get_offsets())[:, 0], values)
            mean, half = plotting.t_interval(values)
            dot, _, (line,) = bar.lines
            assert_allclose(dot.get_xydata()[0, 0], mean)
            assert_allclose(line.get_segments()[0][:, 0], [mean - half, mean + half])
    assert fig.axes[0].get_title(loc="right") == "← better"
    assert fig.axes[-1].get_xlabel() == "error (points)"


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
    with pytest.raises(ValueError, match=r"points of shape \(n, 3\)"):
        plotting.sphere_figure(rows(4, 2), rows(4, 2), weight=weight, bias=bias)


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
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("cosine", "share of pairs")
    with pytest.raises(ValueError, match="lie within the bins"):
        plotting.histograms({"a": [9.0]}, bins=edges, xlabel="cosine")


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
    assert ax.get_title(loc="left") == "raw"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("coordinate 1", "coordinate 2")


def test_half_plane_figure_draws_tokens_and_where_the_norms_take_them():
    mean, deviation = np.array([-1.0, 0.5, 3.0]), np.array([1.0, 2.0, 4.0])
    fig = plotting.half_plane_figure(mean, deviation)
    (ax,) = fig.axes
    drawn = {c.get_label(): np.asarray(c.get_offsets()) for c in ax.collections}
    assert_allclose(drawn["token"], np.stack([mean, deviation], axis=1))
    assert_allclose(np.linalg.norm(drawn["after RMSNorm"], axis=1), 1)
    assert_allclose(drawn["after RMSNorm"][:, 0] / drawn["after RMSNorm"][:, 1], mean / deviation)
    assert_allclose(drawn["after LayerNorm"], [[0, 1]])
    assert "mean" in ax.get_xlabel() and "deviation" in ax.get_ylabel()
    with pytest.raises(ValueError, match="deviations above 0"):
        plotting.half_plane_figure(mean, -deviation)


# --- repeated measurements


def test_repeats_draw_medians_and_quartiles():
    data = {"eager": np.array([[1.0, 2.0, 4.0], [1.5, 2.5, 3.0]]), "fused": np.ones((1, 3))}
    ax = plotting.repeats(data, xlabel="time / time of LayerNorm")
    for position, (text, values) in enumerate(data.items()):
        container = ax.containers[position]
        assert container.get_label() == text
        dots, _, (bars,) = container.lines
        assert_allclose(dots.get_xdata(), values[:, 1])
        assert dots.get_ydata().mean() == pytest.approx(position)
        for bar, (low, _, high) in zip(bars.get_segments(), values, strict=True):
            assert_allclose(bar[:, 0], [low, high])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(data)
    assert ax.get_xlabel() == "time / time of LayerNorm"
    with pytest.raises(ValueError, match=r"\(n_repeats, 3\)"):
        plotting.repeats({"a": np.ones(3)}, xlabel="x")


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
    with pytest.raises(ValueError, match="not there: y"):
        plotting.graph_figure(nodes, [("x", "y")])


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
    with pytest.raises(ValueError, match="at least one panel"):
        plotting.layer_gradients_figure({})


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
    with pytest.raises(ValueError, match="at least one panel"):
        plotting.first_steps_figure(steps, {}, colours={})


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
    from matplotlib.path import Path as Outline

    ends = line.get_transform().transform(line.get_xydata())
    points = np.concatenate([a + np.linspace(0, 1, 500)[:, None] * (b - a)
                             for a, b in itertools.pairwise(ends)])  # fmt: skip
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
    texts[0].set_position((0.5, 0.5 / 1.2))  # where two lines cross
    assert touches(texts[0], lines["falls"]) or touches(texts[0], lines["rises"])


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
