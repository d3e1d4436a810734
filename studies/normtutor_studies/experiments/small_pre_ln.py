"""Pre-LN with the small initial weights that put Post-LN ahead of it in remedies.

In :mod:`normtutor_studies.experiments.remedies` Post-LN whose lower layers start with smaller weights ends
ahead of Pre-LN with usual ones. Is that the place of the norm, or the weights? Here Pre-LN gets the
same weights, without warm-up at all rates of that run and with 60 steps of it at those of
:mod:`normtutor_studies.experiments.warmed_remedies`.

Control: each wiring has its own best rate and warm-up, chosen for a seed on the other seeds, and
the best rate lies inside the grid. Seeds, sequences and depth are those of the two runs, and so are
the draws of the initial weights; the factors on them are those of Post-LN's. Not checked: other
factors, other depths, and text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from normtutor_studies.experiments import remedies, warmed_remedies
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.remedies import at_best_rate
from normtutor_studies.experiments.wired_sorting import Task, run_all_seeds

CHAPTER = remedies.CHAPTER
FIGURE = "none: a control of remedies, which chapter 7 cites"
FINDING = (
    "the small initial weights that put Post-LN ahead of Pre-LN do not lower Pre-LN's own best "
    "loss; with them Post-LN ends 0.07 below Pre-LN"
)
XLABEL = remedies.XLABEL
REFERENCE = None
SEEDS = remedies.SEEDS


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    wiring: str = "pre-small"
    depth: int = 12
    rates: tuple[float, ...] = remedies.CONFIG.rates
    warmup: int = 60
    warmed_rates: tuple[float, ...] = warmed_remedies.CONFIG.rates
    steps: int = 200
    task: Task = field(default_factory=Task)


CONFIG = Config()
REDUCED = {"depth": 2, "steps": 3}


def fingerprint(config: Config) -> dict[str, str]:
    """The data are generated."""
    return {}


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """All seeds; the models of one warm-up train together, one per seed and learning rate."""
    found: list[list[dict[str, Any]]] = [[] for _ in seeds]
    for warmup, rates in ((0, config.rates), (config.warmup, config.warmed_rates)):
        records = run_all_seeds(
            config.task,
            rates,
            seeds,
            wiring=config.wiring,
            depth=config.depth,
            steps=config.steps,
            warmup=warmup,
        )
        for own, new in zip(found, records, strict=True):
            own += new
    return found


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every cell with this seed."""
    return run_seeds(config, [seed])[0]


def losses(saved: Saved, *warmups: int) -> np.ndarray:
    """Test losses with these warm-ups, (seeds, warm-ups and rates)."""
    return np.stack(
        [
            saved.values("loss", warmup=warmup, learning_rate=rate)
            for warmup in warmups
            for rate in saved.config["warmed_rates" if warmup else "rates"]
        ],
        axis=1,
    )


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss at its rate, without warm-up and with it."""
    return {
        f"{warmup} steps of warm-up": at_best_rate(losses(saved, warmup))[0]
        for warmup in (0, saved.config["warmup"])
    }
