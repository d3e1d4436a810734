"""Coursework on Pre-LN and Post-LN: residual steps forward and backward."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from normtutor.grading.answers import Sublayer
from normtutor.grading.judging import Check, Known, Task, compare, prediction
from normtutor.grading.references import (
    gradients,
    hidden_from_autograd,
    layer_norm,
    normal,
    sizes,
    weights,
)
from normtutor.grading.slips import gradient_slips, layer_norms, term_slips, variations

Rng = np.random.Generator


def _variance(answer: Any, rng: Rng) -> None:
    # 12 layers, two branches each, every branch of variance 1, on a stream that starts with 1.
    layers, branches = 12, 2
    known = [
        (layers + 1, "a layer has two branches, attention and feed-forward"),
        (layers * branches, "the stream does not start empty"),
        (1, "that is Post-LN, where the norm stands in the stream"),
        (np.sqrt(layers * branches + 1), "that is the standard deviation"),
        (
            2 ** (layers * branches),
            "the norm in front of a branch holds its size: sums, not powers",
        ),
    ]
    prediction(answer(), float(1 + layers * branches), known, 0.001)


def _skip_weight(answer: Any, rng: Rng) -> None:
    # Six layers of two steps, x -> LN(x + F(x)) with F(x) of variance 1, uncorrelated with x.
    known = [
        (2.0**-3, "six layers have twelve residual steps"),
        (2.0**-12, "each step divides by a standard deviation, and that of a sum of two is √2"),
        (1.0, "the skip path is not free in Post-LN: the norm stands on it"),
        (64.0, "the norm makes the old part smaller, not larger"),
    ]
    share = 1.0
    for _ in range(12):
        share /= np.sqrt(1.0 + 1.0)
    prediction(answer(), share, known, 0.01)


# --- add and norm, backward -----------------------------------------------------------------------


def _add_norm(
    x: Any, branch: Any, weight: Any, eps: float, *, lost: str = "", constant: str = ""
) -> tuple[Any, Any]:
    """The new stream h = x + branch, and y = γ LN(h), with parts hidden from autograd."""
    h = x + branch
    into = hidden_from_autograd(h) if lost == "norm" else h
    if constant == "mean":
        into = h - hidden_from_autograd(h.mean(-1, keepdim=True))
        variance = ((h - h.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True)
        y = into / (variance + eps) ** 0.5 * weight
    elif constant == "variance":
        y = _held(h, eps) * weight
    else:
        y = layer_norm(into, weight, None, eps)
    return (hidden_from_autograd(h) + 0 * x if lost == "stream" else h), y


def _held(h: Any, eps: float) -> Any:
    centred = h - h.mean(-1, keepdim=True)
    return centred / (hidden_from_autograd((centred**2).mean(-1, keepdim=True)) + eps) ** 0.5


def _compare_add_norm(
    answer: Any, x: np.ndarray, rng: Rng, *, eps: float = 1e-2, **how: Any
) -> None:
    shape, dtype = x.shape, x.dtype
    branch = normal(rng, *shape)
    weight, grad_h, grad_y = weights(rng, shape[-1]), normal(rng, *shape), normal(rng, *shape)
    wide = [a.astype(dtype).astype(np.float64) for a in (x, branch, weight, grad_h, grad_y)]
    x, branch, weight, grad_h, grad_y = wide

    def found(w: np.ndarray = weight, **parts: Any) -> tuple[np.ndarray, ...]:
        return gradients(
            lambda x, f, w: _add_norm(x, f, w, eps, **parts), (x, branch, w), (grad_h, grad_y)
        )

    right, lost = found(), found(lost="stream")
    through = gradients(
        lambda h, w: layer_norm(h, w, None, eps), (x + branch, weight), (grad_y + grad_h,)
    )[0]
    known = [
        Known("the gradient that comes along the stream is lost", (lost[0], lost[1], None)),
        Known(
            "the gradient of the stream goes past the norm, not through it",
            (through, through, None),
        ),
        Known("the path through the norm is lost", (*found(lost="norm")[:2], None)),
        Known("γ is missing", (*found(np.ones_like(weight))[:2], None)),
        Known("the path through the mean is missing", (*found(constant="mean")[:2], None)),
        Known("the path through the variance is missing", (*found(constant="variance")[:2], None)),
        Known(
            "x gets the stream's gradient alone and the branch the norm's alone; h = x + branch "
            "hands its whole gradient to both",
            (grad_h, lost[1], None),
        ),
        Known(
            "h = x + branch hands its whole gradient to both, not half of it",
            (right[0] / 2, right[1] / 2, None),
        ),
        Known("the gradient of γ uses h; what γ multiplies is ĥ", (
            None, None, (grad_y * (x + branch)).reshape(-1, shape[-1]).sum(0))),
    ]  # fmt: skip
    arguments = [a.astype(dtype) for a in (grad_h, grad_y, x + branch, weight)]
    names = ("grad_x", "grad_branch", "grad_weight")

    def slips() -> Iterator[Known]:
        """The terms of the gradient of h, another norm's gradient, and the sum for γ."""
        norm, n = right[0] - grad_h, shape[-1]
        mean = right[0] - found(constant="mean")[0]
        variance = right[0] - found(constant="variance")[0]
        terms = {
            "the gradient along the stream": grad_h,
            "the direct path through the norm": norm - mean - variance,
            "the path through the mean": mean,
            "the path through the variance": variance,
        }
        instead = {
            "the gradient along the stream": {
                "γ multiplies the stream's gradient; it belongs to the norm alone": grad_h * weight
            },
            "the path through the mean": {"a sum stands for the mean of g": n * mean},
            "the path through the variance": {"a sum stands for the mean of g ĥ": n * variance},
        }
        for known in term_slips(terms, instead):
            yield known._replace(outputs=(known.outputs[0], known.outputs[0], None))
            yield Known(f"in grad_x alone: {known.words}", (known.outputs[0], right[1], None))
            yield Known(f"in grad_branch alone: {known.words}", (right[0], known.outputs[0], None))
        h = x + branch
        for known in gradient_slips(h, grad_y * weight, eps, (-1,), gradients):
            yield known._replace(
                outputs=(known.outputs[0] + grad_h, known.outputs[0] + grad_h, None)
            )
        tokens = h.size // n
        through = gradients(
            lambda h, w: layer_norm(h, w, None, eps), (h, weight), (grad_y + grad_h,)
        )
        for words, value in (
            ("the gradient of γ is a mean; the loss sums over all tokens", right[2] / tokens),
            (
                "γ gets the stream's gradient as well; the stream does not pass through γ",
                through[1],
            ),
            ("γ is in its own gradient", right[2] * weight),
        ):
            yield Known(words, (None, None, value))

    compare(answer(*arguments, eps), right, names, known, slips=slips, **how)


