"""Coursework on internal covariate shift: BatchNorm's two modes."""

from typing import Any

import numpy as np

from normtutor import norms
from normtutor.grading.judging import Check, Known, Task, compare, prediction
from normtutor.grading.references import faint, gradients, normal, sizes, weights
from normtutor.grading.slips import Formula

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


BATCH = """
g = weight * grad_y
inverse_b = 1 / root(mean((x - mean(x)) ** 2) + eps)
hat = (x - mean(x)) * inverse_b
"""
EVALUATION = Formula(
    """
    inverse = 1 / root(running_var + eps)
    x_hat = (x - running_mean) * inverse
    grad_x = grad_y * weight * inverse
    grad_weight = total(grad_y * x_hat)
    grad_bias = total(grad_y)
    """,
    axes=(0,),
    tokens=(0,),
    rank=2,
    said={"running_mean": "the running mean", "running_var": "the running variance"},
    alike=("x x_hat", "running_mean running_var"),
    more={
        "that is the gradient in training mode. In evaluation the statistics are running averages: "
        "does x move them?": BATCH + "grad_x = inverse_b * (g - mean(g) - hat * mean(g * hat))",
        "x̂ is made with the running statistics, but the gradient of x is that of training mode: "
        "here mean and variance are constants":
            "g = weight * grad_y; grad_x = inverse * (g - mean(g) - x_hat * mean(g * x_hat))",
        "the gradient of γ uses x̂ with this batch's statistics; in evaluation x̂ is made with the "
        "running ones": BATCH + "grad_weight = total(grad_y * hat)",
        "this batch's variance stands where the running one belongs":
            "inverse = 1 / root(mean((x - mean(x)) ** 2) + eps)",
        "the gradients of γ and β are means over the batch; the loss sums over it":
            "grad_weight = mean(grad_y * x_hat); grad_bias = mean(grad_y)",
        "γ is in its own gradient": "grad_weight = total(grad_y * x_hat * weight)",
        "γ is in the gradient of β; β is added behind it": "grad_bias = total(grad_y * weight)",
    },
)  # fmt: skip


def _evaluated(rng: Rng, batch: int, channels: int) -> list[np.ndarray]:
    return [
        normal(rng, batch, channels),
        normal(rng, batch, channels),
        weights(rng, channels),
        normal(rng, channels),
        faint(weights(rng, channels)),
    ]


def _compare_evaluated(
    answer: Any, arguments: list[np.ndarray], eps: float = 0.3, **how: Any
) -> None:
    grad_y, x, weight, mean, var = arguments

    def forward(x: Any, weight: Any, bias: Any) -> Any:
        import torch

        running: Any = {"running_mean": torch.tensor(mean), "running_var": torch.tensor(var)}
        running = {name: value.double() for name, value in running.items()}
        return norms.batch_norm(x, weight, bias, **running, training=False, eps=eps)[0]

    names = ("grad_x", "grad_weight", "grad_bias")
    inputs = ("grad_y", "x", "weight", "running_mean", "running_var", "eps")
    given = dict(zip(inputs, (*arguments, eps), strict=True))
    slips = EVALUATION.known(*names, **given)
    right = gradients(forward, (x, weight, np.zeros_like(weight)), (grad_y,))
    compare(answer(*given.values()), right, names, slips=slips, **how)


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
    running = norms.batch_norm(x, running_mean=mean, running_var=var)[2]
    return np.asarray(running.mean), np.asarray(running.var)


def _normalized(x: np.ndarray, mean: Any = None, var: Any = None) -> np.ndarray:
    return norms.batch_norm(x, running_mean=mean, running_var=var, training=mean is None)[0]


SWITCH = Formula(
    """
    mu = mean(first)
    var = mean((first - mu) ** 2)
    running_mean = momentum * mu + (1 - momentum) * old_mean
    running_var = momentum * mean((first - mu) ** 2, less=1) + (1 - momentum) * old_var
    training = (first - mu) / root(var + eps)
    evaluation = (second - running_mean) / root(running_var + eps)
    """,
    axes=(0,),
    rank=2,
    said={
        "first": "the first batch", "second": "the second batch",
        "training": "the output in training", "evaluation": "the output in evaluation",
        "running_mean": "the running mean", "running_var": "the running variance",
        "old_mean": "the old mean", "old_var": "the old variance",
    },
    alike=("mu running_mean old_mean", "var running_var old_var"),
    handed_out=MODES,
    more={
        MODES: "evaluation = (second - mean(second)) / "
        "root(mean((second - mean(second)) ** 2) + eps)",
        "in training it normalizes by the running statistics as well; there it should use the "
        "batch's own": "training = (first - old_mean) / root(old_var + eps)",
        "in training it normalizes by the running statistics as well, after their update; there it "
        "should use the batch's own": "training = (first - running_mean) / root(running_var + eps)",
        "in evaluation it divides by the batch's deviation; the running variance belongs there":
            "evaluation = (second - running_mean) / root(mean((second - mean(second)) ** 2) + eps)",
        "in evaluation it still uses the starting values: training does not update them":
            "evaluation = (second - old_mean) / root(old_var + eps)",
        "momentum is the weight of the new value; here it is that of the old":
            "momentum = 1 - momentum",
        "in evaluation it normalizes by the batch, in training by the running statistics":
            "training = (first - old_mean) / root(old_var + eps); "
            "evaluation = (second - mean(second)) / root(mean((second - mean(second)) ** 2) + eps)",
    },
)  # fmt: skip


