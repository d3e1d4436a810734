"""QK-norm with embeddings 64 and 256 times as large as usual, with which these models learn more.

In :mod:`normtutor_studies.experiments.qk_norm` embeddings have the usual size, with which 300 steps end 0.3
nats higher than with large ones. There QK-norm makes no visible difference at the best rate. Does
it here, where larger rates are good ones?

Control: sizes and rates were chosen on another seed
(:mod:`normtutor_studies.experiments.qk_norm_embeddings_rates`). The best rate, 0.064 with and without the
norm, has a worse one on both sides. Without the norm 256 ends 0.002 below 64 times, so the norm is
also held against that. Nothing is clipped or decayed, so part of what the norm gains here clipping
or a decay might gain, too: :mod:`normtutor_studies.experiments.logit_remedies` has them at the usual size
alone. For 1,000 steps see :mod:`normtutor_studies.experiments.qk_norm_embeddings_longer`. Not checked:
embeddings more than 256 times as large, and whether the bound or the slower change of the two
matrices is what helps.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from normtutor_studies.experiments import qk_norm
from normtutor_studies.experiments.package_chunks import Size, fingerprint
from normtutor_studies.experiments.records import Saved

__all__ = [
    "CONFIG",
    "SEEDS",
    "Condition",
    "Config",
    "at_best",
    "best_of",
    "fingerprint",
    "rows",
    "run",
]

CHAPTER = qk_norm.CHAPTER
FIGURE = "none: a control of qk_norm, which chapter 8 cites"
FINDING = (
    "with large embeddings QK-norm ends lower at the best rate, too, by 0.016 nats; 0.008 at half "
    "of it, 0.12 at twice"
)
XLABEL = qk_norm.XLABEL
SEEDS = tuple(range(20, 25))


@dataclass(frozen=True)
class Condition(qk_norm.Condition):
    """A norm for queries and keys, a learning rate, and how much larger the embeddings are."""

    embedding_scale: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    size: Size = qk_norm.CONFIG.size
    norm: str = qk_norm.CONFIG.norm
    wiring: str = qk_norm.CONFIG.wiring
    depth: int = qk_norm.CONFIG.depth
    evaluate_every: int = 50


RATES = (32e-3, 64e-3, 128e-3)
CONFIG = Config(
    (
        *(Condition(norm, rate, 64.0) for norm in ("none", "rms") for rate in RATES),
        Condition("none", 64e-3, 256.0),
        *(Condition("rms", rate, 256.0) for rate in (64e-3, 128e-3)),
    )
)
REDUCED = {
    "size": qk_norm.REDUCED["size"],
    "conditions": tuple(Condition(norm, 4e-3, 64.0) for norm in ("none", "rms")),
    "depth": qk_norm.REDUCED["depth"],
}


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed, all rates of a norm and a size together."""
    records = []
    for norm, scale in dict.fromkeys((c.qk_norm, c.embedding_scale) for c in config.conditions):
        rates = [
            c.learning_rate
            for c in config.conditions
            if (c.qk_norm, c.embedding_scale) == (norm, scale)
        ]
        alone = qk_norm.Config(
            tuple(qk_norm.Condition(norm, rate) for rate in rates),
            config.size,
            config.norm,
            config.wiring,
            config.depth,
            config.evaluate_every,
        )
        found = qk_norm.train_norm(alone, norm, seed, embedding_scale=scale)
        records += [{"embedding_scale": scale, **record} for record in found]
    return records


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss with QK-norm minus without, paired by seed: in equal cells, and at the best."""
    tried = [tuple(condition.values()) for condition in saved.config["conditions"]]
    found = {
        f"{scale:g} times, rate {rate:g}": _losses(saved, norm, rate, scale)
        - _losses(saved, "none", rate, scale)
        for norm, rate, scale in tried
        if norm == "rms" and ("none", rate, scale) in tried
    }
    best = {norm: at_best(saved, norm) for norm in ("none", "rms")}
    return found | {"each at its best": best["rms"] - best["none"]}


def _losses(saved: Saved, norm: str, rate: float, scale: float, key: str = "loss") -> np.ndarray:
    return saved.values(key, qk_norm=norm, learning_rate=rate, embedding_scale=scale)


def best_of(saved: Saved, norm: str) -> tuple[float, float]:
    """Rate and size with the smallest mean validation loss."""
    means = {
        (c["learning_rate"], c["embedding_scale"]): saved.values("validation", **c).mean()
        for c in saved.config["conditions"]
        if c["qk_norm"] == norm
    }
    return min(means, key=means.__getitem__)


def at_best(saved: Saved, norm: str) -> np.ndarray:
    """Test losses at that rate and size, one per seed."""
    return _losses(saved, norm, *best_of(saved, norm))
