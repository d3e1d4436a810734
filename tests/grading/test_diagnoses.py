"""What is said about an answer that shows no particular mistake: how it differs, and no cause."""

import json
import re

import numpy as np
import pytest
import torch
from coursework_solutions import PREDICTIONS, SOLUTIONS
from normtutor_grader.sandbox import Limits
from normtutor_grader.submission import grade

from normtutor.grading import TASKS, Local, Mistake

pytestmark = pytest.mark.slow

CODE = [task for task in TASKS.values() if task.id in SOLUTIONS]
CHECKS = [(task, check) for task in CODE for check in task.checks]
# All that may be said where nothing is known. The first group is about the answer as a whole.
NEUTRAL = re.compile(
    r"(a batch without a real token says nothing, so nothing moves\. )?("
    r"[^:?]+ first differs at \[[\d, ]+\]; \d+ of \d+ entries differ(, all at [\w, ]+)?; "
    r"the largest difference is \S+ of the largest entry"
    r"|[^:?]+ holds NaN or infinity in \d+ of \d+ entries(, first at \[[\d, ]+\])?"
    r"|[^:?]+ is (zero|the same number) everywhere|[^:?]+ is too (large|small)"
    r"|[^:?]+ has the wrong sign|[^:?]+ must have shape \([\d, ]*\); it has \([\d, ]*\)"
    r"|[^:?]+ has the right numbers (with its axes exchanged|in the shape .*)"
    r"|it stopped: RuntimeError: .*"
    r"|its variance is \S+ and must be .*|its entries are all the same; .*"
    r"|all entries must be finite|one axis with 100 to .*"
    r"|one pass gets this one right to within a half\..*"
    r"|that is not the number\..*|four numbers, each 1 or 0; .*|given a norm over .*)"
)


def array_like(values, like):
    """Numbers in the shape, type and library of others."""
    if isinstance(like, torch.Tensor):
        return torch.as_tensor(np.asarray(values), dtype=like.dtype)
    return np.asarray(values).astype(np.asarray(like).dtype)


GARBAGE = {
    "noise": lambda v: np.random.default_rng(7).normal(size=np.shape(v)),
    "zeros": lambda v: np.zeros(np.shape(v)),
    "NaN": lambda v: np.full(np.shape(v), np.nan),
    "a constant": lambda v: np.full(np.shape(v), 0.37),
    "transposed axes": lambda v: np.asarray(v).T,
}


def spoiled(right, spoil):
    """A right answer whose outputs are turned into something else."""

    def other(value):
        if isinstance(value, tuple):
            return tuple(map(other, value))
        return array_like(spoil(value), value)

    if not isinstance(right, type):
        return lambda *arguments: other(right(*arguments))

    class Spoiled(right):
        def forward(self, x):
            return other(super().forward(x).detach())

    return Spoiled


def spoiled_with_gradients(right, spoil):
    class Spoiled(right):
        def forward(self, x):
            y = super().forward(x)
            return 0 * y.sum() + array_like(spoil(y.detach()), y)

    return Spoiled


def said(check, answer):
    """What one check says, whatever the checks before it would; None where the answer passes."""
    try:
        with np.errstate(all="ignore"):
            check.run(Local(answer), np.random.default_rng(0))
    except Mistake as mistake:
        return mistake
    return None


@pytest.mark.parametrize("kind", GARBAGE)
@pytest.mark.parametrize(("task", "check"), CHECKS, ids=[f"{t.id} {c.name}" for t, c in CHECKS])
def test_garbage_is_described_and_no_cause_is_named(task, check, kind):
    right = next(iter(SOLUTIONS[task.id].values()))
    answers = [spoiled(right, GARBAGE[kind])]
    if isinstance(right, type):
        answers.append(spoiled_with_gradients(right, GARBAGE[kind]))
    for answer in answers:
        mistake = said(check, answer)
        if mistake is None:  # nothing of it is asked for here, or it looks the same transposed
            assert kind == "transposed axes" or not check.first
            continue
        assert NEUTRAL.fullmatch(str(mistake)), str(mistake)
        assert not mistake.known or "the right numbers" in str(mistake)


@pytest.mark.parametrize("id", PREDICTIONS)
@pytest.mark.parametrize("value", [1234.5, 0.0, np.nan, np.inf, -7.7e-3])
def test_a_number_from_nowhere_is_not_diagnosed(id, value):
    (check,) = TASKS[id].checks
    mistake = said(check, value)
    assert mistake is None or (NEUTRAL.fullmatch(str(mistake)) and not mistake.known)


# Its time is up at once; a limit so short would at times stop what is quick, on a busy machine.
SOON = "import signal; signal.setitimer(signal.ITIMER_REAL, 0.01)"


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("def {0}(:\n    return 1", "it is not defined: code cell {1}: SyntaxError"),
        (f"{SOON}\nfor _ in iter(int, 1):\n    pass\n{{0}} = 1", "code cell {1}: it did not"),
        ("{0} = 1 / 0", "it is not defined: code cell {1}: ZeroDivisionError"),
        ("{0}_ = 1", "it is not defined: no cell defines it"),
        (f"def {{0}}(*a):\n    {SOON}\n    while True:\n        pass", "it stopped: it did not"),
    ],
    ids=["does not compile", "the cell runs on", "the cell stops", "another name", "runs on"],
)
def test_why_there_is_no_answer_is_told_as_it_was(tmp_path, cell, words):
    """Neither a cell that does not compile nor one that runs on is taken for a missing name."""
    tasks = [task for task in TASKS.values() if task.kind != "explain"]
    sources = [*(cell.format(task.name) for task in tasks), "# torch is imported beforehand"]
    cells = [{"cell_type": "code", "source": source} for source in sources]
    path = tmp_path / "all.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    found = grade(path, tasks, limits=Limits(100, total_seconds=600), walled=False)
    names = [task.name for task in tasks]
    for result in found.results:
        first, number = result.findings[0], names.index(result.task.name) + 1
        assert words.format("", number) in first.words
        assert not first.known
