"""Letters in a figure are at least 11 pixels high as they are shown, wide or narrow, light or dark.

The height is that of the type, as in a style sheet's font-size. A drawing by matplotlib has its
letters as outlines: a scale of 0.1 is a type of 10 points, and a drawing that is shown smaller than
it is has smaller letters. Exponents and indices may be smaller, as they are in print.
"""

import re
from pathlib import Path
from urllib.parse import unquote

SMALLEST = 11.0  # pixels
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


def letter_problems(page, site: Path, base: str) -> list[str]:
    """List the letters of figures that are too small on a page as it is shown now."""
    problems = too_small(page.evaluate(SHOWN), site, base)
    return problems + [
        f"{text['figure']}: {text['words']}: {text['size']:.1f} px"
        for text in page.evaluate(DRAWN)
        if text["size"] < SMALLEST - 0.05
    ]
