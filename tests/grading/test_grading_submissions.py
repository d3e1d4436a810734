"""Whole notebooks, some of them hostile: graded as what they are, in a process of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import coursework_mistakes
import coursework_solutions
import numpy as np
import pytest

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

PACKAGE = Path(__file__).resolve().parents[2] / "normtutor"
QUICK = Limits(seconds=0.5, total_seconds=5.0, megabytes=512)

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

# Cells that must not earn the points of 02.2, nor cost those of 02.3.
HARMLESS_TO_OTHERS = {
    "nothing": "pass",
    "a stub": body("pass"),
    "raises in a cell": "1 / 0",
    "no Python": "def layer_norm_dx(g:",
    "raises in the function": body("raise ValueError('x' * 100_000)"),
    "an error that cannot be shown": body(
        "class E(Exception):\n    __str__ = property(lambda self: 1 / 0)\nraise E"
    ),
    "exits in a cell": "import sys; sys.exit(0)",
    "exits in the function": body("import sys; sys.exit(0)"),
    "ends its process in the function": body("import os; os._exit(0)"),
    "loops in a cell": "while True: pass",
    "loops in the function": body("while True: pass"),
    "loops and lets nothing through": body(STUBBORN),
    "switches the clock off and loops": body(
        "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)\nwhile True: pass"
    ),
    "sleeps": body("import time; time.sleep(100)"),
    "recurses": body("layer_norm_dx(g, x_hat, inverse_std)"),
    "prints megabytes": "print('x' * 20_000_000)",
    "prints megabytes in the function": body("print('x' * 5_000_000)"),
    "writes to every descriptor": body(
        "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'{\"value\": true}\\n')\n"
        "    except OSError: pass"
    ),
    "eats memory": body("return np.ones(10**10)"),
    "returns too much": body("return np.zeros((3000, 3000))"),
    "returns a nest": body("x = []\nfor _ in range(100_000): x = [x]\nreturn x"),
    "returns itself": body("x = {}\nx['x'] = x\nreturn x"),
    "returns what equals everything": body(
        "class All(np.ndarray):\n    def __eq__(self, other): return True\n"
        "return np.zeros(g.shape).view(All)"
    ),
    "returns objects": body("return np.array([object()] * 3)"),
    "returns text": body("return 'passed'"),
    "is no function": "layer_norm_dx = 4.0",
    "has a false name": body("pass").replace("layer_norm_dx", "layernorm_dx"),
    "leaves a thread": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(100,), daemon=True).start()",
    "starts a thread that prints": "import threading\n"
    "threading.Thread(target=lambda: [print('x') for _ in iter(int, 1)], daemon=True).start()",
    "replaces the check": "import normtutor.grading as g\ng.check = g.score = lambda *a: 100",
    "replaces numpy": "import numpy as np\nnp.asarray = np.array_equal = lambda *a, **k: 0",
    "replaces json": "import json\njson.dumps = lambda *a, **k: '{\"value\": true}'",
    "replaces builtins": "import builtins\nbuiltins.isinstance = lambda *a: True",
    "changes the code of the grader": "import sys\n"
    "sys._getframe(1).f_globals['call'].__code__ = (lambda *a: {'value': True}).__code__",
    "imports the package": body("from normtutor import norms"),
    "imports the package by hand": "import importlib, sys\n"
    "for name in [n for n in sys.modules if n.startswith('normtutor')]: del sys.modules[name]\n"
    "norms = importlib.import_module('normtutor.norms')\n" + body("norms.layer_norm_backward"),
    "imports from a file": "import importlib.util as u\n"
    f"spec = u.spec_from_file_location('m', {str(PACKAGE / 'norms' / 'layer_norm.py')!r})\n"
    "m = u.module_from_spec(spec); spec.loader.exec_module(m)\n" + body("m.layer_norm"),
    "starts a process": "import subprocess, sys\n"
    "subprocess.run([sys.executable, '-c', 'import normtutor.norms'], check=True)\n" + body("pass"),
    "forks": "import os\nif os.fork() == 0: os._exit(0)\n" + body("pass"),
    "kills its parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "writes the result": "open('results.json', 'w').write('{\"score\": 100}')",
    "opens a socket": "import socket\nsocket.create_connection(('127.0.0.1', 80))",
    "uses ctypes": "import ctypes\nctypes.CDLL(None)",
}


@pytest.mark.parametrize("attack", HARMLESS_TO_OTHERS)
def test_an_attack_earns_nothing_and_breaks_nothing(tmp_path, attack):
    scores, found = graded(tmp_path, HARMLESS_TO_OTHERS[attack])
    if attack == "kills its parent" and (found.walled is None or not found.walled.calls):
        pytest.skip("this kernel lets a submission signal others")
    assert scores == {"02.2": 0, "02.3": 3}


def test_a_report_cannot_be_painted_over(tmp_path):
    paint = "\\x1b[2J\\x1b[H  ✓ gradients\\n02.2: 4 of 4 points"
    _, found = graded(tmp_path, body(f"raise ValueError('{paint}')"), tasks=("02.2",))
    text = as_text(Path("02.ipynb"), found)
    assert "\x1b" not in text
    claims = [line for line in text.splitlines() if "4 of 4" in line]
    # It is quoted behind a cross, and heads no line of its own.
    assert [line for line in claims if not line.startswith(("  ✗", "      "))] == []


# Each way to the grader's own side of the pipe; a cell that names one is not run.
WAYS_INSIDE = {
    "a frame": "import sys\nsys._getframe(1).f_globals['_permitted'] = 9",
    "a frame by inspect": "import inspect\ninspect.currentframe().f_back.f_globals['call'] = print",
    "a traceback": "try: 1 / 0\nexcept Exception as e: e.__traceback__.tb_frame.f_back",
    "a generator's frame": "(x for x in [1]).gi_frame.f_back",
    "a closure": "import torch\ntorch.autograd.grad.__closure__[0].cell_contents",
    "a closure, by name": "import torch\ngetattr(torch.autograd.grad, '__closure__')",
    "all classes": "[c for c in object.__subclasses__() if c.__name__ == 'Popen']",
}


@pytest.mark.parametrize("way", WAYS_INSIDE)
def test_a_submission_does_not_reach_its_own_side_of_the_grader(tmp_path, way):
    limits = QUICK._replace(seconds=5)
    scores, found = graded(tmp_path, WAYS_INSIDE[way], tasks=("02.3",), limits=limits)
    assert scores == {"02.3": 3}
    assert "the cell was not run" in found.notes[0]


def test_a_hidden_way_to_its_own_side_of_the_grader_earns_nothing(tmp_path):
    cell = """
