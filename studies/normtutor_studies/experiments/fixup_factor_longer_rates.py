"""Learning rates for fixup_factor_longer, chosen at its 1,000 steps on another seed.

Those that :mod:`normtutor_studies.experiments.more_tokens_rates_none` tried for Fixup at the size of the
embeddings that was best for it, there and, in 300 steps, without the factor
(:mod:`normtutor_studies.experiments.fixup_factor_rates`).

Control: the weights could look bad at a rate that suits the factor, so there are three, and the
best lies between a worse one and one at which training diverges. Not checked: a second seed, rates
in between, which are a factor of 2.5 apart, and other sizes of the embeddings.
"""

import dataclasses
from typing import Any

from normtutor_studies.experiments import fixup_factor_longer
from normtutor_studies.experiments.text_stability import Condition, Config
from normtutor_studies.experiments.text_stability_rates import (
    WITHOUT_FACTOR,
    best_rates,
    fingerprint,
    train_build,
)

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = fixup_factor_longer.CHAPTER
FIGURE = "none: it chooses the learning rates of fixup_factor_longer"
FINDING = (
    "on a million tokens Fixup's weights have the same best rate of three without the learned "
    "factor as with it, and diverge at the largest"
)
SEEDS = (0,)
CONFIG = dataclasses.replace(
    fixup_factor_longer.CONFIG,
    conditions=tuple(Condition(WITHOUT_FACTOR, 12, 1 / 4, rate) for rate in (6.3e-3, 1.6e-2, 4e-2)),
)
REDUCED = fixup_factor_longer.REDUCED


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train at all rates at once with this seed."""
    first = config.conditions[0]
    runs = [(seed, condition.learning_rate) for condition in config.conditions]
    return train_build(config.size, first.build, first.depth, first.scale, runs)
