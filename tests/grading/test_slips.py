"""Slips that are made from formulas: each formula is right, and each frequent slip is named."""

import functools

import numpy as np
import pytest
from coursework_solutions import SOLUTIONS
from test_diagnoses import CODE, GARBAGE, spoiled, spoiled_with_gradients

from normtutor.grading import Local, Mistake, judging, slips
from normtutor.grading.judging import cause, close, telling

pytestmark = pytest.mark.slow

# Slips that give the same numbers: a running mean starts at zero, a norm's gradient is odd in x̂.
EQUAL = {
    "01.3": {
        "in the running mean: momentum·μ is missing",
        "in the output in evaluation: the running mean is missing",
        "in the output in evaluation: the second batch − the running mean is the wrong way round",
        "the sign of the output in evaluation is wrong",
        # These two differ by half of ε, which float32 does not show.
        "in the running variance: the factor mean((the first batch − μ)², less=1) is missing",
        "in the output in evaluation: the division by √(the running variance + ε) is missing",
    },
    "02.3": {
        "in the variance between the chunks: the division by n² is missing",
        "in the variance between the chunks: it multiplies by n, and should divide",
    },
    "01.7": {
        "in the gradient of x − mean(x): "
        "grad_y − the sign(x − mean(x))·mean(grad_y·y) is the wrong way round",
        "in grad_x: "
        "the gradient of x − mean(x) − mean(the gradient of x − mean(x)) is the wrong way round",
        "the sign of grad_x is wrong",
    },
    "05.2": {
        "in y: the division by max|x| is missing",
        "in sign(x) at the largest entry: the sign is missing",
        "in grad_x: "
        "grad_y − sign(x) at the largest entry·total(grad_y·y, axes) is the wrong way round",
        "the sign of grad_x is wrong",
    },
    "05.7": {"in x − μ: x − μ is the wrong way round", "the sign of the cosine is wrong"},
    "06.5": {"in x̂: x − mean(x) is the wrong way round", "the sign of grad_weight is wrong"},
    "07.3": {"in ĥ: h − μ is the wrong way round", "the sign of grad_weight is wrong"},
}
# The answer to 02.4 is an input; 02.5, 01.6 and 07.2 have no formula.
TASKS = [task for task in CODE if task.id not in ("01.6", "02.4", "02.5", "07.2")]


def collected(task, monkeypatch):
    """What the first check of a task compares with noise: its slips, and what is right."""
    found, formulas = [], []

    def keep(got, wanted, every, tolerance):
        found.append((list(every), wanted, tolerance))

    def with_itself(formula, outputs):
        formulas.append(outputs(formula))
        for _words, rank, code in slips.singles(formula):
            if rank == 0:
                outputs(functools.partial(formula.run, code))  # or its text does not fit
        return original(formula, outputs)

    original = slips.Formula.slips
    monkeypatch.setattr(judging, "cause", keep)
    monkeypatch.setattr(slips.Formula, "slips", with_itself)
    right = next(iter(SOLUTIONS[task.id].values()))
    spoil = spoiled_with_gradients if isinstance(right, type) else spoiled
    with pytest.raises(Mistake), np.errstate(all="ignore"):
        task.checks[0].run(Local(spoil(right, GARBAGE["noise"])), np.random.default_rng(1))
    return *found[0], formulas


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_a_formula_is_right_and_each_of_its_frequent_slips_is_named(task, monkeypatch):
    every, wanted, tolerance, formulas = collected(task, monkeypatch)
    for outputs in formulas[-1:]:
        for output, right in zip(outputs, wanted, strict=True):
            assert close(np.reshape(output, right.shape), right, tolerance)
    unnamed = []
    for slip in every:
        outputs = [
            w if o is None else np.reshape(o, w.shape) if np.size(o) == w.size else np.asarray(o)
            for o, w in zip(slip.outputs, wanted, strict=True)
        ]
        told = (
            telling(o) and o.shape == w.shape and not close(o, w, max(1e-4, 4 * tolerance))
            for o, w in zip(outputs, wanted, strict=True)
        )
        if slip.rank < 2 and any(told) and cause(outputs, wanted, every, tolerance) is None:
            unnamed.append(slip.words)
    assert set(unnamed) == EQUAL.get(task.id, set()), "\n".join(unnamed)
    assert len(every) > 10


def test_the_words_of_a_slip_say_where_it_is():
    words = {words for words, *_ in slips.singles(slips.NORM)}
    assert "in y: ε stands outside the root" in words
    assert "in σ², inside the mean: μ is missing" in words
    assert "the statistics run over the axes 0, 1; it should be 2" in words
    assert len(words) > 50