def _fused_values(answer: Any, rng: Rng) -> None:
    _compare_add_norm(answer, normal(rng, *sizes(rng, (2, 3), (4, 5), (6, 8))), rng)


def _fused_two_axes(answer: Any, rng: Rng) -> None:
    _compare_add_norm(answer, normal(rng, *sizes(rng, (3, 5), (6, 8))), rng)


def _fused_float32(answer: Any, rng: Rng) -> None:
    x = normal(rng, 2, 3, 8).astype(np.float32)
    _compare_add_norm(answer, x, rng, tolerance=2e-5, dtype="float32")


# --- a Pre-LN block -------------------------------------------------------------------------------


def _two(x: Any, pairs: Any, step: Callable[..., Any]) -> Any:
    """Two steps one after the other, each with its sublayer and its γ and β."""
    for sublayer, affine in pairs:
        x = step(x, sublayer, affine)
    return x


def _pre_case(rng: Rng) -> dict[str, Any]:
    batch, length, features = sizes(rng, (2, 3), (4, 5), (6, 8))
    return {
        "x": normal(rng, batch, length, features, scale=2.5),
        "sublayers": [Sublayer(0.6 * rng.normal(size=(features, features))) for _ in range(2)],
        "affine": [weights(rng, features), normal(rng, features)],
        "affine_2": [weights(rng, features), normal(rng, features)],
    }


