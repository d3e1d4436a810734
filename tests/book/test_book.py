"""The sources of the book: chapters, citations, README and the words in the tree."""

import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import nbformat
import pybtex.database
import pytest
import yaml

from normtutor import norms

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import bibliography  # noqa: E402

BOOK = ROOT / "book"
MAIN_LINES = sorted(BOOK.glob("[0-9]*.ipynb"))
DEPTH_PAGES = sorted((BOOK / "in_depth").glob("*.ipynb"))
CHAPTERS = [*sorted(BOOK.glob("*.ipynb")), *DEPTH_PAGES]
# The first page and the short tour have neither exercises nor tables.
FRONT_DOOR = [BOOK / "index.ipynb", BOOK / "fifteen_minutes.ipynb"]
EXERCISES = sorted((BOOK / "exercises").glob("*.ipynb"))
MARKER = "# NBVAL_CHECK_OUTPUT"
LINE_LENGTH = 100


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# --- chapters -------------------------------------------------------------------------------------


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def is_checked(cell) -> bool:
    return cell.source.lstrip("\n").split("\n", 1)[0].rstrip() == MARKER


def output_problems(cell) -> list[str]:
    """Say what is wrong with the outputs that a checked cell stores."""
    problems = []
    if not cell.outputs:
        problems.append("a checked cell stores no output: run make refresh")
    if cell.execution_count is None:
        problems.append("a checked cell has no execution count: run make refresh")
    for output in cell.outputs:
        if output.output_type == "error":
            problems.append("a stored output is an error")
        if output.get("name") == "stderr":
            problems.append("a stored output is a warning")
        if any(kind.startswith("image/") for kind in output.get("data", {})):
            problems.append("a picture is stored")
        if re.search(r"0x[0-9a-f]{6,}|(^|[\s'\"])/\w+/\w+", json.dumps(output)):
            problems.append("a stored output holds an address or a path of one machine")
    return problems


def figure_problems(cell) -> list[str]:
    """Say what a cell that draws lacks for readers who do not see the picture."""
    shown = cell.metadata.get("mystnb", {})
    draws = re.search(r"plotting\.(?!use_book_style|norm_colour|t_interval)[a-z]\w*\(", cell.source)
    draws = draws or re.search(r"\bplt\.(subplots|figure)\(", cell.source)
    if not draws and not shown.get("figure") and not shown.get("image"):
        return []
    alt = str(shown.get("image", {}).get("alt", ""))
    figure = shown.get("figure", {})
    problems = []
    if len(alt) < 40:
        problems.append(
            "a figure's alt text does not state its finding: in the cell's metadata, "
            "mystnb.image.alt says in 40 characters or more what one would see"
        )
    if not figure.get("caption"):
        problems.append("a figure has no caption: in the cell's metadata, mystnb.figure.caption")
    if not str(figure.get("name", "")).startswith("fig-"):
        problems.append("a figure has no name: in the cell's metadata, mystnb.figure.name, fig-...")
    said = f"{figure.get('caption', '')} {alt}"
    shade = re.search(r"\b(white|black|pale\w*|dark\w*)\b", said, re.IGNORECASE)
    if shade and not re.search(r"(grid_map|map_figure)\(", cell.source):
        problems.append(
            f"a caption or an alt text says {shade[0]!r}, which is turned round on the dark page; "
            "only maps keep their shades there"
        )
    return problems


def exercise_problems(text: str) -> list[str]:
    """Say which exercises and solutions do not belong together."""
    exercises = re.findall(r"\{exercise\}[^\n]*\n(?::[^\n]*\n)*?:label:\s*(\S+)", text)
    solutions = re.findall(r"\{solution(?:-start)?\}\s*(\S+)\s*\n((?::[^\n]*\n)*)", text)
    problems = []
    if not exercises:
        problems.append("no exercise")
    if Counter(exercises) != Counter(label for label, _ in solutions):
        problems.append("exercises and solutions do not pair")
    if any("dropdown" not in options for _, options in solutions):
        problems.append("a solution is not folded")
    if text.count("{solution-start}") != text.count("{solution-end}"):
        problems.append("a solution is not closed")
    return problems


