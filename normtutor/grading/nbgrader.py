"""Turn an exercises notebook into the source of an nbgrader assignment, and grade it apart there.

nbgrader recognizes cells by their metadata. A cell that holds an answer becomes one that students
fill in; ``check("02.3", name)`` becomes a locked test cell that gives points; an explanation
becomes a cell that a person grades.

nbgrader's own ``autograde`` runs a submission and the tests in one process. :func:`configure` puts
a step of ours in the place of that one: it grades the submission as the command line does and
writes the result into the test cells, from which nbgrader takes points, penalties and feedback.
"""

import importlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from normtutor.grading.judging import Task
from normtutor.grading.notebook import report
from normtutor.grading.submission import (
    Grade,
    Unreadable,
    chapter_of,
    grade,
    nothing,
    tasks_for,
    unwalled,
)
from normtutor.grading.tasks import TASKS

CHECK = re.compile(r'^(?:check|explain)\("(\d\d\.\d)", (\w+)\)\s*$', re.MULTILINE)
# nbgrader empties such a region for the students; an instructor may keep an answer in it.
REGION = "### BEGIN SOLUTION\n### END SOLUTION"


def marked(cell: dict[str, Any], name: str, **kind: Any) -> dict[str, Any]:
    """The cell with nbgrader's metadata."""
    base = {"grade": False, "solution": False, "locked": False, "task": False}
    settings = {"schema_version": 3, "grade_id": name, **base, **kind}
    return {**cell, "metadata": {**cell.get("metadata", {}), "nbgrader": settings}}


def defines(source: str, name: str) -> bool:
    """Whether a cell defines an answer."""
    return bool(re.search(rf"^(def {name}\b|class {name}\b|{name}\s*=)", source, re.MULTILINE))


def named(prefix: str, task: Task) -> str:
    """nbgrader's name for a cell of a task."""
    return f"{prefix}_{task.id}".replace(".", "_")


def converted(notebook: dict[str, Any], tasks: Sequence[Task] = ()) -> dict[str, Any]:
    """The notebook with every answer, test and locked text marked.

    Tasks in ``tasks`` stand for the book's with the same id; others get a test cell at the end.
    """
    known = {**TASKS, **{task.id: task for task in tasks}}
    cells = []
    sources = ["".join(cell["source"]) for cell in notebook["cells"]]
    asked = {m[2]: known[m[1]] for source in sources for m in CHECK.finditer(source)}
    for number, (cell, source) in enumerate(zip(notebook["cells"], sources, strict=True)):
        is_code = cell["cell_type"] == "code"
        answers = [task for name, task in asked.items() if is_code and defines(source, name)]
        checks = [known[m[1]] for m in CHECK.finditer(source)] if is_code else []
        if answers:
            task = answers[0]
            graded = {"grade": True, "points": task.points} if task.kind == "explain" else {}
            # What stands outside the region stays when nbgrader makes the students' version.
            cell = {**cell, "source": f"{source}\n\n{REGION}"}
            cell = marked(cell, named("answer", task), solution=True, **graded)
        elif checks and checks[0].kind != "explain":
            task = checks[0]
            cell = test_cell(cell, task)
        else:
            cell = marked(cell, f"text_{number}", locked=True)
        cells.append(cell)
    asked_for = {task.id for task in asked.values()}
    hidden = [task for task in tasks if task.id not in asked_for and task.kind != "explain"]
    empty: dict[str, Any] = {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    for number, task in enumerate(hidden):
        cells.append(test_cell({**empty, "id": f"hidden-{number}"}, task, hidden=True))
    return {**notebook, "cells": cells}


def test_cell(cell: dict[str, Any], task: Task, *, hidden: bool = False) -> dict[str, Any]:
    """A locked cell that gives points. What it holds runs in nobody's grading but a student's."""
    text = f'from normtutor.grading import score\n\nscore("{task.id}", {task.name})'
    if hidden:
        text = "# Your instructor checks one more thing here."
    cell = {**cell, "source": text}
    return marked(cell, named("test", task), grade=True, locked=True, points=task.points)


def convert(
    source: Path, target: Path, checks: Path | None = None, variant: Path | None = None
) -> int:
    """Read a student notebook, write the nbgrader source."""
    tasks, _ = tasks_for(chapter_of(source), checks, variant)
    notebook = converted(json.loads(source.read_text(encoding="utf-8")), tasks)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 0


# --- in the place of nbgrader's own execution -----------------------------------------------------


def configure(config: Any, *, checks: str = "", variant: str = "") -> None:
    """Let ``nbgrader autograde`` grade submissions apart; call it in ``nbgrader_config.py``.

    Parameters
    ----------
    config : traitlets.config.Config
        What ``get_config()`` gives.
    checks, variant : str
        An instructor's files, as for ``grade``.
    """
    # An instructor's tool, and nothing that this package needs.
    try:
        preprocessors = importlib.import_module("nbgrader.preprocessors")
    except ModuleNotFoundError as error:
        raise ValueError("nbgrader is not here; install it with: pip install nbgrader") from error
    clear = importlib.import_module("nbconvert.preprocessors").ClearMetadataPreprocessor
    base: Any = preprocessors.NbGraderPreprocessor
    own = [Path(name).resolve() if name else None for name in (checks, variant)]

    class GradeApart(base):
        """Grade the submission in a process of its own; write the outcome into the test cells."""

        def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
            name = resources["metadata"]["name"]
            path = Path(resources["metadata"]["path"]) / f"{name}.ipynb"
            tasks, hidden = tasks_for(chapter_of(path), *own)
            try:
                found = grade(path, tasks, hidden=hidden)
            except Unreadable as error:
                found = nothing(tasks, str(error))
            fill(nb.cells, found)
            return nb, resources

    theirs = ("LimitOutput", "SaveAutoGrades", "AssignLatePenalties", "CheckCellMetadata")
    config.Autograde.autograde_preprocessors = [
        *(GradeApart, preprocessors.IgnorePattern, clear),
        *(getattr(preprocessors, name) for name in theirs),
    ]


def fill(cells: Sequence[Any], found: Grade) -> None:
    """Write points and words into the test cells; one that was not graded gives no points."""
    import nbformat

    results = {named("test", result.task): result for result in found.results}
    for cell in cells:
        mark = cell["metadata"].get("nbgrader", {})
        if cell["cell_type"] != "code" or not mark.get("grade") or mark.get("solution"):
            continue
        result = results.get(mark["grade_id"])
        if result is None:
            score, words = 0.0, "this was not graded"
        else:
            score, words = min(result.score, float(mark["points"])), report(result)
            if result.task.id in found.hidden and score == mark["points"]:
                words = "passed"
        words = "\n".join(filter(None, [words, unwalled(found)])) + "\n"
        points = {"data": {"text/plain": str(score)}, "execution_count": 1, "metadata": {}}
        cell["outputs"] = nbformat.from_dict([
            {"output_type": "stream", "name": "stdout", "text": words},
            {"output_type": "execute_result", **points},
        ])  # fmt: skip
        cell["execution_count"] = 1
