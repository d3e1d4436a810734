"""Coursework on what language models use: norms on queries and keys, massive entries."""

from dataclasses import replace
from typing import Any

import numpy as np

from normtutor.grading.judging import Check, Task, compare, prediction
from normtutor.grading.references import faint, normal, rms_norm, sizes, weights
from normtutor.grading.slips import RMS, Formula, around

Rng = np.random.Generator


def _bound(answer: Any, rng: Rng, features: int = 64) -> None:
    query = rms_norm(np.linspace(-1.0, 2.0, features), eps=0.0)
    known = [
        (features, "that is the inner product; attention divides it by √d"),
        (1, "the inner product of unit vectors; RMSNorm gives vectors of length √d"),
        (
            features**-0.5,
            "the inner product of unit vectors, divided by √d; RMSNorm gives length √d",
        ),
        (features**2, "q has length √d, not d"),
        (features**1.5, "q has length √d, not d"),
    ]
    prediction(answer(), float(query @ query / np.sqrt(features)), known, 0.001)


# --- attention with normalized queries and keys ---------------------------------------------------


def _softmax(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


QK = Formula(
    """
    queries = norm(q, weight_q)
    keys = norm(k, weight_k)
    scores = where(seen, dot(queries, keys) / root(features), hidden)
    shares = softmax(scores)
    y = shares @ v
    """,
    said={
        "norm": "the norm", "weight_q": "γ_q", "weight_k": "γ_k", "dot": "qᵀk", "features": "d",
        "softmax": "the softmax", "seen": "the mask", "shares": "the weights of the values",
        "y": "the output",
    },
    alike=("q k v", "weight_q weight_k", "queries keys q k"),
    more={
        "queries and keys are not normalized": "queries = q; keys = k",
        "γ multiplies, but nothing is normalized": "queries = q * weight_q; keys = k * weight_k",
        "queries and keys are exchanged": "queries = norm(k, weight_k); keys = norm(q, weight_q)",
        "only the queries are normalized": "keys = k",
        "only the keys are normalized": "queries = q",
        "the values are normalized as well; QK-norm leaves them alone": "y = shares @ norm(v)",
        "the keys and the values are normalized; it should be queries and keys":
            "queries = q; y = shares @ norm(v, weight_q)",
        "a token looks at the tokens after it: the causal mask is missing": "seen = everything",
        "the mask is inverted: a token looks at those after it": "seen = seen.T",
        "a token must see itself, too: the mask is off by one": "seen = before",
        "a token sees one token of the future: the mask is off by one": "seen = next",
        "what the mask hides has the score zero; it must be −∞": "hidden = 0",
        "the mask comes after the softmax: the weights of a token no longer sum to 1":
        "scores = dot(queries, keys) / root(features); shares = where(seen, softmax(scores), 0)",
        "the softmax runs over the queries; the weights of one query must sum to 1":
            "shares = softmax(scores, -2)",
        "the factor 1/√d on the scores is missing": "features = 1",
        "the scores are divided by d, not by its root": "features = features ** 2",
        "the scores are divided by the root of the length, not of d": "features = length",
        "the scores are divided by the root of the number of heads, not of d": "features = heads",
    },
)  # fmt: skip
HEAD = replace(
    RMS,
    axes=(3,),
    rank=4,
    more={
        "the statistics run over the positions; each head of each token has its own": "axes = (2,)",
        "the heads share a statistic: it runs over them, not over d": "axes = (1,)",
        "the heads of a token share one statistic; each head has its own": "axes = (1, 3)",
        **RMS.more,
    },
)


def _heads(rng: Rng) -> tuple[list[np.ndarray], list[np.ndarray]]:
    shape = sizes(rng, (2, 2), (3, 4), (5, 6), (7, 9))
    qkv = [faint(normal(rng, *shape, scale=2.0)) for _ in range(3)]
    return qkv, [weights(rng, shape[-1]) for _ in range(2)]


def _compare_qk(
    answer: Any, qkv: list[np.ndarray], gammas: list[np.ndarray], eps: float = 0.05, **how: Any
) -> None:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    q, k, v, *wide = (a.astype(np.float64) for a in (*qkv, *gammas))
    heads, length, features = q.shape[1:]
    seen = np.tri(length, dtype=bool)
    given: dict[str, Any] = {
        "q": q,
        "k": k,
        "v": v,
        "weight_q": wide[0],
        "weight_k": wide[1],
        "seen": seen,
        "everything": seen | True,
        "before": np.tri(length, k=-1, dtype=bool),
        "next": np.tri(length, k=1, dtype=bool),
        "hidden": -1e30,
        "where": np.where,
        "softmax": _softmax,
        "dot": lambda a, b: a @ np.swapaxes(b, -1, -2),
        "features": features,
        "heads": heads,
        "length": length,
    }
    queries, keys = (torch.tensor(rms_norm(a, w, eps)) for a, w in zip((q, k), wide, strict=True))
    right = scaled_dot_product_attention(queries, keys, torch.tensor(v), is_causal=True).numpy()

    def slips() -> Any:
        return around(QK, HEAD, eps, **given)

    compare(answer(*qkv, *gammas, eps), (right,), ("the output",), slips=slips, **how)


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


SHARED = (
    "one statistic for all heads of a token. Some models do that; here each head of each token is "
    "to have its own"
)
SPLIT = replace(
    RMS,
    axes=(3,),
    rank=4,
    more={
        SHARED: "axes = (2, 3)",
        "the squares of all heads are summed, and divided by the size of one head":
            "psi_squared = total(x ** 2, (2, 3)) / size",
        "that is LayerNorm: a mean is subtracted": "x = x - mean(x)",
        "the features are split into heads in the wrong order: neighbours belong together":
            "x = interleaved; psi_squared = mean(x ** 2, (2,)); weight = weight_of_interleaved",
        "the features are split into heads in the wrong order, and γ as well: neighbours belong "
        "together": "x = interleaved; psi_squared = mean(x ** 2, (2,)); weight = column(weight)",
        "γ is repeated entry by entry; it should be repeated as a whole": "weight = repeated",
        **RMS.more,
    },
    handed_out=SHARED,
)  # fmt: skip


def _compare_heads(answer: Any, rng: Rng, heads: int, size: int, spread: float = 3.0) -> None:
    batch, length = 2, 5
    scale = np.repeat(np.linspace(1.0, spread, heads), size)  # the heads differ in size
    q = faint(normal(rng, batch, length, heads * size) * scale, 1)
    weight, eps = weights(rng, size), 0.05
    x = q.reshape(batch, length, heads, size)
    given = {"x": x, "weight": weight, "eps": eps, "size": size}
    given["interleaved"] = q.reshape(batch, length, size, heads)
    given["weight_of_interleaved"] = np.tile(weight, heads).reshape(size, heads)
    given["repeated"] = np.repeat(weight, heads).reshape(heads, size)
    slips = SPLIT.known("y", **given)
    right = rms_norm(x, weight, eps).reshape(q.shape)
    compare(answer(q, weight, heads, eps), (right,), ("q",), slips=slips)


# --- a bound with γ -------------------------------------------------------------------------------

BOUND = Formula(
    """
    both = abs(weight_q * weight_k)
    largest = root(features) * highest(both)
    """,
    axes=(0,),
    rank=1,
    said={"weight_q": "γ_q", "weight_k": "γ_k", "features": "d", "highest": "the maximum",
          "both": "|γ_q γ_k|", "largest": "the bound"},
    alike=("weight_q weight_k",),
    more={
        "the largest of γ_q and the largest of γ_k need not stand in the same feature; the bound "
        "can be made tighter": "largest = root(features) * highest(abs(weight_q)) "
        "* highest(abs(weight_k))",
        "a negative product counts as well: k may point the other way":
            "both = weight_q * weight_k",
        "the root of d is missing: q and k have length √d each, and the scores are divided by √d":
            "largest = highest(both)",
        "that is the inner product; the scores are divided by √d":
            "largest = features * highest(both)",
        "all features are summed; q and k can put all of their length into one":
            "largest = root(features) * total(both, (0,))",
        "the mean over the features is taken, as for q and k with equal entries; they can put all "
        "of their length into one": "largest = root(features) * mean(both)",
        "the products are added with their signs; q and k can put all of their length into one":
            "largest = root(features) * abs(total(weight_q * weight_k, (0,)))",
        "that is the length of the vector γ_q γ_k; q and k can put all of theirs into one entry":
            "largest = root(total(both ** 2, (0,)))",
        "the length of the vector γ_q γ_k stands where its largest entry belongs":
            "largest = root(features) * root(total(both ** 2, (0,)))",
        "the lengths of γ_q and γ_k are multiplied, which is larger than any score":
            "largest = root(total(weight_q ** 2, (0,)) * total(weight_k ** 2, (0,)))",
    },
)  # fmt: skip


def _compare_bound(answer: Any, rng: Rng, features: int) -> None:
    # The largest product is negative, and neither of its factors is the largest of its kind.
    weight_q, weight_k = rng.uniform(0.2, 1.0, (2, features)) * rng.choice((-1, 1), (2, features))
    place, of_q, of_k = (*rng.permutation(features), 0, 0)[:3]
    weight_q[of_q], weight_k[of_k] = rng.choice((-1, 1), 2) * (4.5, 3.5)
    weight_q[place], weight_k[place] = rng.choice(((2.2, -2.2), (-2.2, 2.2)))
    query = rms_norm(np.eye(features)[place], weight_q, eps=0.0)
    key = rms_norm(np.eye(features)[place], weight_k, eps=0.0)
    slips = BOUND.known(
        "largest", weight_q=weight_q, weight_k=weight_k, features=features,
        highest=lambda v: v.max(keepdims=True),
    )  # fmt: skip
    right = np.abs(query @ key) / np.sqrt(features)
    compare(answer(weight_q, weight_k), (right,), ("the bound",), slips=slips)


# --- switched off ---------------------------------------------------------------------------------

SWITCH = Formula(
    """
    square = mean(x ** 2)
    y = x / root(square + eps)
    others = total(where(largest, 0, y) ** 2, axes) / (features - 1)
    left = root(others)
    """,
    axes=(1,),
    rank=2,
    said={"square": "ψ²", "others": "the mean square of the others", "left": "what is left",
          "largest": "the largest entry", "where": "", "features": "d"},
    alike=("x y",),
    more={
        "the largest entry counts as well": "others = mean(y ** 2)",
        "the largest entry counts as zero, and is still one of d":
            "others = total(where(largest, 0, y) ** 2, axes) / features",
        "the largest entry is taken out before the norm; it should be in its statistic":
            "square = total(where(largest, 0, x) ** 2, axes) / (features - 1)",
        "the largest entry is set to zero before the norm; it should be in its statistic":
            "square = mean(where(largest, 0, x) ** 2)",
        "nothing is normalized": "y = x",
        "the mean is subtracted; RMSNorm keeps it": "x = x - mean(x)",
        "that is the mean square; take its root": "left = others",
        "the largest x is taken out, not the largest |x|": "largest = highest",
        "that is the mean of |y|, not the root of the mean of its squares":
            "left = total(abs(where(largest, 0, y)), axes) / (features - 1)",
        "the statistic runs over the tokens; each token has its own": "axes = (0,)",
        "that is the share of the largest entry": "left = 1 - others / mean(y ** 2)",
    },
)  # fmt: skip


def _compare_switch(answer: Any, rng: Rng, size: float, eps: float = 0.05) -> None:
    tokens, features = sizes(rng, (4, 6), (7, 9))
    x = normal(rng, tokens, features)
    x[np.arange(tokens), rng.integers(0, features, tokens)] = -size
    x[0] *= 0.05
    largest = np.abs(x) == np.abs(x).max(1, keepdims=True)
    given = {"x": x, "largest": largest, "highest": x == x.max(1, keepdims=True), "eps": eps}
    slips = SWITCH.known("left", **given, features=features, where=np.where)
    y = np.where(largest, 0, rms_norm(x, eps=eps))
    right = np.sqrt((y**2).sum(1) / (features - 1))
    compare(answer(x, eps), (right,), ("what is left",), slips=slips)


TASKS = (
    Task("08.1", "predict", "The largest score", "prediction_08_1", 1,
         (Check("prediction", _bound),), numbers={"features": range(16, 512, 8)}),
    Task("08.2", "implement", "Attention with QK-norm", "qk_norm_attention", 4, (
        Check("values", lambda answer, rng: _compare_qk(answer, *_heads(rng)), first=True),
        Check("edge case: one token", _qk_one),
        Check("numerics: large scores", _qk_large),
        Check("dtypes: float32", _qk_float32),
    )),
    Task("08.3", "repair", "Queries that nearly vanish", "normalize_queries", 3, (
        Check("values", lambda answer, rng: _compare_heads(
            answer, rng, *sizes(rng, (3, 4), (6, 8))), first=True),
        Check("edge case: one head", lambda answer, rng: _compare_heads(answer, rng, 1, 6)),
        Check("numerics: heads of very different size", lambda answer, rng: _compare_heads(
            answer, rng, 4, 4, spread=1e4)),
    )),
    Task("08.4", "explain", "Why RMSNorm, why in front?", "explanation_08_4", 2),
    Task("08.5", "implement", "The largest score with γ", "largest_score", 2, (
        Check("values", lambda answer, rng: _compare_bound(
            answer, rng, int(rng.integers(16, 40))), first=True),
        Check("edge case: one feature", lambda answer, rng: _compare_bound(answer, rng, 1)),
    )),
    Task("08.6", "implement", "Switched off", "left_by_the_norm", 2, (
        Check("values", lambda answer, rng: _compare_switch(answer, rng, 9.0), first=True),
        Check("numerics: a massive entry", lambda answer, rng: _compare_switch(answer, rng, 1e6)),
    )),
)  # fmt: skip
