"""Readers' notebooks say what the site says, in Markdown that every notebook program shows."""

import functools
import importlib
import itertools
import json
import re
import subprocess
import sys
import tomllib
import types
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import nbformat
import pytest
import yaml
from bs4 import Tag
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from packaging.requirements import Requirement
from site_pages import NOTEBOOKS, ROOT, chosen, parsed

sys.path[:0] = [str(ROOT / ".ci"), str(ROOT / "book" / "_ext")]
readers = importlib.import_module("readers")

CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
BASE = CONFIG["html"]["baseurl"]
SETUP = "setup"  # the id of the cell that only Colab needs


def name_of(page: str) -> str:
    return f"notebooks/{page.removeprefix('book/')}.ipynb"


@pytest.fixture(scope="module")
def notebooks(site):
    """Read all readers' notebooks, by the page that they are made from."""
    return {page: nbformat.read(site / name_of(page), as_version=4) for page in NOTEBOOKS}


def texts_of(notebook) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def code_of(notebook) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code" and cell.id != SETUP]


# --- code -----------------------------------------------------------------------------------------


def test_every_page_with_code_has_its_notebook_and_no_other_is_there(site):
    found = {path.relative_to(site).as_posix() for path in (site / "notebooks").rglob("*.ipynb")}
    assert found == {name_of(page) for page in NOTEBOOKS}


def test_the_code_is_the_books_to_the_letter(notebooks):
    for page, notebook in notebooks.items():
        source = nbformat.read(ROOT / f"{page}.ipynb", as_version=4)
        assert code_of(notebook) == code_of(source), page


def test_code_that_the_site_folds_is_folded(site, notebooks):
    hides = {"hide-input", "remove-input", "hide-cell", "remove-cell"}
    for page, notebook in notebooks.items():
        in_solutions = chosen(article(site, page), "div.solution div.cell_input pre")
        solutions, found = {flat(code.get_text()) for code in in_solutions}, set()
        for cell in notebook.cells:
            if cell.cell_type == "code":
                tags = set(cell.metadata.get("tags", []))
                shown = flat(cell.source.removeprefix("# NBVAL_CHECK_OUTPUT\n"))
                hidden = bool(tags & hides) or cell.id == SETUP or shown in solutions
                folded = cell.metadata.get("jupyter", {}).get("source_hidden", False)
                assert folded == hidden, (page, cell.source)
                assert (cell.metadata.get("cellView") == "form") == hidden, page
                found.add(shown)
        assert solutions <= found, page


# --- Markdown -------------------------------------------------------------------------------------


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
    problems = {
        (page, text[:80]): found
        for page, notebook in notebooks.items()
        for text in texts_of(notebook)
        if (found := left_over(text))
    }
    assert problems == {}


def test_what_is_left_is_noticed():
    good = "**Theorem 4.1** (*Blind*) `{eq}` $a_b$\n\n$$x \\tag{4.1}$$\n\n| a |\n| --- |\n| b |"
    assert left_over(good) == []
    for bad in (
        "See {prf:ref}`thm-inv-blind`.",
        "```{prf:theorem} Blind\n:label: thm-inv-blind\n```",
        ":::{note}\nWords\n:::",
        "from **$x$ is.**so",
        "a label, eq-inv-blind, in the text",
        "costs $5",
        "as said [?]",
        "<script>kernelName = 'python3'</script>",
    ):
        assert left_over(bad), bad


# --- equations ------------------------------------------------------------------------------------


def equations_of(text: str) -> list[tuple[str, bool]]:
    """List the equations of a text, and whether they stand alone."""
    kinds = {"math_inline": False, "math_inline_double": True, "math_block": True}
    found = [(t.content, kinds[t.type]) for t in tokens_of(text) if t.type in kinds]
    for token in tokens_of(text):  # the title of a fold is HTML
        if token.type in ("html_block", "html_inline"):
            found += [(latex, False) for latex in re.findall(r"\$([^$]+)\$", token.content)]
    return found


