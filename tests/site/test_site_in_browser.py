"""The built site as a reader uses it in a browser, on a desk and on a phone."""

import gzip
import re
from pathlib import Path

import pytest
from browser import DARK, LIGHT, PHONE, Heard, eventually, needs_chromium
from playwright.sync_api import expect
from site_pages import MAIN_LINES

pytestmark = needs_chromium

HEAVIEST = 250_000  # bytes of a chapter

CHAPTER = "book/03_batch_norm_vs_layer_norm"
# Its solutions, and most of its code, stand on the depth page.
IN_DEPTH = "book/in_depth/03_batch_norm_vs_layer_norm"

# --- the search -----------------------------------------------------------------------------------


def test_the_search_finds_a_chapter(visit):
    page = visit("book/01_internal_covariate_shift")
    fetched = page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
    assert fetched and not [name for name in fetched if "/search/" in name]
    field = page.locator("input[type=search]:focus")
    page.keyboard.press("Control+k")
    box = page.locator(".search-results").filter(visible=True)
    expect(box.locator("[role=status]")).to_contain_text("begin here")
    page.keyboard.type("padding")
    results = page.locator(".search-results a").filter(visible=True)
    expect(box.locator("[role=status]")).to_contain_text(re.compile(r"The best \d+ places"))
    page.keyboard.press("ArrowDown")
    expect(results.first).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(field).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=padding*")
    page.locator(f".search-results a[href*='{CHAPTER}.html']").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("BatchNorm vs LayerNorm")


# What is asked, a heading among the results, and what is quoted below it: prose before code, from
# the beginning what the heading asks, and where the answer has two halves both.
QUOTED = [
    ("how do I freeze batchnorm", "How do I freeze BatchNorm?", "alone leaves the running"),
    ("epsilon float16", "Which ε should I use in float16?", "^The model’s own"),
    (
        "fine-tune with batch size 2",
        "my batches hold 2 images",
        "^If your images look like.*freeze BatchNorm.*recompute its averages",
    ),
]


def test_results_quote_what_answers(visit):
    page = visit("search")
    field = page.locator(".bd-search-container input[type=search]")
    for question, heading, quote in QUOTED:
        field.fill(question)
        result = page.locator(".search-results li", has_text=heading).first
        expect(result.locator(".excerpt")).to_have_text(re.compile(quote))
    # Words that the code alone has are quoted from it.
    field.fill("fuse_conv_bn_eval uniform_")
    expect(page.locator(".search-results li").first.locator("mark").first).to_be_visible()
    field.fill("epslion")  # a slip of the finger is named
    expect(page.locator(".search-results [role=status]")).to_contain_text("for “epsilon”")
    expect(page.locator(".search-results strong").first).to_contain_text("ε")
    field.fill("exponential average evaluation")
    expect(page.locator(".search-results [role=status]")).not_to_contain_text("epsilon")


def test_the_search_on_a_phone(visit):
    page = visit(CHAPTER, **PHONE)
    page.get_by_role("button", name="Search").filter(visible=True).first.tap()
    expect(page.locator("input[type=search]:focus")).to_be_in_viewport()
    # Results come while one types, no key ends the question.
    page.keyboard.type("padding")
    expect(page.locator(".search-results a").filter(visible=True).first).to_be_in_viewport()


def test_the_name_and_the_search_stay_beside_the_page(visit):
    """The column once scrolled itself to the open page, and took both away."""
    page = visit("book/09_norms_at_work", viewport={"width": 1280, "height": 600})
    column = page.locator(".bd-sidebar-primary")
    for part in (".navbar-brand", ".search-button-field", ".bd-links .current.active > a"):
        expect(column.locator(part).last).to_be_in_viewport(ratio=1)


# Of the head of each table: how it and what is around it are printed.
PRINTED = """(heads) => heads.map((head) => {
  const said = [];
  for (let box = head; box.localName !== "article"; box = box.parentElement) {
    const { display, overflowX } = getComputedStyle(box);
    if (box === head) said.push(`${display} ${overflowX}`);
    else if (overflowX !== "visible") said.push(`${box.className}: ${overflowX}`);
  }
  return said;
})"""

