"""Gradescope's zip and GitHub Classroom's template: what they hold, and that it runs."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from normtutor.grading import platforms, tasks_of
from normtutor.grading.__main__ import main

EXERCISES = Path(__file__).resolve().parents[2] / "book" / "exercises"
RIGHT = "prediction_02_1 = 10"
OWN = """
from normtutor.grading import Check, Task

CHECKS = (Check("any", lambda answer, rng: answer()),)
TASKS = [Task("02.1h", "predict", "Hidden", "prediction_02_1", 2, CHECKS)]
"""


def notebook(path, *cells):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": c} for c in cells]}))


def test_the_zip_grades_a_submission_with_nothing_else_installed(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    out = tmp_path / "a.zip"
    command = ["gradescope", "--chapter", "02", "--out", str(out)]
    assert main([*command, "--checks", str(tmp_path / "own.py")]) == 0
    with zipfile.ZipFile(out) as file:
        for name in ("setup.sh", "run_autograder"):
            assert file.getinfo(name).external_attr >> 16 & 0o111
        script = file.read("run_autograder").decode()
        file.extractall(tmp_path / "source")
    assert out.stat().st_size < 3_000_000
    for name in ("setup.sh", "run_autograder"):
        subprocess.run(["bash", "-n", tmp_path / "source" / name], check=True)
    # The script as it stands, with its folders here.
    notebook(tmp_path / "submission" / "work.ipynb", RIGHT)
    (tmp_path / "results").mkdir()
    script = script.replace("/autograder/env/bin/python", sys.executable)
    script = script.replace("/autograder", str(tmp_path))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["PYTHONSAFEPATH"] = "1"
    subprocess.run(["bash", "-c", script], check=True, env=environment)
    content = json.loads((tmp_path / "results" / "results.json").read_text())
    tests = {test["number"]: test for test in content["tests"]}
    assert tests["02.1"]["score"] == 1 and tests["02.1h"]["score"] == 2
    assert tests["02.1h"]["visibility"] == "after_published"
    # Even if Python is not there.
    broken = script.replace(sys.executable, "/nowhere/python")
    (tmp_path / "results" / "results.json").unlink()
    subprocess.run(["bash", "-c", broken], check=True, env=environment, capture_output=True)
    content = json.loads((tmp_path / "results" / "results.json").read_text())
    assert content["score"] == 0 and "did not start" in content["output"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ((), "there is no notebook"),
        (("a.ipynb", "b.ipynb"), "2 notebooks"),
        (("02_a.ipynb", "notes.ipynb"), None),
        ((".ipynb_checkpoints/a.ipynb", "a.ipynb"), None),
        (("broken.ipynb",), "is not a notebook"),
    ],
)
def test_results_are_written_whatever_was_handed_in(tmp_path, names, words):
    folder, results = tmp_path / "submission", tmp_path / "results.json"
    folder.mkdir()
    for name in names:
        notebook(folder / name, RIGHT)
        if "broken" in name:
            (folder / name).write_text("{")
    arguments = ["--submission", str(folder), "--results", str(results), "--chapter", "02"]
    assert main(["gradescope-run", *arguments]) == 0
    content = json.loads(results.read_text())
    assert content["score"] == (1 if words is None else 0)
    assert words is None or words in content["output"]


def test_results_are_written_if_the_grader_fails(tmp_path, monkeypatch):
    def failing(*arguments, **how):
        raise RuntimeError("no memory")

    monkeypatch.setattr(platforms, "grade", failing)
    notebook(tmp_path / "in" / "02.ipynb", RIGHT)
    platforms.gradescope_run(tmp_path / "in", tmp_path / "r.json", "02")
    content = json.loads((tmp_path / "r.json").read_text())
    assert content["score"] == 0 and "no memory" in content["output"]


def test_the_template_for_a_classroom_asks_for_every_task(tmp_path, capsys):
    source = EXERCISES / "02_family_of_norms.ipynb"
    assert main(["classroom", str(source), str(tmp_path / "template")]) == 0
    assert (tmp_path / "template" / source.name).read_bytes() == source.read_bytes()
    text = (tmp_path / "template" / ".github" / "workflows" / "classroom.yml").read_text()
    steps = yaml.safe_load(text)["jobs"]["grade"]["steps"]
    graders = [step for step in steps if "command-grader" in step.get("uses", "")]
    tasks = [task for task in tasks_of("02") if task.kind != "explain"]
    assert [step["with"]["max-score"] for step in graders] == [task.points for task in tasks]
    reporter = steps[-1]
    assert reporter["with"]["runners"].split(",") == [step["id"] for step in graders]
    assert set(reporter["env"]) == {f"{step['id'].upper()}_RESULTS" for step in graders}
    # What the steps run.
    notebook(tmp_path / source.name, RIGHT)
    results = tmp_path / "results.json"
    report = ["--report", str(tmp_path / "report.txt"), "--gradescope", str(results)]
    assert main(["grade", str(tmp_path / source.name), *report]) == 0
    codes = [main(["passed", str(results), task.id]) for task in tasks]
    assert codes == [0] + [1] * (len(tasks) - 1)
    assert main(["passed", str(results), "99.9"]) == 1
    assert main(["passed", str(tmp_path / "none.json"), "02.1"]) == 1
    assert "it is not defined" in capsys.readouterr().out
