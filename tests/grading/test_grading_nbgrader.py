"""The way through nbgrader, from an exercises notebook to the gradebook."""

import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

from normtutor.grading import tasks_of
from normtutor.grading.__main__ import main

NAME = "02_family_of_norms"
STUDENT_NOTEBOOK = Path(__file__).resolve().parents[2] / "book" / "exercises" / f"{NAME}.ipynb"
CONFIGURATION = """
c = get_config()
c.CourseDirectory.course_id = "norms"
c.ClearSolutions.code_stub = {"python": "# Your answer goes above."}
"""


def hand_in(release, target, answers, forged=False):
    """Write a submission: the released notebook with some cells filled in."""
    notebook = json.loads(release.read_text())
    for cell in notebook["cells"]:
        mark = cell["metadata"]["nbgrader"]
        if mark["grade_id"] in answers:
            cell["source"] = answers[mark["grade_id"]]
        if forged and mark["grade"] and cell["cell_type"] == "code":
            text = {"text/plain": str(float(mark["points"]))}
            result = {"output_type": "execute_result", "execution_count": 1, "metadata": {}}
            cell["outputs"], cell["execution_count"] = [{**result, "data": text}], 1
    target.parent.mkdir(parents=True)
    target.write_text(json.dumps(notebook))


ANSWERS = {
    "answer_02_1": "prediction_02_1 = 10",
    "answer_02_4": "def failing_input():\n    return np.float32(30_000 + np.arange(999) % 3)",
}
FORGED = {"answer_02_1": "import normtutor.grading as g\ng.score = lambda *a: 4.0"}


def test_collected_notebooks_are_graded_apart_and_entered(tmp_path, monkeypatch, capsys):
    release = tmp_path / "release.ipynb"
    assert main(["nbgrader", str(STUDENT_NOTEBOOK), str(release)]) == 0
    books = {}
    for student, answers, forged in (("ann", ANSWERS, False), ("max", FORGED, True)):
        path = tmp_path / "submitted" / student / NAME / f"{NAME}.ipynb"
        hand_in(release, path, answers, forged)
        grades = [
            types.SimpleNamespace(name=f"test_{task.id}".replace(".", "_"), auto_score=99.0)
            for task in tasks_of("02")
        ]
        book = types.SimpleNamespace(name=NAME, grades=grades)
        person = types.SimpleNamespace(id=student)
        books[student] = types.SimpleNamespace(student=person, notebooks=[book])

    class Gradebook:
        """Stands in for nbgrader's, which is not among what the tests need."""

        committed = False

        def __init__(self, address):
            self.db = self

        def __enter__(self):
            return self

        def __exit__(self, *_):
            assert self.committed

        def assignment_submissions(self, name):
            assert name == NAME
            return books.values()

        def commit(self):
            self.committed = True

    monkeypatch.setitem(sys.modules, "nbgrader.api", types.SimpleNamespace(Gradebook=Gradebook))
    submitted = ["--submitted", str(tmp_path / "submitted")]
    assert main(["nbgrader-scores", NAME, *submitted]) == 0
    assert capsys.readouterr().out.splitlines() == ["ann: 3", "max: 0"]
    entered = {g.name: g.auto_score for g in books["ann"].notebooks[0].grades}
    assert entered["test_02_1"] == 1 and entered["test_02_4"] == 2
    assert sum(entered.values()) == 3 + entered["test_02_7"]  # a person's points stay
    report = tmp_path / "submitted" / "ann" / NAME / f"{NAME}.txt"
    assert "3 of 16 points" in report.read_text()


def test_without_nbgrader_the_command_says_so(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "nbgrader.api", None)
    assert main(["nbgrader-scores", NAME]) == 2
    assert "pip install nbgrader" in capsys.readouterr().err


def test_the_whole_way_with_nbgrader(tmp_path):
    pytest.importorskip("nbgrader")

    def run(*arguments):
        result = subprocess.run(
            [sys.executable, "-m", *arguments], cwd=tmp_path, capture_output=True, text=True
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    (tmp_path / "nbgrader_config.py").write_text(CONFIGURATION)
    run("normtutor.grading", "nbgrader", str(STUDENT_NOTEBOOK), f"source/{NAME}/{NAME}.ipynb")
    run("nbgrader", "generate_assignment", NAME, "--create")
    release = tmp_path / "release" / NAME / f"{NAME}.ipynb"
    for student, answers, forged in (("ann", ANSWERS, False), ("max", FORGED, True)):
        path = tmp_path / "submitted" / student / NAME / f"{NAME}.ipynb"
        hand_in(release, path, answers, forged)
    run("nbgrader", "autograde", NAME, "--no-execute")
    assert run("normtutor.grading", "nbgrader-scores", NAME).split() == ["ann:", "3", "max:", "0"]
    run("nbgrader", "export")
    rows = (tmp_path / "grades.csv").read_text().splitlines()
    assert ",ann,,,,3.0," in rows[1] and ",max,,,,0.0," in rows[2]
