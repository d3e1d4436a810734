"""Where one lands who follows a result of the search: at the section's heading."""

import random

import pytest
from browser import PHONE, REST, eventually, needs_chromium, new_page
from test_queries import QUERIES

pytestmark = needs_chromium

WIDTHS = {"desk": {}, "phone": PHONE}
NEAR = 20  # pixels from the place below the bar where a link leads
THROTTLE = 4

ADDRESSES = """() => Object.values(JSON.parse(window.searchIndexText).storedFields)
  .filter(({ address }) => address.includes("#")).map(({ address }) => address)"""
FIRST = """(queries) => {
  const { terms, searchIndexText } = window;
  const index = MiniSearch.loadJSON(searchIndexText, terms.OPTIONS);
  return queries.map((query) => terms.search(index, query)[0]?.address).filter(Boolean);
}"""
# How far a place is from where it should be; a page ends where it ends.
DISTANCE = """(top) => {
  const root = document.documentElement;
  const wanted = parseFloat(getComputedStyle(root).scrollPaddingTop);
  const left = root.scrollHeight - innerHeight - scrollY;
  return top > wanted && left < 2 ? 0 : top - wanted;
}"""


def distance(page) -> float:
    """Measure how far the place that the address names is from the top, once nothing moves."""
    name = page.evaluate("decodeURIComponent(location.hash.slice(1))")
    page.wait_for_load_state("load")
    top = page.locator(f'[id="{name}"]').evaluate(REST)
    return page.evaluate(DISTANCE, top)


@pytest.fixture(scope="module", params=WIDTHS)
def slow_page(request, browser, site, serve):
    """A page at one of the widths, with a fourth of the processor; the site's address."""
    page = new_page(browser, **WIDTHS[request.param])
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": THROTTLE})
    base = serve(site)
    page.goto(f"{base}search.html?q=norm")
    page.locator(".search-results a").first.wait_for()
    yield page, base
    page.context.close()


@pytest.mark.slow
def test_a_result_leads_to_its_heading(slow_page):
    """Half of a text was once quoted in the link: one landed up to 25,000 pixels off."""
    page, base = slow_page
    chosen = random.Random(0)
    addresses = chosen.sample(page.evaluate(ADDRESSES), 8)
    addresses += page.evaluate(FIRST, chosen.sample(sorted(QUERIES), 6))
    off = {}
    for address in addresses:
        page.goto("about:blank")
        page.goto(base + address)
        if "#" in address and abs(far := distance(page)) > NEAR:
            off[address] = far
    assert off == {}


def test_the_first_result_opens_and_marks_what_was_asked(visit):
    page = visit("search")
    page.locator(".bd-search-container input[type=search]").fill("how to freeze batchnorm")
    link = page.locator(".search-results a", has_text="How do I freeze BatchNorm").first
    link.locator("mark").first.wait_for()
    assert ":~:" not in link.get_attribute("href")
    link.click()
    page.wait_for_url("**/book/**")
    assert abs(distance(page)) <= NEAR
    marked = page.evaluate(
        "[...CSS.highlights.get('asked')].map((range) => [range.toString().toLowerCase(),"
        " range.startContainer.parentElement.checkVisibility()])"
    )
    assert {"freeze", "batchnorm"} <= {word for word, _ in marked}
    assert all(visible for _, visible in marked)
    eventually(page.locator("html"), "() => !sessionStorage.getItem('asked')")
