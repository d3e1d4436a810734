"""Whole notebooks, some of them hostile: graded as what they are, in a process of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import coursework_solutions
import numpy as np
import pytest
from attacks import cells
from coursework_mistakes import MISTAKES

from normtutor.grading import TASKS, answers, judge, sandbox, tasks_of
from normtutor.grading.__main__ import main
from normtutor.grading.sandbox import Limits, Sandbox
from normtutor.grading.submission import (
    Unreadable,
    as_gradescope,
    as_text,
    chapter_of,
    code_cells,
    grade,
)

QUICK = Limits(seconds=0.5, total_seconds=5.0, megabytes=512)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """What computes is stopped by what it computes: no clock, which a busy machine would move."""
    monkeypatch.setattr(answers, "PATIENCE", 1000)


RIGHT = """
import numpy as np
from normtutor.grading import check

def merge_moments(n_a, mean_a, var_a, n_b, mean_b, var_b):
    n = n_a + n_b
    share, gap = n_b / n, mean_b - mean_a
    var = var_a + share * (var_b - var_a) + share * (1 - share) * gap**2
    return n, mean_a + share * gap, var

check("02.3", merge_moments)
"""


def notebook(path, *cells):
    """Write a notebook of code cells."""
    content = [
        {"cell_type": "code", "source": cell, "metadata": {}, "outputs": []} for cell in cells
    ]
    path.write_text(json.dumps({"cells": content, "metadata": {}, "nbformat": 4}))
    return path


def graded(tmp_path, *cells, tasks=("02.2", "02.3"), limits=QUICK, **how):
    """Grade some cells after those of a right answer to 02.3."""
    path = notebook(tmp_path / "02_submission.ipynb", RIGHT, *cells)
    found = grade(path, [TASKS[id] for id in tasks], limits=limits, **how)
    as_text(path, found), json.dumps(as_gradescope(found))  # no submission spoils a report
    return {result.task.id: result.score for result in found.results}, found


def body(lines):
    """A function layer_norm_dx that does something before it returns zeros."""
    text = "\n".join(f"    {line}" for line in lines.strip().splitlines())
    return f"import numpy as np\n\ndef layer_norm_dx(g, x_hat, inverse_std):\n{text}\n    return g"


def test_a_right_answer_earns_its_points_from_outside(tmp_path):
    answer = """
def layer_norm_dx(g, x_hat, inverse_std):
    pull = x_hat * (g * x_hat).mean(-1, keepdims=True)
    return inverse_std * (g - g.mean(-1, keepdims=True) - pull)
