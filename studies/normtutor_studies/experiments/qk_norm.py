"""Attention logits with and without a norm on queries and keys, over learning rates.

Recorded along the training: the largest logit (in absolute value, over heads, layers and allowed
pairs of tokens), the bound that the norm's weights set, and the entropy of the attention weights
as a share of the largest possible. The test loss is taken at the end.

Control: a smaller rate would also keep logits small, so both models are trained at six rates from
0.004 to 0.128, and the smaller ones show what the norm costs where it is not needed. The best rate
of either model lies inside this grid. Nothing else protects the runs: no clipping, no weight decay.
Such remedies are compared in :mod:`normtutor_studies.experiments.logit_remedies`. An eleventh seed,
40, run afterwards and not on record, lies where the ten expect it in five of six rows; rate 0.004:
0.0159, expected 0.0044 to 0.0155. For 1,000 steps see :mod:`normtutor_studies.experiments.qk_norm_longer`.
Embeddings have the usual size; with large ones all losses are lower and QK-norm ends ahead at the
best rate, too (:mod:`normtutor_studies.experiments.qk_norm_embeddings`). Not checked: larger models,
for which the norm was proposed.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from normtutor.models import TransformerLM
from normtutor.training import evaluation_mode, mean_token_loss
from normtutor_studies.experiments import package_chunks
from normtutor_studies.experiments.package_chunks import Size, fingerprint, train_models
from normtutor_studies.experiments.records import Saved, short

__all__ = ["CONFIG", "SEEDS", "Condition", "Config", "fingerprint", "logits", "run"]

CHAPTER = "08_after_2020"
FIGURE = "fig-after-qk"
FINDING = "logits grow with the learning rate, and QK-norm bounds them"
XLABEL = "test loss with QK-norm minus without (nats/token)"
SEEDS = tuple(range(10, 20))


@dataclass(frozen=True)
class Condition:
    """A norm for queries and keys, or "none", with a learning rate."""

    qk_norm: str
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    size: Size = field(default_factory=lambda: Size(steps=300, warmup=30))
    norm: str = "rms"
    wiring: str = "pre"
    depth: int = 3
    evaluate_every: int = 15


RATES = (4e-3, 8e-3, 16e-3, 32e-3, 64e-3, 128e-3)
CONFIG = Config(tuple(Condition(norm, rate) for norm in ("none", "rms") for rate in RATES))
REDUCED = {
    "size": Size(width=8, heads=2, steps=4, warmup=2, held_out_chunks=64),
    "conditions": (Condition("none", 4e-3), Condition("rms", 4e-3)),
    "depth": 2,
}


@torch.no_grad()
def logits(model: TransformerLM, tokens: Tensor) -> list[Tensor]:
    """Attention logits of every layer, (B, heads, L, L), −inf where a token may not look."""
    length = tokens.shape[1]
    hidden = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
    x = model.embed(tokens)
    found = []
    for layer in model.layers:
        step: Any = layer.attention_step
        attention: Any = layer.attention
        h = x if step.norm_in is None else step.inside * step.norm_in(x)
        query, key, _ = attention.split(h)
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        found.append(scores.masked_fill(hidden, -math.inf))
        x = layer(x)
    return found


def bound(model: TransformerLM) -> float:
    """The largest logit that the norms on queries and keys allow; inf without them."""
    largest = 0.0
    for layer in model.layers:
        attention: Any = layer.attention
        gains = [
            getattr(norm, "weight", None) for norm in (attention.query_norm, attention.key_norm)
        ]
        if gains[0] is None or gains[1] is None:
            return math.inf
        product = (gains[0] * gains[1]).abs().max().item() * math.sqrt(len(gains[0]))
        largest = max(largest, product)
    return largest


def measure(model: TransformerLM, tokens: Tensor) -> dict[str, float]:
    """Largest logit, its bound, and the mean entropy of the attention weights as a share."""
    with evaluation_mode(model):
        found = logits(model, tokens)
    largest, entropies = summary(found)
    return {
        "largest": largest,
        "bound": short(bound(model)),
        "entropy": short(float(np.mean(entropies))),
        "least_entropy": short(min(entropies)),
    }


def summary(found: list[Tensor]) -> tuple[float, list[float]]:
    """The largest logit of all layers, and each layer's entropy of the weights as a share."""
    allowed = torch.isfinite(found[0])
    most = torch.log(torch.arange(1, found[0].shape[-1] + 1))
    shares = []
    for scores in found:
        log_weights = torch.log_softmax(scores, dim=-1)
        entropy = -(log_weights.exp() * log_weights.masked_fill(~allowed, 0.0)).sum(-1)
        shares.append((entropy[..., 1:] / most[1:]).mean().item())  # the first sees itself alone
    return short(max(scores[allowed].abs().max().item() for scores in found)), shares


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed, all rates of a norm together."""
    norms = dict.fromkeys(condition.qk_norm for condition in config.conditions)
    return [record for norm in norms for record in train_norm(config, norm, seed)]


def train_norm(config: Config, norm: str, seed: int, **settings: Any) -> list[dict[str, Any]]:
    """Train the models with this norm at all its rates; ``settings`` are further ones of theirs."""
    tokens = package_chunks.held_out(config.size, "validation")[0].inputs[:16]
    rates = [c.learning_rate for c in config.conditions if c.qk_norm == norm]
    first: list[dict[str, float]] = []
    trained = train_models(
        config.size,
        [(seed, rate) for rate in rates],
        adjust=lambda model: first.append({"step": 0, **measure(model, tokens)}),
        training={
            "evaluate": partial(measure, tokens=tokens),
            "evaluate_every": config.evaluate_every,
        },
        depth=config.depth,
        norm=config.norm,
        wiring=config.wiring,
        qk_norm=norm,
        tied=False,
        **settings,
    )
    records = []
    for rate, start, (model, history) in zip(rates, first, trained, strict=True):
        losses = {
            part: math.nan
            if history.diverged
            else round(mean_token_loss(model, package_chunks.held_out(config.size, part)), 4)
            for part in ("validation", "test")
        }
        points = [start, *history.evaluations]
        records.append(
            {
                "qk_norm": norm,
                "learning_rate": rate,
                "diverged": history.diverged,
                "loss": losses["test"],
                "validation": losses["validation"],
                "worst": short(max(history.loss), 5),
                **{key: [point[key] for point in points] for key in start},
            }
        )
    return records


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss with QK-norm minus without, paired by seed."""
    rates = dict.fromkeys(condition["learning_rate"] for condition in saved.config["conditions"])
    return {
        f"rate {rate:g}": saved.values("loss", qk_norm="rms", learning_rate=rate)
        - saved.values("loss", qk_norm="none", learning_rate=rate)
        for rate in rates
    }
