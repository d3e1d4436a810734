"""Every page of the built site in a browser, on a desk and on a phone: all that a visit can see."""

import re

import pytest
from browser import (
    DARK,
    DESKTOP,
    LIGHT,
    PHONE,
    Heard,
    axe_problems,
    colour_problems,
    in_theme,
    needs_chromium,
    unfold,
)
from letters import letter_problems
from playwright.sync_api import expect
from site_pages import CONTENT, FIGURES, MAIN_LINES

pytestmark = needs_chromium

PAGES = [*CONTENT, "search", "genindex"]
FIRST_FIGURE = 1200  # pixels from the top of a main line


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


# Captions that are not shown, headings in which a line ends between two letters of a word, and
# references to figures whose number stands in another line.
MISSET = """() => {
  const found = [...document.querySelectorAll("article figcaption")]
    .filter((caption) => getComputedStyle(caption).display === "none")
    .map((caption) => `a caption is hidden: ${caption.innerText}`);
  for (const reference of document.querySelectorAll("article .std-numref")) {
    if (reference.getClientRects().length > 1) found.push(`is broken: ${reference.innerText}`);
  }
  const isLetter = (one) => /[a-z]/i.test(one?.letter ?? "");
  for (const head of document.querySelectorAll("article :is(h1, h2, h3, h4)")) {
    if (head.clientHeight < 1.8 * parseFloat(getComputedStyle(head).fontSize)) continue;
    const walker = document.createTreeWalker(head, NodeFilter.SHOW_TEXT);
    const [letters, range] = [[], new Range()];
    for (let node; (node = walker.nextNode()); )
      for (let at = 0; at < node.length; at++) {
        range.setStart(node, at);
        range.setEnd(node, at + 1);
        letters.push({ letter: node.data[at], low: range.getBoundingClientRect().bottom });
      }
    if (letters.some((one, at) => isLetter(one) && isLetter(letters[at + 1])
      && letters[at + 1].low > one.low + 8)) found.push(`is broken: ${head.innerText}`);
  }
  return found;
}"""
FIGURES_BEGIN = """() => [...document.querySelectorAll("article.bd-article *")]
  .filter((tag) => tag.tagName === "IMG" || tag.localName.startsWith("nt-"))
  .map((tag) => tag.getBoundingClientRect().top + scrollY)"""


def layout_problems(page, site, address: str) -> list[str]:
    """Let all of a page come near, and list what is wrong with it as it is shown now."""
    unfold(page)
    found = [
        problem for script in (TOO_WIDE, CUT_EQUATIONS, MISSET) for problem in page.evaluate(script)
    ]
    return found + letter_problems(page, site, address)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_in_order(open_page, site, address, name):
    """At one visit: on a phone, dark, as it loads; then on a desk, where axe examines all of it.

    A drawing is the same in both themes but for its colours (test_site.py); what a figure draws by
    itself is examined in both.
    """
    page = open_page(**PHONE, **DARK)
    heard = Heard(page)
    page.add_init_script(WATCH_SHIFTS)
    page.goto(f"{address}{name}.html")
    heard.until_all_is_there()
    found = shift_problems(page)
    if name in MAIN_LINES and min(page.evaluate(FIGURES_BEGIN)) > FIRST_FIGURE:
        found.append("the first figure comes late")
    found += layout_problems(page, site, address)
    page.set_viewport_size(DESKTOP["viewport"])
    in_theme(page, "light")
    found += layout_problems(page, site, address)
    found += axe_problems(page)
    in_theme(page, "dark")
    found += colour_problems(page)
    for figure in FIGURES.get(name, ()):  # each speaks; its keys are tried in test_interactive.py
        element = page.locator(f"nt-{figure}").first
        element.scroll_into_view_if_needed()
        expect(element.get_by_role("status")).to_have_text(re.compile(r"\w"))
    assert heard.problems(address) + found == []


@pytest.mark.parametrize("name", ["index", MAIN_LINES[2], "book/claims", "search"])
def test_what_a_phone_alone_shows_is_examined_too(visit, name):
    """Its menus, and a light page."""
    page = visit(name, **PHONE, **LIGHT)
    unfold(page)
    assert axe_problems(page) == []
