"""The text of the book's pages, and the places to which a link may lead."""

import posixpath
import re
from pathlib import Path

import nbformat
from myst_parser.mdit_to_docutils.base import default_slugify
from normtutor_studies import claims

BOOK = Path(__file__).resolve().parents[1] / "book"


def text_of(path: Path) -> str:
    """The prose of a page, with the names and captions of its figures, in order."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    text = []
    for cell in nbformat.read(path, as_version=4).cells:
        figure = cell.metadata.get("mystnb", {}).get("figure", {})
        text += [cell.source] if cell.cell_type == "markdown" else []
        text += [f":name: {figure['name']}\n\n{figure.get('caption', '')}"] if figure else []
    return "\n\n".join(text)


PAGES = {
    path.relative_to(BOOK).as_posix(): text_of(path)
    for pattern in ("*.md", "*.ipynb", "answers/*.md", "in_depth/*.ipynb")
    for path in BOOK.glob(pattern)
}
LABELS = {
    name or anchor
    for text in PAGES.values()
    for name, anchor in re.findall(
        r"^ *:(?:label|name): *(\S+)|^\(([^)\s]+)\)=$", text, re.MULTILINE
    )
} | {f"claim-{claim.name}" for claim in claims.CLAIMS}
HEADINGS = {
    page: {default_slugify(head) for head in re.findall(r"^##+ (.*)$", text, re.MULTILINE)}
    for page, text in PAGES.items()
}


def exists(place: str) -> bool:
    """Whether the book has a label, or a page's heading as in ``notation.md#letters``."""
    page, found, heading = place.partition("#")
    return heading in HEADINGS.get(posixpath.normpath(page), ()) if found else place in LABELS
