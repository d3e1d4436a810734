"""The interactive figures: they compute what the package computes, and answer to every reader."""

import ast
import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from browser import PHONE, axe_problems, eventually, needs_chromium
from bs4 import BeautifulSoup
from normtutor_studies import experiments, interactive, plotting
from numpy.testing import assert_allclose
from playwright.sync_api import expect

from normtutor import norms

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "book" / "_static"
SCRIPTS = STATIC / "interactive"
FIGURES = sorted(path.stem for path in SCRIPTS.glob("*.js") if "customElements" in path.read_text())
# These have a page of their own, no cell around them, and tests of their own.
ON_PAGES = ("inspector", "playground")


@pytest.fixture
def show(probe):
    """Open a page with figures."""

    def start(body: str = "", **options):
        names = re.findall(r"<nt-(\w+)", body)
        scripts = "".join(
            f'<script type="module" src="/interactive/{name}.js"></script>' for name in names
        )
        return probe(body + scripts, '<link rel="stylesheet" href="/colours.css">', **options)

    return start


def by_the_package(name, x, mask, eps=1e-5):
    """The same block through normtutor, in training and without an affine map."""
    if name == "BatchNorm":
        return norms.batch_norm(x, mask=mask, eps=eps, feature_axis=-1)[0]
    if name == "InstanceNorm":
        return norms.instance_norm(x, mask=mask, eps=eps, feature_axis=-1)[0]
    if name == "GroupNorm":
        return norms.group_norm(x, num_groups=2, mask=mask, eps=eps, feature_axis=-1)[0]
    if name == "PowerNorm-V":
        return norms.power_norm_v(x, mask=mask, eps=eps)[0]
    return {"LayerNorm": norms.layer_norm, "RMSNorm": norms.rms_norm}[name](x, eps=eps)[0]


def test_the_style_sheet_has_the_colours_of_the_table():
    assert (STATIC / "colours.css").read_text(encoding="utf-8") == interactive.colours_css()


def test_no_other_file_repeats_a_colour_of_a_norm():
    table = [*norms.TABLE.values()]
    colours = {row.light for row in table} | {row.dark for row in table} | set(norms.NO_NORM)
    colours -= {"#222222", "#e6e6e6"}  # ink, which others use too
    for path in [*STATIC.rglob("*.js"), *STATIC.rglob("*.css")]:
        found = {c for c in colours if c in path.read_text(encoding="utf-8").lower()}
        assert found == (colours if path.name == "colours.css" else set()), path


@needs_chromium
def test_scripts_see_the_colours_of_the_table(show):
    page = show("<nt-depth></nt-depth>")
    blob, line = (page.locator(f"nt-depth .{name}").first for name in ("blob", "spread"))
    for theme, shade in (("light", 0), ("dark", 1)):
        page.locator("html").evaluate("(e, theme) => { e.dataset.theme = theme; }", theme)
        for name in ("no norm", "BatchNorm", "LayerNorm", "RMSNorm"):
            page.get_by_role("button", name=name).click()
            row = norms.TABLE.get(name)
            colour = (row.light, row.dark)[shade] if row else norms.NO_NORM[shade]
            red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
            expect(blob).to_have_css("fill", f"rgb({red}, {green}, {blue})")
            dashes = line.evaluate("e => getComputedStyle(e).strokeDasharray")
            assert (dashes == "none") == (row is not None)


@needs_chromium
def test_the_block_agrees_with_the_package(show):
    shape = (2, 3, 4)
    rng = np.random.default_rng(0)
    blocks = [rng.normal(1.0, 2.0, shape) for _ in range(3)]
    mask = np.array([[True, True, True], [True, False, False]])
    found = show().evaluate(
        """async ([blocks, mask]) => {
          const { NORMS, normalize } = await import("/interactive/norms.js");
          const { START } = await import("/interactive/cells.js");
          return [START, ...blocks].map(x => Object.fromEntries(Object.keys(NORMS).map(name =>
            [name, [null, mask].map(m => normalize(name, x, [2, 3, 4], {mask: m}))])));
        }""",
        [[block.ravel().tolist() for block in blocks], mask.ravel().tolist()],
    )
    start = re.search(r"START = \[(.*?)\]", (SCRIPTS / "cells.js").read_text(), re.DOTALL)
    first = np.array([float(v) for v in start[1].replace("\n", " ").split(",") if v.strip()])
    for x, answers in zip([first.reshape(shape), *blocks], found, strict=True):
        assert set(answers) <= set(norms.TABLE)
        for name, (everything, masked) in answers.items():
            for used, cells in ((None, everything), (mask, masked)):
                y = np.array([cell["y"] for cell in cells]).reshape(shape)
                assert_allclose(y, by_the_package(name, x, used), rtol=0, atol=1e-6)
            for position, cell in enumerate(everything):
                shared = norms.sharing_cells(name, shape, np.unravel_index(position, shape))
                assert sorted(cell["members"]) == np.flatnonzero(shared).tolist()


