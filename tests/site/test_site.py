"""The files of the built site: links, pictures, headings, reference.

What only a browser can say is in test_pages.py, test_links.py and test_site_in_browser.py.
"""

import base64
import importlib
import io
import pkgutil
import re
from collections import Counter
from pathlib import Path
from urllib.parse import urljoin
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup, Comment, Tag
from fontTools.ttLib import TTFont
from normtutor_studies import claims
from PIL import Image
from site_pages import (
    BASE,
    CONTENT,
    FIRST,
    MAIN_LINES,
    ROOT,
    SCRIPTED,
    chosen,
    elements_of,
    leads_nowhere,
    parsed,
)

import normtutor


@pytest.fixture(scope="module")
def pages(site) -> dict[str, BeautifulSoup]:
    """Parse every page that a reader can reach, by its address on the site."""
    paths = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    found = {path.relative_to(site).as_posix(): parsed(path) for path in paths}
    others = ("404", "search", "genindex")
    assert {f"{name}.html" for name in (*CONTENT, *others)} <= set(found)
    return found


@pytest.fixture(scope="module")
def book(pages) -> dict[str, BeautifulSoup]:
    """The pages of the table of contents."""
    return {name: pages[f"{name}.html"] for name in CONTENT}


def in_order(pages: dict[str, BeautifulSoup], problems_of) -> None:
    """Ask each page for its problems; there must be none."""
    found = {name: list(problems_of(page)) for name, page in pages.items()}
    assert {name: problems for name, problems in found.items() if problems} == {}


# --- links ----------------------------------------------------------------------------------------

LINKS = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "srcset"}


def targets_of(page: BeautifulSoup) -> set[str]:
    """Collect what a page links to or loads."""
    found = set()
    for element in elements_of(page):
        if element.get("property") in ("og:image", "og:url"):
            found.add(element["content"])
        elif (attribute := LINKS.get(element.name)) and element.has_attr(attribute):
            found.add(element[attribute])
    return found


def test_no_link_is_broken(site, pages):
    # The 404 page is shown at any address, so that its links are absolute.
    links = [
        (name, urljoin(BASE + name, target))
        for name, page in pages.items()
        for target in sorted(targets_of(page))
    ]
    assert [link for link in links if leads_nowhere(site, link[1])] == []
    assert sum(address.startswith(BASE) for _, address in links) > 10_000


# --- what a page says -----------------------------------------------------------------------------

# The theme gives the search page a second field.
REPEATED_BY_OTHERS = {"search-input"}
MARKUP = re.compile(r"NBVAL|\{[a-z]+(?::[a-z]+)?\}`|(?<!:):[a-z]+:`|```|\[\?\]|\?\?\?")


def image_problems(page: BeautifulSoup):
    """List the pictures that say nothing to somebody who does not see them."""
    for image in page.find_all("img"):
        alt = image.get("alt", "").strip()
        if not alt or re.search(r"\.(png|svg|jpe?g|gif)$|_images|^fig(ure)?\b", alt):
            yield f"{image.get('src')}: alt {alt!r}"
        if image.find_parent(class_="cell_output") is None:
            continue
        if image.find_parent("figure") is None or len(alt) < 40:
            yield f"{image.get('src')}: a figure without a caption or a full alt text"
        if image.get("loading") != "lazy" or not int(image["width"]) or not int(image["height"]):
            yield f"{image.get('src')}: does not keep its place while it loads"


def is_trouble(element: Tag) -> bool:
    """Whether an element shows that something went wrong in the build."""
    classes = set(element.get("class", ()))
    return bool(
        classes & {"problematic", "system-message", "katex-error"}
        or ("output" in classes and classes & {"stderr", "traceback"})
    )


def prose_of(element: Tag) -> str:
    """What an element says outside its code."""
    texts, waiting = [], [element]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Tag):
            texts.append("" if isinstance(node, Comment) else str(node))
        elif node.name not in ("code", "pre", "script", "style"):
            waiting += reversed(node.contents)
    return "".join(texts)


def page_problems(page: BeautifulSoup):
    """List what is wrong with one page; its language, title and headings, axe looks at."""
    yield from image_problems(page)
    article = page.find("article") or page
    if len(page.find_all("h1")) != 1:
        yield f"{len(page.find_all('h1'))} level-one headings"
    if not page.find("link", rel="icon"):
        yield "no icon"
    for marked in page.find_all(is_trouble):
        yield f"trouble on the page: {marked.get_text(' ', strip=True)[:80]}"
    yield from (f"markup left on the page: {text}" for text in MARKUP.findall(prose_of(article)))
    repeated = Counter(element["id"] for element in page.find_all(id=True))
    for name, times in repeated.items():
        if times > 1 and name not in REPEATED_BY_OTHERS:
            yield f"the id {name} is used {times} times"


