"""Letters in a figure are at least 11 pixels high as they are shown, wide or narrow, light or dark.

The height is that of the type, as in a style sheet's font-size. A drawing by matplotlib has its
letters as outlines: a scale of 0.1 is a type of 10 points, and a drawing that is shown smaller than
it is has smaller letters. Exponents and indices may be smaller, as they are in print.
"""

import re
from pathlib import Path
from urllib.parse import unquote

SMALLEST = 11.0  # pixels
OUTLINED = re.compile(r'transform="[^"]*?scale\((0?\.\d+|\d+(?:\.\d+)?) -')
TYPED = re.compile(r"font(?:-size)?: ?[^;\"]*?([0-9.]+)px")

# The drawings that a reader sees now, with the width at which they stand on the page.
SHOWN = """() => [...document.querySelectorAll("article.bd-article img")]
  .filter(image => image.getClientRects().length && image.currentSrc.endsWith(".svg"))
  .map(image => [image.currentSrc, image.clientWidth])"""

# Letters that a figure draws in the page, and those that stand beside its drawing.
DRAWN = """() => [...document.querySelectorAll("article *")].filter(one => one.shadowRoot)
  .flatMap(figure => [...figure.shadowRoot.querySelectorAll("*")].filter(element =>
    element.getClientRects().length && !element.matches("style, script, title, desc")
    && [...element.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim()))
  .map(element => {
    const matrix = element.getScreenCTM?.();
    const scale = matrix ? Math.hypot(matrix.a, matrix.b) : 1;
    const size = parseFloat(getComputedStyle(element).fontSize) * scale;
    return [`${figure.localName}: ${element.textContent.trim().slice(0, 40)}`, size];
  }))"""


def smallest_letters(drawing: str, width: float) -> float:
    """Find the height in pixels of the smallest letters of a drawing that is shown that wide."""
    of_its_own = float(re.search(r'viewBox="[-0-9.]+ [-0-9.]+ ([0-9.]+) ', drawing)[1])
    sizes = [100 * float(scale) for scale in OUTLINED.findall(drawing)]
    sizes += [float(size) for size in TYPED.findall(drawing)]
    return min(sizes, default=SMALLEST) * width / of_its_own


def letter_problems(page, site: Path, base: str) -> list[str]:
    """List the letters of figures that are too small on a page as it is shown now."""
    found = page.evaluate(DRAWN)
    for address, width in page.evaluate(SHOWN):
        path = site / unquote(address.removeprefix(base))
        found.append((path.name, smallest_letters(path.read_text(encoding="utf-8"), width)))
    return [f"{name}: {size:.1f} px" for name, size in found if size < SMALLEST - 0.05]
