"""A class of submissions: graded in one command, again where something changed, and merged."""

import csv
import inspect
import json
import math
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from attacks import DEADLY
from handed_in import RIGHT, WRONG, hand_in, rows
from normtutor_grader import __main__ as command_line
from normtutor_grader import classes, roster, wall
from normtutor_grader.sandbox import Limits

from normtutor.grading import TASKS, notebook, tasks_of


def main(arguments):
    """The command line, without the wall, which has tests of its own."""
    return command_line.main([*arguments, *["--no-wall"] * (arguments[0] == "grade")])


def settings_of(chapter, **how):
    return classes.Settings(chapter, walled=False, **how)


TEXT = "explanation_02_7 = " + repr("It pools all channels, so it is GroupNorm. " * 8)


@pytest.fixture
def collected(tmp_path):
    folder = tmp_path / "collected"
    hand_in(folder / "02_ann.ipynb", RIGHT, TEXT)
    hand_in(folder / "02_bob.ipynb", WRONG, "prediction_02_1 = 10")
    hand_in(folder / "cy" / "02_mine.ipynb", RIGHT)
    hand_in(folder / "cy" / ".ipynb_checkpoints" / "02_mine.ipynb", RIGHT)
    return folder


def table_in(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_a_class_is_graded_in_one_command(collected, capsys):
    assert main(["grade", str(collected), "--chapter", "02"]) == 0
    out = collected.with_name("collected-graded") / "02"
    table = rows(out)
    assert set(table) == {"02_ann", "02_bob", "cy"}
    assert {name: row["total"] for name, row in table.items()} == {
        "02_ann": "3.0", "02_bob": "1.0", "cy": "3.0",
    }  # fmt: skip
    assert table["02_ann"]["02.7"] == "" and table["02_ann"]["complete"] == "no"
    summary = (out / "summary.md").read_text()
    assert "3 graded" in summary and "median 3" in summary
    assert "only the variances inside the chunks are there" in summary
    told = "02_ann.ipynb: 3 of 16 points; for what is explained, a person gives up to 2 more\n"
    assert (out / "02_ann.txt").read_text().startswith(told)
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
    assert rows(tmp_path / "out" / "02")["02_bob"]["total"] == "3.0"
    assert main([*arguments, "--again"]) == 0
    assert len(graded) == 2 + 4


def entered(path, student="02_ann", task="02.7", **what):
    """Change the row of a task in by_hand.csv, or add it, as a spreadsheet of Windows does."""
    found = roster.rows_of(path)
    mine = [row for row in found if (row["identifier"], row["task"]) == (student, task)]
    for row in mine or [found.append({**found[0], **dict.fromkeys(found[0], "")}) or found[-1]]:
        row |= {"identifier": student, "task": task, **what}
    with open(path, "w", newline="", encoding="cp1252") as file:
        table = csv.DictWriter(file, found[0], delimiter=";")
        table.writeheader()
        table.writerows(found)


def test_points_for_explanations_are_entered_and_merged(collected, capsys):
    out = collected.with_name("collected-graded") / "02"
    main(["grade", str(collected), "--chapter", "02"])
    path = out / "by_hand.csv"
    entered(path, points="1,5", comment="und die Größe?")
    assert main(["merge", str(out)]) == 0
    row = rows(out)["02_ann"]
    assert (row["02.7"], row["total"], row["complete"]) == ("1.5", "4.5", "yes")
    report = (out / "02_ann.txt").read_text()
    assert "02.7, read by a person: 1.5 of 2 points. und die Größe?" in report
    assert "Together: 4.5 of 18 points" in report
    # Grading once more keeps what a person has entered, also if the text has changed.
    main(["grade", str(collected), "--chapter", "02", "--again"])
    assert rows(out)["02_ann"]["02.7"] == "1.5"
    hand_in(collected / "02_ann.ipynb", RIGHT, TEXT.replace("pools", "takes"))
    main(["grade", str(collected), "--chapter", "02"])
    assert rows(out)["02_ann"]["02.7"] == "1.5"
    assert "02_ann, 02.7: handed in anew" in (out / "summary.md").read_text()
    assert "pools" in path.read_text()
    entered(path, points="")
    assert main(["merge", str(out)]) == 0 and "takes" in path.read_text()
    assert rows(out)["02_ann"]["02.7"] == ""
    before = path.read_text()
    entered(path, points="7")
    wrong = path.read_bytes()
    assert main(["merge", str(out)]) == 2
    assert "02_ann, 02.7: 7 is not a number from 0 to 2" in capsys.readouterr().err
    assert path.read_bytes() == wrong != before.encode()


def test_the_points_of_a_program_can_be_overridden_and_annotated(collected):
    out = collected.with_name("collected-graded") / "02"
    main(["grade", str(collected), "--chapter", "02"])
    entered(out / "by_hand.csv", "02_bob", "02.3", points="2.5", comment="a slip of the pen")
    entered(out / "by_hand.csv", "cy", "02.2", comment="see the board")
    assert main(["merge", str(out)]) == 0
    assert (rows(out)["02_bob"]["02.3"], rows(out)["02_bob"]["total"]) == ("2.5", "3.5")
    assert "02.3, read by a person: 2.5 of 3 points. a slip" in (out / "02_bob.txt").read_text()
    assert "02.2: see the board" in (out / "cy.txt").read_text()
    assert rows(out)["cy"]["02.2"] == "0.0"
    main(["grade", str(collected), "--chapter", "02", "--again"])
    assert rows(out)["02_bob"]["02.3"] == "2.5"


@pytest.mark.parametrize("chapter", ["03", "2", "09", "99"])
def test_another_chapter_costs_no_points_that_were_entered(collected, chapter, capsys):
    """It rewrote the table without the earlier rows, with exit code 0."""
    out = collected.with_name("collected-graded")
    main(["grade", str(collected), "--chapter", "02"])
    entered(out / "02" / "by_hand.csv", points="2", comment="good")
    kept = (out / "02" / "by_hand.csv").read_bytes()
    code = main(["grade", str(collected), "--chapter", chapter])
    assert code == (3 if chapter == "03" else 2)
    assert (out / "02" / "by_hand.csv").read_bytes() == kept
    assert chapter == "03" or f"there is no chapter '{chapter}'" in capsys.readouterr().err
    assert main(["merge", str(out / "02")]) == 0
    assert rows(out / "02")["02_ann"]["02.7"] == "2.0"


def test_who_has_left_the_list_keeps_the_points_that_were_entered(collected):
    out = collected.with_name("collected-graded") / "02"
    main(["grade", str(collected), "--chapter", "02"])
    entered(out / "by_hand.csv", points="2")
    (collected / "02_ann.ipynb").rename(collected.parent / "02_ann.ipynb")
    main(["grade", str(collected), "--chapter", "02"])
    assert "02_ann" not in rows(out)
    (collected.parent / "02_ann.ipynb").rename(collected / "02_ann.ipynb")
    main(["grade", str(collected), "--chapter", "02"])
    assert rows(out)["02_ann"]["02.7"] == "2.0"


def test_missing_and_unreadable_work_has_no_points_for_a_platform(tmp_path):
    """It had 0.0, which Canvas and Moodle take for a grade."""
    folder, out, given = tmp_path / "in", tmp_path / "out", tmp_path / "list.csv"
    hand_in(folder / "ann.ipynb", RIGHT)
    (folder / "bob.ipynb").write_text("{")
    given.write_text("identifier\nann\nbob\ncy\n")
    command = ["grade", str(folder), "--chapter", "02", "--out", str(out), "--roster", str(given)]
    assert main(command) == 3
    out /= "02"
    assert [row["total"] for row in rows(out).values()] == ["3.0", "", ""]
    for name in ("canvas.csv", "moodle.csv"):
        assert ",0.0" not in (out / name).read_text()
    for name, why in (("bob", "bob.ipynb is not a notebook"), ("cy", "nothing handed in")):
        report = (out / f"{name}.txt").read_text()  # it said "0 of 16 points"
        assert f"not graded\n\n{why}" in report and "points" not in report


@pytest.mark.parametrize("form", ["semicolons", "tabs", "cp1252", "utf-16"])
def test_a_list_comes_from_any_spreadsheet(tmp_path, form):
    text = "identifier;name;file\nö1;Ann Ö;\nbob;Bob;\n"
    text = text.replace(";", "\t") if form == "tabs" else text
    path = tmp_path / "list.csv"
    path.write_bytes(text.encode(form if form in ("cp1252", "utf-16") else "utf-8"))
    assert [(s.identifier, s.name) for s in roster.read(path)] == [("ö1", "Ann Ö"), ("bob", "Bob")]


def test_a_list_that_is_not_there_is_said_to_be_missing(collected, tmp_path, capsys):
    missing = str(tmp_path / "nobody.csv")
    assert main(["grade", str(collected), "--chapter", "02", "--roster", missing]) == 2
    assert "nobody.csv cannot be read: No such file" in capsys.readouterr().err


def test_a_forgotten_list_does_not_replace_the_tables_of_a_class(collected, tmp_path, capsys):
    """They had other identifiers then, and nobody who had handed nothing in."""
    (tmp_path / "list.csv").write_text("identifier\nann\nbob\nida\n")
    command = ["grade", str(collected), "--chapter", "02"]
    assert main([*command, "--roster", str(tmp_path / "list.csv")]) == 0
    out = collected.with_name("collected-graded") / "02"
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert main(command) == 2
    assert "name it with --roster" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert main([*command, "--roster", str(tmp_path / "list.csv")]) == 0
    (out / "bob.json").unlink()
    assert main(["merge", str(out)]) == 2
    assert "bob.json is missing or broken" in capsys.readouterr().err


def test_a_comment_for_moodle_says_why_nothing_was_graded_and_no_more(tmp_path):
    """A syntax error in LaTeX, which cost nothing, stood there as if it were the feedback."""
    folder = tmp_path / "in"
    hand_in(folder / "ann.ipynb", r'explanation_02_7 = "the \xi of the pool"', RIGHT)
    (folder / "bob" / "<img>.ipynb").parent.mkdir()
    (folder / "bob" / "<img>.ipynb").write_text("{")
    assert main(["grade", str(folder), "--chapter", "02"]) == 3
    ann, bob = table_in(tmp_path / "in-graded" / "02" / "moodle.csv")[1:]
    assert ann[-1] == "" and bob[-1].startswith("&lt;img&gt;.ipynb is not a notebook")
    assert "SyntaxError" in rows(tmp_path / "in-graded" / "02")["ann"]["note"]


def test_a_classmate_takes_nobodys_place_by_the_name_of_a_file(tmp_path):
    """It made the other one's work unreadable: there were two notebooks."""
    folder = tmp_path / "in"
    hand_in(folder / "bob_02.ipynb", RIGHT)
    hand_in(folder / "x_bob_02.ipynb", WRONG)
    hand_in(folder / "ann_bob_02.ipynb", WRONG)
    (bob, ann) = roster.collected(folder, [roster.Student("bob"), roster.Student("ann")])
    assert [p.name for p in bob.entries] == ["bob_02.ipynb"]
    assert [p.name for p in ann.entries] == ["ann_bob_02.ipynb"]


def test_what_went_wrong_in_a_cell_is_in_the_summary(collected):
    hand_in(collected / "02_ann.ipynb", "import no_such_package", RIGHT)
    main(["grade", str(collected), "--chapter", "02"])
    summary = (collected.with_name("collected-graded") / "02" / "summary.md").read_text()
    assert "02_ann (02_ann.ipynb): graded: code cell 1: ModuleNotFoundError" in summary


def test_without_a_wall_nothing_is_graded_unless_that_is_asked_for(collected, monkeypatch, capsys):
    """The grader went on, silently, with exit code 0."""

    def none():
        raise wall.NoWall(wall.REMEDY.format(why="the command bwrap is not installed"))

    monkeypatch.setattr(wall, "tried", none)
    assert command_line.main(["grade", str(collected), "--chapter", "02"]) == 2
    assert "apt install bubblewrap" in capsys.readouterr().err
    assert not collected.with_name("collected-graded").exists()
    assert main(["grade", str(collected), "--chapter", "02"]) == 0


def test_a_failure_of_the_grader_stops_nobody_else(collected, monkeypatch, tmp_path):
    run = classes.grade

    def failing(path, *arguments, **how):
        if "ann" in path.name:
            raise RuntimeError("out of luck")
        return run(path, *arguments, **how)

    out, settings = tmp_path / "out" / "02", settings_of("02")
    classes.grade_class(collected, tmp_path / "out", settings)
    entered(out / "by_hand.csv", points="2")
    with monkeypatch.context() as patch:
        patch.setattr(classes, "grade", failing)
        assert classes.grade_class(collected, out.parent, settings, again=True) == 5
    row = rows(out)["02_ann"]
    assert (row["state"], row["02.3"], row["total"], row["complete"]) == ("failed", "", "2.0", "no")
    assert rows(out)["cy"]["total"] == "3.0"
    assert "2 graded, " not in (out / "summary.md").read_text().splitlines()[0]
    assert "median 2, mean 2.00, from 1 to 3" in (out / "summary.md").read_text()
    report = (out / "02_ann.txt").read_text()
    assert report.startswith("02_ann.ipynb: not graded") and "out of luck" in report
    assert "16 points" not in report
    # The next run tries again, and what a person had entered is still there.
    assert classes.grade_class(collected, out.parent, settings) == 0
    assert rows(out)["02_ann"]["total"] == "5.0"


def test_a_process_that_cannot_start_costs_nobody_points(collected, tmp_path, monkeypatch, capsys):
    """The user may not run the interpreter, as in a container with a locked home folder."""
    (tmp_path / "python").write_text("#!/bin/sh\n")
    monkeypatch.setattr(wall, "PYTHON", str(tmp_path / "python"))
    out = tmp_path / "out"
    assert classes.grade_class(collected, out, settings_of("02")) == 5
    out /= "02"
    assert {(row["state"], row["total"]) for row in rows(out).values()} == {("failed", "")}
    assert "no process could be started" in (out / "02_ann.txt").read_text()
    assert "3 failed" in (out / "summary.md").read_text()


def test_one_notebook_of_a_student_counts_and_none_is_chosen_from_two(collected, tmp_path):
    hand_in(collected / "cy" / "03_mine.ipynb", RIGHT)
    student = {s.identifier: s for s in roster.collected(collected)}["cy"]
    assert classes.chosen(student, "02").name == "02_mine.ipynb"
    hand_in(collected / "cy" / "02_second.ipynb", RIGHT)
    assert classes.grade_class(collected, tmp_path / "out", settings_of("02")) == 3
    report = (tmp_path / "out" / "02" / "cy.txt").read_text()
    assert "it is not clear which" in report and report.endswith("Hand in one\n")


def test_notebooks_of_two_chapters_lie_in_one_folder(tmp_path):
    """Of s1_02_family and s1_03_batch neither counted, nor of a wrong notebook and a new one."""
    for student, name, cell in (
        ("s1", "s1_02_family", RIGHT),
        ("s1", "s1_03_batch", "prediction_03_1 = 1.5"),
        ("s2", "s2_02_family", "prediction_03_1 = 1.5"),
        ("s2", "s2_02_family_v2", RIGHT),
    ):
        hand_in(tmp_path / student / f"{name}.ipynb", cell)
    for chapter, points in (("02", ["3.0", "3.0"]), ("03", ["1.0", "1.0"])):
        classes.grade_class(tmp_path, tmp_path.with_name("out"), settings_of(chapter))
        table = rows(tmp_path.with_name("out") / chapter)
        assert [row["total"] for row in table.values()] == points


def test_one_name_that_two_chapters_ask_for_makes_no_notebook_of_the_other(tmp_path, capsys):
    """A layer_norm of chapter 2 had the points of chapter 4's, without a word."""
    cell = "def layer_norm(x, weight, bias, eps):\n    return x"
    path = hand_in(tmp_path / "02_a.ipynb", cell, RIGHT)
    assert main(["grade", str(path), "--chapter", "04"]) == 3
    assert "it answers tasks of chapter 02, not of this one" in capsys.readouterr().err
    assert main(["grade", str(hand_in(path, cell)), "--chapter", "04"]) == 0
    hand_in(path, cell, "def turning(weights, gradients, rate):\n    return None")
    assert main(["grade", str(path), "--chapter", "03"]) == 3
    assert "it answers tasks of chapter 04, not of this one" in capsys.readouterr().err


def test_a_grade_stands_until_there_is_another(collected, capsys):
    """A folder that was emptied for the next chapter, or a broken file, took the points away."""
    out = collected.with_name("collected-graded") / "02"
    given = collected.with_name("list.csv")
    given.write_text("identifier,name\nann,Ann\nbob,Bob\ncy,\n")
    command = ["grade", str(collected), "--chapter", "02", "--roster", str(given)]
    assert main(command) == 0
    before = rows(out)
    (collected / "02_ann.ipynb").unlink()
    hand_in(collected / "02_bob.ipynb", "prediction_03_1 = 1.5")
    (collected / "cy" / "02_mine.ipynb").write_text("{")
    given.write_text("identifier,name\nann,Anne\nbob,Bob\ncy,\n")
    for _ in range(2):
        assert main(command) == 0
        for name, why in (("ann", "nothing handed in"), ("bob", "chapter 03"), ("cy", "is not a")):
            row, words = rows(out)[name], f"the earlier grade stands: .*{why}"
            for column in ("seed", "02.3", "total", "state"):
                assert row[column] == before[name][column]
            assert re.match(words, row["note"])
            assert re.search(words, (out / "summary.md").read_text())
        assert rows(out)["ann"]["name"] == "Anne"
    assert "bob: graded: the earlier grade stands" in capsys.readouterr().out
    hand_in(collected / "02_bob.ipynb", RIGHT)
    main(command)
    assert (rows(out)["bob"]["02.3"], rows(out)["bob"]["note"]) == ("3.0", "")


def test_what_is_entered_beside_every_student_and_task_is_said(collected, capsys):
    """It was dropped silently, with exit code 0: all of it, once a spreadsheet had made 2.7."""
    out = collected.with_name("collected-graded") / "02"
    main(["grade", str(collected), "--chapter", "02"])
    path = out / "by_hand.csv"
    path.write_text(path.read_text("utf-8-sig").replace("02_ann,02.7,,", '02_ann ,"2,7",2,'))
    assert main(["merge", str(out)]) == 0
    assert rows(out)["02_ann"]["02.7"] == "2.0"
    entered(path, "nobody", "02.2", points="3")
    entered(path, "02_bob", "2.Jul", comment="good")
    capsys.readouterr()
    assert main(["merge", str(out)]) == 0
    told, summary = capsys.readouterr().err, (out / "summary.md").read_text()
    for who in ("nobody, 02.2", "02_bob, 2.Jul"):
        assert f"{who}: it counts nowhere" in told and f"{who}: it counts nowhere" in summary
    found = {(row["identifier"], row["task"]): row for row in roster.rows_of(path)}
    assert found["nobody", "02.2"]["points"] == "3"
    with open(path, "a", encoding="utf-8") as file:
        file.write("02_ann,2.7,1,,mine,,\n")
    assert main(["merge", str(out)]) == 2
    assert "two rows for 02_ann, 02.7" in capsys.readouterr().err


def test_an_override_does_not_hide_what_a_student_has_mended(collected):
    """2.5 of 3 points stayed, and nobody was told that the new notebook has earned 3."""
    out = collected.with_name("collected-graded") / "02"
    main(["grade", str(collected), "--chapter", "02"])
    entered(out / "by_hand.csv", "02_bob", "02.3", points="2.5")
    for _ in range(2):
        main(["merge", str(out)])
        assert "handed in anew" not in (out / "summary.md").read_text()
    hand_in(collected / "02_bob.ipynb", RIGHT)
    main(["grade", str(collected), "--chapter", "02"])
    assert rows(out)["02_bob"]["02.3"] == "2.5"
    assert "02_bob, 02.3: handed in anew" in (out / "summary.md").read_text()
    entered(out / "by_hand.csv", "02_bob", "02.3", points="")
    main(["merge", str(out)])
    assert rows(out)["02_bob"]["02.3"] == "3.0"
    assert "handed in anew" not in (out / "summary.md").read_text()


TEXT_IN_LINES = "explanation_02_7 = '''It “pöols”\nall of it.'''"


def test_excel_reads_the_explanations_as_they_are(collected):
    """It took the table for cp1252, and each text with an ö seemed to be handed in anew."""
    hand_in(collected / "02_ann.ipynb", RIGHT, TEXT_IN_LINES)
    main(["grade", str(collected), "--chapter", "02"])
    path = collected.with_name("collected-graded") / "02" / "by_hand.csv"
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    entered(path, points="2")
    path.write_bytes(path.read_bytes().replace(b"\x94\n", b"\x94\r\n"))
    assert main(["merge", str(path.parent)]) == 0
    assert "anew" not in (path.parent / "summary.md").read_text()


LONG = "a" * 255  # what a file system takes, and "a" * 255 + ".json" is more


def test_an_identifier_that_ends_in_the_chapters_number_makes_no_second_notebook(tmp_path):
    """Of 02_s1005 and 05_s1005 neither counted for chapter 5: both names have a 05 at an end."""
    notebooks = tuple(tmp_path / name for name in ("02_s1005.ipynb", "05_s1005.ipynb"))
    for path in notebooks:
        hand_in(path, RIGHT)
    student = roster.Student("s1005", entries=notebooks)
    assert classes.chosen(student, "02").name == "02_s1005.ipynb"
    assert classes.chosen(student, "05").name == "05_s1005.ipynb"


def test_a_notebook_of_another_chapter_takes_no_earlier_ones_place(tmp_path):
    """05_s1009 stood beside a folder whose name ends in s1009, and chapter 2 was lost."""
    (tmp_path / "Eva_s1009_").mkdir()
    for name in ("Eva_s1009_/family.ipynb", "05_s1009.ipynb", "02_s1010.ipynb"):
        hand_in(tmp_path / name, RIGHT)
    listed = [roster.Student("s1009"), roster.Student("s1010")]
    for chapter, name in (("02", "Eva_s1009_"), ("05", "05_s1009.ipynb")):
        eva, other = roster.collected(tmp_path, listed, chapter)
        assert [entry.name for entry in eva.entries] == [name]
        assert [entry.name for entry in other.entries] == ["02_s1010.ipynb"]


def test_no_name_of_a_folder_ends_the_run_or_meets_another(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    names = [LONG, "ann", "class", "grades", "summary", "a:b", "=1+1", "é" * 120]
    names += ["a\u200bnn", "a\u200cnn"]  # which look like one another, and like "ann"
    for name in names:
        hand_in(folder / name / "02.ipynb", RIGHT)
    assert classes.grade_class(folder, out, settings_of("02")) == 0
    out /= "02"
    table = rows(out)
    assert len(table) == len(names) and {row["total"] for row in table.values()} == {"3.0"}
    assert len(list(out.glob("*.txt"))) == len(names)
    assert main(["merge", str(out)]) == 0 and rows(out) == table


MOODLE = "Ann Ö_7001_assignsubmission_file"
ROSTER = """identifier,name,file
7001,Ann Ö,
jo,Jo,
8002,Max,
kim,Kim,late/02_kim.ipynb
lee,Lee,
ida,Ida,
"""


def test_everybody_on_the_list_is_in_the_table(tmp_path, capsys):
    folder, out = tmp_path / "in", tmp_path / "out"
    hand_in(folder / MOODLE / "work.ipynb", RIGHT)
    hand_in(folder / MOODLE.replace("7001", "8002_7003") / "work.ipynb", WRONG)  # a name like Max's
    hand_in(folder / "02_jo.ipynb", RIGHT)
    hand_in(folder / "maxm_LATE_8002_7001_02.ipynb", WRONG)  # 7001 numbers the file
    hand_in(folder / "late" / "02_kim.ipynb", RIGHT)
    hand_in(folder / "02_kim.ipynb", "pass")
    hand_in(folder / "lee" / "02.py")
    hand_in(folder / "lee" / ".ipynb_checkpoints" / "02.ipynb", RIGHT)
    hand_in(folder / "eve.ipynb", RIGHT)
    (tmp_path / "students.csv").write_text(ROSTER, encoding="utf-8")
    command = ["grade", str(folder), "--chapter", "02", "--out", str(out)]
    assert main([*command, "--roster", str(tmp_path / "students.csv")]) == 3
    out /= "02"
    table = rows(out)
    liar = MOODLE.replace("7001", "8002_7003")
    assert list(table) == ["7001", "jo", "8002", "kim", "lee", "ida", liar, "eve"]
    totals = ["3.0", "3.0", "0.0", "3.0", "", "", "0.0", "3.0"]
    assert [row["total"] for row in table.values()] == totals
    assert table["8002"]["state"] == "graded"
    assert (table["lee"]["state"], table["ida"]["state"]) == ("unreadable", "missing")
    assert table["lee"]["note"].startswith("a .py only")
    assert (table["ida"]["note"], table["ida"]["of"]) == ("nothing handed in", "18")
    summary = (out / "summary.md").read_text(encoding="utf-8")
    assert "8 students" in summary and f"Not on the list: {liar}, eve." in summary
    assert "ida (Ida): missing: nothing handed in" in summary
    # A student who leaves the list leaves the tables, also when points are merged.
    (tmp_path / "students.csv").write_text(ROSTER.replace("ida,Ida,\n", ""), encoding="utf-8")
    main([*command, "--roster", str(tmp_path / "students.csv")])
    assert "ida" not in rows(out)
    assert main(["merge", str(out)]) == 3 and "ida" not in rows(out)
    for text, words in (("name\nann\n", "no column"), ("id\nann\nann\n", "twice")):
        (tmp_path / "students.csv").write_text(text)
        assert main([*command, "--roster", str(tmp_path / "students.csv")]) == 2
        assert words in capsys.readouterr().err


def test_a_file_of_a_project_is_handed_in_like_a_notebook(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    hand_in(folder / "maxm_8002_991_my_norms.py").write_text(f"# %% one\nx = (\n# %% two{RIGHT}")
    hand_in(folder / "jo" / "my_norms.py").write_text(WRONG)
    for chapter in ("", "02"):
        points = sum(task.points for task in tasks_of(chapter or "my_norms"))
        assert classes.grade_class(folder, out, settings_of(chapter)) == 0
        table = rows(out / (chapter or "my_norms"))
        assert [row["02.3"] for row in table.values()] == ["0.0", "3.0"]
        assert {float(row["of"]) for row in table.values()} == {points}
    assert "02.3 Two chunks" in (out / "02" / "jo.txt").read_text()


CANVAS = """\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Old (12)
    Points Possible,,,,,5
"Muster, Max",8002,s1,max@x,A;B,3
"Ö, Ann",8003,s2,ann@x,A,
"""
WORKSHEET = """\ufeffIdentifier,Full name,Email address,Status,Grade,Maximum,Last modified (grade)
Participant 7001,Ann Ö,ann@x,Submitted,,18,-
Participant 7002,Ida,ida@x,No submission,,18,-
"""


def test_canvas_and_moodle_get_back_what_they_gave(tmp_path):
    folder, out, given = tmp_path / "in", tmp_path / "out", tmp_path / "given.csv"
    hand_in(folder / "maxm_8002_991_02.ipynb", RIGHT)
    given.write_text(CANVAS, encoding="utf-8")
    assert classes.grade_class(folder, out, settings_of("02"), roster=given) == 0
    assert table_in(out / "02" / "canvas.csv") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Coursework 02"],
        ["    Points Possible", "", "", "", "", "18"],
        ["Muster, Max", "8002", "s1", "max@x", "A;B", "3.0"],
        ["Ö, Ann", "8003", "s2", "ann@x", "A", ""],
    ]
    with zipfile.ZipFile(out / "02" / "feedback.zip") as file:
        assert file.namelist() == ["maxm_8002_991_02.ipynb.txt", "8003.txt"]
        assert b"3 of 16 points" in file.read("maxm_8002_991_02.ipynb.txt")
    hand_in(folder / MOODLE / "work.ipynb", RIGHT)
    given.write_text(WORKSHEET, encoding="utf-8")
    (folder / "maxm_8002_991_02.ipynb").unlink()
    assert classes.grade_class(folder, out, settings_of("02"), roster=given) == 0
    head, ann, ida = table_in(out / "02" / "moodle.csv")
    assert head == WORKSHEET[1:].splitlines()[0].split(",")
    assert ann == ["Participant 7001", "Ann Ö", "ann@x", "Submitted", "3.0", "18", "-"]
    assert ida[4] == ""
    with zipfile.ZipFile(out / "02" / "feedback.zip") as file:
        assert file.namelist() == [f"{MOODLE}/report.txt", "Participant 7002.txt"]
    # A list of one's own: the identifier is what either platform is asked for.
    given.write_text("identifier;name\n7001;Ann\n", encoding="utf-8")
    assert classes.grade_class(folder, out, settings_of("02"), roster=given) == 0
    assert table_in(out / "02" / "canvas.csv")[2] == ["Ann", "", "7001", "7001", "", "3.0"]
    assert table_in(out / "02" / "moodle.csv")[1] == ["7001", "Ann", "3.0", "", ""]


KILLS = """
import os
from dataclasses import replace
from normtutor.grading import TASKS as BOOK, Check

def deadly(answer, rng):
    if answer() == 13:
        os.kill(os.getpid(), 9)

TASKS = [replace(BOOK["02.1"], checks=(Check("prediction", deadly),))]
"""


def test_a_grader_that_is_killed_loses_nobody(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    for name, number in (("ann", 1), ("bob", 13), ("cy", 1)):
        hand_in(folder / name / "02.ipynb", f"prediction_02_1 = {number}")
    (tmp_path / "variant.py").write_text(KILLS)
    settings = settings_of("02", variant=tmp_path / "variant.py")
    assert classes.grade_class(folder, out, settings, jobs=2) == 5
    table = rows(out / "02")
    assert list(table) == ["ann", "bob", "cy"] and table["bob"]["state"] == "failed"
    for name in ("ann", "cy"):  # the next run takes up what the killed one has left
        hand_in(folder / "bob" / "02.ipynb", "prediction_02_1 = 1")
        assert classes.grade_class(folder, out, settings) == 0
        assert rows(out / "02")[name]["02.1"] == "1.0"


def test_a_formula_in_an_explanation_is_none_in_a_spreadsheet(collected):
    hand_in(collected / "02_ann.ipynb", "explanation_02_7 = '''=1+1;=2+2; = 3\n=4;\"=5'''")
    main(["grade", str(collected), "--chapter", "02"])
    written = (collected.with_name("collected-graded") / "02" / "by_hand.csv").read_text()
    # Some programs split at a semicolon, or a line's end, and take doubled quotes for none.
    assert "'=1+1;'=2+2; = 3\n'=4;'\"\"=5" in written


def test_the_name_of_a_file_leads_out_of_no_folder(tmp_path):
    for name in ("..\\..\\02_a.ipynb", "02_b.ipynb", "C:02.ipynb"):
        assert "\\" not in roster.Student("a", entries=(hand_in(tmp_path / name),)).feedback
        assert ":" not in roster.Student("a", entries=(tmp_path / name,)).feedback


def test_what_is_wrong_with_a_command_is_said(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for arguments, words in (
        (["grade", str(tmp_path / "empty")], "no notebook"),
        (["grade", str(tmp_path / "nowhere.ipynb")], "nothing at"),
        (["merge", str(tmp_path / "empty")], "no graded submissions"),
        (["solutions", "99"], "no chapter"),
    ):
        assert main(arguments) == 2
        assert words in capsys.readouterr().err


def test_a_record_is_there_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    """One was seen, taken for finished, and graded again: it held nothing yet."""
    path = hand_in(tmp_path / "in" / "02_a.ipynb", RIGHT)
    write = Path.write_text

    def interrupted(path, text, **options):
        write(path, text[: len(text) // 2], **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", interrupted)
    student = roster.Student("ann", entries=(path,))
    with pytest.raises(KeyboardInterrupt):
        classes.record_of(student, settings_of("02"), tmp_path)
    assert not list(tmp_path.glob("*.json"))
    monkeypatch.undo()
    record = classes.record_of(student, settings_of("02"), tmp_path)
    assert classes.kept(tmp_path, "ann") == json.loads(json.dumps(record))


def test_a_copied_prediction_earns_nothing_where_everybody_has_numbers_of_their_own(
    tmp_path, capsys
):
    personal = {s: notebook.personal(TASKS["02.1"], s) for s in ("s1", "s2")}
    features = {s: int(task.title.split("features = ")[1]) for s, task in personal.items()}
    assert features["s1"] != features["s2"]
    folder, out, given = tmp_path / "in", tmp_path / "out", tmp_path / "list.csv"
    for name in ("ann", "bob"):  # bob has copied
        cell = f"prediction_02_1 = {features['s1'] - 1} ** 0.5"
        hand_in(folder / f"02_{name}.ipynb", "from normtutor.grading import numbers", cell)
    given.write_text("identifier,number\nann,S1\nbob,s2\n")
    command = ["grade", str(folder), "--out", str(out), "--roster", str(given)]
    assert main([*command, "--personal", "number"]) == 0
    out /= "02"
    assert [row["02.1"] for row in rows(out).values()] == ["1.0", "0.0"]
    assert f"with features = {features['s2']}" in (out / "bob.txt").read_text()
    capsys.readouterr()
    notebook.numbers("s2", "02")
    notebook.check("02.1", (features["s2"] - 1) ** 0.5, student="s2")
    assert capsys.readouterr().out.count(f"features = {features['s2']}") == 2


# What is right, worked out on paper, in the numbers of a task.
ON_PAPER = {
    "02.1": lambda features: (features - 1) ** 0.5,
    "03.1": lambda mean, variance: variance / 2 + mean**2 / 4,
    "04.1": lambda factor: 1 / factor,
    "05.1": lambda size: size / (size**2 + 1e-6) ** 0.5,
    "06.1": lambda alpha, level: math.floor(math.log((4 - level) / 3, alpha)) + 1,
    "07.1": lambda layers: 2 * layers + 1,
    "08.1": lambda features: features**0.5,
}


@pytest.mark.parametrize("id", [id for id, task in TASKS.items() if task.numbers])
def test_every_number_of_a_students_own_can_be_worked_out(id):
    task = TASKS[id]
    book = inspect.signature(task.checks[0].run).parameters
    for name, values in task.numbers.items():
        assert any(np.isclose(book[name].default, value) for value in values)
    for student in map(str, range(20)):
        own = notebook.personal(task, student)
        right = ON_PAPER[id](**own.checks[0].run.keywords)
        assert notebook.examined(own, right).score == task.points
        assert notebook.examined(own, 1e9).score == 0


BROKEN = {  # what is in the file, and the state
    # A pattern that looks through each blank line for all below takes hours.
    "of blank lines": ("\n" * 500_000 + "x = 1", "graded"),
    "of too much code": ("x = 1\n" * 500_000, "unreadable"),
    "only magics": ("%a\n" * 9999, "graded"),
    "half a pair": ('{"cells": [{"cell_type": "code", "source": "\\ud800"}]}', "graded"),
    "cut off": ('{"cells": [{"cell_type"', "unreadable"),
    "of many parts": ('{"cells": [' + "{}," * 3_000_000 + "{}]}", "unreadable"),
}


def test_a_class_with_broken_missing_and_hostile_submissions_loses_nobody(tmp_path, monkeypatch):
    """Behind the wall, where there is one; an honest notebook has all the time that it needs."""
    try:
        wall.tried()
    except wall.NoWall as error:
        pytest.skip(str(error).splitlines()[0])
    folder, out = tmp_path / "in", tmp_path / "out"
    honest, missing = ["honest 1", "honest 2"], ["missing"]
    for name in honest:
        hand_in(folder / name / "02.ipynb", RIGHT)
    for name, cell in DEADLY.items():
        hand_in(folder / name / "02.ipynb", cell, RIGHT)
    for name, (content, _) in BROKEN.items():
        path = hand_in(folder / name / "02.ipynb", content)
        if content.startswith("{"):
            path.write_text(content)
    names = [*missing, *DEADLY, *BROKEN, *honest]
    (tmp_path / "list.csv").write_text("identifier\n" + "\n".join(names))
    settings = classes.Settings("02", limits=Limits(4.0, 300.0, 512))
    assert classes.grade_class(folder, out, settings, roster=tmp_path / "list.csv", jobs=2) == 4
    out /= "02"
    table = rows(out)
    assert list(table) == names
    assert {table[name]["total"] for name in honest} == {"3.0"}
    assert {table[name]["state"] for name in missing} == {"missing"}
    assert {name: table[name]["state"] for name in BROKEN} == {n: s for n, (_, s) in BROKEN.items()}
    assert table["an end"]["state"] == "stopped"
    for name in DEADLY:
        assert table[name]["state"] in ("graded", "stopped"), name
        assert float(table[name]["total"]) <= 3, name
        assert table[name]["02.1"] == table[name]["02.2"] == "0.0", name
    assert len(list(out.glob("*.txt"))) == len(names)
