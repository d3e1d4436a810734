"""Readers' notebooks say what the site says, in Markdown that every notebook program shows.

How a part of a page becomes Markdown: tests/book/test_readers_markdown.py.
"""

import functools
import re
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urljoin

import nbformat
import pytest
import readers
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from packaging.requirements import Requirement
from site_pages import BASE, CONFIG, NOTEBOOKS, chosen, leads_nowhere, parsed, source_of

SETUP = "setup"  # the id of the cell that only Colab needs


def name_of(page: str) -> str:
    return f"notebooks/{page.removeprefix('book/')}.ipynb"


class Reader:
    """A reader's notebook, beside the page of the site and the notebook of the book."""

    def __init__(self, site: Path, page: str):
        self.page = page
        self.cells = nbformat.read(site / name_of(page), as_version=4).cells
        self.source = nbformat.read(source_of(page), as_version=4)
        self.whole = parsed(site / f"{page}.html")
        self.article = self.whole.find("article", "bd-article")
        self.texts = [cell.source for cell in self.cells if cell.cell_type == "markdown"]
        self.texts += self.outputs("text/markdown")  # such as the entries of the ledger
        self.text = "\n".join(self.texts)

    def outputs(self, kind: str) -> list[str]:
        """All its outputs of a kind."""
        outputs = (output for cell in self.cells for output in cell.get("outputs", []))
        return [output.data[kind] for output in outputs if kind in output.get("data", {})]


@pytest.fixture(scope="module")
def notebooks(site):
    """Read all readers' notebooks: every page with code has one, and no other is there."""
    found = {path.relative_to(site).as_posix() for path in (site / "notebooks").rglob("*.ipynb")}
    assert found == {name_of(page) for page in NOTEBOOKS}
    return [Reader(site, page) for page in NOTEBOOKS]


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def flat_texts(tags) -> list[str]:
    return [flat(tag.get_text()) for tag in tags]


# --- code -----------------------------------------------------------------------------------------


def test_the_code_is_the_books_to_the_letter(notebooks):
    for reader in notebooks:
        own, books = (
            [cell.source for cell in cells if cell.cell_type == "code" and cell.id != SETUP]
            for cells in (reader.cells, reader.source.cells)
        )
        assert own == books, reader.page
        assert f"]({BASE}{reader.page}.html)" in reader.cells[0].source


def test_code_that_the_site_folds_is_folded(notebooks):
    hides = {"hide-input", "remove-input", "hide-cell", "remove-cell"}
    for reader in notebooks:
        solutions = set(flat_texts(chosen(reader.article, "div.solution div.cell_input pre")))
        found = set()
        for cell in (cell for cell in reader.cells if cell.cell_type == "code"):
            shown = flat(cell.source.removeprefix("# NBVAL_CHECK_OUTPUT\n"))
            tags = set(cell.metadata.get("tags", []))
            hidden = bool(tags & hides) or cell.id == SETUP or shown in solutions
            folded = cell.metadata.get("jupyter", {}).get("source_hidden", False)
            assert folded == hidden, (reader.page, cell.source)
            assert (cell.metadata.get("cellView") == "form") == hidden, reader.page
            found.add(shown)
        assert solutions <= found, reader.page


# --- Markdown and equations -----------------------------------------------------------------------


@functools.cache
def markdown() -> MarkdownIt:
    """Markdown as notebook programs read it: with tables and dollars, without directives."""
    return MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, double_inline=True)


@functools.cache
def tokens_of(text: str) -> list[Token]:
    """List all tokens of a text, those inside of lines too."""
    found = []
    for token in markdown().parse(text):
        found += [token, *(token.children or [])]
    return found


LEFT_OVER = re.compile(
    r"""\{[a-z]+(?::[a-z]+)?\}         # a role or a directive
    | ^\s*:[a-z-]+:                    # an option of one
    | ^:::|^```\{                      # the fence of one
    | \[\?\]|\?\?|%s                   # what was not found
    | \*\*|\$|\\begin                  # marks that did not become anything
    | \b(?:eq|thm|def|fig|sec|ex|sol|cor|prop|lem)-[a-z]+-[a-z-]+  # a label
    """,
    re.VERBOSE | re.MULTILINE,
)


def left_over(text: str) -> list[str]:
    """List what no reader should see: directives, labels, marks that stayed marks."""
    shown = [token.content for token in tokens_of(text) if token.type == "text"]
    fences = [t.info for t in tokens_of(text) if t.type == "fence" and "{" in t.info]
    scripts = [t.content for t in tokens_of(text) if "html" in t.type and "<script" in t.content]
    return [
        *fences,
        *scripts,
        *(match[0] for words in shown for match in LEFT_OVER.finditer(words)),
    ]


def test_nothing_is_left_that_only_the_site_understands(notebooks):
    texts = [(reader.page, text) for reader in notebooks for text in reader.texts]
    found = {(page, text[:80]): left_over(text) for page, text in texts}
    assert {place: words for place, words in found.items() if words} == {}


def test_equations_stand_on_one_line(notebooks):
    """Programs part text from mathematics before they look for quotes and lists."""
    lines = [line for reader in notebooks for text in reader.texts for line in text.split("\n")]
    assert [line for line in lines if line.count("$$") % 2] == []
    assert sum(line.count("$$") for line in lines) > 100


# --- numbers, boxes and figures -------------------------------------------------------------------


BOX = r"Theorem|Lemma|Corollary|Proposition|Definition|Exercise"


