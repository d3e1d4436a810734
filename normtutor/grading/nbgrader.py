"""Turn an exercises notebook into the source of an nbgrader assignment.

nbgrader recognizes cells by their metadata. A cell that holds an answer becomes one that students
fill in; ``check("02.3", name)`` becomes a locked test cell that gives points; an explanation
becomes a cell that a person grades.
"""

import importlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from normtutor.grading.judging import Task
from normtutor.grading.sandbox import Limits
from normtutor.grading.submission import Unreadable, as_text, grade, nothing
from normtutor.grading.tasks import TASKS

CHECK = re.compile(r'^(?:check|explain)\("(\d\d\.\d)", (\w+)\)\s*$', re.MULTILINE)
SCHEMA = 3
# nbgrader empties such a region for the students; an instructor may keep an answer in it.
REGION = "### BEGIN SOLUTION\n### END SOLUTION"


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


def named(prefix: str, task: Task) -> str:
    """nbgrader's name for a cell of a task."""
    return f"{prefix}_{task.id}".replace(".", "_")


def converted(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with every answer, test and locked text marked."""
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
            task = checks[0]
            text = f'from normtutor.grading import score\n\nscore("{task.id}", {task.name})'
            cell = {**cell, "source": text}
            cell = marked(cell, named("test", task), grade=True, locked=True, points=task.points)
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


def enter_scores(
    database: str, submitted: Path, assignment: str, tasks: Sequence[Task], limits: Limits
) -> dict[str, float]:
    """Grade what students have handed in, each apart, and enter the points in nbgrader's gradebook.

    nbgrader's own way runs a submission and the tests in one process, where the one can change the
    other. Here nothing of a submission runs beside the gradebook.

    Parameters
    ----------
    database : str
        The gradebook's address, as "sqlite:///gradebook.db".
    submitted : Path
        nbgrader's folder of that name: student/assignment/notebook.
    assignment : str
    tasks : sequence of Task
    limits : Limits

    Returns
    -------
    dict
        The points of each student.
    """
    # An instructor's tool, and nothing that this package needs.
    try:
        gradebook_of = importlib.import_module("nbgrader.api").Gradebook
    except ModuleNotFoundError as error:
        raise ValueError("nbgrader is not here; install it with: pip install nbgrader") from error
    scores = {}
    with gradebook_of(database) as gradebook:
        for submission in gradebook.assignment_submissions(assignment):
            student = submission.student.id
            for notebook in submission.notebooks:
                path = submitted / student / assignment / f"{notebook.name}.ipynb"
                try:
                    found = grade(path, tasks, limits=limits)
                except Unreadable as error:
                    found = nothing(tasks, str(error))
                points = {named("test", r.task): r.score for r in found.results}
                for entry in notebook.grades:
                    if entry.name in points:
                        entry.auto_score = points[entry.name]
                path.with_suffix(".txt").write_text(as_text(path, found), encoding="utf-8")
                scores[student] = found.score
        gradebook.db.commit()
    return scores
