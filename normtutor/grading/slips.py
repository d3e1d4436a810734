"""Slips of the pen in a norm: what each of them puts out, so that an answer can be recognized.

A norm is taken apart into what is subtracted, what divides, over which axes, and what γ and β do.
A slip changes one of these. An answer is compared with every slip, and with every two of them in
different parts, on the inputs that it was asked about.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from normtutor.grading.judging import Known

Divisor = Callable[[Any, Any, float, int], Any]  # of (x − μ, x, ε, number of values)


def _mean_square(v: Any, axes: tuple[int, ...]) -> Any:
    return (v * v).mean(axis=axes, keepdims=True)


def divisors(axes: tuple[int, ...], *, centred: bool, inside: bool) -> dict[str, Divisor]:
    """What may divide in place of the right statistic, by what is then to be said."""

    def square(c: Any, x: Any) -> Any:
        return _mean_square(c if centred else x, axes)

    found: dict[str, Divisor] = {
        "the divisor of the variance is n − 1; it should be n": lambda c, x, eps, n: (
            (square(c, x) * n / max(n - 1, 1) + eps) ** 0.5
        ),
        "the divisor is n − 1 and ε stands outside the root": lambda c, x, eps, n: (
            (square(c, x) * n / max(n - 1, 1)) ** 0.5 + eps
        ),
        "a root is missing: it divides by the square": lambda c, x, eps, n: square(c, x) + eps,
        "ε is missing": lambda c, x, eps, n: square(c, x) ** 0.5,
        "ε is taken away in place of being added": lambda c, x, eps, n: (
            np.maximum(square(c, x) - eps, 1e-300) ** 0.5
            if isinstance(x, np.ndarray) else (square(c, x) - eps).clamp(min=1e-300) ** 0.5
        ),
        "ε is squared; add ε itself": lambda c, x, eps, n: (square(c, x) + eps**2) ** 0.5,
        "ε is counted n times: it stands beside a sum": lambda c, x, eps, n: (
            (square(c, x) + eps / n) ** 0.5
        ),
        "it divides by the L2 norm: a sum of squares stands for their mean": lambda c, x, eps, n: (
            (n * square(c, x) + eps) ** 0.5
        ),
        "it divides by the L2 norm, and ε stands outside the root": lambda c, x, eps, n: (
            (n * square(c, x)) ** 0.5 + eps
        ),
        "it divides by the mean absolute value": lambda c, x, eps, n: (
            abs(c if centred else x).mean(axis=axes, keepdims=True) + eps
        ),
        "it multiplies where it should divide": lambda c, x, eps, n: (square(c, x) + eps) ** -0.5,
        "nothing divides": lambda c, x, eps, n: 1.0 + 0 * square(c, x),
    }  # fmt: skip
    if centred:
        found["the mean of the squares stands where the variance belongs"] = lambda c, x, eps, n: (
            (_mean_square(x, axes) + eps) ** 0.5
        )
    if inside:
        found["ε stands outside the root"] = lambda c, x, eps, n: square(c, x) ** 0.5 + eps
    else:
        found["ε stands inside the root; here it should stand outside"] = lambda c, x, eps, n: (
            (square(c, x) + eps) ** 0.5
        )
    return found


AFFINE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "γ is missing": lambda y, w, b: y + b,
    "β is missing": lambda y, w, b: y * w,
    "γ and β are missing": lambda y, w, b: y,
    "β is taken away in place of being added": lambda y, w, b: y * w - b,
    "β is scaled by γ: it is added before γ multiplies": lambda y, w, b: (y + b) * w,
    "β is added twice": lambda y, w, b: y * w + 2 * b,
    "β multiplies in place of being added": lambda y, w, b: y * w * b,
    "γ is added in place of multiplying": lambda y, w, b: y + w + b,
    "γ is squared": lambda y, w, b: y * w * w + b,
    "1 + γ multiplies; here γ itself does": lambda y, w, b: y * (1 + w) + b,
    "γ divides in place of multiplying": lambda y, w, b: y / w + b,
    "γ and β are exchanged": lambda y, w, b: y * b + w,
    "the sign is wrong": lambda y, w, b: -y * w + b,
}


def variations(
    formula: Callable[..., tuple[Any, ...]], **parts: Mapping[str, Any]
) -> Iterator[Known]:
    """What a formula puts out with one of its parts changed, and with two of them.

    Parameters
    ----------
    formula : callable
        Called with the changed parts as keyword arguments; gives the outputs, None for those that
        do not matter.
    **parts : mapping
        For each part what may stand in its place, by what is then to be said.
    """
    changes = [(part, words, value) for part, of in parts.items() for words, value in of.items()]
    for size in (1, 2):
        for chosen in itertools.combinations(changes, size):
            if len({part for part, _, _ in chosen}) == size:
                words = "; and ".join(words for _, words, _ in chosen)
                yield Known(words, formula(**{part: value for part, _, value in chosen}))


def term_slips(
    terms: Mapping[str, Any],
    instead: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    before: int = 0,
    after: int = 0,
) -> Iterator[Known]:
    """A sum in which a term is missing, counted twice, or of the wrong sign.

    Parameters
    ----------
    terms : mapping
        The terms of the right sum by their names.
    instead : mapping, optional
        What else may stand for a term, by what is then to be said.
    before, after : int
        How many outputs stand before the sum and behind it, which do not matter.
    """
    parts = {
        name: {
            f"{name} is missing": 0.0 * term,
            f"{name} has the wrong sign": -term,
            f"{name} is counted twice": 2 * term,
            f"{name} is counted by half": term / 2,
            **(instead or {}).get(name, {}),
        }
        for name, term in terms.items()
    }

    def added(**changed: Any) -> tuple[Any, ...]:
        whole = sum(changed.get(name, term) for name, term in terms.items())
        return (*[None] * before, whole, *[None] * after)

    return variations(added, **parts)


def layer_norms(*, centred: bool = True) -> dict[str, Callable[..., Any]]:
    """Norms over the last axis with one slip, by what is then to be said: of (x, γ, β, ε)."""

    def run(
        divide: Divisor | None, centre: bool, x: Any, weight: Any, bias: Any, eps: float
    ) -> Any:
        c = x - x.mean(-1, keepdims=True) if centre else x
        under = divide(c, x, eps, x.shape[-1]) if divide else (_mean_square(c, (-1,)) + eps) ** 0.5
        return c / under * weight + bias

    found: dict[str, Callable[..., Any]] = {
        words: functools.partial(run, divide, centred)
        for words, divide in divisors((-1,), centred=centred, inside=True).items()
    }
    swap = "that is RMSNorm: no mean is taken away" if centred else "that is LayerNorm"
    found[swap] = functools.partial(run, None, not centred)
    found["γ and β are missing"] = lambda x, weight, bias, eps: run(None, centred, x, 1, 0, eps)
    return found


def norm_slips(
    x: np.ndarray,
    weight: Any,
    bias: Any,
    eps: float,
    axes: Sequence[int],
    *,
    centred: bool = True,
    inside: bool = True,
) -> Iterator[Known]:
    """What one slip, or two in different parts of a norm, put out.

    Parameters
    ----------
    x : array
    weight, bias : array or number
        γ and β in a shape that goes with ``x``; 0 for a β that the exercise does not have.
    eps : float
    axes : sequence of int
        Over which the right statistics run.
    centred : bool
        Whether the right norm subtracts a mean.
    inside : bool
        Whether ε stands inside the root of the right norm.
    """
    right = tuple(axis % x.ndim for axis in axes)
    others = [
        found
        for size in range(1, x.ndim + 1)
        for found in itertools.combinations(range(x.ndim), size)
        if set(found) != set(right)
    ]
    has_bias = bool(np.any(bias))
    affine = {w: f for w, f in AFFINE.items() if has_bias or "β" not in w}

    def plain(c: Any, x: Any, over: tuple[int, ...], centre: bool) -> Any:
        square = _mean_square(c if centre else x, over)
        return (square + eps) ** 0.5 if inside else square**0.5 + eps

    def y(over: tuple[int, ...], centre: bool = centred, divide: str = "") -> Any:
        c = x - x.mean(axis=over, keepdims=True) if centre else x
        if not divide:
            return c / plain(c, x, over, centre)
        count = int(np.prod([x.shape[axis] for axis in over]))
        return c / divisors(over, centred=centre, inside=inside)[divide](c, x, eps, count)

    def told(over: tuple[int, ...]) -> str:
        names = ", ".join(str(axis) for axis in over)
        wanted = ", ".join(str(axis) for axis in right)
        return f"the statistics run over the axes ({names}); they should run over ({wanted})"

    swap = (
        "no mean is taken away: that is RMSNorm's statistic"
        if centred
        else "a mean is taken away; this norm keeps it"
    )
    kinds: list[tuple[str, str, Callable[[], Any]]] = [
        ("divide", words, functools.partial(y, right, divide=words))
        for words in divisors(right, centred=centred, inside=inside)
    ]
    kinds.append(("divide", swap, lambda: y(right, not centred)))
    if centred:
        deviation = "the mean is not taken away; only the variance knows it"
        kinds.append(
            (
                "divide",
                deviation,
                lambda: (
                    y(right)
                    + x.mean(axis=right, keepdims=True)
                    * (x.var(axis=right, keepdims=True) + eps) ** -0.5
                ),
            )
        )
    kinds += [("axes", told(over), functools.partial(y, over)) for over in others]
    if centred:
        kinds += half_right(x, eps, right, others)
    with np.errstate(all="ignore"):
        values = [(part, words, make()) for part, words, make in kinds]
        base = y(right)
        for _, words, value in values:
            yield Known(words, (value * weight + bias,))
        for words, change in affine.items():
            yield Known(words, (change(base, weight, bias),))
        for over in others:
            for divide in divisors(right, centred=centred, inside=inside):
                value = y(over, divide=divide)
                yield Known(f"{told(over)}; and {divide}", (value * weight + bias,))
            yield Known(f"{told(over)}; and {swap}", (y(over, not centred) * weight + bias,))
        for _, words, value in values:
            for more, change in affine.items():
                yield Known(f"{words}; and {more}", (change(value, weight, bias),))


def half_right(
    x: np.ndarray, eps: float, right: tuple[int, ...], others: Sequence[tuple[int, ...]]
) -> list[tuple[str, str, Callable[[], Any]]]:
    """A norm in which only the mean, or only what divides, is the right one."""

    def y(mean: Any, over: tuple[int, ...]) -> Any:
        return (x - mean) / (x.var(axis=over, keepdims=True) + eps) ** 0.5

    centre = x.mean(axis=right, keepdims=True)
    kinds: list[tuple[str, str, Callable[[], Any]]] = []
    for over in others:
        names = ", ".join(str(axis) for axis in over)
        words = f"the variance alone runs over the axes ({names})"
        kinds.append(("axes", words, functools.partial(y, centre, over)))
        words = f"the mean alone runs over the axes ({names})"
        kinds.append(("axes", words, functools.partial(y, x.mean(axis=over, keepdims=True), right)))
    middle = np.median(x, axis=right, keepdims=True)
    c = x - centre
    square = (x * x).mean(axis=right, keepdims=True)
    kinds += [
        ("divide", "the median is taken away, not the mean", lambda: y(middle, right)),
        (
            "divide",
            "it divides by the largest absolute value",
            lambda: c / (abs(c).max(axis=right, keepdims=True) + eps),
        ),
        (
            "divide",
            "the mean, not its square, is taken away from the mean of the squares",
            lambda: c / (abs(square - centre) + eps) ** 0.5,
        ),
    ]
    return kinds


def gradient_slips(
    x: np.ndarray,
    grad_y: np.ndarray,
    eps: float,
    axes: Sequence[int],
    gradients: Callable[..., Any],
    *,
    centred: bool = True,
) -> Iterator[Known]:
    """The gradients of norms with one slip: an answer that differentiates another norm."""
    right = tuple(axis % x.ndim for axis in axes)

    def forward(over: tuple[int, ...], centre: bool, divide: str) -> Callable[..., Any]:
        def run(v: Any) -> Any:
            c = v - v.mean(axis=over, keepdims=True) if centre else v
            count = int(np.prod([x.shape[axis] for axis in over]))
            if not divide:
                return c / (_mean_square(c if centre else v, over) + eps) ** 0.5
            return c / divisors(over, centred=centre, inside=True)[divide](c, v, eps, count)

        return run

    cases = [
        (words, right, centred, words) for words in divisors(right, centred=centred, inside=True)
    ]
    swap = "that is RMSNorm's gradient" if centred else "that is LayerNorm's gradient"
    cases.append((swap, right, not centred, ""))
    for size in range(1, x.ndim + 1):
        for over in itertools.combinations(range(x.ndim), size):
            if set(over) != set(right):
                names = ", ".join(str(axis) for axis in over)
                cases.append(
                    (f"that is the gradient of statistics over ({names})", over, centred, "")
                )
    for words, over, centre, divide in cases:
        found = gradients(forward(over, centre, divide), (x,), (grad_y,))[0]
        yield Known(f"that is the gradient of another norm: {words}" if divide else words, (found,))
    plain = grad_y / (_mean_square(x - x.mean(axis=right, keepdims=True), right) + eps) ** 0.5
    whole = gradients(forward(right, centred, ""), (x,), (grad_y,))[0]
    for words, value in (
        ("the whole is multiplied by the deviation, not divided", whole * (grad_y / plain) ** 2),
        ("1/√(σ² + ε) is there twice", whole * plain / np.where(grad_y == 0, 1, grad_y)),
        ("the sign of the whole is wrong", -whole),
    ):
        yield Known(words, (value,))
