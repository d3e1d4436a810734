"""Claims about what a norm does not see, and what follows for training; chapter 4 explains them."""

import numpy as np

from normtutor import norms
from normtutor_studies.claims.ledger import (
    GUIDE,
    NOTES,
    TUTORIALS,
    Evidence,
    Finding,
    Place,
    above,
    below,
    claim,
    near,
)

CHAPTER = "04_invariance"
TABLE = Place(CHAPTER, "Which norm overlooks which change")
SAME = "Invariant means that outputs, of size 1, change by no more than ε makes them."


def _data() -> tuple[np.ndarray, np.ndarray]:
    """Tokens x of shape (200, 32) and weights W of shape (64, 32), one row a unit."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 32)), rng.normal(size=(64, 32))


def _change(x: np.ndarray, weight: np.ndarray) -> float:
    """Largest change of LayerNorm(Wx) when the data and weights become these."""
    before, after = (norms.layer_norm(a @ w.T)[0] for a, w in (_data(), (x, weight)))
    return float(np.abs(after - before).max())


@claim(
    "LayerNorm is not invariant to recentring the data set.",
    met=GUIDE,
    place=Place(
        CHAPTER, "A constant on the norm's own input is not a recentred data set", in_depth=True
    ),
    recorded="true",
    answer="It is not, if the shift comes before a linear map.",
    condition="A constant added to all features of LayerNorm's own input disappears.",
)
def recentred_data() -> Evidence:
    x, weight = _data()
    shift = np.random.default_rng(1).normal(size=32)
    z = x @ weight.T
    own = np.abs(norms.layer_norm(z + 3)[0] - norms.layer_norm(z)[0]).max()
    return [
        Finding(
            "largest change of an output when one vector is added to every token",
            _change(x + shift, weight),
            above(0.01),
            "Not invariant means a change far larger than ε makes.",
        ),
        Finding("change when 3 is added to all features of the norm's own input", float(own)),
    ]


@claim(
    "LayerNorm is invariant to recentring the weights.",
    met=GUIDE,
    place=TABLE,
    recorded="partly",
    answer="True if all units get the same shift; centring each unit by itself changes the output.",
    condition="It is, if every unit gets the *same* row, W + 1rᵀ. Centring the weights of "
    "each unit separately changes the output.",
)
def recentred_weights() -> Evidence:
    x, weight = _data()
    weight = weight + 1  # so that there is something to recentre
    row = np.random.default_rng(1).normal(size=32)

    def change(new: np.ndarray) -> float:
        before, after = (norms.layer_norm(x @ w.T)[0] for w in (weight, new))
        return float(np.abs(after - before).max())

    units = weight - weight.mean(axis=1, keepdims=True)
    return [
        Finding(
            "change of an output, one row added to every unit",
            change(weight + row),
            below(0.01),
            SAME,
        ),
        Finding(
            "change of an output, the weights of each unit centred separately",
            change(units),
            below(0.01),
            SAME,
        ),
    ]


@claim(
    "Weights and inputs may be rescaled arbitrarily; the output of LayerNorm stays.",
    met=GUIDE,
    place=Place(CHAPTER, "The small print", in_depth=True),
    recorded="false",
    answer="One positive factor for all changes nothing; signs, separate factors and biases do.",
    condition="The norm's input must also be large compared with ε, before and after.",
)
def arbitrary_rescaling() -> Evidence:
    x, weight = _data()
    bias = np.random.default_rng(2).normal(size=64)
    with_bias = [norms.layer_norm(c * x @ weight.T + bias)[0] for c in (1, 10)]
    units = np.random.default_rng(1).uniform(0.5, 2, size=(64, 1))
    return [
        Finding("change of an output, all weights times 10", _change(x, 10 * weight)),
        Finding(
            "change of an output, all weights times −10",
            _change(x, -10 * weight),
            below(0.01),
            SAME,
        ),
        Finding(
            "change of an output, all weights times 0.0001",
            _change(x, 1e-4 * weight),
            below(0.01),
            SAME,
        ),
        Finding(
            "change of an output, each unit by a factor of its own",
            _change(x, units * weight),
            below(0.01),
            SAME,
        ),
        Finding(
            "change of an output, data times 10, with a bias in the linear map",
            float(np.abs(with_bias[1] - with_bias[0]).max()),
            below(0.01),
            SAME,
        ),
    ]


@claim(
    "All the usual normalization methods are invariant to rescaling the data set.",
    met="a sentence below table 1 of {cite:t}`ba2016`",
    place=Place(CHAPTER, "What the papers' tables say", in_depth=True),
    recorded="false",
    answer="BatchNorm and LayerNorm are; WeightNorm's output grows with the data.",
    condition="WeightNorm is linear in the data, as the paper's own table says, though the "
    "sentence below it does not. LayerNorm is invariant if no bias is added in "
    "between.",
)
def rescaled_data() -> Evidence:
    x, weight = _data()
    unit = norms.weight_norm(weight)[0]
    outputs = {
        "BatchNorm": [norms.batch_norm(c * x @ weight.T)[0] for c in (1, 3)],
        "LayerNorm": [norms.layer_norm(c * x @ weight.T)[0] for c in (1, 3)],
        "WeightNorm": [c * x @ unit.T for c in (1, 3)],
    }
    change = {name: float(np.abs(three - one).max()) for name, (one, three) in outputs.items()}
    what = "largest change of an output of {}, data times 3"
    return [
        Finding(what.format("WeightNorm"), change.pop("WeightNorm"), below(0.01), SAME),
        *(Finding(what.format(name), value) for name, value in change.items()),
    ]


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
    met=TUTORIALS,
    place=Place(CHAPTER, "The initial scale is a learning rate"),
    recorded="partly",
    answer="True of the first forward pass; from then on it sets the speed of learning.",
    condition="Under SGD weights c times as long learn as if the rate were c² times smaller "
    "({prf:ref}`thm-inv-rate`).",
)
def initial_scale() -> Evidence:
    x, weight = _data()
    reference = _train(scale=1, rate=1)
    same_rate = np.abs(_train(scale=10, rate=1) - reference).max() / reference[0]
    matched = np.abs(_train(scale=10, rate=100) - reference).max() / reference[0]
    return [
        Finding(
            "change of the first outputs, weights times 10",
            _change(x, 10 * weight),
            below(0.01),
            SAME,
        ),
        Finding(
            "largest change of the loss curve in 60 steps, weights times 10, over the first loss",
            float(same_rate),
            below(0.01),
            "If it did not matter, the curves would agree to a hundredth.",
        ),
        Finding("the same with 100 times the rate", float(matched), form=".0e"),
    ]


@claim(
    "Weight decay keeps a layer that a norm follows simple, by keeping its weights small.",
    met="explanations of training recipes that decay all weights",
    place=Place(CHAPTER, "Weight decay sets the speed"),
    recorded="false",
    answer="It sets the effective learning rate; the function does not feel the weights' length.",
    condition="The function does not depend on the length of these weights, so a penalty on "
    "the length is none on the function. A higher effective rate can change the "
    "test loss all the same {cite:p}`vanlaarhoven2017`.",
)
def weight_decay() -> Evidence:
    x, weight = _data()
    rate, decay, rng = 0.5, 0.02, np.random.default_rng(0)
    target = rng.normal(size=(200, 64))
    lengths = {}
    for lam in (0.0, decay):
        w = weight.copy()
        for _ in range(400):
            rows = rng.integers(200, size=32)
            y, cache = norms.layer_norm(x[rows] @ w.T, eps=1e-12)
            gradient = norms.layer_norm_backward((y - target[rows]) / 32, cache).x.T @ x[rows]
            w = (1 - rate * lam) * w - rate * gradient
        lengths[lam] = np.linalg.norm(w)
    return [
        Finding(
            "largest change of an output when decay has halved all weights",
            _change(x, 0.5 * weight),
            above(0.01),
            "A restraint on the function would show in the outputs, by far more than ε makes.",
        ),
        Finding(
            "effective learning rate with decay over that without, after 400 steps",
            float((lengths[0.0] / lengths[decay]) ** 2),
            form=".1f",
        ),
    ]


@claim(
    "With normalization, twice the weights have half the curvature.",
    met="section 5.2 of {cite:t}`ba2016`",
    place=Place(CHAPTER, "The Fisher information, with its factor", in_depth=True),
    recorded="false",
    answer="Half is right for the gradient; the curvature falls to a quarter.",
    condition="The block of the Fisher information falls with the square, by the formula of "
    "the same paper ({prf:ref}`thm-inv-fisher`).",
)
def half_the_curvature() -> Evidence:
    rng = np.random.default_rng(4)
    x, w = rng.normal(size=(300, 6)) * [3, 2, 1, 1, 0.5, 0.5], rng.normal(size=6)
    labels = x[:, 0] > 0

    def sizes(w: np.ndarray) -> np.ndarray:
        """Of a logistic regression behind BatchNorm: sizes of w's Fisher block and gradient."""
        y, cache, _ = norms.batch_norm((x @ w)[:, None], eps=1e-300)
        # A backward pass for each example gives a row of the jacobian.
        rows = [norms.batch_norm_backward(e[:, None], cache).x[:, 0] @ x for e in np.eye(len(x))]
        jacobian, p = np.array(rows), 1 / (1 + np.exp(-y[:, 0]))
        fisher = (p * (1 - p) * jacobian.T) @ jacobian
        return np.array([np.linalg.norm(fisher), np.linalg.norm((p - labels) @ jacobian)])

    fisher, gradient = sizes(2 * w) / sizes(w)
    return [
        Finding(
            "Fisher block of 2w over that of w",
            float(fisher),
            near(0.5, 0.01),
            "Half is 0.5.",
            form=".3f",
        ),
        Finding("gradient at 2w over that at w", float(gradient), form=".3f"),
    ]


