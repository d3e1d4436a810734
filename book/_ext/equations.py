"""Equations, set while the site is built: a page shows them without a script, and without moving.

KaTeX does the work, all equations of a page at once. Its program, its style sheet and its fonts
come from npm. (sphinxcontrib-katex asks a server for one equation after the other, and fails where
a busy machine lets that server wait between its first two steps; it brings no fonts.)
"""

import json
import re
from pathlib import Path
from typing import Any

import from_npm
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.locale import _
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

STYLES = "katex/katex.min.css"
# Of the three formats of a font, the one that fontTools writes by itself.
SOURCES = re.compile(r'src:[^;}]*?(url\([^)]*\.woff\) format\("woff"\))[^;}]*')
# What belongs to the word before it.
PUNCTUATION = re.compile(r"[.,;:!?)\]’”]+|-\w+")

Equation = tuple[str, bool]  # LaTeX, and whether it stands on a line of its own

logger = logging.getLogger(__name__)
equations: dict[Equation, str] = {}


def equation_of(node: nodes.Node) -> Equation:
    return node.astext(), isinstance(node, nodes.math_block)


def typeset(wanted: list[Equation]) -> None:
    """Turn equations into HTML; one that KaTeX cannot read becomes a warning."""
    katex = from_npm.package("katex") / "dist" / "katex.js"
    written = from_npm.run(Path(__file__).with_suffix(".cjs"), katex, given=json.dumps(wanted))
    for key, result in zip(wanted, json.loads(written), strict=True):
        equations[key] = result.get("html", "")
        if "error" in result:
            logger.warning("%s in %s", result["error"], key[0])


def typeset_page(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Set all equations of a page at once: each start of Node.js takes a tenth of a second."""
    if app.builder.format == "html":
        found = (node for kind in (nodes.math, nodes.math_block) for node in doctree.findall(kind))
        if wanted := sorted({equation_of(node) for node in found} - set(equations)):
            typeset(wanted)


def hold_punctuation(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Keep a short equation and the punctuation after it in one line.

    Browsers may break a line after each piece of an equation, and so before a comma.
    """
    for node in list(doctree.findall(nodes.math)):
        after = node.next_node(descend=False, siblings=True)
        if not isinstance(after, nodes.Text) or len(node.astext()) > 20:
            continue
        if found := PUNCTUATION.match(after.astext()):
            rest = nodes.Text(after.astext()[found.end() :])
            held = nodes.inline("", "", node.deepcopy(), nodes.Text(found[0]), classes=["held"])
            # A text equals another one that says the same: look for this very one.
            parent = after.parent
            parent[next(i for i, child in enumerate(parent.children) if child is after)] = rest
            node.parent.replace(node, held)


def html_of(node: nodes.Node) -> str:
    key = equation_of(node)
    if key not in equations:  # in the title of another page, for instance
        typeset([key])
    return equations[key]


def visit_inline(self: HTML5Translator, node: nodes.Element) -> None:
    self.body.append(self.starttag(node, "span", "", CLASS="math notranslate"))
    self.body.append(html_of(node) + "</span>")
    raise nodes.SkipNode


def visit_display(self: HTML5Translator, node: nodes.Element) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math notranslate"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, _("Link to this equation"))
        self.body.append("</span>")
    self.body.append(html_of(node) + "</div>\n")
    raise nodes.SkipNode


def choose_katex(app: Sphinx, config: Config) -> None:
    config.html_math_renderer = "katex"


def serve_styles(app: Sphinx) -> None:
    """Put the style sheet beside the pages; the fonts follow when all letters are known."""
    sheet, folder = (
        from_npm.package("katex") / "dist" / "katex.min.css",
        Path(app.outdir, "_static"),
    )
    (folder / "katex" / "fonts").mkdir(parents=True, exist_ok=True)
    (folder / STYLES).write_text(SOURCES.sub(r"src:\1", sheet.read_text("utf-8")), encoding="utf-8")
    app.add_css_file(STYLES)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("katex", (visit_inline, None), (visit_display, None))
    app.connect("config-inited", choose_katex, priority=100)
    app.connect("builder-inited", serve_styles)
    # After the transforms that put the outputs of the cells into the page.
    app.connect("doctree-resolved", typeset_page, priority=900)
    app.connect("doctree-resolved", hold_punctuation, priority=901)
    return {"version": "3", "parallel_read_safe": True, "parallel_write_safe": False}
