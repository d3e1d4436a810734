"""What trains: Post-LN and Pre-LN, with and without warm-up, over learning rates and two depths.

Each cell of the map is one wiring, depth, warm-up and learning rate; a small Transformer learns to
sort in it, once a seed. Beside the loss the gradients before training and the change of the output
during it are recorded, so that the two explanations of warm-up (the size of the gradient, the size
of the update) can be held against the same runs.

Control: a stall could come from the rate, so every cell is trained at five; or from a task that
cannot be learned at this depth in so few steps, for which Pre-LN is the control: it has the same
sublayers, sequences and steps, and it learns. The gradients before training and the change of the
output are recorded in the same runs, so that both explanations of warm-up are held against the same
facts. Not checked: more steps, clipping, larger embeddings, and text.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.wired_sorting import Task, run_rates

CHAPTER = "07_pre_ln_and_post_ln"
FIGURE = "fig-wiring-map"
FINDING = (
    "in 200 steps of sorting Post-LN needs warm-up or a small rate, twelve layers more so than "
    "six; Pre-LN neither"
)
XLABEL = "test loss with warm-up minus without (nats/digit)"
SEEDS = tuple(range(10, 15))


@dataclass(frozen=True)
class Condition:
    """One row of the map: all learning rates of it are trained together."""

    wiring: str
    depth: int
    warmup: int


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    rates: tuple[float, ...] = (1e-3, 2e-3, 4e-3, 8e-3, 16e-3)
    steps: int = 200
    task: Task = field(default_factory=Task)


CONFIG = Config(
    conditions=tuple(
        Condition(wiring, depth, warmup)
        for depth, warmups in ((6, (0, 60)), (12, (0, 20, 60)))
        for wiring in ("post", "pre")
        for warmup in warmups
    )
)


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every cell with this seed."""
    return [
        record
        for condition in config.conditions
        for record in run_rates(
            config.task,
            config.rates,
            seed,
            wiring=condition.wiring,
            depth=condition.depth,
            steps=config.steps,
            warmup=condition.warmup,
        )
    ]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Loss with the longest warm-up minus loss without, paired by seed, at the largest rate."""
    longest = max(condition["warmup"] for condition in saved.config["conditions"])
    rate = saved.config["rates"][-1]
    found = {}
    for depth in sorted({condition["depth"] for condition in saved.config["conditions"]}):
        for wiring, name in (("post", "Post-LN"), ("pre", "Pre-LN")):
            where = {"wiring": wiring, "depth": depth, "learning_rate": rate}
            found[f"{name}, {depth} layers"] = saved.values(
                "loss", warmup=longest, **where
            ) - saved.values("loss", warmup=0, **where)
    return found