def chapter_problems(notebook) -> list[str]:
    """Say in which points a notebook is not a chapter of this book."""
    problems = []
    metadata = notebook.metadata
    if metadata.get("kernelspec", {}).get("name") != "python3":
        problems.append("the kernel is not python3")
    if metadata.get("language_info", {}).get("name") != "python":
        problems.append("the language is not named")
    description = metadata.get("myst", {}).get("html_meta", {}).get("description lang=en", "")
    if not 50 <= len(description) <= 200:
        problems.append("no description of 50 to 200 characters")
    markdown = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    prose = re.sub(r"```.*?```", "", "\n\n".join(markdown), flags=re.DOTALL)
    titles = re.findall(r"^# (.*)$", prose, flags=re.MULTILINE)
    if len(titles) != 1 or not notebook.cells[0].source.lstrip().startswith("# "):
        problems.append("not exactly one title, in the first cell")
    elif re.match(r"(chapter\s*)?\d", titles[0], flags=re.IGNORECASE):
        problems.append("the title carries a number")
    if len(re.findall(r"^## ", prose, flags=re.MULTILINE)) < 2:
        problems.append("fewer than two sections")
    problems += exercise_problems("\n\n".join(markdown))

    cells = code_cells(notebook)
    if not any(
        re.search(r"^(from|import) normtutor(_studies)?\b", c.source, re.MULTILINE) for c in cells
    ):
        problems.append("does not import normtutor")
    if not any(is_checked(cell) for cell in cells):
        problems.append("no output is checked")
    for cell in cells:
        if is_checked(cell):
            problems += output_problems(cell)
        elif cell.outputs or cell.execution_count is not None:
            problems.append("an output is stored that is not checked: run make refresh")
        if any(len(line) > LINE_LENGTH for line in cell.source.splitlines()):
            problems.append("a line is too long")
        problems += [f"cell {cell.get('id')}: {problem}" for problem in figure_problems(cell)]
    identifiers = [cell.get("id") for cell in notebook.cells]
    if len(set(identifiers)) != len(identifiers) or not all(identifiers):
        problems.append("cells without an id of their own")
    return problems


@pytest.mark.parametrize(
    "path", [path for path in CHAPTERS if path not in FRONT_DOOR], ids=lambda path: path.name
)
def test_a_chapter_is_in_order(path):
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    problems = chapter_problems(notebook)
    if path in MAIN_LINES and BOOK / "in_depth" / path.name in DEPTH_PAGES:
        assert problems == ["no exercise"]  # they stand on its depth page
    else:
        assert problems == []


@pytest.mark.parametrize("path", FRONT_DOOR, ids=lambda path: path.name)
def test_the_front_door_is_in_order(path):
    problems = chapter_problems(nbformat.read(path, as_version=nbformat.NO_CONVERT))
    assert problems == ["no exercise", "no output is checked"]


def good_chapter():
    """Build the smallest notebook in which nothing is wrong."""
    v4 = nbformat.v4
    exercise = "```{exercise}\n:label: ex-one\nWhy?\n```\n\n"
    exercise += "```{solution} ex-one\n:class: dropdown\nBecause.\n```"
    drawing = v4.new_code_cell("plotting.curves(records)", execution_count=None)
    drawing.metadata.mystnb = {
        "image": {"alt": "Two curves; the loss with LayerNorm falls faster than without."},
        "figure": {"caption": "The loss.", "name": "fig-loss"},
    }
    printed = v4.new_output("stream", name="stdout", text="BatchNorm 0.25\n")
    checked = v4.new_code_cell(
        f"{MARKER}\nprint('BatchNorm 0.25')", execution_count=2, outputs=[printed]
    )
    cells = [
        v4.new_markdown_cell("# A chapter\n\n## One\n\n## Two"),
        v4.new_code_cell("from normtutor import plotting", execution_count=None),
        checked,
        drawing,
        v4.new_markdown_cell(exercise),
    ]
    meta = {"description lang=en": "What a chapter of this book has to bring, in the small."}
    return v4.new_notebook(
        cells=cells,
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python"},
            "myst": {"html_meta": meta},
        },
    )


