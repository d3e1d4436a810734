"""Learning rates for final_norm_longer, chosen at its 1,000 steps on another seed.

The models of :mod:`normtutor_studies.experiments.final_norm_longer` at three rates each. The seed is that
of :mod:`normtutor_studies.experiments.tanh_starts`, which chose where α starts.

Control: rates are chosen on another seed, by the validation loss, and each one's best has a worse
one on both sides. Not checked: a second seed, and rates in between: they are a factor of 2 apart.
"""

import dataclasses

from normtutor_studies.experiments import final_norm_longer, rates
from normtutor_studies.experiments.final_norm_longer import CELLS, condition_of, fingerprint, run
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = final_norm_longer.CHAPTER
FIGURE = "none: it chooses the learning rates of final_norm_longer"
FINDING = "on one seed all six models have the same best rate of three, half of that in 300 steps"
SEEDS = (18,)
RATES = (8e-3, 16e-3, 32e-3)
CONFIG = dataclasses.replace(
    final_norm_longer.CONFIG,
    conditions=tuple(condition_of(cell, rate) for cell in CELLS for rate in RATES),
)
REDUCED = final_norm_longer.REDUCED


def best_rates(saved: Saved) -> dict[tuple[object, ...], float]:
    """Model -> the rate with the smallest validation loss."""
    return rates.best_rates(saved, "validation")
