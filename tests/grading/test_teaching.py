"""The instructor's page: its programs run, its reports come out, its points add up."""

import json
import re
from pathlib import Path

import pytest
from handed_in import RIGHT, hand_in

from normtutor import __version__
from normtutor.grading import TASKS, check, roster, tasks_of
from normtutor.grading.__main__ import main
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


@pytest.fixture
def submission(tmp_path):
    source = block("python", "# in 02_jo.ipynb")
    return hand_in(tmp_path / "02_jo.ipynb", *source.split("\n\n\n"))


def test_the_worked_example_gives_the_report_on_the_page(submission, tmp_path):
    report, results = tmp_path / "report.txt", tmp_path / "results.json"
    main(["grade", str(submission), "--report", str(report), "--gradescope", str(results)])
    shown = block("text", "02_jo.ipynb")
    assert report.read_text().startswith(shown)
    assert "GroupNorm with one group" in report.read_text().split("for a person to read")[1]
    content = json.loads(results.read_text())
    assert f"{content['score']:g} of 16 points" in shown
    assert "GroupNorm with one group" in content["output"]
    earned = {test["number"]: (test["status"], test["score"]) for test in content["tests"]}
    assert earned["02.1"] == ("failed", 0) and "02.7" not in earned
    assert set(content) <= {
        "score", "execution_time", "output", "output_format", "visibility", "stdout_visibility",
        "tests",
    }  # fmt: skip


ONE_PASS = """
def merge_moments(n_a, mean_a, var_a, n_b, mean_b, var_b):
    n = n_a + n_b
    mean = (n_a * mean_a + n_b * mean_b) / n
    square = (n_a * (var_a + mean_a**2) + n_b * (var_b + mean_b**2)) / n
    return n, mean, square - mean**2
"""


@pytest.mark.parametrize(
    ("answer", "option", "name", "points"),
    [
        (RIGHT, "--checks", "own_checks.py", 2),
        (ONE_PASS, "--checks", "own_checks.py", 0),
        ("prediction_02_1 = 8", "--variant", "variant.py", 2),
        ("prediction_02_1 = 10", "--variant", "variant.py", 0),
    ],
)
def test_the_hidden_check_and_the_variant_on_the_page_work(tmp_path, answer, option, name, points):
    path, results = hand_in(tmp_path / "02_jo.ipynb", answer), tmp_path / "results.json"
    (tmp_path / name).write_text(block("python", f"# {name}"))
    own = [option, str(tmp_path / name), "--report", str(tmp_path / "r.txt")]
    assert main(["grade", str(path), *own, "--gradescope", str(results)]) == 0
    tests = {test["number"]: test for test in json.loads(results.read_text())["tests"]}
    seen = {"--checks": ("02.3h", "after_published"), "--variant": ("02.1", "after_due_date")}
    number, visibility = seen[option]
    assert (tests[number]["score"], tests[number]["max_score"]) == (points, 2)
    assert tests[number]["visibility"] == visibility
    assert "Sixty chunks" not in (tmp_path / "r.txt").read_text()


def test_the_commands_on_the_page_have_the_options_they_use(capsys):
    for command in ("grade", "nbgrader", "merge", "gradescope", "classroom"):
        assert f"normtutor.grading {command}" in PAGE
        with pytest.raises(SystemExit):
            main([command, "--help"])
    known = set(re.findall(r"--[\w-]+", capsys.readouterr().out))
    own = re.findall(r"python -m normtutor\.grading (?:[^\n]|\\\n)*", PAGE)
    used = {option for command in own for option in re.findall(r"\s(--[\w-]+)", command)}
    assert used and used <= known


def test_the_image_on_the_page_holds_this_version_of_the_package():
    image = block("dockerfile", "FROM python:")
    assert re.search(r"FROM python:3\.(1[2-9])-slim", image)
    assert f'"normtutor[torch]=={__version__}"' in image
    assert image.rstrip().endswith("USER 1000")  # and not root
    (built,) = re.findall(r"docker build -t (\S+)", PAGE)
    assert f"\n    {built} python -m normtutor.grading grade" in PAGE


def test_an_unknown_task_is_named():
    with pytest.raises(ValueError, match="there is no task"):
        check("99.9", None)