@needs_chromium
def test_the_changes_agree_with_the_package(show):
    settings = {
        "neutral": {},
        "weights scaled": {"weightScale": 2.5},
        "weights shifted": {"weightShift": 0.75},
        "unit scaled": {"unitScale": 3.0},
        "data scaled": {"dataScale": 0.5},
        "data shifted": {"dataShift": -1.25},
        "token scaled": {"tokenScale": 2.0},
    }
    found = show().evaluate(
        """async settings => {
          const { NAMES, NEUTRAL, changed, movement } = await import("/interactive/invariance.js");
          return Object.fromEntries(Object.entries(settings).map(([key, some]) => {
            const all = {...NEUTRAL, ...some};
            const moved = name => [name, [0, 0.1].map(eps => movement(name, all, eps))];
            return [key, {...changed(all), outputs: Object.fromEntries(NAMES.map(moved))}];
          }));
        }""",
        settings,
    )
    # What chapter 4 proves: which changes each norm does not see, at ε = 0.
    unseen = {
        "none": set(),
        "WeightNorm": {"weights scaled", "unit scaled"},
        "BatchNorm": {"weights scaled", "unit scaled", "data scaled", "data shifted"},
        "LayerNorm": {"weights scaled", "weights shifted", "data scaled", "token scaled"},
        "RMSNorm": {"weights scaled", "data scaled", "token scaled"},
    }
    for key, result in found.items():
        X, W = np.array(result["X"]), np.array(result["W"])
        for name, (exact, with_eps) in result["outputs"].items():
            expected = X @ W.T
            if name == "WeightNorm":
                expected = X @ norms.weight_norm(W)[0].T
            elif name != "none":
                expected = by_the_package(name, expected[:, None], None, eps=0.1)[:, 0]
            assert_allclose(with_eps["after"], expected.ravel(), rtol=0, atol=1e-6)
            assert (exact["largest"] < 1e-9) == (key == "neutral" or key in unseen[name])


@needs_chromium
def test_the_geometry_agrees_with_the_package(show):
    vectors = np.random.default_rng(1).normal(size=(5, 3))
    found = show().evaluate(
        """async vectors => {
          const { onCircle, project } = await import("/interactive/geometry.js");
          return {images: vectors.map(project), equal: project([2, 2, 2]),
            circle: [0, 1, 2, 3].map(i => onCircle(i, 4))};
        }""",
        vectors.tolist(),
    )
    for x, image in zip(vectors, found["images"], strict=True):
        assert_allclose(image["layer"], norms.layer_norm(x, eps=0.0)[0], atol=1e-6)
        assert_allclose(image["rms"], norms.rms_norm(x, eps=0.0)[0], atol=1e-6)
    assert_allclose(np.linalg.norm(found["circle"], axis=1), 3**0.5)
    assert_allclose(np.sum(found["circle"], axis=1), 0, atol=1e-12)
    assert found["equal"]["layer"] is None


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
def test_on_a_narrow_phone_the_grids_stay_in_their_frame(show):
    page = show(BLOCK, **{**PHONE, "viewport": {"width": 360, "height": 740}})
    said(page, "cells", "BatchNorm pools 6 cells")
    inside = """figure => {
      const frame = figure.shadowRoot.querySelector("section").getBoundingClientRect();
      const grids = [...figure.shadowRoot.querySelectorAll("table")];
      return grids.map(grid => grid.getBoundingClientRect().right <= frame.right);
    }"""
    assert page.locator("nt-cells").evaluate(inside) == [True] * 4
    # As on the site: its letters, and its margins on a telephone.
    page.add_style_tag(content="body { font-family: sans-serif; margin: 16px; }")
    too_wide = """figure => [...figure.shadowRoot.querySelectorAll("td")].filter(cell => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      return range.getBoundingClientRect().width > cell.clientWidth;
    }).map(cell => cell.textContent)"""
    assert page.locator("nt-cells").evaluate(too_wide) == []


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
@pytest.mark.parametrize("width", [390, 820, 1366])
def test_the_sliders_of_the_changes_are_wide_enough(show, width):
    page = show("<nt-invariance></nt-invariance>", viewport={"width": width, "height": 800})
    page.evaluate("document.body.style.maxWidth = '780px'")
    said(page, "invariance", "Outputs stay")
    sliders = [one for one in page.get_by_role("slider").all() if one.is_visible()]
    assert len(sliders) == (1 if width == 390 else 7)  # on a phone, the one in question
    assert min(one.bounding_box()["width"] for one in sliders) > 100


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


