"""Coursework on invariance: rescaled weights, how fast they turn, folding a norm away."""

from dataclasses import replace
from typing import Any

import numpy as np

from normtutor import norms
from normtutor.grading.judging import Check, Task, blamed, compare, prediction
from normtutor.grading.references import (
    compare_norm,
    faint,
    gradients,
    layer_norm,
    normal,
    sizes,
    weights,
)
from normtutor.grading.slips import NORM, Formula

Rng = np.random.Generator


def _slope(answer: Any, rng: Rng, factor: float = 10.0) -> None:
    x, g, w = rng.normal(size=(16, 5)), rng.normal(size=(16, 3)), rng.normal(size=(5, 3))

    def loss(w: Any) -> Any:
        import torch

        return norms.batch_norm(torch.tensor(x) @ w, eps=1e-300)[0]

    small, large = (gradients(loss, (c * w,), (g,))[0] for c in (1, factor))
    known = [
        (1.0, "the loss is the same, its slope is not: a step of 1 is now a smaller change of w"),
        (factor, "the other way round: think of f(c w) as a function that is c times as wide"),
        (factor**-2, "that is what becomes of the curvature"),
    ]
    prediction(answer(), round(float(large[0, 0] / small[0, 0]), 6), known)


FOLDED = Formula(
    """
    factor = gamma / root(var + eps)
    new_weight = w * column(factor)
    new_bias = (b - mean) * factor + beta
    """,
    said={
        "gamma": "γ", "beta": "β", "column": "", "factor": "γ/√(σ² + ε)", "w": "W",
        "b": "the old bias", "mean": "the running mean", "new_weight": "the new weight",
        "new_bias": "the new bias",
    },
    alike=("gamma beta b mean var",),
    more={
        "the running mean is not in the new bias": "new_bias = b * factor + beta",
        "the old bias is not scaled: it, too, goes through the norm":
            "new_bias = b - mean * factor + beta",
        "the running mean is not scaled: it, too, is divided by the deviation":
            "new_bias = b * factor - mean + beta",
        "β is scaled: the norm adds it at the end, as it is":
            "new_bias = (b - mean + beta) * factor",
        "γ is missing in both": "factor = 1 / root(var + eps)",
        "γ is missing in the new weight": "new_weight = w * column(factor / gamma)",
        "γ is missing in the new bias": "new_bias = (b - mean) / root(var + eps) + beta",
        "the weights are not scaled": "new_weight = w",
        "the factors lie along the inputs; each unit, that is each row of W, has its own":
            "new_weight = w * across",
    },
)  # fmt: skip


def _compare_fold(
    answer: Any, rng: Rng, units: int, inputs: int, spread: float = 1.0, **how: Any
) -> None:
    w, b = normal(rng, units, inputs), normal(rng, units)
    gamma, beta, mean = normal(rng, units), normal(rng, units), normal(rng, units)
    var, eps = faint(spread * weights(rng, units)), 0.1 * spread
    probes = np.concatenate([np.zeros((1, inputs)), np.eye(inputs)])
    y = norms.batch_norm(
        probes @ w.T + b, gamma, beta, running_mean=mean, running_var=var, training=False, eps=eps
    )[0]
    names = ("new_weight", "new_bias")
    given = {"w": w, "b": b, "gamma": gamma, "beta": beta, "mean": mean, "var": var, "eps": eps}
    across = np.resize(gamma / np.sqrt(var + eps), inputs)
    slips = FOLDED.known(*names, **given, across=across)
    value = answer(*given.values())
    compare(value, ((y[1:] - y[0]).T, y[0]), names, slips=slips, **how)


SQUARES = (
    "you divide by the root of the mean of the squares. The variance is the mean of the squares of "
    "x − μ; shift x by a constant and see what changes"
)
SHIFTED = replace(NORM, more={SQUARES: "var = mean(x ** 2)", **NORM.more}, handed_out=SQUARES)


def _compare_variance(answer: Any, x: np.ndarray, rng: Rng, **how: Any) -> None:
    compare_norm(answer, x, rng, layer_norm, SHIFTED, 0.02, **how)


def _variance_values(answer: Any, rng: Rng) -> None:
    x = faint(normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 8)), mean=2.0))
    _compare_variance(answer, x, rng)


def _variance_centred(answer: Any, rng: Rng) -> None:
    x = rng.normal(size=(2, 3, 8))
    _compare_variance(answer, x - x.mean(-1, keepdims=True), rng)


# --- how fast the weights turn --------------------------------------------------------------------

