"""Letters in a figure are at least 11 pixels high as they are shown, wide or narrow, light or dark.

The height is that of the type, as in a style sheet's font-size. A drawing by matplotlib has its
letters as outlines: a scale of 0.1 is a type of 10 points, and a drawing that is shown smaller than
it is has smaller letters. Exponents and indices may be smaller, as they are in print.
"""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from browser import PHONE, needs_chromium
from site_pages import CONTENT, ROOT

SMALLEST = 11.0  # pixels
DESK = {"width": 1366, "height": 768}
WORDS = re.compile(r"""(?:transform=")[^"]*?scale\((0?\.\d+|\d+(?:\.\d+)?) -[^"]*"[^>]*>""")
TYPED = re.compile(r"font(?:-size)?: ?[^;\"]*?([0-9.]+)px")

# The drawings that a reader sees now, with the width at which they stand on the page.
SHOWN = """async () => {
  const images = [...document.querySelectorAll("article.bd-article img")];
  for (const image of images) image.loading = "eager";
  const seen = images.filter(image => image.getClientRects().length);
  const meant = (image) => {
    const sources = [...(image.closest("picture")?.querySelectorAll("source") ?? [])];
    const source = sources.find(one => matchMedia(one.media).matches);
    return new URL(source?.srcset ?? image.getAttribute("src"), document.baseURI).href;
  };
  const there = () => seen.every(image => image.complete && image.currentSrc === meant(image));
  for (let tries = 0; !there() && tries < 3000; tries++) {
    await new Promise(done => setTimeout(done, 20));
  }
  return seen.map(image => ({ file: meant(image), width: image.clientWidth }));
}"""

# Letters that a figure draws in the page, and those that stand beside its drawing.
DRAWN = """() => {
  const shown = [];
  const walk = (root, name) => {
    for (const element of root.querySelectorAll("*")) {
      const figure = name ?? (element.localName.startsWith("nt-") ? element.localName : null);
      if (element.shadowRoot) walk(element.shadowRoot, figure);
      if (!name || !element.getClientRects().length) continue;
      const words = [...element.childNodes]
        .filter(node => node.nodeType === Node.TEXT_NODE && node.data.trim()).length;
      if (!words || ["STYLE", "SCRIPT", "TITLE", "DESC"].includes(element.nodeName)) continue;
      const matrix = element.getScreenCTM?.();
      const scale = matrix ? Math.hypot(matrix.a, matrix.b) : 1;
      const size = parseFloat(getComputedStyle(element).fontSize) * scale;
      shown.push({ figure: name, words: element.textContent.trim().slice(0, 40), size });
    }
  };
  walk(document, null);
  return shown;
}"""


def smallest_letters(drawing: str, width: float) -> float | None:
    """Find the height in pixels of the smallest letters of a drawing that is shown that wide."""
    of_its_own = float(re.search(r'viewBox="[-0-9.]+ [-0-9.]+ ([0-9.]+) ', drawing)[1])
    sizes = [100 * float(scale) for scale in WORDS.findall(drawing)]
    sizes += [float(size) for size in TYPED.findall(drawing)]
    return min(sizes) * width / of_its_own if sizes else None


def too_small(shown: list[dict], site: Path, base: str) -> list[str]:
    """Name the drawings whose letters are too small."""
    found = []
    for image in shown:
        if not image["file"].endswith(".svg"):
            continue
        path = site / unquote(image["file"].removeprefix(base))
        size = smallest_letters(path.read_text(encoding="utf-8"), image["width"])
        if size is not None and size < SMALLEST - 0.05:
            found.append(f"{path.name}: {size:.1f} px where it is {image['width']:.0f} px wide")
    return found


def has_figure(name: str) -> bool:
    source = next(ROOT.glob(f"{name}.*")).read_text(encoding="utf-8")
    return any(sign in source for sign in ("plotting", "plt.", "<nt-", "interactive.show"))


@needs_chromium
@pytest.mark.parametrize("name", [name for name in CONTENT if has_figure(name)])
def test_the_letters_of_every_figure_can_be_read(site, serve, open_page, name):
    base = serve(site)
    page = open_page(viewport=DESK, color_scheme="light")
    page.goto(f"{base}{name}.html")
    problems = []
    for viewport in (DESK, PHONE["viewport"]):
        page.set_viewport_size(viewport)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.locator(f"html[data-theme={scheme}]").wait_for(state="attached")
            where = f"{viewport['width']} px, {scheme}"
            problems += [f"{where}: {p}" for p in too_small(page.evaluate(SHOWN), site, base)]
        problems += [
            f"{viewport['width']} px: {text['figure']}: {text['words']}: {text['size']:.1f} px"
            for text in page.evaluate(DRAWN)
            if text["size"] < SMALLEST - 0.05
        ]
    assert problems == []


LETTER = '<g transform="translate(1 2) scale({0} -{0})"><use/></g>'
INDEX = '<g transform="translate(1 2) scale(0.11 -0.11)"><use transform="scale(0.7)"/></g>'


@pytest.mark.parametrize(
    ("letters", "width", "size"),
    [
        (LETTER.format(0.1), 400 / 0.75, 13.33),
        (LETTER.format(0.11) + LETTER.format(0.08), 400, 8.0),
        (INDEX, 400, 11.0),
        ('<text style="font: 12px sans-serif">a</text>', 200, 6.0),
        ("<path/>", 400, None),
    ],
)
def test_the_smallest_letters_are_found(letters, width, size):
    drawing = f'<svg viewBox="0 0 400 300">{letters}</svg>'
    assert smallest_letters(drawing, width) == (size and pytest.approx(size, abs=0.01))


def test_small_letters_are_named(tmp_path):
    (tmp_path / "a.svg").write_text(f'<svg viewBox="0 0 400 9">{LETTER.format(0.1)}</svg>')
    shown = [{"file": "http://x/a.svg", "width": width} for width in (440, 430)]
    assert too_small(shown, tmp_path, "http://x/") == ["a.svg: 10.8 px where it is 430 px wide"]