def refused(equations: list[tuple[str, bool]]) -> list[str]:
    """List the equations that KaTeX cannot read."""
    from equations import KATEX, NODE

    script = ROOT / "book" / "_ext" / "equations.cjs"
    run = subprocess.run(
        [NODE, script, KATEX / "katex.js"],
        input=json.dumps(equations),
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    answers = zip(equations, json.loads(run.stdout), strict=True)
    return [latex for (latex, _), answer in answers if "error" in answer]


def test_all_equations_parse(notebooks):
    texts = [text for notebook in notebooks.values() for text in texts_of(notebook)]
    equations = [equation for text in texts for equation in equations_of(text)]
    assert len(equations) > 1000
    assert refused(equations) == []


def test_an_equation_that_does_not_parse_is_noticed():
    (equation,) = equations_of(r"Let $\frac{1}{2$ be it.")
    assert refused([equation, (r"x \tag{1}", True)]) == [r"\frac{1}{2"]


def test_every_equation_stands_on_one_line(notebooks):
    """Programs part text from mathematics before they look for quotes and lists."""
    for page, notebook in notebooks.items():
        for text in texts_of(notebook):
            for line in text.split("\n"):
                assert len(re.findall(r"\$\$", line)) in (0, 2), (page, line)


TOUCHES = re.compile(r"[^\s\w–—/]")


def parted(text: str) -> list[str]:
    """List the marks that a program may set on another line than the equation they belong to."""
    found = []
    for line in markdown().parse(text):
        shown = [t for t in line.children or [] if t.content and t.type in ("math_inline", "text")]
        for first, second in itertools.pairwise(shown):
            before, after = first.content[-1:], second.content[:1]
            if first.type == "math_inline" and second.type == "text" and TOUCHES.match(after):
                found.append(first.content + second.content[:10])
            if second.type == "math_inline" and first.type == "text" and before in "([“‘":
                found.append(first.content[-10:] + second.content)
    return found


def test_no_line_begins_with_the_mark_after_an_equation(notebooks):
    """One began with a colon, another one ended at an opened parenthesis."""
    problems = {
        (page, text[:60]): found
        for page, notebook in notebooks.items()
        for text in texts_of(notebook)
        if (found := parted(text))
    }
    assert problems == {}


def test_a_mark_apart_from_its_equation_is_noticed():
    assert parted("$x{:}$ so, $(x$ of **it**), and $k$ of $d.$ *All $x$* are") == []
    for bad in ("it is $x$: so", "so ($p = 0.75$ or", "a *bound for $x$*.", "“$x$ is", "$x$’s"):
        assert len(parted(bad)) == 1, bad


# --- numbers and boxes ----------------------------------------------------------------------------

BOX = r"Theorem|Lemma|Corollary|Proposition|Definition|Exercise"


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


@functools.cache
def article(site: Path, page: str) -> Tag:
    return parsed(site / f"{page}.html").find("article", "bd-article")


def test_boxes_have_the_numbers_of_the_site(site, notebooks):
    total = 0
    for page, notebook in notebooks.items():
        titles = [flat(p.get_text()) for p in chosen(article(site, page), "p.admonition-title")]
        on_site = [m[0] for title in titles if (m := re.match(rf"({BOX}) \d+\.\d+", title))]
        text = "\n".join(texts_of(notebook))
        here = re.findall(rf"^> (?:<a [^>]*></a>)*\*\*((?:{BOX}) \d+\.\d+)\*\*", text, re.MULTILINE)
        assert here == on_site, page
        total += len(here)
    assert total > 100


def test_equations_and_figures_have_the_numbers_of_the_site(site, notebooks):
    for page, notebook in notebooks.items():
        text = "\n".join(texts_of(notebook))
        numbers = [
            flat(e.get_text())[1:].split(")")[0] for e in chosen(article(site, page), ".eqno")
        ]
        assert re.findall(r"\\tag\{([^}]*)\}", text) == numbers, page
        captions = chosen(article(site, page), "figcaption .caption-number")
        figures = [flat(caption.get_text()) for caption in captions]
        assert re.findall(r"\*\*(Fig\. [\d.]*\d)\.\*\*", text) == figures, page


def test_solutions_are_folded_and_proofs_are_there(site, notebooks):
    for page, notebook in notebooks.items():
        text = "\n".join(texts_of(notebook))
        solutions = chosen(article(site, page), "div.solution")
        folds = set(
            re.findall(r"<summary><b>(?:<a [^>]*></a>)*(Solution to Exercise [\d.]+)", text)
        )
        assert len(folds) == len(solutions), page
        assert text.count("<details>") == text.count("</details>")
        boxes = chosen(article(site, page), "div.proof")
        proofs = [box for box in boxes if set(box["class"]) <= {"proof", "admonition"}]
        assert text.count("> **Proof.**") + text.count("</a>**Proof.**") == len(proofs), page


# --- links ----------------------------------------------------------------------------------------


def links_of(text: str) -> list[str]:
    found = [token.attrGet("href") for token in tokens_of(text) if token.type == "link_open"]
    return [*map(str, found), *re.findall(r'href="([^"]+)"', text)]


@functools.cache
def anchors_of(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r'\sid="([^"]+)"', path.read_text(encoding="utf-8")))


