"""The remedies with warm-up, and warm-up twice as long as in the map; B2T's extra shortcut, too.

:mod:`normtutor_studies.experiments.remedies` trains without warm-up, because the remedies promise to do
without it. Here they get it, at the depth, seeds and sequences of that run and at the three largest
of its rates, among which each remedy has its best. So Pre-LN with warm-up can be compared with them
fairly. Post-LN and Pre-LN also get 120 of 200 steps of warm-up.

Control: the fair comparison is each wiring at its own best rate *and* warm-up, chosen for a seed on
the other seeds. B2T comes with its shortcut alone and with the smaller initial weights of its
authors' code, because the two could do the same. A sixth seed, 40, run afterwards and not on
record, lies where the five expect it in all nine rows. Not checked: more than 200 steps
but for Post-LN and Pre-LN (:mod:`normtutor_studies.experiments.wiring_longer`), so a warm-up of 120 leaves
80 for the decay; smaller rates, other depths, remedies with more warm-up, larger embeddings, and
text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.remedies import at_best_rate, losses_by_rate
from normtutor_studies.experiments.warmup_map import Condition
from normtutor_studies.experiments.wired_sorting import Task, run_conditions

CHAPTER = "07_pre_ln_and_post_ln"
FIGURE = "fig-wiring-warmed"
FINDING = (
    "with warm-up the means of all remedies but ReZero end within 0.03 of Pre-LN's with warm-up"
)
XLABEL = "test loss with 60 steps of warm-up at the chosen rate (nats/digit)"
REFERENCE = None
SEEDS = tuple(range(10, 15))
REMEDIES = (
    "post-small",
    "deepnorm",
    "ds-init",
    "admin",
    "b2t",
    "b2t-small",
    "peri",
    "rezero",
    "fixup",
)
LONGER = ("post", "pre")


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = (
        *(Condition(wiring, 12, 0) for wiring in ("b2t", "b2t-small")),
        *(Condition(wiring, 12, 60) for wiring in REMEDIES),
        *(Condition(wiring, 12, 120) for wiring in LONGER),
    )
    rates: tuple[float, ...] = (4e-3, 8e-3, 16e-3)
    steps: int = 200
    task: Task = field(default_factory=Task)


CONFIG = Config()


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
        steps=config.steps,
    )


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every cell with this seed."""
    return run_seeds(config, [seed])[0]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss of each remedy at its rate, with 60 steps of warm-up."""
    wirings = [c["wiring"] for c in saved.config["conditions"] if c["warmup"] == 60]
    return {
        wiring: at_best_rate(losses_by_rate(saved, wiring=wiring, depth=12, warmup=60))[0]
        for wiring in wirings
    }
