"""What readers ask of the search, in their words, and where it must lead them.

Each line of ``queries.tsv`` has a query and, after a tab, the sections that answer it, separated by
bars: the page, a colon, and some words of the section's title or its page's; no words mean any
section of the page, and the page "claims" means the card of the claim that has the words. A result
that is about the subject, and no answer, does not count.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from browser import needs_chromium

SHARE = 0.95  # of the queries have a section that answers among the first three

# What the field shows, without the field: that it shows results is held in test_search.py.
ASK = """(queries) => {
  const { terms, searchIndexText } = window;
  const index = MiniSearch.loadJSON(searchIndexText, terms.OPTIONS);
  return queries.map((query) => terms.search(index, query).slice(0, 3).map(
    ({ address, page, title }) => [`/${address.split("#")[0]}`, `${title || page} ${page ?? ""}`]
  ));
}"""
TITLES = """() => Object.values(JSON.parse(window.searchIndexText).storedFields)
  .filter(({ kind, title }) => title && kind !== "api" && kind !== "work")
  .map(({ title }) => title)"""
SECTIONS = """() => Object.values(JSON.parse(window.searchIndexText).storedFields)
  .map(({ address, page, title }) => [`/${address.split("#")[0]}`, `${title} ${page}`])"""


class Section(NamedTuple):
    """A page, and words that the title of the section or of the page has."""

    page: str
    words: str

    def is_at(self, path: str, titles: str) -> bool:
        page = "claim-[a-z0-9-]+" if self.page == "claims" else re.escape(self.page)
        return bool(re.search(rf"/book/{page}\.html$", path)) and self.words in titles.lower()


def read(text: str) -> dict[str, list[Section]]:
    """Read the queries: what is asked, and the sections that answer it."""
    queries = {}
    for line in text.splitlines():
        query, answers = line.split("\t")
        assert query not in queries, f"{query!r} stands there twice"
        queries[query] = [
            Section(page.strip(), words.strip().lower())
            for page, _, words in (answer.partition(":") for answer in answers.split("|"))
        ]
    return queries


QUERIES = read(Path(__file__).with_name("queries.tsv").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(browser, site, serve):
    from browser import new_page

    page = new_page(browser)
    page.goto(f"{serve(site)}search.html?q=norm")
    page.locator(".search-results a").first.wait_for()
    yield page
    page.context.close()


@needs_chromium
def test_every_section_that_should_be_found_exists(page):
    sections = page.evaluate(SECTIONS)
    gone = [
        f"{query}: {section}"
        for query, answers in QUERIES.items()
        for section in answers
        if not any(section.is_at(*one) for one in sections)
    ]
    assert gone == []


@needs_chromium
def test_a_title_finds_its_section_first(page):
    """The guide once came eighth for its own title, "What is RMSNorm" behind an error of ONNX."""
    titles = {re.sub(r"^[\d.]+ ", "", title) for title in page.evaluate(TITLES)}
    begun = {re.split(r"[,:] | \(", title)[0] for title in titles if title.startswith("What is ")}
    titles = sorted(titles | begun)
    assert len(titles) > 400
    first = [results[0][1] if results else "" for results in page.evaluate(ASK, titles)]
    lost = [
        f"{title}: {found}"
        for title, found in zip(titles, first, strict=True)
        if not re.match(rf"([\d.]+ )?{re.escape(title.removesuffix('s'))}s?([ ,:]|$)", found)
    ]
    assert lost == []


@needs_chromium
def test_a_section_that_answers_is_among_the_first_three(page):
    found = zip(QUERIES.items(), page.evaluate(ASK, list(QUERIES)), strict=True)
    lost = [
        f"{query}: {'; '.join(titles for _, titles in results)}"
        for (query, sections), results in found
        if not any(section.is_at(*result) for section in sections for result in results)
    ]
    share = 1 - len(lost) / len(QUERIES)
    assert share >= SHARE, "\n".join([f"{share:.1%} of the queries land; these do not:", *lost])
