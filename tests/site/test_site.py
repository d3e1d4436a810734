"""The files of the built site: links, pictures, headings, reference, search.

What only a browser can say is in test_pages.py, test_links.py and test_site_in_browser.py.
"""

import base64
import importlib
import inspect
import io
import itertools
import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
import yaml
from bs4 import BeautifulSoup, Comment, Tag
from fontTools.ttLib import TTFont
from normtutor_studies import claims
from site_pages import CHAPTERS, CONTENT, ROOT, chosen, elements_of, parsed

CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
BASE = CONFIG["html"]["baseurl"]


def pages_of(site: Path) -> dict[str, BeautifulSoup]:
    """Parse every page that a reader can reach, by its address on the site."""
    paths = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    return {path.relative_to(site).as_posix(): parsed(path) for path in paths}


def test_every_page_of_the_table_of_contents_is_there(site):
    missing = [name for name in CONTENT if not (site / f"{name}.html").exists()]
    assert missing == []
    for name in ("index.html", "404.html", "search.html", "genindex.html"):
        assert (site / name).exists(), name


# --- links ----------------------------------------------------------------------------------------


LINKS = {"a": "href", "link": "href", "img": "src", "script": "src"}


def targets_of(page: BeautifulSoup) -> set[str]:
    """Collect what a page links to or loads."""
    found = set()
    for element in elements_of(page):
        if element.get("property") in ("og:image", "og:url"):
            found.add(element["content"])
        elif (attribute := LINKS.get(element.name)) and element.has_attr(attribute):
            found.add(element[attribute])
    return found


def ids_of(page: BeautifulSoup) -> set[str]:
    return {element["id"] for element in elements_of(page) if element.has_attr("id")}


def broken_links(site: Path) -> list[str]:
    """List the links that lead nowhere on this site; links to other sites are not followed."""
    pages = pages_of(site)
    anchors = {name: ids_of(page) for name, page in pages.items()}
    broken = []
    for name, page in pages.items():
        for target in sorted(targets_of(page)):
            # The 404 page is shown at any address, so that its links are absolute.
            address = urljoin(BASE + name, target)
            parts = urlsplit(address)
            if not address.startswith(BASE):
                if not parts.scheme.startswith(("http", "mailto", "data")):
                    broken.append(f"{name} -> {target}")
                continue
            relative = unquote(parts.path[len(urlsplit(BASE).path) :]) or "index.html"
            path = site / relative
            if not path.is_file():
                broken.append(f"{name} -> {target}")
            elif holds_a_setting(parts.fragment):
                continue  # tests/site/test_playground.py reads it
            elif parts.fragment and relative in anchors:
                if unquote(parts.fragment) not in anchors[relative]:
                    broken.append(f"{name} -> {target} (no such anchor)")
    return broken


def holds_a_setting(fragment: str) -> bool:
    """Whether an address goes on with the setting of the playground or of an interactive figure."""
    return re.match(r"(nt-[a-z]+\?|preset=)", fragment) is not None


def test_no_link_is_broken(site):
    assert broken_links(site) == []


def test_a_broken_link_is_noticed(tmp_path):
    good = '<h1 id="top">x</h1><a href="#top">t</a><a href="b.html#there">b</a>'
    (tmp_path / "a.html").write_text(good)
    (tmp_path / "b.html").write_text('<p id="there">b</p><a href="https://example.org/x">x</a>')
    assert broken_links(tmp_path) == []
    (tmp_path / "c.html").write_text(
        '<a href="b.html#gone">b</a><a href="gone.html">g</a><img src="gone.png" alt="x">'
        f'<a href="{BASE}gone.html">g</a><script src="gone.js"></script>'
    )
    assert len(broken_links(tmp_path)) == 5


# What Lighthouse takes for a link that does not say where it leads.
SAYS_NOTHING = {
    *("click here", "go", "here", "information", "learn more", "more", "more info"),
    *("more information", "read more", "right here", "see more", "start", "this"),
}


def links_that_say_nothing(page: BeautifulSoup) -> list[str]:
    links = [element for element in elements_of(page) if element.name == "a"]
    return [str(a.get("href")) for a in links if a.get_text().strip().lower() in SAYS_NOTHING]


def test_every_link_says_where_it_leads(site):
    found = {name: links_that_say_nothing(page) for name, page in pages_of(site).items()}
    assert {name: links for name, links in found.items() if links} == {}


def test_a_link_that_says_nothing_is_noticed():
    page = BeautifulSoup('<a href="b.html">More</a> <a href="c.html">more on c</a>', "html.parser")
    assert links_that_say_nothing(page) == ["b.html"]


# --- what a page says -----------------------------------------------------------------------------

