"""Equations, set while the site is built: a page shows them without a script, and without moving.

sphinxcontrib-katex sets them; this adds what it leaves to others: the style sheet and the fonts lie
beside the pages, and a line never breaks between an equation and the comma after it.
"""

import re
import shutil
from pathlib import Path
from typing import Any

import from_npm
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinxcontrib import katex

STYLES = "katex/katex.min.css"
# What belongs to the word before it.
PUNCTUATION = re.compile(r"[.,;:!?)\]’”]+|-\w+")


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


def use_package(app: Sphinx, config: Config) -> None:
    """Take KaTeX from npm, which has its fonts as well; an equation that it cannot read fails."""
    config.katex_prerender, config.html_math_renderer = True, "katex"
    config.katex_css_path = STYLES
    config.katex_js_path = str(from_npm.package("katex") / "dist" / "katex.min.js")
    katex.NODEJS_BINARY = str(from_npm.NODE)
    katex.KATEX_DEFAULT_OPTIONS = {"strict": False, "throwOnError": True}
    # A machine may do much else meanwhile.
    katex.STARTUP_TIMEOUT = katex.RENDER_TIMEOUT = 600


def serve_fonts(app: Sphinx) -> None:
    """Put the style sheet and the fonts beside the pages, in the one format that browsers take."""
    made, folder = from_npm.package("katex") / "dist", Path(app.outdir) / "_static" / "katex"
    (folder / "fonts").mkdir(parents=True, exist_ok=True)
    for path in (made / "katex.min.css", *made.glob("fonts/*.woff2")):
        shutil.copy(path, folder / path.relative_to(made))


def setup(app: Sphinx) -> dict[str, Any]:
    app.setup_extension("sphinxcontrib.katex")
    app.connect("config-inited", use_package, priority=100)
    app.connect("builder-inited", serve_fonts)
    # After the transforms that put the outputs of the cells into the page.
    app.connect("doctree-resolved", hold_punctuation, priority=901)
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": False}
