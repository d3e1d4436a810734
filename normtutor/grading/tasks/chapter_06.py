"""Coursework on PowerNorm: PN-V's gradient, use and update, half a memory, fluctuation."""

from dataclasses import replace
from typing import Any

import numpy as np

from normtutor import norms
from normtutor.grading.judging import Check, Mistake, Task, blamed, compare, prediction
from normtutor.grading.references import EXACT, ROUGH, faint, gradients, normal, sizes, weights
from normtutor.grading.slips import STEP, Formula

Rng = np.random.Generator


def _steps(answer: Any, rng: Rng, alpha: float = 0.9, level: float = 3.6) -> None:
    def steps_from(start: float) -> int:
        """How many batches of mean square 4 lift ψ² from ``start`` above the level."""
        psi_squared, batch, steps = np.full(1, start), np.full((3, 1), 2.0), 0
        while psi_squared[0] <= level:
            psi_squared = norms.power_norm(batch, None, None, psi_squared, alpha=alpha)[2]
            steps += 1
        return steps

    known = [
        (steps_from(0.0), "that is from a start at 0; ψ² starts at 1"),
        (steps_from(1.0) - 1, f"one step fewer than it takes: ψ² is then not above {level:g}"),
        (
            round(1 / (1 - alpha)),
            "1/(1 − α) steps is how far the average looks back; it is not there by then",
        ),
        (1, "α is the weight of the past; a step moves ψ² by a share of 1 − α"),
        (2, "α is the weight of the past; a step moves ψ² by a share of 1 − α"),
    ]
    prediction(answer(), steps_from(1.0), known, 0.0)


# --- PN-V's backward ------------------------------------------------------------------------------


CENTRED = """
centred = x - mean(x)
inverse_c = 1 / root(mean(centred ** 2) + eps)
hat = centred * inverse_c
"""
POWER = Formula(
    """
    inverse = 1 / root(mean(x ** 2) + eps)
    x_hat = x * inverse
    g = grad_y * weight
    second = x_hat * mean(g * x_hat)
    grad_x = inverse * (g - second)
    grad_weight = total(grad_y * x_hat)
    """,
    axes=(0, 1),
    said={"inverse": "1/√(ψ² + ε)", "second": "the second term, that through ψ"},
    alike=("x x_hat", "g grad_y"),
    more={
        "that is BatchNorm's gradient, with the mean of g taken away. PN-V subtracts no mean, so "
        "none comes back": "grad_x = inverse * (g - mean(g) - second)",
        "that is BatchNorm's gradient: its x̂ is centred. PN-V subtracts no mean": CENTRED
        + "g = grad_y * weight; grad_x = inverse_c * (g - mean(g) - hat * mean(g * hat))",
        "that is BatchNorm's gradient: its x̂ is centred, in both results; PN-V's is not": CENTRED
        + "g = grad_y * weight; grad_weight = total(grad_y * hat); "
        "grad_x = inverse_c * (g - mean(g) - hat * mean(g * hat))",
        "ψ is taken as a constant; in PN-V it is the batch's own": "grad_x = inverse * g",
        "γ is missing in the gradient of x": "g = grad_y",
        "γ is missing in the second term": "second = x_hat * mean(grad_y * x_hat)",
        "γ multiplies the second term twice": "second = x_hat * mean(g * weight * x_hat)",
        "γ multiplies the gradient of x twice": "g = grad_y * weight ** 2",
        "the mean runs over the features; ψ is shared over batch and positions": "axes = (2,)",
        "x stands where x̂ belongs in the second term, both times": "second = x * mean(g * x)",
        "the second term is not divided by ψ often enough: x stands where x̂ belongs, or the "
        "division is of g alone": "second = x * mean(g * x_hat)",
    },
)


def _compare_power(answer: Any, x: np.ndarray, rng: Rng, *, eps: float = 0.02, **how: Any) -> None:
    weight, grad_y = (a.astype(x.dtype) for a in (weights(rng, x.shape[-1]), normal(rng, *x.shape)))
    names = ("grad_x", "grad_weight")
    given = {"grad_y": grad_y, "x": x, "weight": weight}
    wide = {name: a.astype(np.float64) for name, a in given.items()}
    slips = POWER.known(*names, **wide, eps=eps)
    right = gradients(
        lambda x, w: norms.power_norm_v(x, w, eps=eps)[0], (wide["x"], wide["weight"]), (grad_y,)
    )
    compare(answer(*given.values(), eps), right, names, slips=slips, **how)