def test_boxes_equations_and_figures_have_the_numbers_of_the_site(notebooks):
    total = Counter()
    for reader in notebooks:
        titles = flat_texts(chosen(reader.article, "p.admonition-title"))
        equations = flat_texts(chosen(reader.article, ".eqno"))
        on_site = {
            "boxes": [m[0] for title in titles if (m := re.match(rf"({BOX}) \d+\.\d+", title))],
            "equations": [number[1:].split(")")[0] for number in equations],
            "figures": flat_texts(chosen(reader.article, "figcaption .caption-number")),
        }
        title = rf"^> (?:<a [^>]*></a>)*\*\*((?:{BOX}) \d+\.\d+)\*\*"
        here = {
            "boxes": re.findall(title, reader.text, re.MULTILINE),
            "equations": re.findall(r"\\tag\{([^}]*)\}", reader.text),
            "figures": re.findall(r"\*\*(Fig\. [\d.]*\d)\.\*\*", reader.text),
        }
        assert here == on_site, reader.page
        total.update({kind: len(numbers) for kind, numbers in here.items()})
    assert min(total.values()) > 50, total


def test_solutions_are_folded(notebooks):
    for reader in notebooks:
        solutions = chosen(reader.article, "div.solution")
        fold = r"<summary><b>(?:<a [^>]*></a>)*(Solution to Exercise [\d.]+)"
        assert len(set(re.findall(fold, reader.text))) == len(solutions), reader.page


def test_a_figure_has_one_drawing_and_an_interactive_one_is_a_link(notebooks):
    """The narrow drawing is for the site on a telephone; the data stay on the site, too."""
    drawings = [drawing for reader in notebooks for drawing in reader.outputs("image/svg+xml")]
    assert len(drawings) > 60
    assert [drawing[:80] for drawing in drawings if drawing.count("<svg ") != 1] == []
    interactive = 0
    for reader in notebooks:
        figures = [html for html in map("".join, reader.outputs("text/html")) if "<nt-" in html]
        assert not any("application/json" in html for html in figures), reader.page
        link = f"[interactive figure]({BASE}{reader.page}.html)"
        assert reader.text.count(link) >= len(figures), reader.page
        interactive += len(figures)
    assert interactive >= 10


# --- links ----------------------------------------------------------------------------------------


def links_of(text: str) -> list[str]:
    found = [token.attrGet("href") for token in tokens_of(text) if token.type == "link_open"]
    return [*map(str, found), *re.findall(r'href="([^"]+)"', text)]


def test_no_link_is_broken_and_no_anchor_comes_twice(site, notebooks):
    problems, followed = [], 0
    for reader in notebooks:
        times = Counter(re.findall(r'<a id="([^"]+)">', reader.text))
        problems += [(reader.page, name) for name, count in times.items() if count > 1]
        links = [link for text in reader.texts for link in links_of(text)]
        problems += [
            (reader.page, link)
            for link in links
            if (link[1:] not in times if link.startswith("#") else leads_nowhere(site, link))
        ]
        followed += len(links)
    assert problems == []
    assert followed > 1000


# --- the first cells, and the buttons -------------------------------------------------------------


@pytest.mark.parametrize("on_colab", [True, False])
def test_only_colab_installs(on_colab, site, notebooks, monkeypatch):
    commands = []
    monkeypatch.setattr(subprocess, "run", lambda command, **options: commands.append(command))
    if on_colab:
        monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    (code,) = {reader.cells[1].source for reader in notebooks}
    exec(code, {})
    assert len(commands) == on_colab
    for command in commands:
        assert command[:4] == [sys.executable, "-m", "pip", "install"]
        needs = list(map(Requirement, command[-2:]))
        assert [need.name for need in needs] == ["normtutor", "normtutor-studies"]
        assert needs[0].extras == {"notebooks"}
        for need in needs:
            assert need.url is not None and need.url.startswith(BASE)
            assert (site / need.url.removeprefix(BASE)).is_file()


def test_the_buttons_lead_to_the_notebooks(notebooks):
    repository = CONFIG["repository"]["url"].removeprefix("https://github.com/")
    for reader in notebooks:
        name = name_of(reader.page).removeprefix("notebooks/")
        links = chosen(reader.whole, ".article-header-buttons a")
        buttons = {flat(link.get_text()): link.get("href") for link in links}
        address = urljoin(f"{BASE}{reader.page}.html", buttons[".ipynb"])
        assert address == f"{BASE}notebooks/{name}"
        assert buttons["Colab"].endswith(f"/github/{repository}/blob/notebooks/{name}")
        path = f"/v2/gh/{repository}/notebooks?urlpath=lab/tree/{name}"
        assert unquote(buttons["Binder"]).endswith(path)


# --- as a reader executes them --------------------------------------------------------------------


def test_a_notebook_runs_in_an_empty_folder_with_the_wheels_alone(site, tmp_path):
    """`make audit` runs them all."""
    folder = site / "notebooks"
    with readers.reader(sorted(folder.glob("*.whl"))) as python:
        where = [python, "-I", "-c", "import normtutor; print(normtutor.__file__)"]
        found = subprocess.run(where, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert Path(found.stdout.strip()).is_relative_to(python.parent.parent)
        done = readers.execute(folder / "03_batch_norm_vs_layer_norm.ipynb", python)
        assert done.problem == ""
        assert 50 < done.megabytes < readers.MEGABYTES