# --- themes, print, no scripts --------------------------------------------------------------------

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


def test_a_chapter_can_be_printed(visit):
    page = visit(IN_DEPTH, **DARK)
    page.set_viewport_size({"width": 720, "height": 1020})  # the paper, less its margins
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # as the browser does
    expect(page.locator("html")).to_have_attribute("data-theme", "light")  # paper is white
    for menu in (".bd-sidebar-primary", ".bd-sidebar-secondary", ".bd-header-article"):
        expect(page.locator(menu)).to_be_hidden()
    for folded in (".solution p:not(.admonition-title)", "details.hide pre"):
        texts = page.locator(f"article {folded}").all()
        assert texts
        for text in texts:
            expect(text).to_be_visible()
    assert page.locator("article.bd-article").bounding_box()["width"] > 0.85 * 720
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF") and pdf.count(b"/Type /Page\n") > 3


def test_the_sheet_shows_each_term_on_a_phone_and_prints_on_one_page_of_a4(visit):
    page = visit("book/one_sheet", **PHONE)
    cells = page.locator("table.formula tbody td")
    assert cells.count() == 9 * 5
    frames = cells.evaluate_all("all => all.map(one => one.getBoundingClientRect())")
    assert all(0 <= one["left"] and one["right"] <= 390 for one in frames)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    pdf = page.pdf(format="A4", margin=dict.fromkeys(("top", "right", "bottom", "left"), "10mm"))
    assert pdf.count(b"/Type /Page\n") == 1
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1046})  # A4 within these margins
    assert page.locator("table.formula").evaluate("one => one.getBoundingClientRect().right") <= 718
    expect(page.locator("figure img.only-light")).to_have_attribute(
        "alt", re.compile("Post-LN.*Pre-LN")
    )


def test_tables_on_paper_repeat_their_columns_and_pages_carry_the_title(visit):
    """A box that scrolls is printed in one piece: Chromium cuts it, and names no column again."""
    page = visit("book/where_layers_run")
    page.emulate_media(media="print")
    heads = page.locator("article thead").evaluate_all(PRINTED)
    assert heads and {box for one in heads for box in one} == {"table-header-group visible"}
    assert "Normalization in deep networks" in page.locator("style[media=print]").inner_html()


@pytest.mark.slow
def test_a_chapter_takes_at_most_250_kilobytes(open_page, address):
    """As a server sends it, compressed, to a desk: all faces of equations once came, for paper."""
    sizes = {}
    for name in MAIN_LINES:
        page, answers = open_page(), {}
        heard = Heard(page)
        page.on("response", lambda answer, into=answers: into.setdefault(answer.url, answer))
        page.goto(f"{address}{name}.html")
        heard.until_all_is_there()
        sizes[name] = sum(len(gzip.compress(answer.body())) for answer in answers.values())
    assert {name: size for name, size in sizes.items() if size > HEAVIEST} == {}


def test_a_page_opened_as_a_file_says_how_to_see_its_figures(open_page, site):
    page = open_page()
    page.goto((site / "book" / "02_family_of_norms.html").as_uri())
    expect(page.locator("nt-cells")).to_contain_text("make serve")


# --- solutions and code ---------------------------------------------------------------------------


def test_what_is_folded_opens_alone_or_with_all_of_this_page_and_the_next(visit):
    page = visit("book/in_depth/01_internal_covariate_shift")
    solution, command = page.locator(".solution.toggle").first, page.locator(".reproduce").first
    switch, codes = page.locator(".code-switch button"), page.locator("details.hide")
    answer = solution.locator(".solution-content, section, p:not(.admonition-title)").first
    for handle, hidden in (
        (solution.locator("button, summary").first, answer),
        (command.locator("summary"), command.locator("code")),
        (codes.first.locator("summary"), codes.first.locator("pre").first),
    ):
        expect(handle).to_have_accessible_name(re.compile(r"\w"))
        expect(hidden).to_be_hidden()
        handle.press("Enter")
        expect(hidden).to_be_visible()
    switch.click()
    assert codes.count() > 1 and codes.evaluate_all("all => all.every((one) => one.open)")
    page.goto(page.url.replace("01_internal_covariate_shift", "02_family_of_norms"))
    expect(switch).to_have_attribute("aria-pressed", "true")
    assert codes.evaluate_all("all => all.every((one) => one.open)")


