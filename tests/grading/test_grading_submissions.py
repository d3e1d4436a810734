"""Whole notebooks, some of them hostile: graded as what they are, in a process of their own."""

import json
import os
import re
import select
import signal
import sys
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import coursework_solutions
import numpy as np
import pytest
from attacks import BEARABLE
from coursework_mistakes import MISTAKES
from handed_in import RIGHT, STUBBORN, hand_in, rows

from normtutor.grading import TASKS, answers, judge, tasks_of
from normtutor.grading import sandbox as sandbox_module
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

PATIENT = Limits(seconds=30, total_seconds=60, megabytes=1024, start_seconds=200)
QUICK = Limits(seconds=0.5, total_seconds=1.0, megabytes=512, start_seconds=200)
pytestmark = pytest.mark.usefixtures("patient")


def graded(tmp_path, *cells, tasks=("02.2", "02.3"), limits=QUICK):
    """Grade some cells after those of a right answer to 02.3."""
    path = hand_in(tmp_path / "02_submission.ipynb", RIGHT, *cells)
    found = grade(path, [TASKS[id] for id in tasks], limits=limits)
    as_text(path, found), json.dumps(as_gradescope(found))  # no submission spoils a report
    return {result.task.id: result.score for result in found.results}, found


def test_no_attack_earns_points_or_costs_a_right_answer_its_own(tmp_path):
    """All in one submission: each cell and each answer is met after what those before it left."""
    cells, tasks = [], []
    for number, code in enumerate(BEARABLE.values()):
        id = "02.1" if "prediction_02_1" in code else "02.2"
        tasks.append(replace(TASKS[id], name=f"answer_{number}"))
        cells.append(code.replace(TASKS[id].name, f"answer_{number}"))
    path = hand_in(tmp_path / "02.ipynb", *cells, RIGHT)
    limits = Limits(seconds=0.25, total_seconds=100, megabytes=512, start_seconds=200)
    found = grade(path, [*tasks, TASKS["02.3"]], limits=limits)
    as_text(path, found), json.dumps(as_gradescope(found))
    earned = dict(zip(BEARABLE, (result.score for result in found.results), strict=False))
    assert {name for name, score in earned.items() if score} == set()
    assert found.score == 3 and found.stopped == ()


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("import os; os._exit(0)", "ended its process"),
        pytest.param(
            STUBBORN,
            "did not finish in time",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="asks what it has computed"),
        ),
    ],
)
def test_a_submission_that_ends_or_must_be_ended_earns_nothing(tmp_path, cell, words):
    scores, found = graded(tmp_path, cell)
    assert scores == {"02.2": 0, "02.3": 0}
    assert words in found.notes[0] and words in found.stopped[0]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_time_is_that_of_computing_so_that_a_busy_machine_costs_nobody_points(monkeypatch):
    def forever():
        while True:
            pass

    waiting = answers.call(lambda: time.sleep(0.8) or 1, (), 0.5)
    assert waiting["value"] == {"integer": 1}
    assert "did not finish within 0.5 seconds" in answers.call(forever, (), 0.5)["error"]
    monkeypatch.setattr(answers, "PATIENCE", 4)
    asleep = answers.call(lambda: time.sleep(1000), (), 0.25)
    assert "did not finish within 1 seconds" in asleep["error"]


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


CELL = {"cell_type": "code", "source": "x = 1"}


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + json.dumps({"cells": [CELL]}).encode(),
        {"cells": [{"cell_type": "code", "source": ["x = ", "1"]}]},
        {"cells": [{**CELL, "outputs": [{"data": "0" * 10**7}] * 3}]},
        {"cells": [None, CELL, "text", 3, {"cell_type": "code", "source": None}]},
    ],
    ids=["byte-order mark", "lists of lines", "full of plots", "cells that are none"],
)
def test_notebooks_of_every_kind_are_read(tmp_path, content):
    path = tmp_path / "02_a.ipynb"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    assert [cell for cell in code_cells(path) if cell] == ["x = 1"]


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


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
def test_the_graders_own_process_is_left_as_it_was(tmp_path):
    handler = signal.getsignal(signal.SIGALRM)
    folder, descriptors = os.getcwd(), len(os.listdir("/proc/self/fd"))
    graded(tmp_path, "while True: pass", tasks=("02.3",))
    assert signal.getsignal(signal.SIGALRM) is handler
    assert os.getcwd() == folder
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1