@needs_chromium
@pytest.mark.parametrize("name", ["cells", "geometry", "invariance"])
def test_a_figure_follows_the_theme(show, name):
    page = show(f"<nt-{name}></nt-{name}>")
    frame = page.locator(f"nt-{name} section")
    color = "e => getComputedStyle(e).getPropertyValue('--nt-accent')"
    light = frame.evaluate(color)
    page.locator("html").evaluate("e => { e.dataset.theme = 'dark'; }")
    page.locator(f"nt-{name}[data-dark]").wait_for()
    assert frame.evaluate(color) != light


@needs_chromium
@pytest.mark.parametrize("name", ["cells", "wiring"])
def test_without_scripts_words_stand_in_the_place_of_a_figure(show, name):
    body = BLOCK if name == "cells" else drawn_wirings("instead")
    page = show(body, java_script_enabled=False)
    assert page.locator(f"nt-{name}").inner_text().strip() == "instead"


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


# --- the pictures that compute in the page --------------------------------------------------------


@needs_chromium
def test_the_signal_through_depth_agrees_with_the_package(show):
    found = show().evaluate(
        """async scales => {
          const { signal, sizes, INPUT, WEIGHTS, LAYERS, WIDTH, CASES } =
            await import("/interactive/depth.js");
          const list = values => Array.from(values);
          return { x: list(INPUT), W: WEIGHTS.map(list), sizes: [LAYERS, WIDTH, CASES],
            shares: sizes([1, -1, 1e-3, 0], 64),
            layers: Object.fromEntries(["none", "BatchNorm", "LayerNorm", "RMSNorm"].map(name =>
              [name, scales.map(scale => signal(name, scale).map(list))])) };
        }""",
        [0.5, 2.0],
    )
    depth, width, cases = found["sizes"]
    assert sum(found["shares"]) == pytest.approx(1)
    for name, both in found["layers"].items():
        for scale, layers in zip((0.5, 2.0), both, strict=True):
            h = np.reshape(found["x"], (cases, width))
            for W, values in zip(found["W"], layers, strict=True):
                y = h @ np.reshape(W, (width, width)).T * scale * np.sqrt(2 / width)
                if name != "none":
                    y = by_the_package(name, y[:, None], None)[:, 0]
                assert_allclose(np.reshape(values, y.shape), y, rtol=1e-6, atol=1e-9)
                h = np.maximum(y, 0)
            assert len(layers) == depth
            last = np.std(layers[-1])
            # What the words instead of the picture say.
            if name == "none":
                assert 0.1 < last * 2.0 ** (-20 if scale == 2 else 20) < 10
            else:
                assert 0.9 < last < 1.1


