"""Small corrections to the site that the theme and its extensions do not offer as settings."""

import html
import queue
import re
import zlib
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import answers_pages
import claims_page
import readers_notebooks
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.config import Config
from sphinx.ext import viewcode

# Where the names in the docstrings lead that are not ours. The lists beside this file name only
# what the book refers to, so that a build needs no network.
INVENTORIES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "torch": "https://docs.pytorch.org/docs/stable/",
}


class FrontPageAtTheRoot(StandaloneHTMLBuilder):
    """Sphinx's pages, but the first one is the root of the site, wherever its source lies."""

    def get_target_uri(self, docname: str, typ: str | None = None) -> str:
        return super().get_target_uri(self._address(docname), typ)

    def get_outfilename(self, pagename: str) -> str:
        return super().get_outfilename(self._address(pagename))

    def _address(self, name: str) -> str:
        return "index" if name == self.config.root_doc else name


FORWARD = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title><link rel="canonical" href="{base}">
<script>location.replace("../index.html" + location.search + location.hash)</script>
<meta http-equiv="refresh" content="0; url=../index.html">
<p>This page has moved: <a href="../index.html">{title}</a>.</p></html>
"""


def forward_the_first_page(app: Sphinx, error: Exception | None) -> None:
    """Leave a page that forwards at the address that the first page had before."""
    if not error and isinstance(app.builder, FrontPageAtTheRoot):
        text = FORWARD.format(title=html.escape(app.config.project), base=app.config.html_baseurl)
        Path(app.outdir, f"{app.config.root_doc}.html").write_text(text, encoding="utf-8")


CHECK_MARKER = "# NBVAL_CHECK_OUTPUT\n"


def inventory(name: str, listing: str) -> bytes:
    """Turn a readable listing into the binary inventory that Sphinx reads.

    A line of the listing is `name domain:role address`; the address is relative to the project's
    documentation.
    """
    header = f"# Sphinx inventory version 2\n# Project: {name}\n# Version: \n"
    header += "# The remainder of this file is compressed using zlib.\n"
    lines = []
    for line in listing.splitlines():
        if line.strip() and not line.startswith("#"):
            target, role, address = line.split()
            lines.append(f"{target} {role} 1 {address} -\n")
    return header.encode() + zlib.compress("".join(lines).encode())


def write_inventories(app: Sphinx, config: Config) -> None:
    """Make the inventories beside the site and tell intersphinx about them."""
    folder = Path(app.outdir).parent / "inventories"
    folder.mkdir(parents=True, exist_ok=True)
    for name, address in INVENTORIES.items():
        listing = Path(__file__).with_name(f"{name}.txt").read_text(encoding="utf-8")
        path = folder / f"{name}.inv"
        path.write_bytes(inventory(name, listing))
        config.intersphinx_mapping[name] = (address, str(path))


def number_repeated_ids(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Make every id on a page unique: the second ``proof-content`` becomes ``proof-content-2``.

    sphinx-proof and sphinx-exercise give all their boxes the same ids, and each docstring starts
    to count its citations from ``id1``. An id that came twice could not be linked to before either.
    """
    times: Counter[str] = Counter()
    for node in doctree.findall(nodes.Element):
        for position, name in enumerate(node.get("ids", [])):
            times[name] += 1
            if times[name] > 1:
                node["ids"][position] = f"{name}-{times[name]}"


