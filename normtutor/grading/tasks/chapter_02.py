"""Coursework on the family of norms: axes, divisors, one pass and two."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from normtutor.grading.judging import (
    Check,
    Mistake,
    Task,
    blamed,
    compare,
    outputs_of,
    prediction,
)
from normtutor.grading.references import (
    EXACT,
    compare_norm,
    faint,
    gradients,
    layer_norm,
    normal,
    sizes,
)
from normtutor.grading.slips import NORM, Formula
from normtutor.norms.normalize import normalize

Rng = np.random.Generator


def _largest(answer: Any, rng: Rng, features: int = 101) -> None:
    x = np.zeros(features)
    x[0] = 1.0
    truth = float(layer_norm(x, eps=1e-300).max())
    known = [
        (np.sqrt(features), "that is the length of the whole output; can one entry be all of it?"),
        (features, "the length of the output grows like the root of the number of features"),
        (features - 1, "the length of the output grows like the root of the number of features"),
        (
            (features - 1) / np.sqrt(features),
            "that is with the variance that divides by n − 1; a norm divides by n",
        ),
        (1, "LayerNorm has variance 1, not maximum 1: look at a token with one large entry"),
    ]
    prediction(answer(), truth, known, 0.002)


# --- LayerNorm's backward in one line -------------------------------------------------------------


DX = Formula(
    """
    through_mean = mean(g)
    through_variance = x_hat * mean(g * x_hat)
    grad_x = inverse * (g - through_mean - through_variance)
    """,
    said={
        "through_mean": "the path through the mean",
        "through_variance": "the path through the variance",
    },
    alike=("g x_hat",),
    more={
        "the path through the mean is missing": "through_mean = 0",
        "the path through the variance is missing. (The mean of g·x̂ is not the product of the two "
        "means: that of x̂ is 0.)": "through_variance = 0",
        "mean and variance are taken as constants; both depend on x": "grad_x = inverse * g",
        "a 1 stands where the mean of g belongs": "through_mean = 1",
        "the means run over the batch; LayerNorm's statistics belong to one token": "axes = (0, 1)",
        "the means run over a whole sequence; LayerNorm's statistics belong to one token":
            "axes = (1, 2)",
        "1/√(σ² + ε) multiplies three times; x̂ depends on x through it once":
            "grad_x = inverse ** 3 * (g - through_mean - through_variance)",
        "sums stand where means belong":
            "grad_x = inverse * (g - total(g, axes) - x_hat * total(g * x_hat, axes))",
        "one of the two paths has the wrong sign: both are subtracted":
            "grad_x = inverse * (g + through_mean + through_variance)",
    },
)  # fmt: skip


def _compare_dx(answer: Any, x: np.ndarray, g: np.ndarray, eps: float = 1e-5, **how: Any) -> None:
    wide = x.astype(np.float64)
    inverse = 1 / np.sqrt(wide.var(-1, keepdims=True) + eps)
    x_hat = layer_norm(wide, eps=eps)
    right = gradients(lambda x: layer_norm(x, eps=eps), (wide,), (g,))
    value = answer(*(a.astype(x.dtype) for a in (g, x_hat, inverse)))
    slips = DX.known("grad_x", g=g, x_hat=x_hat, inverse=inverse)
    compare(value, right, ("grad_x",), slips=slips, **how)


def _dx_values(answer: Any, rng: Rng) -> None:
    shape = sizes(rng, (2, 4), (3, 6), (5, 9))
    _compare_dx(answer, normal(rng, *shape), normal(rng, *shape), tolerance=EXACT)


def _dx_plain(answer: Any, rng: Rng) -> None:
    shape = (1, 1, int(rng.integers(3, 7)))
    _compare_dx(answer, normal(rng, *shape), normal(rng, *shape))


def _dx_float32(answer: Any, rng: Rng) -> None:
    x, g = normal(rng, 2, 3, 8).astype(np.float32), normal(rng, 2, 3, 8).astype(np.float32)
    _compare_dx(answer, x, g, tolerance=2e-5, dtype="float32")


# --- one pass -------------------------------------------------------------------------------------

MERGED = Formula(
    """
    n = n_a + n_b
    mean = (n_a * mean_a + n_b * mean_b) / n
    within = (n_a * var_a + n_b * var_b) / n
    gap = mean_a - mean_b
    between = n_a * n_b * gap ** 2 / n ** 2
    variance = within + between
    or
    n = n_a + n_b
    mean = (n_a * mean_a + n_b * mean_b) / n
    within = (n_a * var_a + n_b * var_b) / n
    gap = mean_a - mean_b
    between = (n_a * (mean_a - mean) ** 2 + n_b * (mean_b - mean) ** 2) / n
    variance = within + between
    """,
    said={
        "n_a": "n_a", "mean": "the mean", "within": "the variance inside the chunks",
        "between": "the variance between the chunks", "gap": "the gap of the means",
        "variance": "the variance",
    },
    alike=("n_a n_b", "mean_a mean_b mean", "var_a var_b"),
    more={
        "only the variances inside the chunks are there; the chunks' means differ, too":
            "variance = within",
        "the two means count alike; a longer chunk must count more": "mean = (mean_a + mean_b) / 2",
        "both chunks count alike; a longer one must count more":
            "mean = (mean_a + mean_b) / 2; variance = (var_a + var_b) / 2 + gap ** 2 / 4",
        "each mean is weighed by the other chunk's number":
            "mean = (n_b * mean_a + n_a * mean_b) / n",
        "each variance is weighed by the other chunk's number":
            "within = (n_b * var_a + n_a * var_b) / n",
        "from mean_a it steps away from mean_b, not towards it":
            "mean = mean_a - (mean_b - mean_a) * n_b / n",
        "the variances inside the chunks count alike; a longer chunk must count more":
            "within = (var_a + var_b) / 2",
        "that is the standard deviation; the variance is asked for":
            "variance = root(within + between)",
        "the variances are simply added": "variance = var_a + var_b",
        "the two variances are added; the variance inside is their average, weighed by the numbers":
            "within = var_a + var_b",
        "that is the unbiased variance: it divides by n − 1":
            "variance = (n_a * var_a + n_b * var_b + n_a * n_b * gap ** 2 / n) / (n - 1)",
        "the variances inside the chunks are weighed with n − 1":
            "within = ((n_a - 1) * var_a + (n_b - 1) * var_b) / (n - 2)",
        "the sum of squares is not divided by n":
            "variance = n_a * var_a + n_b * var_b + n_a * n_b * gap ** 2 / n",
        "the variance between the chunks is not divided by n once more":
            "between = n_a * n_b * gap ** 2 / n",
        "the variance between the chunks counts the gap to the common mean for chunk a alone":
            "between = n_a * (mean_a - mean) ** 2 / n",
        "the variance between the chunks counts the gap to the common mean for chunk b alone":
            "between = n_b * (mean_b - mean) ** 2 / n",
        "the square of the common mean is not subtracted from the mean of the squares":
            "variance = within + (n_a * mean_a ** 2 + n_b * mean_b ** 2) / n",
        "the gap of the means counts a quarter, which is right only for chunks alike":
            "between = gap ** 2 / 4",
        "the gap of the means is squared and not weighed": "between = gap ** 2",
    },
)  # fmt: skip


def _compare_merge(answer: Any, a: np.ndarray, b: np.ndarray, tolerance: float = 1e-9) -> None:
    both = np.concatenate([a, b])
    given = {}
    for name, chunk in (("a", a), ("b", b)):
        there = chunk if len(chunk) else np.zeros(1)
        given[f"n_{name}"] = float(len(chunk))
        given |= {f"mean_{name}": float(there.mean()), f"var_{name}": float(there.var())}
    names = ("n", "mean", "variance")
    slips = MERGED.known(*names, **given)
    right = (float(len(both)), both.mean(), both.var())
    compare(answer(*given.values()), right, names, tolerance=tolerance, slips=slips)


def _chunks(rng: Rng, mean: float, short: int, long: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(mean, 1.5, short), rng.normal(mean + 2.0, 1.5, long)


def _merge_values(answer: Any, rng: Rng) -> None:
    _compare_merge(answer, *_chunks(rng, 3.0, *sizes(rng, (4, 9), (10, 30))))


def _merge_empty(answer: Any, rng: Rng) -> None:
    full, none = rng.normal(2.0, 1.5, 7), np.zeros(0)
    _compare_merge(answer, none, full)
    _compare_merge(answer, full, none)


def _merge_far(answer: Any, rng: Rng) -> None:
    blamed(
        "it is right near zero, and not where numbers near 100 000 000 have a variance of a few "
        "units: digits are lost, as in E[x²] − E[x]², which subtracts two numbers near 10¹⁶",
        lambda: _compare_merge(answer, *_chunks(rng, 1e8, 40, 25), tolerance=1e-6),
        lambda: _merge_values(answer, rng),
    )


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
        if truth == 0:
            raise Mistake("its entries are all the same; a constant input is no failure")
        raise Mistake(f"its variance is {truth:.1e} and must be 0.01: spread its entries further")
    one_pass = float(np.mean(values * values) - np.mean(values) ** 2)
    two_pass = float(np.mean((values - values.mean()) ** 2))
    if not abs(two_pass - truth) < 0.02 * truth:
        raise Mistake("two passes fail on it as well; take less extreme numbers")
    if abs(one_pass - truth) < 0.5 * truth:
        raise Mistake(
            "one pass gets this one right to within a half. When do E[x²] and E[x]² have all "
            "their leading digits in common?"
        )


# --- which norm was it ----------------------------------------------------------------------------

AXES = ("sequences", "positions", "features")
CHOICES = [
    (axes, centred)
    for size in (1, 2, 3)
    for axes in itertools.combinations(range(3), size)
    for centred in (True, False)
]


def _compare_choices(answer: Any, rng: Rng, dtype: str = "float64") -> None:
    """Ask about every norm there is, in an order of its own."""
    for axes, centred in (CHOICES[i] for i in rng.permutation(len(CHOICES))):
        x = normal(rng, *sizes(rng, (3, 4), (5, 6), (7, 8))).astype(dtype)
        y = normalize(x, axes, centred=centred)[0].astype(dtype, copy=False)
        (got,) = outputs_of(answer(x, y), ("the answer",))
        right = [*(float(axis in axes) for axis in range(3)), float(centred)]
        if got.values.shape != (4,) or not np.isin(got.values, (0, 1)).all():
            raise Mistake("four numbers, each 1 or 0; it returned something else")
        said = got.values.astype(float).tolist()
        if said == right:
            continue
        over = " and ".join(AXES[axis] for axis in axes)
        norm = f"a norm over {over}, {'a' if centred else 'no'} mean subtracted"
        if said[:3] == right[:3]:
            words = "the axes are right; whether a mean is subtracted is not"
        elif not any(said[:3]):
            words = "it finds no axes"
        else:
            words = f"it says {' and '.join(a for a, s in zip(AXES, said, strict=False) if s)}"
        raise Mistake(f"given {norm}: {words}")


def _choices_float32(answer: Any, rng: Rng) -> None:
    blamed(
        "it is right in float64 and not in float32, where y is right to six digits only, and near "
        "zero to none: ask whether the arrays differ by less than some 0.001",
        lambda: _compare_choices(answer, rng, "float32"),
        lambda: _compare_choices(answer, rng),
    )


# --- a divisor ------------------------------------------------------------------------------------

UNBIASED = (
    "your variance divides by n − 1. A norm uses the variance of these n numbers, "
    "not an estimate for a larger population"
)
DIVISOR = replace(
    NORM, more={UNBIASED: "var = mean((x - mu) ** 2, less=1)", **NORM.more}, handed_out=UNBIASED
)


def _compare_layer_norm(
    answer: Any, x: np.ndarray, rng: Rng, *, eps: float = 1e-5, **how: Any
) -> None:
    compare_norm(answer, x, rng, layer_norm, DIVISOR, eps, **how)


def _divisor_values(answer: Any, rng: Rng) -> None:
    x = faint(normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 8))))
    _compare_layer_norm(answer, x, rng, eps=0.05)


TASKS = (
    Task("02.1", "predict", "The largest output", "prediction_02_1", 1,
         (Check("prediction", _largest),), numbers={"features": range(30, 500)}),
    Task("02.2", "implement", "LayerNorm's backward in one line", "layer_norm_dx", 4, (
        Check("gradients", _dx_values, first=True),
        Check("edge case: a single token", _dx_plain),
        Check("numerics: a token of small numbers", lambda answer, rng: _compare_dx(
            answer, 1e-4 * normal(rng, 2, 3, 8), normal(rng, 2, 3, 8))),
        Check("dtypes: float32", _dx_float32),
    )),
    Task("02.3", "implement", "Two chunks, one variance", "merge_moments", 3, (
        Check("values", _merge_values, first=True),
        Check("edge case: an empty chunk", _merge_empty),
        Check("numerics: far from zero", _merge_far),
    )),
    Task("02.4", "implement", "Break the one-pass variance", "failing_input", 2,
         (Check("a failure", _failing, first=True),)),
    Task("02.5", "implement", "Which norm was it?", "which_norm", 3, (
        Check("values", _compare_choices, first=True),
        Check("dtypes: float32", _choices_float32),
    )),
    Task("02.6", "repair", "A LayerNorm for somebody else's model", "layer_norm", 3, (
        Check("values", _divisor_values, first=True),
        Check("edge case: one feature", lambda answer, rng: _compare_layer_norm(
            answer, normal(rng, 2, 3, 1), rng)),
        Check("numerics: float32 far from zero", lambda answer, rng: _compare_layer_norm(
            answer, (10_000 + normal(rng, 2, 3, 64)).astype(np.float32), rng, tolerance=2e-3)),
    )),
    Task("02.7", "explain", "Which norm is this?", "explanation_02_7", 2),
)  # fmt: skip
