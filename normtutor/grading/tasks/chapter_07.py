"""Coursework on Pre-LN and Post-LN: residual steps forward and backward."""

from typing import Any

import numpy as np

from normtutor.grading.answers import Sublayer
from normtutor.grading.judging import Check, Known, Task, blamed, compare, prediction
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
from normtutor.grading.slips import NORM, Formula, around

Rng = np.random.Generator


def _variance(answer: Any, rng: Rng, layers: int = 12) -> None:
    # Two branches a layer, every branch of variance 1, on a stream that starts with 1.
    branches = 2
    known = [
        (layers + 1, "a layer has two branches, attention and feed-forward"),
        (layers * branches, "the stream does not start empty"),
        (1, "that is Post-LN, where the norm stands in the stream"),
        (np.sqrt(layers * branches + 1), "that is the standard deviation"),
        (
            2.0 ** (layers * branches),
            "the norm in front of a branch holds its size: sums, not powers",
        ),
    ]
    prediction(answer(), float(1 + layers * branches), known, 0.001)


# --- how large, and what is left ------------------------------------------------------------------


def _streams(x: np.ndarray, matrices: np.ndarray, slip: str = "") -> tuple[np.ndarray, np.ndarray]:
    """The sizes of a Pre-LN stream and the factors of a Post-LN one, with a slip or without."""

    def size(h: np.ndarray) -> np.ndarray:
        if slip == "std":
            return h.std()
        if slip == "per token":
            return np.sqrt((h**2).mean(-1)).mean()
        return (h**2).mean() if slip == "square" else np.sqrt((h**2).mean())

    norm = rms_norm if slip == "rms" else layer_norm
    sizes, factors, left = [], [], 1.0
    h = post = x
    for matrix in matrices:
        if slip == "before":
            sizes.append(size(h))
        branch = np.tanh((h if slip == "bare" else norm(h, eps=0.0)) @ matrix)
        h = branch if slip == "no skip" else h + branch
        if slip != "before":
            sizes.append(size(branch if slip == "branch" else h))
        total = post + np.tanh(post @ matrix)
        deviation = np.sqrt((total**2).mean(-1) if slip == "rms" else total.var(-1))
        deviation = total.std() if slip == "pooled" else deviation
        factor = deviation if slip == "grows" else 1 / deviation
        factor = factor.mean() if slip == "means first" else factor
        left = factor.mean() if slip == "one step" else left * factor
        factors.append(np.mean(left))
        post = total if slip == "no norm" else norm(total, eps=0.0)
    return np.array(sizes), np.array(factors)


STREAMS = {
    "before": "the sizes are those before each step; those after it are asked for",
    "bare": "the branch of Pre-LN reads the stream itself; it should read the normalized stream",
    "branch": "that is the size of the branch, not of the stream",
    "no skip": "the skip connection of Pre-LN is missing",
    "square": "that is the mean square of the stream; take its root",
    "per token": "the tokens' sizes are averaged; take the root of the mean square of all entries",
    "std": "that is the deviation of the stream; its root mean square is asked for",
    "pooled": "all tokens share a deviation; LayerNorm gives each its own",
    "rms": "that is with RMSNorm: LayerNorm subtracts the mean",
    "means first": "means are multiplied; multiply each token's factors, and then take the mean",
    "one step": "the factors are those of single steps; what is left is their product",
    "grows": "the norm divides by the deviation, so the factor is one over it",
    "no norm": "the stream of Post-LN goes on as the sum; it should go on normalized",
}


def _compare_streams(answer: Any, rng: Rng, scale: float = 1.0) -> None:
    tokens, features = sizes(rng, (4, 6), (8, 10))
    x = normal(rng, tokens, features)
    matrices = scale * rng.normal(size=(5, features, features)) / np.sqrt(features)

    def slips() -> Any:
        yield from (Known(words, _streams(x, matrices, slip)) for slip, words in STREAMS.items())

    names = ("the size", "the factor")
    compare(answer(x, matrices), _streams(x, matrices), names, slips=slips, tolerance=1e-7)


