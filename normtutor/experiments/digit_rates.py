"""Learning rates for the experiment digit_batches, chosen on validation images.

Every norm at every batch size is trained with each rate of its grid, on seeds that are used nowhere
else. The rate with the smallest validation loss in evaluation mode, averaged over the seeds, is
taken.

Control: rates are chosen on other seeds, and on validation images rather than test images, so none
is chosen by what it will be judged on. Where the best rate first lay at the end of its grid, the
grid was extended: every chosen rate has a worse one on both sides, about a factor of 3 away. Not
checked: longer training, and more than two seeds.
"""

from typing import Any

from normtutor.data import load_digits
from normtutor.experiments.digit_batches import (
    BATCH_SIZES,
    NORMS,
    Condition,
    Config,
    fingerprint,
    run_condition,
)
from normtutor.experiments.rates import best_rates

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "03_batch_norm_vs_layer_norm"
FIGURE = "none: it chooses the learning rates of digit_batches"
FINDING = "the best rate grows with the batch and differs between norms"
SEEDS = (0, 1)

# A larger batch bears a larger rate; so does, from batches of two images on, a net without norm.
RATES = {
    1: (0.003, 0.01, 0.03),
    2: (0.005, 0.015, 0.05),
    8: (0.01, 0.03, 0.1),
    32: (0.03, 0.1, 0.3),
}
RATES_WITHOUT_NORM = {
    1: (0.003, 0.01, 0.03),
    2: (0.01, 0.03, 0.1),
    8: (0.03, 0.1, 0.3),
    32: (0.1, 0.3, 1.0),
}

# Where the smallest or the largest of these was the best, the next one was tried too.
EDGES = (
    Condition("batch", 1, 0.1),
    Condition("group", 1, 0.001),
    Condition("layer", 1, 0.001),
    Condition("batch", 2, 0.15),
    Condition("layer", 2, 0.0015),
    Condition("batch", 32, 1.0),
    Condition("layer", 32, 0.01),
)

CONFIG = Config(
    conditions=(
        *(
            Condition(norm, batch_size, rate)
            for batch_size in BATCH_SIZES
            for norm in NORMS
            for rate in (RATES_WITHOUT_NORM if norm == "none" else RATES)[batch_size]
        ),
        *EDGES,
    )
)


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; measure on the validation images."""
    digits = load_digits()
    return [
        run_condition(config, condition, digits, digits.validation, seed)
        for condition in config.conditions
    ]