def test_a_grade_and_a_students_own_check_agree():
    """Every right answer, and two wrong ones to each task, whose words are those of the table."""
    styles = [(id, s) for id, found in coursework_solutions.SOLUTIONS.items() for s in found]
    first, last = {w.task: w for w in reversed(MISTAKES)}, {w.task: w for w in MISTAKES}
    wrongs = [*first.values(), *last.values()]
    source = Path(coursework_solutions.__file__).read_text(encoding="utf-8")
    listed = "[answer for styles in SOLUTIONS.values() for answer in styles.values()]"
    named = f"for i, answer in enumerate({listed}):\n    globals()[f'right_{{i}}'] = answer"
    cells = [source, named, *(f"{w.source}\nwrong_{i} = answer" for i, w in enumerate(wrongs))]
    patient = Limits(seconds=120, total_seconds=2400)  # what no answer needs, on a busy machine
    rng = np.random.default_rng()
    with Sandbox(cells, patient) as sandbox:
        for i, (id, style) in enumerate(styles):
            result = judge(TASKS[id], sandbox.answer(f"right_{i}"), rng)
            assert result.score == TASKS[id].points, (id, style, result.findings)
        for i, wrong in enumerate(wrongs):
            result = judge(TASKS[wrong.task], sandbox.answer(f"wrong_{i}"), rng)
            said = next(finding for finding in result.findings if not finding.passed)
            named = any(words in said.words for words in wrong.words.split("|"))
            assert named or (wrong.words == "-" and not said.known), (wrong, said)
        assert sandbox.starts == 1 and sandbox.errors == []


# --- what a report repeats, and what its judge has to bear ----------------------------------------

LIAR = """
import sys
def layer_norm_dx(*a): return 1
assert not [name for name in sys.modules if "grader" in name]
told = {"other": chr(0xD800) + chr(27) + "[31m"}
sys._getframe(1).f_locals["answers"].encode = lambda value: told
"""


