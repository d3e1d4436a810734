"""Exercises for nbgrader and otter-grader: a course was run through both by hand."""

import importlib.util
import sys
import types
from pathlib import Path

import nbformat
import pytest
from coursework_solutions import SOLUTIONS
from normtutor_grader.__main__ import main

from normtutor.grading import score, tasks_of

FOLDER = Path(__file__).resolve().parents[2] / "book" / "exercises"
BY_NAME = pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("0*.ipynb")), ids=lambda path: path.stem
)


@BY_NAME
def test_a_notebook_becomes_an_nbgrader_assignment(path, tmp_path):
    target = tmp_path / "source" / path.stem / path.name
    assert main(["convert", "nbgrader", str(path), str(target)]) == 0
    notebook = nbformat.read(target, as_version=4)
    nbformat.validate(notebook)
    marks = [cell.metadata.nbgrader for cell in notebook.cells]
    assert len({mark.grade_id for mark in marks}) == len(marks)
    tasks = tasks_of(path.name[:2])
    assert sum(mark.points for mark in marks if mark.grade) == sum(task.points for task in tasks)
    tests = [mark for mark in marks if mark.grade and not mark.solution]
    assert len(tests) == len([task for task in tasks if task.kind != "explain"])
    assert all(mark.locked for mark in tests)
    assert main(["convert", "nbgrader", str(path), str(target)]) == 2  # nothing is written over


def test_an_otter_test_passes_or_fails_with_the_diagnosis(tmp_path, monkeypatch):
    otter = types.ModuleType("otter.test_files")
    otter.test_case = lambda **settings: lambda function: function
    monkeypatch.setitem(sys.modules, "otter", types.ModuleType("otter"))
    monkeypatch.setitem(sys.modules, "otter.test_files", otter)
    folder = tmp_path / "02"
    assert main(["convert", "otter", str(FOLDER / "02_family_of_norms.ipynb"), str(folder)]) == 0
    assert (folder / "02_family_of_norms.ipynb").exists()
    spec = importlib.util.spec_from_file_location("q02_2", folder / "tests" / "q02_2.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (module.OK_FORMAT, module.name, module.points) == (False, "02.2", 4)
    module.test_it(SOLUTIONS["02.2"]["numpy"])
    with pytest.raises(AssertionError, match=r"the path through the mean is missing"):
        module.test_it(lambda g, x_hat, s: s * (g - x_hat * (g * x_hat).mean(-1, keepdims=True)))


def test_a_test_cell_gives_the_points_and_prints_the_diagnosis(capsys):
    assert score("02.3", SOLUTIONS["02.3"]["numpy"]) == 3
    assert score("02.3", lambda *a: None) == 0
    assert "it returns None" in capsys.readouterr().out