def broken(link: str, anchors: set[str], site: Path) -> bool:
    """Say whether a link leads nowhere; links to other sites are not followed."""
    if link.startswith("#"):
        return link[1:] not in anchors
    if not link.startswith(BASE):
        return not link.startswith(("http://", "https://", "mailto:"))
    address, anchor = urldefrag(link)
    path = site / (unquote(address[len(BASE) :]) or "index.html")
    if not path.is_file():
        return True
    holds_a_setting = re.match(r"(nt-[a-z]+\?|preset=)", anchor)
    return bool(anchor) and not holds_a_setting and unquote(anchor) not in anchors_of(path)


def broken_links(notebook, site: Path) -> list[str]:
    texts = texts_of(notebook)
    anchors = {name for text in texts for name in re.findall(r'<a id="([^"]+)">', text)}
    return [link for text in texts for link in links_of(text) if broken(link, anchors, site)]


def test_no_link_is_broken(site, notebooks):
    problems = {page: broken_links(notebook, site) for page, notebook in notebooks.items()}
    assert {page: found for page, found in problems.items() if found} == {}


def test_a_broken_link_is_noticed(site):
    cell = nbformat.v4.new_markdown_cell
    good = f'<a id="x"></a>**T** [1](#x) [2]({BASE}book/index.html) [3](https://example.org)'
    bad = f"[1](#y) [2]({BASE}book/gone.html) [3](gone.ipynb) [4]({BASE}book/index.html#gone)"
    notebook = nbformat.v4.new_notebook(cells=[cell(good), cell(bad)])
    assert broken_links(notebook, site) == re.findall(r"\(([^)]*)\)", bad)


def test_no_anchor_comes_twice(notebooks):
    for page, notebook in notebooks.items():
        times = Counter(re.findall(r'<a id="([^"]+)">', "\n".join(texts_of(notebook))))
        assert [name for name, count in times.items() if count > 1] == [], page


def test_outputs_that_are_text_have_their_references_too(notebooks, site):
    """The ledger's entries once showed raw roles, and links to pages that do not lie beside it."""
    outputs = {
        page: [
            output.data["text/markdown"]
            for cell in notebook.cells
            for output in cell.get("outputs", [])
            if "text/markdown" in output.get("data", {})
        ]
        for page, notebook in notebooks.items()
    }
    assert [page for page, texts in outputs.items() if texts] == ["book/claims"]
    (ledger,) = outputs["book/claims"]
    assert not re.search(r"\{[a-z]+(?::[a-z]+)?\}`", ledger)
    links = re.findall(r'href="([^"]*)"|\]\((http[^)]*)\)', ledger)
    addresses = [first or second for first, second in links]
    assert len(addresses) > 150
    assert [link for link in addresses if broken(link, set(), site)] == []


def test_a_figure_has_one_drawing(notebooks):
    """The narrow one is for the site on a telephone."""
    drawings = [
        output.data["image/svg+xml"]
        for notebook in notebooks.values()
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/svg+xml" in output.get("data", {})
    ]
    assert len(drawings) > 60
    assert [drawing[:80] for drawing in drawings if drawing.count("<svg ") != 1] == []


