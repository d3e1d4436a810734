"""Coursework on RMSNorm: where ε stands, and half precision."""

from dataclasses import replace
from typing import Any

import numpy as np

from normtutor import norms
from normtutor.grading.judging import Check, Task, blamed, compare, prediction
from normtutor.grading.references import faint, normal, rms_norm, sizes, weights
from normtutor.grading.slips import RMS, Formula

Rng = np.random.Generator


def _small_token(answer: Any, rng: Rng, size: float = 1e-3) -> None:
    x = np.full(16, size)
    truth = float(rms_norm(x, eps=1e-6)[0])
    known = [
        (size / (size + 1e-6), "that is ε outside the root, where it would not matter here"),
        (1.0, "that is the answer for a large token; compare ψ² with ε"),
        (truth**2, "of the sum of ψ² and ε a root is still to be taken"),
        (1 / truth, "the norm divides by the root"),
    ]
    prediction(answer(), truth, known, 0.004)


OUTSIDE = replace(
    RMS,
    text="""
    psi_squared = mean(x ** 2)
    y = x / (root(psi_squared) + eps) * weight
    """,
    more={
        **RMS.more,
        "ε stands inside the root": "y = x / root(psi_squared + eps) * weight",
        "you divide by the length of the token, not by the root of the mean of its squares":
            "psi_squared = total(x ** 2, axes)",
        "the tokens share a statistic; each must have its own": "axes = (0, 1, 2)",
        "the tokens of a sequence share a statistic; each must have its own": "axes = (1, 2)",
    },
)  # fmt: skip


def _compare_outside(
    answer: Any, x: np.ndarray, rng: Rng, *, eps: float = 0.05, **how: Any
) -> None:
    weight = weights(rng, x.shape[-1]).astype(x.dtype)
    wide, rounded = x.astype(np.float64), weight.astype(np.float64)
    # pRMSNorm with p = 1 has ε outside.
    right = norms.partial_rms_norm(wide, rounded, p=1.0, eps=eps)[0]
    slips = OUTSIDE.known("y", x=wide, weight=rounded, eps=eps)
    compare(answer(x, weight, eps), (right,), ("y",), slips=slips, **how)


def _outside_values(answer: Any, rng: Rng) -> None:
    x = faint(normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 9)), scale=0.3))
    # A statistic in float32, whatever x is, is common practice.
    _compare_outside(answer, x, rng, tolerance=1e-6, dtype="float64")


def _outside_zero(answer: Any, rng: Rng) -> None:
    x = normal(rng, 2, 3, 5)
    x[1, 2] = 0.0
    _compare_outside(answer, x, rng, eps=1e-8, tolerance=1e-6)


def _outside_half(answer: Any, rng: Rng) -> None:
    x = (400 * normal(rng, 2, 3, 8)).astype(np.float16)
    x[0, 0] = 0.0
    blamed(
        "it is right in float32. In float16 the square of 300 is infinite, and 1e-8 is zero. Take "
        "the statistic in float32 and return float16",
        lambda: _compare_outside(answer, x, rng, eps=1e-8, tolerance=4e-3, dtype="float16"),
        lambda: _compare_outside(answer, x.astype(np.float32), rng, eps=1e-8, tolerance=4e-3),
    )


SHARE = Formula(
    "psi = eps * (1 - share) / share",
    said={"psi": "ψ"},
    more={
        "that is the answer for ε inside the root":
            "psi = root(eps) * (1 - share) / root(1 - (1 - share) ** 2)",
        "close: the share that is missing is ε/(ψ + ε), not ε/ψ. Which of the two did you solve?":
            "psi = eps / share",
        "the larger the share, the smaller ψ must be; this one grows": "psi = eps * share",
        "share and 1 − share are exchanged": "share = 1 - share",
        "ψ is a root mean square and cannot be negative": "psi = -eps * (1 - share) / share",
        "share is a fraction: 1 % comes in as 0.01": "share = share / 100",
        "there is a root too many: ψ itself stands beside ε here":
            "psi = root(eps * (1 - share) / share)",
    },
)  # fmt: skip


def _matters(answer: Any, rng: Rng) -> None:
    for _ in range(3):
        eps, share = 10.0 ** rng.uniform(-8, -4), rng.uniform(0.05, 0.4)
        low, high = 0.0, 1.0  # ψ/(ψ + ε) grows with ψ
        for _ in range(200):
            psi = (low + high) / 2
            y = norms.partial_rms_norm(np.full((1, 4), psi), None, p=1.0, eps=eps)[0][0, 0]
            low, high = (low, psi) if y >= 1 - share else (psi, high)
        slips = SHARE.known("psi", eps=eps, share=share)
        compare(answer(eps, share), (high,), ("psi",), slips=slips, tolerance=1e-6)


