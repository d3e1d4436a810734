"""Coursework on internal covariate shift: BatchNorm's two modes, backward and in a network."""

from typing import Any

import numpy as np

from normtutor import norms
from normtutor.grading.judging import Check, Known, Task, blamed, compare, prediction
from normtutor.grading.references import (
    EXACT,
    ROUGH,
    faint,
    gradients,
    normal,
    outlying,
    sizes,
    weights,
)
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


# --- backward in training -------------------------------------------------------------------------

TRAINING = Formula(
    """
    mu = mean(x)
    inverse = 1 / root(mean((x - mu) ** 2) + eps)
    x_hat = (x - mu) * inverse
    g = grad_y * weight
    through_mean = mean(g)
    through_variance = x_hat * mean(g * x_hat)
    grad_x = inverse * (g - through_mean - through_variance)
    grad_weight = total(grad_y * x_hat)
    grad_bias = total(grad_y)
    """,
    axes=(0,),
    tokens=(0,),
    rank=2,
    said={
        "through_mean": "the path through the mean",
        "through_variance": "the path through the variance",
    },
    alike=("x x_hat", "g grad_y"),
    more={
        "the path through the mean is missing": "through_mean = 0",
        "the path through the variance is missing. (The mean of g·x̂ is not the product of the two "
        "means: that of x̂ is 0.)": "through_variance = 0",
        "mean and variance are taken as constants, as in evaluation": "grad_x = inverse * g",
        "the means of the way back run over the features; they run over the batch, as those of the "
        "way forward":
            "through_mean = mean(g, (1,)); through_variance = x_hat * mean(g * x_hat, (1,))",
        "the means of the way back run over the whole array; each feature has its own":
            "through_mean = mean(g, (0, 1)); through_variance = x_hat * mean(g * x_hat, (0, 1))",
        "sums stand where means belong":
            "grad_x = inverse * (g - total(g) - x_hat * total(g * x_hat))",
        "the path through the variance counts half: the derivative of a square has a 2":
            "through_variance = x_hat * mean(g * x_hat) / 2",
        "both paths are added; both are subtracted":
            "grad_x = inverse * (g + through_mean + through_variance)",
        "x − μ stands twice where x̂ belongs in the path through the variance: the power of σ² + ε "
        "is −3/2 there": "through_variance = (x - mu) * mean(g * (x - mu))",
        "γ multiplies the gradient of x twice":
            "grad_x = weight * inverse * (g - through_mean - through_variance)",
        "the statistics run over the features: that is LayerNorm's gradient": "axes = (1,)",
        "the gradients of γ and β are means over the batch; the loss sums over it":
            "grad_weight = mean(grad_y * x_hat); grad_bias = mean(grad_y)",
        "1/√(σ² + ε) multiplies three times; x̂ depends on x through it once":
            "grad_x = inverse ** 3 * (g - through_mean - through_variance)",
        "γ is in its own gradient": "grad_weight = total(g * x_hat)",
        "γ is in the gradient of β; β is added behind it": "grad_bias = total(g)",
    },
)  # fmt: skip


def _compare_trained(answer: Any, x: np.ndarray, rng: Rng, eps: float = 0.3, **how: Any) -> None:
    grad_y, weight = normal(rng, *x.shape).astype(x.dtype), weights(rng, x.shape[1]).astype(x.dtype)
    arrays = {"grad_y": grad_y, "x": x, "weight": weight}
    wide = {name: a.astype(np.float64) for name, a in arrays.items()}
    right = gradients(
        lambda x, w, b: norms.batch_norm(x, w, b, eps=eps)[0],
        (wide["x"], wide["weight"], np.zeros(len(weight))),
        (grad_y,),
    )
    names = ("grad_x", "grad_weight", "grad_bias")
    slips = TRAINING.known(*names, **wide, eps=eps)
    compare(answer(*arrays.values(), eps), right, names, slips=slips, **how)


def _trained_values(answer: Any, rng: Rng) -> None:
    x = faint(normal(rng, *sizes(rng, (6, 9), (3, 5))), 1)
    _compare_trained(answer, x, rng, tolerance=EXACT)


def _trained_large(answer: Any, rng: Rng) -> None:
    blamed(
        ROUGH,
        lambda: _compare_trained(answer, outlying(rng, 7, 4), rng, tolerance=EXACT),
        lambda: _trained_values(answer, rng),
    )


