"""Coursework on BatchNorm and LayerNorm on sequences: padding, buffers, axes, devices."""

from dataclasses import replace
from typing import Any

import numpy as np

from normtutor import norms
from normtutor.grading.judging import Check, Known, Mistake, Task, blamed, compare, prediction
from normtutor.grading.references import (
    compare_norm,
    faint,
    gradients,
    normal,
    sizes,
    weights,
)
from normtutor.grading.slips import NORM, STEP, Formula

Rng = np.random.Generator


def _padded(answer: Any, rng: Rng, mean: float = 2.0, variance: float = 1.0) -> None:
    x = np.array([mean - np.sqrt(variance), mean + np.sqrt(variance), 0.0, 0.0])
    known = [
        (variance / 2, "that is the variance inside the two halves; their means differ, too"),
        (variance, "that is the variance of the real tokens; zeros count as values like any other"),
        (
            np.mean(x**2),
            "that is the mean of the squares; the square of the mean is to be taken away",
        ),
        (x.var(ddof=1), "divide by the number of all positions, not by that number less one"),
    ]
    prediction(answer(), float(x.var()), known)


# --- masked running statistics --------------------------------------------------------------------


def _masked(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    batch, length, features = sizes(rng, (4, 6), (7, 9), (2, 3))
    lengths = rng.permutation(np.resize([2, length, 3, length - 2], batch))
    mask = np.arange(length) < lengths[:, None]
    return normal(rng, batch, length, features, mean=1.5), mask


RUNNING = Formula(
    """
    n = len(real)
    batch_mean = total(real) / n
    running_mean = momentum * batch_mean + (1 - momentum) * old_mean
    batch_var = total((real - batch_mean) ** 2) / (n - 1)
    running_var = momentum * batch_var + (1 - momentum) * old_var
    or
    n = len(real)
    batch_mean = total(real) / n
    centre = total(real) / n
    batch_var = total((real - centre) ** 2) / (n - 1)
    running_mean = momentum * batch_mean + (1 - momentum) * old_mean
    running_var = momentum * batch_var + (1 - momentum) * old_var
    """,
    tokens=(0,),
    rank=2,
    said={
        "batch_mean": "the mean of the batch", "centre": "the mean of the batch",
        "batch_var": "the variance of the batch", "old_mean": "the old mean",
        "old_var": "the old variance", "running_mean": "the running mean",
        "running_var": "the running variance", "len": "the number of", "real": "the real tokens",
    },
    alike=("batch_mean old_mean running_mean", "old_var batch_var"),
    more={
        "padding counts in the statistics: use the mask": "real = padded",
        "padding, set to zero, counts in the squared deviations":
            "batch_var = total((padded - batch_mean) ** 2) / (n - 1)",
        "the mask is inverted: True marks the real tokens": "real = inverted",
        "the mask is shifted by one position": "real = shifted",
        "the mask is off by one: the last real token of each sentence is left out": "real = short",
        "the mask is off by one: it takes in one position of padding": "real = long",
        "the first token of each sentence is left out": "real = late",
        "only the sentences without padding count; every real token must": "real = whole",
        "the features are pooled: each must have its own statistics":
            "real = real.reshape(-1, 1)",
        "the running variance takes the unbiased variance, with n − 1; yours divides by n":
            "batch_var = total((real - batch_mean) ** 2) / n",
        "the divisor n − 1 is applied twice":
            "batch_var = total((real - batch_mean) ** 2) / (n - 1) * n / (n - 1)",
        "the sum runs over the real tokens, and is divided by the number of all positions":
            "batch_mean = total(real) / len(padded)",
        "both sums run over the real tokens, and are divided by the number of all positions":
            "n = len(padded); batch_var = total((real - batch_mean) ** 2) / n",
        "n − 1 is taken with all positions, not with the real tokens":
            "batch_var = total((real - batch_mean) ** 2) / n * len(padded) / (len(padded) - 1)",
        "the mean is divided by the number of sentences, not of tokens":
            "batch_mean = total(real) / sentences",
        "momentum is the weight of the new value, as in torch; yours is that of the old":
            "momentum = 1 - momentum",
        "you average the sentences' means and variances. A long sentence must count more than a "
        "short one: the statistic belongs to the tokens":
            "batch_mean = mean_inside; batch_var = var_inside",
        "you average the sentences' means. A long sentence must count more than a short one: the "
        "statistic belongs to the tokens":
            "running_mean = (1 - momentum) * old_mean + momentum * mean_inside",
        "you average the sentences' variances; the tokens share one mean and one variance":
            "batch_var = var_inside",
        "the deviation stands where the variance belongs":
            "batch_var = root(total((real - batch_mean) ** 2) / (n - 1))",
        "the mean of the squares stands where the variance belongs":
            "batch_var = total(real ** 2) / n",
        "the statistics of the batch come back alone; they should be blended into the old":
            "momentum = 1",
        "old and new count alike; momentum is the weight of the new value": "momentum = 0.5",
    },
)  # fmt: skip


def _selections(x: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
    """The tokens that the statistics may be taken of, by what became of the mask."""
    before, after = np.roll(mask, 1, 1), np.roll(mask, -1, 1)
    inside = [(s[m].mean(0), s[m].var(0)) for s, m in zip(x, mask, strict=True)]
    means, variances = zip(*inside, strict=True)
    return {
        "real": x[mask],
        "padded": x.reshape(-1, x.shape[-1]),
        "inverted": x[~mask],
        "shifted": x[before],
        "short": x[mask & after],
        "long": x[mask | before],
        "late": x[mask & before],
        "whole": x[mask.all(1)].reshape(-1, x.shape[-1]),
        "sentences": len(x),
        "mean_inside": np.mean(means, 0),
        "var_inside": np.mean(variances, 0),
    }


def _compare_masked(
    answer: Any, x: np.ndarray, mask: np.ndarray, rng: Rng, padding: float = 0.0
) -> None:
    features, momentum = x.shape[-1], 0.2
    x = np.where(mask[..., None], x, padding)
    mean, var = normal(rng, features), weights(rng, features) + 1
    how: dict[str, Any] = {"momentum": momentum, "mask": mask, "feature_axis": -1}
    right = norms.batch_norm(x, running_mean=mean, running_var=var, **how)[2]

    def slips() -> Any:
        chosen = _selections(np.where(mask[..., None], x, 0.0), mask)
        given = {"old_mean": mean, "old_var": var, "momentum": momentum, **chosen}
        for known in RUNNING.slips(lambda run: tuple(map(run(**given).get, names))):
            yield known._replace(outputs=tuple(map(np.ravel, known.outputs)))

    names = ("running_mean", "running_var")
    value = answer(x, mask, mean, var, momentum)
    compare(value, tuple(right), names, slips=slips if mask.any() else None)


def _masked_all(answer: Any, rng: Rng) -> None:
    x, mask = _masked(rng)
    _compare_masked(answer, x, np.ones_like(mask), rng)


def _masked_none(answer: Any, rng: Rng) -> None:
    x, mask = _masked(rng)
    try:
        _compare_masked(answer, x, np.zeros_like(mask), rng)
    except Mistake as mistake:
        raise Mistake(
            f"a batch without a real token says nothing, so nothing moves. {mistake}"
        ) from None


def _masked_nan(answer: Any, rng: Rng) -> None:
    x, mask = _masked(rng)
    blamed(
        "what stands in the padding is NaN here, and comes through. 0 × NaN is NaN: choose with "
        "np.where, do not multiply by the mask",
        lambda: _compare_masked(answer, x, mask, rng, padding=np.nan),
        lambda: _compare_masked(answer, x, mask, rng),
        seen="NaN",
    )


# --- a buffer that keeps the graph ----------------------------------------------------------------


def _scaled(x: np.ndarray, psi_squared: np.ndarray) -> np.ndarray:
    return norms.power_norm(x, None, None, psi_squared, training=False, eps=1e-5)[0]


def _next(psi_squared: np.ndarray, x: np.ndarray) -> np.ndarray:
    return norms.power_norm(x, None, None, psi_squared, alpha=0.9)[2]


def _buffer_case(rng: Rng) -> tuple[list[np.ndarray], list[np.ndarray], int]:
    """Three batches, three gradients for the outputs, and the number of features."""
    shape = sizes(rng, (2, 3), (6, 7), (4, 5))
    batches, grads = ([normal(rng, *shape) for _ in range(3)] for _ in range(2))
    return batches, grads, shape[-1]


def _graph_steps(answer: Any, rng: Rng) -> None:
    batches, grads, features = _buffer_case(rng)
    psi = [np.ones(features)]
    for x in batches:
        psi.append(_next(psi[-1], x))
    _graph_outputs(answer, batches, psi)
    steps: list[tuple] = [("train",)]
    for x, g in zip(batches, grads, strict=True):
        steps += [("forward", x), ("backward", g)]
    try:
        value = answer.drive((features,), steps)
    except Mistake as mistake:
        words = str(mistake)
        if "second time" in words:
            raise Mistake(
                "a later step wants to go back through an earlier one. The buffer remembers how it "
                "was computed, and with it every batch so far: store the number, not the graph",
                known=True,
                symptom=words,
            ) from None
        if "does not require grad" in words:
            raise Mistake(
                "the output is right and has no gradient: no_grad or detach covers too much",
                known=True,
            ) from None
        raise
    expected = [
        g * _scaled(np.ones_like(x), p) for x, g, p in zip(batches, grads, psi[:3], strict=True)
    ]
    compare(value[1::2], expected, [f"gradient {n}" for n in (1, 2, 3)], tolerance=1e-5)


def _graph_outputs(answer: Any, batches: list[np.ndarray], psi: list[np.ndarray]) -> None:
    """Three outputs in training, without a backward pass."""
    steps = [("train",), *(("forward", x) for x in batches)]
    value = answer.drive((len(psi[0]),), steps)

    def slips() -> Any:
        def outputs(run: Any) -> tuple:
            buffer, found = psi[0], []
            for x in batches:
                names = run(x=x, psi_squared=buffer, alpha=0.9, eps=1e-5)
                found.append(names["y"])
                buffer = np.ravel(names["after"])
            return tuple(found)

        yield Known("the buffer does not move", tuple(_scaled(x, psi[0]) for x in batches))
        yield Known(
            "the buffer moves before it is used; it should move afterwards",
            tuple(_scaled(x, p) for x, p in zip(batches, psi[1:], strict=True)),
        )
        yield from STEP.slips(outputs)

    expected = [_scaled(x, p) for x, p in zip(batches, psi[:3], strict=True)]
    names = [f"output {n}" for n in (1, 2, 3)]
    compare(value, expected, names, slips=slips, tolerance=1e-5)


def _graph_buffer(answer: Any, rng: Rng) -> None:
    (x1, x2, _), _, features = _buffer_case(rng)
    name = "running_mean_square"
    steps = [("train",), ("forward", x1), ("forward", x2), ("keeps graph", name), ("buffer", name)]
    *_, keeps, value, saved = answer.drive((features,), [*steps, ("saved", name)])
    if keeps is not False:
        raise Mistake(
            "after two steps the buffer still hangs on a graph, which keeps both batches in memory",
            known=True,
        )
    if saved is not True:
        raise Mistake(
            f"{name} is no buffer. A saved model loses a plain attribute, and an optimizer trains "
            "a parameter: register it as a buffer",
            known=True,
        )
    compare(value, (_next(_next(np.ones(features), x1), x2),), (name,), tolerance=1e-5)


def _graph_eval(answer: Any, rng: Rng) -> None:
    (x1, x2, _), _, features = _buffer_case(rng)
    name = "running_mean_square"
    steps = [("train",), ("forward", x1), ("eval",), ("forward", x2), ("buffer", name)]
    _, second, buffer = answer.drive((features,), steps)
    after = _next(np.ones(features), x1)
    compare(
        (second, buffer),
        (_scaled(x2, after), after),
        ("the output in evaluation", "the buffer after an evaluation step"),
        tolerance=1e-5,
    )


# --- axes -----------------------------------------------------------------------------------------


POSITIONS = (
    "each position has its own statistics: only the batch axis is pooled. The tokens of all "
    "positions are values of the same feature"
)
BATCH = replace(
    NORM,
    axes=(0, 1),
    more={
        POSITIONS: "axes = (0,)",
        "each sentence has its own statistics: that is InstanceNorm": "axes = (1,)",
        "each token has its own statistics: that is LayerNorm": "axes = (2,)",
        "the features share one statistic; each must have its own": "axes = (0, 1, 2)",
        "the variances of the features are averaged; each feature has its own":
            "var = mean(mean((x - mu) ** 2), (2,))",
        **NORM.more,
    },
    handed_out=POSITIONS,
)  # fmt: skip


def _by_feature(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return norms.batch_norm(x, weight, bias, eps=eps, feature_axis=-1)[0]


def _compare_axes(answer: Any, x: np.ndarray, rng: Rng, **how: Any) -> None:
    compare_norm(answer, x, rng, _by_feature, BATCH, 0.02, **how)


# --- what lies between batches --------------------------------------------------------------------

BETWEEN = Formula(
    """
    means = mean(batches)
    between = mean((means - mean(means, (0,))) ** 2, (0,))
    within = mean(mean((batches - means) ** 2), (0,))
    pooled = between + within
    share = between / pooled
    """,
    axes=(1,),
    said={"means": "the batches' means", "between": "the variance between the batches",
          "within": "the variance inside the batches", "pooled": "the pooled variance",
          "batches": "the values", "share": "the share"},
    alike=("between within pooled",),
    more={
        "that is the share inside the batches": "share = within / pooled",
        "it is divided by the variance inside the batches; the pooled one is the whole":
            "share = between / within",
        "the root of the share is asked for nowhere": "share = root(between / pooled)",
        "the variance of the means is not divided by anything": "share = between",
        "the variance of the means divides by n − 1; all batches are here":
            "between = mean((means - mean(means, (0,))) ** 2, (0,), less=1)",
        "the features share one number; each has its own":
            "share = mean(between / pooled, (2,)) + 0 * between",
        "the variance of the batches' variances is taken; it should be that of their means":
            "spread = mean((batches - means) ** 2); "
            "between = mean((spread - mean(spread, (0,))) ** 2, (0,))",
        "every other value goes into one batch; a batch is made of neighbours":
            "batches = interleaved",
        "values with the same place in their batches are put together; a batch is made of "
        "neighbours": "batches = placed",
        "the batches overlap; each value belongs to one": "batches = overlapping",
    },
)  # fmt: skip


def _compare_between(answer: Any, rng: Rng, mean: float = 0.0, tolerance: float = 1e-8) -> None:
    count, size, features = sizes(rng, (5, 6), (7, 9), (3, 4))
    batches = rng.normal(size=(count, size, features)) + rng.normal(size=(count, 1, features))
    x = (mean + batches).reshape(-1, features)
    between, within = batches.mean(1).var(0), batches.var(1).mean(0)
    turned = x.reshape(size, count, features).swapaxes(0, 1)
    given = {"batches": x.reshape(batches.shape), "interleaved": turned}
    given["placed"] = given["batches"].swapaxes(0, 1)
    given["overlapping"] = np.stack([x[n : n + size] for n in range(len(x) - size + 1)])
    slips = BETWEEN.known("share", **given)
    right = (between / (between + within),)
    compare(answer(x, size), right, ("the share",), slips=slips, tolerance=tolerance)


def _between_far(answer: Any, rng: Rng) -> None:
    blamed(
        "it is right near zero and not far from it: a mean of squares less the square of a mean "
        "loses its digits there",
        lambda: _compare_between(answer, rng, mean=1e7, tolerance=1e-5),
        lambda: _compare_between(answer, rng),
    )


# --- two devices ----------------------------------------------------------------------------------

SYNCED = Formula(
    """
    n = n_1 + n_2
    mean_g = (total(g_1) + total(g_2)) / n
    mean_g_x = (total(g_1 * x_1) + total(g_2 * x_2)) / n
    dx_1 = inverse * (g_1 - mean_g - x_1 * mean_g_x)
    dx_2 = inverse * (g_2 - mean_g - x_2 * mean_g_x)
    """,
    tokens=(0,),
    rank=2,
    said={
        "n": "the number of all examples", "n_1": "n₁", "n_2": "n₂", "g_1": "g₁", "g_2": "g₂",
        "x_1": "x̂₁", "x_2": "x̂₂", "inverse": "1/√(σ² + ε)", "mean_g": "the mean of g",
        "mean_g_x": "the mean of g·x̂", "dx_1": "dx₁", "dx_2": "dx₂",
    },
    alike=("g_1 g_2", "x_1 x_2", "n_1 n_2 n"),
    more={
        "each device takes its own means. Its examples have shared a statistic with those of the "
        "other, so the loss of those is in their gradient":
            "dx_1 = inverse * (g_1 - total(g_1) / n_1 - x_1 * total(g_1 * x_1) / n_1); "
            "dx_2 = inverse * (g_2 - total(g_2) / n_2 - x_2 * total(g_2 * x_2) / n_2)",
        "the means of the devices count alike; the device with more examples must count more":
            "mean_g = (total(g_1) / n_1 + total(g_2) / n_2) / 2; "
            "mean_g_x = (total(g_1 * x_1) / n_1 + total(g_2 * x_2) / n_2) / 2",
        "the means of the devices are added, not averaged":
            "mean_g = total(g_1) / n_1 + total(g_2) / n_2; "
            "mean_g_x = total(g_1 * x_1) / n_1 + total(g_2 * x_2) / n_2",
        "the mean of g is each device's own":
            "dx_1 = inverse * (g_1 - total(g_1) / n_1 - x_1 * mean_g_x); "
            "dx_2 = inverse * (g_2 - total(g_2) / n_2 - x_2 * mean_g_x)",
        "the mean of g·x̂ is each device's own":
            "dx_1 = inverse * (g_1 - mean_g - x_1 * total(g_1 * x_1) / n_1); "
            "dx_2 = inverse * (g_2 - mean_g - x_2 * total(g_2 * x_2) / n_2)",
        "the path through the mean is missing": "mean_g = 0",
        "the path through the variance is missing": "mean_g_x = 0",
        "mean and variance are taken as constants": "mean_g = 0; mean_g_x = 0",
        "sums stand where means belong": "n = 1",
        "the sums of both devices are divided by the number of examples on one":
            "dx_1 = inverse * (g_1 - (mean_g + x_1 * mean_g_x) * n / n_1); "
            "dx_2 = inverse * (g_2 - (mean_g + x_2 * mean_g_x) * n / n_2)",
        "the factor 1/√(σ² + ε) is missing, both times": "inverse = 1",
    },
)  # fmt: skip


def _compare_synced(answer: Any, rng: Rng, n_1: int, n_2: int, **how: Any) -> None:
    x, eps = faint(normal(rng, n_1 + n_2, 4), 1), 0.1
    g = normal(rng, *x.shape)
    right = gradients(lambda x: norms.batch_norm(x, eps=eps)[0], (x,), (g,))[0]
    x_hat, inverse = norms.batch_norm(x, eps=eps)[0], 1 / np.sqrt(x.var(0) + eps)
    given = (g[:n_1], x_hat[:n_1], g[n_1:], x_hat[n_1:], inverse)
    parts = dict(zip(("g_1", "x_1", "g_2", "x_2", "inverse"), given, strict=True))
    slips = SYNCED.known("dx_1", "dx_2", n_1=n_1, n_2=n_2, **parts)
    compare(answer(*given), (right[:n_1], right[n_1:]), ("dx_1", "dx_2"), slips=slips, **how)


TASKS = (
    Task("03.1", "predict", "Half of it padding", "prediction_03_1", 1,
         (Check("prediction", _padded),), numbers={"mean": range(2, 10), "variance": range(1, 10)}),
    Task("03.2", "implement", "Running statistics behind a mask", "masked_running_stats", 4, (
        Check("values", lambda answer, rng: _compare_masked(
            answer, *_masked(rng), rng), first=True),
        Check("edge case: no padding", _masked_all),
        Check("edge case: nothing but padding", _masked_none),
        Check("numerics: NaN in the padding", _masked_nan),
    )),
    Task("03.3", "repair", "The second step fails", "RunningScale", 3, (
        Check("gradients: three training steps", _graph_steps, first=True),
        Check("state: the buffer", _graph_buffer),
        Check("state: evaluation", _graph_eval),
    )),
    Task("03.4", "repair", "BatchNorm on sequences", "batch_norm", 3, (
        Check("values", lambda answer, rng: _compare_axes(
            answer, faint(normal(rng, *sizes(rng, (2, 4), (5, 6), (7, 9))), -1), rng), first=True),
        Check("edge case: one sentence", lambda answer, rng: _compare_axes(
            answer, normal(rng, 1, 6, 4), rng)),
        Check("dtypes: float32", lambda answer, rng: _compare_axes(
            answer, normal(rng, 3, 5, 4).astype(np.float32), rng, tolerance=1e-5, dtype="float32")),
    )),
    Task("03.5", "explain", "Good in training, bad in use", "explanation_03_5", 2),
    Task("03.6", "implement", "What lies between batches", "between_share", 2, (
        Check("values", _compare_between, first=True),
        Check("numerics: far from zero", _between_far),
    )),
    Task("03.7", "implement", "Two devices", "synced_dx", 3, (
        Check("gradients", lambda answer, rng: _compare_synced(
            answer, rng, *sizes(rng, (3, 5), (6, 9))), first=True),
        Check("edge case: one example on a device", lambda answer, rng: _compare_synced(
            answer, rng, 1, 6)),
    )),
)  # fmt: skip
