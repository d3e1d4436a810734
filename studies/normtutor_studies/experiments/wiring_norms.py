"""Does RMSNorm behave in the two places as LayerNorm does?

The map of :mod:`normtutor_studies.experiments.warmup_map`, twelve layers without warm-up, with RMSNorm in
LayerNorm's two places.

Control: task, seeds, initial weights, sequences and learning rates are those of the map, so its
LayerNorm runs are the comparison, and only the norm differs. A sixth seed, 40, run afterwards and
not on record, lies where the five expect it in both rows. Not checked: warm-up, other depths, and
norms that pool over tokens. InstanceNorm could not be checked in a causal model: its statistics
cover a whole sequence and would tell each token about the digits that it is to predict.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.wired_sorting import Task, run_conditions

CHAPTER = "07_pre_ln_and_post_ln"
FIGURE = "none: the ledger reads it, on other norms in the two places"
FINDING = (
    "without warm-up at 0.004 RMSNorm stalls after the sum and trains in the branch, as LayerNorm "
    "does"
)
XLABEL = "test loss, Post minus Pre, without warm-up (nats/digit)"
SEEDS = tuple(range(10, 15))


@dataclass(frozen=True)
class Condition:
    """One row of the map: all learning rates of it are trained together."""

    norm: str
    wiring: str
    warmup: int


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    depth: int = 12
    rates: tuple[float, ...] = (1e-3, 4e-3)
    steps: int = 200
    task: Task = field(default_factory=Task)


CONFIG = Config(
    conditions=tuple(
        Condition(norm, wiring, warmup)
        for norm in ("rms",)
        for wiring in ("post", "pre")
        for warmup in (0,)
    )
)


def fingerprint(config: Config) -> dict[str, str]:
    """The data are generated."""
    return {}


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """All seeds; the models of one condition train together, one per seed and learning rate."""
    return run_conditions(
        config.task,
        config.rates,
        seeds,
        map(vars, config.conditions),
        depth=config.depth,
        steps=config.steps,
    )


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every cell with this seed."""
    return run_seeds(config, [seed])[0]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss of Post minus Pre, paired by seed, at each learning rate."""
    found = {}
    for rate in saved.config["rates"]:
        post, pre = (
            saved.values("loss", wiring=wiring, learning_rate=rate) for wiring in ("post", "pre")
        )
        found[f"RMSNorm, rate {rate:g}"] = post - pre
    return found