def test_code_fits_between_the_menus_and_can_be_copied(visit):
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
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    wide = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.innerText)"
    code = page.locator("article > section > section > .cell .cell_input pre")
    assert code.count() > 10 and code.evaluate_all(wide) == []  # lines of a hundred letters


# --- menus, contents, the first page --------------------------------------------------------------


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


def test_the_menu_of_chapters_can_be_folded_away_for_good(visit):
    page = visit("book/notation")
    button = page.locator("button.primary-toggle").filter(visible=True)
    menu = page.locator(".bd-sidebar-primary")
    button.press("Enter")
    expect(menu).to_be_hidden()
    page.wait_for_function("localStorage.getItem('menu') === 'folded'")
    page.reload()
    expect(menu).to_be_hidden()
    button.click()
    expect(menu).to_be_visible()


def test_a_menu_opens_by_keyboard(visit):
    page = visit(CHAPTER)
    for menu, links in {
        "Launch interactive content": ["mybinder.org", "colab.research.google.com"],
        "Download this page": ["03_batch_norm_vs_layer_norm.ipynb"],
        "Source repositories": ["github.com"],
    }.items():
        button = page.get_by_role("button", name=menu)
        button.focus()
        page.keyboard.press("Enter")
        expect(button).to_have_attribute("aria-expanded", "true")
        for link in links:
            found = page.locator(f".dropdown-menu a[href*='{link}']").filter(visible=True)
            expect(found.first).to_be_visible()
        page.keyboard.press("Escape")
        expect(button).to_have_attribute("aria-expanded", "false")
        expect(button).to_be_focused()


def test_very_long_contents_show_their_groups_and_open_the_one_that_is_read(visit):
    page = visit("book/api")
    contents = page.locator(".bd-sidebar-secondary")
    assert contents.evaluate("column => column.scrollWidth - column.clientWidth") <= 1
    expect(page.locator(".bd-toc-nav")).to_have_class(re.compile("grouped"))
    entry = page.locator(".bd-toc-nav a[href='#normtutor.layers.RMSNorm']")
    expect(entry).to_be_hidden()
    page.locator("[id='normtutor.layers.RMSNorm']").evaluate("name => name.scrollIntoView()")
    expect(entry).to_be_in_viewport()
    # A chapter's contents are short: nothing is folded.
    page.goto(page.url.replace("api", CHAPTER.removeprefix("book/")))
    expect(page.locator(".bd-toc-nav")).not_to_have_class(re.compile("grouped"))


def test_the_first_screen_of_a_phone_has_all_ways_into_the_book_and_one_out_of_trouble(visit):
    page = visit("index", **PHONE)
    ways = page.locator(".ways a")
    expect(ways).to_have_count(5)
    for way in ways.all():
        expect(way).to_be_in_viewport(ratio=1)
    page.get_by_role("link", name="Something is wrong with my model").click()
    expect(page.get_by_role("heading", name="From the symptom to the cause")).to_be_in_viewport()
    messages = page.get_by_role("link", name="errors and warnings")
    assert messages.get_attribute("href") == "answers/errors.html"


def test_an_address_of_the_one_page_of_answers_leads_to_the_page_of_today(site, visit):
    """Every heading that the page has had, in all its history, with scripts and without."""
    folder = Path(__file__).resolve().parents[2] / "book" / "answers"
    rows = (folder / "forwards.tsv").read_text(encoding="utf-8").splitlines()
    index = (site / "book" / "questions.html").read_text(encoding="utf-8")
    assert len(rows) > 440
    for anchor, target in (row.split("\t") for row in rows):
        assert f'id="{anchor}"' in index, anchor
        page = "questions" if target == "questions" else f"answers/{target}"
        assert (site / "book" / f"{page}.html").exists(), anchor
    page = visit("book/questions")
    page.goto(f"{page.url}#how-do-i-freeze-batchnorm")
    page.reload()
    page.wait_for_url("**/book/answers/freeze-batchnorm.html")
    expect(page.get_by_role("heading", level=1)).to_have_text("How do I freeze BatchNorm?")
