"""Coursework on what language models use: norms on queries and keys."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from normtutor.grading.judging import Check, Known, Task, compare, prediction
from normtutor.grading.references import layer_norm, normal, rms_norm, sizes, weights
from normtutor.grading.slips import layer_norms, norm_slips, variations

Rng = np.random.Generator


def _bound(answer: Any, rng: Rng) -> None:
    query = rms_norm(np.linspace(-1.0, 2.0, 64), eps=0.0)
    known = [
        (64, "that is the inner product; attention divides it by √d"),
        (1, "the inner product of unit vectors; RMSNorm gives vectors of length √d"),
        (1 / 8, "the inner product of unit vectors, divided by √d; RMSNorm gives length √d"),
        (4096, "q has length √d, not d"),
        (512, "q has length √d, not d"),
    ]
    prediction(answer(), float(query @ query / np.sqrt(64)), known, 0.001)


# --- attention with normalized queries and keys ---------------------------------------------------


def _attention(
    qk: list[Any],
    v: Any,
    *,
    causal: bool = True,
    scale: Any = None,
    axis: int = -1,
    mask: Any = None,
) -> Any:
    """Attention by torch, and by hand only where a mistake leaves what torch can do.

    Where ``mask`` hides all from a token, it sees all: scores of -1e30 in their place do that.
    """
    import torch
    import torch.nn.functional as F

    q, k, v = (torch.tensor(np.asarray(a)) for a in (*qk, v))
    if mask is not None:
        scores = torch.tensor(np.where(mask, 0.0, -1e30))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=scores, scale=scale).numpy()
    if axis == -1:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale).numpy()
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    blocked = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return (scores.masked_fill(blocked, -torch.inf).softmax(axis) @ v).numpy()


def _heads(rng: Rng) -> tuple[list[np.ndarray], list[np.ndarray]]:
    shape = sizes(rng, (2, 2), (3, 4), (5, 6), (7, 9))
    qkv = [normal(rng, *shape, scale=2.0) for _ in range(3)]
    return qkv, [weights(rng, shape[-1]) for _ in range(2)]


def _compare_qk(
    answer: Any, qkv: list[np.ndarray], gammas: list[np.ndarray], eps: float = 1e-2, **how: Any
) -> None:
    wide = [a.astype(np.float64) for a in qkv]
    wide_gammas = [a.astype(np.float64) for a in gammas]
    q, k, v = wide
    normed = [rms_norm(a, w, eps) for a, w in zip((q, k), wide_gammas, strict=True)]
    layered = [layer_norm(a, w, None, eps) for a, w in zip((q, k), wide_gammas, strict=True)]
    lengths = [
        np.moveaxis(rms_norm(np.moveaxis(a, -2, -1), None, eps), -1, -2) * w
        for a, w in zip((q, k), wide_gammas, strict=True)
    ]
    crossed = [rms_norm(a, w, eps) for a, w in zip((q, k), wide_gammas[::-1], strict=True)]
    bare = [rms_norm(a, None, eps) for a in (q, k)]
    known = [
        Known("queries and keys are not normalized", (_attention([q, k], v),)),
        Known("a token looks at the tokens after it: the causal mask is missing", (
            _attention(normed, v, causal=False),)),
        Known("the factor 1/√d on the scores is missing", (_attention(normed, v, scale=1.0),)),
        Known("the values are normalized as well; QK-norm leaves them alone", (
            _attention(normed, rms_norm(v, None, eps)),)),
        Known("that is LayerNorm on queries and keys: a mean is taken away", (
            _attention(layered, v),)),
        Known("the statistics run over the positions; each head of each token has its own", (
            _attention(lengths, v),)),
        Known("the softmax runs over the queries; the weights of one query must sum to 1", (
            _attention(normed, v, axis=-2),)),
        Known("the keys and the values are normalized; it should be queries and keys", (
            _attention([q, normed[1]], rms_norm(v, wide_gammas[0], eps)),)),
        Known("γ is missing on queries and keys", (_attention(bare, v),)),
        Known("only the queries are normalized", (_attention([normed[0], k], v),)),
        Known("only the keys are normalized", (_attention([q, normed[1]], v),)),
        Known("queries and keys have each other's γ", (_attention(crossed, v),)),
    ]  # fmt: skip

    def slips() -> Iterator[Known]:
        """The norm, the scores and the mask, each of them changed, and the three roles."""
        features, ones = q.shape[-1], np.ones(q.shape[-2:-1] * 2, bool)
        norm = {
            words: [slip(a, w, 0.0, eps) for a, w in zip((q, k), wide_gammas, strict=True)]
            for words, slip in layer_norms(centred=False).items()
        }
        for axes, words in (
            ((1,), "the heads share a statistic: it runs over them, not over d"),
            ((1, 3), "the heads of a token share one statistic; each head has its own"),
            ((2, 3), "the positions share a statistic; each token has its own"),
        ):
            norm[words] = [
                a / np.sqrt((a * a).mean(axes, keepdims=True) + eps) * w
                for a, w in zip((q, k), wide_gammas, strict=True)
            ]
        norm["γ multiplies, but nothing is normalized"] = [
            a * w for a, w in zip((q, k), wide_gammas, strict=True)
        ]
        norm["queries and keys are exchanged"] = normed[::-1]
        scale = {
            "the scores are divided by d, not by its root": 1 / features,
            "the scores are multiplied by √d": features**0.5,
            "the factor 1/√d on the scores is missing": 1.0,
        }
        mask = {
            "the causal mask is missing": ones,
            "the mask is inverted: a token looks at those after it": np.triu(ones),
            "the mask is turned round, and a token does not see itself": np.triu(ones, 1),
            "a token must see itself, too: the mask is off by one": np.tril(ones, -1),
            "a token sees one token of the future: the mask is off by one": np.tril(ones, 1),
        }

        causal = np.tril(ones)

        def attended(norm: Any = normed, scale: Any = None, mask: Any = causal) -> tuple:
            return (_attention(norm, v, scale=scale, mask=mask),)

        yield from variations(attended, norm=norm, scale=scale, mask=mask)

    value = answer(*qkv, *gammas, eps)
    compare(value, (_attention(normed, v),), ("the output",), known, slips=slips, **how)


def _qk_values(answer: Any, rng: Rng) -> None:
    _compare_qk(answer, *_heads(rng))


def _qk_one(answer: Any, rng: Rng) -> None:
    qkv, gammas = _heads(rng)
    _compare_qk(answer, [a[:, :, :1] for a in qkv], gammas)


def _qk_large(answer: Any, rng: Rng) -> None:
    qkv, gammas = _heads(rng)
    _compare_qk(answer, [1e6 * qkv[0], 1e6 * qkv[1], qkv[2]], [60 * w for w in gammas])


def _qk_float32(answer: Any, rng: Rng) -> None:
    qkv, gammas = _heads(rng)
    qkv, gammas = ([a.astype(np.float32) for a in arrays] for arrays in (qkv, gammas))
    _compare_qk(answer, qkv, gammas, tolerance=2e-5, dtype="float32")


# --- per head or over all of them -----------------------------------------------------------------


def _compare_heads(answer: Any, rng: Rng, heads: int, size: int, spread: float = 3.0) -> None:
    batch, length = 2, 5
    scale = np.repeat(np.linspace(1.0, spread, heads), size)  # the heads differ in size
    q, weight, eps = normal(rng, batch, length, heads * size) * scale, weights(rng, size), 1e-3
    split = q.reshape(batch, length, heads, size)
    right = rms_norm(split, weight, eps).reshape(q.shape)
    tiled = np.tile(weight, heads)
    whole = rms_norm(q, tiled, eps)
    mixed = q.reshape(batch, length, size, heads)
    known = [
        Known(
            "one statistic for all heads of a token. Some models do that; here each head of each "
            "token is to have its own",
            (whole,),
            handed_out=True,
        ),
        Known(
            "the features are split into heads in the wrong order: neighbours belong together",
            (
                rms_norm(np.moveaxis(mixed, -1, -2), None, eps).swapaxes(-1, -2).reshape(q.shape)
                * tiled,
            ),
        ),
        Known(
            "the features are split into heads in the wrong order: neighbours belong together",
            (
                (rms_norm(np.moveaxis(mixed, -1, -2), weight, eps).swapaxes(-1, -2)).reshape(
                    q.shape
                ),
            ),
        ),
        Known("γ is missing", (rms_norm(split, None, eps).reshape(q.shape),)),
        Known(
            "that is LayerNorm: a mean is taken away",
            (layer_norm(split, weight, None, eps).reshape(q.shape),),
        ),
    ]

    def slips() -> Iterator[Known]:
        for known in norm_slips(split, weight, 0.0, eps, (-1,), centred=False):
            yield known._replace(outputs=(known.outputs[0].reshape(q.shape),))

    compare(answer(q, weight, heads, eps), (right,), ("q",), known, slips=slips)


def _heads_values(answer: Any, rng: Rng) -> None:
    _compare_heads(answer, rng, *sizes(rng, (3, 4), (6, 8)))


def _heads_one(answer: Any, rng: Rng) -> None:
    _compare_heads(answer, rng, 1, 6)


def _heads_apart(answer: Any, rng: Rng) -> None:
    _compare_heads(answer, rng, 4, 4, spread=1e4)


TASKS = (
    Task(
        "08.1", "predict", "The largest score", "prediction_08_1", 1, (Check("prediction", _bound),)
    ),
    Task(
        "08.2",
        "implement",
        "Attention with QK-norm",
        "qk_norm_attention",
        4,
        (
            Check("values", _qk_values, first=True),
            Check("edge case: one token", _qk_one),
            Check("numerics: large queries and keys", _qk_large),
            Check("dtypes: float32", _qk_float32),
        ),
    ),
    Task(
        "08.3",
        "repair",
        "A norm for each head",
        "normalize_queries",
        3,
        (
            Check("values", _heads_values, first=True),
            Check("edge case: one head", _heads_one),
            Check("numerics: heads of very different size", _heads_apart),
        ),
    ),
    Task("08.4", "explain", "Why RMSNorm, why in front?", "explanation_08_4", 2),
)
