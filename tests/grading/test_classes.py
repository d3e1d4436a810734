"""A class of submissions: graded in one command, again where something changed, and merged."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from normtutor.grading import TASKS, classes, judge, sandbox
from normtutor.grading.__main__ import main
from normtutor.grading.judging import GraderFailed

RIGHT = """
def merge_moments(n_a, mean_a, var_a, n_b, mean_b, var_b):
    n = n_a + n_b
    share, gap = n_b / n, mean_b - mean_a
    var = var_a + share * (var_b - var_a) + share * (1 - share) * gap**2
    return n, mean_a + share * gap, var
"""
WRONG = RIGHT.replace("share * (1 - share) * gap**2", "0")
STUBBORN = """while True:
    try:
        while True: sum(range(1000))
    except BaseException: pass"""
TEXT = "explanation_02_7 = " + repr("It pools all channels, so it is GroupNorm. " * 8)


def hand_in(path, *cells):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = [{"cell_type": "code", "source": cell} for cell in cells]
    path.write_text(json.dumps({"cells": content}))
    return path


@pytest.fixture
def collected(tmp_path):
    folder = tmp_path / "collected"
    hand_in(folder / "02_ann.ipynb", RIGHT, TEXT)
    hand_in(folder / "02_bob.ipynb", WRONG, "prediction_02_1 = 10")
    hand_in(folder / "cy" / "02_mine.ipynb", RIGHT)
    hand_in(folder / "cy" / ".ipynb_checkpoints" / "02_mine.ipynb", RIGHT)
    return folder


def rows(folder):
    with open(folder / "grades.csv", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def test_a_class_is_graded_in_one_command(collected, capsys):
    assert main(["grade", str(collected), "--chapter", "02"]) == 0
    out = collected.with_name("collected-graded")
    table = rows(out)
    assert set(table) == {"02_ann", "02_bob", "cy"}
    assert {name: row["total"] for name, row in table.items()} == {
        "02_ann": "3.0", "02_bob": "1.0", "cy": "3.0",
    }  # fmt: skip
    assert table["02_ann"]["02.7"] == "" and table["02_ann"]["complete"] == "no"
    summary = (out / "summary.md").read_text()
    assert "3 graded" in summary and "median 3" in summary
    records = [json.loads(path.read_text()) for path in out.glob("*.json")]
    assert ("without a wall" in summary) == any(record["no wall"] for record in records)
    assert "only the variances inside the chunks are there" in summary
    assert "3 of 16 points" in (out / "02_ann.txt").read_text()
    assert "grades.csv" in capsys.readouterr().out


def test_a_second_run_grades_only_what_is_new(collected, monkeypatch, tmp_path):
    arguments = ["grade", str(collected), "--chapter", "02", "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    graded, run = [], classes.grade
    monkeypatch.setattr(
        classes, "grade", lambda path, *a, **k: graded.append(path) or run(path, *a, **k)
    )
    assert main(arguments) == 0
    assert graded == []
    late = hand_in(collected / "02_late.ipynb", RIGHT)
    again = hand_in(collected / "02_bob.ipynb", RIGHT)
    assert main(arguments) == 0
    assert sorted(graded) == sorted([late, again])
    assert rows(tmp_path / "out")["02_bob"]["total"] == "3.0"
    assert main([*arguments, "--again"]) == 0
    assert len(graded) == 2 + 4


def test_points_for_explanations_are_entered_and_merged(collected, capsys):
    out = collected.with_name("collected-graded")
    main(["grade", str(collected), "--chapter", "02"])
    path = out / "explanations.csv"

    def enter(points, student="02_ann", comment=""):
        with open(path, newline="") as file:
            found = list(csv.DictReader(file))
        for row in found:
            if row["student"] == student:
                row["points"], row["comment"] = points, comment
        with open(path, "w", newline="", encoding="utf-8-sig") as file:  # as a spreadsheet does
            table = csv.DictWriter(file, found[0])
            table.writeheader()
            table.writerows(found)

    enter("1,5", comment="and the direction?")
    assert main(["merge", str(out)]) == 0
    row = rows(out)["02_ann"]
    assert (row["02.7"], row["total"], row["complete"]) == ("1.5", "4.5", "yes")
    report = (out / "02_ann.txt").read_text()
    assert "02.7, read: 1.5 of 2 points. and the direction?" in report
    assert "Together: 4.5 of 18 points" in report
    # Grading once more keeps what a person has entered, unless the text has changed.
    main(["grade", str(collected), "--chapter", "02", "--again"])
    assert rows(out)["02_ann"]["02.7"] == "1.5"
    hand_in(collected / "02_ann.ipynb", RIGHT, TEXT.replace("pools", "takes"))
    main(["grade", str(collected), "--chapter", "02"])
    assert rows(out)["02_ann"]["02.7"] == ""
    assert "it had 1.5 points" in path.read_text()
    enter("7")
    assert main(["merge", str(out)]) == 2
    assert "not a number from 0 to 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cells", "state", "code"),
    [
        (None, "unreadable", 3),
        (("import os; os._exit(0)",), "stopped", 4),
        ((STUBBORN,), "stopped", 4),
        (("raise ValueError",), "graded", 0),
    ],
)
def test_each_kind_of_failure_has_its_exit_code(tmp_path, cells, state, code):
    folder, out = tmp_path / "in", tmp_path / "out"
    hand_in(folder / "02_a.ipynb", RIGHT)
    path = hand_in(folder / "02_b.ipynb", *(cells or ()))
    if cells is None:
        path.write_text("{")
    patience = classes.Limits(0.5, 1.0, 512, 200.0)
    settings = classes.Settings("02", limits=patience)
    assert classes.grade_class(folder, out, settings) == code
    assert rows(out)["02_b"]["state"] == state
    assert rows(out)["02_a"]["total"] == "3.0"
    assert (state == "graded") == (
        f"02_b (02_b.ipynb): {state}" not in (out / "summary.md").read_text()
    )


@pytest.fixture
def no_process(tmp_path, monkeypatch):
    """An interpreter that this user may not run, as in a container with a locked home folder."""
    (tmp_path / "python").write_text("#!/bin/sh\n")
    monkeypatch.setattr(sandbox, "_shared", {})
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))


def test_a_failure_of_the_grader_stops_nobody_else(collected, monkeypatch, tmp_path):
    run = classes.grade

    def failing(path, *arguments, **how):
        if "ann" in path.name:
            raise RuntimeError("out of luck")
        return run(path, *arguments, **how)

    out, settings = tmp_path / "out", classes.Settings("02")
    classes.grade_class(collected, out, settings)
    path = out / "explanations.csv"
    path.write_text(path.read_text().replace("02_ann,02.7,,", "02_ann,02.7,2,"))
    with monkeypatch.context() as patch:
        patch.setattr(classes, "grade", failing)
        assert classes.grade_class(collected, out, settings, again=True) == 5
    row = rows(out)["02_ann"]
    assert (row["state"], row["02.3"], row["total"], row["complete"]) == ("failed", "", "", "no")
    assert rows(out)["cy"]["total"] == "3.0"
    assert "2 graded, " not in (out / "summary.md").read_text().splitlines()[0]
    assert "median 2, mean 2.00, from 1 to 3" in (out / "summary.md").read_text()
    report = (out / "02_ann.txt").read_text()
    assert report.startswith("02_ann.ipynb: not graded") and "out of luck" in report
    assert "points" not in report
    # The next run tries again, and what a person had entered is still there.
    assert classes.grade_class(collected, out, settings) == 0
    assert rows(out)["02_ann"]["total"] == "5.0"


def test_a_process_that_cannot_start_costs_nobody_points(collected, no_process, tmp_path):
    out = tmp_path / "out"
    assert classes.grade_class(collected, out, classes.Settings("02")) == 5
    assert {row["state"] for row in rows(out).values()} == {"failed"}
    assert {row["total"] for row in rows(out).values()} == {""}
    assert "no process could be started" in (out / "02_ann.txt").read_text()
    assert "3 failed" in (out / "summary.md").read_text()


def test_one_submission_that_cannot_start_ends_with_code_5(collected, no_process, tmp_path):
    report, results = tmp_path / "r.txt", tmp_path / "r.json"
    command = ["grade", str(collected / "02_ann.ipynb"), "--report", str(report)]
    assert main([*command, "--gradescope", str(results)]) == 5
    assert report.read_text().startswith("02_ann.ipynb: not graded")
    assert "Permission" in report.read_text()
    assert "the grader failed" in json.loads(results.read_text())["output"]


@pytest.mark.parametrize("where", ["in the starter", "in the new process", "too slow"])
def test_a_start_that_fails_is_the_graders_fault(monkeypatch, where):
    patience = sandbox.Limits(5.0, 10.0, 512, 100.0)
    with sandbox.Sandbox(["a = 1"], patience) as there:
        if where == "in the starter":

            def ended(self, *arguments):
                raise sandbox.Silent("the process that starts submissions has ended")

            monkeypatch.setattr(sandbox.Starter, "start", ended)
        elif where == "in the new process":
            there._folder.cleanup()  # it cannot go into its folder
        else:
            monkeypatch.setattr(sandbox.Sandbox, "_receive", lambda self, s: there._late())
            there._late = lambda: (_ for _ in ()).throw(sandbox.Silent("not in time"))
        with pytest.raises(GraderFailed, match="no process could be started"):
            judge(TASKS["02.1"], there.answer("a"), np.random.default_rng(0))
        assert there.stopped == []


def test_a_starter_that_has_died_is_replaced(monkeypatch):
    patience = sandbox.Limits(5.0, 10.0, 512, 200.0)
    monkeypatch.setattr(sandbox, "_shared", {})
    with sandbox.Sandbox(["a = 1"], patience) as first:
        assert first.answer("a")() == 1
    here = sandbox.starter()
    os.killpg(here.process.pid, signal.SIGKILL)
    here.process.wait()
    monkeypatch.setattr(here, "alive", lambda: here.control.fileno() >= 0)
    with sandbox.Sandbox(["a = 2"], patience) as second:
        assert second.answer("a")() == 2
    sandbox.starter().close()


def test_two_notebooks_of_one_student_are_not_chosen_from(collected, tmp_path):
    hand_in(collected / "cy" / "02_second.ipynb", RIGHT)
    assert classes.grade_class(collected, tmp_path / "out", classes.Settings("02")) == 3
    assert "it is not clear which" in (tmp_path / "out" / "cy.txt").read_text()


def test_other_chapters_in_a_students_folder_are_left_alone(collected):
    hand_in(collected / "cy" / "03_mine.ipynb", RIGHT)
    assert [p.name for p in classes.submissions(collected, "02")["cy"]] == ["02_mine.ipynb"]


def test_a_formula_in_an_explanation_is_none_in_a_spreadsheet(collected):
    hand_in(collected / "02_ann.ipynb", "explanation_02_7 = '=1+1'")
    main(["grade", str(collected), "--chapter", "02"])
    assert ",'=1+1" in (collected.with_name("collected-graded") / "explanations.csv").read_text()


def test_what_is_wrong_with_a_command_is_said(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for arguments, words in (
        (["grade", str(tmp_path / "empty")], "no notebook"),
        (["grade", str(tmp_path / "nowhere.ipynb")], "nothing at"),
        (["merge", str(tmp_path / "empty")], "no graded submissions"),
        (["grade", str(tmp_path / "empty"), "--report", "x"], "--out"),
    ):
        assert main(arguments) == 2
        assert words in capsys.readouterr().err


def test_a_record_is_there_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    """One was seen, taken for finished, and graded again: it held nothing yet."""
    paths = [hand_in(tmp_path / "in" / f"02_{name}.ipynb", RIGHT) for name in "ab"]
    write = Path.write_text

    def interrupted(path, text, **options):
        write(path, text[: len(text) // 2], **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        classes.record_of("ann", paths, classes.Settings("02"), tmp_path)
    assert not list(tmp_path.glob("*.json"))
    monkeypatch.undo()
    record = classes.record_of("ann", paths, classes.Settings("02"), tmp_path)
    assert classes.kept(tmp_path, "ann") == json.loads(json.dumps(record))


def test_an_interrupted_run_goes_on_side_by_side(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    hand_in(folder / "02_a.ipynb", RIGHT)
    hand_in(folder / "02_b.ipynb", "import time\ntime.sleep(100)")
    command = [sys.executable, "-m", "normtutor.grading", "grade", str(folder), "--out", str(out)]
    command += ["--jobs", "2", "--seconds", "100"]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as grader:
        end = time.monotonic() + 1200
        while not (out / "02_a.json").exists() and time.monotonic() < end:
            time.sleep(0.1)
        os.killpg(grader.pid, signal.SIGKILL)
    kept = (out / "02_a.json").stat().st_mtime_ns
    hand_in(folder / "02_b.ipynb", WRONG)
    assert main(["grade", str(folder), "--out", str(out), "--seconds", "100"]) == 0
    assert (out / "02_a.json").stat().st_mtime_ns == kept
    assert set(rows(out)) == {"02_a", "02_b"}
    assert Path(out / "summary.md").exists()
