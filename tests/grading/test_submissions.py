"""Whole notebooks, some of them hostile: graded as what they are, in a process of their own."""

import json
import os
import re
import signal
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import coursework_solutions
import numpy as np
import pytest
from attacks import BEARABLE
from coursework_mistakes import MISTAKES
from handed_in import RIGHT, hand_in, rows
from normtutor_grader import sandbox as sandbox_module
from normtutor_grader import submission
from normtutor_grader.__main__ import main
from normtutor_grader.sandbox import Limits, Sandbox
from normtutor_grader.submission import Unreadable, as_text, chapter_of, code_cells

from normtutor.grading import TASKS, Result, judge, tasks_of

pytestmark = pytest.mark.slow

# What no honest cell needs, on a busy machine; QUICK is for what only a limit ends.
PATIENT = Limits(seconds=100, total_seconds=600, megabytes=1024)
QUICK = PATIENT._replace(seconds=0.5)


def grade(path, tasks, **how):
    """Grade without the wall, which has tests of its own."""
    return submission.grade(path, tasks, walled=False, **how)


def sandbox_of(cells, limits=PATIENT):
    return Sandbox(cells, limits, walled=False)


def graded(tmp_path, *cells, tasks=("02.2", "02.3"), limits=PATIENT):
    """Grade some cells after those of a right answer to 02.3."""
    path = hand_in(tmp_path / "02_submission.ipynb", RIGHT, *cells)
    found = grade(path, [TASKS[id] for id in tasks], limits=limits)
    as_text(path, found)  # no submission spoils a report
    return {result.task.id: result.score for result in found.results}, found


def test_no_attack_earns_points_or_costs_a_right_answer_its_own(tmp_path):
    """All in one submission: each cell and each answer is met after what those before it left."""
    cells, tasks = [], []
    for number, code in enumerate(BEARABLE.values()):
        id = "02.1" if "prediction_02_1" in code else "02.2"
        tasks.append(replace(TASKS[id], name=f"answer_{number}"))
        cells.append(code.replace(TASKS[id].name, f"answer_{number}"))
    path = hand_in(tmp_path / "02.ipynb", *cells, RIGHT)
    limits = Limits(seconds=4, total_seconds=1000, megabytes=512)
    found = grade(path, [*tasks, TASKS["02.3"]], limits=limits)
    as_text(path, found)
    earned = dict(zip(BEARABLE, (result.score for result in found.results), strict=False))
    assert {name for name, score in earned.items() if score} == set()
    assert found.score == 3 and found.stopped == ()


def test_a_submission_that_ends_its_process_earns_nothing(tmp_path):
    scores, found = graded(tmp_path, "import os; os._exit(0)")
    assert scores == {"02.2": 0, "02.3": 0}
    assert "ended its process" in found.notes[0] and "ended its process" in found.stopped[0]


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00", b"[1]", b'{"cells": 3}', b"[" * 100_000, b'{"cells": [{}]}']
)
def test_what_is_no_notebook_is_graded_as_nothing(tmp_path, content, capsys):
    path = tmp_path / "02_submission.ipynb"
    path.write_bytes(content)
    with pytest.raises(Unreadable):
        code_cells(path)
    assert main(["grade", str(path), "--no-wall"]) == 3
    assert "is not a notebook" in capsys.readouterr().err


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
    graded(tmp_path, "while True: pass", tasks=("02.3",), limits=QUICK)
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
    rng = np.random.default_rng()
    with sandbox_of(cells) as sandbox:
        for i, (id, style) in enumerate(styles):
            result = judge(TASKS[id], sandbox.answer(f"right_{i}"), rng)
            assert result.score == TASKS[id].points, (id, style, result.findings)
        for i, wrong in enumerate(wrongs):
            result = judge(TASKS[wrong.task], sandbox.answer(f"wrong_{i}"), rng)
            said = next((finding for finding in result.findings if not finding.passed), None)
            assert said, f"{wrong.task}: judged right: {wrong.source}"
            named = any(words in said.words for words in wrong.words.split("|"))
            assert named or (wrong.words == "-" and not said.known), (wrong, said)
        assert sandbox.starts == 1 and sandbox.errors == []


# --- each of these cost an honest student points, or a class its work -----------------------------


def test_one_missing_import_costs_what_needs_it_and_no_more(tmp_path):
    """It cost a right notebook 60 of 83 points, without a note."""
    cell = "import numpy as np\nimport no_such_package\nfrom google.colab import drive\nhalf = 0.5"
    scores, found = graded(tmp_path, cell, "assert half == 0.5 and np.pi > 3", tasks=("02.3",))
    assert scores == {"02.3": 3}
    first, second = found.notes
    assert first.startswith("code cell 2: ModuleNotFoundError: No module named 'no_such_package'")
    assert "google" in second


