"""The interactive figures answer to every reader: by keyboard, mouse and finger.

What they compute is held against the package in test_figure_numbers.py; axe looks at them on the
pages where they stand, in test_pages.py.
"""

import json
import re

import numpy as np
import pytest
from browser import PHONE, needs_chromium
from bs4 import BeautifulSoup
from normtutor_studies import interactive, plotting, study
from numpy.testing import assert_allclose
from playwright.sync_api import expect
from site_pages import ON_PAGES, SCRIPTED


def press(page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def said(page, name: str, *parts: str) -> str:
    """Wait until the figure says these words, one after the other; all that it then says.

    The pause is the figure's own: it speaks when the changes stop.
    """
    status = page.locator(f"nt-{name}").get_by_role("status")
    expect(status).to_have_text(re.compile("^" + ".*".join(map(re.escape, parts))))
    expect(status).to_have_attribute("aria-live", "polite")
    return status.text_content()


def kept(page, name: str) -> None:
    """Wait until the address holds the figure's state as it is now: it is written with a pause."""
    page.wait_for_function(
        """name => {
          const now = document.querySelector(`nt-${name}`).parameters();
          return location.hash === `#nt-${name}?${new URLSearchParams(now)}`;
        }""",
        arg=name,
    )


@needs_chromium
def test_the_block_by_keyboard_and_pointer(show):
    page = show("<nt-cells><p>instead</p></nt-cells>", has_touch=True)

    def cell(position: str, value: str = ""):
        sequence, token, feature = position.split()
        name = f"sequence {sequence}, token {token}, feature {feature}: {value}"
        return page.get_by_role("gridcell", name=name)

    start = said(page, "cells", "BatchNorm pools 6 cells: one feature over the whole batch.")
    expect(page.get_by_role("gridcell", selected=True)).to_have_count(6)
    press(page, *["Tab"] * 7)
    expect(cell("1 2 3", "−1.10")).to_be_focused()
    # There is no fifth feature; further down comes the next sequence.
    press(page, "ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown")
    expect(cell("2 1 4", "0.10")).to_be_focused()
    # A digit begins a new value, and the outputs that move with it are marked.
    page.keyboard.type("3.5")
    expect(cell("2 1 4", "3.50")).to_be_visible()
    said(page, "cells", "BatchNorm pools", "6 outputs moved, in 5 other tokens too.")
    expect(page.locator("td.moved")).to_have_count(6)
    page.get_by_role("checkbox", name="mask it").check()
    said(page, "cells", "BatchNorm pools 4 cells")
    padding = page.get_by_role("gridcell", name="padding, cannot be changed")
    padding.last.click()
    why = "It is padding, always 0: take the padding out to change it."
    said(page, "cells", "BatchNorm, masked: this token counts nowhere", why)
    expect(page.get_by_role("button", name="+ 1")).to_be_disabled()
    page.get_by_role("checkbox", name="padding").uncheck()
    expect(page.get_by_role("checkbox", name="mask it")).to_be_disabled()
    page.get_by_role("combobox", name="norm").select_option("LayerNorm")
    cell("2 1 4").tap()
    said(page, "cells", "LayerNorm pools 4 cells: one token.")
    page.get_by_role("button", name="+ 1").tap()
    said(page, "cells", "LayerNorm pools 4 cells", "4 outputs moved, all in this token.")
    kept(page, "cells")
    assert "#nt-cells?norm=LayerNorm&padding=0" in page.url
    page.reload()
    said(page, "cells", "LayerNorm pools 4 cells", "The value 4.50 becomes")
    page.get_by_role("button", name="start again").press("Enter")
    assert said(page, "cells", "BatchNorm pools 6 cells", "The value −1.10 becomes") == start
    page.wait_for_function("location.hash === ''")


@needs_chromium
def test_the_geometry_by_touch(show):
    page = show("<nt-geometry></nt-geometry><p style='height: 2000px'>below</p>", **PHONE)
    start = said(page, "geometry", "LayerNorm puts x")
    touch = page.context.new_cdp_session(page)

    def swipe(x, y, dx, dy):
        for kind, part in (("touchStart", 0), *(("touchMove", i / 8) for i in range(1, 9))):
            points = [{"x": x + part * dx, "y": y + part * dy}]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    box = page.locator("circle.tip.reach").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    swipe(x, y, 0, 60)  # straight down, where a page would pan
    expect(page.get_by_role("status")).not_to_have_text(start)
    assert page.evaluate("scrollY") == 0
    moved = page.locator("circle.tip.reach").bounding_box()
    assert abs(moved["y"] - box["y"] - 60) < 2
    # Beside the point a finger that moves up scrolls the page, as it does elsewhere.
    box = page.locator("nt-geometry svg").bounding_box()
    swipe(box["x"] + 20, box["y"] + box["height"] - 10, 0, -150)
    page.wait_for_function("scrollY > 50")


def saved_profiles():
    saved = study("depth_profiles")
    return interactive.profiles_by_layer(
        {
            wiring: {
                when: {
                    key: saved.read(f"{when} {key}", wiring=wiring)
                    for key in ("signal", "gradient")
                }
                for when in ("untrained", "trained")
            }
            for wiring in saved.choices("wiring")
        }
    )


def test_profiles_are_geometric_means_with_intervals():
    values = np.exp(np.random.default_rng(0).normal(size=(5, 4)))
    one = {"post": {"trained": {"signal": values}}}
    found = interactive.profiles_by_layer(one)["wirings"]["post"]["trained"]["signal"]
    mean, half = plotting.t_interval(np.log(values))
    assert_allclose(np.log(found["mean"]), mean, atol=1e-3)
    assert_allclose(np.log(found["high"]), mean + half, atol=1e-3)
    assert_allclose(np.log(found["low"]), mean - half, atol=1e-3)
    with pytest.raises(ValueError, match="same number of layers"):
        interactive.profiles_by_layer(one | {"pre": {"trained": {"signal": values[:, :2]}}})


def test_the_data_cannot_close_their_own_element():
    figure = interactive.InteractiveFigure("wiring", {"a": "</script><b>"}, "a < b")._repr_html_()
    page = BeautifulSoup(figure, "html.parser")
    assert json.loads(page.find("script").string) == {"a": "</script><b>"}
    assert page.find("p").get_text() == "a < b"
    assert page.find("b") is None


def drawn_wirings(words: str) -> str:
    return interactive.InteractiveFigure("wiring", saved_profiles(), words)._repr_html_()


@needs_chromium
def test_the_wirings_by_keyboard(show):
    page = show(drawn_wirings("words"))
    said(page, "wiring", "Pre-LN before training. Stream: ")
    expect(page.get_by_role("img")).to_have_count(2)
    wirings = saved_profiles()["wirings"]
    for wiring, name in (
        ("post", "Post-LN"),
        ("pre", "Pre-LN"),
        ("peri", "Peri-LN"),
        ("deepnorm", "DeepNorm"),
    ):
        press(page, "Tab", "Enter")
        expect(page.get_by_role("button", name=name)).to_be_focused()
        sentence = said(page, "wiring", f"{name} before training. Stream: ")
        ends = [
            wirings[wiring]["untrained"][key]["mean"][end]
            for key in ("signal", "gradient")
            for end in (0, -1)
        ]
        numbers = re.findall(r"\d+\.\d+(?:e−\d+)?", sentence)
        assert [float(n.replace("−", "-")) for n in numbers] == pytest.approx(ends, 0.05, 5e-4)
    press(page, "Tab", "Tab", "Enter")
    said(page, "wiring", "DeepNorm after training. Stream: ")
    kept(page, "wiring")


# By keyboard: how often Tab, which key, and the beginning of what is then said.
BY_KEYBOARD = {
    "depth": (1, ["End"], "The signal explodes: weights × 2.00, no norm"),
    "padding": (1, ["Home"], "No padding: mean 1.92"),
    "triangle": (
        1,
        ["End"],
        "The gradient is perpendicular to w, so the step makes w longer: 10.00",
    ),
    "future": (5, ["Enter"], "LayerNorm takes its statistic from one token alone"),
    "modes": (4, ["Enter"], "Batch 27 has mean"),
    "memory": (1, ["End"], "Active in one of 24 batches, α = 0.9: each active batch multiplies"),
    "forgets": (1, ["Home"], "LayerNorm turns −3x + 2 into the mirror image"),
    "invariance": (3, ["Enter"], "Outputs stay: LayerNorm."),
    "geometry": (1, ["Enter"], "LayerNorm puts x = (3.00, 1.50, 2.70) at"),
}


@needs_chromium
@pytest.mark.parametrize("name", [*interactive.PICTURES, "invariance", "geometry"])
def test_a_picture_by_keyboard_keeps_its_state_in_the_address(show, name):
    page = show(f"<nt-{name}></nt-{name}>")
    start = said(page, name, "")
    assert "nt-" not in page.url
    tabs, keys, words = BY_KEYBOARD[name]
    press(page, *["Tab"] * tabs, *keys)
    now = said(page, name, words)
    assert now != start
    kept(page, name)
    page.reload()
    assert said(page, name, words) == now
    page.locator("html").evaluate("e => { e.dataset.theme = 'dark'; }")
    page.locator(f"nt-{name}[data-dark]").wait_for()


# Figures that draw what a cell gives them; the others compute their numbers in the page.
WITH_DATA = {"wiring": drawn_wirings}
ON_CHAPTERS = [name for name in SCRIPTED if name not in ON_PAGES]


def body_of(name: str) -> str:
    """The element of a figure, with data if it draws some."""
    return WITH_DATA[name]("words") if name in WITH_DATA else f"<nt-{name}></nt-{name}>"


# What a finger finds in a figure; elsewhere the first slider.
TAPPED = {
    "invariance": ("button", "no change"),
    "cells": ("gridcell", "sequence 2, token 1, feature 4"),
    "modes": ("button", "next batch"),
    "wiring": ("button", "Post-LN"),
}
# Words and grids that stand beyond the frame of their figure, or cells that cut their number.
BEYOND = """figure => {
  const right = element => {
    const range = document.createRange();
    range.selectNodeContents(element);
    return range.getBoundingClientRect().right;
  };
  const frame = figure.shadowRoot.querySelector("section").getBoundingClientRect();
  const parts = [...figure.shadowRoot.querySelectorAll("table, svg, button, p, input")];
  const cells = [...figure.shadowRoot.querySelectorAll("td")];
  return [
    ...parts.filter(one => one.getBoundingClientRect().right > frame.right + 1),
    ...cells.filter(one => right(one) > one.getBoundingClientRect().right + 0.5),
  ].map(one => one.outerHTML.slice(0, 80));
}"""


@needs_chromium
@pytest.mark.parametrize("name", ON_CHAPTERS)
def test_every_figure_fits_a_narrow_phone_and_answers_to_a_finger(show, name):
    page = show(body_of(name), **{**PHONE, "viewport": {"width": 360, "height": 740}})
    # As on the site: its letters, and its margins on a telephone.
    page.add_style_tag(content="body { font-family: sans-serif; margin: 16px; }")
    start = said(page, name, "")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator(f"nt-{name}").evaluate(BEYOND) == []
    sliders = [one for one in page.get_by_role("slider").all() if one.is_visible()]
    boxes = [one.bounding_box() for one in sliders]
    assert [box for box in boxes if box["width"] < 80 or box["height"] < 24] == []
    if name in TAPPED:
        role, words = TAPPED[name]
        page.get_by_role(role, name=words).tap()
    else:
        (box, *_) = boxes
        page.touchscreen.tap(box["x"] + 0.2 * box["width"], box["y"] + box["height"] / 2)
    expect(page.get_by_role("status")).not_to_have_text(start)


@needs_chromium
def test_batches_stand_still_for_readers_who_prefer_that(show):
    page = show(interactive.show("modes")._repr_html_(), reduced_motion="reduce")
    said(page, "modes", "Batch 26")
    expect(page.get_by_role("button", name="Play")).to_have_count(0)
    page.get_by_role("button", name="next batch").click()
    said(page, "modes", "Batch 27")
