"""Learning rates for :mod:`normtutor.experiments.rms_against_layer`, chosen on the validation part.

Every norm is trained with each rate of the grid on seeds that are used nowhere else. The rate with
the smallest validation loss, averaged over the seeds, is taken.

Control: rates are chosen on other seeds, and on the validation part rather than the test part. All
three models share one grid, and each one's best rate lies in the middle of it. Not checked: rates
in between, which are a factor of 2 apart.
"""

from typing import Any

from normtutor.experiments.rates import best_rates
from normtutor.experiments.rms_against_layer import (
    Condition,
    Config,
    corpus_of,
    fingerprint,
    in_batches,
    train_condition,
)
from normtutor.training import mean_token_loss

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "05_rms_norm"
FIGURE = "none: it chooses the learning rates of rms_against_layer"
FINDING = "averaged over two seeds, one of three rates is best for LayerNorm and RMSNorm alike"
SEEDS = (0, 1)
RATES = (4e-3, 8e-3, 16e-3)

CONFIG = Config(
    conditions=tuple(Condition(norm, rate) for norm in ("layer", "rms", "none") for rate in RATES)
)


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; measure on the validation part."""
    validation = in_batches(corpus_of(config).validation)
    records = []
    for condition in config.conditions:
        model, history = train_condition(config, condition, seed)
        loss = mean_token_loss(model, validation)
        records.append(
            {
                "norm": condition.norm,
                "learning_rate": condition.learning_rate,
                "diverged": history.diverged,
                "loss": None if history.diverged else loss,
            }
        )
    return records
