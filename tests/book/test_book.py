"""The sources of the book: chapters, citations, README and the words in the tree."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import bibliography
import nbformat
import pybtex.database
import pytest
import yaml

from normtutor import norms

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
CHAPTERS = sorted([*BOOK.glob("*.ipynb"), *BOOK.glob("in_depth/*.ipynb")])
# These show figures alone.
FRONT_DOOR = [BOOK / "index.ipynb", BOOK / "fifteen_minutes.ipynb"]
MARKER = "# NBVAL_CHECK_OUTPUT"


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# --- chapters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.name)
def test_a_chapter_stores_its_checked_outputs_alone(path):
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)  # all cells have ids of their own, for instance
    assert notebook.metadata.kernelspec.name == "python3"
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any(cell.outputs for cell in cells) or path in FRONT_DOOR
    for cell in cells:
        checked = cell.source.lstrip("\n").split("\n", 1)[0].rstrip() == MARKER
        stored = bool(cell.outputs), cell.execution_count is not None
        assert stored == (checked, checked), "run make refresh"
        text = json.dumps(cell.outputs)
        assert not re.search(r"0x[0-9a-f]{6,}|(^|[\s'\"])/\w+/\w+|\"stderr\"|image/", text)


def test_every_page_is_in_the_table_of_contents():
    listed = re.findall(r"(?:root|file): (\S+)", read(ROOT / "_toc.yml"))
    pages = [path.relative_to(ROOT).with_suffix("") for path in BOOK.rglob("*.ipynb")]
    assert {path.as_posix() for path in pages} <= {*listed}
    assert len(listed) == len({*listed})


# --- refreshing -----------------------------------------------------------------------------------


def test_refresh_stores_the_checked_outputs_alone_and_is_idempotent(tmp_path):
    v4 = nbformat.v4
    path = tmp_path / "chapter.ipynb"
    stale = v4.new_output("stream", name="stdout", text="7\n")
    cells = [
        v4.new_code_cell("print(1)\n1", execution_count=5, outputs=[stale]),
        v4.new_code_cell(f"{MARKER}\nprint(2)\n[3]", execution_count=9, outputs=[stale]),
        v4.new_code_cell("1 / 0"),
    ]
    notebook = v4.new_notebook(cells=cells, metadata={"widgets": {}, "myst": {"html_meta": {}}})
    notebook.cells[0].metadata = {"execution": {"iopub.status.busy": "now"}, "tags": ["hide-input"]}

    def refresh() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, ROOT / ".ci" / "refresh.py", path]
        return subprocess.run(command, capture_output=True, text=True, timeout=1200)

    nbformat.write(notebook, path)
    before = read(path)
    assert "ZeroDivisionError" in refresh().stderr and read(path) == before
    del notebook.cells[2]
    nbformat.write(notebook, path)
    done = refresh()
    # A kernel on a port would warn that others can listen.
    assert "outputs changed" in done.stdout and done.stderr == ""
    first = read(path)
    result = nbformat.reads(first, as_version=4)
    plain, checked = result.cells
    assert plain.outputs == [] and plain.execution_count is None
    assert plain.metadata == {"tags": ["hide-input"]}
    assert checked.outputs[0].text == "2\n"
    assert checked.outputs[1].data == {"text/plain": "[3]"}
    assert checked.execution_count == 2
    assert set(result.metadata) == {"kernelspec", "language_info", "myst"}
    assert "unchanged" in refresh().stdout and read(path) == first


# --- citations ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def works():
    return pybtex.database.parse_string(read(BOOK / "references.bib"), "bibtex").entries


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


def test_chapter_2_in_depth_shows_the_choices_that_the_code_makes():
    cells = nbformat.read(BOOK / "in_depth" / "02_family_of_norms.ipynb", as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    shown = re.findall(r"^\| (\w[\w-]*) \{cite(?:[^|\n]*\|){4}$", text, re.MULTILINE)
    assert shown == list(norms.TABLE | norms.RELATIVES)
    assert missing_lines(norms.TABLE, AXES, text) == []
    assert missing_lines(norms.RELATIVES, AXES | {"": "none"}, text) == []


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
