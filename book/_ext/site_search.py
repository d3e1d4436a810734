"""A search whose results are sections, questions, claims and names, in place of Sphinx's own.

MiniSearch, a library made for this, does the searching. After the build, every section of every
page becomes a record; ``_static/search/terms.js`` says what its words are, and what means the same.
``asked.tsv`` has other words in which people ask for a section: page, heading, phrases. The browser
fetches the index when a reader first goes to the search field, and not before.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import answers_pages
import claims_page
import from_npm
from bs4 import BeautifulSoup, Tag
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.util.logging import getLogger

logger = getLogger(__name__)

SCRIPT = Path(__file__).with_suffix(".cjs")
ASKED = Path(__file__).with_name("asked.tsv")

# What is on a page and says nothing: links beside headings, buttons, titles of folds, the text of
# equations.
SILENT = {"script", "style", "summary", "svg", "annotation"}
SILENT_CLASSES = {
    *("headerlink", "code-switch", "katex-html", "caption-number", "claim"),
    *("prev-next-area", "reproduce", "toggle-button", "viewcode-link", "whereabouts"),
}
# The folder or the name of a page says what its sections are.
KINDS = (
    (r"^book/answers/", "question"),
    (r"^book/which_norm$|^book/fifteen_minutes$", "guide"),
    (r"^book/\d\d_", "chapter"),
    (r"^book/in_depth/", "depth"),
    (r"^book/exercises/", "exercise"),
    (r"^book/claim", "claim"),
    (r"^book/api", "api"),
    (r"^book/bibliography$", "work"),
)
HEADINGS = ("h1", "h2", "h3", "h4")
# Where a question was read: a note for who doubts it.
NOTE = re.compile(r" ?\(Asked at [^()]*\)")
LONGEST = 180  # letters of a first sentence, which the index brings with it


def kind_of(name: str) -> str:
    """Say what a section of this page is."""
    return next((kind for pattern, kind in KINDS if re.search(pattern, name)), "depth")


def kind_of_section(kind: str, heading: str, title_of_page: bool) -> str:
    """Say what a section of a page of this kind is: its top, the numbers of its runs, or so."""
    if title_of_page and kind in ("chapter", "depth", "api"):
        return "top"
    if kind == "depth" and re.search(r"\b(all|in) (the )?numbers\b", heading, re.IGNORECASE):
        return "numbers"
    return kind


# Beautiful Soup's own `select` takes ten times as long as `find_all` on a page of a megabyte.
def is_silent(part: Tag) -> bool:
    """Say whether a part of a page says nothing."""
    return part.name in SILENT or not SILENT_CLASSES.isdisjoint(part.get("class") or ())


def has_an_address(part: Tag) -> bool:
    """Say whether a part of a page becomes a record."""
    classes = part.get("class") or ()
    return part.name == "section" or (
        (part.name == "dt" and "sig" in classes and part.has_attr("id"))
        or (part.name == "div" and "citation" in classes and part.has_attr("id"))
    )


def words_of(part: Tag) -> str:
    """The text of a part of a page, in one line."""
    return re.sub(r"\s+", " ", part.get_text(" ")).strip()


def prose_and_code(part: Tag) -> str:
    """The text of a part: its prose in one line and, if there is any, its code in a second one."""
    code = [block.extract() for block in part.find_all("pre")]
    lines = [NOTE.sub("", words_of(part)), " ".join(words_of(block) for block in code)]
    return "\n".join(lines).rstrip("\n")


def first_sentence(text: str) -> str:
    """The beginning of a text, which stands for it until all texts are there."""
    prose = text.partition("\n")[0]
    sentence = re.split(r"(?<=[.?!:]) ", prose, maxsplit=1)[0]
    cut = sentence if len(sentence) <= LONGEST else sentence[:LONGEST].rpartition(" ")[0]
    return cut if cut == prose else f"{cut} …"


def records_of(name: str, address: str, html: str) -> Iterator[dict[str, Any]]:
    """Yield a record for each section of a page: its address, its headings and its own text."""
    # Where a long heading may break is no space.
    soup = BeautifulSoup(html.replace("<wbr>", ""), "html.parser")
    article = soup.find("article", class_="bd-article")
    if article is None:
        return
    for part in article.find_all(is_silent):
        part.extract()
    page, kind = "", kind_of(name)
    # The boxes of theorems and exercises are sections to sphinx-proof; to a reader they are text.
    for box in article.find_all("section", id=re.compile("^(proof|exercise|solution)-content")):
        box.name = "div"
    parts = article.find_all(has_an_address)
    above = [headings_above(part) for part in parts]
    # Inner parts first: what has an address of its own is no part of the section around it.
    own = [own_text(part) for part in reversed(parts)][::-1]
    for part, parents, (heading, text) in zip(parts, above, own, strict=True):
        title_of_page = not parents and part.name == "section"
        if title_of_page:
            page = "The claims ledger" if kind == "claim" else heading
        yield {
            "address": f"{address}#{part['id']}" if part.get("id") else address,
            "page": page,
            "title": heading,
            "heading": heading,
            "above": " ".join(parents),
            "text": text,
            "first": first_sentence(text),
            "kind": kind_of_section(kind, heading, title_of_page),
        }


def heading_of(section: Tag) -> str:
    """The heading of a section."""
    head = section.find(HEADINGS, recursive=False)
    return words_of(head) if head else ""


def headings_above(part: Tag) -> list[str]:
    """The headings of the sections around a part, the page's title last."""
    around = (parent for parent in part.parents if parent.name == "section")
    return [heading for heading in map(heading_of, around) if heading]


