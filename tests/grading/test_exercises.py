"""The exercises notebooks: complete, runnable as handed out, and worth no point until answered."""

import contextlib
import functools
import inspect
import io
import re
from pathlib import Path

import coursework_solutions
import matplotlib
import nbformat
import numpy as np
import pytest
from coursework_mistakes import source_of
from coursework_solutions import PREDICTIONS, SOLUTIONS
from normtutor_grader import submission
from normtutor_grader.sandbox import Limits

from normtutor.grading import TASKS, check, gather, tasks_of
from normtutor.grading.notebook import examined

FOLDER = Path(__file__).resolve().parents[2] / "book" / "exercises"
NOTEBOOKS = sorted(FOLDER.glob("0*.ipynb"))
PATIENT = Limits(seconds=200, total_seconds=1000)  # a busy machine imports slowly
BY_NAME = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells_of(path):
    return nbformat.read(path, as_version=nbformat.NO_CONVERT).cells


def sources_of(path):
    return [cell.source for cell in cells_of(path) if cell.cell_type == "code"]


@functools.cache
def run(path):
    """What stands in a notebook after it has run as it is handed out, and what it printed."""
    names, printed = {"__name__": "__main__"}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        for source in sources_of(path):
            exec(compile(source, path.name, "exec"), names)
    return names, printed.getvalue()


def notebook_of(id):
    (path,) = [path for path in NOTEBOOKS if path.name.startswith(id[:2])]
    return path


def test_there_is_a_notebook_for_each_chapter_with_tasks():
    assert [path.name[:2] for path in NOTEBOOKS] == sorted({id[:2] for id in TASKS})
    for path in NOTEBOOKS:  # a submission is handed in under the chapter's own name
        assert f"](../{path.name})" in cells_of(path)[0].source


@BY_NAME
def test_a_notebook_is_in_order(path):
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert 50 <= len(notebook.metadata.myst.html_meta["description lang=en"]) <= 200
    assert all(not cell.get("outputs") for cell in notebook.cells)
    text, tasks = "\n".join(sources_of(path)), tasks_of(path.name[:2])
    assert all(len(line) <= 100 for line in text.splitlines())
    calls = re.findall(r'^(check|explain)\("(\d\d\.\d)", (\w+)\)$', text, re.MULTILINE)
    asked = [("explain" if t.kind == "explain" else "check", t.id, t.name) for t in tasks]
    assert calls == asked, f"its cells differ from the tasks in {set(asked) ^ set(calls)}"
    prose = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    headings = re.findall(r"^## (\d\d\.\d) (\w+): (.+)$", prose, re.MULTILINE)
    wanted = [(t.id, t.kind.capitalize(), t.title) for t in tasks]
    assert headings == wanted, "a heading is as in '## 02.1 Predict: The largest output'"
    assert {task.kind for task in tasks} == {"implement", "predict", "explain", "repair"}
    for task in tasks:
        said = re.search(rf"## {task.id} .*?\*(\d+) points?[.,]", prose, re.DOTALL)
        assert said and int(said[1]) == task.points, f"{task.id}: say *{task.points:g} points.*"


@BY_NAME
def test_a_notebook_runs_as_handed_out_and_passes_nothing(path):
    heads = [line for line in run(path)[1].splitlines() if re.match(r"\d\d\.\d ", line)]
    assert len(heads) == len(tasks_of(path.name[:2]))
    assert all(": 0 of " in head or "from a person" in head for head in heads), heads


def answers_to(tasks, style):
    """The source of right answers, and of what stands beside them."""
    lines = ["import math\nimport numpy as np\nimport torch\nfrom torch import nn"]
    for name in ("_normed", "_normed_by_torch", "_over_rms_by_torch"):
        lines.append(inspect.getsource(getattr(coursework_solutions, name)))
    for task in tasks:
        if task.id in SOLUTIONS:
            source = source_of(task.id, style)[1]
            lines.append(re.sub(r"^def _\(", f"# %%\ndef {task.name}(", source))
        elif task.kind == "predict":
            lines.append(f"{task.name} = {PREDICTIONS[task.id]}")
        else:
            lines.append(f"{task.name} = {'Since the statistic differs. ' * 10!r}")
    return lines


@BY_NAME
def test_right_answers_earn_all_points_from_outside(path, tmp_path):
    tasks, notebook = tasks_of(path.name[:2]), nbformat.read(path, as_version=nbformat.NO_CONVERT)
    notebook.cells += [nbformat.v4.new_code_cell(source) for source in answers_to(tasks, "numpy")]
    handed_in = tmp_path / path.name
    nbformat.write(notebook, handed_in)
    found = submission.grade(handed_in, tasks, limits=PATIENT, walled=False)
    assert found.score == found.possible
    assert found.notes == ()
    assert all("Since the statistic" in text for text in found.texts.values())