@needs_chromium
def test_padding_agrees_with_the_package(show):
    found = show().evaluate(
        """async () => {
          const { TOKENS, padded } = await import("/interactive/padding.js");
          return { tokens: TOKENS, all: [0, 1, 6, 18].map(count =>
            ({ count, counted: padded(count, false), masked: padded(count, true) })) };
        }"""
    )
    tokens = np.array(found["tokens"])
    for one in found["all"]:
        x = np.concatenate([tokens, np.zeros(one["count"])])
        for key, mask in (("counted", None), ("masked", np.arange(len(x)) < len(tokens))):
            y = by_the_package("BatchNorm", x[None, :, None], None if mask is None else mask[None])
            assert_allclose(one[key]["outputs"], y[0, : len(tokens), 0], rtol=0, atol=1e-9)
        assert one["counted"]["mean"] == pytest.approx(x.mean())
        assert one["counted"]["deviation"] == pytest.approx(x.std())
        assert one["masked"]["outputs"] == found["all"][0]["counted"]["outputs"]


@needs_chromium
def test_the_triangle_agrees_with_the_package(show):
    weights = [[1.0, 0.3], [-0.4, 2.0], [10.0, 3.0]]
    found = show().evaluate(
        """async weights => {
          const { descend, gradient, RATE, TARGET } = await import("/interactive/triangle.js");
          return { rate: RATE, target: TARGET,
            all: weights.map(w => ({ gradient: gradient(w), ...descend(w, RATE) })) };
        }""",
        weights,
    )
    goal = np.array([np.cos(found["target"]), np.sin(found["target"])])
    for w, one in zip(np.array(weights), found["all"], strict=True):
        # The loss 1 − u·goal of the direction u = w / ‖w‖, through the package's WeightNorm.
        unit, cache = norms.weight_norm(w[None])
        expected = norms.weight_norm_backward(-goal[None], cache)[0][0]
        assert_allclose(unit[0], w / np.linalg.norm(w))
        assert_allclose(one["gradient"], expected, atol=1e-12)
        assert_allclose(np.dot(one["step"], w), 0, atol=1e-12)  # perpendicular
        assert one["length"] == pytest.approx(np.hypot(np.linalg.norm(w), np.hypot(*one["step"])))
    short, long = found["all"][0], found["all"][2]
    assert_allclose(np.array(long["step"]) * 10, short["step"])
    assert 95 < short["angle"] / long["angle"] < 101


@needs_chromium
def test_who_sees_the_future_agrees_with_the_package(show):
    found = show().evaluate(
        """async () => {
          const { START, edited, moved } = await import("/interactive/future.js");
          const names = ["BatchNorm", "InstanceNorm", "GroupNorm", "LayerNorm", "RMSNorm"];
          return { start: START, edited: edited(2),
            moved: Object.fromEntries(names.map(name => [name, moved(name, 2)])) };
        }"""
    )
    x = np.reshape(found["start"], (2, 6, 4))
    z = np.reshape(found["edited"], (2, 6, 4))
    assert np.flatnonzero((x != z).any(axis=2)).tolist() == [5]
    for name, one in found["moved"].items():
        before, after = by_the_package(name, x, None), by_the_package(name, z, None)
        assert_allclose(np.reshape(one["after"], x.shape), after, rtol=0, atol=1e-9)
        moves = np.abs(after - before).max(axis=2)[0]
        assert_allclose(one["moves"], moves, atol=1e-9)
        assert (moves[0] > 0.05) == (name not in ("LayerNorm", "RMSNorm"))


@needs_chromium
def test_the_two_modes_agree_with_the_package(show):
    found = show().evaluate(
        """async () => {
          const { stream } = await import("/interactive/modes.js");
          const schedule = Array.from({ length: 30 }, (_, i) =>
            ({ kind: i < 20 ? "short or long" : "mixed",
               mode: i < 25 ? "training" : "evaluation" }));
          return stream(schedule).map(one => ({ ...one, values: Array.from(one.values),
            evaluated: Array.from(one.evaluated) }));
        }"""
    )
    mean, variance = np.zeros(1), np.ones(1)
    for one in found:
        x = np.array(one["values"])[:, None]
        at_rest = norms.batch_norm(x, None, None, mean, variance, training=False)[0]
        assert_allclose(one["evaluated"], at_rest[:, 0], atol=1e-9)
        if one["mode"] == "training":
            _, _, (mean, variance) = norms.batch_norm(x, None, None, mean, variance)
        assert one["running"] == pytest.approx(mean[0])
        assert one["variance"] == pytest.approx(variance[0])
        assert one["mean"] == pytest.approx(x.mean())
    apart = [abs(one["mean"] - one["running"]) for one in found]
    assert np.mean(apart[5:20]) > 3 * np.mean(apart[20:])


