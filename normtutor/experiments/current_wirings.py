"""Wirings of current language models on one small text, each at its own learning rate.

All have RMSNorm, eight layers and the same batches. The learning rate of each was chosen by
:mod:`normtutor.experiments.current_wiring_rates`, on other seeds and on the validation part of the
text. What is recorded here is measured on the test part.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from normtutor.experiments import text_chunks
from normtutor.experiments.records import Saved
from normtutor.experiments.text_chunks import Text, corpus_of, fingerprint
from normtutor.wiring import Wiring, mix_ln

__all__ = ["CONFIG", "SEEDS", "Condition", "Config", "corpus_of", "fingerprint", "run"]

CHAPTER = "08_after_2020"
FIGURE = "fig-after-wirings"
FINDING = "at this size the wirings of current models differ little, and Post-LN trails"
XLABEL = "test loss minus Pre-LN's (nats/token)"
SEEDS = tuple(range(10, 15))


@dataclass(frozen=True)
class Condition:
    """A design by name, with its learning rate."""

    design: str
    learning_rate: float


@dataclass(frozen=True)
class Config(Text):
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = ()
    norm: str = "rms"
    depth: int = 8
    steps: int = 240
    warmup: int = 40


DESIGNS = ("pre", "pre-qk", "post", "out-qk", "peri", "ln-scaling", "mix", "hybrid")

# The learning rates that current_wiring_rates chose; a test compares them with its saved run.
CONFIG = Config(
    conditions=(
        Condition("pre", 8e-3),
        Condition("pre-qk", 8e-3),
        Condition("post", 8e-3),
        Condition("out-qk", 8e-3),
        Condition("peri", 8e-3),
        Condition("ln-scaling", 8e-3),
        Condition("mix", 8e-3),
        Condition("hybrid", 8e-3),
    )
)


def settings_of(design: str, depth: int) -> dict[str, Any]:
    """What a design means for the model: its wiring, and norms inside attention.

    "pre-qk" is Pre-LN with QK-norm; "out-qk" the design of OLMo 2; "mix" is Mix-LN, Post-LN in the
    first quarter of the layers; "hybrid" is HybridNorm: norms on queries, keys and values, and one
    on the stream before the feed-forward network, whose skip starts behind that norm.
    """
    designs: dict[str, dict[str, Any]] = {
        "pre-qk": {"wiring": "pre", "qk_norm": "rms"},
        "out-qk": {"wiring": "out", "qk_norm": "rms"},
        "mix": {"wiring": mix_ln(depth)},
        "hybrid": {
            "wiring": (("post", Wiring((), final_norm=True)),) * depth,
            "qk_norm": "rms",
            "value_norm": True,
        },
    }
    return designs.get(design, {"wiring": design})


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; measure on the test part."""
    return measure(config, seed, "test")


def measure(config: Config, seed: int, part: str) -> list[dict[str, Any]]:
    """Train every condition, all rates of a design together; measure on ``part``."""
    batches = text_chunks.held_out(config, part)
    records = []
    for group in text_chunks.grouped(config.conditions):
        models, histories = text_chunks.train_at(
            config,
            [condition.learning_rate for condition in group],
            seed,
            steps=config.steps,
            warmup=config.warmup,
            norm=config.norm,
            depth=config.depth,
            **settings_of(group[0].design, config.depth),
        )
        for condition, model, history in zip(group, models, histories, strict=True):
            records.append(
                {
                    "design": condition.design,
                    "learning_rate": condition.learning_rate,
                    "diverged": history.diverged,
                    "loss": text_chunks.loss_of(model, batches, history),
                    "train": text_chunks.end_of(history.loss),
                }
            )
    return records


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus Pre-LN's, paired by seed."""
    pre = saved.values("loss", design="pre")
    return {
        design: saved.values("loss", design=design) - pre for design in DESIGNS if design != "pre"
    }
