"""The interactive figures answer to every reader: by keyboard, mouse and finger.

What they compute is held against the package in test_figure_numbers.py; axe looks at them on the
pages where they stand, in test_pages.py.
"""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from browser import PHONE, eventually, needs_chromium
from bs4 import BeautifulSoup
from normtutor_studies import experiments, interactive, plotting
from numpy.testing import assert_allclose
from playwright.sync_api import expect
from site_pages import ON_PAGES, SCRIPTED, SCRIPTS, STATIC


@pytest.fixture
def show(probe):
    """Open a page with figures."""

    def start(body: str, **options):
        names = re.findall(r"<nt-(\w+)", body)
        scripts = "".join(
            f'<script type="module" src="/interactive/{name}.js"></script>' for name in names
        )
        return probe(body + scripts, '<link rel="stylesheet" href="/colours.css">', **options)

    return start


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


def middle(locator) -> tuple[float, float]:
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def comes_to(locator, x: float, y: float) -> None:
    """Wait until the middle of an element is at a point."""
    eventually(
        locator,
        """(element, [x, y]) => {
          const { left, top, width, height } = element.getBoundingClientRect();
          return Math.hypot(left + width / 2 - x, top + height / 2 - y) < 1.4;
        }""",
        [x, y],
    )


BLOCK = "<nt-cells><p>instead</p></nt-cells>"


@needs_chromium
def test_the_block_by_keyboard(show):
    page = show(BLOCK)

    def cell(position: str, value: str):
        sequence, token, feature = position.split()
        name = f"sequence {sequence}, token {token}, feature {feature}: {value}"
        return page.get_by_role("gridcell", name=name)

    def after(row: int):
        return page.locator("table.out tbody tr").nth(row).locator("td")

    said(page, "cells", "BatchNorm pools 6 cells: one feature over the whole batch.")
    expect(page.get_by_role("gridcell", selected=True)).to_have_count(6)
    press(page, *["Tab"] * 4)
    expect(page.get_by_role("combobox", name="norm")).to_be_focused()
    press(page, *["Tab"] * 3)
    expect(cell("1 2 3", "−1.10")).to_be_focused()
    press(page, "ArrowRight")
    expect(cell("1 2 4", "0.50")).to_be_focused()
    said(page, "cells", "BatchNorm pools 6 cells", "The value 0.50 becomes")
    press(page, "ArrowRight")  # there is no fifth feature
    expect(cell("1 2 4", "0.50")).to_be_focused()
    press(page, "ArrowDown", "ArrowDown")  # from one sequence into the next
    expect(cell("2 1 4", "0.10")).to_be_focused()
    press(page, "Home")
    expect(cell("2 1 1", "0.80")).to_be_focused()
    press(page, "End")
    # A digit begins a new value, and the outputs that move with it are marked.
    page.keyboard.type("3.5")
    expect(cell("2 1 4", "3.50")).to_be_visible()
    said(page, "cells", "BatchNorm pools", "6 outputs moved, in 5 other tokens too.")
    expect(page.locator("td.moved")).to_have_count(6)
    press(page, "Shift+Tab", "ArrowDown", "ArrowDown")
    expect(cell("2 3 4", "0.00, padding")).to_be_focused()
    expect(page.get_by_role("spinbutton")).to_be_disabled()
    press(page, *["ArrowUp"] * 5)
    expect(cell("1 1 4", "2.10")).to_be_focused()
    page.get_by_role("checkbox", name="mask it").focus()
    press(page, "Space")
    said(page, "cells", "BatchNorm pools 4 cells")
    expect(after(5)).to_have_text(["0.00"] * 4)
    page.get_by_role("checkbox", name="padding").focus()
    press(page, "Space")
    expect(page.get_by_role("checkbox", name="mask it")).to_be_disabled()
    page.get_by_role("combobox", name="norm").focus()
    press(page, "ArrowDown")
    said(page, "cells", "LayerNorm pools 4 cells: one token.")
    page.get_by_role("button", name="+ 1").focus()
    press(page, "Enter")
    said(page, "cells", "LayerNorm pools 4 cells", "4 outputs moved, all in this token.")
    kept(page, "cells")
    assert "#nt-cells?norm=LayerNorm&padding=0" in page.url
    page.reload()
    said(page, "cells", "LayerNorm pools 4 cells", "The value 3.10 becomes")
    page.get_by_role("button", name="start again").focus()
    press(page, "Enter")
    said(page, "cells", "BatchNorm pools 6 cells", "The value −1.10 becomes")
    expect(cell("2 1 4", "0.10")).to_be_visible()
    page.wait_for_function("location.hash === ''")


