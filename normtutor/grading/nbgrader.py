"""Turn an exercises notebook into the source of an nbgrader assignment.

nbgrader recognizes cells by their metadata. A cell that holds an answer becomes one that students
fill in; ``check("02.3", name)`` becomes a locked test cell that gives points; an explanation
becomes a cell that a person grades.
"""

import json
import re
from pathlib import Path
from typing import Any

from normtutor.grading.tasks import TASKS

CHECK = re.compile(r'^(?:check|explain)\("(\d\d\.\d)", (\w+)\)\s*$', re.MULTILINE)
SCHEMA = 3


def marked(cell: dict[str, Any], name: str, **kind: Any) -> dict[str, Any]:
    """The cell with nbgrader's metadata."""
    base = {"grade": False, "solution": False, "locked": False, "task": False}
    settings = {"schema_version": SCHEMA, "grade_id": name, **base, **kind}
    return {**cell, "metadata": {**cell.get("metadata", {}), "nbgrader": settings}}


def defines(source: str, name: str) -> bool:
    """Whether a cell defines an answer."""
    return (
        re.search(rf"^(def {name}\b|class {name}\b|{name}\s*=)", source, re.MULTILINE) is not None
    )


def converted(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with every answer, test and locked text marked."""
    cells = []
    sources = ["".join(cell["source"]) for cell in notebook["cells"]]
    named = {m[2]: TASKS[m[1]] for source in sources for m in CHECK.finditer(source)}
    for number, (cell, source) in enumerate(zip(notebook["cells"], sources, strict=True)):
        checks = list(CHECK.finditer(source)) if cell["cell_type"] == "code" else []
        answers = [task for name, task in named.items() if defines(source, name)]
        if cell["cell_type"] == "code" and answers and answers[0].kind == "explain":
            task = answers[0]
            cell = marked(
                cell, f"answer_{task.id}".replace(".", "_"), grade=True, solution=True,
                points=task.points,
            )  # fmt: skip
        elif cell["cell_type"] == "code" and answers:
            cell = marked(cell, f"answer_{answers[0].id}".replace(".", "_"), solution=True)
        elif checks and TASKS[checks[0][1]].kind != "explain":
            task = TASKS[checks[0][1]]
            text = f'from normtutor.grading import score\n\nscore("{task.id}", {task.name})'
            cell = {**cell, "source": text, "outputs": [], "execution_count": None}
            cell = marked(
                cell, f"test_{task.id}".replace(".", "_"), grade=True, locked=True,
                points=task.points,
            )  # fmt: skip
        else:
            cell = marked(cell, f"text_{number}", locked=True)
        cells.append(cell)
    return {**notebook, "cells": cells}


def convert(source: Path, target: Path) -> int:
    """Read a student notebook, write the nbgrader source."""
    notebook = converted(json.loads(source.read_text(encoding="utf-8")))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 0
