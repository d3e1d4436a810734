"""Coursework on RMSNorm: where ε stands, and half precision."""

from typing import Any

import numpy as np

from normtutor import norms
from normtutor.grading.judging import Check, Known, Mistake, Task, compare, prediction
from normtutor.grading.references import normal, rms_norm, sizes, weights
from normtutor.grading.slips import norm_slips

Rng = np.random.Generator


def _small_token(answer: Any, rng: Rng) -> None:
    x = np.full(16, 1e-3)
    truth = float(rms_norm(x, eps=1e-6)[0])
    known = [
        (1e-3 / (1e-3 + 1e-6), "that is ε outside the root, where it would not matter here"),
        (1.0, "that is the answer for a large token; compare ψ² with ε"),
        (0.5, "ψ² and ε are equal, so the sum doubles; a root is still to be taken"),
        (np.sqrt(2), "the sum under the root doubles, and the norm divides by the root"),
    ]
    prediction(answer(), truth, known, 0.004)


def _outside(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    # pRMSNorm with p = 1 has ε outside.
    return norms.partial_rms_norm(x, weight, p=1.0, eps=eps)[0]


def _compare_outside(
    answer: Any, x: np.ndarray, rng: Rng, *, eps: float = 0.05, **how: Any
) -> None:
    weight = weights(rng, x.shape[-1])
    wide = x.astype(np.float64)
    rounded = weight.astype(x.dtype).astype(np.float64)
    right = _outside(wide, rounded, eps)
    mean = wide.mean(-1, keepdims=True)
    length = np.sqrt((wide**2).sum(-1, keepdims=True))
    known = [
        Known("ε stands inside the root", (rms_norm(wide, rounded, eps),)),
        Known("the mean is taken away; RMSNorm keeps it", (_outside(wide - mean, rounded, eps),)),
        Known(
            "you divide by the length of the token, not by the root of the mean of its squares",
            (wide / (length + eps) * rounded,),
        ),
        Known("γ is missing", (_outside(wide, np.ones_like(weight), eps),)),
        Known(
            "the tokens share a statistic; each must have its own",
            (wide / (np.sqrt((wide**2).mean()) + eps) * rounded,),
        ),
        Known(
            "the tokens of a sequence share a statistic; each must have its own",
            (wide / (np.sqrt((wide**2).mean((-2, -1), keepdims=True)) + eps) * rounded,),
        ),
        Known("ε is missing", (_outside(wide, rounded, 0.0),)),
        Known(
            "the variance stands where the mean of the squares belongs",
            (wide / (wide.std(-1, keepdims=True) + eps) * rounded,),
        ),
    ]

    def slips() -> Any:
        return norm_slips(wide, rounded, 0.0, eps, (-1,), centred=False, inside=False)

    compare(answer(x, weight.astype(x.dtype), eps), (right,), ("y",), known, slips=slips, **how)


def _outside_values(answer: Any, rng: Rng) -> None:
    x = normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 9)), scale=0.3)
    # A statistic in float32, whatever x is, is common practice.
    _compare_outside(answer, x, rng, tolerance=1e-6)


def _outside_zero(answer: Any, rng: Rng) -> None:
    x = normal(rng, 2, 3, 5)
    x[1, 2] = 0.0
    _compare_outside(answer, x, rng, eps=1e-8, tolerance=1e-6)


def _outside_half(answer: Any, rng: Rng) -> None:
    x = (400 * normal(rng, 2, 3, 8)).astype(np.float16)
    x[0, 0] = 0.0
    try:
        _compare_outside(answer, x, rng, eps=1e-8, tolerance=4e-3, dtype="float16")
    except Mistake as mistake:
        words = str(mistake)
        if "float16" not in words:
            words = (
                "in float16 the square of 300 is infinite, and 1e-8 is zero. Take the statistic in "
                f"float32 and return float16. {words}"
            )
        raise Mistake(words, known=True) from None


def _reached(norm: Any, eps: float, level: float) -> float:
    """The ψ at which a norm's output reaches ``level``, by halving an interval of log ψ."""
    low, high = -12.0, 2.0
    for _ in range(60):
        middle = (low + high) / 2
        reached = norm(np.full((1, 4), 10.0**middle), np.ones(4), eps)[0, 0] >= level
        low, high = (low, middle) if reached else (middle, high)
    return 10.0**high


def _matters(answer: Any, rng: Rng) -> None:
    for _ in range(3):
        eps, share = 10.0 ** rng.uniform(-8, -4), rng.uniform(0.05, 0.4)
        truth = _reached(_outside, eps, 1 - share)
        inside = _reached(rms_norm, eps, 1 - share)
        exchanged = _reached(_outside, eps, share)
        known = [
            Known("that is the answer for ε inside the root", (inside,)),
            Known(
                "close: the share that is missing is ε/(ψ + ε), not ε/ψ. Which of the two did you "
                "solve?",
                (eps / share,),
            ),
            Known("share and 1 − share are exchanged", (exchanged,)),
            Known("ψ is a root mean square and cannot be negative", (-truth,)),
            Known("share is a fraction: 1 % comes in as 0.01", (eps * (100 - share) / share,)),
            Known("there is a root too many: ψ itself stands beside ε here", (truth**0.5,)),
            *(
                Known(
                    "solve ψ/(ψ + ε) = 1 − share for ψ, with both fractions in it: your formula "
                    "holds only one of the two steps",
                    (value,),
                )
                for value in (
                    eps * share, eps * (1 - share), eps / (1 - share), (eps / share) ** 0.5,
                    eps * (1 + share) / share, (1 - share) / share, share / eps,
                )
            ),
        ]  # fmt: skip
        compare(answer(eps, share), (truth,), ("psi",), known, tolerance=1e-6)