# The theme gives the search page a second field.
REPEATED_BY_OTHERS = {"search-input"}


def image_problems(page: BeautifulSoup) -> list[str]:
    """List the pictures that say nothing to somebody who does not see them."""
    problems = []
    for image in page.find_all("img"):
        alt = image.get("alt", "").strip()
        if not alt or re.search(r"\.(png|svg|jpe?g|gif)$|_images|^fig(ure)?\b", alt):
            problems.append(f"{image.get('src')}: alt {alt!r}")
        in_output = image.find_parent(class_="cell_output") is not None
        if in_output and (image.find_parent("figure") is None or len(alt) < 40):
            problems.append(f"{image.get('src')}: a figure without a caption or a full alt text")
    return problems


def is_trouble(element: Tag) -> bool:
    """Whether an element shows that something went wrong in the build."""
    classes = set(element.get("class", ()))
    return bool(
        classes & {"problematic", "system-message"}
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


def page_problems(page: BeautifulSoup) -> list[str]:
    """List what is wrong with one page."""
    problems = image_problems(page)
    article = page.find("article") or page
    if len(page.find_all("h1")) != 1:
        problems.append(f"{len(page.find_all('h1'))} level-one headings")
    if not page.html or page.html.get("lang") != "en":
        problems.append("no language")
    if not page.title or not page.title.get_text(strip=True):
        problems.append("no title")
    if not page.find("link", rel="icon"):
        problems.append("no favicon")
    for marked in page.find_all(is_trouble):
        problems.append(f"trouble on the page: {marked.get_text(' ', strip=True)[:80]}")
    for element in page.find_all(["script", "link", "img", "iframe"]):
        if element.name == "link" and "stylesheet" not in element.get("rel", ()):
            continue
        address = element.get("src") or element.get("href")
        if re.match(r"(https?:)?//", str(address)):
            problems.append(f"loaded from another host: {address}")
    levels = [int(heading.name[1]) for heading in article.find_all(re.compile(r"^h[1-6]$"))]
    for above, below in itertools.pairwise(levels):
        if below > above + 1:
            problems.append(f"a heading jumps from level {above} to {below}")
    raw = re.findall(
        r"\{[a-z]+(?::[a-z]+)?\}`|(?<!:):[a-z]+:`|```|\[\?\]|\?\?\?", prose_of(article)
    )
    problems += [f"markup left on the page: {text}" for text in raw]
    repeated = Counter(element["id"] for element in page.find_all(id=True))
    for name, times in repeated.items():
        if times > 1 and name not in REPEATED_BY_OTHERS:
            problems.append(f"the id {name} is used {times} times")
    return problems


def content_problems(page: BeautifulSoup) -> list[str]:
    """List what a page of the book lacks in its head."""
    problems = []
    for name in ("description",):
        meta = page.find("meta", attrs={"name": name})
        if not meta or not 40 <= len(meta["content"]) <= 200:
            problems.append(f"no {name} of 40 to 200 characters")
    for name in ("og:title", "og:image", "og:description", "og:site_name", "og:image:alt"):
        meta = page.find("meta", property=name)
        if not meta or not meta.get("content"):
            problems.append(f"no {name}")
        elif re.search(r"\\[a-z]+\b|\$", meta["content"]):
            problems.append(f"{name} holds raw mathematics")
    if not page.find("link", rel="canonical"):
        problems.append("no canonical address")
    return problems


def test_every_page_is_in_order(site):
    redirect = "index.html"  # only sends the browser to the first page
    problems = {
        name: page_problems(page) for name, page in pages_of(site).items() if name != redirect
    }
    assert {name: found for name, found in problems.items() if found} == {}


def test_every_page_of_the_book_describes_itself(site):
    problems = {name: content_problems(parsed(site / f"{name}.html")) for name in CONTENT}
    assert {name: found for name, found in problems.items() if found} == {}


GOOD = """<html lang="en"><head><title>T</title><link rel="icon" href="x">
<link rel="canonical" href="x">
<meta name="description" content="What this page is about, in a sentence of its own.">
<meta property="og:title" content="T"><meta property="og:image" content="x">
<meta property="og:description" content="What this page is about.">
<meta property="og:site_name" content="S"><meta property="og:image:alt" content="A box.">
</head><body><article><h1>T</h1><h2>One</h2><img src="logo.svg" alt="The book, home">
</article></body></html>"""

PAGE_DEFECTS = {
    "level-one headings": ("<h2>One</h2>", "<h1>One</h1>"),
    "no language": (' lang="en"', ""),
    "no title": ("<title>T</title>", "<title></title>"),
    "no favicon": ('rel="icon"', 'rel="x"'),
    "jumps": ("<h2>One</h2>", "<h3>One</h3>"),
    "alt ''": ('alt="The book, home"', 'alt=""'),
    "alt 'a/logo.svg'": ("The book, home", "a/logo.svg"),
    "without a caption": (
        "<h2>One</h2>",
        f'<div class="cell_output"><img src="x" alt="{"x" * 50}"></div>',
    ),
    "trouble": ("<h2>One</h2>", '<span class="problematic">:func:`x`</span>'),
    "markup left": ("<h2>One</h2>", "<p>see {prf:ref}`thm`</p>"),
    "loaded from another host": ("<h2>One</h2>", '<script src="https://x.org/a.js"></script>'),
    "is used 2 times": ("<h2>One</h2>", '<p id="a"></p><p id="a"></p>'),
    "no description": ('name="description"', 'name="x"'),
    "no og:image": ('"og:image"', '"og:x"'),
    "raw mathematics": ("What this page is about.", "The mean $x$ \\mu"),
    "no canonical": ('rel="canonical"', 'rel="x"'),
}


@pytest.mark.parametrize("message", PAGE_DEFECTS)
def test_a_defect_on_a_page_is_noticed(message):
    def problems(text: str) -> list[str]:
        page = BeautifulSoup(text, "html.parser")
        return page_problems(page) + content_problems(page)

    assert problems(GOOD) == []
    old, new = PAGE_DEFECTS[message]
    assert old in GOOD
    assert any(message in problem for problem in problems(GOOD.replace(old, new)))


# --- the reference, the search, the preview -------------------------------------------------------


def public_module(name: str):
    """A module of the package: with the layers comes torch, which few tests of the site need."""
    return importlib.import_module(f"normtutor.{name}")


def public_names(module: str) -> list[str]:
    return [f"normtutor.{module}.{name}" for name in public_module(module).__all__]


def missing_names(page: BeautifulSoup, names: list[str]) -> list[str]:
    described = {element.get("id") for element in page.find_all("dt")}
    return [name for name in names if name not in described]


def test_the_reference_lists_every_public_name(site):
    names = public_names("norms") + public_names("layers")
    assert missing_names(parsed(site / "book" / "api.html"), names) == []


# What a reader of the reference has no use for.
INTERNAL = {
    "normtutor.tracing",
    "normtutor.validation",
    # Parts of packages whose names the reference lists at the package.
    *(f"normtutor.anatomy.{name}" for name in ("computed", "graph", "parts", "running")),
    *(f"normtutor.diagnosis.{name}" for name in ("averages", "batches", "bench", "report")),
    *(f"normtutor.layers.{name}" for name in ("batch", "by_hand", "common", "conditional")),
    *(f"normtutor.layers.{name}" for name in ("example", "power", "token", "weight")),
    *(f"normtutor.grading.{name}" for name in ("answers", "child", "classes", "nbgrader")),
    *(f"normtutor.grading.{name}" for name in ("platforms", "references", "roster", "sandbox")),
    *(f"normtutor.grading.{name}" for name in ("slips", "wall")),
    "normtutor.grading.tasks",
    *(f"normtutor.grading.tasks.chapter_{number:02}" for number in range(1, 9)),
}


def test_the_reference_describes_every_module(site):
    page = parsed(site / "book" / "api.html")
    text, ids = page.get_text(), ids_of(page)
    modules = [path.relative_to(ROOT).with_suffix("") for path in ROOT.glob("normtutor/**/*.py")]
    names = {".".join(path.parts).removesuffix(".__init__") for path in modules}
    names = {n for n in names if not n.startswith("normtutor.norms.") and "__main__" not in n}
    missing = {
        name for name in names - INTERNAL if f"module-{name}" not in ids and f"{name}." not in text
    }
    assert missing == set()


def test_a_missing_name_is_noticed(site):
    page = parsed(site / "book" / "api.html")
    assert missing_names(page, ["normtutor.norms.layer_norm", "normtutor.norms.gone"]) == [
        "normtutor.norms.gone"
    ]


def test_every_public_name_says_what_it_does(site):
    page = parsed(site / "book" / "api.html")
    short = []
    for name in public_names("norms") + public_names("layers"):
        described = page.find("dt", id=name).find_next_sibling("dd").get_text(" ", strip=True)
        if len(described) < 60:
            short.append(name)
    assert short == []


def test_docstrings_cite_the_bibliography(site):
    links = parsed(site / "book" / "api.html").select('a[href*="bibliography.html#"]')
    assert {"ioffe2015", "ba2016", "zhang2019rms"} <= {
        link["href"].split("#")[1].removeprefix("id") for link in links
    } or len(links) >= 5


def test_the_bibliography_says_what_was_read_of_each_work(site):
    entries = parsed(site / "book" / "bibliography.html").find_all("div", "citation")
    assert len(entries) == (ROOT / "book" / "references.bib").read_text().count("\n@")
    without = [entry["id"] for entry in entries if "Read: " not in entry.select("em")[-1].text]
    assert without == []


def test_nothing_of_the_search_of_sphinx_is_left(site):
    assert not list(site.rglob("searchindex.js"))
    assert "searchtools" not in (site / "search.html").read_text(encoding="utf-8")


def test_the_favicon_and_the_preview_are_there(site):
    page = parsed(site / "book" / "index.html")
    icon = page.find("link", rel="icon")["href"]
    assert (site / "book" / icon).resolve().is_file()
    image = page.find("meta", property="og:image")["content"]
    assert image.startswith(BASE)
    data = (site / image.removeprefix(BASE)).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == (1200, 630)


def test_the_sitemap_names_every_page(site):
    text = (site / "sitemap.xml").read_text(encoding="utf-8")
    named = re.findall(r"<loc>(.*?)</loc>", text)
    cards = [f"book/claim-{claim.name}" for claim in claims.CLAIMS]
    assert sorted(named) == sorted(f"{BASE}{name}.html" for name in [*CONTENT, *cards])


def test_a_page_waits_for_its_style_alone(site):
    for name in CONTENT:
        page = parsed(site / f"{name}.html")
        (style,) = page.find_all("link", rel="stylesheet")
        assert style["href"].split("?")[0].endswith("_static/site.css"), name
        assert not page.find_all("link", rel="preload"), name
        for script in page.head.find_all("script", src=True):
            assert script.has_attr("defer") or script.get("type") == "module", script


def test_every_icon_is_in_the_fonts_that_are_left(site):
    style = (site / "_static" / "site.css").read_text(encoding="utf-8")
    assert len(style.encode()) < 250_000
    fonts = [
        set(TTFont(io.BytesIO(base64.b64decode(data))).getBestCmap())
        for data in re.findall(r"data:font/woff;base64,([^\"]+)", style)
    ]
    assert len(fonts) == 2 and all(len(font) < 60 for font in fonts)
    for name in CONTENT:
        for icon in parsed(site / f"{name}.html").find_all("i", re.compile("fa-")):
            (kind,) = {n for n in icon["class"] if re.match("fa-", n)} - {"fa-solid", "fa-lg"}
            code = re.search(rf"\.{kind}:before\s*{{\s*content:\s*\"\\([0-9a-f]+)", style)
            assert code, kind
            assert any(int(code[1], 16) in font for font in fonts), kind


# How many parts these elements of MathML have; Firefox refuses to show others. KaTeX writes a wrong
# one for an operator such as \min in an index: \mathrm{min} is right.
PARTS = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2}
PARTS |= {"msubsup": 3, "munderover": 3}


