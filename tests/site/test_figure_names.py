"""What is written in a figure stands clear: no text meets another or a marker.

A drawing by matplotlib says which of its parts are texts, and a browser where each letter is.
"""

import re

from browser import needs_chromium
from site_pages import CONTENT

IMAGE = re.compile(r'_images/([^"/]+\.svg)"')

MEETINGS = r"""(drawing) => {
  document.body.innerHTML = drawing;
  const boxesOf = (part) => [...part.querySelectorAll("use")]
    .map((one) => one.getBoundingClientRect()).filter((box) => box.width);
  const texts = [...document.querySelectorAll('g[id^="text_"]')].map((group) => {
    const said = [...group.childNodes].find((node) => node.nodeType === Node.COMMENT_NODE);
    return [`"${said?.data.trim()}"`, boxesOf(group)];
  });
  const marks = [...document.querySelectorAll("g[id] use")]
    .filter((one) => !one.closest('g[id^="text_"], g[id^="Fill"], defs'))
    .map((one) => [`a mark of ${one.closest("g[id]").id}`, [one.getBoundingClientRect()]]);
  const meet = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.3 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.3;
  return [texts.length, texts.flatMap(([said, letters], i) =>
    [...texts.slice(i + 1), ...marks]
      .filter(([, boxes]) => letters.some((a) => boxes.some((b) => meet(a, b))))
      .map(([other]) => `${said} and ${other}`))];
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