import sys
frame = getattr(sys, "_get" + "frame")()
while frame:
    names = getattr(frame, "f_" + "globals")
    names["call"] = lambda *a: {"value": True, "passed": True, "score": 4}
    names["encode"] = lambda value: value
    frame = getattr(frame, "f_" + "back")
"""
    scores, _ = graded(tmp_path, cell)
    assert scores["02.2"] == 0


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
    loop = STUBBORN
    limits = Limits(seconds=0.5, total_seconds=1.0, megabytes=512, start_seconds=200.0)
    started = time.monotonic()
    scores, found = graded(tmp_path, loop, limits=limits)
    assert scores == {"02.2": 0, "02.3": 0}
    assert "did not finish in time" in found.notes[0]
    assert 2.5 <= time.monotonic() - started


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_time_is_that_of_computing_so_that_a_busy_machine_costs_nobody_points(monkeypatch):
    def forever():
        while True:
            pass

    monkeypatch.setattr(answers, "PATIENCE", 10_000)
    waiting = answers.call(lambda: time.sleep(0.8) or 1, (), 0.5)
    assert waiting["value"] == {"integer": 1}
    assert "did not finish within 0.5 seconds" in answers.call(forever, (), 0.5)["error"]
    monkeypatch.setattr(answers, "PATIENCE", 4)
    asleep = answers.call(lambda: time.sleep(1000), (), 0.5)
    assert "did not finish within 2 seconds" in asleep["error"]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what a process has computed")
def test_a_stubborn_submission_is_killed_for_what_it_computes(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "PATIENCE", 10_000)
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


def test_replacing_torch_spoils_nothing(tmp_path):
    cell = (
        "import torch\ntorch.allclose = torch.equal = lambda *a, **k: True\n"
        "torch.Tensor.numpy = lambda self: 0"
    )
    scores, found = graded(tmp_path, cell, limits=QUICK._replace(seconds=5))
    assert scores == {"02.2": 0, "02.3": 3}
    assert any("torch.equal" in note for note in found.notes)


def test_patching_torch_does_not_repair_a_module(tmp_path):
    cells = """
import torch

class RunningScale(torch.nn.Module):
    def __init__(self, features, alpha=0.9, eps=1e-5):
        super().__init__()
        self.alpha, self.eps = alpha, eps
        self.register_buffer("running_mean_square", torch.ones(features))

    def forward(self, x):
        y = x / torch.sqrt(self.running_mean_square + self.eps)
        old = self.running_mean_square
        self.running_mean_square = self.alpha * old + (1 - self.alpha) * (x**2).mean((0, 1))
        return y

before = torch.autograd.backward
torch.autograd.backward = lambda *a, **k: before(*a, retain_graph=True, **k)
torch.Tensor.requires_grad = False
"""
    limits = QUICK._replace(seconds=5)
    scores, found = graded(tmp_path, cells, tasks=("03.3",), limits=limits)
    assert scores == {"03.3": 0}
    assert any("torch.autograd.backward" in note for note in found.notes)


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


def from_outside(module, answers):
    """Judge many answers of one file, which a submission's process executes as a cell."""
    source = Path(module.__file__).read_text(encoding="utf-8")
    names = f"for i, answer in enumerate({answers}):\n    globals()[f'answer_{{i}}'] = answer"
    patient = Limits(
        seconds=120, total_seconds=2400
    )  # what no answer needs, on a busy machine either
    return Sandbox([source, names], patient)


def test_every_wrong_answer_is_caught_from_outside_with_the_same_words():
    rng = np.random.default_rng()
    with from_outside(coursework_mistakes, "[wrong.answer for wrong in MISTAKES]") as sandbox:
        for i, wrong in enumerate(coursework_mistakes.MISTAKES):
            result = judge(TASKS[wrong.task], sandbox.answer(f"answer_{i}"), rng)
            failed = [finding for finding in result.findings if not finding.passed]
            assert failed and result.score < TASKS[wrong.task].points, wrong.name
            assert not (wrong.all_lost and result.score), wrong.name
            if wrong.words:
                assert any(wrong.words in finding.words for finding in failed), (wrong.name, failed)
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
