"""Exercises for nbgrader and otter-grader, whose test cells call ``score`` of normtutor.grading.

There a submission and its tests run in one process, which a submission can mislead; for marks that
count, grade what was collected with ``normtutor-grader grade``.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

from normtutor.grading.judging import Task
from normtutor.grading.tasks import TASKS, tasks_of
from normtutor_grader.submission import chapter_of

CHECK = re.compile(r'^(?:check|explain)\("(\d\d\.\d)", (\w+)\)\s*$', re.MULTILINE)
# nbgrader empties such a region for the students; an instructor may keep an answer in it.
REGION = "### BEGIN SOLUTION\n### END SOLUTION"
OTTER = """from otter.test_files import test_case

OK_FORMAT = False

name = "{id}"
points = {points:g}


@test_case(points={points:g}, hidden={hidden})
def test_it({name}):
    from normtutor.grading import score

    score("{id}", {name}, all_or_nothing=True)
"""


def convert(platform: str, source: Path, target: Path) -> int:
    """Turn a notebook of exercises into nbgrader's source, or into otter's notebook and tests.

    Raises
    ------
    ValueError
        If something is there already.
    """
    if target.exists():
        raise ValueError(f"{target} is there already")
    tasks = tasks_of(chapter_of(source))
    if platform == "nbgrader":
        notebook = for_nbgrader(json.loads(source.read_text(encoding="utf-8")))
        target.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"
        target.write_text(text, encoding="utf-8")
        return 0
    (target / "tests").mkdir(parents=True)
    shutil.copy(source, target)
    for task in tasks:
        if task.kind != "explain":
            fields = {"id": task.id, "name": task.name, "points": task.points}
            text = OTTER.format(**fields, hidden=task.kind == "predict")
            (target / "tests" / f"q{task.id.replace('.', '_')}.py").write_text(text)
    print(f"Now, with otter-grader: cd {target} && otter generate -t tests")
    return 0


# --- nbgrader -------------------------------------------------------------------------------------


def for_nbgrader(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with every answer, test and locked text marked, as nbgrader knows its cells."""
    cells = []
    sources = ["".join(cell["source"]) for cell in notebook["cells"]]
    asked = {m[2]: TASKS[m[1]] for source in sources for m in CHECK.finditer(source)}
    for number, (cell, source) in enumerate(zip(notebook["cells"], sources, strict=True)):
        is_code = cell["cell_type"] == "code"
        answers = [task for name, task in asked.items() if is_code and defines(source, name)]
        checks = [TASKS[m[1]] for m in CHECK.finditer(source)] if is_code else []
        if answers:
            task = answers[0]
            graded = {"grade": True, "points": task.points} if task.kind == "explain" else {}
            # What stands outside the region stays when nbgrader makes the students' version.
            cell = {**cell, "source": f"{source}\n\n{REGION}"}
            cell = marked(cell, named("answer", task), solution=True, **graded)
        elif checks and checks[0].kind != "explain":
            cell = test_cell(cell, checks[0])
        else:
            cell = marked(cell, f"text_{number}", locked=True)
        cells.append(cell)
    return {**notebook, "cells": cells}


def defines(source: str, name: str) -> bool:
    """Whether a cell defines an answer."""
    return bool(re.search(rf"^(def {name}\b|class {name}\b|{name}\s*=)", source, re.MULTILINE))


def named(prefix: str, task: Task) -> str:
    """nbgrader's name for a cell of a task."""
    return f"{prefix}_{task.id}".replace(".", "_")


def test_cell(cell: dict[str, Any], task: Task) -> dict[str, Any]:
    """A locked cell that gives points."""
    text = f'from normtutor.grading import score\n\nscore("{task.id}", {task.name})'
    cell = {**cell, "source": text}
    return marked(cell, named("test", task), grade=True, locked=True, points=task.points)


def marked(cell: dict[str, Any], name: str, **kind: Any) -> dict[str, Any]:
    """The cell with nbgrader's metadata."""
    base = {"grade": False, "solution": False, "locked": False, "task": False}
    settings = {"schema_version": 3, "grade_id": name, **base, **kind}
    return {**cell, "metadata": {**cell.get("metadata", {}), "nbgrader": settings}}
