"""Twelve layers of Post-LN and Pre-LN, sorting with warm-up for four times as many steps.

In the 200 steps of :mod:`normtutor_studies.experiments.warmup_map` twelve layers of Post-LN end behind
Pre-LN. What do 800 steps leave of the difference?

Control: the best rate of more steps could be another, so each wiring has three, chosen for a seed
on the other seeds. Post-LN's best, 0.004, has a worse one on both sides; Pre-LN's two larger, 0.008
and 0.016, cannot be told apart, and a better one beyond them would put it further ahead. Warm-up is
240 steps, the share of the longest of the map, where it suited Post-LN best. Task, seeds, initial
weights and sequences are those of the map. Not checked: other lengths of warm-up, six layers, the
smaller weights of :mod:`normtutor_studies.experiments.remedies`, and still more steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from normtutor_studies.experiments import warmup_map
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.remedies import at_best_rate
from normtutor_studies.experiments.warmup_map import fingerprint
from normtutor_studies.experiments.wired_sorting import Task, run_all_seeds

__all__ = ["CONFIG", "SEEDS", "ends", "fingerprint", "losses", "rows", "run", "run_seeds"]

CHAPTER = warmup_map.CHAPTER
FIGURE = "none: a control of warmup_map, which chapter 7 cites"
FINDING = (
    "after 800 steps of sorting, 240 of them warm-up, twelve layers of Post-LN end 0.004 behind "
    "Pre-LN"
)
XLABEL = "test loss at the chosen rate (nats/digit)"
REFERENCE = None
SEEDS = warmup_map.SEEDS


@dataclass(frozen=True)
class Condition:
    """One wiring and its rates, which are trained together."""

    wiring: str
    rates: tuple[float, ...]


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = (
        Condition("post", (2e-3, 4e-3, 8e-3)),
        Condition("pre", (4e-3, 8e-3, 16e-3)),
    )
    depth: int = 12
    steps: int = 800
    warmup: int = 240
    task: Task = field(default_factory=Task)


CONFIG = Config()
REDUCED = {"depth": 2, "steps": 3, "warmup": 1}


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """All seeds; the models of one wiring train together, one per seed and learning rate."""
    found: list[list[dict[str, Any]]] = [[] for _ in seeds]
    for condition in config.conditions:
        records = run_all_seeds(
            config.task,
            condition.rates,
            seeds,
            wiring=condition.wiring,
            depth=config.depth,
            steps=config.steps,
            warmup=config.warmup,
        )
        for own, new in zip(found, records, strict=True):
            own += [{k: v for k, v in record.items() if k != "curve"} for record in new]
    return found


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every wiring with this seed."""
    return run_seeds(config, [seed])[0]


def losses(saved: Saved, wiring: str) -> np.ndarray:
    """Test losses of one wiring, (seeds, its rates)."""
    rates = next(c["rates"] for c in saved.config["conditions"] if c["wiring"] == wiring)
    return np.stack(
        [saved.values("loss", wiring=wiring, learning_rate=rate) for rate in rates], axis=1
    )


def ends(saved: Saved, wiring: str) -> np.ndarray:
    """Test loss at the rate that was best on the other seeds."""
    return at_best_rate(losses(saved, wiring))[0]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss of each wiring at its rate."""
    names = {"post": "Post-LN", "pre": "Pre-LN"}
    return {name: ends(saved, wiring) for wiring, name in names.items()}
