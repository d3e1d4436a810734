"""Twelve layers of Post-LN without warm-up as in warmup_map, at one rate, four times as many steps.

In the 200 steps of :mod:`normtutor_studies.experiments.warmup_map` Post-LN stays at chance at 0.004 without
warm-up. Is it slow, or stuck?

Control: task, seeds, initial weights, sequences and the way the rate falls are those of the map,
where Pre-LN learns at this rate in 200 steps. Not checked: larger rates, warm-up, and still more
steps.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from normtutor_studies.experiments import warmup_map
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.warmup_map import Condition, Config, fingerprint
from normtutor_studies.experiments.wired_sorting import run_conditions

__all__ = ["CONFIG", "SEEDS", "fingerprint", "rows", "run", "run_seeds"]

CHAPTER = warmup_map.CHAPTER
FIGURE = "none: a control of warmup_map, which chapter 7 cites"
FINDING = "in 800 steps without warm-up twelve layers of Post-LN stay at chance at the rate 0.004"
XLABEL = "test loss (nats/digit)"
REFERENCE = None
SEEDS = warmup_map.SEEDS
CONFIG = dataclasses.replace(
    warmup_map.CONFIG,
    conditions=(Condition("post", 12, 0),),
    rates=(4e-3,),
    steps=800,
)


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """All seeds, which train together."""
    return run_conditions(
        config.task, config.rates, seeds, map(vars, config.conditions), steps=config.steps
    )


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train with this seed."""
    return run_seeds(config, [seed])[0]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss."""
    return {f"rate {rate:g}": saved.values("loss", learning_rate=rate) for rate in (4e-3,)}