@needs_chromium
def test_what_layer_norm_forgets_agrees_with_the_package(show):
    found = show().evaluate(
        """async () => {
          const { TOKEN, through } = await import("/interactive/forgets.js");
          const tokens = [TOKEN, TOKEN.map(v => 3 * v + 2), TOKEN.map(v => -v)];
          return { tokens, outputs: Object.fromEntries(["LayerNorm", "RMSNorm"].map(name =>
            [name, tokens.map(x => through(name, x))])) };
        }"""
    )
    x = np.array(found["tokens"])
    layer, rms = (np.array(found["outputs"][name]) for name in ("LayerNorm", "RMSNorm"))
    assert_allclose(layer, norms.layer_norm(x, eps=1e-12)[0], atol=1e-9)
    assert_allclose(rms, norms.rms_norm(x, eps=1e-12)[0], atol=1e-9)
    assert_allclose(layer[1], layer[0], atol=1e-9)
    assert_allclose(layer[2], -layer[0], atol=1e-9)
    assert np.abs(rms[1] - rms[0]).max() > 0.3


def without_a_place(style: str) -> list[str]:
    """What the style sheet does not do for a figure, which would be seen in its frame alone."""
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", style)
    needs = ("display: block", "min-height", "background: none", "break-inside: avoid")
    return [
        f"nt-{name}: {need}"
        for name in FIGURES
        for need in needs
        if not (name in ON_PAGES and need in needs[2:])
        and not any(re.search(rf"nt-{name}\b", names) and need in rule for names, rule in rules)
    ]


def test_every_figure_has_its_place_in_the_style_sheet():
    style = (STATIC / "book.css").read_text(encoding="utf-8")
    assert without_a_place(style) == [], "add its name to the lists of figures in book.css"
    forgotten = style.replace("    nt-wiring,\n    table[", "    table[")
    assert without_a_place(forgotten) == ["nt-wiring: background: none"]


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


@needs_chromium
@pytest.mark.parametrize("name", interactive.PICTURES)
def test_a_picture_on_a_phone_and_with_a_finger(show, name):
    page = show(interactive.show(name)._repr_html_(), **PHONE)
    page.evaluate("document.body.style.margin = 0")
    start = said(page, name, "")
    box = page.locator(f"nt-{name} svg").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    slider = page.get_by_role("slider")
    if slider.count():
        box = slider.first.bounding_box()
        assert box["height"] >= 24
        page.touchscreen.tap(box["x"] + 0.2 * box["width"], box["y"] + box["height"] / 2)
    else:
        page.get_by_role("button", name="next batch").tap()
    expect(page.get_by_role("status")).not_to_have_text(start)


# Figures that draw what a cell gives them; the others compute their numbers in the page.
WITH_DATA = {"wiring": drawn_wirings}
ON_CHAPTERS = [name for name in FIGURES if name not in ON_PAGES]


def body_of(name: str) -> str:
    """The element of a figure, with data if it draws some."""
    return WITH_DATA[name]("words") if name in WITH_DATA else f"<nt-{name}></nt-{name}>"


def test_every_figure_has_a_case():
    tests = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    without = [name for name in FIGURES if not re.search(rf"nt-{name}\b|\"{name}\"", tests)]
    assert not without, (
        f"try {without} here by keyboard and hold the numbers against the package's, as "
        "test_the_triangle_agrees_with_the_package does; if a cell gives it data, see WITH_DATA"
    )


@needs_chromium
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_any_figure(show, theme):
    body = "".join(map(body_of, ON_CHAPTERS))
    page = show(f"<main><h1>h</h1><h2>h</h2>{body}</main>")
    said(page, "wiring", "Pre-LN")
    page.locator("html").evaluate("(e, theme) => { e.dataset.theme = theme; }", theme)
    if theme == "dark":  # as the theme paints the page
        page.add_style_tag(
            content="""html { background: #121212; color: #ced6dd;
            --pst-color-background: #121212; --pst-color-surface: #29313d;
            --pst-color-text-base: #ced6dd; --pst-color-text-muted: #9ca4af; }"""
        )
    assert [problem for problem in axe_problems(page) if "'nt-" in problem] == []


