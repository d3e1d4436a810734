"""The claims ledger on the site: its script, its entries as targets of links, its tally."""

import re
from pathlib import Path
from typing import Any, cast

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.std import StandardDomain

PAGE = "book/claims"
MARK = "<!-- tally of the claims -->"


def tally_in_words() -> str:
    """The tally of the verdicts on record, which a test compares with the evidence."""
    from normtutor import claims

    counts = claims.tally(claims.CLAIMS)
    words = {"true": "true", "false": "false", "half": "half true", "open": "open"}
    *first, last = (f"{counts[verdict]} {words[verdict]}" for verdict in claims.VERDICTS)
    return f"{sum(counts.values())} claims: {', '.join(first)} and {last}"


def put_tally(app: Sphinx, docname: str, source: list[str]) -> None:
    """Write the tally where a page asks for it."""
    if MARK in source[0]:
        for path in sorted((Path(app.srcdir) / "normtutor" / "claims").glob("*.py")):
            app.env.note_dependency(str(path))
        source[0] = source[0].replace(MARK, tally_in_words())


def name_claims(app: Sphinx, doctree: nodes.document) -> None:
    """Let pages link to a claim as to a heading: ``[the ledger](#claim-unit-sphere)``."""
    if app.env.docname != PAGE:
        return
    domain = cast(StandardDomain, app.env.get_domain("std"))
    for raw in doctree.findall(nodes.raw):
        for name in re.findall(r'id="(claim-[a-z-]+)"', raw.astext()):
            domain.anonlabels[name] = PAGE, name
            domain.labels[name] = PAGE, name, name.removeprefix("claim-").replace("-", " ")


def add_script(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """No other page needs the filter."""
    if pagename == PAGE:
        app.add_js_file("claims.js")
        app.add_css_file("claims.css")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", put_tally)
    app.connect("doctree-read", name_claims)
    app.connect("html-page-context", add_script)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
