"""The instructor's page: its programs run, its reports come out, its points add up."""

import re
from pathlib import Path

import pytest
from handed_in import RIGHT, hand_in, rows
from normtutor_grader import roster
from normtutor_grader.__main__ import main

from normtutor.grading import TASKS, check, tasks_of
from normtutor.grading.notebook import personal

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def block(kind, beginning):
    """The one block of a kind that begins with some words."""
    (found,) = [text for name, text in BLOCKS if name == kind and text.startswith(beginning)]
    return found


def test_the_table_gives_the_points_of_each_chapter():
    rows = re.findall(r"\(exercises/(\d\d)_(\w+)\.ipynb\), (\d+) points", PAGE)
    assert [row[0] for row in rows] == sorted({id[:2] for id in TASKS})
    for chapter, name, points in rows:
        total = sum(task.points for task in tasks_of(chapter))
        assert int(points) == total, f"book/teaching.md: chapter {chapter} has {total} points now"
        assert (ROOT / "book" / "exercises" / f"{chapter}_{name}.ipynb").exists()


def test_the_tasks_that_the_plans_name_exist():
    for id in re.findall(r"\b(0\d\.\d)\b", PAGE):
        assert id in TASKS, id


def test_the_students_example_prints_what_the_page_shows(capsys):
    exec(block("python", "from normtutor.grading import check\n"), {"__name__": "student"})
    assert capsys.readouterr().out == block("text", "02.2")


def test_the_list_on_the_page_is_read_and_a_student_has_own_numbers(tmp_path, capsys):
    (tmp_path / "students.csv").write_text(block("text", "identifier,name,file"))
    ann, _ = roster.read(tmp_path / "students.csv")
    exec(block("python", "from normtutor.grading import check, numbers"), {"__name__": "student"})
    title = personal(TASKS["02.1"], ann.identifier).title
    assert capsys.readouterr().out.count(title) == 2


ONE_PASS = """
def merge_moments(n_a, mean_a, var_a, n_b, mean_b, var_b):
    n = n_a + n_b
    mean = (n_a * mean_a + n_b * mean_b) / n
    square = (n_a * (var_a + mean_a**2) + n_b * (var_b + mean_b**2)) / n
    return n, mean, square - mean**2
"""


@pytest.mark.parametrize(("answer", "points"), [(RIGHT, 2), (ONE_PASS, 0)])
def test_the_hidden_check_on_the_page_works(tmp_path, answer, points):
    folder, out = tmp_path / "in", tmp_path / "out"
    hand_in(folder / "02_jo.ipynb", answer)
    (tmp_path / "own_checks.py").write_text(block("python", "# own_checks.py"))
    command = ["grade", str(folder), "--out", str(out), "--no-wall"]
    assert main([*command, "--checks", str(tmp_path / "own_checks.py")]) == 0
    assert float(rows(out / "02")["02_jo"]["02.3h"]) == points
    assert "Sixty chunks" not in (out / "02" / "02_jo.txt").read_text()


def test_the_commands_on_the_page_have_the_options_they_use(capsys):
    known = ""
    for command in ("grade", "merge", "convert", "solutions"):
        assert f"normtutor-grader {command}" in PAGE
        with pytest.raises(SystemExit):
            main([command, "--help"])
        known += capsys.readouterr().out
    used = re.findall(r"`(--[\w-]+)[`\s]", PAGE)
    for line in re.findall(r"normtutor-grader (?:grade|merge|convert|solutions) (.*)", PAGE):
        used += re.findall(r"(--[\w-]+)", line)
    assert used and set(used) <= set(re.findall(r"--[\w-]+", known))


def test_an_unknown_task_is_named():
    with pytest.raises(ValueError, match="there is no task"):
        check("99.9", None)