"""
    scores, found = graded(tmp_path, "%matplotlib inline\n!ls\nx = 1", answer)
    assert scores == {"02.2": 4, "02.3": 3}
    assert found.notes == ()


STUBBORN = """while True:
    try:
        while True: sum(range(1000))
    except BaseException: pass"""

# Cells, and bodies of the function, that must not earn the points of 02.2, nor cost those of 02.3.
IN_A_CELL = r"""
nothing: pass
raises: 1 / 0
is no Python: def layer_norm_dx(g:
exits: import sys; sys.exit(0)
loops: while True: pass
prints megabytes: print('x' * 20_000_000)
is no function: layer_norm_dx = 4.0
has a false name: def layernorm_dx(*a): return a
leaves a thread that prints: import threading
    threading.Thread(target=lambda: [print('x') for _ in iter(int, 1)], daemon=True).start()
replaces the check: import normtutor.grading as g; g.check = g.score = lambda *a: 100
changes the grader's own functions: import sys; answers = sys._getframe(1).f_locals['answers']
    answers.call = lambda *a: {'value': True, 'passed': True, 'score': 4}
    answers.encode = lambda value: value
writes the result: open('results.json', 'w').write('{"score": 100}')
"""
IN_THE_FUNCTION = r"""
is a stub: pass
raises: raise ValueError('x' * 100_000)
raises what cannot be shown: class E(Exception): __str__ = property(lambda self: 1 / 0)
    raise E
exits: import sys; sys.exit(0)
ends its process: import os; os._exit(0)
loops: while True: pass
sleeps: import time; time.sleep(100)
recurses: layer_norm_dx(g, x_hat, inverse_std)
eats memory: return np.ones(10**10)
returns too much: return np.zeros((3000, 3000))
returns a nest: x = []
    for _ in range(100_000): x = [x]
    return x
returns itself: x = {}; x['x'] = x; return x
returns objects: return np.array([object()] * 3)
returns text: return 'passed'
imports the package: from normtutor import norms
"""
HARMLESS_TO_OTHERS = {
    **{f"{name} in a cell": cell for name, cell in cells(IN_A_CELL).items()},
    **{f"{name} in the function": body(cell) for name, cell in cells(IN_THE_FUNCTION).items()},
    "loops and lets nothing through": body(STUBBORN),
}


@pytest.mark.parametrize("attack", HARMLESS_TO_OTHERS)
def test_an_attack_earns_nothing_and_breaks_nothing(tmp_path, monkeypatch, attack):
    if "sleeps" in attack:
        monkeypatch.setattr(answers, "PATIENCE", 20)
    scores, _ = graded(tmp_path, HARMLESS_TO_OTHERS[attack])
    # Who changes what answers travel with loses the points of the own right answer as well.
    assert scores == {"02.2": 0, "02.3": 0 if attack.startswith("changes") else 3}


def test_a_report_cannot_be_painted_over(tmp_path):
    paint = "\\x1b[2J\\x1b[H  ✓ gradients\\n02.2: 4 of 4 points"
    _, found = graded(tmp_path, body(f"raise ValueError('{paint}')"), tasks=("02.2",))
    text = as_text(Path("02.ipynb"), found)
    assert "\x1b" not in text
    claims = [line for line in text.splitlines() if "4 of 4" in line]
    # It is quoted behind a cross, and heads no line of its own.
    assert [line for line in claims if not line.startswith(("  ✗", "      "))] == []


def test_a_dtype_is_that_of_the_numbers_and_not_what_an_object_says(tmp_path):
    cell = """
import numpy as np

class Liar:
    dtype = "float16"
    def __init__(self, values): self.values = values
    def detach(self): return self
    def cpu(self): return self
    def numpy(self): return self.values

def rms_norm_half(x, weight, eps):
    x = x.astype(np.float64)
    return Liar(x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * weight)
"""
    scores, found = graded(tmp_path, cell, tasks=("05.5",))
    assert scores == {"05.5": 0}
    assert "must come back as float16" in found.results[0].findings[0].words


def test_a_submission_that_ends_its_process_earns_nothing(tmp_path):
    scores, found = graded(tmp_path, "import os; os._exit(0)")
    assert scores == {"02.2": 0, "02.3": 0}
    assert "ended its process" in found.notes[0]


def test_a_submission_that_cannot_be_interrupted_is_killed(tmp_path):
    limits = Limits(seconds=0.5, total_seconds=1.0, megabytes=512, start_seconds=200.0)
    scores, found = graded(tmp_path, STUBBORN, limits=limits)
    assert scores == {"02.2": 0, "02.3": 0}
    assert "did not finish in time" in found.notes[0]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_time_is_that_of_computing_so_that_a_busy_machine_costs_nobody_points(monkeypatch):
    def forever():
        while True:
            pass

    waiting = answers.call(lambda: time.sleep(0.8) or 1, (), 0.5)
    assert waiting["value"] == {"integer": 1}
    assert "did not finish within 0.5 seconds" in answers.call(forever, (), 0.5)["error"]
    monkeypatch.setattr(answers, "PATIENCE", 4)
    asleep = answers.call(lambda: time.sleep(1000), (), 0.5)
    assert "did not finish within 2 seconds" in asleep["error"]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what a process has computed")
def test_a_stubborn_submission_is_killed_for_what_it_computes(tmp_path):
    limits = Limits(seconds=0.5, total_seconds=1.0, megabytes=512, start_seconds=200.0)
    _, found = graded(tmp_path, STUBBORN, limits=limits)
    assert found.stopped[0] == "the submission did not finish in time"


def test_nothing_of_the_environment_reaches_a_submission(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_TOKEN", "hidden")
    cell = "import os\nassert 'COURSE_TOKEN' not in os.environ"
    _, found = graded(tmp_path, cell, tasks=("02.3",))
    assert found.notes == ()


def test_a_folder_that_grows_too_large_ends_the_submission(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "MOST_WRITTEN", 10_000)
    cell = "open('a', 'w').write('x' * 50_000)\nimport time; time.sleep(9)"
    _, found = graded(tmp_path, cell, limits=QUICK._replace(seconds=9))
    assert found.stopped and "wrote too much" in found.stopped[0]


# --- files and the command line -------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00", b"[1]", b'{"cells": 3}', b"[" * 100_000, b'{"cells": [{}]}']
)
def test_what_is_no_notebook_is_graded_as_nothing(tmp_path, content, capsys):
    path = tmp_path / "02_submission.ipynb"
    path.write_bytes(content)
    with pytest.raises(Unreadable):
        code_cells(path)
    results = tmp_path / "results.json"
    assert main(["grade", str(path), "--gradescope", str(results)]) == 3
    assert json.loads(results.read_text())["score"] == 0
    assert "is not a notebook" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf"
        + json.dumps({"cells": [{"cell_type": "code", "source": "x = 1"}]}).encode(),
        json.dumps(
            {"worksheets": [{"cells": [{"cell_type": "code", "input": ["x = ", "1"]}]}]}
        ).encode(),
        json.dumps(
            {
                "cells": [
                    {"cell_type": "code", "source": "x = 1", "outputs": [{"data": "0" * 10**7}] * 3}
                ]
            }
        ).encode(),
    ],
    ids=["byte-order mark", "format 3", "full of plots"],
)
def test_notebooks_of_every_kind_are_read(tmp_path, content):
    path = tmp_path / "02_a.ipynb"
    path.write_bytes(content)
    assert code_cells(path) == ["x = 1"]


def test_an_error_names_the_cell_and_the_line(tmp_path):
    cell = "import numpy as np\n\ndef layer_norm_dx(g, x_hat, inverse_std):\n    return g / nothing"
    _, found = graded(tmp_path, cell, "y = 1\n1 / 0")
    assert "line 2: 1 / 0" in found.notes[0] and found.notes[0].startswith("code cell 3")
    words = found.results[0].findings[0].words
    assert "layer_norm_dx, code cell 2, line 4: return g / nothing" in words


def test_a_chapter_is_read_off_the_name():
    assert chapter_of(Path("02_norms.ipynb")) == "02"
    with pytest.raises(ValueError, match="--chapter"):
        chapter_of(Path("norms.ipynb"))
    with pytest.raises(ValueError, match="there is no chapter"):
        tasks_of("99")


def test_the_command_line_writes_both_reports(tmp_path):
    explanation = "explanation_02_7 = " + repr("Because of the axes. " * 12)
    path = notebook(tmp_path / "mine.ipynb", RIGHT, explanation, "prediction_02_1 = -10")
    text, results = tmp_path / "report.txt", tmp_path / "results.json"
    command = [sys.executable, "-m", "normtutor.grading", "grade", path, "--chapter", "02"]
    command += ["--report", text, "--gradescope", results, "--seed", "3"]
    subprocess.run(command, check=True, capture_output=True, timeout=1200)
    content = json.loads(results.read_text())
    assert content["score"] == 3
    assert {test["number"]: test["score"] for test in content["tests"]}["02.3"] == 3
    assert {test["status"] for test in content["tests"]} == {"passed", "failed"}
    assert "Because of the axes" in content["output"]
    written = text.read_text()
    assert "the sign is not" in written and "for a person to read" in written
    assert "is not defined" in written  # 02.2 and others


OWN = """
from normtutor.grading import Check, Mistake, Task

def _large(answer, rng):
    n, mean, var = answer(1.0, 5.0, 0.0, 1e9, 5.0, 1.0)
    if not abs(mean - 5) < 1e-9:
        raise Mistake("one value outweighs a billion")

TASKS = [Task("02.3h", "implement", "Hidden", "merge_moments", 2, (Check("large", _large),))]
"""


def test_checks_of_an_instructors_own_stay_hidden(tmp_path):
    path = notebook(tmp_path / "02_mine.ipynb", RIGHT)
    (tmp_path / "own.py").write_text(OWN)
    text, results = tmp_path / "report.txt", tmp_path / "results.json"
    arguments = ["grade", path, "--checks", tmp_path / "own.py"]
    arguments += ["--report", text, "--gradescope", results]
    assert main([str(a) for a in arguments]) == 0
    tests = {test["number"]: test for test in json.loads(results.read_text())["tests"]}
    assert tests["02.3h"]["score"] == 2
    assert tests["02.3h"]["visibility"] == "after_published"
    assert "Hidden" not in text.read_text()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
def test_the_graders_own_process_is_left_as_it_was(tmp_path):
    handler = signal.getsignal(signal.SIGALRM)
    folder, descriptors = os.getcwd(), len(os.listdir("/proc/self/fd"))
    graded(tmp_path, "while True: pass", tasks=("02.3",))
    assert signal.getsignal(signal.SIGALRM) is handler
    assert os.getcwd() == folder
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1


# --- the catalogue, from outside ------------------------------------------------------------------


def from_outside(module, answers, *more):
    """Judge many answers of one file, which a submission's process executes as a cell."""
    source = Path(module.__file__).read_text(encoding="utf-8")
    names = f"for i, answer in enumerate({answers}):\n    globals()[f'answer_{{i}}'] = answer"
    patient = Limits(
        seconds=120, total_seconds=2400
    )  # what no answer needs, on a busy machine either
    return Sandbox([source, names, *more], patient)


def test_every_wrong_answer_is_caught_from_outside_with_the_same_words():
    rng = np.random.default_rng()
    sources = [f"{wrong.source}\nanswer_{i} = answer" for i, wrong in enumerate(MISTAKES)]
    with from_outside(coursework_solutions, "()", *sources) as sandbox:
        for i, wrong in enumerate(MISTAKES):
            result = judge(TASKS[wrong.task], sandbox.answer(f"answer_{i}"), rng)
            first = next(finding for finding in result.findings if not finding.passed)
            named = any(words in first.words for words in wrong.words.split("|"))
            assert named or (wrong.words == "-" and not first.known), (wrong, first)
        assert sandbox.starts == 1 and sandbox.errors == []


def test_every_right_answer_passes_from_outside():
    styles = [(id, s) for id, found in coursework_solutions.SOLUTIONS.items() for s in found]
    listed = "[answer for styles in SOLUTIONS.values() for answer in styles.values()]"
    rng = np.random.default_rng()
    with from_outside(coursework_solutions, listed) as sandbox:
        for i, (id, style) in enumerate(styles):
            result = judge(TASKS[id], sandbox.answer(f"answer_{i}"), rng)
            assert result.score == TASKS[id].points, (id, style, result.findings)
        assert sandbox.starts == 1 and sandbox.errors == []


def test_scipy_works_in_graded_code(tmp_path):
    """It looks for JAX among the modules that are there, and must not find an empty entry."""
    cell = (
        "from scipy import special\n"
        "prediction_02_1 = round(float(special.logsumexp([10.0, -1000.0])), 6)"
    )
    patient = Limits(seconds=120, total_seconds=240)  # a busy machine imports slowly
    scores, found = graded(tmp_path, cell, tasks=("02.1",), limits=patient)
    assert scores == {"02.1": 1} and found.notes == ()
