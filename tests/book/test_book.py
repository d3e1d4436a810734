"""The sources of the book: the table of contents, citations, README."""

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


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


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


# The paper of each norm, in the bibliography.
PAPERS = {
    "BatchNorm": "ioffe2015",
    "LayerNorm": "ba2016",
    "InstanceNorm": "ulyanov2016",
    "GroupNorm": "wu2018",
    "RMSNorm": "zhang2019rms",
    "pRMSNorm": "zhang2019rms",
    "PowerNorm-V": "shen2020",
    "PowerNorm": "shen2020",
    "WeightNorm": "salimans2016",
    "ScaleNorm": "nguyen2019",
    "AdaLN": "peebles2023",
    "AdaLN-Zero": "peebles2023",
    "FiLM": "perez2018",
    "DyT": "zhu2025",
}


def missing_lines(rows: dict[str, norms.Choices], axes: dict[str, str], text: str) -> list[str]:
    """The lines of a page's table of norms, made from the code's rows, that the page lacks."""
    lines = []
    for name, choice in rows.items():
        source = "; ".join(filter(None, (choice.source, choice.parameters)))
        cited = f"{name} {{cite:p}}`{PAPERS[name]}`"
        lines.append(f"| {cited} | {axes[choice.axes]} | {choice.statistic} | {source} |")
    return [line for line in lines if line not in text.splitlines()]


def test_chapter_2_in_depth_shows_the_choices_that_the_code_makes():
    cells = nbformat.read(BOOK / "in_depth" / "02_family_of_norms.ipynb", as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert missing_lines(norms.TABLE, AXES, text) == []
    assert missing_lines(norms.RELATIVES, AXES | {"": "none"}, text) == []
    shown = re.findall(r"^\| (\w[\w-]*) \{cite(?:[^|\n]*\|){4}$", text, re.MULTILINE)
    assert shown == list(norms.TABLE | norms.RELATIVES)


def test_the_readme_code_runs(tmp_path):
    readme = read(ROOT / "README.md")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL))
    assert "norms.layer_norm" in code and "swap_norms" in code
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1200)
    assert result.returncode == 0, result.stderr


def test_the_address_of_the_repository_is_the_same_everywhere():
    address = yaml.safe_load(read(ROOT / "_config.yml"))["repository"]["url"]
    assert tomllib.loads(read(ROOT / "pyproject.toml"))["project"]["urls"]["Source"] == address
    assert f'repository-code: "{address}"' in read(ROOT / "CITATION.cff")
