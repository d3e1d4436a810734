"""The built site as a reader finds it in a browser, on a desk and on a phone."""

import json
import re

import pytest
from browser import (
    DESKTOP,
    PHONE,
    Heard,
    axe_problems,
    colour_problems,
    eventually,
    in_theme,
    needs_chromium,
    read_to_the_end,
    resting_top,
    unfold,
)
from letters import letter_problems
from playwright.sync_api import expect
from site_pages import CHAPTERS, CONTENT, ROOT

pytestmark = needs_chromium

PAGES = [*CONTENT, "search", "genindex"]
CHAPTER = "book/03_batch_norm_vs_layer_norm"
# Its solutions, and most of its code, stand on the depth page.
IN_DEPTH = "book/in_depth/03_batch_norm_vs_layer_norm"

# Which pages hold which interactive figures.
FIGURES = {
    name: sorted(
        {
            next(filter(None, names))
            for cell in json.loads((ROOT / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
            for names in re.findall(
                r'<nt-(\w+)>|InteractiveFigure\(\s*"(\w+)"|interactive\.show\(\s*"(\w+)"',
                "".join(cell["source"]),
            )
        }
    )
    for name in CHAPTERS
}
WITH_FIGURES = [name for name, figures in FIGURES.items() if figures]

LIGHT = {"color_scheme": "light"}
DARK = {"color_scheme": "dark"}


@pytest.fixture(scope="session")
def address(site, serve):
    """Serve the site; what a page shows late comes as late as over a network."""
    return serve(site, late=0.1)


# --- every page -----------------------------------------------------------------------------------

# What moves without the reader's doing, from the first moment on.
WATCH_SHIFTS = """
window.shifts = [];
new PerformanceObserver(list => {
  for (const shift of list.getEntries()) {
    const names = shift.sources.map(({ node }) => node?.id || node?.className || node?.nodeName);
    if (!shift.hadRecentInput) window.shifts.push([shift.value, names.slice(0, 3)]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""
# What stands beyond the right edge where no box around it can be scrolled, and boxes that can be
# scrolled with the mouse alone.
TOO_WIDE = """() => {
  const edge = document.documentElement.clientWidth;
  const main = document.querySelector("article") ?? document.querySelector("main");
  const say = element => `${element.localName} ${element.id || element.className || ""}`.trim();
  const found = [];
  const fits = element => element.getBoundingClientRect().right <= edge + 1;
  const boxes = new Map();
  const held = element => {
    if (!boxes.has(element)) {
      const { overflowX } = getComputedStyle(element);
      const scrolls = ["auto", "scroll"].includes(overflowX);
      if (scrolls && element.scrollWidth > element.clientWidth + 13 && element.tabIndex < 0
          && element.checkVisibility({ visibilityProperty: true })
          && !element.querySelector("a[href], button, input, select, [tabindex='0']")) {
        found.push(`out of reach of the keyboard: ${say(element)}`);
      }
      // Words for a screen reader alone are shrunk to a point; pictures are cut to their frame.
      const unseen = overflowX !== "visible"
        && (element.clientWidth <= 1 || element.matches("svg, .katex *"));
      boxes.set(element, ((scrolls || unseen) && fits(element))
        || (element !== main && held(element.parentElement)));
    }
    return boxes.get(element);
  };
  if (document.documentElement.scrollWidth > edge) found.push("wider than the window: the page");
  for (const element of main.querySelectorAll("*")) {
    const inside = held(element.parentElement);
    if (!inside && element.getBoundingClientRect().width > 1 && !fits(element)) {
      found.push(`wider than the window: ${say(element)}`);
    }
  }
  return found.slice(0, 5);
}"""


# Equations that do not fit: they can be scrolled, but nobody sees their end.
CUT_EQUATIONS = """() =>
  [...document.querySelectorAll(".katex-display")]
    .filter(element => element.scrollWidth > element.clientWidth + 1)
    .map(element => `an equation is cut off: ${element.querySelector("annotation").textContent}`)
"""


def shift_problems(page) -> list[str]:
    """Look at the shifts so far: their sum while the page loads, as the web vitals take it."""
    shifts = page.evaluate("window.shifts.splice(0)")
    total = sum(value for value, _ in shifts)
    return [f"the layout shifts by {total:.2f}: {max(shifts)[1]}"] if total >= 0.1 else []


def page_problems(page, address: str, name: str, looks: set[str] | None = None) -> list[str]:
    """Open a page, let all of it come near, and list what is wrong with it."""
    heard = Heard(page)
    page.add_init_script(WATCH_SHIFTS)
    page.goto(f"{address}{name}.html")
    page.wait_for_load_state("networkidle")
    found = shift_problems(page)
    unfold(page)
    found += [*page.evaluate(TOO_WIDE), *page.evaluate(CUT_EQUATIONS)]
    found += axe_problems(page, looks=looks)
    return heard.problems(address) + found


# Of each theme, the looks of texts whose colours are in order.
LIGHT_LOOKS, DARK_LOOKS = set(), set()


# Two classes, so that two processes share the work. A drawing is the same in both themes but for
# its colours (test_figure_letters.py); what a figure draws by itself is examined in both.
class TestOnADesk:
    @pytest.mark.parametrize("name", PAGES)
    def test_a_page_is_in_order(self, open_page, site, address, name):
        page = open_page(**DESKTOP, **LIGHT)
        found = page_problems(page, address, name, LIGHT_LOOKS)
        found += letter_problems(page, site, address)
        assert page.locator("html").get_attribute("data-theme") == "light"
        if name in WITH_FIGURES:
            heard = Heard(page)  # what goes wrong from now on
            in_theme(page, "dark")
            found += colour_problems(page, DARK_LOOKS) + heard.problems(address)
        assert found == []


class TestOnAPhone:
    @pytest.mark.parametrize("name", PAGES)
    def test_a_page_is_in_order(self, open_page, site, address, name):
        page = open_page(**PHONE, **DARK)
        found = page_problems(page, address, name, DARK_LOOKS)
        found += letter_problems(page, site, address)
        assert page.locator("html").get_attribute("data-theme") == "dark"
        assert found == []


IN_ORDER = """<!doctype html><html lang="en"><head><title>T</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
</head><body><main><h1>T</h1><p>Text.</p></main></body></html>"""

DEFECTS = {
    "outside the site": '<img src="http://example.org/a.png" width="1" height="1" alt="A">',
    "outside the site: http://127.0.0.1:9/": '<img src="http://127.0.0.1:9/" alt="A">',
    "status 404": '<script src="gone.js"></script>',
    "error: wrong": "<script>console.error('wrong')</script>",
    "warning: odd": "<script>console.warn('odd')</script>",
    "uncaught": "<script>gone.there()</script>",
    "wider than the window: the page": '<p style="width: 1400px">wide</p>',
    "wider than the window: p cut off": '<div style="overflow: hidden"><p class="cut off" '
    'style="width: 1400px">wide</p></div>',
    "the layout shifts by": "<p id='late'></p><p style='height: 700px'>x</p><script>"
    "setTimeout(() => { late.style.height = '600px'; }, 200)</script>",
    "out of reach of the keyboard: div box": '<div class="box" style="overflow: auto">'
    '<p style="width: 1400px">wide</p></div>',
    "an equation is cut off: x = 1": '<div class="katex-display" tabindex="0" '
    'style="overflow: auto"><p style="width: 1400px">x</p>'
    "<math><semantics><mi>x</mi><annotation>x = 1</annotation></semantics></math></div>",
    "color-contrast": '<p style="color: #999">faint</p>',
    "button-name": "<button></button>",
    "color-contrast: Elements": "<p>clear</p>" * 9 + '<p style="color: #999">faint</p>',
    "color-contrast: Elements must": '<p style="background: #222">dim</p>' + "<p>clearer</p>" * 9,
    "color-contrast: Elements must meet": '<div style="opacity: 0.4"><p>faint</p></div>'
    + "<p>clearer</p>" * 9,
    "link-in-text-block": "<style>a { color: #025; text-decoration: none }</style>"
    + '<p>See <a href="#b" style="text-decoration: underline">this</a>, where more is said.</p>' * 9
    + '<p>See <a href="#a">here</a> or there.</p>',
    "color-contrast: Elements must meet minimum": "<p>clear</p><script>const box = "
    "document.createElement('div'); document.querySelector('main').append(box); "
    "box.attachShadow({ mode: 'open' }).innerHTML = '<p>clear</p><p style=\"color: #999\">faint"
    "</p>';</script>",
    "color-contrast: ": '<div class="highlight"><pre><span class="n">word</span> '
    '<b class="n" style="color: #999">word</b></pre></div>',
}


def test_a_page_in_order_is_let_pass(open_page, serve, tmp_path):
    box = '<div tabindex="0" style="overflow: auto"><p style="width: 1400px">wide</p></div>'
    (tmp_path / "good.html").write_text(IN_ORDER.replace("</main>", f"{box}</main>"))
    assert page_problems(open_page(**DESKTOP), serve(tmp_path), "good") == []


@pytest.mark.parametrize("message", DEFECTS)
def test_a_defect_on_a_page_is_noticed(open_page, serve, tmp_path, message):
    (tmp_path / "bad.html").write_text(IN_ORDER.replace("</main>", f"{DEFECTS[message]}</main>"))
    problems = page_problems(open_page(**DESKTOP), serve(tmp_path), "bad")
    assert any(problem.startswith(message) for problem in problems), problems


def test_a_colour_that_is_faint_in_the_other_theme_alone_is_noticed(open_page, serve, tmp_path):
    faint = "<style>@media (prefers-color-scheme: dark) { p { color: #ccc } }</style><p>word</p>"
    (tmp_path / "bad.html").write_text(IN_ORDER.replace("</main>", f"{faint}</main>"))
    page = open_page(**DESKTOP, **LIGHT)
    assert page_problems(page, serve(tmp_path), "bad") == []
    page.emulate_media(color_scheme="dark")
    assert {problem.split(":")[0] for problem in colour_problems(page)} == {"color-contrast"}


def test_colours_are_known_from_page_to_page_where_they_are_in_order(open_page, serve, tmp_path):
    faint = '<p style="color: #999">faint</p>'
    looks = set()
    for name, body in (("good", ""), ("bad", faint), ("worse", f"<p>word</p>{faint}")):
        (tmp_path / f"{name}.html").write_text(IN_ORDER.replace("</main>", f"{body}</main>"))
        problems = page_problems(open_page(**DESKTOP), serve(tmp_path), name, looks)
        assert [problem.split(":")[0] for problem in problems] == ["color-contrast"] * bool(body)
    assert len(looks) == 2  # of the heading and of the paragraph


def test_a_defect_is_noticed_in_the_place_that_is_examined(open_page, serve, tmp_path):
    faint = '<p class="examined" style="color: #999">faint</p><p style="color: #999">elsewhere</p>'
    (tmp_path / "bad.html").write_text(IN_ORDER.replace("</main>", f"{faint}</main>"))
    page = open_page(**DESKTOP)
    page.goto(f"{serve(tmp_path)}bad.html")
    (problem,) = axe_problems(page, ".preview", ".examined")
    assert problem.startswith("color-contrast") and "elsewhere" not in problem


# --- what a reader does ---------------------------------------------------------------------------


@pytest.fixture
def visit(open_page, address):
    """Open a page of the site; at the end of the test, nothing may have gone wrong on it."""
    heard = []

    def start(name: str, **options):
        page = open_page(**options)
        if options.get("java_script_enabled", True):
            heard.append(Heard(page))
        page.goto(f"{address}{name}.html")
        page.wait_for_load_state("networkidle")
        return page

    yield start
    for one in heard:
        assert one.problems(address) == []


def test_the_search_finds_a_chapter(visit):
    page = visit("book/01_internal_covariate_shift")
    page.keyboard.press("Control+k")
    field = page.locator("input[type=search]:focus")
    expect(field).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(field).to_have_count(0)
    link = page.locator("article section > p > a:not(.headerlink)").first
    link.focus()
    page.keyboard.press("Control+k")
    expect(field).to_be_focused()
    page.keyboard.press("Escape")
    expect(link).to_be_focused()
    page.keyboard.press("Control+k")
    page.keyboard.type("padding")
    results = page.locator(".search-results a").filter(visible=True)
    expect(results.first).to_be_visible()
    expect(page.locator(".search-results [role=status]").filter(visible=True)).to_contain_text(
        "The best 12 places"
    )
    page.keyboard.press("ArrowDown")
    expect(results.first).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(field).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=padding*")
    link = page.locator(f".search-results a[href*='{CHAPTER}.html']").first
    expect(link).to_be_visible()
    link.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("BatchNorm vs LayerNorm")


@pytest.mark.parametrize("name", ["book/index", "book/05_rms_norm", "book/fifteen_minutes"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_figure_shows_its_caption(visit, name, theme):
    page = visit(name, color_scheme=theme)
    hidden = page.evaluate(
        """() => [...document.querySelectorAll("article figcaption")]
          .filter((caption) => getComputedStyle(caption).display === "none")
          .map((caption) => caption.innerText)"""
    )
    assert hidden == []


def test_a_page_opened_as_a_file_says_how_to_see_its_figures(open_page, site):
    page = open_page()
    page.goto((site / "book" / "02_family_of_norms.html").as_uri())
    expect(page.locator("nt-cells")).to_contain_text("make serve")


def test_an_arrow_pressed_at_once_keeps_its_place(visit):
    """The key comes before the results do, on a busy machine or under quick fingers."""
    page = visit("book/01_internal_covariate_shift")
    page.keyboard.press("Control+k")
    page.keyboard.type("batch")
    results = page.locator(".search-results a").filter(visible=True)
    expect(results.first).to_be_visible()
    reached = page.evaluate(
        """async () => {
          const field = document.activeElement;
          field.value = "padding";
          field.dispatchEvent(new Event("input", { bubbles: true }));
          field.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
          await new Promise((resolve) => setTimeout(resolve, 300));
          return document.activeElement.getAttribute("href");
        }"""
    )
    assert reached is not None and "marked=padding" in reached
    expect(results.first).to_be_focused()


def test_a_result_opens_at_its_paragraph_with_the_words_marked(visit):
    page = visit("search.html?q=running+statistics+momentum".removesuffix(".html"))
    page.goto(page.url.split("book/")[0].split("search")[0] + "search.html?q=running+statistics")
    link = page.locator(".search-results a[href*='#']").first
    link.click()
    found = page.locator(".found-here")
    expect(found).to_be_in_viewport()
    assert page.evaluate("CSS.highlights.get('searched').size") > 0


def test_what_was_not_found_is_said(visit):
    page = visit(CHAPTER)
    page.keyboard.press("Control+k")
    page.keyboard.type("zzzzqqqq")
    expect(page.locator(".search-results [role=status]").filter(visible=True)).to_contain_text(
        "Nothing was found"
    )


def test_a_page_that_does_not_search_fetches_nothing_of_the_search(visit):
    page = visit(CHAPTER)
    fetched = page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
    assert fetched and not [name for name in fetched if "/search/" in name]


def test_the_search_on_a_phone(visit):
    page = visit(CHAPTER, **PHONE)
    page.get_by_role("button", name="Search").filter(visible=True).first.tap()
    expect(page.locator("input[type=search]:focus")).to_be_in_viewport()
    # Results come while one types, no key ends the question.
    page.keyboard.type("padding")
    expect(page.locator(".search-results a").filter(visible=True).first).to_be_in_viewport()


BACKGROUND = "getComputedStyle(document.body).backgroundColor"


def test_the_theme_is_switched_and_remembered(visit):
    page = visit(CHAPTER, **LIGHT)
    html = page.locator("html")
    button = page.get_by_role("button", name="light/dark").filter(visible=True)
    expect(html).to_have_attribute("data-mode", "auto")
    expect(html).to_have_attribute("data-theme", "light")
    light = page.evaluate(BACKGROUND)
    button.click()
    expect(html).to_have_attribute("data-theme", "dark")
    page.wait_for_function(f"{BACKGROUND} !== '{light}'")
    page.get_by_role("link", name="Notation").filter(visible=True).first.click()
    page.wait_for_url("**/notation.html")
    expect(html).to_have_attribute("data-theme", "dark")
    page.wait_for_function(f"{BACKGROUND} !== '{light}'")
    button.focus()
    page.keyboard.press("Enter")
    expect(html).to_have_attribute("data-theme", "light")
    page.keyboard.press("Enter")
    expect(html).to_have_attribute("data-mode", "auto")


def test_the_theme_follows_the_system(visit):
    page = visit("book/04_invariance", **DARK)
    html = page.locator("html")
    expect(html).to_have_attribute("data-theme", "dark")
    page.locator("nt-triangle[data-dark]").wait_for(state="attached")
    dark = page.evaluate(BACKGROUND)
    page.emulate_media(color_scheme="light")
    expect(html).to_have_attribute("data-theme", "light")
    page.locator("nt-triangle:not([data-dark])").wait_for(state="attached")
    page.wait_for_function(f"{BACKGROUND} !== '{dark}'")


def test_every_drawing_stands_in_the_middle_of_its_figure(visit):
    page = visit("book/07_pre_ln_and_post_ln", **DESKTOP)
    kinds = page.evaluate(
        """() => [...document.querySelectorAll("article figure img")]
            .filter((one) => one.offsetWidth)
            .map((one) => {
              const [drawing, figure] = [one, one.closest("figure")]
                .map((box) => box.getBoundingClientRect());
              const middle = (box) => box.left + box.width / 2;
              return [one.className, Math.round(middle(drawing) - middle(figure))];
            })"""
    )
    assert {name for name, _ in kinds} == {"card", "only-light"}
    assert all(abs(aside) <= 1 for _, aside in kinds), kinds


def test_a_solution_is_folded_and_opens(visit):
    page = visit(IN_DEPTH)
    solution = page.locator(".solution").first
    handle = solution.locator("button, summary").first
    answer = solution.locator(".solution-content, section, p:not(.admonition-title)").first
    expect(handle).to_have_accessible_name(re.compile(r"\w"))
    expect(answer).to_be_hidden()
    handle.click()
    expect(answer).to_be_visible()
    handle.focus()
    page.keyboard.press("Enter")
    expect(answer).to_be_hidden()
    page.keyboard.press("Space")
    expect(answer).to_be_visible()


def test_a_folded_code_cell_opens(visit):
    page = visit("book/in_depth/01_internal_covariate_shift")
    folded = page.locator("details.hide").first
    handle, code = folded.locator("summary"), folded.locator("pre").first
    expect(code).to_be_hidden()
    handle.click()
    expect(code).to_be_visible()
    handle.focus()
    page.keyboard.press("Enter")
    expect(code).to_be_hidden()
    page.keyboard.press("Enter")
    expect(code).to_be_visible()


def test_one_switch_opens_all_the_code_of_a_page_and_of_the_next(visit):
    page = visit("book/in_depth/01_internal_covariate_shift")
    switch, codes = page.locator(".code-switch button"), page.locator("details.hide")
    expect(switch).to_have_attribute("aria-pressed", "false")
    switch.click()
    assert codes.count() > 1
    assert codes.evaluate_all("all => all.every((one) => one.open)")
    page.goto(page.url.replace("01_internal_covariate_shift", "02_family_of_norms"))
    expect(page.locator(".code-switch button")).to_have_attribute("aria-pressed", "true")
    assert page.locator("details.hide").evaluate_all("all => all.every((one) => one.open)")
    page.locator(".code-switch button").press("Enter")
    assert page.locator("details.hide").evaluate_all("all => all.every((one) => !one.open)")


def test_code_can_be_copied(visit):
    page = visit(IN_DEPTH, permissions=["clipboard-read", "clipboard-write"])
    cells = page.locator(".cell_input div.highlight")
    assert cells.count() > 5
    assert cells.filter(has=page.locator("button.copybtn")).count() == cells.count()
    code = cells.first.locator("pre").inner_text()
    cells.first.hover()
    cells.first.get_by_role("button", name="Copy").click()
    same = """(_, code) =>
      navigator.clipboard.readText().then(text => text.trim().split(/\\s+/).join(" ") === code)"""
    eventually(cells.first, same, " ".join(code.split()))


def test_the_menu_of_chapters_on_a_phone(visit):
    page = visit(CHAPTER, **PHONE)
    link = page.locator(".bd-sidebar-primary").get_by_role("link", name="4. Invariance")
    expect(link).not_to_be_in_viewport()
    button = page.locator("button.primary-toggle").filter(visible=True)
    expect(button).to_have_accessible_name(re.compile(r"\w"))
    button.tap()
    expect(link).to_be_in_viewport()
    page.touchscreen.tap(380, 400)  # beside the menu
    expect(link).not_to_be_in_viewport()
    button.tap()
    link.tap()
    page.wait_for_url("**/04_invariance.html")


@pytest.mark.parametrize("width", [1024, 1200, 1280, 1440, 1920])
def test_the_menu_of_chapters_can_be_folded_away_for_good(visit, width):
    page = visit("book/notation", viewport={"width": width, "height": 900})
    button = page.locator("button.primary-toggle").filter(visible=True)
    menu, words = page.locator(".bd-sidebar-primary"), page.locator("article p").first
    button.focus()
    page.keyboard.press("Enter")
    expect(menu).to_be_hidden()
    page.wait_for_function("localStorage.getItem('menu') === 'folded'")
    expect(button).to_be_focused()
    for seen in (words, button):
        eventually(seen, "element => element.getBoundingClientRect().left >= 0")
    page.reload()
    expect(menu).to_be_hidden()
    button.click()
    expect(menu).to_be_visible()
    page.wait_for_function("localStorage.getItem('menu') === 'open'")
    page.reload()
    expect(menu).to_be_visible()


@pytest.mark.parametrize(
    ("menu", "links"),
    [
        ("Launch interactive content", ["mybinder.org", "colab.research.google.com"]),
        ("Download this page", ["03_batch_norm_vs_layer_norm.ipynb"]),
        ("Source repositories", ["github.com"]),
    ],
)
def test_a_menu_opens_by_keyboard(visit, menu, links):
    page = visit(CHAPTER)
    button = page.get_by_role("button", name=menu)
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    for link in links:
        found = page.locator(f".dropdown-menu a[href*='{link}']").filter(visible=True)
        expect(found.first).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(
        page.locator(".dropdown-menu.show a:focus, .dropdown-menu.show button:focus")
    ).to_have_count(1)
    page.keyboard.press("Escape")
    expect(button).to_have_attribute("aria-expanded", "false")
    expect(button).to_be_focused()


FIRST_KEYS = {
    "cells": ("gridcell", "ArrowRight"),
    "geometry": ("slider", "ArrowRight"),
    "invariance": ("slider", "ArrowRight"),
    "wiring": ("button", "Enter"),
    "depth": ("slider", "ArrowRight"),
    "padding": ("slider", "ArrowRight"),
    "triangle": ("slider", "ArrowRight"),
    "future": ("slider", "ArrowRight"),
    "modes": ("button", "Enter"),
    "forgets": ("slider", "ArrowLeft"),
}


@pytest.mark.parametrize("figure", FIRST_KEYS)
def test_a_figure_answers_to_keys_where_it_stands(visit, figure):
    name = next(name for name, figures in FIGURES.items() if figure in figures)
    page = visit(name)
    element = page.locator(f"nt-{figure}").first
    element.scroll_into_view_if_needed()
    expect(element.get_by_role("status")).to_have_text(re.compile(r"\w"))
    said = element.get_by_role("status").text_content()
    role, key = FIRST_KEYS[figure]
    if role == "gridcell":
        element.locator("[role=gridcell][tabindex='0']").focus()
    else:
        # Doubled weights, with which the figure of invariances opens, may grow further unnoticed.
        found = element.get_by_role(role)
        (found.last if figure == "invariance" else found.first).focus()
    page.keyboard.press(key)
    expect(element.get_by_role("status")).not_to_have_text(said)


@pytest.mark.parametrize("name", WITH_FIGURES)
def test_a_chapter_can_be_read_without_scripts(visit, name):
    page = visit(name, java_script_enabled=False)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    for figure in FIGURES[name]:
        words = page.locator(f"nt-{figure} > p, nt-{figure} figcaption").first
        expect(words).to_be_visible()
        expect(words).to_have_text(re.compile(".{40}"))
    solution = page.locator(".solution p:not(.admonition-title)")
    if solution.count():  # they stand on depth pages
        expect(solution.first).to_be_visible()


@pytest.mark.parametrize("name", ["book/01_internal_covariate_shift", IN_DEPTH])
def test_a_chapter_can_be_printed(visit, name):
    page = visit(name)
    page.set_viewport_size({"width": 720, "height": 1020})  # the paper, less its margins
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # as the browser does
    for menu in (".bd-sidebar-primary", ".bd-sidebar-secondary", ".bd-header-article"):
        expect(page.locator(menu)).to_be_hidden()
    for folded in (".solution p:not(.admonition-title)", "details.hide pre"):
        for text in page.locator(f"article {folded}").all():
            expect(text).to_be_visible()
    article = page.locator("article.bd-article").bounding_box()
    assert article["width"] > 0.85 * 720
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") > 3


def test_code_of_a_hundred_letters_fits_between_the_menus(visit):
    page = visit(IN_DEPTH, **DESKTOP)
    code = page.locator("article > section > section > .cell .cell_input pre")
    assert code.count() > 10
    assert code.evaluate_all("all => all.filter(one => one.scrollWidth > one.clientWidth)") == []


def test_an_edge_shows_that_code_goes_on_behind_it(visit):
    page = visit(IN_DEPTH, **PHONE)
    page.locator(".cell_input pre").first.scroll_into_view_if_needed()
    page.locator("pre.more").first.evaluate("element => { element.id = 'wide'; }")
    code, end = page.locator("#wide"), "getComputedStyle(wide).getPropertyValue('--{}')"
    hidden = code.evaluate("element => element.scrollWidth - element.clientWidth")
    assert hidden > 100
    for left, before, after in ((0, 0, 32), (60, 32, 32), (hidden, 32, 0)):
        code.evaluate("(element, left) => { element.scrollLeft = left; }", left)
        page.wait_for_function(f"{end.format('before')} === '{before}px'")
        page.wait_for_function(f"{end.format('after')} === '{after}px'")
        expect(code).to_have_css("mask-image", re.compile("gradient"))
    page.emulate_media(media="print")
    expect(code).to_have_css("mask-image", "none")


def test_a_figure_s_number_stays_beside_its_name(visit):
    page = visit("book/01_internal_covariate_shift", **PHONE)
    lines = "all => all.map(one => one.getClientRects().length)"
    assert set(page.locator("article .std-numref").evaluate_all(lines)) == {1}


# --- previews -------------------------------------------------------------------------------------

PREVIEWS = {
    # page, link: words in its preview
    "a work": ("book/04_invariance", "bibliography.html#", "arXiv"),
    "an equation": ("book/in_depth/04_invariance", "#equation-eq-inv-blind", "(4.4)"),
    "a long equation": (
        "book/in_depth/01_internal_covariate_shift",
        "#equation-eq-ics-steps",
        "(1.3)",
    ),
    "a theorem": ("book/04_invariance", "#thm-inv-gradient", "The gradient before a norm"),
    "a figure": ("book/04_invariance", "#fig-inv-rate", "a hundred times smaller"),
    # The row under the mouse has a colour of its own.
    "a figure, from a table": (
        "book/03_batch_norm_vs_layer_norm",
        "#fig-seq-composition",
        "falls behind",
    ),
    "a tall figure": ("book/01_internal_covariate_shift", "#fig-rates", "Error on"),
    "an exercise": ("book/in_depth/05_rms_norm", "#ex-rms-reverse", "The reverse conversion"),
    "a name": ("book/api", "#normtutor.norms.batch_norm", "batch_norm("),
}


def link_to(page, start):
    """Find the first link of the text whose address starts so, away from the page's edges."""
    link = page.locator(f"article a.internal[href^='{start}']:not(.headerlink)").first
    link.evaluate("element => element.scrollIntoView({ block: 'center', behavior: 'instant' })")
    resting_top(page, link)
    return link


def rest_on(link):
    """Lay the mouse on a link's first line; the middle of one that runs over two is beside it."""
    link.hover(
        position=link.evaluate(
            "link => { const [line] = link.getClientRects(), box = link.getBoundingClientRect();"
            " return { x: line.x - box.x + line.width / 2, y: line.y - box.y + line.height / 2 }; }"
        )
    )


@pytest.mark.parametrize("kind", PREVIEWS)
def test_a_link_shows_what_it_leads_to(visit, kind):
    name, start, words = PREVIEWS[kind]
    page = visit(name, **DESKTOP)
    link, preview = link_to(page, start), page.locator(".preview")
    rest_on(link)
    expect(preview).to_be_visible()
    expect(preview).to_contain_text(words)
    page.wait_for_function("document.fonts.status === 'loaded'")
    assert preview.evaluate("box => box.scrollHeight <= box.clientHeight")
    assert preview.evaluate("box => box.scrollWidth <= box.clientWidth")
    inside = "all => all.map(one => getComputedStyle(one).overflowX)"
    assert set(preview.locator(".katex-display").evaluate_all(inside)) <= {"visible"}
    box, shown = preview.bounding_box(), link.bounding_box()
    assert 0 <= box["x"] and box["x"] + box["width"] <= 1280
    assert 0 <= box["y"] and box["y"] + box["height"] <= 900
    assert box["y"] >= shown["y"] or box["y"] + box["height"] <= shown["y"] + shown["height"]
    assert page.evaluate(
        "() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id);"
        " return ids.length === new Set(ids).size; }"
    )
    # The rest of the page is as it was, and examined above.
    around = "(link.closest('table') ?? link.closest('p, li, dt, dd'))"
    link.evaluate(f"link => {around}.classList.add('examined')")
    assert axe_problems(page, ".preview", ".examined") == []
    page.mouse.move(3, 3)
    expect(preview).to_be_hidden()


def test_a_preview_stays_while_the_mouse_rests_on_it_and_goes_on_escape(visit):
    page = visit("book/04_invariance", **DESKTOP)
    link, preview = link_to(page, "#thm-inv-gradient"), page.locator(".preview")
    rest_on(link)
    expect(preview).to_be_visible()
    box = preview.bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.wait_for_timeout(600)
    expect(preview).to_be_visible()
    page.mouse.wheel(0, 200)  # the box has nothing to scroll, and keeps the page still
    page.wait_for_timeout(300)
    expect(preview).to_be_visible()
    page.keyboard.press("Escape")
    expect(preview).to_be_hidden()


def test_a_long_preview_can_be_read_with_the_keyboard(visit):
    page = visit("book/04_invariance", viewport={"width": 900, "height": 300})
    link, preview = link_to(page, "#thm-inv-gradient"), page.locator(".preview")
    page.keyboard.press("Tab")
    link.focus()
    expect(preview).to_be_visible()
    assert preview.evaluate("box => box.scrollHeight - box.clientHeight") > 40
    page.keyboard.press("ArrowDown")
    expect(preview).to_be_visible()
    eventually(preview, "box => box.scrollTop === 40")


def test_a_preview_does_not_open_by_itself(visit):
    page = visit("book/04_invariance", **DESKTOP)
    link, preview = link_to(page, "#thm-inv-gradient"), page.locator(".preview")
    box = link.bounding_box()
    x, y = box["x"] + 5, box["y"] + box["height"] / 2
    page.mouse.move(x, y - 100)
    page.mouse.wheel(0, 100)
    page.wait_for_timeout(900)
    under = page.evaluate_handle(f"document.elementFromPoint({x}, {y - 100}).closest('a')")
    assert under.evaluate("(under, link) => under === link", link.element_handle())
    expect(preview).to_be_hidden()
    box = link.bounding_box()
    page.mouse.move(box["x"] - 80, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 5, box["y"] + 5, steps=4)  # marking text
    page.wait_for_timeout(900)
    expect(preview).to_be_hidden()
    page.mouse.up()


def test_a_preview_comes_after_the_network_has_failed_once(open_page, address):
    page = open_page(**DESKTOP)
    page.goto(f"{address}book/04_invariance.html")
    link, preview = link_to(page, "bibliography.html#"), page.locator(".preview")
    page.route("**/bibliography.html", lambda route: route.abort())
    with page.expect_event("requestfailed"):
        rest_on(link)
    expect(preview).to_be_hidden()
    page.unroute("**/bibliography.html")
    page.mouse.move(3, 3)
    page.wait_for_timeout(300)
    rest_on(link)
    expect(preview).to_be_visible()


def test_a_preview_comes_with_the_keyboard_and_not_with_a_finger(visit):
    page = visit("book/04_invariance", **PHONE)
    link, preview = link_to(page, "#thm-inv-gradient"), page.locator(".preview")
    link.tap()
    page.wait_for_timeout(600)
    expect(preview).to_be_hidden()
    link = link_to(page, "#thm-inv-gradient")
    page.keyboard.press("Tab")
    link.focus()
    expect(preview).to_contain_text("The gradient before a norm")
    page.keyboard.press("Tab")
    expect(preview).to_be_hidden()


# --- where a link leads ---------------------------------------------------------------------------

# Deep in long pages, whose sections are laid out when they come near.
DEEP = {
    "book/04_invariance": (
        "equation-eq-inv-layer",
        "weight-decay-sets-the-speed",
        "equation-eq-inv-equilibrium",
    ),
    "book/in_depth/04_invariance": ("where-the-norm-stands", "thm-inv-fisher"),
    "book/api": ("normtutor.moments.count", "normtutor.invariance.Subject.linear"),
}


def top_of(page, name: str) -> float:
    """Measure where an element stands in the window, once nothing moves any more."""
    return resting_top(page, page.locator(f"[id='{name}']"))


@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("name", DEEP)
def test_a_link_leads_to_its_place_and_back_leads_to_the_reader_s(open_page, address, name, screen):
    page = open_page(**screen)
    targets = DEEP[name]
    # From another page, and then from the place of another target.
    for target, other in zip(targets, (*targets[1:], targets[0]), strict=True):
        page.goto("about:blank")
        page.goto(f"{address}{name}.html#{target}")
        assert 0 <= top_of(page, target) < 200, target
        page.evaluate("name => { location.hash = name; }", other)
        assert 0 <= top_of(page, other) < 200, other
    page.evaluate("scrollBy({ top: 300, behavior: 'instant' })")
    left = top_of(page, other)
    page.goto("about:blank")
    page.go_back()
    assert abs(top_of(page, other) - left) < 40, other
    page.reload()
    assert abs(top_of(page, other) - left) < 40, other


def test_the_contents_on_a_phone_lead_to_a_section_and_make_way(visit):
    page = visit("book/in_depth/04_invariance", **PHONE)
    for entry in ("The audit", "The proof by symbols", "PowerNorm"):
        page.locator("button.secondary-toggle, label.secondary-toggle").first.tap()
        link = page.locator(".bd-toc-nav a:visible").filter(has_text=entry).first
        target = link.get_attribute("href").removeprefix("#")
        link.tap()
        expect(link).not_to_be_in_viewport()
        assert 0 <= top_of(page, target) < 200, entry


HAS_A_RING = """element => {
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  return outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
}"""


def test_what_has_the_focus_can_be_seen(visit):
    page = visit(CHAPTER)
    seen = set()
    for _ in range(25):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        eventually(focused, HAS_A_RING)
        seen.add(focused.evaluate("element => element.outerHTML"))
    assert len(seen) > 4


def test_paper_is_white_for_those_who_read_in_the_dark(visit):
    page = visit(CHAPTER, **DARK)
    theme = page.locator("html")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(theme).to_have_attribute("data-theme", "light")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(theme).to_have_attribute("data-theme", "dark")


def test_a_link_in_the_title_of_a_solution_does_not_fold_it(visit):
    page = visit(IN_DEPTH)
    solutions = page.locator(".solution.toggle")
    folded = "all => all.map(one => one.classList.contains('toggle-hidden'))"
    before = solutions.evaluate_all(folded)
    assert len(before) > 1 and all(before)
    solutions.last.locator(".admonition-title a").dispatch_event("click")
    assert solutions.evaluate_all(folded) == before
    solutions.last.locator(".admonition-title").dispatch_event("click")
    assert solutions.evaluate_all(folded) == [*before[:-1], False]


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desk", "phone"])
def test_the_first_page_keeps_its_height(visit, size):
    page = visit("book/index", **size)
    height = "document.documentElement.scrollHeight"
    page.wait_for_function("document.fonts.status === 'loaded'")
    before = page.evaluate(height)
    read_to_the_end(page)
    assert abs(page.evaluate(height) - before) <= 2  # rounding


def test_very_long_contents_show_their_groups_and_open_the_one_that_is_read(visit):
    page = visit("book/questions")
    expect(page.locator(".bd-toc-nav")).to_have_class(re.compile("grouped"))
    opened = page.locator(".bd-toc-nav li:not(li li) > ul:visible")
    expect(opened).to_have_count(1)
    entry = page.locator(".bd-toc-nav a", has_text="How do I freeze BatchNorm?")
    expect(entry).to_be_hidden()
    page.get_by_role("heading", name="How do I freeze BatchNorm?").evaluate(
        "heading => heading.scrollIntoView()"
    )
    expect(entry).to_have_class(re.compile("active"))
    expect(entry).to_be_in_viewport()
    expect(opened).to_have_count(1)
    # A chapter's contents are short: nothing is folded.
    page = visit(CHAPTER)
    expect(page.locator(".bd-toc-nav")).not_to_have_class(re.compile("grouped"))


def test_who_has_a_problem_lands_at_the_symptoms_and_sees_the_way_to_the_messages(visit):
    page = visit("book/index")
    page.get_by_role("link", name="Something is wrong with my model").click()
    expect(page.get_by_role("heading", name="From the symptom to the cause")).to_be_in_viewport()
    messages = page.get_by_role("link", name="Error messages and warnings")
    expect(messages).to_be_in_viewport()
    assert messages.get_attribute("href") == "questions.html#errors-and-warnings"


def test_the_name_of_a_button_does_not_cover_the_search(visit):
    name = "Object.assign(document.createElement('div'), { className: 'tooltip show' })"
    for options in (PHONE, DESKTOP):
        page = visit("book/index", **options)
        page.evaluate(f"document.body.append({name})")
        tooltip = page.locator(".tooltip")
        if options is DESKTOP:
            assert tooltip.evaluate("one => getComputedStyle(one).display") != "none"
        page.locator(".search-button__button:visible").first.click()
        expect(page.locator("input[type=search]:focus")).to_be_in_viewport()
        assert tooltip.first.evaluate("one => getComputedStyle(one).display") == "none"


def test_a_result_quotes_prose_before_code(visit):
    page = visit("search")
    page.locator(".bd-search-container input[type=search]").fill("how do I freeze batchnorm")
    quoted = page.locator(".search-results li", has_text="How do I freeze BatchNorm?")
    expect(quoted.locator(".excerpt")).to_contain_text("alone leaves the running")
    # Words that the code alone has are quoted from it.
    page.locator(".bd-search-container input[type=search]").fill("fuse_conv_bn_eval uniform_")
    first = page.locator(".search-results li").first
    expect(first.locator("mark").first).to_be_visible()


@pytest.mark.parametrize(
    ("question", "heading", "begins"),
    [
        ("epsilon float16", "Which ε should I use in float16?", "At least 1e-5 if"),
        ("fine-tune with batch size 2", "my batches hold 2 images", "If your images look like"),
    ],
)
def test_a_result_quotes_from_the_beginning_what_its_heading_asks(visit, question, heading, begins):
    page = visit("search")
    page.locator(".bd-search-container input[type=search]").fill(question)
    quoted = page.locator(".search-results li", has_text=heading).first
    expect(quoted.locator(".excerpt")).to_have_text(re.compile(rf"^{begins}"))


def test_both_answers_on_small_batches_are_quoted(visit):
    page = visit("search")
    page.locator(".bd-search-container input[type=search]").fill("fine-tune with batch size 2")
    quoted = page.locator(".search-results li", has_text="my batches hold 2 images").first
    expect(quoted.locator(".excerpt")).to_contain_text("freeze BatchNorm")
    expect(quoted.locator(".excerpt")).to_contain_text("train on in training mode")


def test_all_ways_into_the_book_stand_on_the_first_screen_of_a_phone(visit):
    page = visit("book/index", **PHONE)
    ways = page.locator(".ways a")
    expect(ways).to_have_count(5)
    below = ways.evaluate_all(
        """links => links.filter(link => link.getBoundingClientRect().bottom > innerHeight)
          .map(link => link.innerText)"""
    )
    assert below == []


def test_the_table_of_symptoms_fits_a_phone(visit):
    page = visit("book/09_norms_at_work", **PHONE)
    cells = page.locator(".symptoms td")
    assert cells.count() >= 30
    beyond = cells.evaluate_all(
        """cells => cells.filter(cell => cell.getBoundingClientRect().right > innerWidth
          || cell.scrollWidth > cell.clientWidth + 1).map(cell => cell.innerText)"""
    )
    assert beyond == []


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_the_guide_prints_on_two_pages(visit, paper):
    printed = visit("book/which_norm").pdf(format=paper)
    assert len(re.findall(rb"/Type /Page\n", printed)) in (1, 2)
