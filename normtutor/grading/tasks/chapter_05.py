"""Coursework on RMSNorm: another size, where ε stands, half precision, the mean."""

from dataclasses import replace
from typing import Any

import numpy as np

from normtutor import norms
from normtutor.grading.judging import Check, Task, blamed, compare, prediction
from normtutor.grading.references import (
    EXACT,
    ROUGH,
    faint,
    gradients,
    layer_norm,
    normal,
    rms_norm,
    sizes,
    weights,
)
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


# --- another size ---------------------------------------------------------------------------------

LARGEST = Formula(
    """
    size = maximum_of(abs(x))
    y = x / size
    spike = largest * sign(x)
    grad_x = (grad_y - spike * total(grad_y * y, axes)) / size
    """,
    said={"spike": "sign(x) at the largest entry", "size": "max|x|", "sign": "the sign",
          "largest": "the place of the largest entry", "maximum_of": "the maximum"},
    alike=("x y", "grad_y y"),
    more={
        "the size is taken as a constant": "grad_x = grad_y / size",
        "the second term stands in every entry; the size depends on the largest one alone":
            "spike = sign(x)",
        "y stands in every entry of the second term; the size depends on the largest one alone":
            "spike = y",
        "that is RMSNorm's second term, with a mean":
            "grad_x = (grad_y - y * mean(grad_y * y)) / size",
        "a mean stands where a sum belongs: the size is no mean":
            "grad_x = (grad_y - spike * mean(grad_y * y)) / size",
        "the sign of the largest entry is missing": "spike = largest",
        "the largest entry gets no gradient at all; it loses the sum over the others, too":
            "grad_x = (grad_y - largest * grad_y) / size",
        "a mean of the gradient is subtracted; this norm forgets no shift":
            "grad_x = (grad_y - mean(grad_y) - spike * total(grad_y * y, axes)) / size",
        "the largest x is taken, not the largest |x|": "grad_x = by_value",
        "the largest entry of all tokens is taken; each token has its own": "grad_x = of_all",
    },
)  # fmt: skip


def _compare_largest(answer: Any, x: np.ndarray, rng: Rng, **how: Any) -> None:
    grad_y = normal(rng, *x.shape).astype(x.dtype)
    g, wide = (a.astype(np.float64) for a in (grad_y, x))
    highest = wide.max(-1, keepdims=True)
    pull = (wide == highest) * (g * wide).sum(-1, keepdims=True) / highest
    by_value = (g - pull) / np.abs(highest)
    given: dict[str, Any] = {"grad_y": g, "x": wide, "sign": np.sign, "by_value": by_value}
    given["largest"] = np.abs(wide) == np.abs(wide).max(-1, keepdims=True)
    top = np.abs(wide).max()
    pull = np.sign(wide) * (np.abs(wide) == top) * (g * wide).sum() / top
    given["of_all"] = (g - pull) / top
    given["maximum_of"] = lambda v: v.max(-1, keepdims=True)
    right = gradients(lambda x: x / x.abs().amax(-1, keepdim=True), (wide,), (g,))
    slips = LARGEST.known("grad_x", **given)
    compare(answer(grad_y, x), right, ("grad_x",), slips=slips, **how)


def _largest_of_both_signs(rng: Rng) -> np.ndarray:
    x = normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 9)))
    size = np.abs(x)
    # Where all are negative, a wrong sign of the pull gives what a missing sign of x does.
    for row, sign in ((0, -1), (1, 1)):
        x[row] = np.where(size[row] == size[row].max(-1, keepdims=True), sign * size[row], x[row])
    return x


def _largest_huge(answer: Any, rng: Rng) -> None:
    x = _largest_of_both_signs(rng)
    x[..., 1] *= 1e6
    blamed(
        ROUGH,
        lambda: _compare_largest(answer, x, rng, tolerance=EXACT),
        lambda: _compare_largest(answer, _largest_of_both_signs(rng), rng),
    )


# --- how much is the mean -------------------------------------------------------------------------

MEAN_SHARE = Formula(
    """
    mu = mean(x)
    square = mean(x ** 2)
    centred = x - mu
    share = mu ** 2 / square
    inner = total(centred * x, axes)
    cosine = inner / root(total(centred ** 2, axes) * total(x ** 2, axes))
    """,
    said={"square": "the mean square", "share": "the share", "cosine": "the cosine",
          "centred": "x − μ", "inner": "the inner product"},
    alike=("x centred",),
    more={
        "the mean itself is compared, not its square": "share = mu / root(square)",
        "the share is taken of the variance; the mean square is the whole":
            "share = mu ** 2 / mean(centred ** 2)",
        "that is the share of what is left without the mean": "share = 1 - mu ** 2 / square",
        "the means run over the tokens; each token has its own": "axes = (1,)",
        "the cosine of the angle of x with itself is 1: one of the two must be without the mean":
            "cosine = 1 + 0 * mu",
        "that is the square of the cosine":
            "cosine = inner ** 2 / total(centred ** 2, axes) / total(x ** 2, axes)",
        "the inner product is not divided by both lengths": "cosine = inner",
    },
)  # fmt: skip


def _compare_mean_share(answer: Any, x: np.ndarray, tolerance: float = 1e-8) -> None:
    wide = x.astype(np.float64)[None]
    slips = MEAN_SHARE.known("share", "cosine", x=wide)
    mean, square = x.mean(1), (x**2).mean(1)
    both = layer_norm(x, eps=0.0), rms_norm(x, eps=0.0)
    right = (mean**2 / square, (both[0] * both[1]).mean(1))
    names = ("the share", "the cosine")
    compare(answer(x), right, names, slips=slips, tolerance=tolerance)


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
    Task("05.2", "implement", "By the largest entry", "max_norm_backward", 3, (
        Check("gradients", lambda answer, rng: _compare_largest(
            answer, _largest_of_both_signs(rng), rng, tolerance=EXACT), first=True),
        Check("numerics: one large input", _largest_huge, first=True),
        Check("dtypes: float32", lambda answer, rng: _compare_largest(
            answer, normal(rng, 2, 3, 8).astype(np.float32), rng, tolerance=2e-5,
            dtype="float32")),
    )),
    Task("05.3", "implement", "When does it matter?", "where_it_matters", 2,
         (Check("values", _matters, first=True),)),
    Task("05.4", "repair", "NaN after some hundred steps", "rms_norm", 3, (
        Check("values", _inside_values, first=True),
        Check("edge case: a token of zeros", _inside_zero),
        Check("numerics: small tokens", lambda answer, rng: _compare_inside(
            answer, 1e-3 * normal(rng, 2, 3, 8), rng, eps=1e-6)),
    )),
    Task("05.5", "repair", "A layer that puts out zeros", "rms_norm_half", 3, (
        Check("numerics: large activations", _half_large, first=True),
        Check("values: ordinary activations", _half_ordinary),
        Check("numerics: small activations", lambda answer, rng: _compare_half(answer, 1e-4, rng)),
    )),
    Task("05.6", "explain", "What is lost without the mean?", "explanation_05_6", 2),
    Task("05.7", "implement", "How much is the mean?", "mean_share", 2, (
        Check("values", lambda answer, rng: _compare_mean_share(
            answer, faint(normal(rng, *sizes(rng, (4, 6), (7, 9))))), first=True),
        Check("numerics: small tokens", lambda answer, rng: _compare_mean_share(
            answer, 1e-6 * normal(rng, 5, 8))),
    )),
)  # fmt: skip
