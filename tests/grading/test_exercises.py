"""The exercises notebooks: complete, runnable as handed out, and worth no point until answered."""

import contextlib
import inspect
import io
import json
import re
from pathlib import Path

import coursework_solutions
import nbformat
import pytest
from coursework_solutions import PREDICTIONS, SOLUTIONS

from normtutor.grading import TASKS, check, tasks_of
from normtutor.grading.nbgrader import convert
from normtutor.grading.notebook import examined
from normtutor.grading.sandbox import Limits
from normtutor.grading.submission import grade

FOLDER = Path(__file__).resolve().parents[2] / "book" / "exercises"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PATIENT = Limits(seconds=120, total_seconds=240)  # a busy machine imports slowly
BY_NAME = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells_of(path):
    return nbformat.read(path, as_version=nbformat.NO_CONVERT).cells


def sources_of(path):
    return [cell.source for cell in cells_of(path) if cell.cell_type == "code"]


def test_there_is_a_notebook_for_each_chapter_with_tasks():
    chapters = sorted({id.split(".")[0] for id in TASKS})
    assert [path.name[:2] for path in NOTEBOOKS] == chapters
    for path in NOTEBOOKS:  # a submission is handed in under the chapter's own name
        assert (
            "[" in cells_of(path)[0].source and f"({'../' + path.name})" in cells_of(path)[0].source
        )


@BY_NAME
def test_a_notebook_is_in_order(path):
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert 50 <= len(notebook.metadata.myst.html_meta["description lang=en"]) <= 200
    assert all(not cell.get("outputs") for cell in notebook.cells)
    assert all(len(line) <= 100 for source in sources_of(path) for line in source.splitlines())
    tasks = tasks_of(path.name[:2])
    text = "\n".join(sources_of(path))
    calls = re.findall(r'^(check|explain)\("(\d\d\.\d)", (\w+)\)$', text, re.MULTILINE)
    asked = [("explain" if t.kind == "explain" else "check", t.id, t.name) for t in tasks]
    assert calls == asked, f"its cells differ from the tasks in {set(asked) ^ set(calls)}"
    headings = re.findall(
        r"^## (\d\d\.\d) (\w+): (.+)$", "\n".join(c.source for c in cells_of(path)), re.MULTILINE
    )
    wanted = [(t.id, t.kind.capitalize(), t.title) for t in tasks]
    assert headings == wanted, "a heading is as in '## 02.1 Predict: The largest output'"
    kinds = {task.kind for task in tasks}
    assert kinds == {"implement", "predict", "explain", "repair"}
    for task in tasks:
        said = re.search(rf"## {task.id} .*?\*(\d+) points?[.,]", prose(path), re.DOTALL)
        assert said and int(said[1]) == task.points, f"{task.id}: say *{task.points:g} points.*"


def prose(path):
    return "\n\n".join(cell.source for cell in cells_of(path) if cell.cell_type == "markdown")


@BY_NAME
def test_a_notebook_runs_as_handed_out_and_passes_nothing(path):
    namespace = {"__name__": "__main__"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for source in sources_of(path):
            exec(compile(source, path.name, "exec"), namespace)
    lines = printed.getvalue().splitlines()
    heads = [line for line in lines if re.match(r"\d\d\.\d ", line)]
    assert len(heads) == len(tasks_of(path.name[:2]))
    assert all(": 0 of " in head or "from a person" in head for head in heads), heads
    assert "First your prediction." in lines


@BY_NAME
def test_a_notebook_as_handed_out_earns_nothing(path):
    found = grade(path, tasks_of(path.name[:2]), limits=PATIENT)
    assert found.score == 0
    assert found.notes == ()


def right_answers(path):
    """The source of right answers to all tasks of a chapter."""
    lines = ["import math", inspect.getsource(coursework_solutions._normed)]
    for task in tasks_of(path.name[:2]):
        styles = SOLUTIONS.get(task.id, {})
        if styles:
            answer = inspect.getsource(styles.get("numpy", styles.get("torch")))
            answer = re.sub(r"^@solves.*\n", "", answer, flags=re.MULTILINE)
            lines.append(
                re.sub(r"^def _\(", f"def {task.name}(", answer).replace("(nn.", "(torch.nn.")
            )
        elif task.kind == "predict":
            lines.append(f"{task.name} = {PREDICTIONS[task.id]}")
        else:
            lines.append(f"{task.name} = {'Since the statistic differs. ' * 10!r}")
    return lines


@BY_NAME
def test_right_answers_earn_all_points_from_outside(path, tmp_path):
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    notebook.cells += [nbformat.v4.new_code_cell(source) for source in right_answers(path)]
    handed_in = tmp_path / path.name
    nbformat.write(notebook, handed_in)
    found = grade(handed_in, tasks_of(path.name[:2]), limits=PATIENT)
    assert found.score == found.possible
    assert found.notes == ()
    assert all("Since the statistic" in text for text in found.texts.values())


@BY_NAME
def test_a_notebook_becomes_an_nbgrader_assignment(path, tmp_path):
    target = tmp_path / "source" / path.stem / path.name
    assert convert(path, target) == 0
    notebook = json.loads(target.read_text())
    nbformat.validate(nbformat.reads(target.read_text(), as_version=4))
    marks = [cell["metadata"]["nbgrader"] for cell in notebook["cells"]]
    names = [mark["grade_id"] for mark in marks]
    assert len(set(names)) == len(names)
    points = sum(mark["points"] for mark in marks if mark["grade"])
    assert points == sum(task.points for task in tasks_of(path.name[:2]))
    tests = [m for m in marks if m["grade"] and not m["solution"]]
    assert len(tests) == len([t for t in tasks_of(path.name[:2]) if t.kind != "explain"])
    assert all(mark["locked"] for mark in tests)


def namespace_of(path):
    """What stands in a notebook as it is handed out, after it has run."""
    namespace = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        for source in sources_of(path):
            exec(compile(source, path.name, "exec"), namespace)
    return namespace


REPAIRS = [task for task in TASKS.values() if task.kind == "repair"]


@pytest.mark.parametrize("task", REPAIRS, ids=lambda task: task.id)
def test_a_mistake_that_was_handed_out_is_named_only_on_request(task, capsys):
    (path,) = [path for path in NOTEBOOKS if path.name.startswith(task.id[:2])]
    answer = namespace_of(path)[task.name]
    (failed, *_) = [f for f in examined(task, answer).findings if not f.passed]
    assert failed.known and failed.symptom
    check(task.id, answer)
    printed = " ".join(capsys.readouterr().out.split())
    assert "hint=True" in printed and failed.words[:30] not in printed
    check(task.id, answer, hint=True)
    printed = " ".join(capsys.readouterr().out.split())
    assert failed.words[:30] in printed
