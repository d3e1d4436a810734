"""The figures on text show the rates that work and the losses that they were given."""

import matplotlib

matplotlib.use("agg")

import numpy as np
import pytest
from normtutor_studies import plotting
from normtutor_studies.plotting import drawings
from numpy.testing import assert_allclose

RATES = (0.001, 0.01, 0.1)


pytestmark = pytest.mark.usefixtures("book_style")


def lines_of(ax):
    return {line.get_label(): line for line in ax.get_lines()}


def test_each_network_shows_which_rates_work():
    figure = plotting.working_rates_figure(
        {
            "no norm": plotting.Trained("none", RATES, (), [np.nan, 5.0]),
            "Pre-LN": plotting.Trained("LayerNorm", RATES, (0.1, 0.001), [4.0, 4.2, 4.4]),
            "one": plotting.Trained("none", RATES, (), [4.5]),
            "nothing": plotting.Trained("none", RATES, (), []),
        }
    )
    (ax,) = figure.axes
    lines = lines_of(ax)
    assert_allclose(lines["works Pre-LN"].get_xdata(), [0.001, 0.1])
    assert_allclose(lines["fails Pre-LN"].get_xdata(), [0.01])
    assert_allclose(lines["bar Pre-LN"].get_xdata(), [0.001, 0.1])
    assert set(lines["works Pre-LN"].get_ydata()) == {1}
    assert "bar no norm" not in lines
    assert_allclose(lines["fails no norm"].get_xdata(), RATES)
    words = [text.get_text() for text in ax.texts]
    assert words[:4] == ["1 of 2 diverge", "4.20 ± 0.50", "4.50, one seed", "not run"]
    assert [text.get_text() for text in ax.get_yticklabels()] == [
        "no norm",
        "Pre-LN",
        "one",
        "nothing",
    ]


def test_a_share_of_clipped_steps_follows_the_loss():
    figure = plotting.working_rates_figure(
        {
            "Fixup": plotting.Trained("none", RATES, (0.1,), [4.0, 4.2, 4.4], 0.664),
            "Pre-LN": plotting.Trained("LayerNorm", RATES, (0.1,), [4.5]),
        }
    )
    words = [text.get_text() for text in figure.axes[0].texts]
    assert words == ["4.20 ± 0.50, 66%", "4.50, one seed", "best loss (nats/token),\nsteps clipped"]


def test_a_map_of_depths_shades_by_the_distance_from_the_best_of_a_depth():
    figure = plotting.depths_figure(
        {
            2: {
                "no norm": plotting.Trained("none", RATES, (0.1,), [4.4, 4.6], 0.25),
                "Pre-LN": plotting.Trained("LayerNorm", RATES, (0.1, 0.01), [4.0, 4.0]),
            },
            12: {
                "no norm": plotting.Trained("none", RATES, (), [52.8]),
                "Post-LN": plotting.Trained("LayerNorm", RATES, (), [np.nan, 5.0]),
                "Pre-LN": plotting.Trained("LayerNorm", RATES, RATES, [5.0]),
            },
        },
        worst=2.0,
    )
    (ax,) = figure.axes
    (image,) = ax.images
    np.testing.assert_allclose(
        np.ma.filled(image.get_array(), np.nan), [[0.5, 47.8], [0, 0], [np.nan, np.nan]]
    )
    assert image.get_clim() == (0, 2)
    assert [text.get_text() for text in ax.texts] == [
        "4.50\n1 of 3\n25%",
        "53\n0 of 3",
        "4.00\n2 of 3",
        "5.00\n3 of 3",
        "",
        "diverges\n0 of 3",
    ]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["2", "12"]
    before = [label.get_text() for label in ax.get_yticklabels()]
    assert before == ["no norm", "Pre-LN", "Post-LN"]
    with drawings.narrowed(figure):
        pass
    assert [label.get_text() for label in ax.get_yticklabels()] == before


def test_the_final_norm_is_drawn_panel_by_panel():
    rng = np.random.default_rng(0)
    curves = ("final norm", "no final norm", "no norm")
    losses = {
        column: {row: {curve: rng.normal(size=(4, 3)) for curve in curves} for row in "AB"}
        for column in ("tied", "untied")
    }
    losses["untied"]["B"]["no norm"][2, 1] = np.nan
    figure = plotting.final_norm_figure(RATES, losses, colours={"A": "black", "B": "blue"})
    panels = [(row, column) for row in "AB" for column in ("tied", "untied")]
    axes = dict(zip(panels, figure.axes, strict=True))
    for (row, column), ax in axes.items():
        drawn = lines_of(ax)
        for curve in curves:
            assert_allclose(drawn[curve].get_ydata(), losses[column][row][curve].mean(axis=0))
        assert ax.get_title(loc="left") == f"{row}, {column}"
    assert np.isnan(lines_of(axes["B", "untied"])["no norm"].get_ydata()[1])
    losses["tied"]["A"]["no norm"][0, 0] = 1e6
    cut = plotting.final_norm_figure(RATES, losses, colours={"A": "black", "B": "blue"}, highest=4)
    assert cut.axes[0].get_ylim()[1] == 4
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(curves)