UNPROTECTED = (
    "ε is added to 1/ψ, behind the root: the root can still be zero, and where it is not the scale "
    "is off by ε"
)
INSIDE = replace(
    RMS,
    more={
        UNPROTECTED: "y = x * (1 / root(psi_squared) + eps) * weight",
        **RMS.more,
        "ε is gone: nothing is added inside the root": "y = x / root(psi_squared) * weight",
        "ε is added to x, and not to the mean of its squares":
            "y = (x + eps) / root(mean((x + eps) ** 2)) * weight",
        "ε is added to x before it is squared, and not to the mean of the squares":
            "y = x / root(mean((x + eps) ** 2)) * weight",
        "ε is inside the root and outside once more":
            "y = x / (root(psi_squared + eps) + eps) * weight",
        "ε is added to the output": "y = x / root(psi_squared + eps) * weight + eps",
        "the root of ε is added, not ε": "eps = root(eps)",
    },
    handed_out=UNPROTECTED,
)  # fmt: skip


def _compare_inside(answer: Any, x: np.ndarray, rng: Rng, *, eps: float = 0.05, **how: Any) -> None:
    weight = weights(rng, x.shape[-1])
    wide = x.astype(np.float64)
    slips = INSIDE.known("y", x=wide, weight=weight, eps=eps)
    value = answer(*(a.astype(x.dtype) for a in (x, weight)), eps)
    compare(value, (rms_norm(wide, weight, eps),), ("y",), slips=slips, **how)


def _inside_values(answer: Any, rng: Rng) -> None:
    x = faint(normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 9)), scale=0.5))
    _compare_inside(answer, x, rng)


def _inside_zero(answer: Any, rng: Rng) -> None:
    x = normal(rng, 2, 3, 5)
    x[1, 2] = 0.0
    _compare_inside(answer, x, rng)


NARROW = (
    "the squares or their mean are held in float16, where what is above 65504 is infinite, and x "
    "divided by infinity is zero; what is below 6e-8 is zero, too"
)


SHIFTS = "ε is added after the division: it shifts every output"  # by less than a float16 can show
HALF = replace(
    RMS,
    more={
        **{words: text for words, text in RMS.more.items() if words != SHIFTS},
        "ε does not act, and next to small activations it is what counts": "eps = 0",
    },
)


def _compare_half(answer: Any, scale: float, rng: Rng) -> None:
    x = (scale * rng.normal(0.2, 1.0, (3, 4, 64))).astype(np.float16)
    weight = weights(rng, 64).astype(np.float16)
    eps = 1e-6
    wide: dict[str, Any] = {
        "x": x.astype(np.float64),
        "weight": weight.astype(np.float64),
        "eps": eps,
    }
    right = rms_norm(*wide.values())
    value, slips = answer(x, weight, eps), HALF.known("y", **wide)
    compare(value, (right,), ("y",), slips=slips, tolerance=4e-3, dtype="float16")


def _half_large(answer: Any, rng: Rng) -> None:
    # Anybody can return zeros; that ordinary activations come out right says where these are from.
    blamed(
        NARROW,
        lambda: _compare_half(answer, 2000.0, rng),
        lambda: _half_ordinary(answer, rng),
        seen="zero everywhere",
        handed_out=True,
    )


def _half_ordinary(answer: Any, rng: Rng) -> None:
    _compare_half(answer, 1.0, rng)


TASKS = (
    Task("05.1", "predict", "A small token", "prediction_05_1", 1,
         (Check("prediction", _small_token),), numbers={"size": [k * 1e-4 for k in range(2, 31)]}),
    Task("05.2", "implement", "RMSNorm with ε outside the root", "rms_norm_outside", 3, (
        Check("values", _outside_values, first=True),
        Check("edge case: a token of zeros", _outside_zero),
        Check("numerics: float16", _outside_half),
    )),
    Task("05.3", "implement", "When does it matter?", "where_it_matters", 2,
         (Check("values", _matters, first=True),)),
    Task("05.4", "repair", "An ε that protects nothing", "rms_norm", 3, (
        Check("values", _inside_values, first=True),
        Check("edge case: a token of zeros", _inside_zero),
        Check("numerics: small tokens", lambda answer, rng: _compare_inside(
            answer, 1e-3 * normal(rng, 2, 3, 8), rng, eps=1e-6)),
    )),
    Task("05.5", "repair", "Large activations in half precision", "rms_norm_half", 3, (
        Check("numerics: large activations", _half_large, first=True),
        Check("values: ordinary activations", _half_ordinary),
        Check("numerics: small activations", lambda answer, rng: _compare_half(answer, 1e-4, rng)),
    )),
    Task("05.6", "explain", "What is lost without the mean?", "explanation_05_6", 2),
)  # fmt: skip
