r"""Which curve describes a growth over layers: candidates, judged on layers that no fit has seen.

Each candidate is fitted by least squares in :math:`\log v_l`, so that every layer counts by its
relative error; the error on the held-out layers is in the same unit (0.1 is about 10 %). Two ways
of holding out: every third layer in turn (between the others), and the upper third (beyond them).
Nothing is best because it has more parameters: a parameter that only follows the noise of the
fitted layers costs on the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from normtutor.intervals import t_interval

Array = np.ndarray


@dataclass(frozen=True)
class Shape:
    """A curve over t = l / L, for the layers l = 1 … L, and where its fits start."""

    formula: str
    curve: Callable[..., Array]
    starts: tuple[tuple[float, ...], ...]  # for v divided by its first value


# Parameters of size and of growth are exponents, so that every fit is positive and increasing.
SHAPES: Mapping[str, Shape] = {
    "linear": Shape("a + b l", lambda t, a, b: np.exp(a) + np.exp(b) * t, ((0, 0), (-2, 3))),
    "quadratic": Shape(
        "(a + b l)²", lambda t, a, b: (np.exp(a) + np.exp(b) * t) ** 2, ((0, 0), (-2, 2))
    ),
    "exponential": Shape("b qˡ", lambda t, a, k: np.exp(a + k * t), ((0, 1), (0, 3))),
    "power": Shape(
        "(a + b l)ᵖ",
        lambda t, a, b, p: (np.exp(a) + np.exp(b) * t) ** np.exp(p),
        ((0, 0, 0), (0, 0, 1), (-1, 1, 0.7)),
    ),
    "offset exponential": Shape(
        "a + b qˡ",
        lambda t, a, b, k: np.exp(a) + np.exp(b) * np.expm1(np.exp(k) * t) / np.expm1(np.exp(k)),
        ((0, 0, 0), (0, 2, 1), (-1, 1, -1), (-2, 3, 1)),
    ),
}
HOW = ("between", "beyond")


def fit(layers: Array, values: Array, shape: str, *, depth: int) -> Callable[[Array], Array]:
    """The curve of that shape with the least mean squared error of log v."""
    candidate, scale = SHAPES[shape], float(values[0])
    target = np.log(values / scale)

    def residuals(parameters: Array) -> Array:
        with np.errstate(all="ignore"):
            found = np.log(candidate.curve(layers / depth, *parameters)) - target
        found = np.minimum(np.maximum(found, -50), 50)
        found[np.isnan(found)] = 50.0
        return found

    fits = [
        least_squares(residuals, np.array(start, float), method="lm") for start in candidate.starts
    ]
    best = min(fits, key=lambda result: result.cost).x
    return lambda where: scale * candidate.curve(where / depth, *best)


def held_out_error(values: Array, shape: str, how: str) -> float:
    """Root mean square of log(fitted / v) on held-out layers; ``values`` are v_1 … v_L."""
    depth = len(values)
    layers = np.arange(1, depth + 1)
    if how == "between":
        # The first and the last layer are always fitted: beyond them would be the other question.
        folds = [(layers % 3 == rest) & (layers > 1) & (layers < depth) for rest in range(3)]
    elif how == "beyond":
        folds = [layers > round(2 * depth / 3)]
    else:
        raise ValueError(f'how must be "between" or "beyond"; got "{how}".')
    squares = []
    for out in folds:
        curve = fit(layers[~out], values[~out], shape, depth=depth)
        squares.append(np.log(curve(layers[out]) / values[out]) ** 2)
    return float(np.sqrt(np.concatenate(squares).mean()))


@dataclass(frozen=True)
class Verdict:
    """Held-out errors of all shapes, (seeds,) each, and the shapes that are not excluded."""

    errors: dict[str, Array]
    left: tuple[str, ...]  # the shape with the smallest mean error first

    def __str__(self) -> str:
        """The one shape that is left, or "undecided" with those that are."""
        return self.left[0] if len(self.left) == 1 else f"undecided: {', '.join(self.left)}"


def judge(profiles: Sequence[Any], how: str) -> Verdict:
    """Compare the shapes over the seeds; ``profiles`` holds v_1 … v_L of each seed.

    A shape is excluded if its error exceeds that of the best one by a difference whose 95 %
    interval over the seeds is above 0. A power contains the linear and the quadratic shape, so
    that where one of these is true, both stay.
    """
    errors = {
        shape: np.array([held_out_error(np.asarray(v, float), shape, how) for v in profiles])
        for shape in SHAPES
    }
    order = sorted(SHAPES, key=lambda shape: float(errors[shape].mean()))
    best = errors[order[0]]
    left = [order[0]]
    for shape in order[1:]:
        mean, half = t_interval(errors[shape] - best)
        if not mean - half > 0:
            left.append(shape)
    return Verdict(errors, tuple(left))
