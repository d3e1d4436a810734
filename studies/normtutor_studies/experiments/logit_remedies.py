"""What keeps attention logits small: QK-norm, clipping, weight decay, a soft cap; over rates.

A Pre-RMSNorm language model of three layers is trained at two rates: one that is good for it, and
one eight times as large, at which the logits run away. Recorded along the training are the largest
logit (in absolute value, over heads, layers and allowed pairs of tokens, after the cap if there is
one) and the entropy of the attention weights as a share of the largest possible; the test loss is
taken at the end. The strengths are those of published recipes: gradients clipped to length 1,
weight decay 0.1, logits capped at 50.

Control: a smaller rate would also keep the logits small, so every remedy is trained at the good
rate too, where it shows what it costs. A remedy that never acts can do nothing: the share of
clipped steps is recorded, and the logits of the model without a remedy say whether the cap is
reached. A sixth seed, 40, run afterwards and not on record, lies where the five expect it in all
eight rows. Embeddings have the usual size; large ones are on record for QK-norm alone
(:mod:`normtutor_studies.experiments.qk_norm_embeddings`). Not checked: other strengths, rates in between,
and more than 300 steps.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from normtutor.models import CausalAttention, TransformerLM
from normtutor.training import evaluation_mode, mean_token_loss
from normtutor_studies.experiments import package_chunks, qk_norm
from normtutor_studies.experiments.package_chunks import LARGE, Size, fingerprint, train_models
from normtutor_studies.experiments.qk_norm import summary
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "Condition", "Config", "fingerprint", "rows", "run"]

CHAPTER = "08_after_2020"
FIGURE = "none: a table of chapter 8 in depth shows it"
FINDING = (
    "in 300 steps at eight times a good rate QK-norm, weight decay and a cap keep logits below 60, "
    "clipping does not; decay ends lowest"
)
XLABEL = "test loss minus that without a remedy (nats/token)"
SEEDS = tuple(range(10, 15))

CLIP, DECAY, CAP = 1.0, 0.1, 50.0
REMEDIES = {
    "none": "no remedy",
    "qk-norm": "QK-norm",
    "clip": "clipping",
    "decay": "weight decay",
    "cap": "soft cap",
}


@dataclass(frozen=True)
class Condition:
    """A remedy, or "none", with a learning rate."""

    remedy: str
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    size: Size = field(default_factory=lambda: Size(steps=300, warmup=30))
    norm: str = "rms"
    wiring: str = "pre"
    depth: int = 3
    evaluate_every: int = 50


CONFIG = Config(tuple(Condition(remedy, rate) for remedy in REMEDIES for rate in (16e-3, 128e-3)))
LARGE_CONFIG = Config(
    tuple(Condition(remedy, rate) for remedy in REMEDIES for rate in (2e-3, 8e-3, 32e-3)),
    size=LARGE,
    depth=12,
)
REDUCED = {
    "size": Size(width=8, heads=2, steps=4, warmup=2, held_out_chunks=64),
    "conditions": tuple(Condition(remedy, 4e-3) for remedy in REMEDIES),
    "depth": 2,
}


class CappedAttention(CausalAttention):
    """Attention whose logits pass through c·tanh(z/c) before the softmax."""

    def forward(self, x: Tensor) -> Tensor:
        """Mix what the tokens carry, (B, L, H) -> (B, L, H)."""
        query, key, value = self.split(x)
        scores = capped(query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]))
        ahead = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), diagonal=1)
        weights = torch.softmax(scores.masked_fill(ahead, -math.inf), dim=-1)
        return self.project_out((weights @ value).transpose(1, 2).reshape(x.shape))


def capped(scores: Tensor) -> Tensor:
    """c·tanh(z/c): about z where z is small, never beyond c."""
    return CAP * torch.tanh(scores / CAP)


def cap(model: TransformerLM) -> None:
    """Give every layer's attention a cap, and leave its weights as they are."""
    for layer in model.layers:
        own: Any = layer.attention
        layer.attention = CappedAttention(own.project_out.in_features, own.heads)
        layer.attention.load_state_dict(own.state_dict())


def logits(model: TransformerLM, tokens: Tensor) -> list[Tensor]:
    """The attention logits that each layer's softmax gets, −inf where a token may not look."""
    found = qk_norm.logits(model, tokens)
    return [
        capped(scores).where(torch.isfinite(scores), scores)
        if isinstance(layer.attention, CappedAttention)
        else scores
        for layer, scores in zip(model.layers, found, strict=True)
    ]


def measure(model: TransformerLM, tokens: Tensor) -> dict[str, float]:
    """The largest logit, and the mean entropy of the attention weights as a share."""
    with evaluation_mode(model):
        largest, entropies = summary(logits(model, tokens))
    return {"largest": largest, "entropy": round(float(np.mean(entropies)), 5)}


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every remedy with this seed, its rates together."""
    return [
        record
        for remedy in dict.fromkeys(condition.remedy for condition in config.conditions)
        for record in _run_remedy(config, remedy, seed)
    ]


def _run_remedy(config: Config, remedy: str, seed: int) -> list[dict[str, Any]]:
    tokens = package_chunks.held_out(config.size, "validation")[0].inputs[:16]
    rates = [c.learning_rate for c in config.conditions if c.remedy == remedy]
    first: list[dict[str, float]] = []

    def prepare(model: TransformerLM) -> None:
        if remedy == "cap":
            cap(model)
        first.append({"step": 0, **measure(model, tokens)})

    trained = train_models(
        config.size,
        [(seed, rate) for rate in rates],
        adjust=prepare,
        training={
            "weight_decay": DECAY if remedy == "decay" else 0.0,
            "clip": CLIP if remedy == "clip" else None,
            "evaluate": partial(measure, tokens=tokens),
            "evaluate_every": config.evaluate_every,
        },
        depth=config.depth,
        norm=config.norm,
        wiring=config.wiring,
        qk_norm="rms" if remedy == "qk-norm" else "none",
        tied=False,
    )
    test = package_chunks.held_out(config.size, "test")
    records = []
    for rate, start, (model, history) in zip(rates, first, trained, strict=True):
        points = [start, *history.evaluations]
        record = {
            "remedy": remedy,
            "learning_rate": rate,
            "diverged": history.diverged,
            "loss": math.nan if history.diverged else round(mean_token_loss(model, test), 4),
            "worst": round(max(history.loss), 4),
            **{key: [point[key] for point in points] for key in start},
        }
        if remedy == "clip":
            record["clipped"] = round(float(np.mean(np.array(history.gradient_norm) > CLIP)), 4)
        records.append(record)
    return records


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss with each remedy minus without, paired by seed."""
    rates = dict.fromkeys(condition["learning_rate"] for condition in saved.config["conditions"])
    return {
        f"{title}, rate {rate:g}": saved.values("loss", remedy=remedy, learning_rate=rate)
        - saved.values("loss", remedy="none", learning_rate=rate)
        for rate in rates
        for remedy, title in REMEDIES.items()
        if remedy != "none"
    }