def test_every_page_is_in_order(pages):
    redirect = "book/index.html"  # only sends the browser to the first page
    in_order({name: page for name, page in pages.items() if name != redirect}, page_problems)


def head_problems(page: BeautifulSoup):
    """List what a page lacks in its head, and what it waits for there."""
    description = page.find("meta", attrs={"name": "description"})
    if not description or not 15 <= len(description["content"]) <= 210:
        yield "no description of 15 to 210 characters"
    for name in ("og:title", "og:image", "og:description", "og:site_name", "og:image:alt"):
        meta = page.find("meta", property=name)
        if not meta or not meta.get("content"):
            yield f"no {name}"
        elif re.search(r"\\[a-z]+\b|\$", meta["content"]):
            yield f"{name} holds raw mathematics"
    if not page.find("link", rel="canonical"):
        yield "no canonical address"
    styles = [link["href"].split("?")[0] for link in page.find_all("link", rel="stylesheet")]
    if [style.rsplit("/", 1)[-1] for style in styles] != ["site.css"]:
        yield f"waits for {styles}"
    if page.find_all("link", rel="preload"):
        yield "loads something ahead of the page"
    for script in page.head.find_all("script", src=True):
        if not script.has_attr("defer") and script.get("type") != "module":
            yield f"waits for {script['src']}"


def test_every_page_says_what_it_is_and_waits_for_its_style_alone(pages):
    others = [name for name in pages if name.startswith("book/") and name != "book/index.html"]
    assert len(others) > 300  # cards of claims and answers, too
    in_order({name: pages[name] for name in ("index.html", *others)}, head_problems)
    lines = {name: pages[name].find("h1").find_previous_sibling("p") for name in others}
    assert [name for name, line in lines.items() if not line or not line.find("a")] == []
    for chapter in MAIN_LINES:
        text = lines[f"{chapter}.html"].get_text()
        assert re.search(r" · Chapter \d · \d+ minutes · runs in Colab$", text), chapter


def test_every_icon_is_in_the_fonts_that_are_left(site, book):
    style = (site / "_static" / "site.css").read_text(encoding="utf-8")
    assert len(style.encode()) < 250_000
    fonts = [
        set(TTFont(io.BytesIO(base64.b64decode(data))).getBestCmap())
        for data in re.findall(r"data:font/woff;base64,([^\"]+)", style)
    ]
    assert len(fonts) == 2 and all(len(font) < 60 for font in fonts)
    icons = [icon for page in book.values() for icon in page.find_all("i", re.compile("fa-"))]
    kinds = {name for icon in icons for name in icon["class"] if re.match("fa-", name)}
    assert len(kinds) > 5
    for kind in kinds - {"fa-solid", "fa-lg"}:
        code = re.search(rf"\.{kind}:before\s*{{\s*content:\s*\"\\([0-9a-f]+)", style)
        assert code and any(int(code[1], 16) in font for font in fonts), kind


def test_equations_are_set(site, book):
    equations = [
        (name, one) for name in book for one in chosen(book[name], "span.math", "div.math")
    ]
    assert len(equations) > 1000
    assert [(name, one.text[:80]) for name, one in equations if not one.find("annotation")] == []
    fonts = site / "_static" / "katex"
    text = (fonts / "katex.min.css").read_text(encoding="utf-8")
    needed = set(re.findall(r"fonts/[\w-]+\.\w+", text))
    assert len(needed) == 20 and all((fonts / name).exists() for name in needed)
    shown = {letter for _, one in equations for letter in one.find(class_="katex-html").text}
    left = {code for name in needed for code in TTFont(fonts / name).getBestCmap()}
    assert {letter for letter in shown if ord(letter) not in left} <= {" ", "\u200b"}


def without_colours(drawing: str) -> str:
    """A drawing in no colours; on a dark page the whole has one, for what is drawn without."""
    whole = re.sub(r'(?<=<svg) fill="[^"]*"', "", drawing)
    return re.sub(r"#[0-9a-fA-F]{3,8}\b", "#", whole)


def test_a_drawing_is_the_same_in_both_themes_but_for_its_colours(site):
    dark = sorted((site / "_images").glob("*.dark.*svg"))
    assert len(dark) > 50
    for path in dark:
        light = path.with_name(path.name.replace(".dark", "")).read_text(encoding="utf-8")
        drawing = path.read_text(encoding="utf-8")
        assert drawing != light, path.name
        assert without_colours(drawing) == without_colours(light), path.name


def test_every_figure_stands_on_a_page_with_words_for_readers_without_scripts(book):
    figures = [
        figure
        for page in book.values()
        for figure in page.find_all(re.compile("^nt-"))
        if figure.name != "nt-models"  # a table, which is there without scripts
    ]
    assert {figure.name for figure in figures} == {f"nt-{name}" for name in SCRIPTED}
    for figure in figures:
        words = figure.find("figcaption") or figure.find("p")
        assert len(words.get_text(strip=True)) > 40, figure