def _wirings(case: dict[str, Any], eps: float) -> list[np.ndarray]:
    """What wrong wirings of the two steps give."""
    (attention, feed_forward), x = case["sublayers"], case["x"]
    pairs = list(zip((attention, feed_forward), (case["affine"], case["affine_2"]), strict=True))
    crossed = list(zip((attention, feed_forward), (case["affine_2"], case["affine"]), strict=True))

    def norm(x: Any, affine: list) -> Any:
        return layer_norm(x, affine[0], affine[1], eps)

    def pre(x: Any, sublayer: Sublayer, affine: list) -> Any:
        return _step("pre", x, sublayer, affine, eps)

    (f, a), (g, b) = pairs
    return [
        _two(x, pairs, lambda x, f, a: norm(x + f(x), a)),
        _two(x, pairs, lambda x, f, a: norm(x, a) + f(norm(x, a))),
        x + f(norm(x, a)) + g(norm(x, b)),
        _two(x, pairs, lambda x, f, a: x + norm(f(x), a)),
        _two(x, crossed, pre),
        _two(x, [(f, a), (g, a)], pre),
        _two(x, pairs, lambda x, f, a: f(norm(x, a))),
        _two(x, pairs, lambda x, f, a: x + f(x)),
        _two(x, pairs[::-1], pre),
        x + g(norm(pre(x, f, a), b)),
        _two(x, pairs, lambda x, f, a: 2 * f(norm(x, a))),
        pre(x, f, a) * g(norm(pre(x, f, a), b)),
    ]


WIRING_WORDS = (
    "that is Post-LN: the norm stands behind the sum, on the stream",
    "the skip carries the normalized x. In Pre-LN the stream itself passes untouched",
    "both branches read the same x; the second must read what the first has left",
    "the norm stands at the end of the branch, as in OLMo 2; Pre-LN has it at the start",
    "the two norms' parameters are exchanged",
    "both norms use the first one's γ and β",
    "the skip connection is missing",
    "there is no norm in it",
    "the feed-forward step comes first; attention comes first",
    "the second skip begins at the layer's input, so what attention has added is lost",
    "each branch is added to itself: x was overwritten before the sum",
    "the stream and the second branch are multiplied; a residual step adds",
)


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


def _compare_block(answer: Any, case: dict[str, Any], eps: float = 1e-3) -> None:
    pairs = zip(case["sublayers"], (case["affine"], case["affine_2"]), strict=True)
    right = _two(case["x"], pairs, lambda x, f, a: _step("pre", x, f, a, eps))
    wrong = _wirings(case, eps)
    known = [Known(words, (w,)) for words, w in zip(WIRING_WORDS, wrong, strict=True)]

    def slips() -> Iterator[Known]:
        """Other norms in the right wiring, and the wirings that leave one of the norms out."""
        (f, a), (g, b) = zip(case["sublayers"], (case["affine"], case["affine_2"]), strict=True)
        x = case["x"]
        first = _step("pre", x, f, a, eps)

        def ln(x: np.ndarray, affine: list) -> np.ndarray:
            return layer_norm(x, affine[0], affine[1], eps)

        for words, value in (
            ("a norm stands behind the last sum; a block ends with the sum", ln(right, b)),
            ("the second branch reads the stream without a norm", first + g(first)),
            ("the first branch reads the stream without a norm", _step("pre", x + f(x), g, b, eps)),
            ("the first branch is missing", _step("pre", x, g, b, eps)),
            ("the second branch is missing", first),
            ("the second branch reads the first branch, not the stream", x + g(ln(f(ln(x, a)), b))),
            (
                "each branch has a second norm at its end: that is the sandwich",
                _two(x, [(f, a), (g, b)], lambda x, f, a: x + ln(f(ln(x, a)), a)),
            ),
            ("both norms use the second one's γ and β", _two(
                x, [(f, b), (g, b)], lambda x, f, a: _step("pre", x, f, a, eps))),
        ):  # fmt: skip
            yield Known(words, (value,))
        for words, norm in layer_norms().items():

            def other(x: Any, f: Sublayer, a: list, norm: Any = norm) -> Any:
                return x + f(norm(x, *a, eps))

            yield Known(words, (_two(x, [(f, a), (g, b)], other),))

    value = answer(case["x"], *case["sublayers"], *case["affine"], *case["affine_2"], eps)
    compare(value, (right,), ("the new stream",), known, slips=slips)


def _pre_values(answer: Any, rng: Rng) -> None:
    _compare_block(answer, _pre_case(rng))


def _pre_large(answer: Any, rng: Rng) -> None:
    case = _pre_case(rng)
    case["x"] = 1e4 * case["x"]
    _compare_block(answer, case)


def _pre_silent(answer: Any, rng: Rng) -> None:
    case = _pre_case(rng)
    case["sublayers"] = [Sublayer(0 * s.weight) for s in case["sublayers"]]
    _compare_block(answer, case)


