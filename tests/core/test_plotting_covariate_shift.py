"""Figures of chapter 1: they show the numbers that they are given."""

import numpy as np
import pytest
from normtutor_studies import plotting

pytestmark = pytest.mark.usefixtures("book_style")


def rows(*shape):
    return np.random.default_rng(0).random(shape)


def test_training_curves_have_a_panel_a_network_and_a_line_a_rate():
    curves = np.stack([rows(3, 4), rows(3, 4) + 1], axis=1)  # (seeds, rates, points)
    fig = plotting.training_curves_figure(
        {"none": curves, "BatchNorm": curves}, steps=range(4), rates=(0.1, 1.0), guessing=2.3
    )
    titles = [ax.get_title(loc="left") for ax in fig.axes]
    assert titles == ["no norm", "BatchNorm"]
    for ax, name in zip(fig.axes, ("none", "BatchNorm"), strict=True):
        lines = [line for line in ax.lines if line.get_color() == plotting.norm_colour(name)]
        assert len(lines) == 2
        expected = np.minimum(curves.mean(axis=0)[0], 1.2 * 2.3)
        np.testing.assert_allclose(lines[0].get_ydata(), expected)


def test_spreads_name_their_scale_and_maps_their_cells():
    fig = plotting.spreads_figure({0.41: [1, 0.4], 2.0: [1, 2]}, np.ones((2, 2)))
    assert {"0.41×", "2×"} <= {text.get_text() for text in fig.axes[0].texts}
    fig = plotting.training_map_figure(
        {"none": [[0.1, 0.94]], "LayerNorm": [[0.5, 0.2]]}, scales=(1.0,), rates=(0.1, 1.0)
    )
    assert [text.get_text() for text in fig.axes[0].texts] == ["10", "94"]


@pytest.mark.parametrize("log", [False, True])
def test_dots_show_every_seed_and_the_interval_of_their_mean(log):
    values = np.array([1.0, 2.0, 4.0])
    ax = plotting.dots({"a": values, "b": values + 1}, xlabel="x", reference=1, log=log)
    seeds, bar, mean = ax.lines[:3]
    np.testing.assert_allclose(seeds.get_xdata(), values)
    centre, half = plotting.t_interval(np.log(values) if log else values)
    ends = np.array([centre - half, centre + half])
    np.testing.assert_allclose(bar.get_xdata(), np.exp(ends) if log else ends)
    np.testing.assert_allclose(mean.get_xdata(), [np.exp(centre) if log else centre])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "b"]


def test_drift_has_a_panel_an_entry():
    panels = {"a": rows(3, 5), "b": rows(3, 5)}
    fig = plotting.drift_figure(panels, steps=range(5), colours={"a": "black", "b": "red"})
    for ax, values in zip(fig.axes, panels.values(), strict=True):
        np.testing.assert_allclose(ax.lines[1].get_ydata(), values[1])
