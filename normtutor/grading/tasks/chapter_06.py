"""Coursework on PowerNorm: PN-V's gradient, and the order of use and update."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from normtutor import norms
from normtutor.grading.judging import Check, Known, Mistake, Task, compare, prediction
from normtutor.grading.references import (
    gradients,
    hidden_from_autograd,
    normal,
    sizes,
    weights,
)
from normtutor.grading.slips import gradient_slips, term_slips, variations

Rng = np.random.Generator


def _steps(answer: Any, rng: Rng) -> None:
    def steps_until(level: float, start: float) -> int:
        """How many batches of mean square 4 lift ψ² from ``start`` above ``level``."""
        psi_squared, batch, steps = np.full(1, start), np.full((3, 1), 2.0), 0
        while psi_squared[0] <= level:
            psi_squared = norms.power_norm(batch, None, None, psi_squared, alpha=0.9)[2]
            steps += 1
        return steps

    known = [
        (steps_until(3.6, 0.0), "that is from a start at 0; ψ² starts at 1"),
        (steps_until(3.6, 1.0) - 1, "one step fewer than it takes: ψ² is then still below 3.6"),
        (10, "1/(1 − α) steps is how far the average looks back; it is not there by then"),
        (1, "α is the weight of the past; a step moves ψ² by a tenth of the way"),
        (2, "α is the weight of the past; a step moves ψ² by a tenth of the way"),
    ]
    prediction(answer(), steps_until(3.6, 1.0), known, 0.0)


# --- PN-V's backward ------------------------------------------------------------------------------


def _power(
    x: Any,
    weight: Any,
    *,
    eps: float,
    axes: tuple[int, ...] = (0, 1),
    constant: bool = False,
    centred: bool = False,
) -> Any:
    """PN-V, or what a mistake makes of it."""
    if centred:
        return norms.batch_norm(x, weight, eps=eps, feature_axis=-1)[0]
    if constant:
        ones = hidden_from_autograd((x * x).mean(axes))
        return norms.power_norm(x, weight, None, ones, training=False, eps=eps)[0]
    if axes == (2,):
        return norms.rms_norm(x, weight, eps=eps)[0]
    return norms.power_norm_v(x, weight, eps=eps)[0]


def _compare_power(answer: Any, x: np.ndarray, rng: Rng, *, eps: float = 0.02, **how: Any) -> None:
    weight, grad_y = weights(rng, x.shape[-1]), normal(rng, *x.shape)
    weight, grad_y = (a.astype(x.dtype).astype(np.float64) for a in (weight, grad_y))
    wide = x.astype(np.float64)

    def found(w: np.ndarray = weight, **changed: Any) -> tuple[np.ndarray, ...]:
        settings: dict[str, Any] = {"eps": eps} | changed
        return gradients(lambda x, w: _power(x, w, **settings), (wide, w), (grad_y,))

    right, plain = found(), found(constant=True)
    n = x.shape[0] * x.shape[1]
    known = [
        Known(
            "that is BatchNorm's gradient, with the mean of g taken away. PN-V subtracts no mean, "
            "so none comes back",
            (found(centred=True)[0] if n > 1 else None, None),
        ),
        Known("ψ is taken as a constant; in PN-V it is the batch's own", (plain[0], None)),
        Known("a sum stands where the mean belongs", (plain[0] - n * (plain[0] - right[0]), None)),
        Known("γ is missing in the gradient of x", (found(np.ones_like(weight))[0], None)),
        Known("the mean runs over the features; ψ is shared over batch and positions", (
            found(axes=(2,))[0], None)),
        Known("the second term has the wrong sign", (2 * plain[0] - right[0], None)),
        Known("the gradient of γ uses x; what γ multiplies is x̂", (
            None, (grad_y * wide).sum((0, 1)))),
        Known("the gradient of γ is a mean; the loss sums over all tokens", (None, right[1] / n)),
        Known("γ is in the second term twice, or not at all", (
            _second_term(wide, weight, grad_y, eps, once=False), None)),
        Known("γ is in the second term twice, or not at all", (
            _second_term(wide, weight, grad_y, eps, once=True), None)),
    ]  # fmt: skip
    arguments = [a.astype(x.dtype) for a in (grad_y, x, weight)]

    def slips() -> Iterator[Known]:
        """The two terms of the gradient of x, and statistics over other axes."""
        pull = right[0] - plain[0]
        square = (wide * wide).mean((0, 1)) + eps
        instead = {
            "x stands where x̂ belongs in the second term": pull * square,
            "x stands for one x̂ of the two in the second term": pull * np.sqrt(square),
            "n − 1 stands for n in the second term": pull * n / max(n - 1, 1),
        }
        second = "the second term, that through ψ,"
        yield from term_slips(
            {"the first term": plain[0], second: pull}, {second: instead}, after=1
        )
        yield Known("the factor 1/√(ψ² + ε) is missing", (right[0] * np.sqrt(square), None))
        yield Known("γ multiplies twice", (right[0] * weight, None))
        for other in gradient_slips(wide, grad_y * weight, eps, (0, 1), gradients, centred=False):
            yield other._replace(outputs=(*other.outputs, None))

    names = ("grad_x", "grad_weight")
    compare(answer(*arguments, eps), right, names, known, slips=slips, **how)


def _second_term(
    x: np.ndarray, weight: np.ndarray, grad_y: np.ndarray, eps: float, *, once: bool
) -> np.ndarray:
    """The gradient of x with a γ too many or too few in the term that comes through ψ."""
    right, plain = (
        gradients(lambda x, c=c: _power(x, None, eps=eps, constant=c), (x,), (grad_y,))[0]
        for c in (False, True)
    )
    return weight * plain - (weight**2 if once else 1) * (plain - right)


def _power_values(answer: Any, rng: Rng) -> None:
    _compare_power(answer, normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 8))), rng)


def _power_one(answer: Any, rng: Rng) -> None:
    _compare_power(answer, normal(rng, 1, 1, 5), rng, eps=0.3)


def _power_zero(answer: Any, rng: Rng) -> None:
    x = normal(rng, 2, 3, 4)
    x[..., 1] = 0.0
    _compare_power(answer, x, rng)


def _power_float32(answer: Any, rng: Rng) -> None:
    x = normal(rng, 3, 4, 5).astype(np.float32)
    _compare_power(answer, x, rng, tolerance=2e-5, dtype="float32")


# --- use, then update -----------------------------------------------------------------------------


def _order(answer: Any, rng: Rng, x: np.ndarray, alpha: float) -> None:
    psi_squared, eps = weights(rng, x.shape[-1]) * 3, 1e-3
    y, _, after = norms.power_norm(x, None, None, psi_squared, alpha=alpha, eps=eps)
    swapped = norms.power_norm(x, None, None, psi_squared, alpha=1 - alpha, eps=eps)[2]
    early = norms.power_norm(x, None, None, after, training=False, eps=eps)[0]
    early_swapped = norms.power_norm(x, None, None, swapped, training=False, eps=eps)[0]
    own = norms.power_norm_v(x, eps=eps)[0]
    exchanged = "α is the weight of the past: the batch enters with 1 − α"
    used = "ψ² is updated first and used afterwards; the batch must be divided by the ψ of before"
    known = [
        Known(used, (early, after), handed_out=True),
        Known(f"{used}. And {exchanged}", (early_swapped, swapped)),
        Known(exchanged, (None, swapped)),
        Known("the batch is divided by its own ψ: that is PN-V", (own, None)),
        Known("ψ² no longer moves", (None, psi_squared)),
        Known(
            "the average is taken of ψ, not of ψ²",
            (
                None,
                (alpha * np.sqrt(psi_squared) + (1 - alpha) * np.sqrt((x * x).mean((0, 1)))) ** 2,
            ),
        ),
    ]

    def slips() -> Iterator[Known]:
        """The old ψ², the batch's, their weights, and what divides, each of them changed."""
        square = (x * x).mean((0, 1))
        new = {
            "the variance of the batch stands where its mean square belongs": x.var((0, 1)),
            "a sum stands where the mean belongs": (x * x).sum((0, 1)),
            "the features are pooled: each has a ψ of its own": (x * x).mean(),
            "a root is taken: the average is one of squares": np.sqrt(square),
            "the mean square of y stands where that of x belongs": (y * y).mean((0, 1)),
            "the mean of x stands where that of its squares belongs": x.mean((0, 1)),
            "the mean of |x| stands where that of its squares belongs": abs(x).mean((0, 1)),
            "the batch's ψ² is missing": 0.0,
        }
        past = {"the old ψ² is missing": 0.0, "the whole of the old ψ² stays": psi_squared / alpha}
        if not alpha:
            del past["the whole of the old ψ² stays"]
        under = {
            "ε stands outside the root": np.sqrt(psi_squared) + eps,
            "a root is missing: it divides by ψ²": psi_squared + eps,
            "ε is missing": np.sqrt(psi_squared),
            "it divides by the root of the new ψ²": np.sqrt(after + eps),
        }

        def step(new: Any = square, past: Any = psi_squared, under: Any = None) -> tuple:
            moved = alpha * past + (1 - alpha) * new
            return (None if under is None else x / under, moved)

        yield from variations(step, new=new, past=past, under=under)
        yield Known(
            "ψ² is replaced by that of the batch; it should move towards it", (None, square)
        )
        yield Known("the batch's ψ² comes in whole", (None, alpha * psi_squared + square))

    value = answer(x, psi_squared, alpha, eps)
    compare(value, (y, after), ("y", "the new ψ²"), known, slips=slips)


