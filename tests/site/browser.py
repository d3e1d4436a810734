"""A browser without a window, for the tests of the site and of its interactive figures.

Playwright drives the Chromium of the machine, best the one that has no window to draw: it takes two
thirds of the time. Where there is none the tests are skipped; with NORMTUTOR_BROWSER=required they
fail. NORMTUTOR_SLOW=6 lets the pages have a sixth of the processor: what passes then passes on a
busy machine, too.
"""

import json
import os
import shutil
import time

import pytest
from axe_playwright_python.base import AXE_SCRIPT

WITHOUT_WINDOWS = ("chromium-headless-shell", "chrome-headless-shell")
WITH_WINDOWS = (
    *("chromium", "chromium-browser", "google-chrome"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)


def first_installed(*names: str) -> str | None:
    return next(filter(None, map(shutil.which, names)), None)


CHROMIUM = first_installed(*WITHOUT_WINDOWS, *WITH_WINDOWS)
REQUIRED = os.environ.get("NORMTUTOR_BROWSER") == "required"
SLOW = float(os.environ.get("NORMTUTOR_SLOW", "1"))  # how many times slower a page is made
PATIENCE = 180_000  # milliseconds that anything may take; a machine may be busy
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None and not REQUIRED, reason="no Chromium is installed"
)

OPTIONS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
    # Only this machine: what comes from elsewhere must not decide a test.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]

DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
LIGHT = {"color_scheme": "light"}
DARK = {"color_scheme": "dark"}


def new_page(browser, **options):
    """Open an empty page in a context of its own, with Playwright's options for contexts."""
    context = browser.new_context(**{**DESKTOP, **options})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    if SLOW > 1:
        context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOW})
    return page


# What a script does at leisure, and what comes near in a frame, may ask for more.
AT_LEISURE = """() => new Promise(done =>
  requestIdleCallback(() => requestAnimationFrame(() => setTimeout(done)), { timeout: 1000 }))"""


class Heard:
    """What a page asks for and what it complains about, from its first request on."""

    def __init__(self, page):
        self.page = page
        self.addresses: list[str] = []
        self.complaints: list[str] = []
        self._waits_for = set()
        page.on("request", self._asked)
        page.on("requestfinished", self._ended)
        page.on("websocket", lambda socket: self.addresses.append(socket.url))
        page.on("requestfailed", self._failed)
        page.on("response", self._answered)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))

    def until_all_is_there(self, patience: float = PATIENCE / 1000) -> None:
        """Wait until the page has what it asked for, and asks for nothing more.

        Playwright's state `networkidle` takes half a second, and on a busy machine now and then
        never comes, though every request has ended.
        """
        self.page.wait_for_load_state("load")
        end, quiet = time.monotonic() + patience, 0
        while quiet < 3:
            self.page.evaluate(AT_LEISURE)
            quiet = 0 if self._waits_for else quiet + 1
            waits_for = sorted(request.url for request in self._waits_for)
            assert not waits_for or time.monotonic() < end, f"the page still waits for {waits_for}"

    def _asked(self, request):
        self.addresses.append(request.url)
        self._waits_for.add(request)

    def _ended(self, request):
        self._waits_for.discard(request)

    def _failed(self, request):
        self._ended(request)
        # Who leaves a page drops what it still waits for, such as the pages that a search quotes.
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"{request.failure}: {request.url}")

    def _answered(self, response):
        if response.status >= 400:
            self.complaints.append(f"status {response.status}: {response.url}")

    def _said(self, message):
        # A missing file is in the list already, with its address.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.complaints.append(f"{message.type}: {message.text}")

    def problems(self, base: str) -> list[str]:
        """List what went wrong, and what was asked for outside the site at the address base."""
        outside = [a for a in self.addresses if not a.startswith((base, "data:", "blob:"))]
        return [*(f"outside the site: {address}" for address in outside), *self.complaints]


# A chapter has thousands of coloured words of code and hundreds of equations, and the reference has
# thousands of arguments and names. Of those that look alike one is examined; the others become
# plain text.
THIN_OUT = """() => {
  const seen = new Set();
  const alike = [];
  const many = ".highlight pre span, .katex, dt.sig span, em.sig-param, "
    + "dl.py code, dl.py strong, dl.py em";
  for (const element of document.querySelectorAll(many)) {
    const box = element.closest("div.math");
    if (element.querySelector("a, button") || box?.scrollWidth > box?.clientWidth) continue;
    let kind = "";
    if (element.className === "katex") {
      kind = box ? "an equation of its own" : "an equation in a line";
    } else for (let e = element; e && e.localName !== "article"; e = e.parentElement) {
      kind += `>${e.className}`;
    }
    if (seen.has(kind)) alike.push(element);
    seen.add(kind);
  }
  for (const element of alike) {
    element.replaceWith(element.className === "katex" ? "x" : element.textContent);
  }
}"""

# For longer than a page holds a place (30 frames): frames, and no seconds, which a busy machine may
# take between two of them.
REST = """element => new Promise(done => {
  let [before, unmoved, seen] = [NaN, 0, 0];
  const look = () => {
    const now = element.getBoundingClientRect().top;
    unmoved = now === before ? unmoved + 1 : 0;
    seen += 1;
    before = now;
    if (unmoved < 40 && seen < 1000) requestAnimationFrame(look);
    else done(now);
  };
  requestAnimationFrame(look);
})"""


