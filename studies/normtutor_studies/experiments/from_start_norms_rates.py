"""Learning rates of the first training for from_start_norms, chosen on the validation part.

Control: rates are chosen on another seed and on the validation part, by the loss after fine-tuning,
and each one's best has a worse one on both sides. Run twice, with other rates beside them,
BatchNorm's loss at 0.016 differs by 0.05 from rounding alone, at 0.008 by 0.01. Not checked: a
second seed, rates in between, which are a factor of 2 apart, and other rates of fine-tuning than
the one that was best after a swap.
"""

import dataclasses
from typing import Any

from normtutor_studies.experiments import from_start_norms
from normtutor_studies.experiments.from_start_norms import (
    NAMES,
    Condition,
    Config,
    fingerprint,
    measured,
)
from normtutor_studies.experiments.rates import best_rates

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = from_start_norms.CHAPTER
FIGURE = "none: it chooses the learning rates of from_start_norms"
FINDING = "on one seed BatchNorm and PowerNorm have the same best rate of four, half LayerNorm's"
SEEDS = (0,)
RATES = (2e-3, 4e-3, 8e-3, 16e-3)
CONFIG = dataclasses.replace(
    from_start_norms.CONFIG,
    conditions=tuple(Condition(norm, rate) for norm in NAMES for rate in RATES),
)
REDUCED = from_start_norms.REDUCED


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train with every norm at every rate; measure on the validation part."""
    records = []
    for norm in dict.fromkeys(condition.norm for condition in config.conditions):
        rates = [c.learning_rate for c in config.conditions if c.norm == norm]
        found = measured(config, norm, [(seed, rate) for rate in rates], "validation")
        records += [r | {"loss": None if r["diverged"] else r["loss"]} for r in found]
    return records