def hide_check_markers(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Leave out the first line of a checked cell, which speaks to the test suite alone."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext()
        if text.startswith(CHECK_MARKER):
            block.children = []
            block += nodes.Text(text.removeprefix(CHECK_MARKER))
            block.rawsource = block.astext()


# --- what stands on a page ------------------------------------------------------------------------

# What docutils and myst-nb write -> what screen readers can use: a folded cell is called what the
# page calls it, and the entry of a list is an entry.
NAMES_AND_ROLES = {
    '<summary aria-label="Toggle hidden content">': "<summary>",
    'role="doc-biblioentry"': 'role="listitem"',
}
# The corner of a table is no head: it names nothing.
EMPTY_HEAD = re.compile(r"<th( [^>]*)?>(?:&nbsp;|<p></p>|\s*)</th>")
CODE_SWITCH = """
<p class="code-switch"><button type="button" aria-pressed="false">Show all code</button></p>"""
# A caption ends in the command that makes its runs.
COMMAND = re.compile(
    r"\s*(?:Saved run: |Source: )?"
    r'(<code[^>]*><span class="pre">python</span> <span class="pre">-m</span> '
    r'<span class="pre">normtutor_studies</span>(?:(?!</?code).)*</code>)\.(</span>.*?</p>)'
    r"(?=\s*</figcaption>)",
    re.DOTALL,
)
REPRODUCE = (
    r'\2<details class="reproduce"><summary><i class="fa-solid fa-rotate-right" '
    r'aria-hidden="true"></i> Reproduce</summary>\1</details>'
)
LONG = 400_000  # characters: some ten thousand elements
CHAPTER = re.compile(r"book/(?:in_depth/)?(\d\d)_")
WORDS_PER_MINUTE = 150  # of text with formulas and figures
NOT_READ = re.compile(r"<(pre|script|style|svg|table|math)\b.*?</\1>|<[^>]+>", re.DOTALL)


def mended(body: str) -> str:
    """Correct the names and roles that would mislead a screen reader."""
    for written, right in NAMES_AND_ROLES.items():
        body = body.replace(written, right)
    return EMPTY_HEAD.sub(r"<td\1></td>", body)


def with_code_switch(body: str) -> str:
    """Put a switch under the title of a page on which code is folded; ``reading.js`` serves it."""
    folded = re.search(r'<details class="[^"]*\bhide\b', body)
    return body.replace("</h1>", "</h1>" + CODE_SWITCH, 1) if folded else body


def whereabouts(app: Sphinx, name: str, context: dict[str, Any]) -> str:
    """Say of which book a page is, of which chapter, and how long it takes."""
    parts = [f'<a href="{context["pathto"](app.config.root_doc)}">{app.config.project}</a>']
    if chapter := CHAPTER.match(name):
        parts.append(f"Chapter {int(chapter[1])}{', in depth' * ('in_depth' in name)}")
        if "in_depth" not in name:
            words = len(NOT_READ.sub(" ", context["body"]).split())
            parts.append(f"{max(5, 5 * round(words / WORDS_PER_MINUTE / 5))} minutes")
    elif name.startswith("book/claim-"):
        parts.append("The claims ledger")
    if notebook := readers_notebooks.colab(app, name):
        parts.append(f'<a href="{notebook}">runs in Colab</a>')
    return f'<p class="whereabouts">{" · ".join(parts)}</p>'


def marked_if_long(body: str) -> str:
    """Let the style sheet lay out the sections of a long page when they come near the screen.

    Until then a section has a height that was guessed, so a page on which it pays little is laid
    out at once: its height, and with it the scroll bar, stays as it is.
    """
    if len(body) <= LONG:
        return body
    return re.sub(r'<section(?: class="([^"]*)")?', r'<section class="long \1"', body, count=1)


def change_page(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Change what the theme and the extensions have written."""
    if not context.get("body"):
        return
    # The scripts of the interactive figures that a page has, such as ``<nt-cells>``.
    for name in sorted(set(re.findall(r"<nt-([a-z]+)[ >]", context["body"]))):
        app.add_js_file(f"interactive/{name}.js", type="module")
    context["body"] = with_code_switch(mended(context["body"]))
    if pagename.startswith("book/") and pagename != app.config.root_doc:
        line = whereabouts(app, pagename, context)
        context["body"] = re.sub(r"<h1\b", lambda _: f"{line}<h1", context["body"], count=1)
    # Few readers run the command at the end of a caption.
    context["body"] = marked_if_long(COMMAND.sub(REPRODUCE, context["body"]))


def mark_in_menu(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Let the menu of a page that it does not list mark the one to which the page belongs.

    Both stand in one folder, so that the links of the menu are the same.
    """
    builder, owner = app.builder, context.get("part_of")
    if owner and isinstance(builder, StandaloneHTMLBuilder):
        address = f'href="{context["pathto"](owner)}"'
        context["toctree"] = lambda **how: builder._get_local_toctree(owner, **how).replace(
            'href="#"', address
        )


# --- modules, sitemap -----------------------------------------------------------------------------


def file_of_module(app: Sphinx, modname: str) -> str | None:
    """Find the file of a module of ours without importing it, and torch with it."""
    path = Path(app.srcdir, *modname.split("."))
    found = [place for place in (path.with_suffix(".py"), path / "__init__.py") if place.exists()]
    return str(found[0]) if found else None


def name_all_pages(app: Sphinx, exception: Exception | None) -> None:
    """Let the sitemap name the pages of the book, whichever of them this build wrote.

    sphinx-sitemap names what is written in a build; one that follows a change writes some pages.
    The date is that of the last commit, as sphinx-last-updated-by-git knows it.
    """
    assert app.builder is not None
    dates = getattr(app.env, "git_last_updated", {})
    links = app.sitemap_links  # type: ignore[attr-defined]
    with suppress(queue.Empty):
        while True:
            links.get_nowait()
    for name in sorted({*app.env.found_docs, *claims_page.names(app), *answers_pages.names(app)}):
        seconds, _ = dates.get(name) or (None, True)
        date = seconds and f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%d}"
        address = app.builder.get_target_uri(name)
        links.put(("" if name == app.config.root_doc else address, date))


def setup(app: Sphinx) -> dict[str, Any]:
    # It asks whether the page with a module's source is older than the module.
    viewcode.get_module_filename = file_of_module
    app.add_builder(FrontPageAtTheRoot, override=True)
    app.setup_extension("sphinx.ext.intersphinx")
    # Before intersphinx reads its mapping.
    app.connect("config-inited", write_inventories, priority=100)
    app.connect("doctree-resolved", hide_check_markers)
    app.connect("doctree-resolved", number_repeated_ids)
    app.connect("html-page-context", change_page)
    app.connect("html-page-context", mark_in_menu)
    # Before sphinx-sitemap writes.
    app.connect("build-finished", name_all_pages, priority=400)
    app.connect("build-finished", forward_the_first_page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
