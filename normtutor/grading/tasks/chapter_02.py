"""Coursework on the family of norms: axes, divisors, one pass and two."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from normtutor import norms
from normtutor.grading.judging import (
    Check,
    Known,
    Mistake,
    Task,
    compare,
    outputs_of,
    prediction,
)
from normtutor.grading.references import (
    gradients,
    hidden_from_autograd,
    layer_norm,
    normal,
    sizes,
    weights,
)
from normtutor.grading.slips import gradient_slips, norm_slips, term_slips

Rng = np.random.Generator


def _largest(answer: Any, rng: Rng) -> None:
    x = np.zeros(101)
    x[0] = 1.0
    truth = float(layer_norm(x, eps=1e-300).max())
    known = [
        (np.sqrt(101), "that is the length of the whole output; can one entry be all of it?"),
        (101, "the length of the output grows like the root of the number of features"),
        (100, "the length of the output grows like the root of the number of features"),
        (1, "LayerNorm has variance 1, not maximum 1: look at a token with one large entry"),
    ]
    prediction(answer(), truth, known, 0.002)


# --- LayerNorm's backward in one line -------------------------------------------------------------


def _standardized(x: Any, mean: Any, variance: Any, eps: float) -> Any:
    return (x - mean) / (variance + eps) ** 0.5


def _mean(x: Any, axes: tuple[int, ...]) -> Any:
    return x.mean(axes, keepdims=True) if isinstance(x, np.ndarray) else x.mean(axes, keepdim=True)


def _norm_over(axes: tuple[int, ...], *, constant: str = "", eps: float = 1e-5) -> Any:
    """A norm over some axes with a part of it held constant in the backward pass."""

    def forward(x: Any) -> Any:
        mean = _mean(x, axes)
        variance = _mean((x - mean) ** 2, axes)
        mean = hidden_from_autograd(mean) if "mean" in constant else mean
        variance = hidden_from_autograd(variance) if "variance" in constant else variance
        return _standardized(x, mean, variance, eps)

    return forward


def _compare_dx(answer: Any, x: np.ndarray, g: np.ndarray, eps: float = 1e-5, **how: Any) -> None:
    wide = x.astype(np.float64)
    inverse = 1 / np.sqrt(wide.var(-1, keepdims=True) + eps)
    x_hat, cache = norms.layer_norm(wide, eps=eps)

    def found(**constant: Any) -> np.ndarray:
        return gradients(_norm_over((-1,), eps=eps, **constant), (wide,), (g,))[0]

    right = found()
    no_mean, no_variance = found(constant="mean"), found(constant="variance")
    features = x.shape[-1]
    plain = g * inverse
    known = [
        Known("the path through the mean is missing", (no_mean,)),
        Known("the path through the variance is missing", (no_variance,)),
        Known("mean and variance are taken as constants; both depend on x", (plain,)),
        Known("the factor 1/√(σ² + ε) is missing", (right / inverse,)),
        Known(
            "sums stand where means belong", (plain - features * (plain - right),)
        ),
        Known(
            "the means run over the batch; LayerNorm's statistics belong to one token",
            (norms.layer_norm_backward(g, cache._replace(axes=(0, 1))).x,),
        ),
        Known("one of the two paths has the wrong sign: both take something away", (
            plain + (plain - right),)),
        Known("the mean of g is taken away twice", (
            right - inverse * g.mean(-1, keepdims=True),)),
        Known("a 1 stands where the mean of g belongs", (no_mean - inverse,)),
        Known("the means run over a whole sequence; LayerNorm's statistics belong to one token", (
            norms.layer_norm_backward(g, cache._replace(axes=(1, 2))).x,)),
    ]  # fmt: skip
    arguments = [a.astype(x.dtype) for a in (g, x_hat, inverse)]

    def slips() -> Any:
        return gradient_slips(wide, g, eps, (-1,), gradients)

    compare(answer(*arguments), (right,), ("grad_x",), known, slips=slips, **how)


def _dx_values(answer: Any, rng: Rng) -> None:
    shape = sizes(rng, (2, 4), (3, 6), (5, 9))
    _compare_dx(answer, normal(rng, *shape), normal(rng, *shape))


def _dx_plain(answer: Any, rng: Rng) -> None:
    shape = (1, 1, int(rng.integers(2, 6)))
    _compare_dx(answer, normal(rng, *shape), normal(rng, *shape))


def _dx_float32(answer: Any, rng: Rng) -> None:
    x, g = normal(rng, 2, 3, 8).astype(np.float32), normal(rng, 2, 3, 8).astype(np.float32)
    _compare_dx(answer, x, g, tolerance=2e-5, dtype="float32")


def _dx_scale(answer: Any, rng: Rng) -> None:
    _compare_dx(answer, 1e-4 * normal(rng, 2, 3, 8), normal(rng, 2, 3, 8))


# --- one pass -------------------------------------------------------------------------------------


def _chunks(rng: Rng, mean: float, short: int, long: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(mean, 1.5, short), rng.normal(mean + 2.0, 1.5, long)


def _merge_arguments(a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    return [np.asarray(v) for v in (len(a), a.mean(), a.var(), len(b), b.mean(), b.var())]


def _compare_merge(answer: Any, a: np.ndarray, b: np.ndarray, tolerance: float = 1e-9) -> None:
    both = np.concatenate([a, b])
    n, na, nb = len(both), len(a), len(b)
    within = (na * a.var() + nb * b.var()) / n if na and nb else both.var()
    gap = (a.mean() - b.mean()) ** 2 if na and nb else 0.0
    known = [
        Known(
            "only the variances inside the chunks are there; the chunks' means differ, too",
            (None, None, within),
        ),
        Known("that is the unbiased variance: it divides by n − 1", (None, None, both.var(ddof=1))),
        Known(
            "the two means count alike; a longer chunk must count more",
            (None, (a.mean() + b.mean()) / 2 if na and nb else None, None),
        ),
        Known(
            "the variances are simply added", (None, None, a.var() + b.var() if na and nb else None)
        ),
        Known(
            "the term between the chunks is counted with n_a·n_b/n, and not divided by n",
            (None, None, within + gap * na * nb / n),
        ),
    ]

    def slips() -> Iterator[Known]:
        """The three sums, each with one of its terms changed."""
        if not na or not nb:
            return
        long = "each chunk's mean is weighed with the other chunk's length"
        yield Known(long, (None, (nb * a.mean() + na * b.mean()) / n, None))
        inside = {
            "the variances inside the chunks count alike; a longer chunk must count more": (
                (a.var() + b.var()) / 2
            ),
            "the variances inside the chunks are weighed with n − 1": (
                ((na - 1) * a.var() + (nb - 1) * b.var()) / (n - 2)
            ),
            "the squares of the means are added to the variances, and the square of the whole "
            "mean is not taken away": within + (na * a.mean() ** 2 + nb * b.mean() ** 2) / n - gap
            * na * nb / n**2,
        }  # fmt: skip
        share = na * nb / n**2
        between = {
            "the gap of the means is not squared": share * abs(a.mean() - b.mean()),
            "the means are added where their difference belongs": share
            * (a.mean() + b.mean()) ** 2,
            "the squared gap is weighed with ¼, which is right only for chunks alike": gap / 4,
            "the squared gap counts whole; it must be weighed": gap,
        }
        names = {"the variance inside the chunks": within, "the gap of the means": share * gap}
        instead = dict(zip(names, (inside, between), strict=True))
        yield from term_slips(names, instead, before=2)

    if not na or not nb:
        arguments = _merge_arguments(both, both)
        empty = [np.asarray(v) for v in (0, 0.0, 0.0)]
        arguments = [*arguments[:3], *empty] if na else [*empty, *arguments[3:]]
        known = []
    else:
        arguments = _merge_arguments(a, b)
    names = ("n", "mean", "variance")
    value = answer(*(float(v) for v in arguments))
    right = (float(n), both.mean(), both.var())
    compare(value, right, names, known, tolerance=tolerance, slips=slips)


def _merge_values(answer: Any, rng: Rng) -> None:
    _compare_merge(answer, *_chunks(rng, 3.0, *sizes(rng, (4, 9), (10, 30))))


def _merge_empty(answer: Any, rng: Rng) -> None:
    full, none = rng.normal(2.0, 1.5, 7), np.zeros(0)
    _compare_merge(answer, none, full)
    _compare_merge(answer, full, none)


def _merge_far(answer: Any, rng: Rng) -> None:
    try:
        _compare_merge(answer, *_chunks(rng, 1e8, 40, 25), tolerance=1e-6)
    except Mistake as mistake:
        raise Mistake(
            "the numbers lie near 100 000 000 and have a variance of a few units. E[x²] − E[x]² "
            f"cannot tell it: it subtracts two numbers near 10¹⁶. {mistake}",
            known=True,
        ) from None


def _failing(answer: Any, rng: Rng) -> None:
    (x,) = outputs_of(answer(), ("the input",))
    values = x.values
    if x.dtype != "float32":
        raise Mistake(f"the input must be float32; it is {x.dtype}")
    if values.ndim != 1 or not 100 <= values.size <= 1_000_000:
        raise Mistake(f"one axis with 100 to 1 000 000 entries; it has shape {values.shape}")
    if not np.isfinite(values).all():
        raise Mistake("all entries must be finite")
    truth = float(values.astype(np.float64).var())
    if truth < 0.01:
        raise Mistake(
            "its variance is below 0.01. A constant input is no failure worth showing: let the "
            "entries vary",
            known=True,
        )
    one_pass = float(np.mean(values * values) - np.mean(values) ** 2)
    two_pass = float(np.mean((values - values.mean()) ** 2))
    if not abs(two_pass - truth) < 0.02 * truth:
        raise Mistake("two passes fail on it as well; take less extreme numbers", known=True)
    if abs(one_pass - truth) < 0.5 * truth:
        raise Mistake(
            "one pass gets this one right to within a half. When do E[x²] and E[x]² have all "
            "their leading digits in common?"
        )


# --- GroupNorm with one group ---------------------------------------------------------------------


def _compare_group(
    answer: Any, shape: tuple[int, ...], rng: Rng, dtype: str = "float64", tolerance: float = 1e-8
) -> None:
    _, channels, length = shape
    x, weight = normal(rng, *shape).astype(dtype), weights(rng, channels).astype(dtype)
    bias, eps = normal(rng, channels).astype(dtype), 1e-3
    wide = [a.astype(np.float64) for a in (x, weight, bias)]
    right = norms.group_norm(*wide, num_groups=1, eps=eps)[0]

    def with_axes(axes: tuple[int, ...]) -> np.ndarray:
        normed = _norm_over(axes, eps=eps)(wide[0])
        return normed * wide[1][:, None] + wide[2][:, None]

    along_length = None
    if channels == length:
        along_length = _norm_over((1, 2), eps=eps)(wide[0]) * wide[1] + wide[2]
    known = [
        Known(
            "each position has its own statistics: that is LayerNorm over the channels",
            (with_axes((1,)),),
        ),
        Known("each channel has its own statistics: that is InstanceNorm", (with_axes((2,)),)),
        Known("the examples share statistics; each must have its own", (with_axes((0, 1, 2)),)),
        Known("that is BatchNorm: a statistic for each channel", (with_axes((0, 2)),)),
        Known("γ and β lie along the positions; there is one for each channel", (along_length,)),
        Known("γ and β are missing", (_norm_over((1, 2), eps=eps)(wide[0]),)),
    ]
    value = answer(x, weight, bias, eps)

    def slips() -> Any:
        return norm_slips(wide[0], wide[1][:, None], wide[2][:, None], eps, (1, 2))

    compare(value, (right,), ("y",), known, tolerance=tolerance, dtype=dtype, slips=slips)


def _group_values(answer: Any, rng: Rng) -> None:
    _compare_group(answer, sizes(rng, (2, 4), (3, 6), (5, 9)), rng)


def _group_square(answer: Any, rng: Rng) -> None:
    _compare_group(answer, (3, 5, 5), rng)


def _group_float32(answer: Any, rng: Rng) -> None:
    _compare_group(answer, (2, 4, 6), rng, "float32", 1e-5)


# --- a divisor ------------------------------------------------------------------------------------


def _compare_layer_norm(
    answer: Any, x: np.ndarray, rng: Rng, *, eps: float = 1e-5, **how: Any
) -> None:
    features = x.shape[-1]
    weight, bias = weights(rng, features), normal(rng, features)
    right = layer_norm(x.astype(np.float64), weight, bias, eps)
    known = []
    if features > 1:
        wide = x.astype(np.float64)
        mean, spread = wide.mean(-1, keepdims=True), wide.std(-1, ddof=1, keepdims=True)
        outside = (wide - mean) / (wide.std(-1, keepdims=True) + eps) * weight + bias
        known = [
            Known(
                "your variance divides by n − 1. A norm uses the variance of these n numbers, "
                "not an estimate for a larger population",
                ((wide - mean) / np.sqrt(spread**2 + eps) * weight + bias,),
                handed_out=True,
            ),
            Known(
                "your variance divides by n − 1, and ε stands outside the root",
                ((wide - mean) / (spread + eps) * weight + bias,),
            ),
            Known("ε stands outside the root", (outside,)),
            Known(
                "the square stands where the root belongs",
                ((wide - mean) / (wide.var(-1, keepdims=True) + eps) ** 2 * weight + bias,),
            ),
            Known(
                "it multiplies by the deviation: dividing by an inverse root is that",
                ((wide - mean) * np.sqrt(wide.var(-1, keepdims=True) + eps) * weight + bias,),
            ),
            Known(
                "the statistics run over the positions; each token has its own",
                (_norm_over((-2,), eps=eps)(wide) * weight + bias,),
            ),
            Known("γ and β are missing", (_norm_over((-1,), eps=eps)(wide),)),
        ]

    def slips() -> Any:
        return norm_slips(x.astype(np.float64), weight, bias, eps, (-1,))

    value = answer(x, weight.astype(x.dtype), bias.astype(x.dtype), eps)
    compare(value, (right,), ("y",), known, slips=slips, **how)


def _divisor_values(answer: Any, rng: Rng) -> None:
    _compare_layer_norm(answer, normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 8))), rng, eps=0.05)


def _divisor_single(answer: Any, rng: Rng) -> None:
    _compare_layer_norm(answer, normal(rng, 2, 3, 1), rng)


def _divisor_far(answer: Any, rng: Rng) -> None:
    x = (10_000 + normal(rng, 2, 3, 64)).astype(np.float32)
    _compare_layer_norm(answer, x, rng, tolerance=2e-3)


TASKS = (
    Task(
        "02.1",
        "predict",
        "The largest output",
        "prediction_02_1",
        1,
        (Check("prediction", _largest),),
    ),
    Task(
        "02.2",
        "implement",
        "LayerNorm's backward in one line",
        "layer_norm_dx",
        4,
        (
            Check("gradients", _dx_values, first=True),
            Check("edge case: a single token", _dx_plain),
            Check("numerics: a token of small numbers", _dx_scale),
            Check("dtypes: float32", _dx_float32),
        ),
    ),
    Task(
        "02.3",
        "implement",
        "Two chunks, one variance",
        "merge_moments",
        3,
        (
            Check("values", _merge_values, first=True),
            Check("edge case: an empty chunk", _merge_empty),
            Check("numerics: far from zero", _merge_far),
        ),
    ),
    Task(
        "02.4",
        "implement",
        "Break the one-pass variance",
        "failing_input",
        2,
        (Check("a failure", _failing, first=True),),
    ),
    Task(
        "02.5",
        "implement",
        "GroupNorm with one group",
        "group_norm_one",
        3,
        (
            Check("values", _group_values, first=True),
            Check("edge case: as many positions as channels", _group_square),
            Check("dtypes: float32", _group_float32),
        ),
    ),
    Task(
        "02.6",
        "repair",
        "A LayerNorm that is a little too small",
        "layer_norm",
        3,
        (
            Check("values", _divisor_values, first=True),
            Check("edge case: one feature", _divisor_single),
            Check("numerics: float32 far from zero", _divisor_far),
        ),
    ),
    Task("02.7", "explain", "Which norm is this?", "explanation_02_7", 2),
)