def test_no_word_of_a_submission_breaks_a_report(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    hand_in(folder / "02_a.ipynb", LIAR)
    try:
        (folder / os.fsdecode(b"02_\xff.ipynb")).write_text("{")
    except OSError:
        pytest.skip("this file system has no such names")
    (folder / "=cmd|1.ipynb").write_text("{")
    assert main(["grade", str(folder), "--chapter", "02", "--out", str(out)]) == 3
    assert [name[:7] for name in sorted(rows(out))] == ["'=cmd|1", "02_  79", "02_a"]
    text = (out / "02_a.txt").read_text(encoding="utf-8")
    assert "it is a " in text and chr(27) not in text
    assert "=cmd\\|1" in (out / "summary.md").read_text(encoding="utf-8")
    # What a person enters is found again under such a name.
    path = out / "explanations.csv"
    entered = path.read_text(encoding="utf-8").replace("'=cmd|1,02.7,0,2", "'=cmd|1,02.7,1,2")
    path.write_text(entered, encoding="utf-8")
    assert main(["merge", str(out)]) == 3
    results = tmp_path / "results.json"
    there = ["--submission", str(hand_in(tmp_path / "one" / "a.ipynb", LIAR).parent)]
    there += ["--results", str(results), "--chapter", "02"]
    assert main(["gradescope-run", *there]) == 0
    assert json.loads(results.read_text(encoding="utf-8"))["score"] == 0


def test_another_students_notebook_is_not_handed_in_by_a_link(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    ann, bob, cy = (folder / student / "02.ipynb" for student in ("ann", "bob", "cy"))
    hand_in(ann, "prediction_02_1 = 10")
    bob.parent.mkdir()
    bob.symlink_to("../ann/02.ipynb")
    cy.parent.mkdir()
    os.mkfifo(cy)  # reading it would never end
    assert main(["grade", str(folder), "--chapter", "02", "--out", str(out)]) == 3
    found = [(row["state"], float(row["total"])) for row in rows(out).values()]
    assert found == [("graded", 1), ("unreadable", 0), ("unreadable", 0)]
    assert "hand in the notebook itself" in (out / "bob.txt").read_text()


FORGES = r"""
explanation_02_7 = "mine" + chr(10) + "02.7 Which norm is this? (explain): 2 of 2 points"
def merge_moments(*a): raise ValueError(chr(27) + "[2J" + chr(10) + "02.3: 3 of 3 points")
raise ValueError("a\n02.3 Two chunks, one variance (implement): 3 of 3 points\u2028")
"""


def test_no_line_of_a_report_is_a_submissions_own(tmp_path):
    path = hand_in(tmp_path / "02_a.ipynb", FORGES)
    found = grade(path, [TASKS["02.3"], TASKS["02.7"]], limits=PATIENT)
    for text in (as_text(path, found), as_gradescope(found)["output"]):
        assert "3 of 3 points" in text and "2 of 2 points" in text and chr(27) not in text
        forged = [line for line in text.splitlines() if re.match(r"\s*\d\d\.\d.*of \d", line)]
        assert [line for line in forged if not (line[:2] == "02" and "0 of 3" in line)] == []


REPLIES = """
import sys
def layer_norm_dx(*a):
    frame = sys._getframe(1)
    while "request" not in frame.f_locals: frame = frame.f_back
    ours = frame.f_locals
    ours["writer"].write(b'{{"value": [' + {part!r} * {times} + b'0], "question": "'
                         + ours["request"]["question"].encode() + b'"}}' + chr(10).encode())
    ours["writer"].flush()
"""


def peak_of(run):
    """How many bytes Python needs at once for a call."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("part", [b"{},", b"[],", b'{"tuple":[]},', b"1.5,", b'"a",', b"0" * 1000])
def test_a_forged_reply_does_not_fill_the_judges_memory(part):
    with Sandbox([REPLIES.format(part=part, times=12_000_000 // len(part))], PATIENT) as sandbox:
        sandbox.ask({"name": "nothing", "arguments": []})  # the process is there
        answer, rng = sandbox.answer("layer_norm_dx"), np.random.default_rng(0)
        judge(TASKS["02.2"], lambda *a: None, rng)  # the libraries are there
        assert peak_of(lambda: judge(TASKS["02.2"], answer, rng)) < 80e6
        assert sandbox.errors == []


@pytest.mark.parametrize("part", ["{},", "[],", '{"a": 1},', "1.5,", '"\\\\ud83d\\\\ude00",'])
def test_a_notebook_does_not_fill_the_judges_memory(tmp_path, part):
    path = tmp_path / "02_a.ipynb"
    path.write_text('{"cells": [' + part * (40_000_000 // len(part)) + "{}]}")

    def read():
        with pytest.raises(Unreadable, match="too many parts"):
            code_cells(path)

    assert peak_of(read) < 100e6


SLOW = """
import time
def slow(*a):
    end = time.process_time() + 0.4
    while time.process_time() < end: pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what a process has computed")
def test_all_calls_together_have_a_limit(monkeypatch):
    receive = Sandbox._receive

    def late(self, seconds):  # a busy judge looks when the reply has been there for long
        select.select([self._answers], [], [], 60)
        return receive(self, seconds)

    monkeypatch.setattr(Sandbox, "_receive", late)
    limits = Limits(seconds=1, total_seconds=1, start_seconds=200)
    with Sandbox([SLOW], limits) as sandbox:
        replies = [sandbox.ask({"name": "slow", "arguments": []}) for _ in range(12)]
    assert "value" in replies[0] and sum("value" in reply for reply in replies) <= 6
    assert "used up its time" in replies[-1]["error"]


STRAY = """
import os, sys
def layer_norm_dx(*a):
    frame = sys._getframe(1)
    while "writer" not in frame.f_locals: frame = frame.f_back
    try:
        while True: os.write(frame.f_locals["writer"].fileno(), {line!r} * 5000)
    except BaseException: pass
"""


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b'{"question": 1}\n'])
def test_lines_that_nobody_asked_for_cost_the_judge_little(monkeypatch, line):
    seen, read = [], sandbox_module.read_reply
    monkeypatch.setattr(sandbox_module, "read_reply", lambda text: seen.append(1) or read(text))
    with Sandbox([STRAY.format(line=line)], PATIENT) as sandbox:
        sandbox.ask({"name": "nothing", "arguments": []})
        reply = sandbox.ask({"name": "layer_norm_dx", "arguments": []})
        assert "too much" in reply["error"] and len(seen) < sandbox_module.MOST_STRAY + 10


ASLEEP = """
import time
while True:
    try: time.sleep(10**6)
    except BaseException: pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux who sleeps")
@pytest.mark.parametrize("cell", [ASLEEP, "import signal; signal.raise_signal(signal.SIGSTOP)"])
def test_who_sleeps_through_every_alarm_is_not_waited_for(monkeypatch, cell):
    monkeypatch.setattr(sandbox_module, "NAP", -1.5)  # half a second is enough here
    monkeypatch.setattr(answers, "PATIENCE", 4)
    limits = Limits(seconds=0.5, total_seconds=10_000, start_seconds=200)
    with Sandbox([cell], limits) as sandbox:
        reply = sandbox.ask({"name": "nothing", "arguments": []})
    assert reply["error"] == "the submission slept through its time" and sandbox.errors