# --- add and norm, backward -----------------------------------------------------------------------


ADD_NORM = Formula(
    """
    mu = mean(h)
    inverse = 1 / root(mean((h - mu) ** 2) + eps)
    h_hat = (h - mu) * inverse
    g = grad_y * weight
    through_mean = mean(g)
    through_variance = h_hat * mean(g * h_hat)
    through_norm = inverse * (g - through_mean - through_variance)
    grad_x = grad_h + through_norm
    grad_branch = grad_h + through_norm
    grad_weight = total(grad_y * h_hat)
    """,
    said={
        "h_hat": "ĥ", "grad_h": "the gradient that comes along the stream",
        "through_mean": "the path through the mean",
        "through_variance": "the path through the variance",
        "through_norm": "the path through the norm",
    },
    alike=("h h_hat", "g grad_y"),
    more={
        "the path through the mean is missing": "through_mean = 0",
        "the path through the variance is missing": "through_variance = 0",
        "the path through the norm goes into the branch alone; h = x + branch hands its whole "
        "gradient to both": "grad_x = grad_h",
        "the path through the norm goes into x alone; h = x + branch hands its whole gradient to "
        "both": "grad_branch = grad_h",
        "x gets the stream's gradient alone and the branch the norm's alone; h = x + branch hands "
        "its whole gradient to both": "grad_x = grad_h; grad_branch = through_norm",
        "the branch gets the norm's gradient alone; h = x + branch hands its whole gradient to "
        "both": "grad_branch = through_norm",
        "the gradient that comes along the stream is lost":
            "grad_x = through_norm; grad_branch = through_norm",
        "the path through the norm is lost": "grad_x = grad_h; grad_branch = grad_h",
        "the gradient of the stream goes past the norm, not through it":
            "g = (grad_y + grad_h) * weight; grad_x = through_norm; grad_branch = through_norm",
        "the gradient of the stream goes past the norm and γ, not through them":
            "g = (grad_y + grad_h) * weight; grad_weight = total((grad_y + grad_h) * h_hat); "
            "grad_x = through_norm; grad_branch = through_norm",
        "γ multiplies the stream's gradient; it belongs to the norm alone":
            "grad_x = grad_h * weight + through_norm; grad_branch = grad_h * weight + through_norm",
        "the gradient of the stream is subtracted; it is to be added":
            "grad_x = through_norm - grad_h; grad_branch = through_norm - grad_h",
        "h = x + branch hands its whole gradient to both, not half of it":
            "grad_x = (grad_h + through_norm) / 2; grad_branch = (grad_h + through_norm) / 2",
        "γ is missing in the path through the norm": "g = grad_y",
        "γ multiplies the finished gradient; it belongs to g, and so into both means":
            "free = grad_y - mean(grad_y) - h_hat * mean(grad_y * h_hat); "
            "through_norm = weight * inverse * free",
        "h stands where ĥ belongs in the path through the variance, both times":
            "through_variance = h * mean(g * h)",
        "γ gets the stream's gradient as well; the stream does not pass through γ":
            "grad_weight = total((grad_y + grad_h) * h_hat)",
        "γ is in its own gradient": "grad_weight = total(g * h_hat)",
        "that is RMSNorm's gradient: no mean is subtracted": "mu = 0; through_mean = 0",
    },
)  # fmt: skip