LATEX = [
    (
        r'''"""The gradient \beta, with \xi and \nu: a \tilde x"""''',
        r"The gradient \beta, with \xi",
    ),
    (r'''r"""It is \frac{1}{n}."""''', r"It is \frac{1}{n}."),
    ("(\"one \\alpha \"\n   'two \\N')", r"one \alpha two \N"),
    (r'''"""a""" + " b"''', "a b"),
    ("'draft'\nexplanation_02_7 = r'the \\beta of it'", r"the \beta of it"),
    ("'one'\nexplanation_02_7 += ' two'", "one two"),
    ("'one'\nif True:\n    explanation_02_7 = 'two'", "two"),
]


@pytest.mark.parametrize(("assigned", "words"), LATEX)
def test_latex_in_an_explanation_is_read_as_it_was_typed(tmp_path, assigned, words):
    """Python made a backspace of its \\b, and no string at all of its \\xi."""
    _, found = graded(tmp_path, f"explanation_02_7 = {assigned}", tasks=("02.7",))
    assert found.texts["02.7"].startswith(words)


def test_a_long_explanation_is_whole_or_ends_with_a_mark(tmp_path):
    cell = "explanation_02_7 = 'word ' * {}"
    whole, cut = (
        graded(tmp_path, cell.format(n), tasks=("02.7",))[1].texts["02.7"] for n in (3900, 4100)
    )
    assert len(whole) == 5 * 3900
    assert cut.endswith("[cut here: 500 characters more]")


def test_the_notebook_of_another_chapter_is_said_to_be_that(tmp_path, capsys):
    """It had zero points, and nothing said why."""
    path = hand_in(
        tmp_path / "02_a.ipynb",
        "import numpy as np",
        "def embedding_backward(x): pass",
        *[f"def {task.name}(*a): pass" for task in tasks_of("05") if task.kind == "implement"],
    )
    assert main(["grade", str(path), "--no-wall"]) == 3
    assert "it answers tasks of chapter 05, not of this one" in capsys.readouterr().err


def test_a_grade_can_be_replayed_with_its_seed(tmp_path, monkeypatch):
    path = hand_in(
        tmp_path / "02_a.ipynb", "def layer_norm_dx(g, x_hat, s): raise ValueError(g[0])"
    )
    tasks = [TASKS["02.2"]]
    first, second = (grade(path, tasks, limits=PATIENT) for _ in range(2))
    again = grade(path, tasks, limits=PATIENT, seed=first.seed)
    assert again.results == first.results != second.results and first.seed != second.seed


def test_a_hint_costs_a_point(tmp_path):
    right = """
import numpy as np
def layer_norm(x, weight, bias, eps):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * weight + bias
"""
    points = []
    for asks in ("", "check('02.6', layer_norm)", "check('02.6', layer_norm, hint=True)"):
        cells = ["from normtutor.grading import check", right, asks]
        _, found = graded(tmp_path, *cells, tasks=("02.6",))
        points.append(found.score)
    assert points == [3, 3, 2]
    assert "the hint" in as_text(Path("a"), found)


def test_who_asks_for_the_hint_is_found_in_linear_time():
    """Two million characters of unfinished checks took the judge a quarter of an hour."""
    asks, begun = ['check("02.6", ' * 140_000], time.process_time()
    assert submission.hinted(Result(TASKS["02.6"], (), 3.0), asks).score == 3
    assert time.process_time() - begun < 60


def test_what_was_printed_tells_nothing_of_hidden_inputs(tmp_path):
    """The number of bytes did, in the report that a student gets."""
    _, found = graded(tmp_path, "print('x' * 12345)", tasks=("02.3",))
    assert found.notes == ("it printed too much; the rest was thrown away",)


def test_a_system_that_does_not_fork_safely_grades_as_well(tmp_path, monkeypatch):
    """On macOS nothing could be graded: the process asked to lead a session that it led."""
    monkeypatch.setattr("sys.platform", "darwin")
    assert graded(tmp_path, tasks=("02.3",))[0] == {"02.3": 3}


# --- what a report repeats, and what its judge has to bear ----------------------------------------

LIAR = """
import sys
def layer_norm_dx(*a): return 1
assert not [name for name in sys.modules if "grader" in name]
told = {"other": chr(0xD800) + chr(27) + "[31m"}
sys._getframe(1).f_globals["answers"].encode = lambda value: told
"""


