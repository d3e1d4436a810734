"""A main line is read in twenty minutes: what a reader sees of it is counted on the built site."""

import pytest
from browser import DESKTOP, needs_chromium
from bs4 import BeautifulSoup, NavigableString, Tag
from site_pages import DEPTH, MAIN_LINES, MEASURED, chosen, parsed

CHAPTERS_IN_ORDER = MEASURED[1:]
WORDS, LINES, CELLS, LINES_IN_A_CELL, FIGURES, FOLDED = 2500, 120, 12, 15, 2, 1 / 3
ROWS_OF_TEXT = 10
FIRST_FIGURE = 1200  # pixels from the top of the page, in a window of 1366 by 768


def has(tag: Tag, *classes: str) -> bool:
    return not set(classes).isdisjoint(tag.get("class", ()))


def is_no_prose(tag: Tag) -> bool:
    """Code and what it writes, equations, tables, menus, and what stands in a drawing."""
    return (
        tag.name in ("script", "style", "svg", "table")
        or (tag.name == "div" and has(tag, "cell", "highlight"))
        or has(tag, "katex", "headerlink", "code-switch", "prev-next-area")
    )


def is_fold(tag: Tag) -> bool:
    return (
        tag.name == "details"
        or has(tag, "toggle")
        or {"admonition", "dropdown"} <= set(tag.get("class", ()))
    )


def words_in(element: Tag) -> int:
    """Count the words of prose outside of folds; captions count, code and equations do not."""
    texts = []
    waiting: list[tuple[object, bool]] = [(element, True)]
    while waiting:
        node, counts = waiting.pop()
        if type(node) is NavigableString and counts:
            texts.append(node)
        # The words of an interactive figure stand there for readers without scripts.
        if not isinstance(node, Tag) or is_interactive(node) or is_fold(node):
            continue
        if node.name == "figcaption":
            texts.append(node.get_text(" "))
        else:
            counts = counts and not is_no_prose(node)
            waiting += [(child, counts) for child in node.contents]
    return sum(len(text.split()) for text in texts)


def is_folded(tag) -> bool:
    return any(
        parent.name == "details" or "toggle" in parent.get("class", []) for parent in tag.parents
    )


def is_interactive(tag) -> bool:
    return tag.name.startswith("nt-")


def measured(page: BeautifulSoup) -> dict[str, float]:
    """Count what a reader sees of a page, and how much of it is folded."""
    article = page.find("article", "bd-article")
    inputs = [box for box in chosen(article, "div.cell_input pre") if not is_folded(box)]
    lines = [sum(bool(line.strip()) for line in box.get_text().splitlines()) for box in inputs]
    outputs = [
        box.get_text() for box in chosen(article, "div.cell_output pre") if not is_folded(box)
    ]
    drawings = [tag for tag in article.find_all(is_interactive) if not is_folded(tag)]
    images = [
        tag for tag in article.find_all("img") if not has(tag, "only-dark") and not is_folded(tag)
    ]
    folded = [tag for tag in article.find_all(is_fold) if not is_folded(tag)]
    folded_words = sum(len(tag.get_text(" ").split()) for tag in folded)
    all_words = len(article.get_text(" ").split())
    return {
        "words": words_in(article),
        "cells": len(lines),
        "lines": sum(lines),
        "lines in a cell": max(lines, default=0),
        "rows printed": max((text.strip().count("\n") + 1 for text in outputs), default=0),
        "figures": len(images) + len(drawings),
        "folded": folded_words / max(1, all_words),
    }


def over_budget(found: dict[str, float]) -> list[str]:
    """Name what a main line has too much of, or too little."""
    most = {
        "words": WORDS,
        "cells": CELLS,
        "lines": LINES,
        "lines in a cell": LINES_IN_A_CELL,
        "rows printed": ROWS_OF_TEXT,
        "folded": FOLDED,
    }
    problems = [
        f"{name}: {found[name]:.4g}, at most {limit:.4g}"
        for name, limit in most.items()
        if found[name] > limit
    ]
    if found["figures"] < FIGURES:
        problems.append(f"figures: {found['figures']}, at least {FIGURES}")
    return problems


@pytest.mark.parametrize("name", MAIN_LINES)
def test_a_main_line_keeps_to_its_budget(site, name):
    found = measured(parsed(site / f"{name}.html"))
    assert over_budget(found) == [], found


@pytest.mark.parametrize("name", MAIN_LINES)
def test_a_main_line_and_its_depth_page_lead_to_each_other(site, name):
    depth = DEPTH[name]
    for page, other in ((name, depth), (depth, name)):
        links = parsed(site / f"{page}.html").find("article").find_all("a", href=True)
        targets = {link["href"].split("#")[0].rsplit("/", 2)[-1] for link in links}
        assert f"{other.rsplit('/', 1)[-1]}.html" in targets


