"""What readers ask of the search, in their words, and where it must lead them.

Each line of ``queries.tsv`` has a question from a forum or a tracker, the address of its thread,
and the sections that answer it, separated by bars: the page, a colon, and some words of the
section's title or its page's; no words mean any section of the page, and the page "claims" means
the card of the claim that has the words. A bare "-" says that the book has no answer: such a
question does not land. A result that is about the subject, and no answer, does not count. The
lines of ``chinese.tsv`` are the book's own, and have no thread.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from browser import needs_chromium

BOOK = Path(__file__).resolve().parents[2] / "book"

MOST_SHARED = 0.6  # of a question's words with a phrase that the index holds

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
        query, *thread, answers = line.split("\t")
        assert query not in queries, f"{query!r} stands there twice"
        assert all(address.startswith("http") for address in thread), thread
        queries[query] = [
            Section(page.strip(), words.strip().lower())
            for page, _, words in (answer.partition(":") for answer in answers.split("|"))
            if page != "-"
        ]
    return queries


QUERIES = read(Path(__file__).with_name("queries.tsv").read_text(encoding="utf-8"))
CHINESE = read(Path(__file__).with_name("chinese.tsv").read_text(encoding="utf-8"))


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
        for query, answers in (QUERIES | CHINESE).items()
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
        if not re.match(rf"([\d.]+ )?{re.escape(title.removesuffix('s'))}s?([ ,:?]|$)", found)
    ]
    assert lost == []


SMALL = frozenset(
    "a an and are as at be but by can do does for from has have how i if in is it its my no not of "
    "on or so than that the then this to use what when where which why will with would should you "
    "your after before into vs".split()
)


def content(text: str) -> set[str]:
    """The words of a text that say what it is about."""
    found = re.findall(r"[a-z0-9_.]+", text.lower())
    return {word for word in found if word not in SMALL and len(word) > 1}


def test_no_question_repeats_a_phrase_that_the_index_holds():
    """A phrase that was added because a question failed would make it a test of nothing."""
    asked = (BOOK / "_ext" / "asked.tsv").read_text(encoding="utf-8").splitlines()
    phrases = [phrase for line in asked for phrase in line.split("\t")[2].split(" | ")]
    for path in (BOOK / "answers").glob("*.md"):
        text = path.read_text(encoding="utf-8")
        phrases += re.findall(r"^## (.*)$", text, re.MULTILINE)
        for line in re.findall(r"^% words: (.*)$", text, re.MULTILINE):
            phrases += line.split(" | ")
    held = [words for phrase in phrases if (words := content(phrase))]
    assert len(phrases) <= 2800
    for query in QUERIES:
        words = content(query)
        assert all(len(words & phrase) < MOST_SHARED * len(words) for phrase in held), query


@needs_chromium
def test_how_many_questions_land_is_printed(page, capsys):
    """Nothing fails by it: what the index has not seen is measured, and no phrase is added."""
    found = zip(QUERIES.items(), page.evaluate(ASK, list(QUERIES)), strict=True)
    landed = [
        any(section.is_at(*result) for section in sections for result in results)
        for (_, sections), results in found
    ]
    with capsys.disabled():
        share = f"{sum(landed)} of {len(landed)}"
        print(f"\nquestions whose section is among the first three: {share}")
    assert any(landed)


@needs_chromium
def test_a_question_in_chinese_finds_its_section(page):
    """The words are the book's own: each leads to its section, alone and in a sentence."""
    found = zip(CHINESE.items(), page.evaluate(ASK, list(CHINESE)), strict=True)
    lost = [
        f"{query}: {results}"
        for (query, sections), results in found
        if not any(section.is_at(*result) for section in sections for result in results)
    ]
    assert lost == []