@needs_chromium
def test_padding_can_be_read_and_says_why_it_cannot_be_changed(show):
    page = show(BLOCK)
    padding = page.get_by_role("gridcell", name="padding, cannot be changed")
    expect(padding).to_have_count(8)
    padding.first.click()
    why = "It is padding, always 0: take the padding out to change it."
    said(page, "cells", "BatchNorm pools 6 cells", why)
    # A line through a number would cover its minus sign.
    line = "cell => getComputedStyle(cell).textDecorationLine"
    assert padding.first.evaluate(line) == "none"
    expect(page.get_by_role("button", name="+ 1")).to_be_disabled()
    page.get_by_role("checkbox", name="mask it").check()
    said(page, "cells", "BatchNorm, masked: this token counts nowhere", why)
    page.get_by_role("checkbox", name="padding").uncheck()
    expect(page.get_by_role("button", name="+ 1")).to_be_enabled()
    expect(page.locator("nt-cells .status")).not_to_contain_text("padding")


@needs_chromium
def test_the_block_by_pointer(show):
    page = show(BLOCK, has_touch=True)
    start = said(page, "cells", "BatchNorm pools 6 cells")
    chosen = page.locator("table.in td.chosen")
    # The mouse that passes shows what a cell shares with, and chooses nothing.
    passed = page.get_by_role("gridcell", name="sequence 1, token 1, feature 1")
    passed.hover()
    expect(passed).to_have_class("shared")
    expect(chosen).to_have_text("−1.10")
    page.mouse.move(0, 0)
    expect(passed).not_to_have_class("shared")
    page.get_by_role("gridcell", name="sequence 1, token 3, feature 2").click()
    expect(page.get_by_role("gridcell", name="sequence 1, token 3, feature 2")).to_be_focused()
    page.get_by_role("spinbutton").click()  # on the way there the mouse passes over other cells
    expect(page.get_by_role("spinbutton")).to_have_value("0.6")
    page.get_by_role("gridcell", name="sequence 2, token 1, feature 4").tap()
    expect(page.get_by_role("spinbutton")).to_have_value("0.1")
    page.get_by_role("button", name="− 1").tap()
    expect(chosen).to_have_text("−0.90")
    page.get_by_role("button", name="start again").tap()
    assert said(page, "cells", "BatchNorm pools 6 cells", "The value −1.10") == start


@needs_chromium
def test_the_changes_by_keyboard(show):
    page = show("<nt-invariance></nt-invariance>")
    everything = "Outputs stay: WeightNorm, BatchNorm, LayerNorm, RMSNorm. Outputs move: no norm."
    said(page, "invariance", everything)
    assert page.locator("polygon.beyond").count() > 0  # outputs that leave the picture
    press(page, "Tab", "Tab", "Tab")
    expect(page.get_by_role("button", name="same row + 1")).to_be_focused()
    press(page, "Enter")
    said(page, "invariance", "Outputs stay: LayerNorm. Outputs move: no norm, WeightNorm")
    page.get_by_role("button", name="ε = 0.1").focus()
    press(page, "Enter")
    said(page, "invariance", "Outputs stay: WeightNorm. ", "LayerNorm (through ε alone)")
    page.get_by_role("button", name="no change").focus()
    press(page, "Enter")
    said(page, "invariance", "Nothing is changed yet")
    press(page, "Tab")
    first = page.get_by_role("slider", name="all weights ×")
    expect(first).to_be_focused()
    press(page, *["ArrowRight"] * 4)
    expect(first).to_have_attribute("aria-valuetext", "× 2.00")
    said(page, "invariance", everything)
    press(page, "ArrowRight")
    page.wait_for_function("location.hash.includes('weightScale=2.37')")
    page.reload()
    expect(first).to_have_attribute("aria-valuetext", "× 2.38")