REPAIRS = [task for task in TASKS.values() if task.kind == "repair"]


@pytest.mark.parametrize("task", REPAIRS, ids=lambda task: task.id)
def test_a_mistake_that_was_handed_out_is_named_only_on_request(task, capsys):
    answer = run(notebook_of(task.id))[0][task.name]
    (failed, *_) = [f for f in examined(task, answer).findings if not f.passed]
    assert failed.known and failed.symptom
    check(task.id, answer)
    printed = " ".join(capsys.readouterr().out.split())
    assert "hint=True" in printed and failed.words[:30] not in printed
    check(task.id, answer, hint=True)
    printed = " ".join(capsys.readouterr().out.split())
    assert failed.words[:30] in printed


@pytest.mark.parametrize("id", PREDICTIONS)
def test_guessing_on_tells_nothing_about_a_prediction(id, capsys):
    for value in (PREDICTIONS[id], 2 * PREDICTIONS[id] + 1, "no number"):
        check(id, value)
    right, other, none = capsys.readouterr().out.split(f"{id} ")[1:]
    assert "one number" in none
    check(id, PREDICTIONS[id], final=True)
    points = f"{TASKS[id].points:g}"
    assert f": {points} of {points} point" in capsys.readouterr().out
    assert right.splitlines()[1] == f"  ✓ noted: {PREDICTIONS[id]:g}"
    assert right.splitlines()[0] == other.splitlines()[0]
    assert f"if prediction_{id[:2]}" not in "".join(sources_of(notebook_of(id)))


# --- the project ----------------------------------------------------------------------------------

PROJECT = FOLDER / "my_norms.ipynb"


def by_the_project(folder, monkeypatch, capsys):
    """What stands in the project's notebook after a short run in a folder, and what it printed."""
    monkeypatch.chdir(folder)
    matplotlib.use("agg")
    names = {"__name__": "__main__"}
    for source in sources_of(PROJECT):
        exec(compile(source.replace("STEPS = 240", "STEPS = 6"), PROJECT.name, "exec"), names)
    matplotlib.pyplot.close("all")
    return names, capsys.readouterr().out


def test_the_file_to_start_from_is_gathered_from_the_notebooks(tmp_path, monkeypatch, capsys):
    file = tmp_path / "my_norms.py"
    gather(NOTEBOOKS[1:], file)
    assert file.read_text() == (FOLDER / "my_norms.py").read_text()
    with pytest.raises(ValueError, match="is there already"):  # nothing is written over
        gather(NOTEBOOKS[1:], file)
    _, printed = by_the_project(tmp_path, monkeypatch, capsys)
    assert "still to be solved: 02.2, 02.3, 02.6, 03.2, 05.4, 06.2, 07.3, 07.4, 08.2" in printed
    tasks = tasks_of("my_norms")
    assert submission.grade(file, tasks, limits=PATIENT, walled=False).score == 0


@pytest.mark.parametrize("style", ["numpy", "torch"])
def test_a_transformer_trains_with_a_students_norms(style, tmp_path, monkeypatch, capsys):
    tasks = {task.name: task for task in reversed(tasks_of("my_norms"))}
    source = "\n\n".join(answers_to(tasks.values(), style))
    (tmp_path / "my_norms.py").write_text(source)
    names, printed = by_the_project(tmp_path, monkeypatch, capsys)
    assert "All is there." in printed
    assert names["model"].norms is names["MINE"] and names["reference"].norms is names["REFERENCE"]
    assert np.abs(names["found"] - names["expected"])[:, 0].max() < 1e-9
    assert names["expected"][-1, 0] < names["expected"][0, 0] and names["apart"] < 1e-9
    file, tasks = tmp_path / "my_norms.py", tasks_of("my_norms")
    found = submission.grade(file, tasks, limits=PATIENT, walled=False)
    assert found.score == found.possible == sum(task.points for task in tasks)
    # A norm that is wrong trains otherwise: the functions are used.
    for name in ("layer_norm_dx", "add_norm_backward", "power_norm_v_backward"):
        right = getattr(names["mine"], name)
        monkeypatch.setattr(names["mine"], name, lambda *a, right=right: turned(right(*a)))
        assert np.abs(names["train"](names["MINE"])[1] - names["found"]).max() > 1e-3, name
        monkeypatch.undo()


def turned(value):
    """Other numbers of the same size: Adam forgets a factor."""
    return tuple(map(turned, value)) if isinstance(value, tuple) else np.flip(np.asarray(value), -1)
