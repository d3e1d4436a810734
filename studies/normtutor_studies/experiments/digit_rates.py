"""Learning rates for the experiment digit_batches, chosen on validation images.

Every norm at every batch size is trained with each rate of its grid, on seeds that are used nowhere
else. The rate with the smallest validation loss in evaluation mode, averaged over the seeds, is
taken.

Control: rates are chosen on other seeds, and on validation images rather than test images, so none
is chosen by what it will be judged on. Every norm has five rates at each batch size, and every
chosen rate has a worse one on both sides, about a factor of 3 away. Two seeds tell some rates apart
badly: with 32 images LayerNorm's best two differ by far less than the seeds do. Not checked: longer
training, and more than two seeds.
"""

from typing import Any

from normtutor.data import load_digits
from normtutor_studies.experiments.digit_batches import (
    BATCH_SIZES,
    NORMS,
    Condition,
    Config,
    fingerprint,
    run_condition,
)
from normtutor_studies.experiments.rates import best_rates

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "03_batch_norm_vs_layer_norm"
FIGURE = "none: it chooses the learning rates of digit_batches"
FINDING = "the best rate is larger with 8 or 32 images than with 1 or 2, and differs between norms"
SEEDS = (0, 1)

# A larger batch bears a larger rate. BatchNorm tries the last five of each row, the others the
# first five.
RATES = {
    1: (0.001, 0.003, 0.01, 0.03, 0.1, 0.3),
    2: (0.0015, 0.005, 0.015, 0.05, 0.15, 0.5),
    8: (0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    32: (0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
}

CONFIG = Config(
    conditions=tuple(
        Condition(norm, batch_size, rate)
        for batch_size in BATCH_SIZES
        for norm in NORMS
        for rate in (RATES[batch_size][1:] if norm == "batch" else RATES[batch_size][:-1])
    )
)


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; measure on the validation images."""
    digits = load_digits()
    return [
        run_condition(config, condition, digits, digits.validation, seed)
        for condition in config.conditions
    ]