TURNING = Formula(
    """
    turn = angle(before, after)
    predicted = rate * length(steps) / length(before)
    """,
    said={
        "turn": "the angle", "predicted": "the predicted angle", "angle": "the angle",
        "length": "the length", "steps": "the gradient", "before": "the weights",
        "after": "the weights after the step", "rate": "the rate",
    },
    alike=("before after steps",),
    more={
        "the angles are in degrees; radians are asked for":
            "turn = angle(before, after) * 57.29577951308232",
        "each unit, that is each row, has its own angle; this is that of the whole matrix":
            "turn = whole_angle(before, after); "
            "predicted = rate * whole_length(steps) / whole_length(before)",
        "the angle of the whole matrix is taken; each row has its own":
            "turn = whole_angle(before, after)",
        "it is the angle to the weights at the start; it should be that of one step":
            "turn = angle(start, after)",
        "the cosine is asked for nowhere; the angle is": "turn = cosine(angle(before, after))",
        "the length of the step is divided by the square of that of the weights: with it "
        "the gradient's own length is counted in":
            "predicted = rate * length(steps) / length(before) ** 2",
        "squared lengths stand where lengths belong":
            "predicted = rate * length(steps) ** 2 / length(before) ** 2",
        "the length of the change over that of the weights is no angle":
            "turn = length(after - before) / length(before)",
        "the columns are taken; a unit is a row": "turn = angle_of_columns",
    },
)  # fmt: skip


def _angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (a, b))
    apart, beside = (np.linalg.norm(v, axis=-1) for v in (a - b, a + b))
    return 2 * np.arctan2(apart, beside)


def _flat(function: Any) -> Any:
    """A function of rows, of all rows as one."""
    return lambda *arrays: np.broadcast_to(
        function(*(a.reshape(len(a), 1, -1) for a in arrays)), arrays[0].shape[:2]
    )


def _compare_turning(answer: Any, rng: Rng, rate: float = 0.1, **how: Any) -> None:
    steps, units, inputs = sizes(rng, (3, 4), (5, 6), (7, 8))
    gradients, start = normal(rng, steps, units, inputs), normal(rng, 1, units, inputs)
    recorded = np.concatenate([start, start - rate * np.cumsum(gradients, 0)])
    before, after = recorded[:-1], recorded[1:]

    def length(v: np.ndarray) -> np.ndarray:
        return np.linalg.norm(v, axis=-1)

    given: dict[str, Any] = {
        "before": before, "after": after, "steps": gradients, "start": start, "rate": rate,
        "angle": _angle, "length": length, "whole_angle": _flat(_angle),
        "whole_length": _flat(length), "cosine": np.cos,
        "angle_of_columns": _angle(before.swapaxes(1, 2), after.swapaxes(1, 2)),
    }  # fmt: skip
    names = ("turn", "predicted")
    slips = TURNING.known(*names, **given)
    right = (_angle(before, after), rate * length(gradients) / length(before))
    said = ("the angle", "the prediction")
    compare(answer(recorded, gradients, rate), right, said, slips=slips, **how)


def _turning_small(answer: Any, rng: Rng) -> None:
    blamed(
        "it is right for large angles and not for small ones: digits are lost, as near a cosine "
        "of 1 or in float32. Take an angle from a length, for instance 2·arcsin(|u − v|/2) of "
        "unit vectors",
        lambda: _compare_turning(answer, rng, rate=1e-7, tolerance=1e-5),
        lambda: _compare_turning(answer, rng, tolerance=1e-6),
    )


TASKS = (
    Task("04.1", "predict", "Ten times the weights", "prediction_04_1", 1,
         (Check("prediction", _slope),), numbers={"factor": range(2, 60)}),
    Task("04.2", "implement", "How fast do the weights turn?", "turning", 3, (
        Check("values", lambda answer, rng: _compare_turning(
            answer, rng, tolerance=1e-6), first=True),
        Check("numerics: small angles", _turning_small),
    )),
    Task("04.3", "implement", "Fold BatchNorm into the layer before it", "fold_batch_norm", 3, (
        Check("values", lambda answer, rng: _compare_fold(
            answer, rng, *sizes(rng, (3, 6), (4, 8))), first=True),
        Check("edge case: as many units as inputs", lambda answer, rng: _compare_fold(
            answer, rng, 5, 5)),
        Check("numerics: small running variances", lambda answer, rng: _compare_fold(
            answer, rng, 4, 3, spread=1e-6)),
    )),
    Task("04.4", "repair", "Is this LayerNorm?", "layer_norm", 3, (
        Check("values", _variance_values, first=True),
        Check("edge case: tokens with mean zero", _variance_centred),
        Check("numerics: float32 far from zero", lambda answer, rng: _compare_variance(
            answer, (5000 + rng.normal(size=(2, 3, 64))).astype(np.float32), rng, tolerance=2e-3)),
    )),
    Task("04.5", "explain", "Weight decay before a norm", "explanation_04_5", 2),
)  # fmt: skip