@needs_chromium
def test_ten_times_longer_weights_turn_a_hundredth(show):
    page = show(interactive.show("triangle")._repr_html_())
    page.get_by_role("button", name="ten times longer").click()
    expect(page.get_by_role("status")).to_contain_text("10.0 times shorter than at length 1")
    expect(page.get_by_role("status")).to_contain_text(re.compile(r"turns w by .*: 9\d times less"))
    page.wait_for_function("location.hash === '#nt-triangle?length=10.00'")
    page.get_by_role("button", name="start again").click()
    said(page, "triangle", "The gradient is perpendicular to w, so the step makes w longer: 1.00")


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


def test_a_picture_that_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match=r"no picture 'depht'\. Choose one of: depth, padding"):
        interactive.show("depht")


@needs_chromium
def test_without_scripts_a_picture_is_drawn_and_told(show):
    body = "".join(interactive.show(name)._repr_html_() for name in interactive.PICTURES)
    page = show(body, java_script_enabled=False)
    for name, words in interactive.PICTURES.items():
        picture = page.locator(f"nt-{name} img")
        assert picture.get_attribute("alt") == words
        assert picture.bounding_box()["height"] > 150
        assert page.locator(f"nt-{name}").inner_text().strip() == words
    assert len(interactive.PICTURES) == 6
    for name in interactive.PICTURES:
        assert len(interactive.show(name)._repr_html_()) < 30_000, name
        assert interactive.show(name)._repr_html_() == interactive.show(name)._repr_html_()


def loaded_with(name: str) -> set[str]:
    """The scripts that a page loads for one of them, itself included."""
    text = (SCRIPTS / name).read_text(encoding="utf-8")
    found = {name}
    for imported in re.findall(r'from "\./(\w+\.js)"', text):
        found |= loaded_with(imported)
    return found


def test_scripts_are_light():
    assert loaded_with("cells.js") == {"cells.js", "figure.js", "norms.js"}
    for name in FIGURES:  # the playground has a test of its own for the rest of what it loads
        loaded = [
            gzip.compress((SCRIPTS / part).read_bytes()) for part in loaded_with(f"{name}.js")
        ]
        assert sum(map(len, loaded)) < 20_000, name


def sources():
    """The pages of the book and the cells of its notebooks."""
    yield from (path.read_text(encoding="utf-8") for path in (ROOT / "book").glob("*.md"))
    for path in (ROOT / "book").rglob("0*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            yield "".join(cell["source"])


def words_instead(name: str, text: str) -> list[str]:
    """What stands in the place of a figure in a page, or in the cell that shows it."""
    found = re.findall(rf"<nt-{name}>(.*?)</nt-{name}>", text, re.DOTALL)
    try:
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    except SyntaxError:  # a page of text
        return found
    for call in calls:
        given = [*call.args, *(one.value for one in call.keywords if one.arg == "instead")]
        if ast.unparse(call.func).endswith("InteractiveFigure") and given[0].value == name:
            parts = [node.value for node in ast.walk(given[2]) if isinstance(node, ast.Constant)]
            found.append("".join(part for part in parts if isinstance(part, str)))
    return found


def test_the_words_of_a_figure_are_found():
    cell = 'InteractiveFigure("a", {"key": "no words"}, "Words " "of two " f"parts {1}.")'
    assert words_instead("a", cell) == ["Words of two parts ."]
    assert words_instead("b", cell) == []
    assert words_instead("a", 'x.InteractiveFigure("a", None, instead="So.")') == ["So."]
    assert words_instead("a", "Text: <nt-a>So\nit is.</nt-a>") == ["So\nit is."]


def test_every_figure_stands_in_a_chapter_with_words_instead():
    for name in set(FIGURES) - set(interactive.PICTURES):
        found = [words for text in sources() for words in words_instead(name, text)]
        assert found, (
            f'no cell ends in InteractiveFigure("{name}", ...), and no page has <nt-{name}>'
        )
        assert all(len(words) > 40 for words in found), (
            f"{name}: readers without scripts need a sentence of 40 characters in its place"
        )
