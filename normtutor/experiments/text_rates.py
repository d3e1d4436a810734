"""Learning rates for the experiment text_batches, chosen on the validation part of the text.

Every norm with every kind of batch is trained with each rate of the grid, on seeds that are used
nowhere else; so is a model without norm, on shuffled batches. The rate with the smallest
validation loss in evaluation mode, averaged over the seeds, is taken. For BatchNorm on sentences of
equal length that is the largest rate that was tried.

Control: rates are chosen on other seeds, and on the validation part rather than the test part.
Where the best rate first lay at the upper end of its grid, a larger one was added. Not checked:
rates beyond 0.016 for BatchNorm on sentences of equal length.
"""

from collections.abc import Mapping
from typing import Any

from normtutor.data import Order, pad
from normtutor.experiments.rates import best_rates
from normtutor.experiments.text_batches import (
    CELLS,
    NORMS,
    Condition,
    Config,
    corpus_of,
    fingerprint,
    losses,
    train_condition,
)
from normtutor.models import NormFactory

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "03_batch_norm_vs_layer_norm"
FIGURE = "none: it chooses the learning rates of text_batches"
FINDING = "0.004 or 0.008 is best, but for BatchNorm on sentences of equal length"
SEEDS = (0, 1)
RATES = (2e-3, 4e-3, 8e-3)
# Where the largest of these was the best, a larger one was tried too.
LARGER_RATE = 16e-3
EDGES: tuple[tuple[str, Order, int], ...] = (
    ("layer", "shuffled", 16),
    ("batch", "shuffled", 16),
    ("masked batch", "shuffled", 16),
    ("none", "shuffled", 16),
    ("none", "shuffled", 4),
    ("masked batch", "document", 16),
    ("batch", "length", 16),
    ("masked batch", "length", 16),
)

CONFIG = Config(
    conditions=(
        *(
            Condition(norm, order, batch_size, rate)
            for order, batch_size in CELLS
            for norm in NORMS
            for rate in RATES
            if norm != "none" or order == "shuffled"
        ),
        *(Condition(norm, order, batch_size, LARGER_RATE) for norm, order, batch_size in EDGES),
    )
)


def validation_losses(
    config: Any, seed: int, norms: Mapping[str, tuple[str | NormFactory, bool]]
) -> list[dict[str, Any]]:
    """Train every condition with this seed; measure on the validation part."""
    records = []
    sentences = [s for document in corpus_of(config).validation for s in document]
    batches = [pad(sentences[i : i + 64]) for i in range(0, len(sentences), 64)]
    for condition in config.conditions:
        model, _, diverged = train_condition(config, condition, seed, norms)
        records.append(
            {
                "norm": condition.norm,
                "order": condition.order,
                "batch_size": condition.batch_size,
                "learning_rate": condition.learning_rate,
                "diverged": diverged,
                "loss": losses(model, batches)["all"],
            }
        )
    return records


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; measure on the validation part."""
    return validation_losses(config, seed, NORMS)
