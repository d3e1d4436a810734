"""Learning rates for noisy_batch_norm_longer, chosen at its 1,000 steps on another seed.

Control: the rate is chosen by the number that the longer runs report, the training loss over the
run, on a seed that is not among theirs, and every chosen rate has a worse one on both sides. Not
checked: rates in between, and a second seed.
"""

import dataclasses

from normtutor_studies.experiments import noisy_batch_norm
from normtutor_studies.experiments.noisy_batch_norm import Condition, fingerprint
from normtutor_studies.experiments.noisy_batch_norm_longer import CHAPTER, Config, run
from normtutor_studies.experiments.noisy_batch_norm_longer import CONFIG as LONGER
from normtutor_studies.experiments.rates import best_rate
from normtutor_studies.experiments.records import Saved

__all__ = ["CHAPTER", "CONFIG", "SEEDS", "Config", "best_rates", "fingerprint", "run"]

FIGURE = "none: it chooses the learning rates of noisy_batch_norm_longer"
FINDING = (
    "on one seed the best rates over 1,000 steps are those of 200: 0.1 without a norm, 1 with "
    "BatchNorm, with noise or without"
)
SEEDS = noisy_batch_norm.TUNING[:1]
RATES = {
    "none": (0.03, 0.1, 0.3),
    "batch": (0.3, 1.0, 3.0),
    "noisy batch": (0.1, 0.3, 1.0, 3.0),
}
CONFIG = dataclasses.replace(
    LONGER,
    conditions=tuple(Condition(norm, rate) for norm, rates in RATES.items() for rate in rates),
)
REDUCED = {"steps": 10}


def best_rates(saved: Saved) -> dict[tuple[str], float]:
    """(network,) -> the rate with the smallest training loss over the run."""
    return {
        (norm,): best_rate(saved, SEEDS, rates, "mean_loss", norm=norm)
        for norm, rates in RATES.items()
    }
