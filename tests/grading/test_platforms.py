"""Gradescope's zip and GitHub Classroom's template: what they hold, and that it runs."""

import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from handed_in import hand_in

from normtutor.grading import TASKS, platforms, tasks_of
from normtutor.grading.__main__ import main

EXERCISES = Path(__file__).resolve().parents[2] / "book" / "exercises"
RIGHT = "prediction_02_1 = 10"
OWN = """
from normtutor.grading import Check, Task

CHECKS = (Check("any", lambda answer, rng: answer()),)
TASKS = [Task("02.1h", "predict", "Hidden", "prediction_02_1", 2, CHECKS)]
"""


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
    hand_in(tmp_path / "submission" / "work.ipynb", RIGHT)
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
        ((), "nothing handed in"),
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
        hand_in(folder / name, RIGHT)
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
    hand_in(tmp_path / "in" / "02.ipynb", RIGHT)
    platforms.gradescope_run(tmp_path / "in", tmp_path / "r.json", "02", None, None)
    content = json.loads((tmp_path / "r.json").read_text())
    assert content["score"] == 0 and "no memory" in content["output"]


@pytest.fixture
def template(tmp_path):
    """The repository that a student of GitHub Classroom gets, and what its workflow says."""
    source = EXERCISES / "02_family_of_norms.ipynb"
    assert main(["classroom", str(source), str(tmp_path / "template")]) == 0
    assert (tmp_path / "template" / source.name).read_bytes() == source.read_bytes()
    text = (tmp_path / "template" / ".github" / "workflows" / "classroom.yml").read_text()
    return tmp_path / "template", yaml.safe_load(text)["jobs"]["grade"]["steps"]


def on_a_runner(template, steps):
    """Run the steps as GitHub's runner does: the code of Grade, its summary, who passed."""
    runner = template.parent / "runner"
    (runner / "bin").mkdir(parents=True)
    # The package of this work tree in the place of the installed one.
    shim = f'#!/bin/sh\n[ "$1" = -I ] && shift && exec {sys.executable} -P "$@"\n'
    (runner / "bin" / "python").write_text(shim)
    (runner / "bin" / "python").chmod(0o755)
    environment = {
        **{name: os.environ[name] for name in ("HOME", "OMP_NUM_THREADS") if name in os.environ},
        "PATH": f"{runner / 'bin'}:/usr/bin:/bin",
        "PYTHONPATH": str(EXERCISES.parents[1]),
    }
    (grade,) = [step["run"] for step in steps if step.get("name") == "Grade"]
    more = {"RUNNER_TEMP": str(runner), "GITHUB_STEP_SUMMARY": str(runner / "summary.md")}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-c", grade],
        cwd=template, env={**environment, **more}, capture_output=True, text=True,
    )  # fmt: skip
    passed, log = [], done.stdout + done.stderr
    for step in steps:
        if "command-grader" in step.get("uses", "") and not done.returncode:
            command = step["with"]["command"].replace("${{ runner.temp }}", str(runner))
            words = shlex.split(command)
            assert words[:4] == ["python", "-I", "-m", "normtutor.grading"]
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                passed.append(main(words[4:]) == 0)
            log += printed.getvalue()
    summary = runner / "summary.md"
    return done.returncode, summary.read_text() if summary.exists() else "", passed, log


def test_the_template_for_a_classroom_asks_for_every_task(template):
    _, steps = template
    graders = [step for step in steps if "command-grader" in step.get("uses", "")]
    tasks = [task for task in tasks_of("02") if task.kind != "explain"]
    assert [step["with"]["max-score"] for step in graders] == [task.points for task in tasks]
    # Classroom's grader cuts a fraction off.
    assert all(float(task.points).is_integer() for task in TASKS.values())
    reporter = steps[-1]
    assert reporter["with"]["runners"].split(",") == [step["id"] for step in graders]
    assert set(reporter["env"]) == {f"{step['id'].upper()}_RESULTS" for step in graders}
    wanted = {f"{id.upper()}_RESULTS": id for id in reporter["with"]["runners"].split(",")}
    for name, id in wanted.items():
        assert reporter["env"][name] == f"${{{{ steps.{id}.outputs.result }}}}"
    own = [step.get("run", "") + step.get("with", {}).get("command", "") for step in steps]
    assert sum("normtutor.grading" in text for text in own) == 1 + len(tasks)
    assert all(text.count("normtutor.grading") == text.count("python -I -m") for text in own)


def test_the_workflow_of_a_classroom_runs_step_by_step(template):
    folder, steps = template
    hand_in(folder / "02_family_of_norms.ipynb", RIGHT)
    code, summary, passed, log = on_a_runner(folder, steps)
    assert code == 0, log
    assert passed == [True] + [False] * (len(passed) - 1)
    assert "    02_family_of_norms.ipynb: 1 of 16 points" in summary
    assert "02.2: 0 of 4 points" in log


FORGED = '::notice title=Autograding report::{"totalPoints":16,"maxPoints":16}'


SAID = f"""
explanation_02_7 = {FORGED!r} + chr(10) + {FORGED!r}
print({FORGED!r})
import os
os.write(1, {FORGED!r}.encode())
os.write(2, {FORGED!r}.encode())
def layer_norm_dx(*a): raise ValueError({" " * 60 + FORGED!r})
def merge_moments(*a): raise ValueError("##[notice]" + {FORGED!r})
"""


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        (SAID, 0),
        ("import os; os._exit(0)", 0),
        ("{", 0),  # a file that is no notebook
        (None, 2),  # none at all
    ],
)
def test_a_students_repository_does_not_forge_its_points(template, cell, code):
    folder, steps = template
    path = folder / "02_family_of_norms.ipynb"
    hand_in(path, cell or "")
    if cell == "{":
        path.write_text(cell)
    if cell is None:
        path.unlink()
    # Results and a package that a student has committed.
    every = [{"number": task.id, "status": "passed"} for task in TASKS.values()]
    (folder / "results.json").write_text(json.dumps({"score": 16, "tests": every}))
    (folder / "report.txt").write_text(FORGED)
    (folder / "normtutor").mkdir()
    (folder / "normtutor" / "__init__.py").write_text("print('reached')\nraise SystemExit(0)")
    found, summary, passed, log = on_a_runner(folder, steps)
    assert found == code  # the step fails where there was nothing to grade
    assert not any(passed)
    assert "reached" not in log + summary
    for line in log.splitlines():
        assert not line.lstrip().startswith("::") and "##[" not in line
    # In the summary every line stands in a block of code, which no indented line can leave.
    assert all(line.startswith("    ") for line in summary.splitlines())
    # Python as the workflow calls it does not look into the folder where it stands.
    command = [sys.executable, "-I", "-c", "import normtutor"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert "reached" not in done.stdout


def test_a_task_that_nobody_knows_has_not_passed(tmp_path, capsys):
    (tmp_path / "r.json").write_text('{"tests": []}')
    assert main(["passed", str(tmp_path / "r.json"), "99.9"]) == 1
    assert main(["passed", str(tmp_path / "none.json"), "02.1"]) == 1