def _compare_add_norm(
    answer: Any, x: np.ndarray, rng: Rng, *, eps: float = 0.05, **how: Any
) -> None:
    branch, *grads = (normal(rng, *x.shape) for _ in range(3))
    arrays = [faint(x), faint(branch), *grads, weights(rng, x.shape[-1])]
    x, branch, grad_h, grad_y, weight = (a.astype(x.dtype).astype(np.float64) for a in arrays)

    def forward(x: Any, branch: Any, weight: Any) -> tuple[Any, Any]:
        h = x + branch
        return h, layer_norm(h, weight, None, eps)

    right = gradients(forward, (x, branch, weight), (grad_h, grad_y))
    given = {"grad_h": grad_h, "grad_y": grad_y, "h": x + branch, "weight": weight}
    names = ("grad_x", "grad_branch", "grad_weight")
    # Two axes are three of which the first has length one.
    three = {name: a if a.ndim == 1 else a.reshape(-1, *a.shape[-2:]) for name, a in given.items()}
    slips = ADD_NORM.known(*names, **three, eps=eps)
    value = answer(*(a.astype(arrays[0].dtype) for a in given.values()), eps)
    compare(value, right, names, slips=slips, **how)


def _add_norm_large(answer: Any, rng: Rng) -> None:
    def large(scale: float) -> None:
        x = normal(rng, 2, 3, 6)
        x[..., 0] *= scale
        _compare_add_norm(answer, x, rng, tolerance=EXACT)

    blamed(ROUGH, lambda: large(1e6), lambda: large(1.0))


# --- a Pre-LN block -------------------------------------------------------------------------------


BLOCK = Formula(
    """
    h = x + attention(norm(x, weight_1, bias_1))
    y = h + feed_forward(norm(h, weight_2, bias_2))
    """,
    said={
        "attention": "attention", "feed_forward": "feed-forward", "norm": "the norm",
        "weight_1": "γ₁", "weight_2": "γ₂", "bias_1": "β₁", "bias_2": "β₂",
        "h": "the first step", "y": "the second step",
    },
    alike=("x h", "weight_1 weight_2", "bias_1 bias_2", "attention feed_forward"),
    more={
        "that is Post-LN: the norm stands behind the sum, on the stream":
            "h = norm(x + attention(x), weight_1, bias_1); "
            "y = norm(h + feed_forward(h), weight_2, bias_2)",
        "the skip carries the normalized x. In Pre-LN the stream itself passes untouched":
            "n = norm(x, weight_1, bias_1); h = n + attention(n); "
            "y = norm(h, weight_2, bias_2) + feed_forward(norm(h, weight_2, bias_2))",
        "the skip of the first step carries the normalized x; the stream itself passes untouched":
            "h = norm(x, weight_1, bias_1) + attention(norm(x, weight_1, bias_1))",
        "the skip of the second step carries the normalized stream; it passes untouched":
            "y = norm(h, weight_2, bias_2) + feed_forward(norm(h, weight_2, bias_2))",
        "both branches read the same x; the second must read what the first has left":
            "y = h + feed_forward(norm(x, weight_2, bias_2))",
        "that is a parallel block: both branches read the first norm. Here the second reads what "
        "the first has left, through a norm of its own":
            "n = norm(x, weight_1, bias_1); y = x + attention(n) + feed_forward(n)",
        "the norm stands at the end of the branch, as in OLMo 2; Pre-LN has it at the start":
            "h = x + norm(attention(x), weight_1, bias_1); "
            "y = h + norm(feed_forward(h), weight_2, bias_2)",
        "each branch has a second norm at its end: that is the sandwich":
            "h = x + norm(attention(norm(x, weight_1, bias_1)), weight_1, bias_1); "
            "y = h + norm(feed_forward(norm(h, weight_2, bias_2)), weight_2, bias_2)",
        "the two norms' parameters are exchanged":
            "h = x + attention(norm(x, weight_2, bias_2)); "
            "y = h + feed_forward(norm(h, weight_1, bias_1))",
        "both norms use the first one's γ and β": "y = h + feed_forward(norm(h, weight_1, bias_1))",
        "both norms use the second one's γ and β": "h = x + attention(norm(x, weight_2, bias_2))",
        "the second skip is missing": "y = feed_forward(norm(h, weight_2, bias_2))",
        "the skip connections are missing":
            "h = attention(norm(x, weight_1, bias_1)); y = feed_forward(norm(h, weight_2, bias_2))",
        "there is no norm in it": "h = x + attention(x); y = h + feed_forward(h)",
        "the feed-forward step comes first; attention comes first":
            "h = x + feed_forward(norm(x, weight_2, bias_2)); "
            "y = h + attention(norm(h, weight_1, bias_1))",
        "the second skip begins at the layer's input, so what attention has added is lost":
            "y = x + feed_forward(norm(h, weight_2, bias_2))",
        "the second branch reads the first branch, not the stream":
            "y = x + feed_forward(norm(attention(norm(x, weight_1, bias_1)), weight_2, bias_2))",
        "the second branch reads two norms, one behind the other":
            "y = h + feed_forward(norm(norm(h, weight_1, bias_1), weight_2, bias_2))",
        "each branch is added to itself: x was overwritten before the sum":
            "h = 2 * attention(norm(x, weight_1, bias_1)); "
            "y = 2 * feed_forward(norm(h, weight_2, bias_2))",
        "the stream and the second branch are multiplied; a residual step adds":
            "y = h * feed_forward(norm(h, weight_2, bias_2))",
        "a norm stands behind the last sum; a block ends with the sum":
            "y = norm(h + feed_forward(norm(h, weight_2, bias_2)), weight_2, bias_2)",
    },
)  # fmt: skip


