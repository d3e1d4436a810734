"""What is written in a figure stands clear: no text meets another, a line or a marker.

A drawing by matplotlib says which of its parts are texts. The browser tells where each letter is,
and where each line runs.
"""

import re

from browser import needs_chromium
from site_pages import CONTENT

IMAGE = re.compile(r'_images/([^"/]+\.svg)"')

MEETINGS = r"""(drawing) => {
  document.body.innerHTML = drawing;
  const svg = document.body.querySelector("svg");
  const texts = [...svg.querySelectorAll('g[id^="text_"]')].map((group) => {
    const said = [...group.childNodes].find((node) => node.nodeType === Node.COMMENT_NODE);
    const letters = [...group.querySelectorAll("use")];
    const boxes = letters.map((letter) => letter.getBoundingClientRect());
    return { said: said?.data.trim() ?? "", letters, boxes: boxes.filter((box) => box.width) };
  });
  const found = new Set();
  const meet = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.3 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.3;
  texts.forEach((one, i) => {
    for (const other of texts.slice(i + 1)) {
      if (one.boxes.some((a) => other.boxes.some((b) => meet(a, b)))) {
        found.add(`"${one.said}" and "${other.said}"`);
      }
    }
  });

  const near = (x, y, box, by) =>
    x > box.left - by && x < box.right + by && y > box.top - by && y < box.bottom + by;
  // A single sign, such as a plus in a circle, fills its box only in part.
  const onOutline = (letter, x, y) => {
    const outline = svg.querySelector(letter.getAttribute("xlink:href"));
    const own = outline.transform.baseVal.consolidate();
    const matrix = letter.getScreenCTM().multiply(own.matrix).inverse();
    return [[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]].some(([dx, dy]) =>
      outline.isPointInFill(new DOMPoint(x + dx, y + dy).matrixTransform(matrix)));
  };
  // A box with an edge, or a dark one, may hide a line; a white patch would cut it.
  const patches = [...svg.querySelectorAll('g[id^="patch_"] path')].filter((patch) => {
    const { fill, fillOpacity, stroke } = getComputedStyle(patch);
    const boxed = stroke !== "none" || fill !== "rgb(255, 255, 255)";
    return boxed && fill !== "none" && +fillOpacity === 1;
  });
  const hidden = (x, y, line) => patches.some((patch) =>
    line.compareDocumentPosition(patch) & Node.DOCUMENT_POSITION_FOLLOWING &&
    patch.isPointInFill(new DOMPoint(x, y).matrixTransform(patch.getScreenCTM().inverse())));
  const frameOf = (shape) => {
    const clip = shape.getAttribute("clip-path") ?? shape.parentElement.getAttribute("clip-path");
    const box = clip && svg.querySelector(`${clip.match(/#[^)]+/)[0]} > *`)?.getBBox();
    if (!box) return null;
    const [from, to] = [[box.x, box.y], [box.x + box.width, box.y + box.height]]
      .map(([x, y]) => new DOMPoint(x, y).matrixTransform(svg.getScreenCTM()));
    return { left: from.x, top: from.y, right: to.x, bottom: to.y };
  };

  for (const shape of svg.querySelectorAll("path, use")) {
    const part = shape.closest("g[id]")?.id ?? "";
    // Bands are pale: a name may stand on them.
    if (shape.closest('g[id^="text_"], defs, clipPath') || part.startsWith("Fill")) continue;
    const frame = frameOf(shape);
    if (shape.localName === "use") {
      const box = shape.getBoundingClientRect();
      const middle = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
      if (frame && !near(...middle, frame, 1)) continue;
      for (const { said, boxes } of texts) {
        if (boxes.some((letter) => meet(letter, box))) found.add(`"${said}" and a mark of ${part}`);
      }
      continue;
    }
    const { stroke, strokeWidth } = getComputedStyle(shape);
    if (stroke === "none" || stroke === "rgb(255, 255, 255)") continue;
    const matrix = shape.getScreenCTM();
    const half = (parseFloat(strokeWidth) * matrix.a) / 2;
    const bounds = shape.getBoundingClientRect();
    const beside = texts.filter(({ boxes }) => boxes.some((box) =>
      box.right > bounds.left - half && box.left < bounds.right + half &&
      box.bottom > bounds.top - half && box.top < bounds.bottom + half));
    if (!beside.length) continue;
    for (let way = 0; way <= shape.getTotalLength(); way += 0.7) {
      const { x, y } = shape.getPointAtLength(way).matrixTransform(matrix);
      if (frame && !near(x, y, frame, 0.5)) continue;
      for (const { said, boxes, letters } of beside) {
        const words = `"${said}" and a line of ${part}`;
        if (found.has(words) || !boxes.some((box) => near(x, y, box, half))) continue;
        if (letters.length === 1 && !onOutline(letters[0], x, y)) continue;
        if (!hidden(x, y, shape)) found.add(words);
      }
    }
  }
  return [texts.length, [...found]];
}"""


@needs_chromium
def test_what_is_written_in_a_figure_stands_clear(site, open_page):
    """The drawings of all pages, wide and narrow; the dark ones differ in colours alone."""
    pages = ((site / f"{name}.html").read_text(encoding="utf-8") for name in CONTENT)
    names = {image for page in pages for image in IMAGE.findall(page) if ".dark" not in image}
    assert len(names) > 100
    page, texts, meetings = open_page(), 0, []
    for name in sorted(names):
        drawing = (site / "_images" / name).read_text(encoding="utf-8")
        number, found = page.evaluate(MEETINGS, drawing)
        texts += number
        meetings += [f"{name}: {meeting}" for meeting in found]
    assert meetings == []
    assert texts > 10 * len(names)