@needs_chromium
def test_the_geometry_by_keyboard(show):
    page = show("<nt-geometry></nt-geometry>")
    start = said(page, "geometry", "LayerNorm puts x = (2.00, 0.50, 1.70) at ")
    expect(page.get_by_role("img")).to_have_accessible_name(re.compile("Three axes, the plane"))
    press(page, "Tab", "Enter")
    # LayerNorm does not see the constant, RMSNorm does.
    added = said(page, "geometry", "LayerNorm puts x = (3.00, 1.50, 2.70) at ")
    layer, rms = ([text.split(" at ")[k][:18] for text in (start, added)] for k in (1, 2))
    assert layer[0] == layer[1] and rms[0] != rms[1]
    page.get_by_role("button", name="halve x").press("Enter")
    said(page, "geometry", "LayerNorm puts x = (1.50, 0.75, 1.35) at ")
    page.get_by_role("button", name="all equal").press("Enter")
    said(page, "geometry", "All entries of x = (1.20, 1.20, 1.20) are equal")
    slider = page.get_by_role("slider", name="x₁")
    slider.focus()
    press(page, "ArrowLeft", "Tab", "Tab", "Tab", "Tab")
    press(page, "Enter", "Tab", "Tab")
    expect(page.get_by_role("slider", name="γ₂")).to_be_focused()
    press(page, "Home")
    said(page, "geometry", "LayerNorm puts x = (1.10, 1.20, 1.20) at ", "on an ellipse")
    turn = page.get_by_role("slider", name="turn")
    turn.focus()
    press(page, "ArrowRight")
    expect(turn).to_have_attribute("aria-valuetext", "−20°")
    page.wait_for_function("location.hash.includes('turn=-20')")
    page.reload()
    said(page, "geometry", "LayerNorm puts x = (1.10, 1.20, 1.20) at ", "on an ellipse")
    page.get_by_role("button", name="start again").press("Enter")
    assert said(page, "geometry", "LayerNorm puts x = (2.00") == start


@needs_chromium
def test_the_geometry_by_pointer(show):
    page = show("<nt-geometry></nt-geometry>")
    start = said(page, "geometry", "LayerNorm puts x")
    turn = page.get_by_role("slider", name="turn")
    point = page.locator("circle.tip.reach")
    expect(page.get_by_text("x: drag me")).to_be_visible()

    def drag(start, by):
        page.mouse.move(*start)
        page.mouse.down()
        page.mouse.move(start[0] + by[0], start[1] + by[1], steps=5)
        page.mouse.up()

    x, y = middle(point)
    drag((x, y), (-40, 30))
    expect(page.get_by_role("status")).not_to_have_text(start)
    comes_to(point, x - 40, y + 30)
    page.mouse.move(x, y)  # let go of
    comes_to(point, x - 40, y + 30)
    corner = page.locator("circle.sphere").bounding_box()
    drag((corner["x"] + 30, corner["y"] + 30), (20, 0))
    expect(turn).not_to_have_attribute("aria-valuetext", "−25°")


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

    point = page.locator("circle.tip.reach")
    for dx, dy in ((-30, 25), (0, 60)):  # straight down, too, where a page would pan
        x, y = middle(point)
        swipe(x, y, dx, dy)
        expect(page.get_by_role("status")).not_to_have_text(start)
        comes_to(point, x + dx, y + dy)
        assert page.evaluate("scrollY") == 0
    # Beside the point a finger that moves up scrolls the page, as it does elsewhere.
    box = page.locator("nt-geometry svg").bounding_box()
    swipe(box["x"] + 20, box["y"] + box["height"] - 10, 0, -150)
    page.wait_for_function("scrollY > 50")