def test_interactive_figures_are_links(notebooks):
    """Their data stay on the site, too."""
    count = 0
    for page, notebook in notebooks.items():
        for cell, below in zip(notebook.cells, notebook.cells[1:], strict=False):
            html = "".join(
                "".join(output.get("data", {}).get("text/html", ""))
                for output in cell.get("outputs", [])
            )
            if "<nt-" in html:
                assert f"[interactive figure]({BASE}{page}.html)" in below.source, page
                assert "application/json" not in html
                count += 1
    assert count >= 10


# --- the first cells, and the buttons -------------------------------------------------------------


def test_the_first_cell_says_what_it_is(notebooks):
    for page, notebook in notebooks.items():
        first, second = notebook.cells[:2]
        assert first.source.startswith("# ")
        assert f"]({BASE}{page}.html)" in first.source
        assert second.id == SETUP


@pytest.mark.parametrize("on_colab", [True, False])
def test_only_colab_installs(on_colab, site, notebooks, monkeypatch):
    commands = []
    monkeypatch.setattr(subprocess, "run", lambda command, **options: commands.append(command))
    if on_colab:
        monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    (code,) = {notebook.cells[1].source for notebook in notebooks.values()}
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


# Versions that Colab has had. A range that leaves one of these out would replace it, and then Colab
# has to start again.
COLAB = {
    "numpy": "2.0.2",
    "torch": "2.8.0",
    "matplotlib": "3.10.0",
    "scikit-learn": "1.6.1",
    "scipy": "1.16.1",
    "sympy": "1.13.3",
    "joblib": "1.5.1",
    "tqdm": "4.67.1",
    "pandas": "2.2.2",
    "platformdirs": "4.3.8",
}


def needs_of_notebooks() -> list[Requirement]:
    project, studies = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for folder in (".", "studies")
    )
    assert studies["dependencies"] == ["normtutor[notebooks]"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"]]
    waiting = ["notebooks"]
    while waiting:
        for need in map(Requirement, extras[waiting.pop()]):
            if need.name == "normtutor":
                waiting += need.extras
            else:
                wanted.append(str(need))
    return list(map(Requirement, wanted))


def test_nothing_of_colabs_is_replaced():
    for need in needs_of_notebooks():
        assert {spec.operator for spec in need.specifier} == {">="}, need
        if need.name in COLAB:
            assert need.specifier.contains(COLAB[need.name]), need


def buttons_of(site: Path, page: str) -> dict[str, str]:
    """The addresses behind the buttons of a page, by what they say."""
    found = chosen(parsed(site / f"{page}.html"), ".article-header-buttons a")
    return {flat(link.get_text()): str(link["href"]) for link in found if link.has_attr("href")}


def test_the_buttons_lead_to_the_notebooks(site):
    repository = CONFIG["repository"]["url"].removeprefix("https://github.com/")
    for page in NOTEBOOKS:
        name = name_of(page).removeprefix("notebooks/")
        buttons = buttons_of(site, page)
        assert urljoin(f"{BASE}{page}.html", buttons[".ipynb"]) == f"{BASE}notebooks/{name}"
        assert buttons["Colab"].endswith(f"/github/{repository}/blob/notebooks/{name}")
        path = f"/v2/gh/{repository}/notebooks?urlpath=lab/tree/{name}"
        assert unquote(buttons["Binder"]).endswith(path)


# --- as a reader executes them --------------------------------------------------------------------


def test_two_notebooks_run_in_an_empty_folder_with_the_wheels_alone(site, tmp_path):
    wheels = sorted((site / "notebooks").glob("*.whl"))
    folder = site / "notebooks"
    cheap = [folder / "fifteen_minutes.ipynb", folder / "03_batch_norm_vs_layer_norm.ipynb"]
    with readers.reader(wheels) as python:
        where = "import normtutor; print(normtutor.__file__)"
        found = subprocess.run(
            [python, "-I", "-c", where], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert Path(found.stdout.strip()).is_relative_to(python.parent.parent)
        for notebook in cheap:
            done = readers.execute(notebook, python)
            assert done.problem == "", f"{notebook.name}\n{done.problem}"
            assert 50 < done.megabytes < readers.MEGABYTES
        broken = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import nothing_here")])
        nbformat.write(broken, tmp_path / "broken.ipynb")
        assert "nothing_here" in readers.execute(tmp_path / "broken.ipynb", python).problem