def _power_large(answer: Any, rng: Rng) -> None:
    x = normal(rng, 2, 3, 4)
    x[0, 0] *= 1e6
    blamed(
        ROUGH,
        lambda: _compare_power(answer, x, rng, tolerance=EXACT),
        lambda: _compare_power(answer, normal(rng, 2, 3, 4), rng),
    )


def _power_zero(answer: Any, rng: Rng) -> None:
    x = normal(rng, 2, 3, 4)
    x[..., 1] = 0.0
    _compare_power(answer, x, rng)


# --- use, then update -----------------------------------------------------------------------------


EARLY = "ψ² is updated first and used afterwards; the batch must be divided by the ψ of before"
ORDER = replace(
    STEP,
    text="""
    after = alpha * psi_squared + (1 - alpha) * mean(x ** 2)
    y = x / root(psi_squared + eps)
    """,
    more={
        EARLY: "y = x / root(after + eps)",
        "ψ² no longer moves": "after = psi_squared + 0 * mean(x)",
        **STEP.more,
    },
    handed_out=EARLY,
)


def _order(answer: Any, rng: Rng, x: np.ndarray, alpha: float) -> None:
    psi_squared, eps = faint(weights(rng, x.shape[-1]) * 3), 0.5
    y, _, after = norms.power_norm(x, None, None, psi_squared, alpha=alpha, eps=eps)
    given = {"x": x, "psi_squared": psi_squared, "alpha": alpha, "eps": eps}
    slips = ORDER.known("y", "after", **given)
    compare(answer(*given.values()), (y, after), ("y", "the new ψ²"), slips=slips)


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


# --- half a memory --------------------------------------------------------------------------------

HALF = Formula(
    """
    inverse = 1 / root(variance + eps)
    x_hat = (x - mean(x)) * inverse
    g = grad_y * weight
    through_mean = mean(g)
    grad_x = inverse * (g - through_mean)
    grad_weight = total(grad_y * x_hat)
    """,
    axes=(0, 1),
    said={"variance": "the remembered variance", "through_mean": "the path through the mean"},
    alike=("x x_hat", "g grad_y"),
    more={
        "the path through the mean is missing; the mean is this batch's": "through_mean = 0",
        "a path through the variance is there, which is remembered and so a constant":
            "grad_x = inverse * (g - through_mean - x_hat * mean(g * x_hat))",
        "that is the gradient of the other half: a remembered mean, and this batch's variance":
            "grad_x = inverse * (g - x_hat * mean(g * x_hat))",
        "this batch's variance stands where the remembered one belongs":
            "variance = mean((x - mean(x)) ** 2)",
        "that is BatchNorm's gradient, with both from this batch":
            "inverse = 1 / root(mean((x - mean(x)) ** 2) + eps); "
            "x_hat = (x - mean(x)) * inverse; "
            "grad_x = inverse * (g - through_mean - x_hat * mean(g * x_hat))",
        "γ is missing in the gradient of x": "g = grad_y",
        "γ is in its own gradient": "grad_weight = total(g * x_hat)",
        "no mean is subtracted in x̂": "x_hat = x * inverse",
        "the means run over the features": "axes = (2,)",
    },
)  # fmt: skip


def _compare_half(answer: Any, x: np.ndarray, rng: Rng, eps: float = 0.1, **how: Any) -> None:
    features = x.shape[-1]
    arrays = (normal(rng, *x.shape), x, weights(rng, features), faint(weights(rng, features)))
    given = dict(zip(("grad_y", "x", "weight", "variance"), arrays, strict=True))

    def forward(x: Any, weight: Any) -> Any:
        divisor = np.sqrt(given["variance"] + eps)
        return (x - x.mean((0, 1))) / x.new_tensor(divisor) * weight

    right = gradients(forward, (x, given["weight"]), (given["grad_y"],))
    names = ("grad_x", "grad_weight")
    slips = HALF.known(*names, **given, eps=eps)
    compare(answer(*given.values(), eps), right, names, slips=slips, **how)


# --- how much a batch's square trembles -----------------------------------------------------------

