"""Claims about what a norm does not see, and what follows for training; chapter 4 explains them."""

import numpy as np

from normtutor import norms
from normtutor_studies.claims import sources
from normtutor_studies.claims.ledger import (
    Finding,
    Findings,
    Place,
    above,
    apart,
    below,
    claim,
)

CHAPTER = "04_invariance"
TABLE = Place(CHAPTER, "Which norm overlooks which change")
SAME = below(0.01, "Invariant means that outputs, of size 1, change by no more than ε makes them.")


def _data() -> tuple[np.ndarray, np.ndarray]:
    """Tokens x of shape (200, 32) and weights W of shape (64, 32), one row a unit."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 32)), rng.normal(size=(64, 32))


def _change(x: np.ndarray, weight: np.ndarray) -> float:
    """Largest change of LayerNorm(Wx) when the data and weights become these."""
    before, after = (norms.layer_norm(a @ w.T)[0] for a, w in (_data(), (x, weight)))
    return apart(after, before)


@claim(
    "LayerNorm is not invariant to recentring the data set.",
    met=sources.GUIDE,
    place=Place(
        CHAPTER, "A constant on the norm's own input is not a recentred data set", in_depth=True
    ),
    recorded="true",
    answer="It does notice a shift of the data that comes before a linear map.",
    condition="A constant added to all features of LayerNorm's own input disappears.",
)
def recentred_data() -> Findings:
    x, weight = _data()
    shift, z = np.random.default_rng(1).normal(size=32), x @ weight.T
    yield Finding(
        "largest change of an output when one vector is added to every token",
        _change(x + shift, weight),
        above(0.01, "Not invariant means a change far larger than ε makes."),
    )
    yield Finding(
        "change when 3 is added to all features of the norm's own input",
        apart(norms.layer_norm(z + 3)[0], norms.layer_norm(z)[0]),
    )


@claim(
    "LayerNorm is invariant to recentring the weights.",
    met=sources.GUIDE,
    place=TABLE,
    recorded="partly",
    answer="True if all units get the same shift; centring each unit by itself changes the output.",
)
def recentred_weights() -> Findings:
    x, weight = _data()
    row, units = np.random.default_rng(1).normal(size=32), weight.mean(axis=1, keepdims=True)
    yield Finding(
        "change of an output, one row added to every unit", _change(x, weight + row), SAME
    )
    yield Finding(
        "change of an output, the weights of each unit centred by themselves",
        _change(x, weight - units),
        SAME,
    )


@claim(
    "Weights and inputs may be rescaled arbitrarily; the output of LayerNorm stays.",
    met=sources.GUIDE,
    place=Place(CHAPTER, "The small print", in_depth=True),
    recorded="false",
    answer="One positive factor for all changes nothing; signs and separate factors do.",
    condition="The norm's input must also be large compared with ε, with no bias in front of it.",
)
def arbitrary_rescaling() -> Findings:
    x, weight = _data()
    units = np.random.default_rng(1).uniform(0.5, 2, size=(64, 1))
    what = "change of an output, all weights times"
    yield Finding(f"{what} 10", _change(x, 10 * weight))
    yield Finding(f"{what} −10", _change(x, -10 * weight), SAME)
    yield Finding(f"{what} 0.0001", _change(x, 1e-4 * weight), SAME)
    yield Finding("the same, each unit by a factor of its own", _change(x, units * weight), SAME)


def _train(*, scale: float, rate: float, steps: int = 60) -> np.ndarray:
    """Losses of a small regression with LayerNorm between two linear maps, plain SGD."""
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(100, 16)), scale * rng.normal(size=(24, 16))
    output, target = rng.normal(size=24) / 24**0.5, np.sin(x[:, 0] + x[:, 1] * x[:, 2])
    losses = []
    for _ in range(steps):
        y, cache = norms.layer_norm(x @ weight.T, eps=1e-12)
        h = np.maximum(y, 0)
        error = h @ output - target
        losses.append(0.5 * np.mean(error**2))
        grad_y = error[:, None] / len(x) * output * (y > 0)
        grad_weight = norms.layer_norm_backward(grad_y, cache).x.T @ x
        output = output - 0.1 * h.T @ error / len(x)
        weight = weight - rate * grad_weight
    return np.array(losses)


@claim(
    "With a norm behind it, the scale of a layer's initial weights does not matter.",
    met=sources.TUTORIALS,
    place=Place(CHAPTER, "The initial scale is a learning rate"),
    recorded="partly",
    answer="True of the first forward pass; from then on it sets the speed of learning.",
    condition="Under SGD weights c times as long learn as if the rate were c² times smaller "
    "({prf:ref}`thm-inv-rate`).",
)
def initial_scale() -> Findings:
    x, weight = _data()
    reference = _train(scale=1, rate=1)

    def off(rate: float) -> float:
        """Largest change of the loss curve by weights ten times as long, over the first loss."""
        return apart(_train(scale=10, rate=rate), reference) / reference[0]

    yield Finding("change of the first outputs, weights times 10", _change(x, 10 * weight), SAME)
    yield Finding(
        "largest change of the loss curve in 60 steps, weights times 10, over the first loss",
        off(rate=1),
        below(0.01, "If it did not matter, the curves would agree to a hundredth."),
    )
    yield Finding("the same with 100 times the rate", off(rate=100))


@claim(
    "Weight decay keeps a layer that a norm follows simple, by keeping its weights small.",
    met="explanations of training recipes that decay all weights",
    place=Place(CHAPTER, "Weight decay sets the speed"),
    recorded="false",
    answer="It sets the effective learning rate; the function ignores the weights' length.",
    condition="A higher effective rate can change the test loss all the same "
    "{cite:p}`vanlaarhoven2017`.",
)
def weight_decay() -> Findings:
    x, weight = _data()
    target = np.random.default_rng(0).normal(size=(200, 64))

    def length(decay: float) -> float:
        """Of the weights after 400 steps of SGD."""
        rng, rate, w = np.random.default_rng(1), 0.5, weight
        for _ in range(400):
            rows = rng.integers(200, size=32)
            y, cache = norms.layer_norm(x[rows] @ w.T, eps=1e-12)
            gradient = norms.layer_norm_backward((y - target[rows]) / 32, cache).x.T @ x[rows]
            w = (1 - rate * decay) * w - rate * gradient
        return float(np.linalg.norm(w))

    shown = "A restraint on the function would show in the outputs, by far more than ε makes."
    yield Finding(
        "largest change of an output when decay has halved all weights",
        _change(x, 0.5 * weight),
        above(0.01, shown),
    )
    yield Finding(
        "effective learning rate with decay over that without, after 400 steps",
        (length(0) / length(0.02)) ** 2,
    )