def _switch_eval(answer: Any, rng: Rng) -> None:
    (first, second, _), features = _module_case(rng)
    steps = [("train",), ("forward", first), ("eval",), ("forward", second)]
    value = answer.drive((features,), steps)
    start = np.zeros(features), np.ones(features)
    expected = (_normalized(first), _normalized(second, *_stats(first, *start)))
    given = {"first": first, "second": second, "momentum": 0.1, "eps": 1e-5}
    given |= dict(zip(("old_mean", "old_var"), start, strict=True))
    slips = SWITCH.known("training", "evaluation", **given)
    names = ("the output in training", "the output in evaluation with gradients on")
    compare(value, expected, names, slips=slips, tolerance=1e-5)


def _switch_train(answer: Any, rng: Rng) -> None:
    (first, second, grad_y), features = _module_case(rng)
    steps = [("train",), ("forward without grad", first), ("forward", second), ("backward", grad_y)]
    value = answer.drive((features,), steps)
    wrong = _normalized(first, np.zeros(features), np.ones(features))
    _, cache, _ = norms.batch_norm(second)
    constants = cache.normalized._replace(remembered=True)
    right = norms.batch_norm_backward(grad_y, cache).x
    constant = norms.batch_norm_backward(grad_y, cache._replace(normalized=constants)).x
    known = [
        Known(MODES, (wrong, None, None), handed_out=True),
        Known(
            "no gradient goes through the batch's mean and variance: detach or no_grad covers them",
            (None, None, constant),
        ),
    ]
    names = ("the output in training under no_grad", "the output in training", "its gradient")
    expected = (_normalized(first), _normalized(second), right)
    compare(value, expected, names, known, tolerance=1e-5)


def _switch_buffers(answer: Any, rng: Rng) -> None:
    (first, second, third), features = _module_case(rng)
    steps = [("train",), ("forward without grad", first), ("forward", second), ("eval",)]
    steps += [("forward", third), ("buffer", "running_mean"), ("buffer", "running_var")]
    value = answer.drive((features,), steps)
    one = _stats(first, np.zeros(features), np.ones(features))
    two = _stats(second, *one)
    three = _stats(third, *two)
    unseen = _stats(second, np.zeros(features), np.ones(features))
    known = [
        Known("an evaluation step has changed the running statistics", (None, None, None, *three)),
        Known(
            "a training step under no_grad has not reached the running statistics",
            (None, None, _normalized(third, *unseen), *unseen),
        ),
    ]
    expected = (_normalized(first), _normalized(second), _normalized(third, *two), *two)
    names = ["the first output", "the second output", "the output in evaluation"]
    names += ["running_mean", "running_var"]
    compare(value, expected, names, known, tolerance=1e-5)


TASKS = (
    Task("01.1", "predict", "A batch of two", "prediction_01_1", 1, (Check("prediction", _pair),)),
    Task("01.2", "implement", "Backward in evaluation", "batch_norm_eval_backward", 4, (
        Check("gradients", lambda answer, rng: _compare_evaluated(
            answer, _evaluated(rng, *sizes(rng, (5, 9), (3, 7)))), first=True),
        Check("edge case: one example", lambda answer, rng: _compare_evaluated(
            answer, _evaluated(rng, 1, 4))),
        Check("edge case: a running variance of zero", _eval_constant),
        Check("dtypes: float32", _eval_float32),
    )),
    Task("01.3", "repair", "Two modes, one switch", "BatchNorm", 3, (
        Check("values: evaluation while gradients are on", _switch_eval, first=True),
        Check("values: training while gradients are off", _switch_train),
        Check("state: who may change the running statistics", _switch_buffers),
    )),
    Task("01.4", "explain", "Fine-tuning in evaluation", "explanation_01_4", 2),
)  # fmt: skip
