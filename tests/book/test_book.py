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


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# --- chapters -------------------------------------------------------------------------------------


def said_of(*cases: tuple[object, str]) -> list[str]:
    """The words of the cases that hold."""
    return [words for holds, words in cases if holds]


def is_checked(cell) -> bool:
    return cell.source.lstrip("\n").split("\n", 1)[0].rstrip() == MARKER


def output_problems(cell) -> list[str]:
    """Say what is wrong with the outputs that a cell stores: only those that are checked are."""
    if not is_checked(cell):
        stored = cell.outputs or cell.execution_count is not None
        return said_of((stored, "an output is stored that is not checked: run make refresh"))
    missing = not cell.outputs or cell.execution_count is None
    problems = said_of((missing, "a checked cell stores no output: run make refresh"))
    for output in cell.outputs:
        machine = re.search(r"0x[0-9a-f]{6,}|(^|[\s'\"])/\w+/\w+", json.dumps(output))
        problems += said_of(
            (output.output_type == "error", "a stored output is an error"),
            (output.get("name") == "stderr", "a stored output is a warning"),
            ("image/" in " ".join(output.get("data", {})), "a picture is stored"),
            (machine, "a stored output holds an address or a path of one machine"),
        )
    return problems


def figure_problems(cell) -> list[str]:
    """Say what a cell that draws lacks for readers who do not see the picture."""
    shown = cell.metadata.get("mystnb", {})
    draws = re.search(
        r"plotting\.(?!use_book_style|norm_colour|t_interval)[a-z]\w*\(|\bplt\.(subplots|figure)\(",
        cell.source,
    )
    if not draws and not shown.get("figure") and not shown.get("image"):
        return []
    figure, alt = shown.get("figure", {}), str(shown.get("image", {}).get("alt", ""))
    caption, name = figure.get("caption", ""), str(figure.get("name", ""))
    shade = re.search(r"\b(white|black|pale\w*|dark\w*)\b", f"{caption} {alt}", re.IGNORECASE)
    is_map = re.search(r"(grid_map|map_figure)\(", cell.source)  # keeps its shades on dark pages
    return said_of(
        (len(alt) < 40, "mystnb.image.alt must say in 40 characters or more what one would see"),
        (not caption, "mystnb.figure.caption is missing"),
        (not name.startswith("fig-"), "mystnb.figure.name must begin with fig-"),
        (shade and not is_map, "a shade is named, which is turned round on the dark page"),
    )


def exercise_problems(text: str) -> list[str]:
    """Say which exercises and solutions do not belong together."""
    exercises = re.findall(r"\{exercise\}[^\n]*\n(?::[^\n]*\n)*?:label:\s*(\S+)", text)
    solutions = re.findall(r"\{solution(?:-start)?\}\s*(\S+)\s*\n((?::[^\n]*\n)*)", text)
    paired = Counter(exercises) == Counter(label for label, _ in solutions)
    open_one = text.count("{solution-start}") != text.count("{solution-end}")
    return said_of(
        (not exercises, "no exercise"),
        (not paired, "exercises and solutions do not pair"),
        (any("dropdown" not in options for _, options in solutions), "a solution is not folded"),
        (open_one, "a solution is not closed"),
    )


def chapter_problems(notebook) -> list[str]:
    """Say in which points a notebook is not a chapter of this book."""
    metadata = notebook.metadata
    description = metadata.get("myst", {}).get("html_meta", {}).get("description lang=en", "")
    markdown = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    prose = re.sub(r"```.*?```", "", "\n\n".join(markdown), flags=re.DOTALL)
    titles = re.findall(r"^# (.*)$", prose, flags=re.MULTILINE)
    titled = len(titles) == 1 and notebook.cells[0].source.lstrip().startswith("# ")
    identifiers = {cell.get("id") for cell in notebook.cells}
    problems = said_of(
        (metadata.get("kernelspec", {}).get("name") != "python3", "the kernel is not python3"),
        (not 50 <= len(description) <= 200, "no description of 50 to 200 characters"),
        (not titled, "not exactly one title, in the first cell"),
        (len(identifiers) < len(notebook.cells), "cells without an id of their own"),
    )
    problems += exercise_problems("\n\n".join(markdown))
    problems += said_of((not any(map(is_checked, cells)), "no output is checked"))
    for cell in cells:
        found = output_problems(cell) + figure_problems(cell)
        problems += [f"cell {cell.get('id')}: {problem}" for problem in found]
    return problems


def expected_problems(path: Path) -> list[str]:
    """Exercises of a chapter stand on its depth page; the ways in have no checked output either."""
    if path in FRONT_DOOR:
        return ["no exercise", "no output is checked"]
    return ["no exercise"] if path in MAIN_LINES else []


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.name)
def test_a_chapter_is_in_order(path):
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert chapter_problems(notebook) == expected_problems(path)


def test_a_drawing_cell_needs_its_metadata():
    cell = nbformat.v4.new_code_cell("fig, ax = plt.subplots()")
    assert len(figure_problems(cell)) == 3
    assert figure_problems(nbformat.v4.new_code_cell("plotting.use_book_style()")) == []