def _pre_case(rng: Rng) -> dict[str, Any]:
    batch, length, features = sizes(rng, (2, 3), (4, 5), (6, 8))
    case: dict[str, Any] = {"x": faint(normal(rng, batch, length, features, scale=2.5))}
    for name in ("attention", "feed_forward"):
        case[name] = Sublayer(0.6 * rng.normal(size=(features, features)))
    for number in (1, 2):
        case[f"weight_{number}"], case[f"bias_{number}"] = (
            weights(rng, features),
            normal(rng, features),
        )
    return case


def _step(row: Any, x: np.ndarray, sublayer: Sublayer, affine: list, eps: float) -> np.ndarray:
    """One residual step as the package's table of wirings has it."""
    import torch

    from normtutor import wiring

    step = wiring.ResidualStep(row, x.shape[-1]).double()
    norm: Any = step.norm_in or step.norm_stream
    norm.eps = eps
    weight, bias = affine
    norm.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})
    return step(torch.tensor(x), sublayer).detach().numpy()


def _compare_block(answer: Any, case: dict[str, Any], eps: float = 0.05) -> None:
    x, attention, feed_forward, *affine = case.values()
    right = _step("pre", x, attention, affine[:2], eps)
    right = _step("pre", right, feed_forward, affine[2:], eps)

    def slips() -> Any:
        return around(BLOCK, NORM, eps, **case)

    compare(answer(*case.values(), eps), (right,), ("the new stream",), slips=slips)


def _pre_large(answer: Any, rng: Rng) -> None:
    case = _pre_case(rng)
    case["x"] = 1e4 * case["x"]
    _compare_block(answer, case)


def _pre_silent(answer: Any, rng: Rng) -> None:
    case = _pre_case(rng)
    for name in ("attention", "feed_forward"):
        case[name] = Sublayer(0 * case[name].weight)
    _compare_block(answer, case)


# --- DeepNorm's alpha -----------------------------------------------------------------------------