# --- the reference, the preview, the sitemap ------------------------------------------------------


def test_the_reference_says_what_every_public_name_does(book):
    page = book["book/api"]
    for module in ("norms", "layers"):
        for name in importlib.import_module(f"normtutor.{module}").__all__:
            entry = page.find("dt", id=f"normtutor.{module}.{name}")
            assert entry, name
            assert len(entry.find_next_sibling("dd").get_text(" ", strip=True)) >= 60, name
    # The section on what the formulas return was once empty.
    returned = page.find("section", id="caches-and-gradients")
    assert "x_hat" in returned.get_text() and returned.find("dt")
    modules = {f"normtutor.{module.name}" for module in pkgutil.iter_modules(normtutor.__path__)}
    described = {name for name in modules if f"{name}." in page.get_text()}
    described |= {name for name in modules if page.find(id=f"module-{name}")}
    inner = {f"normtutor.{name}" for name in ("colours", "intervals", "tracing", "validation")}
    assert modules - described <= inner  # nobody calls them


def test_the_sitemap_names_every_page(site):
    sitemap = (site / "sitemap.xml").read_text("utf-8")
    named = re.findall(r"<loc>(.*?)</loc>", sitemap)
    cards = [f"book/claim-{claim.name}" for claim in claims.CLAIMS]
    answers = {f"book/answers/{path.stem}" for path in (site / "book" / "answers").glob("*.html")}
    pages = {*CONTENT, *cards, *answers} - {FIRST}
    assert sorted(named) == sorted([BASE, *(f"{BASE}{name}.html" for name in pages)])
    if (ROOT / ".git").exists():  # a page's date is that of its last commit
        address = f"{BASE}{MAIN_LINES[0]}.html"
        assert re.search(rf"{address}</loc><lastmod>\d{{4}}-\d\d-\d\d</lastmod>", sitemap)


# --- what others show of the site -----------------------------------------------------------------


def test_the_first_page_is_the_root_of_the_site(site, pages):
    page = pages["index.html"]
    assert page.find("link", rel="canonical")["href"] == BASE
    assert page.find("meta", property="og:url")["content"] == BASE
    home = pages[f"{MAIN_LINES[0]}.html"].find("a", class_="navbar-brand")
    assert home["href"] == "../index.html"
    before = (site / "book" / "index.html").read_text("utf-8")
    assert "../index.html" in before and "location.hash" in before


def size_of(path: Path) -> tuple[int, int]:
    with Image.open(path) as picture:
        picture.load()
        return picture.size


def test_each_chapter_has_a_card_of_its_own_and_the_site_an_icon(site, pages):
    cards = [pages[f"{name}.html"].find("meta", property="og:image") for name in MAIN_LINES]
    paths = {site / card["content"].removeprefix(BASE) for card in cards}
    assert len(paths) == len(MAIN_LINES)
    assert {size_of(path) for path in paths} == {(1200, 630)}
    icons = {
        (site / name).parent / page.find("link", rel="apple-touch-icon")["href"]
        for name, page in pages.items()
        if name.startswith("book/0")
    }
    assert {path.resolve() for path in icons} == {site / "_static" / "icon.png"}
    assert size_of(site / "_static" / "icon.png") == (180, 180)


def test_the_feed_has_the_releases_of_the_changelog(site):
    atom = "{http://www.w3.org/2005/Atom}"
    feed = ElementTree.parse(site / "feed.xml").getroot()
    dated = re.findall(r"^## (\S+) \((\d.*)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    entries = feed.findall(f"{atom}entry")
    told = [(e.findtext(f"{atom}title"), e.findtext(f"{atom}updated")) for e in entries]
    assert told == [(f"Version {version}", f"{date}T00:00:00Z") for version, date in dated]
    assert told and all("<li>" in entry.findtext(f"{atom}content") for entry in entries)


def test_the_command_behind_a_caption_is_folded_and_there_without_scripts(book):
    folded = [one for page in book.values() for one in page.find_all("details", "reproduce")]
    assert len(folded) > 25
    for one in folded:
        assert one.find_parent("figcaption")
        assert re.match(r"python -m normtutor_studies run( \w+)+$", one.find("code").get_text())
    captions = [c for page in book.values() for c in page.find_all("span", "caption-text")]
    assert not [c.get_text() for c in captions if "normtutor_studies" in c.get_text()]


def test_claims_and_answers_mark_their_entry_of_the_menu(pages):
    for name, entry in (
        (f"book/claim-{claims.CLAIMS[0].name}.html", "claims.html"),
        ("book/answers/freeze-batchnorm.html", "fine-tuning.html"),
    ):
        menu = pages[name].find("nav", class_="bd-links")
        marked = menu.find_all("li", class_="current")
        assert marked and marked[-1].find("a")["href"].endswith(entry), name