def test_every_page_is_in_the_table_of_contents():
    toc = yaml.safe_load(read(ROOT / "_toc.yml"))
    chapters = [chapter for part in toc["parts"] for chapter in part["chapters"]]
    listed = {toc["root"], *(chapter["file"] for chapter in chapters)}
    below = {
        section["file"]: chapter["file"]
        for chapter in chapters
        for section in chapter.get("sections", [])
    }
    for name in (*listed, *below):
        assert any((ROOT / f"{name}{suffix}").exists() for suffix in (".md", ".ipynb")), name
    assert {f"book/{path.stem}" for path in BOOK.glob("*.ipynb")} <= listed
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


def cited_keys(text: str) -> set[str]:
    """Collect the keys of {cite:p}`...` in MyST and :cite:p:`...` in docstrings."""
    roles = re.findall(r"(?:\{cite(?::\w+)?\}|:cite(?::\w+)?:)`([^`]+)`", text)
    return {key.strip() for keys in roles for key in keys.split(",")}


CITING = [
    *BOOK.glob("*.md"),
    *CHAPTERS,
    *ROOT.glob("normtutor/**/*.py"),
    *ROOT.glob("studies/**/*.py"),
]


@pytest.fixture(scope="module")
def works():
    return pybtex.database.parse_string(read(BOOK / "references.bib"), "bibtex").entries


def test_every_citation_has_an_entry_that_names_author_title_and_year(works):
    for path in CITING:
        missing = cited_keys(read(path)) - works.keys()
        assert not missing, f"{path.relative_to(ROOT)} cites {sorted(missing)}"
    for key, work in works.items():
        assert {"title", "year"} <= {*work.fields} and "author" in work.persons, key


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


# --- the index and the README ---------------------------------------------------------------------

AXES = {
    "BL": "$B$, $L$",
    "H": "$H$",
    "L": "$L$",
    "Lh": "$L$ and a group of $H$",
    "h": "the first $p$ of $H$",
    "": "those of the weights",
}


def missing_lines(rows: dict[str, norms.Choices], axes: dict[str, str], text: str) -> list[str]:
    """The lines of a page's table of norms, made from the code's rows, that the page lacks."""
    lines = []
    for name, choice in rows.items():
        source = "; ".join(filter(None, (choice.source, choice.parameters)))
        cited = f"{name} {{cite:p}}`{choice.citation}`"
        lines.append(f"| {cited} | {axes[choice.axes]} | {choice.statistic} | {source} |")
    return [line for line in lines if line not in text.splitlines()]


def test_chapter_2_shows_the_choices_that_the_code_makes():
    pages = (BOOK / name / "02_family_of_norms.ipynb" for name in ("", "in_depth"))
    words = []
    for path in pages:
        cells = nbformat.read(path, as_version=nbformat.NO_CONVERT).cells
        words.append("\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown"))
    row = re.compile(r"^\| (\w[\w-]*) \{cite(?:[^|\n]*\|){4}$", re.MULTILINE)
    shown, all_shown = map(row.findall, words)
    assert missing_lines({name: norms.TABLE[name] for name in shown}, AXES, words[0]) == []
    assert {"BatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm", "RMSNorm"} <= set(shown)
    assert all_shown == list(norms.TABLE | norms.RELATIVES)
    assert missing_lines(norms.TABLE, AXES, words[1]) == []
    assert missing_lines(norms.RELATIVES, AXES | {"": "none"}, words[1]) == []


def test_the_readme_code_runs(tmp_path):
    readme = read(ROOT / "README.md")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL))
    assert "norms.layer_norm" in code and "load_state_dict" in code
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1200)
    assert result.returncode == 0, result.stderr


def test_the_address_of_the_repository_is_the_same_everywhere():
    address = yaml.safe_load(read(ROOT / "_config.yml"))["repository"]["url"]
    assert tomllib.loads(read(ROOT / "pyproject.toml"))["project"]["urls"]["Source"] == address
    assert f'repository-code: "{address}"' in read(ROOT / "CITATION.cff")


# --- words ----------------------------------------------------------------------------------------

# Put together here so that this file does not hold what it looks for.
# A test may quote such a word to look for it.
UNFINISHED = r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|lorem ip" + r"sum)\b(?!\")"
MACHINE = r"(?<![\w.$<>~/-])/(home|root|Users|work|tm" + r"p|opt|mnt)/\w"
# The number of an equation has its own parentheses: "((2.7))".
IN_PARENTHESES = r"\(\{eq\}`[^`]*`\)"
TEXT = {".py", ".md", ".ipynb", ".yml", ".toml", ".txt", ".bib", ".cff", ".css", ".json", ""}


def test_nothing_is_left_unfinished_or_tied_to_a_machine():
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    found = {}
    for path in paths:
        if path.suffix in TEXT and path.exists() and path != Path(__file__).resolve():
            of_pages = [IN_PARENTHESES] if path.suffix in (".md", ".ipynb") else []
            for pattern in (UNFINISHED, MACHINE, *of_pages):
                if match := re.search(pattern, read(path)):
                    found[str(path)] = match[0]
    assert paths and found == {}