ON_BRANCH = (
    "α multiplies the branch. DeepNorm makes the skip path larger, so that deep layers change the "
    "stream little"
)
DEEP = Formula(
    "y = norm(alpha * x + sublayer(x), weight, bias)",
    said={"norm": "the norm", "sublayer": "F"},
    more={
        ON_BRANCH: "y = norm(x + alpha * sublayer(x), weight, bias)",
        "α multiplies the sum, and the norm forgets it":
            "y = norm(alpha * (x + sublayer(x)), weight, bias)",
        "α is gone": "y = norm(x + sublayer(x), weight, bias)",
        "α stands behind the norm": "y = alpha * norm(x + sublayer(x), weight, bias)",
        "the branch must read x itself, not αx":
            "y = norm(alpha * x + sublayer(alpha * x), weight, bias)",
        "the branch reads the normalized stream":
            "y = norm(alpha * x + sublayer(norm(x, weight, bias)), weight, bias)",
        "the skip connection is missing": "y = norm(sublayer(x), weight, bias)",
        "α is squared": "y = norm(alpha ** 2 * x + sublayer(x), weight, bias)",
        "a root of α is taken": "y = norm(root(alpha) * x + sublayer(x), weight, bias)",
        "the branch is multiplied by 1 − α":
            "y = norm(alpha * x + (1 - alpha) * sublayer(x), weight, bias)",
        "1 − α multiplies the stream": "y = norm((1 - alpha) * x + sublayer(x), weight, bias)",
        "the branch is divided by α": "y = norm(x + sublayer(x) / alpha, weight, bias)",
        "the skip is multiplied by α and the branch divided by it":
            "y = norm(alpha * x + sublayer(x) / alpha, weight, bias)",
        "the skip is divided by α": "y = norm(x / alpha + sublayer(x), weight, bias)",
        "that is Pre-LN: the norm stands in front of the branch, not on the sum":
            "y = alpha * x + sublayer(norm(x, weight, bias))",
    },
    handed_out=ON_BRANCH,
)  # fmt: skip


def _compare_alpha(answer: Any, rng: Rng, alpha: float) -> None:
    case, eps = _pre_case(rng), 0.05
    x, f, (weight, bias) = case["x"], case["attention"], (case["weight_1"], case["bias_1"])
    from normtutor import wiring

    row = wiring.Wiring(("stream",), skip=lambda layer, depth: alpha)
    right = _step(row, x, f, [weight, bias], eps)
    given = {"x": x, "sublayer": f, "alpha": alpha, "weight": weight, "bias": bias}

    def slips() -> Any:
        return around(DEEP, NORM, eps, **given)

    compare(answer(*given.values(), eps), (right,), ("y",), slips=slips)


TASKS = (
    Task("07.1", "predict", "How large is the stream?", "prediction_07_1", 1,
         (Check("prediction", _variance),), numbers={"layers": range(6, 100)}),
    Task("07.2", "implement", "What grows, and what is left", "streams", 3, (
        Check("values", _compare_streams, first=True),
        Check("edge case: branches that give zero", lambda answer, rng: _compare_streams(
            answer, rng, scale=0.0)),
    )),
    Task("07.3", "implement", "Add and norm, backward", "add_norm_backward", 4, (
        Check("gradients", lambda answer, rng: _compare_add_norm(
            answer, normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 8))), rng,
            tolerance=EXACT), first=True),
        Check("numerics: one large entry", _add_norm_large, first=True),
        Check("shapes: tokens without a batch axis", lambda answer, rng: _compare_add_norm(
            answer, normal(rng, *sizes(rng, (3, 5), (6, 8))), rng)),
        Check("dtypes: float32", lambda answer, rng: _compare_add_norm(
            answer, normal(rng, 2, 3, 8).astype(np.float32), rng, tolerance=2e-5, dtype="float32")),
    )),
    Task("07.4", "implement", "A Pre-LN block", "pre_ln_block", 3, (
        Check("values", lambda answer, rng: _compare_block(answer, _pre_case(rng)), first=True),
        Check("edge case: branches that give zero", _pre_silent),
        Check("numerics: a large stream", _pre_large),
    )),
    Task("07.5", "repair", "A DeepNorm step", "deep_norm_step", 3, (
        Check("values", lambda answer, rng: _compare_alpha(
            answer, rng, float(rng.uniform(2, 4))), first=True),
        Check("edge case: α = 1", lambda answer, rng: _compare_alpha(answer, rng, 1.0)),
        Check("numerics: α = 1000", lambda answer, rng: _compare_alpha(answer, rng, 1000.0)),
    )),
    Task("07.6", "explain", "Why warm-up?", "explanation_07_6", 2),
)  # fmt: skip
