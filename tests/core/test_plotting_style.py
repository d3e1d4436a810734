"""The style of the figures: colours that everybody can tell apart, on white and on dark pages."""

import itertools
import re
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.colors as mcolors
import numpy as np
import pytest
from normtutor_studies import interactive, plotting
from normtutor_studies.plotting import drawings
from normtutor_studies.plotting.style import DARK as DARK_PAGE
from normtutor_studies.plotting.style import INK, OTHERS, TINTS, WARM

from normtutor import wiring
from normtutor.colours import COLOURS, NO_NORM

pytestmark = pytest.mark.usefixtures("book_style")


def linear_rgb(colour):
    channels = np.array(mcolors.to_rgb(colour))
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(first, second):
    """As the Web Content Accessibility Guidelines define it."""
    low, high = sorted(linear_rgb(colour) @ [0.2126, 0.7152, 0.0722] for colour in (first, second))
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
    linear = np.clip(np.asarray(DICHROMACY[kind]) @ linear_rgb(colour), 0, 1)
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


def distance(first, second, kind="none"):
    """How far apart two colours look."""
    return np.linalg.norm(seen_as_lab(first, kind) - seen_as_lab(second, kind))


LIGHT = [*plotting.NORM_COLOURS.values(), plotting.NO_NORM]
DARK = [dark for _, dark in [*COLOURS.values(), NO_NORM]]
DARK_PALETTE = [dark for _, dark in OTHERS.values()]
GROUNDS = ("#14181e", "#29313d")  # of a dark page and of the boxes on it

# Colour, ground, and the least contrast.
READ = [
    *((colour, "white", 4.5) for colour in [*plotting.PALETTE.values(), plotting.NO_NORM]),
    *((colour, ground, 4.5) for colour in [*DARK, *DARK_PALETTE] for ground in GROUNDS),
    *((colour, plotting.PALE, 3) for colour in plotting.NORM_COLOURS.values()),
    *((DARK_PAGE[light], DARK_PAGE["#ffffff"], 3) for light in (*plotting.SHADES, WARM)),
    (DARK_PAGE[INK], DARK_PAGE["#ffffff"], 10),
    *((INK, tint, 4.5) for tint in TINTS),
    *((DARK_PAGE[INK], DARK_PAGE[tint], 4.5) for tint in TINTS),
]


def test_every_colour_reads_on_its_ground():
    assert [row for row in READ if contrast(*row[:2]) < row[2]] == []


@pytest.mark.parametrize("kind", DICHROMACY)
@pytest.mark.parametrize(
    "palette",
    [set(plotting.NORM_COLOURS.values()), plotting.PALETTE.values(), set(DARK[:-1]), DARK_PALETTE],
    ids=["norms", "others", "norms, dark page", "others, dark page"],
)
def test_colours_stay_apart_for_every_kind_of_colour_vision(palette, kind):
    for first, second in itertools.combinations(palette, 2):
        assert distance(first, second, kind) > 15, (first, second)


def test_a_norm_has_its_colour_in_figures_and_on_pages():
    with pytest.raises(KeyError, match="no colour is reserved for 'Norm'"):
        plotting.norm_colour("Norm")
    styles = Path(__file__).parents[2] / "book" / "_static" / "colours.css"
    assert styles.read_text(encoding="utf-8") == interactive.colours_css()


def test_every_colour_of_a_figure_has_one_for_dark_pages():
    assert {*LIGHT, *plotting.SHADES} <= set(DARK_PAGE)
    drawn = {name: wiring.WIRINGS[name] for name in ("pre", "deepnorm")}
    drawing = drawings.svg(plotting.wirings_figure(drawn, columns=2))
    colours = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", drawing))
    assert colours <= set(DARK_PAGE) and len(colours) > 3