# --- DeepNorm's alpha -----------------------------------------------------------------------------


def _compare_alpha(answer: Any, rng: Rng, alpha: float) -> None:
    case = _pre_case(rng)
    x, f, (weight, bias), eps = case["x"], case["sublayers"][0], case["affine"], 1e-3

    def normed(h: np.ndarray) -> np.ndarray:
        return layer_norm(h, weight, bias, eps)

    known = [
        Known(
            "α multiplies the branch. DeepNorm makes the skip path larger, so that deep layers "
            "change the stream little",
            (normed(x + alpha * f(x)),),
            handed_out=True,
        ),
        Known("α multiplies the sum, and the norm forgets it", (normed(alpha * (x + f(x))),)),
        Known("α is gone", (normed(x + f(x)),)),
        Known("α stands behind the norm", (alpha * normed(x + f(x)),)),
        Known("the branch must read x itself, not αx", (normed(alpha * x + f(alpha * x)),)),
        Known("γ and β are missing", (layer_norm(alpha * x + f(x), None, None, eps),)),
    ]
    from normtutor import wiring

    row = wiring.Wiring(("stream",), skip=lambda layer, depth: alpha)
    right = _step(row, x, f, [weight, bias], eps)

    def slips() -> Iterator[Known]:
        """The skip, the branch and the norm, each of them changed."""
        skip = {
            "the skip connection is missing": 0 * x,
            "the skip is divided by α": x / alpha,
            "α is squared": alpha**2 * x,
            "a root of α is taken": alpha**0.5 * x,
            "α is added to the stream; it multiplies it": alpha + x,
            "1 − α multiplies the stream": (1 - alpha) * x,
        }
        branch = {
            "the branch is missing": 0 * x,
            "the branch is multiplied by 1 − α": (1 - alpha) * f(x),
            "the branch is divided by α": f(x) / alpha,
            "the branch reads the normalized stream": f(normed(x)),
            "the branch is taken away in place of being added": -f(x),
        }
        norm: dict[str, Any] = layer_norms()
        norm["there is no norm in it"] = lambda h, weight, bias, eps: h
        whole, change = alpha * x, f(x)

        def step(skip: Any = whole, branch: Any = change, norm: Any = layer_norm) -> tuple:
            return (norm(skip + branch, weight, bias, eps),)

        yield Known(
            "that is Pre-LN: the norm stands in front of the branch, not on the sum",
            (alpha * x + f(normed(x)),),
        )
        yield from variations(step, skip=skip, branch=branch, norm=norm)

    compare(answer(x, f, alpha, weight, bias, eps), (right,), ("y",), known, slips=slips)


def _alpha_values(answer: Any, rng: Rng) -> None:
    _compare_alpha(answer, rng, float(rng.uniform(2, 4)))


def _alpha_one(answer: Any, rng: Rng) -> None:
    _compare_alpha(answer, rng, 1.0)


def _alpha_large(answer: Any, rng: Rng) -> None:
    _compare_alpha(answer, rng, 1000.0)


TASKS = (
    Task(
        "07.1",
        "predict",
        "How large is the stream?",
        "prediction_07_1",
        1,
        (Check("prediction", _variance),),
    ),
    Task(
        "07.2",
        "predict",
        "What is left of the input?",
        "prediction_07_2",
        1,
        (Check("prediction", _skip_weight),),
    ),
    Task(
        "07.3",
        "implement",
        "Add and norm, backward",
        "add_norm_backward",
        4,
        (
            Check("gradients", _fused_values, first=True),
            Check("shapes: tokens without a batch axis", _fused_two_axes),
            Check("dtypes: float32", _fused_float32),
        ),
    ),
    Task(
        "07.4",
        "implement",
        "A Pre-LN block",
        "pre_ln_block",
        3,
        (
            Check("values", _pre_values, first=True),
            Check("edge case: branches that give zero", _pre_silent),
            Check("numerics: a large stream", _pre_large),
        ),
    ),
    Task(
        "07.5",
        "repair",
        "DeepNorm's α",
        "deep_norm_step",
        3,
        (
            Check("values", _alpha_values, first=True),
            Check("edge case: α = 1", _alpha_one),
            Check("numerics: α = 1000", _alpha_large),
        ),
    ),
    Task("07.6", "explain", "Why warm-up?", "explanation_07_6", 2),
)