# --- a network that trains ------------------------------------------------------------------------


def _descent(
    images: np.ndarray, labels: np.ndarray, w1: np.ndarray, w2: np.ndarray, rate: float,
    steps: int, slip: str = "",
) -> np.ndarray:  # fmt: skip
    """The losses of the network of 01.6 before each step, with a slip or without."""
    losses, n = [], len(labels)
    for _ in range(steps + (slip == "after")):
        z = images @ w1
        r = 1 / np.sqrt(z.var(0) + 1e-5)
        x_hat = (z - z.mean(0)) * r
        if slip == "plain":
            x_hat, r = z, np.ones_like(r)
        hidden = np.maximum(x_hat, 0)
        if slip == "behind":
            z = np.maximum(z, 0)
            r = 1 / np.sqrt(z.var(0) + 1e-5)
            x_hat = hidden = (z - z.mean(0)) * r
        logits = hidden @ w2
        logits = logits - logits.max(1, keepdims=True)
        logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        losses.append(-logs[np.arange(n), labels].mean())
        d = np.exp(logs)
        d[np.arange(n), labels] -= 1
        d = d if slip == "sum" else d / n
        down2 = hidden.T @ d
        if slip == "order":
            w2 = w2 - rate * down2
        g = d @ w2.T
        g = g if slip in ("relu", "behind") else g * ((z if slip == "gate" else x_hat) > 0)
        mean = 0 if slip in ("mean", "constants", "plain") else g.mean(0)
        along = 0 if slip in ("variance", "constants", "plain") else x_hat * (g * x_hat).mean(0)
        down1 = images.T @ (r * (g - mean - along) * (slip != "behind" or z > 0))
        w1 = w1 if slip == "second" else w1 - rate * down1
        w2 = w2 if slip in ("first", "order") else w2 - rate * down2
        if slip == "up":
            w1, w2 = w1 + 2 * rate * down1, w2 + 2 * rate * down2
    return np.array(losses[-steps:])


DESCENTS = {
    "plain": "there is no norm in it",
    "constants": "mean and variance are taken as constants on the way back",
    "mean": "the path through the mean is missing on the way back",
    "variance": "the path through the variance is missing on the way back",
    "relu": "the gradient passes where ReLU has put out zero",
    "gate": "the gradient passes where z is positive; ReLU has seen the normalized z",
    "behind": "the norm stands behind ReLU; it should stand in front of it",
    "sum": "the gradient is that of the sum of the losses; the loss is their mean",
    "order": "w2 has moved before the gradient of w1 is taken",
    "second": "w1 does not move",
    "first": "w2 does not move",
    "after": "the losses are those after each step; the first one belongs to the start",
    "up": "it climbs: subtract the gradient",
}


def _compare_descent(answer: Any, rng: Rng, scale: float = 1.0) -> None:
    count, pixels, units = sizes(rng, (20, 30), (8, 12), (5, 7))
    case = (
        normal(rng, count, pixels),
        rng.integers(0, 10, count),
        rng.normal(size=(pixels, units)) / np.sqrt(pixels),
        scale * rng.normal(size=(units, 10)) / np.sqrt(units),
        0.5,
        6 if scale == 1 else 2,
    )

    def slips() -> Any:
        yield from (Known(words, (_descent(*case, slip),)) for slip, words in DESCENTS.items())

    compare(answer(*case), (_descent(*case),), ("the loss",), slips=slips, tolerance=1e-6)


def _descent_large(answer: Any, rng: Rng) -> None:
    blamed(
        "it is right for small logits; the exponential of a large one is infinite. Subtract the "
        "largest logit first",
        lambda: _compare_descent(answer, rng, scale=2000.0),
        lambda: _compare_descent(answer, rng),
        seen="NaN",
    )


# --- another size ---------------------------------------------------------------------------------

