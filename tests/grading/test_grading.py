"""Coursework: right answers in every style, wrong answers and what is said about them."""

import numpy as np
import pytest
import torch
from coursework_mistakes import MISTAKES
from coursework_solutions import PREDICTIONS, SOLUTIONS

from normtutor.grading import TASKS
from normtutor.grading.notebook import examined

STYLES = [(id, style) for id in SOLUTIONS for style in SOLUTIONS[id]]
MODULES = {"01.3", "03.3"}  # torch modules: there is one style


@pytest.mark.parametrize(("id", "style"), STYLES)
@pytest.mark.parametrize("seed", [0, None])
def test_a_right_answer_passes_in_every_style(id, style, seed):
    result = examined(TASKS[id], SOLUTIONS[id][style], seed)
    assert [f for f in result.findings if not f.passed] == []
    assert result.score == TASKS[id].points


@pytest.mark.parametrize("id", PREDICTIONS)
def test_a_right_prediction_passes(id):
    assert examined(TASKS[id], PREDICTIONS[id]).score == TASKS[id].points


@pytest.mark.parametrize("id", PREDICTIONS)
def test_three_digits_of_a_prediction_are_enough(id):
    assert examined(TASKS[id], float(f"{PREDICTIONS[id]:.3g}")).score == TASKS[id].points


def merged(n_a, mean_a, var_a, n_b, mean_b, var_b):
    n, gap = n_a + n_b, mean_b - mean_a
    share = n_b / n
    return n, mean_a + share * gap, var_a + share * (var_b - var_a + (1 - share) * gap**2)


@pytest.mark.parametrize("kind", [tuple, list, np.array, torch.tensor])
def test_several_numbers_may_come_in_any_row(kind):
    if kind is torch.tensor:
        result = examined(TASKS["02.3"], lambda *a: torch.tensor(merged(*a), dtype=torch.float64))
    else:
        result = examined(TASKS["02.3"], lambda *a: kind(merged(*a)))
    assert result.score == TASKS["02.3"].points


def test_a_number_that_is_wrong_is_not_given_away_by_its_ratio():
    (finding,) = examined(TASKS["05.3"], lambda eps, share: 3 * eps).findings
    assert not any(character.isdigit() for character in finding.words)


def test_digits_that_float32_lost_are_named_as_such():
    def answer(g, x_hat, inverse_std):
        pull = g.mean(-1, keepdims=True) + x_hat * (g * x_hat).mean(-1, keepdims=True)
        return (inverse_std * (g - pull)).astype(np.float32)

    assert "float32" in examined(TASKS["02.2"], answer).findings[0].words


def test_a_statistic_in_float32_is_good_enough_for_an_rms_norm():
    def answer(x, weight, eps):
        wide = x.astype(np.float32)
        rms = np.sqrt(np.mean(wide**2, axis=-1, keepdims=True))
        return (wide / (rms + eps) * weight).astype(x.dtype)

    assert examined(TASKS["05.2"], answer).score == TASKS["05.2"].points


def test_every_task_has_a_right_answer_in_three_styles():
    code = {task.id for task in TASKS.values() if task.kind in ("implement", "repair")}
    assert code ^ SOLUTIONS.keys() == set(), "@solves of coursework_solutions.py and TASKS differ"
    for id in code:
        wanted = {"torch"} if id in MODULES else {"loops", "numpy", "torch"}
        lacking = wanted - SOLUTIONS[id].keys()
        assert not lacking, f"coursework_solutions.py lacks @solves({id!r}, ...) for {lacking}"
    predicted = {task.id for task in TASKS.values() if task.kind == "predict"}
    assert predicted ^ PREDICTIONS.keys() == set(), "PREDICTIONS of coursework_solutions.py"


# --- wrong answers --------------------------------------------------------------------------------


def told(result):
    """What the failed checks say."""
    return [f for f in result.findings if not f.passed]


@pytest.mark.parametrize("wrong", MISTAKES, ids=lambda w: f"{w.task} {w.name}")
def test_a_wrong_answer_is_caught_and_diagnosed(wrong):
    result = examined(TASKS[wrong.task], wrong.answer)
    failed = told(result)
    assert failed, f"a wrong answer passes all checks of {wrong.task}: give one on which it fails"
    assert result.score < TASKS[wrong.task].points
    if wrong.all_lost:
        assert result.score == 0, (
            "it earns points: mark the check of the values with first=True, or, if some of the "
            "answer is right, the mistake with all_lost=False"
        )
    if wrong.words is not None:
        said = [f for f in failed if wrong.words in f.words]
        assert said, (
            f"no check says {wrong.words!r}: add Known(words, (what the mistake gives,)) to it. "
            f"It says {[f.words for f in failed]}"
        )
        assert any(f.known for f in said)


def test_the_catalogue_is_large_and_mostly_diagnosed():
    code = [w for w in MISTAKES if TASKS[w.task].kind != "predict"]
    assert len(code) >= 40
    assert len([w for w in code if w.words]) >= 30
    assert len([w for w in code if w.seen == "public code"]) > len(code) / 2
    assert len({(w.task, w.name) for w in MISTAKES}) == len(MISTAKES)
    assert {w.seen for w in MISTAKES} == {"public code", "typical", "rewrite", "derivation", "stub"}
    # Every task that a program judges has a wrong answer that it has been tried on.
    untried = {t.id for t in TASKS.values() if t.kind != "explain"} ^ {w.task for w in MISTAKES}
    assert not untried, f"coursework_mistakes.py lacks wrong answers to {untried}"