def test_no_word_of_a_submission_breaks_a_report(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    hand_in(folder / "02_a.ipynb", LIAR)
    try:
        (folder / os.fsdecode(b"02_\xff.ipynb")).write_text("{")
    except OSError:
        pytest.skip("this file system has no such names")
    (folder / "=cmd|1.ipynb").write_text("{")
    command = ["grade", str(folder), "--chapter", "02", "--out", str(out), "--no-wall"]
    assert main(command) == 3
    out /= "02"
    assert [name[:7] for name in sorted(rows(out))] == ["'=cmd|1", "02_  79", "02_a"]
    text = (out / "02_a.txt").read_text(encoding="utf-8")
    assert "it is a " in text and chr(27) not in text
    assert "=cmd\\|1" in (out / "summary.md").read_text(encoding="utf-8")
    # What a person enters is found again under such a name.
    (out / "by_hand.csv").write_text("identifier,task,points\n'=cmd|1,02.7,1\n", encoding="utf-8")
    assert main(["merge", str(out)]) == 3
    assert rows(out)["'=cmd|1"]["02.7"] == "1.0"


def test_another_students_notebook_is_not_handed_in_by_a_link(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    ann, bob, cy = (folder / student / "02.ipynb" for student in ("ann", "bob", "cy"))
    hand_in(ann, "prediction_02_1 = 10")
    bob.parent.mkdir()
    bob.symlink_to("../ann/02.ipynb")
    cy.parent.mkdir()
    os.mkfifo(cy)  # reading it would never end
    command = ["grade", str(folder), "--chapter", "02", "--out", str(out), "--no-wall"]
    assert main(command) == 3
    found = [(row["state"], row["total"]) for row in rows(out / "02").values()]
    assert found == [("graded", "1.0"), ("unreadable", ""), ("unreadable", "")]
    assert "hand in the notebook itself" in (out / "02" / "bob.txt").read_text()


FORGES = r"""
explanation_02_7 = "mine" + chr(10) + "02.7 Which norm is this? (explain): 2 of 2 points"
def merge_moments(*a): raise ValueError(chr(27) + "[2J" + chr(10) + "02.3: 3 of 3 points")
raise ValueError("a\n02.3 Two chunks, one variance (implement): 3 of 3 points\u2028")
"""


def test_no_line_of_a_report_is_a_submissions_own(tmp_path):
    path = hand_in(tmp_path / "02_a.ipynb", FORGES)
    found = grade(path, [TASKS["02.3"], TASKS["02.7"]], limits=PATIENT)
    text = as_text(path, found)
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
    with sandbox_of([REPLIES.format(part=part, times=12_000_000 // len(part))]) as sandbox:
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


def test_all_calls_together_have_a_limit(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(sandbox_module, "time", type("Clock", (), {"monotonic": lambda: clock[0]}))
    with sandbox_of(["a = 1"], PATIENT._replace(total_seconds=10)) as sandbox:
        reply = sandbox._reply

        def slow(question, seconds):
            clock[0] += 4 if "name" in question else 0
            return reply(question, seconds)

        monkeypatch.setattr(sandbox, "_reply", slow)
        replies = [sandbox.ask({"name": "a", "arguments": []}) for _ in range(5)]
    assert ["value" in reply for reply in replies] == [True, True, True, False, False]
    assert "used up its time" in replies[-1]["error"]


def test_cells_that_run_once_more_do_so_in_the_time_of_calls(monkeypatch):
    """Who ended the process with each call had the time of all cells six times."""
    clock = [0.0]
    monkeypatch.setattr(sandbox_module, "time", type("Clock", (), {"monotonic": lambda: clock[0]}))
    cells = ["def end(): __import__('os')._exit(0)"]
    with sandbox_of(cells, PATIENT._replace(total_seconds=10)) as sandbox:
        reply = sandbox._reply

        def slow(question, seconds):
            clock[0] += 8 if "cell" in question else 0
            return reply(question, seconds)

        monkeypatch.setattr(sandbox, "_reply", slow)
        for _ in range(sandbox_module.MOST_STARTS):
            assert "error" in sandbox.ask({"name": "end", "arguments": []})
    assert clock[0] <= 24


def test_an_error_in_a_cell_does_not_end_its_time_limit(tmp_path):
    """A loop after it was ended with its process, and with it went all points."""
    end = "signal.setitimer(signal.ITIMER_REAL, 0.2)"
    cell = f"import signal; {end}\n1 / 0\nwhile True: pass"
    scores, found = graded(tmp_path, cell, tasks=("02.3",), limits=PATIENT._replace(seconds=50))
    assert scores == {"02.3": 3} and "did not finish" in found.notes[1]


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
    with sandbox_of([STRAY.format(line=line)]) as sandbox:
        sandbox.ask({"name": "nothing", "arguments": []})
        reply = sandbox.ask({"name": "layer_norm_dx", "arguments": []})
        assert "floods its answers" in reply["error"]
        assert len(seen) < sandbox_module.MOST_STRAY + 10