def test_a_good_chapter_has_no_problems():
    assert chapter_problems(good_chapter()) == []


def _unchecked_output(notebook):
    notebook.cells[1].outputs = notebook.cells[2].outputs


def _stream(notebook, **changes):
    notebook.cells[2].outputs[0].update(changes)


DEFECTS = {
    "the kernel is not": lambda n: n.metadata.kernelspec.update(name="conda"),
    "the language is not": lambda n: n.metadata.pop("language_info"),
    "no description": lambda n: n.metadata.pop("myst"),
    "not exactly one title": lambda n: n.cells[-1].update(source=n.cells[-1].source + "\n\n# End"),
    "carries a number": lambda n: n.cells[0].update(source="# 2. A chapter\n\n## One\n\n## Two"),
    "fewer than two": lambda n: n.cells[0].update(source="# A chapter\n\n## One"),
    "no exercise": lambda n: n.cells.pop(),
    "do not pair": lambda n: n.cells[-1].update(
        source=n.cells[-1].source.replace("{solution} ex-one", "{solution} ex-two")
    ),
    "is not folded": lambda n: n.cells[-1].update(
        source=n.cells[-1].source.replace(":class: dropdown\n", "")
    ),
    "is not closed": lambda n: n.cells[-1].update(
        source=n.cells[-1].source.replace("{solution}", "{solution-start}")
    ),
    "does not import": lambda n: n.cells[1].update(source="import numpy"),
    "no output is checked": lambda n: n.cells.pop(2),
    "stores no output": lambda n: n.cells[2].update(outputs=[]),
    "no execution count": lambda n: n.cells[2].update(execution_count=None),
    "not checked: run": _unchecked_output,
    "is a warning": lambda n: _stream(n, name="stderr"),
    "an address or a path": lambda n: _stream(n, text="saved in /home/reader/run.json"),
    "too long": lambda n: n.cells[1].update(source=n.cells[1].source + "  # " + "x" * 100),
    "alt text": lambda n: n.cells[3].metadata.mystnb["image"].update(alt="a plot"),
    "no caption": lambda n: n.cells[3].metadata.mystnb["figure"].pop("caption"),
    "no name": lambda n: n.cells[3].metadata.mystnb["figure"].pop("name"),
    "is turned round": lambda n: (
        n.cells[3].metadata.mystnb["figure"].update(caption="Black: LayerNorm.")
    ),
    "of their own": lambda n: n.cells[1].update(id=n.cells[0].id),
}


@pytest.mark.parametrize("message", DEFECTS)
def test_a_defect_in_a_chapter_is_noticed(message):
    notebook = good_chapter()
    DEFECTS[message](notebook)
    problems = chapter_problems(notebook)
    assert any(message in problem for problem in problems), problems


def test_a_drawing_cell_needs_its_metadata():
    cell = nbformat.v4.new_code_cell("fig, ax = plt.subplots()")
    assert len(figure_problems(cell)) == 3
    assert figure_problems(nbformat.v4.new_code_cell("plotting.use_book_style()")) == []


def test_every_chapter_is_in_the_table_of_contents():
    assert CHAPTERS
    toc = yaml.safe_load(read(ROOT / "_toc.yml"))
    listed = [entry["file"] for part in toc["parts"] for entry in part["chapters"]]
    for name in [toc["root"], *listed]:
        assert any((ROOT / f"{name}{suffix}").exists() for suffix in (".md", ".ipynb")), name
    notebooks = [name for name in listed if (ROOT / f"{name}.ipynb").exists()]
    pages = {path.relative_to(ROOT).with_suffix("").as_posix() for path in CHAPTERS}
    below = {
        section["file"]: entry["file"]
        for part in toc["parts"]
        for entry in part["chapters"]
        for section in entry.get("sections", [])
    }
    first = toc["root"]
    assert sorted([first, *notebooks]) == sorted(name for name in pages if "/in_depth/" not in name)
    depth = {f"book/in_depth/{path.stem}": f"book/{path.stem}" for path in DEPTH_PAGES}
    exercises = {f"book/exercises/{path.stem}": "book/teaching" for path in EXERCISES}
    assert below == depth | exercises
    index = read(BOOK / "index.ipynb")
    for path in MAIN_LINES:
        assert f"({path.name})" in index, f"the first page does not link {path.name}"


