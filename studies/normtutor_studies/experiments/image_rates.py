"""Learning rates for the experiment image_norms, chosen on validation images.

Every norm is trained with each rate of one grid, on seeds that are used nowhere else. The rate with
the smallest validation loss in evaluation mode, averaged over the seeds, is taken.

Control: rates are chosen on other seeds, and on validation images rather than test images. All
norms share one grid of seven rates over a factor of 1,000, and no chosen rate lies at either end.
Not checked: rates in between, which are a factor of 3 apart, and weight decay.
"""

from typing import Any

from normtutor.data import load_digits
from normtutor_studies.experiments.image_norms import (
    NORMS,
    Condition,
    Config,
    fingerprint,
    run_condition,
)
from normtutor_studies.experiments.rates import best_rates

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "02_family_of_norms"
FIGURE = "none: it chooses the learning rates of image_norms"
FINDING = "BatchNorm's best rate is ten times that of either LayerNorm; none is best at an edge"
SEEDS = (0, 1, 2)

RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)

CONFIG = Config(conditions=tuple(Condition(norm, rate) for norm in NORMS for rate in RATES))


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; measure on the validation images."""
    digits = load_digits()
    return [
        run_condition(config, condition, digits, digits.validation, seed)
        for condition in config.conditions
    ]