def _compare_inside(answer: Any, x: np.ndarray, rng: Rng, *, eps: float = 0.02, **how: Any) -> None:
    weight = weights(rng, x.shape[-1])
    wide = x.astype(np.float64)
    square = (wide**2).mean(-1, keepdims=True)
    known = [Known("ε stands outside the root", (_outside(wide, weight, eps),))]
    if (square > 0).all():
        plain = wide / np.sqrt(square)
        known += [
            Known(
                "ε is added after the division: it shifts every output and protects nothing",
                ((plain + eps) * weight,),
            ),
            Known(
                "ε is added to 1/ψ, behind the root: the root can still be zero, and where it is "
                "not the scale is off by ε",
                (wide * (1 / np.sqrt(square) + eps) * weight,),
                handed_out=True,
            ),
            Known(
                "you multiply by the root mean square; a norm divides by it",
                (wide * np.sqrt(square + eps) * weight,),
            ),
            Known(
                "ε is added after the division: it shifts every output and protects nothing",
                (plain * weight + eps,),
            ),
            Known("ε is gone altogether; a token of zeros is now 0/0", (plain * weight,)),
            Known("ε is squared; add ε itself", (wide / np.sqrt(square + eps**2) * weight,)),
        ]
    right = rms_norm(wide, weight, eps)
    arguments = [a.astype(x.dtype) for a in (x, weight)]

    def slips() -> Any:
        return norm_slips(wide, weight, 0.0, eps, (-1,), centred=False)

    compare(answer(*arguments, eps), (right,), ("y",), known, slips=slips, **how)


def _inside_values(answer: Any, rng: Rng) -> None:
    _compare_inside(answer, normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 9)), scale=0.5), rng)


def _inside_zero(answer: Any, rng: Rng) -> None:
    x = normal(rng, 2, 3, 5)
    x[1, 2] = 0.0
    _compare_inside(answer, x, rng)


def _inside_small(answer: Any, rng: Rng) -> None:
    _compare_inside(answer, 1e-3 * normal(rng, 2, 3, 8), rng, eps=1e-6)


def _compare_half(answer: Any, scale: float, rng: Rng) -> None:
    x = (scale * rng.normal(0.2, 1.0, (3, 4, 64))).astype(np.float16)
    weight = weights(rng, 64).astype(np.float16)
    eps = 1e-6
    right = rms_norm(x.astype(np.float64), weight.astype(np.float64), eps)
    with np.errstate(all="ignore"):
        square = np.mean(x * x, axis=-1, keepdims=True)
        naive = x / np.sqrt(square + np.float16(eps)) * weight
    narrow = (
        "the statistic is taken in float16: squares above 65504 are infinite, and x divided by "
        "infinity is zero; squares below 6e-8 are zero"
    )
    value = answer(x, weight, eps)
    known = [] if close_enough(naive, right) else [Known(narrow, (naive,), handed_out=True)]
    try:
        compare(value, (right,), ("y",), known, tolerance=4e-3, dtype="float16")
    except Mistake as mistake:
        zero_or_broken = "zero everywhere" in str(mistake) or "NaN" in str(mistake)
        if zero_or_broken and scale > 100:
            raise Mistake(narrow, known=True, symptom=str(mistake)) from None
        raise


def close_enough(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two half-precision results agree as well as they can."""
    return bool(np.isfinite(a).all() and np.abs(a - b).max() <= 4e-3 * np.abs(b).max())


def _half_large(answer: Any, rng: Rng) -> None:
    _compare_half(answer, 2000.0, rng)


def _half_ordinary(answer: Any, rng: Rng) -> None:
    _compare_half(answer, 1.0, rng)


def _half_small(answer: Any, rng: Rng) -> None:
    _compare_half(answer, 1e-4, rng)


TASKS = (
    Task(
        "05.1",
        "predict",
        "A small token",
        "prediction_05_1",
        1,
        (Check("prediction", _small_token),),
    ),
    Task(
        "05.2",
        "implement",
        "RMSNorm with ε outside the root",
        "rms_norm_outside",
        3,
        (
            Check("values", _outside_values, first=True),
            Check("edge case: a token of zeros", _outside_zero),
            Check("numerics: float16", _outside_half),
        ),
    ),
    Task(
        "05.3",
        "implement",
        "When does it matter?",
        "where_it_matters",
        2,
        (Check("values", _matters, first=True),),
    ),
    Task(
        "05.4",
        "repair",
        "An ε that protects nothing",
        "rms_norm",
        3,
        (
            Check("values", _inside_values, first=True),
            Check("edge case: a token of zeros", _inside_zero),
            Check("numerics: small tokens", _inside_small),
        ),
    ),
    Task(
        "05.5",
        "repair",
        "Large activations in half precision",
        "rms_norm_half",
        3,
        (
            Check("numerics: large activations", _half_large, first=True),
            Check("values: ordinary activations", _half_ordinary),
            Check("numerics: small activations", _half_small),
        ),
    ),
    Task("05.6", "explain", "What is lost without the mean?", "explanation_05_6", 2),
)
