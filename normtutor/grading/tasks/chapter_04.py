"""Coursework on invariance: signs, gradients of rescaled weights, folding a norm away."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from normtutor import norms
from normtutor.grading.judging import Check, Known, Task, compare, prediction
from normtutor.grading.references import gradients, layer_norm, normal, sizes, weights
from normtutor.grading.slips import norm_slips, term_slips

Rng = np.random.Generator


def _sign(answer: Any, rng: Rng) -> None:
    x = rng.normal(size=8)
    truth = float(layer_norm(-3 * x + 5, eps=1e-300)[0] / layer_norm(x, eps=1e-300)[0])
    known = [
        (1.0, "the standard deviation is never negative: what becomes of the sign of x − μ?"),
        (-3.0, "the size of the factor goes: the standard deviation grows by it as well"),
        (3.0, "the size of the factor goes: the standard deviation grows by it as well"),
    ]
    prediction(answer(), round(truth, 6), known)


def _slope(answer: Any, rng: Rng) -> None:
    x, g, w = rng.normal(size=(16, 5)), rng.normal(size=(16, 3)), rng.normal(size=(5, 3))

    def loss(w: Any) -> Any:
        import torch

        return norms.batch_norm(torch.tensor(x) @ w, eps=1e-300)[0]

    small, large = (gradients(loss, (c * w,), (g,))[0] for c in (1, 10))
    known = [
        (1.0, "the loss is the same, its slope is not: a step of 1 is now a smaller change of w"),
        (10.0, "the other way round: think of f(10 w) as a function that is ten times as wide"),
        (0.01, "that is what becomes of the curvature"),
    ]
    prediction(answer(), round(float(large[0, 0] / small[0, 0]), 6), known)


def _compare_fold(
    answer: Any, rng: Rng, units: int, inputs: int, spread: float = 1.0, **how: Any
) -> None:
    w, b = normal(rng, units, inputs), normal(rng, units)
    gamma, beta, mean = normal(rng, units), normal(rng, units), normal(rng, units)
    var, eps = spread * weights(rng, units) ** 2, 0.1 * spread

    def folded(**changed: Any) -> tuple[np.ndarray, np.ndarray]:
        values = {"b": b, "gamma": gamma, "beta": beta, "mean": mean, "var": var, "eps": eps}
        values |= changed
        settings: dict[str, Any] = {"training": False, "eps": values["eps"]}
        probes = np.concatenate([np.zeros((1, inputs)), np.eye(inputs)])
        y = norms.batch_norm(
            probes @ w.T + values["b"],
            *(values[k] for k in ("gamma", "beta", "mean", "var")),
            **settings,
        )[0]
        return (y[1:] - y[0]).T, y[0]

    zeros = np.zeros(units)
    known = [
        Known(
            "the running mean is not in the new bias",
            (None, folded(mean=zeros)[1]),
        ),
        Known(
            "the old bias is not scaled: it, too, goes through the norm",
            (None, folded(b=zeros)[1] + b),
        ),
        Known("the old bias is lost", (None, folded(b=zeros)[1])),
        Known("β is lost", (None, folded(beta=zeros)[1])),
        Known(
            "that is the division by the variance; the norm divides by its root",
            (folded()[0] / np.sqrt(var + eps)[:, None], None),
        ),
        Known("ε is missing", (folded(eps=0.0)[0], None)),
        Known(
            "ε stands outside the root of the running variance; BatchNorm has it inside",
            (folded()[0] * (np.sqrt(var + eps) / (np.sqrt(var) + eps))[:, None], None),
        ),
        Known("γ is missing in the new weights", (folded(gamma=np.ones(units))[0], None)),
        Known(
            "the factors lie along the inputs; each unit, that is each row of W, has its own",
            (
                w * (folded()[0] / w).T if units == inputs else None,
                None,
            ),
        ),
    ]

    def slips() -> Iterator[Known]:
        """The three terms of the new bias, and factors that nobody asked for."""
        whole, alone = folded()
        factor = folded(mean=zeros, beta=zeros)[1] / b
        of = {
            "the old bias": alone - folded(b=zeros)[1],
            "the running mean": alone - folded(mean=zeros)[1],
            "β": alone - folded(beta=zeros)[1],
        }
        instead = {
            "the old bias": {"the old bias is not scaled": b},
            "the running mean": {
                "the running mean is not scaled: it, too, is divided by the deviation": -mean
            },
            "β": {"β is scaled: the norm adds it at the end, as it is": beta * factor},
        }
        yield from term_slips(of, instead, before=1)
        for words, weight in (
            ("the weights are not scaled", w),
            ("the weights are multiplied by the deviation, not divided", whole * (
                var + eps)[:, None]),
            ("the factors lie along the inputs; each unit, that is each row of W, has its own",
             w * np.resize(factor, w.shape[1])),
        ):  # fmt: skip
            yield Known(words, (weight, None))

    value = answer(w, b, gamma, beta, mean, var, eps)
    compare(value, folded(), ("new_weight", "new_bias"), known, slips=slips, **how)


def _fold_values(answer: Any, rng: Rng) -> None:
    _compare_fold(answer, rng, *sizes(rng, (3, 6), (4, 8)))


def _fold_square(answer: Any, rng: Rng) -> None:
    _compare_fold(answer, rng, 5, 5)


def _fold_small(answer: Any, rng: Rng) -> None:
    _compare_fold(answer, rng, 4, 3, spread=1e-6)


def _compare_variance(answer: Any, x: np.ndarray, rng: Rng, **how: Any) -> None:
    features, eps = x.shape[-1], 1e-3
    weight, bias = weights(rng, features), normal(rng, features)
    wide = x.astype(np.float64)
    mean, square = wide.mean(-1, keepdims=True), (wide**2).mean(-1, keepdims=True)
    known = [
        Known(
            "you divide by the root of the mean of the squares. The variance is the mean of the "
            "squares of x − μ; shift x by a constant and see what changes",
            ((wide - mean) / np.sqrt(square + eps) * weight + bias,),
            handed_out=True,
        ),
        Known(
            "now the mean is not taken away at all: that is RMSNorm",
            (wide / np.sqrt(square + eps) * weight + bias,),
        ),
        Known(
            "your variance divides by n − 1",
            ((wide - mean) / np.sqrt(wide.var(-1, ddof=1, keepdims=True) + eps) * weight + bias,),
        ),
    ]
    right = layer_norm(wide, weight, bias, eps)
    arguments = [a.astype(x.dtype) for a in (x, weight, bias)]

    def slips() -> Iterator[Known]:
        return norm_slips(wide, weight, bias, eps, (-1,))

    compare(answer(*arguments, eps), (right,), ("y",), known, slips=slips, **how)


def _variance_values(answer: Any, rng: Rng) -> None:
    _compare_variance(answer, normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 8)), mean=2.0), rng)


def _variance_centred(answer: Any, rng: Rng) -> None:
    x = rng.normal(size=(2, 3, 8))
    _compare_variance(answer, x - x.mean(-1, keepdims=True), rng)


def _variance_far(answer: Any, rng: Rng) -> None:
    x = (5000 + rng.normal(size=(2, 3, 64))).astype(np.float32)
    _compare_variance(answer, x, rng, tolerance=2e-3)


TASKS = (
    Task(
        "04.1", "predict", "A negative factor", "prediction_04_1", 1, (Check("prediction", _sign),)
    ),
    Task(
        "04.2",
        "predict",
        "Ten times the weights",
        "prediction_04_2",
        1,
        (Check("prediction", _slope),),
    ),
    Task(
        "04.3",
        "implement",
        "Fold BatchNorm into the layer before it",
        "fold_batch_norm",
        3,
        (
            Check("values", _fold_values, first=True),
            Check("edge case: as many units as inputs", _fold_square),
            Check("numerics: small running variances", _fold_small),
        ),
    ),
    Task(
        "04.4",
        "repair",
        "A LayerNorm that sees a shift",
        "layer_norm",
        3,
        (
            Check("values", _variance_values, first=True),
            Check("edge case: tokens with mean zero", _variance_centred),
            Check("numerics: float32 far from zero", _variance_far),
        ),
    ),
    Task("04.5", "explain", "Weight decay before a norm", "explanation_04_5", 2),
)