# --- refreshing -----------------------------------------------------------------------------------


def refresh(*paths: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / ".ci" / "refresh.py", *paths],
        capture_output=True,
        text=True,
        timeout=1200,
    )


def test_refresh_stores_the_checked_outputs_alone_and_is_idempotent(tmp_path):
    v4 = nbformat.v4
    path = tmp_path / "chapter.ipynb"
    stale = v4.new_output("stream", name="stdout", text="7\n")
    cells = [
        v4.new_markdown_cell("# A chapter"),
        v4.new_code_cell("print(1)\n1", execution_count=5, outputs=[stale]),
        v4.new_code_cell(f"{MARKER}\nprint(2)\n[3]", execution_count=9, outputs=[stale]),
    ]
    notebook = v4.new_notebook(cells=cells, metadata={"widgets": {}, "myst": {"html_meta": {}}})
    notebook.cells[1].metadata = {"execution": {"iopub.status.busy": "now"}, "tags": ["hide-input"]}
    nbformat.write(notebook, path)

    done = refresh(path)
    assert "outputs changed" in done.stdout
    assert done.stderr == ""  # a kernel on a port would warn that others can listen
    first = read(path)
    result = nbformat.reads(first, as_version=4)
    _, plain, checked = result.cells
    assert plain.outputs == [] and plain.execution_count is None
    assert plain.metadata == {"tags": ["hide-input"]}
    assert [output.output_type for output in checked.outputs] == ["stream", "execute_result"]
    assert checked.outputs[0].text == "2\n"
    assert checked.outputs[1].data == {"text/plain": "[3]"}
    assert checked.execution_count == 2
    assert set(result.metadata) == {"kernelspec", "language_info", "myst"}
    assert "unchanged" in refresh(path).stdout
    assert read(path) == first


def test_refresh_fails_when_a_cell_fails(tmp_path):
    path = tmp_path / "chapter.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")]), path)
    before = read(path)
    result = refresh(path)
    assert result.returncode != 0
    assert "ZeroDivisionError" in result.stderr
    assert read(path) == before


# --- citations ------------------------------------------------------------------------------------


def entries_of(bibliography: str) -> dict[str, str]:
    """Split a bibliography into its entries; a key that comes twice is an error."""
    found: dict[str, str] = {}
    for key, body in re.findall(r"^@\w+\{([^,\s]+),(.*?)^\}", bibliography, re.M | re.S):
        if key in found:
            raise ValueError(f"the key {key} is used twice")
        found[key] = body
    return found


def cited_keys(text: str) -> set[str]:
    """Collect the keys of {cite:p}`...` in MyST and :cite:p:`...` in docstrings."""
    roles = re.findall(r"(?:\{cite(?::\w+)?\}|:cite(?::\w+)?:)`([^`]+)`", text)
    return {key.strip() for keys in roles for key in keys.split(",")}


def bibliography_problems(body: str) -> list[str]:
    fields = set(re.findall(r"^\s*(\w+)\s*=", body, re.MULTILINE))
    return sorted({"author", "title", "year"} - fields)


CITING = [
    *BOOK.glob("*.md"),
    *CHAPTERS,
    *ROOT.glob("normtutor/**/*.py"),
    *ROOT.glob("studies/**/*.py"),
]


def test_every_citation_has_an_entry():
    entries = entries_of(read(BOOK / "references.bib"))
    for path in CITING:
        missing = cited_keys(read(path)) - entries.keys()
        assert not missing, f"{path.relative_to(ROOT)} cites {sorted(missing)}"


def test_every_entry_names_its_author_title_and_year():
    entries = entries_of(read(BOOK / "references.bib"))
    assert entries
    problems = {key: bibliography_problems(body) for key, body in entries.items()}
    assert {key: missing for key, missing in problems.items() if missing} == {}


