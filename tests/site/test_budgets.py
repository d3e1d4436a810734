"""A main line is read in twenty minutes: what a reader sees of it is counted on the built site.

That its first figure is early, test_pages.py sees in the browser; test_visible_cells.py, its cells.
"""

import pytest
from bs4 import NavigableString, Tag
from site_pages import MAIN_LINES, MEASURED, chosen, parsed

MOST = {
    "words": 2000,
    "rows printed": 10,
    "folded": 1 / 3,  # of all words
}
FIGURES = 2  # at least


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


def is_interactive(tag: Tag) -> bool:
    return tag.name.startswith("nt-")


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


def unfolded(tags: list[Tag]) -> list[Tag]:
    return [
        tag
        for tag in tags
        if not any(parent.name == "details" or has(parent, "toggle") for parent in tag.parents)
    ]


def measured(article: Tag) -> dict[str, float]:
    """Count what a reader sees of a page, and how much of it is folded."""
    outputs = [box.get_text() for box in unfolded(chosen(article, "div.cell_output pre"))]
    drawings = unfolded(article.find_all(is_interactive))
    images = [tag for tag in unfolded(article.find_all("img")) if not has(tag, "only-dark")]
    folded = unfolded(article.find_all(is_fold))
    folded_words = sum(len(tag.get_text(" ").split()) for tag in folded)
    return {
        "words": words_in(article),
        "rows printed": max((text.strip().count("\n") + 1 for text in outputs), default=0),
        "folded": folded_words / len(article.get_text(" ").split()),
        "figures": len(images) + len(drawings),
    }


@pytest.fixture
def article(site):
    return lambda name: parsed(site / f"{name}.html").find("article", "bd-article")


def test_main_lines_keep_to_their_budgets(article):
    problems = []
    for name in MAIN_LINES:
        found = measured(article(name))
        assert found["words"] > 500, name  # they are counted
        over = [key for key, most in MOST.items() if found[key] > most]
        over += ["figures"] * (found["figures"] < FIGURES)
        problems += [f"{name}: {key}: {found[key]:.4g}" for key in over]
    assert problems == []


def test_the_whole_story_takes_fifteen_minutes(article):
    page = article("book/fifteen_minutes")
    found = measured(page)
    assert found["words"] <= 1400 and found["figures"] >= 7
    assert not page.select(".proof") and not unfolded(chosen(page, "div.cell_input pre"))
    chapters = {link["href"].split("#")[0] for link in page.select("a[href]")}
    assert {f"{name.rsplit('/', 1)[-1]}.html" for name in MEASURED[1:]} <= chapters