TREMBLING = Formula(
    """
    squares = mean(batches ** 2)
    middle = mean(squares, (0,))
    spread = root(mean((squares - middle) ** 2, (0,)))
    share = spread / middle
    """,
    axes=(1,),
    said={"squares": "the batches' mean squares", "middle": "their mean", "spread": "their spread",
          "batches": "x", "share": "the answer"},
    more={
        "it is the spread itself; divide it by the mean of the mean squares": "share = spread",
        "that is the variance of the mean squares; the deviation is asked for":
            "share = spread ** 2 / middle",
        "variance over squared mean: a root is missing": "share = spread ** 2 / middle ** 2",
        "ψ is taken, not its square": "squares = root(mean(batches ** 2))",
        "the batches' variances are taken; PowerNorm subtracts no mean":
            "squares = mean((batches - mean(batches)) ** 2)",
        "the batches' means are taken, not their mean squares": "squares = mean(batches)",
        "the deviation divides by n − 1; all batches are here":
            "spread = root(mean((squares - middle) ** 2, (0,), less=1))",
        "the features are pooled; each has its own statistic":
            "squares = mean(batches ** 2, (1, 2)) + 0 * mean(batches)",
        "every other value goes into one batch; a batch is made of neighbours":
            "batches = interleaved",
        "the spread is that of single values, not of the batches' mean squares":
            "squares = batches ** 2; middle = mean(squares, (0, 1)); "
            "spread = root(mean((squares - middle) ** 2, (0, 1)))",
    },
)  # fmt: skip


def _compare_trembling(answer: Any, rng: Rng, left: int = 0) -> None:
    count, size, features = sizes(rng, (5, 7), (8, 9), (2, 4))
    x = normal(rng, count * size + left, features)
    whole = x[: count * size]
    batches = whole.reshape(count, size, features)
    squares = (batches**2).mean(1)
    turned = whole.reshape(size, count, features).swapaxes(0, 1)
    slips = TREMBLING.known("share", batches=batches, interleaved=turned)
    right = (squares.std(0) / squares.mean(0),)
    compare(answer(x, size), right, ("the answer",), slips=slips)


def _trembling_left(answer: Any, rng: Rng) -> None:
    blamed(
        "it is right where the batches use up all tokens; the last ones, which fill no batch, are "
        "left out",
        lambda: _compare_trembling(answer, rng, left=3),
        lambda: _compare_trembling(answer, rng),
    )


TASKS = (
    Task("06.1", "predict", "How fast is ψ?", "prediction_06_1", 1,
         (Check("prediction", _steps),),
         numbers={"alpha": (0.8, 0.9, 0.95, 0.98, 0.99), "level": [k / 10 for k in range(21, 39)]}),
    Task("06.2", "implement", "PN-V's backward", "power_norm_v_backward", 4, (
        Check("gradients", lambda answer, rng: _compare_power(
            answer, faint(normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 8))), -1), rng,
            tolerance=EXACT), first=True),
        Check("numerics: one large token", _power_large, first=True),
        Check("edge case: a feature that is zero", _power_zero),
        Check("dtypes: float32", lambda answer, rng: _compare_power(
            answer, normal(rng, 3, 4, 5).astype(np.float32), rng, tolerance=2e-5, dtype="float32")),
    )),
    Task("06.3", "repair", "One step of PowerNorm", "power_norm_step", 3, (
        Check("values", lambda answer, rng: _order(
            answer, rng, normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 8))), 0.8), first=True),
        Check("edge case: α = 0 and α = 1", _order_bounds),
        Check("state: two steps", _order_twice),
    )),
    Task("06.4", "explain", "A mean that stays", "explanation_06_4", 2),
    Task("06.5", "implement", "The other half of a memory", "half_memory_backward", 3, (
        Check("gradients", lambda answer, rng: _compare_half(
            answer, faint(normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 8))), -1), rng), first=True),
        Check("edge case: one token", lambda answer, rng: _compare_half(
            answer, normal(rng, 1, 1, 5), rng)),
        Check("numerics: far from zero", lambda answer, rng: _compare_half(
            answer, 1e6 + normal(rng, 2, 3, 5), rng, tolerance=1e-7)),
    )),
    Task("06.6", "implement", "How much does ψ² tremble?", "trembling", 2, (
        Check("values", _compare_trembling, first=True),
        Check("edge case: tokens that fill no batch", _trembling_left),
    )),
)  # fmt: skip
