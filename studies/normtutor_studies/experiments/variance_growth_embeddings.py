"""Peri-LN in twelve layers with large embeddings, beside Pre-LN with the same norm.

In :mod:`normtutor_studies.experiments.variance_growth_rates` embeddings have the usual size, nothing is
clipped, and Peri-LN ends about half a nat below Pre-LN, each at its best of three rates. What is
left of that in the settings of :mod:`normtutor_studies.experiments.text_stability`?

Control: a difference could come from the seeds or the text, so text_stability's Pre-RMSNorm on the
same seeds is what Peri-LN is held against; it has the rate, 0.04, and the size of the embeddings,
256 times the usual, that were best on another seed. Peri-LN has the same rate and 64 times, tuned
for neither, so better ones may be left for it. Clipping acts on no step of either. The embeddings
are not all that differs from variance_growth_rates: the rate and the warm-up do, too. Not checked:
LN scaling, other depths, and more than 300 steps.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from normtutor_studies.experiments import text_stability, variance_growth
from normtutor_studies.experiments.package_chunks import Size, fingerprint, measured, train_models
from normtutor_studies.experiments.records import Saved, load

__all__ = ["CONFIG", "SEEDS", "Condition", "Config", "fingerprint", "rows", "run"]

CHAPTER = variance_growth.CHAPTER
FIGURE = "none: a control of variance_growth_rates, which chapter 8 cites"
FINDING = (
    "with large embeddings twelve layers of Peri-LN end 0.003 nats above Pre-RMSNorm after 300 "
    "steps"
)
XLABEL = "test loss minus Pre-RMSNorm's (nats/token)"
SEEDS = text_stability.SEEDS[:5]


@dataclass(frozen=True)
class Condition:
    """A wiring, how much larger its embeddings are than usual, and its learning rate."""

    wiring: str
    embedding_scale: float
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    depth: int = 12
    norm: str = "rms"
    size: Size = field(default_factory=lambda: text_stability.CONFIG.size)


CONFIG = Config((Condition("peri", 64.0, 4e-2),))
REDUCED = {
    "depth": 2,
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed."""
    records = []
    for condition in config.conditions:
        ((model, history),) = train_models(
            config.size,
            [(seed, condition.learning_rate)],
            depth=config.depth,
            norm=config.norm,
            wiring=condition.wiring,
            tied=False,
            embedding_scale=condition.embedding_scale,
        )
        records.append(vars(condition) | measured(config.size, model, history))
    return records


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss of Peri-LN minus that of Pre-RMSNorm at its best, paired by seed."""
    there = load("text_stability")
    plain = text_stability.losses(there, 12)["Pre-RMSNorm"]
    of_seed = dict(zip(there.seeds, plain, strict=True))
    return {
        "Peri-LN": saved.values("test", wiring="peri")
        - np.array([of_seed[seed] for seed in saved.seeds])
    }
