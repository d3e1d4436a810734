"""Coursework on internal covariate shift: BatchNorm's two modes."""

from typing import Any

import numpy as np

from normtutor import norms
from normtutor.grading.judging import Check, Known, Task, compare, prediction
from normtutor.grading.references import gradients, normal, sizes, weights

Rng = np.random.Generator


def _pair(answer: Any, rng: Rng) -> None:
    x, grad_y = np.array([[1.0], [3.0]]), np.array([[2.0], [-1.0]])
    _, cache, _ = norms.batch_norm(x, eps=1e-300)
    truth = float(norms.batch_norm_backward(grad_y, cache).x[0, 0])
    centred = float((grad_y - grad_y.mean())[0, 0])
    prediction(
        answer(),
        round(truth, 6),
        [
            (2.0, "that treats mean and variance as constants, as in evaluation"),
            (centred, "that is the gradient without the path through the variance"),
        ],
    )


def _evaluated(rng: Rng, batch: int, channels: int) -> list[np.ndarray]:
    return [
        normal(rng, batch, channels),
        normal(rng, batch, channels),
        weights(rng, channels),
        normal(rng, channels),
        weights(rng, channels) ** 2,
    ]


def _forward(x: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float, **how: Any) -> Any:
    return norms.batch_norm(x, weight, bias, mean, var, eps=eps, **how)[0]


def _compare_evaluated(
    answer: Any, arguments: list[np.ndarray], eps: float = 1e-3, **how: Any
) -> None:
    grad_y, x, weight, mean, var = arguments
    bias = np.zeros_like(weight)

    def found(forward: Any = None, **changed: Any) -> tuple[np.ndarray, ...]:
        def run(x: Any, weight: Any, bias: Any) -> Any:
            import torch

            m, v = torch.tensor(mean), torch.tensor(var)
            m, v = m.to(x.dtype), v.to(x.dtype)
            return _forward(x, weight, bias, m, v, changed.get("eps", eps), **changed["mode"])

        return gradients(run, (x, changed.get("weight", weight), bias), (grad_y,))

    right = found(mode={"training": False})
    cache = norms.batch_norm(x, weight, bias, mean, var, eps=eps, training=False)[1]
    known = []
    if len(x) > 1:
        training = found(mode={"training": True})
        known = [
            Known(
                "that is the gradient in training mode. In evaluation the statistics are running "
                "averages: does x move them?",
                (training[0], None, None),
            ),
            Known(
                "the gradient of γ uses x̂ with this batch's statistics; in evaluation x̂ is made "
                "with the running ones",
                (right[0], training[1], None),
            ),
        ]
    known += [
        Known(
            "γ is missing in the gradient of x: y = γ x̂ + β, and x is behind γ",
            (found(mode={"training": False}, weight=np.ones_like(weight))[0], None, None),
        ),
        Known(
            "the gradient of γ is that of β: what does γ multiply?", (None, right[2], None)
        ),
        Known(
            "the gradient of γ uses x; what γ multiplies is x̂",
            (None, (grad_y * x).sum(0), None),
        ),
        Known(
            "divide by the standard deviation, not by the variance: a root is missing",
            (right[0] / np.sqrt(var + eps), None, None),
        ),
        Known(
            "x̂ is made with the running statistics, but the gradient of x is that of training "
            "mode: here mean and variance are constants",
            (norms.batch_norm_backward(grad_y, cache._replace(training=True)).x, None, None),
        ),
        Known(
            "the gradient of γ uses x − μ, not x̂: the division is missing",
            (None, (grad_y * (x - mean)).sum(0), None),
        ),
        Known("γ is in the gradient of β; β is added behind it", (None, None, right[2] * weight)),
        Known("γ is in its own gradient", (None, right[1] * weight, None)),
        Known("ε is missing beside the running variance", (
            found(mode={"training": False}, eps=0.0)[0], None, None)),
        Known(
            "the gradients of γ and β are means over the batch; the loss sums over it",
            (None, right[1] / len(x), right[2] / len(x)),
        ),
    ]  # fmt: skip
    names = ("grad_x", "grad_weight", "grad_bias")
    compare(answer(grad_y, x, weight, mean, var, eps), right, names, known, **how)


def _eval_values(answer: Any, rng: Rng) -> None:
    _compare_evaluated(answer, _evaluated(rng, *sizes(rng, (5, 9), (3, 7))))


def _eval_one(answer: Any, rng: Rng) -> None:
    _compare_evaluated(answer, _evaluated(rng, 1, 4))


def _eval_float32(answer: Any, rng: Rng) -> None:
    arguments = [a.astype(np.float32) for a in _evaluated(rng, 6, 4)]
    _compare_evaluated(answer, arguments, tolerance=1e-5, dtype="float32")


def _eval_constant(answer: Any, rng: Rng) -> None:
    arguments = _evaluated(rng, 5, 3)
    arguments[4][0] = 0.0  # a feature that never varied
    _compare_evaluated(answer, arguments)


