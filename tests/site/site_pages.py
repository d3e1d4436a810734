"""The pages of the book, as its table of contents lists them, and what stands on them."""

import functools
import gc
import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from bs4 import BeautifulSoup, Tag

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "book" / "_static"
SCRIPTS = STATIC / "interactive"  # of the interactive figures
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
BASE = CONFIG["html"]["baseurl"]  # the address of the site
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
ENTRIES = [entry for part in TOC["parts"] for entry in part["chapters"]]
NUMBERED = next(part for part in TOC["parts"] if part.get("numbered"))
MAIN_LINES = [entry["file"] for entry in NUMBERED["chapters"]]
# What the audit measures: the first page, which is the root of the site, and the chapters.
FIRST, SOURCE_OF_FIRST = "index", TOC["root"]
MEASURED = [FIRST, *MAIN_LINES]
SECTIONS = [section["file"] for entry in ENTRIES for section in entry.get("sections", [])]
EXERCISES = [name for name in SECTIONS if name.startswith("book/exercises/")]
CONTENT = [FIRST, *(entry["file"] for entry in ENTRIES), *SECTIONS]


def source_of(name: str) -> Path:
    """The notebook behind a page, if there is one."""
    return ROOT / f"{SOURCE_OF_FIRST if name == FIRST else name}.ipynb"


NOTEBOOKS = [name for name in CONTENT if source_of(name).exists()]
CHAPTERS = [name for name in NOTEBOOKS if name not in EXERCISES]

# Which pages hold which interactive figures.
FIGURES = {
    name: sorted(
        {
            next(filter(None, names))
            for cell in json.loads(source_of(name).read_text(encoding="utf-8"))["cells"]
            for names in re.findall(
                r'<nt-(\w+)>|InteractiveFigure\(\s*"(\w+)"|interactive\.show\(\s*"(\w+)"',
                "".join(cell["source"]),
            )
        }
    )
    for name in CHAPTERS
}
SCRIPTED = sorted(
    path.stem for path in SCRIPTS.glob("*.js") if "customElements" in path.read_text("utf-8")
)
# These have a page of their own, no cell around them, and tests of their own.
ON_PAGES = ("formula", "inspector", "playground")


@functools.cache
def parsed(path: Path) -> BeautifulSoup:
    """A page of the site, parsed once for all files of tests."""
    # What is kept to the end is not searched for circles, which takes a third of the time.
    gc.disable()
    try:
        return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    finally:
        gc.freeze()
        gc.enable()


@functools.cache
def anchors_of(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r'\sid="([^"]+)"', path.read_text(encoding="utf-8")))


def leads_nowhere(site: Path, address: str) -> bool:
    """Whether the site lacks a page, or the place on it; what lies elsewhere is not looked at."""
    parts = urlsplit(address)
    if not address.startswith(BASE):
        return parts.scheme not in ("http", "https", "mailto", "data")
    path = site / (unquote(parts.path[len(urlsplit(BASE).path) :]) or "index.html")
    # The playground and the figures read the setting that an address goes on with.
    holds_a_setting = re.match(r"nt-[a-z]+\?|preset=", parts.fragment)
    asked = "" if holds_a_setting or path.suffix != ".html" else unquote(parts.fragment)
    return not path.is_file() or (bool(asked) and asked not in anchors_of(path))


def elements_of(root: Tag) -> list[Tag]:
    """All elements below a root; to go through them once takes less than one `find_all`."""
    return [one for one in root.descendants if isinstance(one, Tag)]


def chosen(root: Tag, *chains: str) -> list[Tag]:
    """Elements below a root by names and classes, as in "div.solution pre", each of them once.

    Beautiful Soup's own `select` takes ten times as long on a page of a megabyte.
    """
    found: dict[int, Tag] = {}
    for chain in chains:
        inside = [root]
        for step in chain.split():
            name, _, kind = step.partition(".")
            inside = [one for box in inside for one in box.find_all(name or True, kind or None)]
        found |= {id(one): one for one in inside}
    return list(found.values())