def test_equations_are_set_and_can_be_read_aloud(site):
    text = (site / "_static" / "katex" / "katex.min.css").read_text(encoding="utf-8")
    needed = set(re.findall(r"fonts/[\w-]+\.woff2", text))
    assert {n for n in needed if not (site / "_static" / "katex" / n).exists()} == set()
    for name in CONTENT:
        page = parsed(site / f"{name}.html")
        for equation in chosen(page, "span.math", "div.math"):
            latex = equation.find("annotation")
            assert latex, equation
            parts = [part for math in equation.find_all("math") for part in math.find_all(True)]
            for part in parts:
                number = len(part.find_all(recursive=False))
                assert PARTS.get(part.name, number) == number, latex.text
        assert not chosen(page, ".katex-error"), name


def test_figures_keep_their_place_while_they_load(site):
    for name in CONTENT:
        for image in chosen(parsed(site / f"{name}.html"), ".cell_output img"):
            assert image["loading"] == "lazy" and int(image["width"]) and int(image["height"])


def test_chapters_show_what_they_computed(site):
    for name in CHAPTERS:
        page = parsed(site / f"{name}.html")
        # The first page and the short tour show figures alone.
        shown = chosen(page, ".cell_output pre", ".cell_output table")
        assert shown or name.endswith(("index", "fifteen_minutes")), name
        # A reference may do without pictures.
        assert chosen(page, ".cell_output img") or re.search("in_depth|recipes$", name), name
        assert "NBVAL" not in page.get_text(), name  # a note to the tests, not to the reader


def test_layers_and_norms_are_documented_where_they_are_defined():
    for module in map(public_module, ("norms", "layers")):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isroutine(value) or inspect.isclass(value):
                assert inspect.getdoc(value), name
