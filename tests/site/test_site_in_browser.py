"""The built site as a reader uses it in a browser, on a desk and on a phone."""

import re
from urllib.parse import unquote

import pytest
from browser import (
    DARK,
    DESKTOP,
    LIGHT,
    PHONE,
    eventually,
    needs_chromium,
    read_to_the_end,
)
from playwright.sync_api import expect
from site_pages import FIGURES, WITH_FIGURES

pytestmark = needs_chromium

CHAPTER = "book/03_batch_norm_vs_layer_norm"
# Its solutions, and most of its code, stand on the depth page.
IN_DEPTH = "book/in_depth/03_batch_norm_vs_layer_norm"


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
    assert reached is not None
    expect(results.first).to_be_focused()
    expect(results.first).to_contain_text(re.compile("padding", re.IGNORECASE))


def test_a_result_opens_at_the_sentence_that_it_quotes(visit):
    page = visit("search")
    page.locator(".bd-search-container input[type=search]").fill("exponential average evaluation")
    link = page.locator(".search-results a[href*='text=']").first
    words = unquote(link.get_attribute("href").split("text=")[1])
    expect(link).to_contain_text(words[:30])
    link.click()
    page.wait_for_url("**/book/**")
    expect(page.locator("article").get_by_text(words).last).to_be_in_viewport()


def test_an_empty_box_and_one_without_results_show_where_to_begin(visit):
    page = visit(CHAPTER)
    page.keyboard.press("Control+k")
    box = page.locator(".search-results").filter(visible=True)
    expect(box.locator("[role=status]")).to_contain_text("begin here")
    beginnings = box.locator("a").all_inner_texts()
    assert "Which norm should I use?" in beginnings and len(beginnings) == 4
    page.keyboard.type("zzzzqqqq")
    expect(box.locator("[role=status]")).to_contain_text("Nothing was found")
    box.get_by_role("link", name="Questions people ask").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Questions people ask")


def test_a_slip_of_the_finger_is_named(visit):
    page = visit("search")
    page.locator(".bd-search-container input[type=search]").fill("epslion")
    expect(page.locator(".search-results [role=status]")).to_contain_text("for “epsilon”")
    expect(page.locator(".search-results strong").first).to_contain_text("ε")


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
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
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


def test_the_contents_stay_within_their_column(visit):
    """A message with a long name once widened them, and its end was cut off."""
    column = visit("book/questions").locator(".bd-sidebar-secondary")
    assert column.evaluate("column => column.scrollWidth - column.clientWidth") <= 1


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
    expect(quoted.locator(".excerpt")).to_contain_text("recompute its averages")


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


def test_a_table_that_goes_on_beyond_its_edge_says_which_columns_follow(visit):
    page = visit("book/08_after_2020", **PHONE)
    box = page.locator(".models-box")
    box.scroll_into_view_if_needed()
    note = page.locator(".models-box").locator("xpath=preceding-sibling::p[1]")
    expect(note).to_contain_text("To the right:")
    expect(note).to_contain_text("QK-norm")
    box.evaluate("box => (box.scrollLeft = box.scrollWidth)")
    expect(note).to_have_text("")


def test_the_columns_of_a_table_keep_apart(visit):
    """The rule for it once fell out of the style sheet, and three headings read as one phrase."""
    page = visit("book/02_family_of_norms")
    cell = page.locator('table[id^="T_"] td').first
    assert cell.evaluate("cell => parseFloat(getComputedStyle(cell).paddingLeft)") > 5


def test_no_bar_of_code_stands_above_a_figure(visit):
    page = visit("book/in_depth/09_norms_at_work")
    places = page.locator("article .cell:has(> details.above-input):has(figure)").evaluate_all(
        """cells => cells.map((cell) => ["details", ".cell_output"].map(
          (part) => cell.querySelector(`:scope > ${part}`).getBoundingClientRect().top))"""
    )
    assert places and all(bar > output for bar, output in places)


# Headings in which a line ends between two letters of a word.
BROKEN = """() => [...document.querySelectorAll("article :is(h1, h2, h3, h4)")].filter((head) => {
  const walker = document.createTreeWalker(head, NodeFilter.SHOW_TEXT);
  const [letters, range] = [[], new Range()];
  for (let node; (node = walker.nextNode()); )
    for (let at = 0; at < node.length; at++) {
      range.setStart(node, at);
      range.setEnd(node, at + 1);
      letters.push({ letter: node.data[at], low: range.getBoundingClientRect().bottom });
    }
  const isLetter = (one) => /[a-z]/i.test(one?.letter ?? "");
  return letters.some((one, at) => isLetter(one) && isLetter(letters[at + 1])
    && letters[at + 1].low > one.low + 8);
}).map((head) => head.innerText)"""


def test_headings_break_where_words_do(visit):
    """`torch.nn.utils.parametrizations.weight_norm` once broke between two letters."""
    for name in ("book/questions", "book/recipes"):
        assert visit(name, **PHONE).evaluate(BROKEN) == []
