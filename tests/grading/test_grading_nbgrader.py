"""The way through nbgrader, from an exercises notebook to points and feedback."""

import json
import sys
import types
from pathlib import Path

import nbformat
import pytest

from normtutor.grading import nbgrader, tasks_of
from normtutor.grading.__main__ import main
from normtutor.grading.submission import grade, nothing

NAME = "02_family_of_norms"
STUDENT_NOTEBOOK = Path(__file__).resolve().parents[2] / "book" / "exercises" / f"{NAME}.ipynb"
OWN = """
from normtutor.grading import Check, Mistake, TASKS as BOOK, Task, prediction
from dataclasses import replace

def _large(answer, rng):
    raise Mistake("one value outweighs a billion")

TASKS = [{tasks}]
"""
HIDDEN = OWN.format(
    tasks='Task("02.3h", "implement", "Hidden", "merge_moments", 2, (Check("large", _large),))'
)
VARIANT = OWN.format(tasks='replace(BOOK["02.1"], points=5)')


def forged(mark):
    text = {"text/plain": str(float(mark["points"]))}
    return {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": text}


def hand_in(release, target, answers, forge=False):
    """Write a submission: the released notebook with some cells filled in."""
    notebook = json.loads(release.read_text())
    for cell in notebook["cells"]:
        mark = cell["metadata"]["nbgrader"]
        if mark["grade_id"] in answers:
            cell["source"] = answers[mark["grade_id"]]
        if forge and mark["grade"] and cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [forged(mark)], 1
    target.parent.mkdir(parents=True)
    target.write_text(json.dumps(notebook))


ANSWERS = {
    "answer_02_1": "prediction_02_1 = 10",
    "answer_02_4": "def failing_input():\n    return np.float32(30_000 + np.arange(999) % 3)",
}
FORGED = {"answer_02_1": "import normtutor.grading as g\ng.score = lambda *a: 4.0"}


def given(cells):
    """The points that nbgrader reads in the outputs of test cells; without one it gives all."""
    found = {}
    for cell in cells:
        mark = cell["metadata"]["nbgrader"]
        if mark["grade"] and not mark["solution"]:
            results = [o for o in cell["outputs"] if o["output_type"] == "execute_result"]
            found[mark["grade_id"]] = (
                float(results[0]["data"]["text/plain"]) if results else mark["points"]
            )
    return found


@pytest.mark.parametrize(
    ("answers", "forge", "points"), [(ANSWERS, False, 3), (FORGED, True, 0), ({}, False, 0)]
)
def test_points_come_from_a_grade_apart_and_from_nothing_else(tmp_path, answers, forge, points):
    release, path = tmp_path / "release.ipynb", tmp_path / "in" / f"{NAME}.ipynb"
    source = tmp_path / f"{NAME}.ipynb"
    source.write_text(STUDENT_NOTEBOOK.read_text())
    assert main(["nbgrader", str(source), str(release)]) == 0
    hand_in(release, path, answers, forge)
    notebook = nbformat.read(path, as_version=4)
    nbgrader.fill(notebook.cells, grade(path, tasks_of("02")))
    nbformat.validate(notebook)
    assert sum(given(notebook.cells).values()) == points
    said = "".join(o.get("text", "") for c in notebook.cells for o in c.get("outputs", []))
    assert "02.2 LayerNorm's backward in one line (implement): 0 of 4 points" in said


def test_what_was_not_graded_gives_no_points(tmp_path):
    release = tmp_path / "release.ipynb"
    assert main(["nbgrader", str(STUDENT_NOTEBOOK), str(release)]) == 0
    for tasks in ([], tasks_of("02")):
        notebook = nbformat.read(release, as_version=4)
        nbgrader.fill(notebook.cells, nothing(tasks, "the file is broken"))
        assert set(given(notebook.cells).values()) == {0.0}


def test_hidden_checks_and_variants_have_their_cells(tmp_path):
    (tmp_path / "own.py").write_text(HIDDEN)
    (tmp_path / "variant.py").write_text(VARIANT)
    release = tmp_path / "release.ipynb"
    files = ["--checks", str(tmp_path / "own.py"), "--variant", str(tmp_path / "variant.py")]
    assert main(["nbgrader", str(STUDENT_NOTEBOOK), str(release), *files]) == 0
    cells = json.loads(release.read_text())["cells"]
    marks = {cell["metadata"]["nbgrader"]["grade_id"]: cell for cell in cells}
    assert marks["test_02_1"]["metadata"]["nbgrader"]["points"] == 5
    hidden = marks["test_02_3h"]
    assert hidden["metadata"]["nbgrader"]["points"] == 2 and "merge" not in hidden["source"]
    nbformat.validate(nbformat.read(release, as_version=4))


def test_the_configuration_puts_the_grade_in_the_place_of_the_execution(tmp_path, monkeypatch):
    names = ["IgnorePattern", "LimitOutput", "SaveAutoGrades", "AssignLatePenalties"]
    names += ["CheckCellMetadata"]
    steps = {name: type(name, (), {}) for name in names}
    fake = types.SimpleNamespace(NbGraderPreprocessor=object, **steps)
    monkeypatch.setitem(sys.modules, "nbgrader", types.SimpleNamespace(preprocessors=fake))
    monkeypatch.setitem(sys.modules, "nbgrader.preprocessors", fake)
    clear = types.SimpleNamespace(ClearMetadataPreprocessor=type("Clear", (), {}))
    monkeypatch.setitem(sys.modules, "nbconvert", types.SimpleNamespace(preprocessors=clear))
    monkeypatch.setitem(sys.modules, "nbconvert.preprocessors", clear)
    config = types.SimpleNamespace(Autograde=types.SimpleNamespace())
    (tmp_path / "own.py").write_text(HIDDEN)
    nbgrader.configure(config, checks=str(tmp_path / "own.py"))
    ours, *rest = config.Autograde.autograde_preprocessors
    # Points and penalties are taken from what ours has written.
    assert [step.__name__ for step in rest[2:]] == names[1:]
    release, path = tmp_path / "release.ipynb", tmp_path / "in" / f"{NAME}.ipynb"
    files = ["--checks", str(tmp_path / "own.py")]
    assert main(["nbgrader", str(STUDENT_NOTEBOOK), str(release), *files]) == 0
    hand_in(release, path, ANSWERS)
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"name": NAME, "path": str(path.parent)}}
    notebook, _ = ours().preprocess(notebook, where)
    points = given(notebook.cells)
    assert sum(points.values()) == 3 and points["test_02_3h"] == 0
    path.write_text("{")  # a broken file
    notebook, _ = ours().preprocess(notebook, where)
    assert sum(given(notebook.cells).values()) == 0


def test_without_nbgrader_the_configuration_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "nbgrader.preprocessors", None)
    with pytest.raises(ValueError, match="pip install nbgrader"):
        nbgrader.configure(types.SimpleNamespace())