def saved_profiles():
    saved = experiments.load("depth_profiles")
    return interactive.profiles_by_layer(
        {
            wiring: {
                when: {
                    key: saved.values(key, wiring=wiring, when=when)
                    for key in ("signal", "gradient")
                }
                for when in ("untrained", "trained")
            }
            for wiring in saved.config["wirings"]
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
    said(page, "wiring", "Pre-LN after training. Stream: ")
    expect(page.get_by_role("img")).to_have_count(2)
    assert page.locator("path").count() == 10  # four wirings in two panels, and the start of one
    for panel in page.get_by_role("img").all():
        for name in ("Post-LN", "Pre-LN", "Peri-LN", "DeepNorm"):
            assert panel.get_by_text(name, exact=True).count() == 1
    wirings = saved_profiles()["wirings"]
    for wiring, name in (
        ("post", "Post-LN"),
        ("pre", "Pre-LN"),
        ("peri", "Peri-LN"),
        ("deepnorm", "DeepNorm"),
    ):
        press(page, "Tab", "Enter")
        expect(page.get_by_role("button", name=name)).to_be_focused()
        sentence = said(page, "wiring", f"{name} after training. Stream: ")
        ends = [
            wirings[wiring]["trained"][key]["mean"][end]
            for key in ("signal", "gradient")
            for end in (0, -1)
        ]
        numbers = re.findall(r"\d+\.\d+(?:e−\d+)?", sentence)
        assert [float(n.replace("−", "-")) for n in numbers] == pytest.approx(ends, 0.05, 5e-4)
    press(page, "Tab", "Enter")
    said(page, "wiring", "DeepNorm before training. Stream: ")
    assert page.locator("path.ghost").count() == 0
    page.wait_for_function("location.hash === '#nt-wiring?wiring=DeepNorm&when=before+training'")


# By keyboard: how often Tab, which key, and the beginning of what is then said.
BY_KEYBOARD = {
    "depth": (1, ["End"], "The signal explodes: without a norm and weights × 2.00"),
    "padding": (1, ["Home"], "No padding: mean 1.92"),
    "triangle": (
        1,
        ["End"],
        "The gradient is perpendicular to w, so the step makes w longer: 10.00",
    ),
    "future": (5, ["Enter"], "LayerNorm takes its statistic from one token alone"),
    "modes": (4, ["Enter"], "Batch 27 has mean"),
    "forgets": (1, ["Home"], "LayerNorm turns −3x + 2 into the mirror image"),
}


@needs_chromium
@pytest.mark.parametrize("name", interactive.PICTURES)
def test_a_picture_by_keyboard_keeps_its_state_in_the_address(show, name):
    page = show(interactive.show(name)._repr_html_())
    start = said(page, name, "")
    assert "nt-" not in page.url
    tabs, keys, words = BY_KEYBOARD[name]
    press(page, *["Tab"] * tabs, *keys)
    now = said(page, name, words)
    assert now != start
    expect(page.get_by_role("img")).to_have_accessible_name(re.compile(re.escape(now[-30:])))
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


def test_every_figure_has_its_place_in_the_style_sheet():
    """What its style does not do is seen in its frame alone, and once its script has come."""
    style = (STATIC / "book.css").read_text(encoding="utf-8")
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", style)
    needs = {"display: block": SCRIPTED, "min-height": SCRIPTED}
    needs |= {"background: none": ON_CHAPTERS, "break-inside: avoid": ON_CHAPTERS}
    without = [
        f"nt-{name}: {need}"
        for need, figures in needs.items()
        for name in figures
        if not any(re.search(rf"nt-{name}\b", names) and need in rule for names, rule in rules)
    ]
    assert without == [], "add its name to the lists of figures in book.css"


@needs_chromium
def test_batches_stand_still_for_readers_who_prefer_that(show):
    page = show(interactive.show("modes")._repr_html_(), reduced_motion="reduce")
    said(page, "modes", "Batch 26")
    expect(page.get_by_role("button", name="Play")).to_have_count(0)
    page.get_by_role("button", name="next batch").click()
    said(page, "modes", "Batch 27")
    page = show(interactive.show("modes")._repr_html_())
    page.get_by_role("button", name="Play").click()
    # It may be further when we look.
    expect(page.get_by_role("status")).to_have_text(re.compile(r"^Batch (2[7-9]|[3-9]\d|\d{3}) "))
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def loaded_with(path: Path) -> set[Path]:
    """What a page loads for one of the scripts, itself included."""
    names = re.findall(r'"\./(\w+\.(?:js|bin))"', path.read_text(encoding="utf-8", errors="ignore"))
    return {path}.union(*(loaded_with(path.with_name(name)) for name in names))


@pytest.mark.parametrize("name", SCRIPTED)
def test_scripts_are_light(name):
    loaded = [*loaded_with(SCRIPTS / f"{name}.js"), STATIC / "colours.css"]
    weight = sum(len(gzip.compress(path.read_bytes())) for path in loaded)
    assert weight < (60_000 if name == "playground" else 20_000), loaded