def test_the_whole_story_takes_fifteen_minutes(site):
    page = parsed(site / "book" / "fifteen_minutes.html")
    found = measured(page)
    assert found["words"] <= 1400
    assert found["cells"] == 0
    assert found["figures"] >= 7
    article = page.find("article", "bd-article")
    assert len(article.find_all(is_interactive)) >= 3
    assert not article.select(".proof")
    chapters = {link["href"].split("#")[0] for link in article.select("a[href]")}
    assert {f"{name.rsplit('/', 1)[-1]}.html" for name in CHAPTERS_IN_ORDER} <= chapters


# All words that a reader sees, those in figures and boxes too; an equation is read once.
WORDS_SEEN = """() => {
  const silent = ["STYLE", "SCRIPT", "TITLE", "DESC", "OPTION"];
  const said = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return `${node.data} `;
    if (node.nodeType !== Node.ELEMENT_NODE) return "";
    if (silent.includes(node.nodeName.toUpperCase()) || node.matches(".katex-mathml")) return "";
    if (getComputedStyle(node).display === "none") return "";
    return [...(node.shadowRoot ?? node).childNodes].map(said).join("");
  };
  return said(document.querySelector("article.bd-article")).split(/\\s+/).filter(Boolean).length;
}"""


@needs_chromium
def test_the_whole_story_has_few_words_even_with_those_in_its_figures(site, serve, open_page):
    page = open_page(viewport={"width": 1366, "height": 768})
    page.goto(f"{serve(site)}book/fifteen_minutes.html")
    names = page.evaluate(
        """() => [...document.querySelectorAll("article.bd-article *")]
            .map((tag) => tag.localName).filter((name) => name.startsWith("nt-"))"""
    )
    for name in set(names):
        page.locator(name).first.locator("svg, table").first.wait_for(state="attached")
    assert 1500 <= page.evaluate(WORDS_SEEN) <= 2300


@needs_chromium
@pytest.mark.parametrize("name", MAIN_LINES)
def test_the_first_figure_comes_early(site, serve, open_page, name):
    page = open_page(**{**DESKTOP, "viewport": {"width": 1366, "height": 768}})
    page.goto(f"{serve(site)}{name}.html")
    tops = page.evaluate(
        """() => [...document.querySelectorAll("article.bd-article img, article.bd-article *")]
            .filter((tag) => tag.tagName == "IMG" || tag.localName.startsWith("nt-"))
            .map((tag) => tag.getBoundingClientRect().top + scrollY)"""
    )
    assert min(tops) <= FIRST_FIGURE


def soup(html: str) -> BeautifulSoup:
    return BeautifulSoup(html, "html.parser")


def page_of(**parts: int | str) -> BeautifulSoup:
    """A page with so many words, figures, visible cells and folded words."""
    cell = f"<div class='cell'><div class='cell_input'><pre>{'x = 1' + chr(10)}</pre></div></div>"
    return soup(
        "<article class='bd-article'><p>"
        + "word " * int(parts.get("words", 100))
        + "</p>"
        + "<figure><img><figcaption>seen</figcaption></figure>" * int(parts.get("figures", 5))
        + cell.replace("x = 1\n", "x = 1\n" * int(parts.get("lines", 3)))
        * int(parts.get("cells", 3))
        + f"<details>{'folded ' * int(parts.get('folded', 0))}</details>"
        + f"<div class='cell_output'><pre>{'row' + chr(10)}</pre></div>".replace(
            "row\n", "row\n" * int(parts.get("rows", 1))
        )
        + "</article>"
    )


def test_a_page_within_its_budget_is_let_pass():
    assert over_budget(measured(page_of())) == []


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"words": 2501}, "words"),
        ({"figures": 1}, "figures"),
        ({"cells": 13}, "cells"),
        ({"cells": 10, "lines": 13}, "lines"),
        ({"lines": 16}, "lines in a cell"),
        ({"rows": 11}, "rows printed"),
        ({"folded": 400}, "folded"),
    ],
)
def test_what_is_over_its_budget_is_named(parts, problem):
    problems = over_budget(measured(page_of(**parts)))
    assert [text.split(":")[0] for text in problems] == [problem]


def test_the_prose_of_a_notebook_is_counted():
    # Each section of a notebook asks MathJax to pass it by.
    page = "<section class='tex2jax_ignore mathjax_ignore'><p>two words</p></section>"
    assert words_in(soup(page)) == 2


def test_words_that_stand_in_for_a_drawing_are_no_prose():
    page = "<p>two words</p><nt-x><figure><figcaption>not seen</figcaption></figure></nt-x>"
    assert words_in(soup(page)) == 2


def test_equations_code_and_tables_are_no_prose():
    page = "<p>two words <span class='katex'>a b c</span></p><table><td>three four</td></table>"
    assert words_in(soup(page)) == 2
