"""Every page of the built site in a browser, on a desk and on a phone."""

import contextlib
import socket

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
from server import Server
from site_pages import CONTENT, WITH_FIGURES

pytestmark = needs_chromium

PAGES = [*CONTENT, "search", "genindex"]


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
    heard.until_all_is_there()
    page.wait_for_timeout(300)  # for what moves late, by itself
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


def test_a_page_is_waited_for_until_it_asks_for_nothing_more(open_page, serve, tmp_path):
    script = "<script>requestIdleCallback(async () => { await fetch('a'); await fetch('b'); "
    body = f"{script}document.querySelector('p').textContent = 'Both.'; }})</script>"
    (tmp_path / "slow.html").write_text(IN_ORDER.replace("</main>", f"{body}</main>"))
    for name in "ab":
        (tmp_path / name).write_text(name)
    page = open_page(**DESKTOP)
    heard = Heard(page)
    page.goto(f"{serve(tmp_path, late=0.3)}slow.html")
    heard.until_all_is_there()
    assert page.locator("p").text_content() == "Both."


def test_what_a_page_waits_for_in_vain_is_named(open_page, serve, tmp_path):
    body = "<script>fetch('never')</script>"
    (tmp_path / "vain.html").write_text(IN_ORDER.replace("</main>", f"{body}</main>"))
    page = open_page(**DESKTOP)
    page.route("**/never", lambda route: None)
    heard = Heard(page)
    page.goto(f"{serve(tmp_path)}vain.html")
    with pytest.raises(AssertionError, match=r"still waits for .*/never"):
        heard.until_all_is_there(patience=0.2)


def test_requests_wait_until_the_server_comes_to_them(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    server = Server(tmp_path)
    place = ("127.0.0.1", server.server_port)
    with contextlib.ExitStack() as stack:
        asked = [stack.enter_context(socket.create_connection(place, 60)) for _ in range(60)]
        for one in asked:
            one.sendall(b"GET /a.txt HTTP/1.0\r\n\r\n")
        server.start()
        answers = [one.makefile("rb").read() for one in asked]
        server.shutdown()
    server.server_close()
    assert all(answer.endswith(b"a") for answer in answers)