def _order_values(answer: Any, rng: Rng) -> None:
    _order(answer, rng, normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 8))), 0.8)


def _order_bounds(answer: Any, rng: Rng) -> None:
    x = normal(rng, 2, 3, 5)
    _order(answer, rng, x, 0.0)
    _order(answer, rng, x, 1.0)


def _order_twice(answer: Any, rng: Rng) -> None:
    x1, x2 = normal(rng, 2, 3, 4), normal(rng, 2, 3, 4, scale=3.0)
    start = np.ones(4)
    value = answer(x1, start, 0.7, 1e-3)
    if type(value) is not tuple or len(value) != 2:
        raise Mistake("it must return y and the new ψ²")
    middle = norms.power_norm(x1, None, None, start, alpha=0.7, eps=1e-3)[2]
    y, _, end = norms.power_norm(x2, None, None, middle, alpha=0.7, eps=1e-3)
    second = answer(x2, np.array(value[1].values), 0.7, 1e-3)
    compare(second, (y, end), ("the second y", "ψ² after two steps"))


TASKS = (
    Task("06.1", "predict", "How fast is ψ?", "prediction_06_1", 1, (Check("prediction", _steps),)),
    Task(
        "06.2",
        "implement",
        "PN-V's backward",
        "power_norm_v_backward",
        4,
        (
            Check("gradients", _power_values, first=True),
            Check("edge case: one token", _power_one),
            Check("edge case: a feature that is zero", _power_zero),
            Check("dtypes: float32", _power_float32),
        ),
    ),
    Task(
        "06.3",
        "repair",
        "Use, then update",
        "power_norm_step",
        3,
        (
            Check("values", _order_values, first=True),
            Check("edge case: α = 0 and α = 1", _order_bounds),
            Check("state: two steps", _order_twice),
        ),
    ),
    Task("06.4", "explain", "A mean that stays", "explanation_06_4", 2),
)