def resting_top(page, found) -> float:
    """Measure where an element stands in the window, once it no longer moves."""
    page.wait_for_load_state("load")
    return found.evaluate(REST)


def eventually(found, condition: str, argument=None) -> None:
    """Wait until a JavaScript function of an element, and of an argument, says yes."""
    found.page.wait_for_function(
        f"([element, argument]) => ({condition})(element, argument)",
        arg=[found.element_handle(), argument],
    )


# What comes while one reads: sections are laid out, pictures and fonts are fetched, and boxes that
# are near learn whether they can be scrolled. Unseen, because nothing looks at it.
UNFOLD = """async () => {
  const unfolded = document.createElement("style");
  unfolded.textContent = "* { content-visibility: visible !important; }";
  document.head.append(unfolded);
  for (const image of document.images) image.loading = "eager";
  const shown = [...document.images].filter(image => image.getClientRects().length);
  const fonts = [...document.fonts].map(font => font.load());
  await Promise.allSettled([...fonts, ...shown.map(image => image.decode())]);
  document.documentElement.style.visibility = "hidden";
  return document.documentElement.scrollHeight;
}"""
SHOW_AGAIN = """async () => {
  const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  for (let i = 0; i < 3; i += 1) await frame();
  document.documentElement.style.visibility = "";
}"""


def unfold(page) -> None:
    """Let all of a page come near at once, in half the time of reading down to its end."""
    size = page.viewport_size
    page.set_viewport_size({**size, "height": page.evaluate(UNFOLD)})
    page.evaluate(SHOW_AGAIN)
    page.set_viewport_size(size)


# Two rules ask for colours, and ask it of every text: nine tenths of what axe does on a long page.
# So what they examine is marked: of texts with the same letters on the same grounds, which answer
# alike, three (axe does not judge a single letter), and all that lies in a figure.
MARK_LOOKS = """() => {
  const grounds = new Map([[null, ""]]);
  const ground = element => {
    if (!grounds.has(element)) {
      const { backgroundColor, backgroundImage, opacity, filter } = getComputedStyle(element);
      const own = [backgroundColor, backgroundImage, opacity, filter].join(" ");
      const below = ground(element.parentElement);
      grounds.set(element, own === "rgba(0, 0, 0, 0) none 1 none" ? below : `${below}>${own}`);
    }
    return grounds.get(element);
  };
  const times = new Map();
  const mark = (root, all) => {
    for (const element of root.querySelectorAll("*")) {
      if (element.shadowRoot) mark(element.shadowRoot, true);
      const parent = element.parentElement;
      const words = [...element.childNodes]
        .filter(node => node.nodeType === Node.TEXT_NODE).map(node => node.data.trim()).join("");
      const link = element.matches("a[href]") && [
        getComputedStyle(parent).color, parent?.textContent.length > element.textContent.length];
      const shown = (link || words.length > 1 || element.matches("input, select, textarea"))
        && element.checkVisibility({ visibilityProperty: true }) && element.clientWidth !== 1;
      const { color, fontSize, fontWeight, textDecorationLine, borderBottom } =
        getComputedStyle(element);
      const look = [color, fontSize, fontWeight, textDecorationLine, borderBottom, element.type,
        link, ground(element)].join("|");
      const seen = times.get(look) ?? 0;
      element.toggleAttribute("data-examined", all || (shown && seen < 3));
      if (shown) times.set(look, seen + 1);
    }
  };
  mark(document.body, false);
  axe.configure({ rules: [
    { id: "color-contrast", selector: "[data-examined]" },
    { id: "link-in-text-block", selector: "a[href][data-examined]" },
  ] });
}"""


def violations(page, where: str, **options) -> list[str]:
    """List the violations of axe's rules in a part of a page that a script names."""
    options = json.dumps({"resultTypes": ["violations"], "preload": False} | options)
    found = page.evaluate(f"axe.run({where}, {options}).then(results => results.violations)")
    return [
        f"{violation['id']}: {violation['help']}: {node['target']} {node['html'][:120]}"
        for violation in found
        for node in violation["nodes"][:5]
    ]


def axe_problems(page) -> list[str]:
    """List the violations of all of axe's rules on a page."""
    # What is not on the screen must be laid out for axe, too.
    page.add_style_tag(content="* { content-visibility: visible !important; }")
    page.evaluate(THIN_OUT)
    page.evaluate(AXE_SCRIPT)
    page.evaluate(MARK_LOOKS)
    return violations(page, "document")


def in_theme(page, theme: str) -> None:
    """Let the reader's system ask for another theme, and wait until the page has it.

    On its way there a colour is neither the one nor the other.
    """
    page.add_style_tag(content="*, ::before, ::after { transition: none !important; }")
    page.emulate_media(color_scheme=theme)
    page.locator(f"html[data-theme={theme}]").wait_for(state="attached")


def colour_problems(page) -> list[str]:
    """List the violations of the rules that ask for colours, on a page that axe has seen."""
    page.evaluate(MARK_LOOKS)
    return violations(page, "document", runOnly=["color-contrast", "link-in-text-block"])