ABSOLUTE = Formula(
    """
    c = x - mean(x)
    size = mean(abs(c))
    y = c / size
    h = (grad_y - sign(c) * mean(grad_y * y)) / size
    grad_x = h - mean(h)
    """,
    axes=(0,),
    rank=2,
    said={"c": "x − mean(x)", "size": "mean(|x − mean(x)|)", "sign": "the sign",
          "h": "the gradient of x − mean(x)"},
    alike=("x y c", "grad_y h"),
    more={
        "the mean is not taken out of the gradient at the end: a shift is forgotten, too":
            "grad_x = h",
        "size and mean are taken as constants": "grad_x = grad_y / size",
        "the size is taken as a constant": "h = grad_y / size",
        "y stands where the sign belongs: that is the formula for the root mean square":
            "h = (grad_y - y * mean(grad_y * y)) / size",
        "that is BatchNorm's gradient, with the deviation as the size":
            "size = root(mean(c ** 2)); y = c / size; h = (grad_y - y * mean(grad_y * y)) / size",
        "the sign stands where y belongs, inside the mean":
            "h = (grad_y - sign(c) * mean(grad_y * sign(c))) / size",
        "the mean is taken out of the incoming gradient only, in front of the other term":
            "h = grad_y - mean(grad_y); grad_x = (h - sign(c) * mean(h * y)) / size",
        "the sign of x is taken; it should be that of x − mean(x)":
            "h = (grad_y - sign(x) * mean(grad_y * y)) / size",
        "a sum stands where the mean of grad_y·y belongs":
            "h = (grad_y - sign(c) * total(grad_y * y, axes)) / size",
        "the statistics run over the features": "axes = (1,)",
    },
)  # fmt: skip


def _compare_absolute(answer: Any, x: np.ndarray, rng: Rng, **how: Any) -> None:
    grad_y = normal(rng, *x.shape).astype(x.dtype)

    def forward(x: Any) -> Any:
        c = x - x.mean(0)
        return c / c.abs().mean(0)

    g, wide = (a.astype(np.float64) for a in (grad_y, x))
    right = gradients(forward, (wide,), (grad_y,))
    slips = ABSOLUTE.known("grad_x", grad_y=g, x=wide, sign=np.sign)
    compare(answer(grad_y, x), right, ("grad_x",), slips=slips, **how)


def _absolute_values(answer: Any, rng: Rng) -> None:
    x = normal(rng, *sizes(rng, (6, 9), (3, 5)), mean=3.0)
    x[0], x[1] = -np.abs(x[0]), 0.1 * np.abs(x[1])  # x is negative, or positive below its mean
    _compare_absolute(answer, x, rng, tolerance=EXACT)


def _absolute_large(answer: Any, rng: Rng) -> None:
    blamed(
        ROUGH,
        lambda: _compare_absolute(answer, outlying(rng, 7, 4), rng, tolerance=EXACT),
        lambda: _absolute_values(answer, rng),
    )


TASKS = (
    Task("01.1", "predict", "A batch of two", "prediction_01_1", 1, (Check("prediction", _pair),)),
    Task("01.2", "implement", "Backward in evaluation", "batch_norm_eval_backward", 2, (
        Check("gradients", lambda answer, rng: _compare_evaluated(
            answer, _evaluated(rng, *sizes(rng, (5, 9), (3, 7)))), first=True),
        Check("edge case: one example", lambda answer, rng: _compare_evaluated(
            answer, _evaluated(rng, 1, 4))),
        Check("edge case: a running variance of zero", _eval_constant),
        Check("dtypes: float32", _eval_float32),
    )),
    Task("01.3", "repair", "A layer that passed its tests", "BatchNorm", 3, (
        Check("values: evaluation while gradients are on", _switch_eval, first=True),
        Check("values: training while gradients are off", _switch_train),
        Check("state: who may change the running statistics", _switch_buffers),
    )),
    Task("01.4", "explain", "Fine-tuning in evaluation", "explanation_01_4", 2),
    Task("01.5", "implement", "Backward in training", "batch_norm_backward", 4, (
        Check("gradients", _trained_values, first=True),
        Check("numerics: one large input", _trained_large, first=True),
        Check("dtypes: float32", lambda answer, rng: _compare_trained(
            answer, normal(rng, 7, 4).astype(np.float32), rng, tolerance=2e-5, dtype="float32")),
    )),
    Task("01.6", "implement", "Train with it", "train", 3, (
        Check("values", _compare_descent, first=True),
        Check("numerics: large logits", _descent_large),
    )),
    Task("01.7", "implement", "Another size", "mean_absolute_backward", 3, (
        Check("gradients", _absolute_values, first=True),
        Check("numerics: one large input", _absolute_large, first=True),
        Check("dtypes: float32", lambda answer, rng: _compare_absolute(
            answer, normal(rng, 7, 4).astype(np.float32), rng, tolerance=2e-5, dtype="float32")),
    )),
)  # fmt: skip
