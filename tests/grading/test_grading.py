"""Coursework: right answers in every style, wrong answers and what is said about them."""

import numpy as np
import pytest
from coursework_mistakes import MISTAKES
from coursework_solutions import PREDICTIONS, SOLUTIONS

from normtutor.grading import TASKS, Local, Mistake
from normtutor.grading.notebook import examined
from normtutor.grading.tasks import chapter_05

pytestmark = pytest.mark.slow

STYLES = [(id, style) for id in SOLUTIONS for style in SOLUTIONS[id]]
FEWER = {id: {"torch"} for id in ("01.3", "03.3")}  # modules
FEWER |= {id: {"numpy", "torch"} for id in ("02.4", "05.3")}  # with nothing to loop over
FEWER |= {"02.3": {"loops", "numpy"}}  # numbers, not arrays
MEASURING = ("01.6", "02.5", "03.6", "03.7", "04.2", "05.7", "06.6", "07.2", "08.5", "08.6")
FEWER |= {id: {"numpy"} for id in MEASURING}
FEWER |= {id: {"numpy", "torch"} for id in ("01.7", "05.2", "06.5")}


@pytest.mark.parametrize(("id", "style"), STYLES)
def test_a_right_answer_passes_in_every_style(id, style):
    result = examined(TASKS[id], SOLUTIONS[id][style])
    assert [f for f in result.findings if not f.passed] == []
    assert result.score == TASKS[id].points


@pytest.mark.parametrize("id", PREDICTIONS)
def test_a_right_prediction_passes_and_three_digits_are_enough(id):
    for value in (PREDICTIONS[id], float(f"{PREDICTIONS[id]:.3g}")):
        assert examined(TASKS[id], value).score == TASKS[id].points


def test_a_number_that_is_wrong_is_not_given_away_by_its_ratio():
    (finding,) = examined(TASKS["05.3"], lambda eps, share: 3 * eps).findings
    assert not any(character.isdigit() for character in finding.words)


def test_digits_that_float32_lost_are_seen():
    def answer(g, x_hat, inverse_std):
        pull = g.mean(-1, keepdims=True) + x_hat * (g * x_hat).mean(-1, keepdims=True)
        return (inverse_std * (g - pull)).astype(np.float32)

    assert "six digits and no more" in examined(TASKS["02.2"], answer).findings[0].words


def test_every_task_has_a_right_answer_in_each_style():
    code = {task.id for task in TASKS.values() if task.kind in ("implement", "repair")}
    assert code ^ SOLUTIONS.keys() == set(), "@solves of coursework_solutions.py and TASKS differ"
    for id in code:
        lacking = FEWER.get(id, {"loops", "numpy", "torch"}) - SOLUTIONS[id].keys()
        assert not lacking, f"coursework_solutions.py lacks @solves({id!r}, ...) for {lacking}"
    predicted = {task.id for task in TASKS.values() if task.kind == "predict"}
    assert predicted ^ PREDICTIONS.keys() == set(), "PREDICTIONS of coursework_solutions.py"


def sloped(forward, place, step):
    """A backward pass by central differences: the slopes of an argument, at most."""

    def answer(*given):
        grad_y, x = given[0], given[place]
        size = step * x.std(0) if step < 1e-5 else step

        def loss(x):
            return float((grad_y * forward(x, *given[place + 1 :])).sum())

        slopes = np.zeros_like(x)
        for index in np.ndindex(*x.shape):
            h = np.zeros_like(x)
            h[index] = np.broadcast_to(size, x.shape)[index]
            slopes[index] = (loss(x + h) - loss(x - h)) / (2 * h[index])
        return slopes

    return answer


def by_deviation(x, weight, eps):
    return (x - x.mean(0)) / np.sqrt(x.var(0) + eps) * weight


@pytest.mark.parametrize("step", [1e-3, 1e-4, 1e-5, 3e-6])
@pytest.mark.parametrize(
    ("id", "forward"),
    [
        ("01.5", by_deviation),
        ("01.7", lambda x: (x - x.mean(0)) / np.abs(x - x.mean(0)).mean(0)),
        ("05.2", lambda x: x / np.abs(x).max(-1, keepdims=True)),
        ("06.2", lambda x, w, eps: x / np.sqrt((x**2).mean((0, 1)) + eps) * w),
    ],
)
def test_central_differences_earn_nothing(id, forward, step):
    slopes, right = sloped(forward, 1, step), SOLUTIONS[id]["numpy"]

    def answer(*given):
        found = right(*given)
        return (slopes(*given), *found[1:]) if isinstance(found, tuple) else slopes(*given)

    assert examined(TASKS[id], answer).score == 0


# --- wrong answers --------------------------------------------------------------------------------


def test_no_mistake_is_judged_by_luck():
    """In one draw of thirty a wrong bound was right; in one of 200 all largest were negative."""
    (wrong,) = (w for w in MISTAKES if w.task == "08.5" and "abs(weight_k).max()" in w.edit)
    (first, *_) = TASKS["08.5"].checks
    for rng in map(np.random.default_rng, range(200)):
        with pytest.raises(Mistake, match=wrong.words):
            first.run(Local(wrong.answer), rng)
        x = chapter_05._largest_of_both_signs(rng)
        largest = np.take_along_axis(x, np.abs(x).argmax(-1, keepdims=True), -1)
        assert largest.min() < 0 < largest.max()


@pytest.mark.parametrize("wrong", MISTAKES, ids=lambda w: f"{w.task} {w.edit[:60]}")
def test_a_wrong_answer_is_caught_and_diagnosed(wrong):
    result = examined(TASKS[wrong.task], wrong.answer)
    failed = [f for f in result.findings if not f.passed]
    assert failed, f"a wrong answer passes all checks of {wrong.task}: give one on which it fails"
    later = failed[0].check != result.findings[0].check
    assert later == wrong.later, f"it fails {failed[0].check}"
    assert later or result.score == 0
    if wrong.words == "-":
        assert not failed[0].known, f"a cause is named: {failed[0].words}"
    else:
        assert any(words in failed[0].words for words in wrong.words.split("|")), (
            f"it says {failed[0].words!r}: is the slip in what the task's formula makes of itself, "
            "or in its `more`?"
        )


def test_the_table_has_wrong_answers_to_every_task_and_most_are_named():
    untried = {t.id for t in TASKS.values() if t.kind != "explain"} ^ {w.task for w in MISTAKES}
    assert not untried, f"mistakes.txt lacks wrong answers to {untried}"
    assert len({(w.task, w.edit) for w in MISTAKES}) == len(MISTAKES) >= 350
    assert sum(w.words != "-" for w in MISTAKES) >= 0.9 * len(MISTAKES)
