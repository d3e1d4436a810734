"""Coursework on BatchNorm and LayerNorm on sequences: padding, buffers, axes."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from normtutor import norms
from normtutor.grading.judging import Check, Known, Mistake, Task, compare, prediction
from normtutor.grading.references import normal, sizes, weights
from normtutor.grading.slips import norm_slips

Rng = np.random.Generator


def _padded(answer: Any, rng: Rng) -> None:
    # Half the positions have mean 2 and variance 1, half are zero.
    x = np.array([1.0, 3.0, 0.0, 0.0])
    known = [
        (0.5, "that is the variance inside the two halves; their means differ, too"),
        (1.0, "that is the variance of the real tokens; zeros count as values like any other"),
        (2.5, "that is the mean of the squares; the square of the mean is to be taken away"),
        (2.0, "divide by the number of all positions, not by that number less one"),
    ]
    prediction(answer(), float(x.var()), known)


# --- masked running statistics --------------------------------------------------------------------


def _masked(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    batch, length, features = sizes(rng, (4, 6), (7, 9), (2, 3))
    lengths = rng.permutation(np.resize([2, length, 3, length - 2], batch))
    mask = np.arange(length) < lengths[:, None]
    return normal(rng, batch, length, features, mean=1.5), mask


def _compare_masked(
    answer: Any, x: np.ndarray, mask: np.ndarray, rng: Rng, padding: float = 0.0
) -> None:
    features, momentum = x.shape[-1], 0.2
    x = np.where(mask[..., None], x, padding)
    mean, var = normal(rng, features), weights(rng, features) + 1
    how: dict[str, Any] = {"momentum": momentum, "mask": mask, "feature_axis": -1}
    right = norms.batch_norm(x, None, None, mean, var, **how)[2]
    clean = np.where(mask[..., None], x, 0.0)
    known = []
    n, everything = int(mask.sum()), mask.size
    if n:
        flat = clean[mask]

        def blended(new_mean: Any, new_var: Any, weight: float = momentum) -> tuple:
            return (
                (1 - weight) * mean + weight * new_mean,
                (1 - weight) * var + weight * new_var,
            )

        real_mean, real_var = flat.mean(0), flat.var(0)
        unpadded = clean.reshape(-1, features)
        per_sentence = np.stack([s[m].mean(0) for s, m in zip(clean, mask, strict=True) if m.any()])
        known = [
            Known(
                "padding counts in the statistics: use the mask",
                blended(unpadded.mean(0), unpadded.var(0, ddof=1)),
            ),
            Known(
                "padding counts in the statistics, and the variance divides by n",
                blended(unpadded.mean(0), unpadded.var(0)),
            ),
            Known(
                "the running variance takes the unbiased variance, with n − 1; yours divides by n",
                (None, blended(real_mean, real_var)[1]),
            ),
            Known(
                "the sum runs over the real tokens, and is divided by the number of all positions",
                (blended(clean.sum((0, 1)) / everything, 0)[0], None),
            ),
            Known(
                "momentum is the weight of the new value, as in torch; yours is that of the old",
                blended(real_mean, real_var * n / max(n - 1, 1), 1 - momentum),
            ),
            Known(
                "you average the sentences' means. A long sentence must count more than a short "
                "one: the statistic belongs to the tokens",
                (blended(per_sentence.mean(0), 0)[0], None),
            ),
            Known(
                "n − 1 is taken with all positions, not with the real tokens",
                (None, blended(0, real_var * everything / (everything - 1))[1]),
            ),
        ]

    def slips() -> Iterator[Known]:
        """The mask turned round, moved, longer or shorter by one; and what else can be blended."""
        real = mask & np.roll(mask, -1, 1)
        moved = {
            "the mask is inverted: True marks the real tokens": ~mask,
            "the mask is shifted by one position": np.roll(mask, 1, 1),
            "the mask is off by one: the last real token of each sentence is left out": real,
            "the mask is off by one: it takes in one position of padding": mask
            | np.roll(mask, 1, 1),
            "the first token of each sentence is left out": mask & np.roll(mask, 1, 1),
        }
        for words, other in moved.items():
            if other.sum() > 1:
                found = norms.batch_norm(clean, None, None, mean, var, **{**how, "mask": other})[2]
                yield Known(words, (np.asarray(found.mean), np.asarray(found.var)))
        if n > 1:
            old, new = 1 - momentum, momentum
            real_mean, real_var = flat.mean(0), flat.var(0, ddof=1)
            yield Known(
                "the statistics of the batch come back alone; they should be blended into the old",
                (real_mean, real_var),
            )
            for words, a, b in (
                ("the deviation stands where the variance belongs", real_mean, real_var**0.5),
                ("the mean of the squares stands where the variance belongs", real_mean,
                 (flat**2).mean(0)),
                ("a sum stands where the mean belongs", flat.sum(0), real_var),
            ):  # fmt: skip
                right_mean = old * mean + new * real_mean
                mean_told = None if a is real_mean else old * mean + new * a
                var_told = None if b is real_var else old * var + new * b
                if mean_told is None or not np.allclose(mean_told, right_mean):
                    yield Known(words, (mean_told, var_told))
            blended_mean = old * mean + new * real_mean
            around = {
                "the deviations are taken from the running mean; take them from this batch's": mean,
                "the deviations are taken from the new running mean; take them from this batch's": (
                    blended_mean
                ),
            }
            for words, centre in around.items():
                spread = ((flat - centre) ** 2).sum(0) / (n - 1)
                yield Known(words, (None, old * var + new * spread))
            for ddof in (0, 1):
                inside = [
                    s[m].var(0, ddof=ddof)
                    for s, m in zip(clean, mask, strict=True)
                    if m.sum() > ddof
                ]
                yield Known(
                    "you average the sentences' variances; the tokens share one mean and one "
                    "variance",
                    (None, old * var + new * np.mean(inside, 0)),
                )
            yield Known(
                "the features are pooled: each must have its own statistics",
                (old * mean + new * flat.mean(), None),
            )
            whole = clean[mask.all(1)].reshape(-1, features)
            if len(whole):
                yield Known(
                    "only the sentences without padding count; every real token must",
                    (old * mean + new * whole.mean(0), None),
                )
            yield Known(
                "old and new count alike; momentum is the weight of the new value",
                ((mean + real_mean) / 2, None),
            )
            yield Known(
                "the new value is added to the whole of the old", (mean + new * real_mean, None)
            )

    value = answer(x, mask, mean, var, momentum)
    compare(value, tuple(right), ("running_mean", "running_var"), known, slips=slips)


def _masked_values(answer: Any, rng: Rng) -> None:
    _compare_masked(answer, *_masked(rng), rng)


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
    try:
        _compare_masked(answer, x, mask, rng, padding=np.nan)
    except Mistake as mistake:
        words = str(mistake)
        if "NaN" in words:
            words = (
                "what stands in the padding is NaN here, and comes through. 0 × NaN is NaN: choose "
                "with np.where, do not multiply by the mask"
            )
        raise Mistake(words, known=mistake.known or "np.where" in words) from None


# --- a buffer that keeps the graph ----------------------------------------------------------------


def _scaled(x: np.ndarray, psi_squared: np.ndarray) -> np.ndarray:
    return norms.power_norm(x, None, None, psi_squared, training=False, eps=1e-5)[0]


def _next(psi_squared: np.ndarray, x: np.ndarray) -> np.ndarray:
    return norms.power_norm(x, None, None, psi_squared, alpha=0.9)[2]


def _buffer_case(rng: Rng) -> tuple[list[np.ndarray], list[np.ndarray], int]:
    """Three batches, three gradients for the outputs, and the number of features."""
    shape = sizes(rng, (2, 3), (4, 5), (6, 7))
    batches, grads = ([normal(rng, *shape) for _ in range(3)] for _ in range(2))
    return batches, grads, shape[-1]


def _graph_steps(answer: Any, rng: Rng) -> None:
    batches, grads, features = _buffer_case(rng)
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
                "the output has no gradient any more: no_grad or detach covers too much", known=True
            ) from None
        raise
    psi = np.ones(features)
    expected, names, still, early = [], [], [], []
    for count, (x, g) in enumerate(zip(batches, grads, strict=True), start=1):
        after = _next(psi, x)
        expected += [_scaled(x, psi), g * _scaled(np.ones_like(x), psi)]
        still += [_scaled(x, np.ones(features)), None]
        early += [_scaled(x, after), None]
        names += [f"output {count}", f"gradient {count}"]
        psi = after
    known = [
        Known("the buffer no longer moves", tuple(still)),
        Known("the buffer moves before it is used; it should move afterwards", tuple(early)),
    ]
    compare(value, expected, names, known, tolerance=1e-6)


def _graph_buffer(answer: Any, rng: Rng) -> None:
    (x1, x2, _), _, features = _buffer_case(rng)
    name = "running_mean_square"
    steps = [("train",), ("forward", x1), ("forward", x2), ("keeps graph", name), ("buffer", name)]
    *_, keeps, value = answer.drive((features,), steps)
    if keeps is not False:
        raise Mistake(
            "after two steps the buffer still hangs on a graph, which keeps both batches in memory",
            known=True,
        )
    compare(value, (_next(_next(np.ones(features), x1), x2),), (name,), tolerance=1e-6)


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
        tolerance=1e-6,
    )


# --- axes -----------------------------------------------------------------------------------------


def _compare_axes(answer: Any, x: np.ndarray, rng: Rng, **how: Any) -> None:
    features, eps = x.shape[-1], 1e-3
    weight, bias = weights(rng, features), normal(rng, features)
    wide = x.astype(np.float64)
    right = norms.batch_norm(wide, weight, bias, eps=eps, feature_axis=-1)[0]

    def over(axes: tuple[int, ...]) -> np.ndarray:
        mean, var = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
        return (wide - mean) / np.sqrt(var + eps) * weight + bias

    known = [
        Known(
            "each position has its own statistics: only the batch axis is pooled. The tokens of "
            "all positions are values of the same feature",
            (over((0,)),),
            handed_out=True,
        ),
        Known("each sentence has its own statistics: that is InstanceNorm", (over((1,)),)),
        Known(
            "you divide by the variance, not by its root",
            ((wide - wide.mean((0, 1))) / (wide.var((0, 1)) + eps) * weight + bias,),
        ),
        Known("each token has its own statistics: that is LayerNorm", (over((2,)),)),
        Known("the features share one statistic; each must have its own", (over((0, 1, 2)),)),
    ]
    arguments = [a.astype(x.dtype) for a in (x, weight, bias)]

    def slips() -> Any:
        return norm_slips(wide, weight, bias, eps, (0, 1))

    compare(answer(*arguments, eps), (right,), ("y",), known, slips=slips, **how)


def _axes_values(answer: Any, rng: Rng) -> None:
    _compare_axes(answer, normal(rng, *sizes(rng, (2, 4), (5, 6), (7, 9))), rng)


def _axes_one(answer: Any, rng: Rng) -> None:
    _compare_axes(answer, normal(rng, 1, 6, 4), rng)


def _axes_float32(answer: Any, rng: Rng) -> None:
    x = normal(rng, 3, 5, 4).astype(np.float32)
    _compare_axes(answer, x, rng, tolerance=1e-5, dtype="float32")


TASKS = (
    Task(
        "03.1",
        "predict",
        "Half of it padding",
        "prediction_03_1",
        1,
        (Check("prediction", _padded),),
    ),
    Task(
        "03.2",
        "implement",
        "Running statistics behind a mask",
        "masked_running_stats",
        4,
        (
            Check("values", _masked_values, first=True),
            Check("edge case: no padding", _masked_all),
            Check("edge case: nothing but padding", _masked_none),
            Check("numerics: NaN in the padding", _masked_nan),
        ),
    ),
    Task(
        "03.3",
        "repair",
        "The second step fails",
        "RunningScale",
        3,
        (
            Check("gradients: three training steps", _graph_steps, first=True),
            Check("state: the buffer", _graph_buffer),
            Check("state: evaluation", _graph_eval),
        ),
    ),
    Task(
        "03.4",
        "repair",
        "BatchNorm on sequences",
        "batch_norm",
        3,
        (
            Check("values", _axes_values, first=True),
            Check("edge case: one sentence", _axes_one),
            Check("dtypes: float32", _axes_float32),
        ),
    ),
    Task("03.5", "explain", "Good in training, bad in use", "explanation_03_5", 2),
)