def test_bad_citations_are_noticed():
    entry = "@misc{a,\n  title = {T},\n}\n"
    assert bibliography_problems(entries_of(entry)["a"]) == ["author", "year"]
    with pytest.raises(ValueError, match="twice"):
        entries_of(entry + entry)
    assert cited_keys("see {cite:p}`a, b` and :cite:t:`c`") == {"a", "b", "c"}


@pytest.fixture(scope="module")
def works():
    return pybtex.database.parse_string(read(BOOK / "references.bib"), "bibtex").entries


def test_every_entry_says_what_was_read_of_it(works):
    assert works.keys() == entries_of(read(BOOK / "references.bib")).keys()
    for key, work in works.items():
        assert bibliography.marks_of(work), key


@pytest.mark.parametrize("field", ["", "  read = {the cover},", "  read = {paper, the cover},"])
def test_a_mark_that_is_missing_or_unknown_is_noticed(field):
    text = f"@misc{{a,\n  title = {{T}},\n{field}\n}}\n"
    work = pybtex.database.parse_string(text, "bibtex").entries["a"]
    with pytest.raises(ValueError, match="a: read = "):
        bibliography.marks_of(work)


def test_the_style_ends_each_entry_with_what_was_read(works):
    text = read(BOOK / "references.bib")
    formatted = bibliography.WithWhatWasRead().format_bibliography(
        pybtex.database.parse_string(text, "bibtex")
    )
    ends = {entry.key: str(entry.text) for entry in formatted}
    assert ends.keys() == works.keys()
    for key, work in works.items():
        assert ends[key].endswith(bibliography.words_for(work))
    assert ends["liu2020"].endswith("Read: the abstract; code or documentation.")


def test_no_two_works_are_cited_alike(works):
    """Two papers once stood under each of "Wang et al. [2022]" and five other names."""
    for _ in range(2):  # a second build finds the years of the first
        bibliography.put_letters(works.values())
    cited = [bibliography.cited_as(work) for work in works.values()]
    assert len(set(cited)) == len(cited)
    years = {key: works[key].fields["year"] for key in ("su2022deep", "su2022pre", "ba2016")}
    assert years == {"su2022deep": "2022a", "su2022pre": "2022b", "ba2016": "2016"}


def test_the_page_explains_every_mark():
    page = " ".join(read(BOOK / "bibliography.md").replace("'", "\u2019").lower().split())
    for words in bibliography.MARKS.values():
        assert f"*{words}*" in page, words


# --- the index and the README ---------------------------------------------------------------------

AXES = {
    "BL": "$B$, $L$",
    "H": "$H$",
    "L": "$L$",
    "Lh": "$L$ and a group of $H$",
    "h": "the first $p$ of $H$",
    "": "those of the weights",
}


def line_of(name: str, choice: norms.Choices, axes: dict[str, str]) -> str:
    """The line of the page that says what a row of the code says."""
    source = "; ".join(filter(None, (choice.source, choice.parameters)))
    cells = (f"{name} {{cite:p}}`{choice.citation}`", axes[choice.axes], choice.statistic, source)
    return f"| {' | '.join(cells)} |"


def missing_lines(rows: dict[str, norms.Choices], axes: dict[str, str], text: str) -> str:
    """Say which lines a page's table of norms lacks; empty if it has them all."""
    lines = [line_of(name, choice, axes) for name, choice in rows.items()]
    missing = [line for line in lines if line not in text.splitlines()]
    return "\n".join(["the page lacks these lines:", *missing]) if missing else ""


def table_of(text: str) -> dict[str, tuple[str, ...]]:
    """Read the table of the three choices from chapter 2: name -> axes, statistic, source."""
    rows = re.findall(r"^\| (\w[\w-]*) \{cite[^|]*\| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", text, re.M)
    return {name: tuple(cells) for name, *cells in rows}


def words_of(path: Path) -> str:
    """The text of a notebook's Markdown cells."""
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


FAMILY = BOOK / "02_family_of_norms.ipynb"


def test_chapter_2_shows_the_choices_that_the_code_makes():
    text = words_of(FAMILY)
    shown = table_of(text)
    assert missing_lines({name: norms.TABLE[name] for name in shown}, AXES, text) == ""
    assert {"BatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm", "RMSNorm"} <= set(shown)


