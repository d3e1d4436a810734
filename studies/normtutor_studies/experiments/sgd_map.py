"""The map of what trains, with plain gradient steps: Post-LN and Pre-LN under SGD with momentum.

As :mod:`normtutor_studies.experiments.warmup_map`, with another optimizer. Under Adam a step is as long as
the learning rate says, however large the gradient; here it is as long as the gradient. So if large
gradients are why Post-LN needs warm-up, it is here that they must show.

Control: SGD needs other rates than Adam, so the grid was laid around what trains on a seed of its
own, and reaches from rates that are too small to one at which hardly any run trains, four times
apart. Task, seeds, initial weights, sequences and steps are those of the Adam map. A sixth seed,
40, run afterwards and not on record, lies where the five expect it in both rows. Not checked: SGD
without momentum, clipping, longer runs, and rates between those of the grid.
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
FIGURE = "fig-wiring-sgd"
FINDING = "under SGD, too, Post-LN stalls at rates at which Pre-LN trains, and warm-up helps it"
XLABEL = "test loss under SGD, Post-LN minus Pre-LN, each at its best cell (nats/digit)"
SEEDS = tuple(range(10, 15))


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = tuple(
        Condition(wiring, depth, warmup)
        for depth in (6, 12)
        for wiring in ("post", "pre")
        for warmup in (0, 60)
    )
    rates: tuple[float, ...] = (4e-3, 16e-3, 64e-3, 256e-3, 1.024)
    optimizer: str = "sgd"
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
        optimizer=config.optimizer,
    )


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every cell with this seed."""
    return run_seeds(config, [seed])[0]


def ends(saved: Saved, wiring: str, depth: int) -> np.ndarray:
    """Each seed's loss at the rate and warm-up that were best on the other seeds."""
    cells = [
        losses_by_rate(saved, **condition)
        for condition in saved.config["conditions"]
        if (condition["wiring"], condition["depth"]) == (wiring, depth)
    ]
    return at_best_rate(np.concatenate(cells, axis=1))[0]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Post-LN minus Pre-LN, paired by seed, each at its best rate and warm-up."""
    depths = sorted({condition["depth"] for condition in saved.config["conditions"]})
    return {
        f"{depth} layers": ends(saved, "post", depth) - ends(saved, "pre", depth)
        for depth in depths
    }
