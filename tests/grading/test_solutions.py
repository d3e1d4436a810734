"""Worked solutions: one for each task, in order, and worth all its points."""

import re

import pytest
from normtutor_grader.__main__ import main
from normtutor_grader.solutions import FOLDER

from normtutor.grading import TASKS, tasks_of
from normtutor.grading.notebook import examined

CHAPTERS = sorted({id[:2] for id in TASKS})


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_task_has_a_worked_solution_that_earns_all_points(chapter):
    text, names = (FOLDER / f"{chapter}.md").read_text(encoding="utf-8"), {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        exec(block, names)
    heads = re.findall(r"^## (\d\d\.\d) (.+) \(\d+ minutes, (?:easy|middle|hard)\)$", text, re.M)
    assert heads == [(task.id, task.title) for task in tasks_of(chapter)]
    for task in tasks_of(chapter):
        if task.kind == "explain":
            assert re.search(rf"^## {task.id} .*?^- ", text, re.MULTILINE | re.DOTALL)
        else:
            result = examined(task, names[task.name])
            assert result.score == task.points, result.findings


def test_the_solutions_are_printed(capsys):
    assert main(["solutions", "02"]) == 0
    assert "def merge_moments" in capsys.readouterr().out