def test_the_depth_page_of_chapter_2_shows_all_choices_that_the_code_makes():
    text = words_of(BOOK / "in_depth" / FAMILY.name)
    assert missing_lines(norms.TABLE, AXES, text) == ""
    assert missing_lines(norms.RELATIVES, AXES | {"": "none"}, text) == ""
    assert list(table_of(text)) == list(norms.TABLE | norms.RELATIVES)


def test_a_line_that_a_page_lacks_is_printed_as_it_must_stand_there():
    text = words_of(FAMILY).replace("{cite:p}`zhang2019rms` | $H$", "{cite:p}`zhang2019rms` | $L$")
    assert missing_lines({"RMSNorm": norms.TABLE["RMSNorm"]}, AXES, text) == (
        "the page lacks these lines:\n| RMSNorm {cite:p}`zhang2019rms` | $H$ | root mean square | "
        "the token itself |"
    )


def test_a_changed_table_is_noticed():
    text = words_of(FAMILY)
    assert table_of(text) != table_of(text.replace("| the token itself |", "| the batch |"))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_readme_code_runs(tmp_path):
    code = "\n".join(blocks(read(ROOT / "README.md"), "python"))
    assert "norms.layer_norm" in code
    assert "load_state_dict" in code
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1200)
    assert result.returncode == 0, result.stderr


def test_the_readme_names_targets_that_exist():
    readme = read(ROOT / "README.md")
    targets = set(re.findall(r"^(\w+):", read(ROOT / "Makefile"), re.MULTILINE))
    named = set(re.findall(r"\bmake (\w+)", "\n".join(blocks(readme, "sh")))) | set(
        re.findall(r"`make (\w+)", readme)
    )
    assert {"book", "test"} <= named <= targets


def test_the_address_of_the_repository_is_the_same_everywhere():
    config = yaml.safe_load(read(ROOT / "_config.yml"))
    address = config["repository"]["url"]
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    assert project["urls"]["Source"] == address
    assert f'repository-code: "{address}"' in read(ROOT / "CITATION.cff")
    own = {"python.org", "pytorch.org", "github.com/normtutor/normtutor"}
    for link in re.findall(r"https?://[^\s)>\"]+", read(ROOT / "README.md")):
        assert "localhost" in link or any(name in link for name in own), link


# --- words ----------------------------------------------------------------------------------------

# Put together here so that this file does not hold what it looks for.
# A test may quote such a word to look for it.
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|lorem ip" + r"sum)\b(?!\")")
MACHINE = re.compile(r"(?<![\w.$<>~/-])/(home|root|Users|work|tm" + r"p|opt|mnt)/\w")
TEXT = {".py", ".md", ".ipynb", ".yml", ".toml", ".txt", ".bib", ".cff", ".css", ".json", ""}


def word_problems(text: str) -> list[str]:
    found = [match.group() for match in UNFINISHED.finditer(text)]
    return found + [match.group() for match in MACHINE.finditer(text)]


def tracked_files() -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).exists()]


def test_nothing_is_left_unfinished_or_tied_to_a_machine():
    this = Path(__file__).resolve()
    files = [path for path in tracked_files() if path.suffix in TEXT and path != this]
    assert files
    problems = {str(path.relative_to(ROOT)): word_problems(read(path)) for path in files}
    assert {name: found for name, found in problems.items() if found} == {}


def test_such_words_are_noticed():
    assert word_problems("# TO" + "DO: later")
    assert word_problems("open('/ho" + "me/me/x')")
    assert not word_problems("PATH=/usr/bin https://example.org/home/page")


# The number of an equation has its own parentheses: "((2.7))".
IN_PARENTHESES = re.compile(r"\(\{eq\}`[^`]*`\)")


def test_no_number_of_an_equation_stands_in_two_parentheses():
    assert IN_PARENTHESES.search("see ({eq}`eq-norms-length`).")
    pages = [path for path in tracked_files() if path.suffix in (".md", ".ipynb")]
    assert [str(path) for path in pages if IN_PARENTHESES.search(read(path))] == []