MODES = (
    "the layer chooses its statistics by the gradient switch. Evaluation is a mode of the module "
    "(self.training); torch.no_grad() only says that nobody will ask for a gradient"
)


def _module_case(rng: Rng) -> tuple[list[np.ndarray], int]:
    batch, features = sizes(rng, (6, 9), (3, 5))
    return [normal(rng, batch, features) for _ in range(3)], features


def _stats(x: np.ndarray, mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    running = norms.batch_norm(x, None, None, mean, var)[2]
    return np.asarray(running.mean), np.asarray(running.var)


def _normalized(x: np.ndarray, mean: Any = None, var: Any = None) -> np.ndarray:
    return norms.batch_norm(x, None, None, mean, var, training=mean is None)[0]


def _switch_eval(answer: Any, rng: Rng) -> None:
    (first, second, _), features = _module_case(rng)
    steps = [("train",), ("forward", first), ("eval",), ("forward", second)]
    value = answer.drive((features,), steps)
    mean, var = _stats(first, np.zeros(features), np.ones(features))
    expected = (_normalized(first), _normalized(second, mean, var))
    own = _normalized(first, np.zeros(features), np.ones(features))
    biased = (mean, 0.9 * np.ones(features) + 0.1 * first.var(axis=0))
    known = [
        Known(MODES, (None, _normalized(second)), handed_out=True),
        Known(
            "in training it normalizes by the running statistics as well; there it should use the "
            "batch's own",
            (own, None),
        ),
        Known(
            "in training it normalizes by the running statistics as well, after their update; "
            "there it should use the batch's own",
            (_normalized(first, mean, var), None),
        ),
        Known(
            "the running variance takes the variance that divides by n; as in torch it should "
            "take the unbiased one",
            (None, _normalized(second, *biased)),
        ),
        Known(
            "in evaluation it still uses the starting values: training no longer updates them",
            (None, _normalized(second, np.zeros(features), np.ones(features))),
        ),
    ]
    names = ("the output in training", "the output in evaluation with gradients on")
    compare(value, expected, names, known, tolerance=1e-6)


def _switch_train(answer: Any, rng: Rng) -> None:
    (first, second, grad_y), features = _module_case(rng)
    steps = [("train",), ("forward without grad", first), ("forward", second), ("backward", grad_y)]
    value = answer.drive((features,), steps)
    wrong = _normalized(first, np.zeros(features), np.ones(features))
    _, cache, _ = norms.batch_norm(second)
    right = norms.batch_norm_backward(grad_y, cache).x
    constant = norms.batch_norm_backward(grad_y, cache._replace(training=False)).x
    known = [
        Known(MODES, (wrong, None, None), handed_out=True),
        Known(
            "no gradient goes through the batch's mean and variance: detach or no_grad covers them",
            (None, None, constant),
        ),
    ]
    names = ("the output in training under no_grad", "the output in training", "its gradient")
    expected = (_normalized(first), _normalized(second), right)
    compare(value, expected, names, known, tolerance=1e-6)


def _switch_buffers(answer: Any, rng: Rng) -> None:
    (first, second, third), features = _module_case(rng)
    steps = [("train",), ("forward without grad", first), ("forward", second), ("eval",)]
    steps += [("forward", third), ("buffer", "running_mean"), ("buffer", "running_var")]
    value = answer.drive((features,), steps)
    one = _stats(first, np.zeros(features), np.ones(features))
    two = _stats(second, *one)
    three = _stats(third, *two)
    known = [
        Known("an evaluation step has changed the running statistics", (None, None, None, *three)),
        Known(
            "a training step under no_grad has not reached the running statistics",
            (None, None, None, *_stats(second, np.zeros(features), np.ones(features))),
        ),
    ]
    expected = (_normalized(first), _normalized(second), _normalized(third, *two), *two)
    names = ["the first output", "the second output", "the output in evaluation"]
    names += ["running_mean", "running_var"]
    compare(value, expected, names, known, tolerance=1e-6)


TASKS = (
    Task("01.1", "predict", "A batch of two", "prediction_01_1", 1, (Check("prediction", _pair),)),
    Task(
        "01.2",
        "implement",
        "Backward in evaluation",
        "batch_norm_eval_backward",
        4,
        (
            Check("gradients", _eval_values, first=True),
            Check("edge case: one example", _eval_one),
            Check("edge case: a running variance of zero", _eval_constant),
            Check("dtypes: float32", _eval_float32),
        ),
    ),
    Task(
        "01.3",
        "repair",
        "Two modes, one switch",
        "BatchNorm",
        3,
        (
            Check("values: evaluation while gradients are on", _switch_eval, first=True),
            Check("values: training while gradients are off", _switch_train),
            Check("state: who may change the running statistics", _switch_buffers),
        ),
    ),
    Task("01.4", "explain", "Fine-tuning in evaluation", "explanation_01_4", 2),
)