def own_text(part: Tag) -> tuple[str, str]:
    """Take a part out of its page: its heading and its text."""
    part.extract()
    if part.name == "section":
        heading = heading_of(part)
        return heading, prose_and_code(part).removeprefix(heading).lstrip(" ")
    if part.name == "dt":
        return str(part["id"]), words_of(part)
    return words_of(part)[:90], words_of(part)


def pages_of(app: Sphinx) -> dict[str, tuple[str, str]]:
    """Read the pages that were written, by name: the address of each, and what is in it."""
    assert app.builder is not None
    topics = answers_pages.answers_of(app.env)  # their answers have pages of their own
    written = {*claims_page.names(app), *answers_pages.names(app)}
    names = sorted(written | {*app.env.found_docs} - {*topics})
    found = {}
    for name in names:
        address = app.builder.get_target_uri(name)
        if (path := Path(app.outdir, address)).exists():
            found[name] = address, path.read_text("utf-8")
    return found


def records_of_pages(app: Sphinx) -> list[list[dict[str, Any]]]:
    """List the records of each page; those of a page that is as it was are kept from before."""
    kept = Path(app.doctreedir) / "search.json"
    before = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    now, program = {}, Path(__file__).read_text("utf-8")
    for name, (address, html) in pages_of(app).items():
        digest = hashlib.sha256((program + html).encode()).hexdigest()
        known = before.get(name)
        found = known[1] if known and known[0] == digest else list(records_of(name, address, html))
        now[name] = (digest, found)
    kept.write_text(json.dumps(now), encoding="utf-8")
    return [found for _, found in now.values()]


def plain(heading: str) -> str:
    """A heading without its number, and with the quotes and dots that are typed."""
    heading = re.sub(r"^[\d.]+ ", "", heading)
    return heading.translate(str.maketrans("“”‘’", "\"\"''")).replace("…", "...").replace("`", "")


def add_other_words(records: list[dict[str, Any]], table: str) -> list[str]:
    """Give each record the words in which people ask for it; return the lines that fit none."""
    lost = []
    named: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in records:
        record["asked"] = ""
        page = record["address"].split(".html")[0].removeprefix("book/")
        named.setdefault((page, plain(record["title"])), []).append(record)
    for line in table.splitlines():
        page, heading, phrases = line.split("\t")
        found = named.get((page, plain(heading)), [])
        for record in found:
            record["asked"] = phrases
        if not found:
            lost.append(f"{page}: {heading}")
    return lost


def write_index(app: Sphinx, error: Exception | None) -> None:
    """Write what the search fetches: the library, the index, and the sections' texts."""
    if error or app.builder.name != "html":
        return
    folder = Path(app.outdir) / "_static" / "search"
    records = [record for page in records_of_pages(app) for record in page]
    for number, record in enumerate(records):
        record["id"] = number
    asked = ASKED.read_text("utf-8") + answers_pages.other_words(app)
    for lost in add_other_words(records, asked):
        logger.warning("asked.tsv has other words for a section that there is not: %s", lost)
    library = from_npm.package("minisearch") / "dist"
    program = library / "cjs" / "index.cjs"
    index = from_npm.run(SCRIPT, program, folder / "terms.js", given=json.dumps(records))
    script = (library / "umd" / "index.js").read_text("utf-8")
    (folder / "minisearch.js").write_text(script, encoding="utf-8")
    # Scripts, not data: they are found without a server, too.
    quoted = index.replace("\\", r"\\").replace("'", r"\'")
    (folder / "index.js").write_text(f"searchIndex('{quoted}')", encoding="utf-8")
    texts = json.dumps([record["text"] for record in records], ensure_ascii=False)
    (folder / "texts.js").write_text(f"searchTexts({texts})", encoding="utf-8")


def leave_out_sphinx_search(app: Sphinx) -> None:
    """Sphinx writes no index of its own."""
    if isinstance(app.builder, StandaloneHTMLBuilder):
        app.builder.search = False


def search_page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The page with all results of a question."""
    yield "search", {}, "search.html"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", leave_out_sphinx_search)
    app.connect("html-collect-pages", search_page)
    app.connect("build-finished", write_index)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
