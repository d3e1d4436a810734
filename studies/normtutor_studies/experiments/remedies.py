"""The remedies: wirings that are meant to train deep models without warm-up, at one depth.

The same task, depth and learning rates as in :mod:`normtutor_studies.experiments.warmup_map`, whose runs of
Post-LN and Pre-LN are the comparison. No run here has warm-up.

Control: a remedy could look good at one lucky rate, so each is trained at five, and the rate for a
seed is chosen on the other seeds. Post-LN and Pre-LN without warm-up, on the same sequences, are
the comparison, and so are the bare layers without norm or remedy. Not checked: other depths, larger
embeddings, and text. Sorting eight digits is easy, so the order among those that train says little.
Not checked either: remedies with warm-up.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.wired_sorting import Task, run_rates

CHAPTER = "07_pre_ln_and_post_ln"
FIGURE = "fig-wiring-remedies"
FINDING = "every remedy trains twelve layers without warm-up at rates where Post-LN stalls"
XLABEL = "test loss at the chosen rate (nats/digit)"
REFERENCE = None
SEEDS = tuple(range(10, 15))


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    wirings: tuple[str, ...] = (
        "none",
        "post-small",
        "deepnorm",
        "ds-init",
        "admin",
        "peri",
        "rezero",
        "fixup",
    )
    depth: int = 12
    warmup: int = 0
    rates: tuple[float, ...] = (1e-3, 2e-3, 4e-3, 8e-3, 16e-3)
    steps: int = 200
    task: Task = field(default_factory=Task)


CONFIG = Config()


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every wiring with every rate, with this seed."""
    return [
        record
        for wiring in config.wirings
        for record in run_rates(
            config.task,
            config.rates,
            seed,
            wiring=wiring,
            depth=config.depth,
            steps=config.steps,
            warmup=config.warmup,
        )
    ]


def at_best_rate(losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Losses (seeds, rates) at the rate that is best on average over the *other* seeds.

    Choosing a rate on the seeds that are reported would make every wiring look better, and most so
    the one whose losses scatter most. A run that diverged (NaN) counts as infinitely bad. Returns
    the loss of each seed and the number of the rate it was given.
    """
    losses = np.where(np.isfinite(losses), losses, np.inf)
    seeds = np.arange(len(losses))
    chosen = np.array([np.delete(losses, seed, axis=0).mean(0).argmin() for seed in seeds])
    return losses[seeds, chosen], chosen


def losses_by_rate(saved: Saved, **where: Any) -> np.ndarray:
    """Test losses of one wiring, (seeds, rates)."""
    rates = saved.config["rates"]
    return np.stack([saved.values("loss", learning_rate=rate, **where) for rate in rates], axis=1)


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss of each wiring at its rate; "none", hundreds of times as large, is left out."""
    return {
        wiring: at_best_rate(losses_by_rate(saved, wiring=wiring))[0]
        for wiring in saved.config["wirings"]
        if wiring != "none"
    }
