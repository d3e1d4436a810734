"""Learning rates for :mod:`normtutor_studies.experiments.gru_statistics`, chosen on the validation part.

Each of the four GRUs is trained with each rate of the grid on seeds that are used nowhere else. The
rate with the smallest validation loss, averaged over the seeds, is taken.

Control: rates are chosen on other seeds, and on the validation part rather than the test part. All
four share one grid, and every chosen rate has a worse one on both sides, a factor of 2 or 3 away.
Two seeds tell some rates apart badly: pRMSNorm's best two, 0.06 and 0.12, differ by less than the
seeds do, and so do RMSNorm's, 0.03 and 0.06. Not checked: rates in between, and more than two
seeds.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from normtutor_studies.experiments import gru_statistics
from normtutor_studies.experiments.gru_statistics import (
    NORMS,
    Condition,
    Config,
    fingerprint,
    held_out,
    mean_loss,
    train_norm,
)
from normtutor_studies.experiments.rates import best_rates, tried

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "05_rms_norm"
FIGURE = "none: it chooses the learning rates of gru_statistics"
FINDING = "averaged over two seeds, 0.06 is best for all three norms, and 0.03 without one"
SEEDS = (0, 1)
RATES = (1e-2, 3e-2, 6e-2, 1.2e-1, 2.4e-1)

CONFIG = Config(conditions=tuple(Condition(norm, rate) for norm in NORMS for rate in RATES))
REDUCED = gru_statistics.REDUCED


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Train every condition with all seeds, the rates of a norm together; records by seed."""
    batches = held_out(config, "validation")

    def train(norm: str, runs: list[tuple[int, float]]) -> Iterator[tuple[bool, float]]:
        for model, diverged in train_norm(config, norm, runs):
            yield diverged, mean_loss(model, batches)

    return tried(config.conditions, seeds, train)


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; measure on the validation part."""
    return run_seeds(config, [seed])[0]
