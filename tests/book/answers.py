"""The form of an answer: a bold sentence to follow, why in a few words, a link to the evidence.

Evidence and code may be folded behind it. The guide and the page of questions share this form.
"""

import posixpath
import re
from pathlib import Path

import nbformat
from myst_parser.mdit_to_docutils.base import default_slugify
from normtutor_studies import claims

BOOK = Path(__file__).resolve().parents[2] / "book"
MOST_WORDS = 70
MOST_LINES = 12


def entries_of(page: str) -> dict[str, str]:
    """The text below each heading of the third level."""
    return dict(re.findall(r"^### (.*?)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))


def before_the_fold(answer: str) -> str:
    """An answer without what is folded, without the label of the next group."""
    shown = re.sub(r"^(`{3,})\{dropdown\}.*?^\1$", "", answer, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^\(\S+\)=$", "", shown, flags=re.MULTILINE)


def prose_of(answer: str) -> str:
    """What a reader reads before the fold: no code, no tables, of a link its words."""
    prose = re.sub(r"```.*?```", "", before_the_fold(answer), flags=re.DOTALL)
    prose = re.sub(r"^\|.*$", "", prose, flags=re.MULTILINE)
    prose = re.sub(r"\{[\w:]+\}`(?:([^`<]*) <[^`]*>|[^`]*)`", lambda m: m[1] or "link", prose)
    return re.sub(r"\]\([^)]*\)", "]", prose).strip()


def code_of(answer: str) -> list[str]:
    """The pieces of code of an answer, folded or not."""
    return re.findall(r"```python\n(.*?)```", answer, re.DOTALL)


def numbers_in(prose: str) -> list[str]:
    """The numbers that a reader meets, those in names such as float16 among them."""
    return re.findall(r"\d+(?:[.,]\d+)*", prose)


def problems(answer: str) -> list[str]:
    """Say where an answer leaves the form."""
    found = []
    prose, code = prose_of(answer), code_of(answer)
    first = re.match(r"\*\*([^*]+[.!?])\*\*(?=\s|$)", prose)
    if first is None:
        found.append("does not begin with a bold sentence")
    elif re.search(r"[.!?]\s+[A-ZÀ-Þ]", re.sub(r"`[^`]*`", "X", first[1])):
        found.append("more than one sentence is bold")
    if len(prose.split()) > MOST_WORDS:
        found.append(f"{len(prose.split())} words before the fold")
    if "±" in prose:
        found.append("an interval before the fold")
    for block in code:
        if len([line for line in block.splitlines() if line.strip()]) > MOST_LINES:
            found.append(f"more than {MOST_LINES} lines of code")
        if max(map(len, block.splitlines())) > 100:
            found.append("a line of code is too long")
    if len(code) > 1 or "```" in re.sub(
        r"```python\n.*?```", "", before_the_fold(answer), flags=re.S
    ):
        found.append("more than one piece of code, or code that does not run")
    return found


def sources() -> dict[str, str]:
    """The words of each page of the book, and of its figures' names, by path."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in BOOK.glob("*.md")}
    for path in [*BOOK.glob("*.ipynb"), *BOOK.glob("in_depth/*.ipynb")]:
        cells = nbformat.read(path, as_version=4).cells
        words = [cell.source for cell in cells if cell.cell_type == "markdown"]
        figures = [cell.metadata.get("mystnb", {}).get("figure", {}) for cell in cells]
        words += [f":name: {figure['name']}" for figure in figures if "name" in figure]
        texts[path.relative_to(BOOK).as_posix()] = "\n\n".join(words)
    return texts


SOURCES = sources()
LABELS = {
    label
    for text in SOURCES.values()
    for label in re.findall(r"^ *:(?:label|name): *(\S+)|^\((\S+)\)=$", text, re.MULTILINE)
    for label in label
    if label
} | {f"claim-{claim.name}" for claim in claims.CLAIMS}
HEADINGS = {
    page: {default_slugify(head) for head in re.findall(r"^##+ (.*)$", text, re.MULTILINE)}
    for page, text in SOURCES.items()
}


def places(answer: str) -> tuple[list[str], list[str]]:
    """The places of the book to which an answer leads: those that exist, those that do not."""
    shown = re.sub(r"```.*?```", "", before_the_fold(answer), flags=re.DOTALL)
    labels = re.findall(r"\{(?:prf:ref|numref|eq|ref)\}`(?:[^`<]*<)?([\w-]+)>?`", shown)
    links = re.findall(r"\]\((?!https?:)([\w./]*)#([^)]+)\)", shown)
    labels += [anchor for page, anchor in links if not page]
    found = [(label, label in LABELS) for label in labels]
    found += [
        (f"{page}#{anchor}", anchor in HEADINGS.get(posixpath.normpath(page), ()))
        for page, anchor in links
        if page
    ]
    return [name for name, good in found if good], [name for name, good in found if not good]


def headings_beside(gone: list[str]) -> dict[str, list[str]]:
    """The headings of the pages of links that lead nowhere, to choose from."""
    pages = {link.split("#")[0] for link in gone if "#" in link}
    return {page: sorted(HEADINGS.get(posixpath.normpath(page), ())) for page in pages}
