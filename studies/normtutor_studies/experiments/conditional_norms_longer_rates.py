"""Learning rates for conditional_norms_longer, chosen at its 1,500 steps on another seed.

Every way of :mod:`normtutor_studies.experiments.conditional_norms_longer` is trained with three to five
rates, a factor of 2 apart. The one with the smallest loss on the validation images is taken. What
is on record was run in two parts: the smallest rate of AdaLN-Zero, which the others made necessary,
came afterwards, on the same processor; the times are those of both.

Control: rates are chosen on another seed than those reported, and on the validation images. Every
chosen rate has a worse one on both sides, a factor of 2 away. AdaLN-Zero's two best differ by less
than a thousandth of the loss, so it is reported at both. Not checked: a second seed, and rates in
between.
"""

from typing import Any

from normtutor.data import load_digits
from normtutor_studies.experiments import conditional_norms_longer
from normtutor_studies.experiments.conditional_norms_longer import (
    Condition,
    Config,
    fingerprint,
    measured,
)
from normtutor_studies.experiments.rates import best_rates

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = conditional_norms_longer.CHAPTER
FIGURE = "none: it chooses the learning rates of conditional_norms_longer"
FINDING = (
    "on one seed a rate of 0.01 is best, but for AdaLN-Zero with gates from zero, for which half "
    "of it is as good"
)
SEEDS = (0,)
RATES = {
    "none": (0.005, 0.01, 0.02),
    "at the input": (0.005, 0.01, 0.02, 0.04),
    "AdaLN": (0.005, 0.01, 0.02, 0.04),
    "AdaLN-Zero": (0.0025, 0.005, 0.01, 0.02, 0.04),
    "AdaLN-Zero, gates from one": (0.005, 0.01, 0.02, 0.04),
}
CONFIG = Config(
    conditions=tuple(Condition(way, rate) for way, rates in RATES.items() for rate in rates)
)
REDUCED = conditional_norms_longer.REDUCED


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every way at every rate with this seed; measure on the validation images."""
    return measured(config, seed, load_digits().validation)