@claim(
    "A normalization layer makes training independent of the scale of the activations, wherever it "
    "stands.",
    met=TUTORIALS,
    place=Place(CHAPTER, "Where the norm stands", in_depth=True),
    recorded="false",
    answer="A norm forgets the scale of what comes in; the weights behind it keep theirs.",
    condition="In Pre-LN a linear map follows the norm, and its weights change the size of "
    "what the branch adds.",
)
def wherever_it_stands() -> Evidence:
    x, weight = _data()
    first = [norms.layer_norm(x)[0] @ (c * weight).T for c in (1, 2)]
    return [
        Finding(
            "change of an output, linear map, then norm: weights times 2",
            _change(x, 2 * weight),
        ),
        Finding(
            "change of an output, norm, then linear map: weights times 2",
            float(np.abs(first[1] - first[0]).max()),
            below(0.01),
            SAME,
        ),
    ]


@claim(
    "Post-Norm regularizes the parameters more; in Pre-Norm part of them is not regularized.",
    met=NOTES,
    place=Place(CHAPTER, "Where the norm stands", in_depth=True),
    recorded="partly",
    answer="It bounds what the next block receives; it restrains no weights.",
    condition="Behind the residual sum, a norm lets weights that grow change the output less. "
    "Under both wirings the weights' length changes the function.",
)
def post_norm_regularizes() -> Evidence:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 32))
    first = rng.normal(size=(64, 32)) / 32**0.5
    second = rng.normal(size=(32, 64)) / 32**0.5

    def output(wiring: str, factor: float) -> np.ndarray:
        """One feed-forward block, its last weights multiplied by a factor."""
        read = norms.layer_norm(x)[0] if wiring == "pre" else x
        total = x + factor * np.maximum(read @ first.T, 0) @ second.T
        return norms.layer_norm(total)[0] if wiring == "post" else total

    def change(wiring: str, factor: float = 10) -> float:
        before = output(wiring, 1)
        return float(np.linalg.norm(output(wiring, factor) - before) / np.linalg.norm(before))

    return [
        Finding(
            "relative change of a block's output when the branch's last weights grow tenfold, "
            "Post-Norm over Pre-Norm",
            change("post") / change("pre"),
            below(1.0),
            "More regularized means that the length of the weights matters less.",
        ),
        Finding(
            "the same when they shrink to a tenth",
            change("post", 0.1) / change("pre", 0.1),
        ),
        Finding(
            "relative change of a block's output, the branch's last weights tenfold, Post-Norm",
            change("post"),
            below(0.01),
            "A norm that takes the length of weights out of play leaves the output alone, as it "
            "does directly behind a linear map.",
        ),
        Finding("relative change of that output, Pre-Norm", change("pre")),
    ]
