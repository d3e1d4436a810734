"""Write on each depth page what else could explain its saved runs, and what was checked.

The words are those of the experiments' docstrings, from their paragraphs "Control: ...".

Usage: python .ci/controls.py   (a test fails as long as a page is not up to date)
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from normtutor_studies.experiments import records  # noqa: E402

DEPTH_PAGES = sorted((ROOT / "book" / "in_depth").glob("0*.ipynb"))
CELL = "what-else-could-explain"
HEADING = "## What else could explain the results"


def lowered(text: str) -> str:
    """Begin a sentence with a small letter, unless it begins with a name, such as RMSNorm."""
    first = text.split(" ", 1)[0]
    is_name = any(letter.isupper() for letter in first[1:])
    return text if is_name else text[0].lower() + text[1:]


def in_code_style(text: str) -> str:
    """Set the names of other experiments, such as final_norm, apart from words."""
    return re.sub(r"\b[a-z]+_\w+\b", r"`\g<0>`", text)


def controls(chapter: str) -> str:
    """The section of a chapter: one entry per experiment, in the order of their names."""
    entries = []
    for name in records.names():
        module = records.module_of(name)
        if module.CHAPTER == chapter:
            text = records.control(name)
            entries.append(f"- `{name}`: {in_code_style(lowered(text))}")
    if not entries:
        return ""
    opening = (
        "An effect may have another cause than the one that a figure suggests. For each saved run "
        "of this chapter: what else could explain its result, what was checked, and what was not."
    )
    return "\n\n".join([HEADING, opening, "\n".join(entries)])


def with_controls(notebook: dict, chapter: str) -> dict:
    """Return the notebook with its section made anew, in its place, or else at the end."""
    section = controls(chapter)
    cells = list(notebook["cells"])
    numbers = [number for number, cell in enumerate(cells) if cell["id"] == CELL]
    lines = section.splitlines(keepends=True)
    made = {"cell_type": "markdown", "id": CELL, "metadata": {}, "source": lines}
    if numbers:
        cells[numbers[0] : numbers[0] + 1] = [made] if section else []
    elif section:
        cells.append(made)
    return {**notebook, "cells": cells}


def main() -> None:
    for path in DEPTH_PAGES:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        made = with_controls(notebook, path.stem)
        if made != notebook:
            path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(f"{path.relative_to(ROOT)} is new")


if __name__ == "__main__":
    main()
