"""Learning rates for the experiment topic_share, chosen on other seeds.

Every norm is trained with each rate of the grid at each share of one-topic batches, on seeds that
are used nowhere else. The rate with the smallest loss in evaluation mode, averaged over the seeds,
is taken.

Control: rates are chosen on other seeds. All norms share one grid of three rates, and many of the
chosen ones lie at an end of it. For LayerNorm, BatchNorm and PowerNorm
:mod:`normtutor_studies.experiments.topic_rates_wider` tries the next rate beyond each of these ends, and it
is worse. The grid favours no norm by design. Not checked: rates beyond it for RMSNorm and for the
norms that take only one statistic from the batch.
"""

from typing import Any

import numpy as np

from normtutor.training import mean_token_loss
from normtutor_studies.experiments.rates import best_rates
from normtutor_studies.experiments.topic_share import (
    NORMS,
    SHARES,
    Condition,
    Config,
    batches,
    fingerprint,
    take,
    train_condition,
)

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "06_power_norm"
FIGURE = "none: it chooses the learning rates of topic_share"
FINDING = (
    "the more one-topic batches, the smaller the best of three rates for most norms; BatchNorm's "
    "stays"
)
SEEDS = (0, 1)
RATES = (6e-3, 12e-3, 24e-3)

CONFIG = Config(
    conditions=tuple(
        Condition(norm, share, rate) for norm in NORMS for share in SHARES for rate in RATES
    )
)


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; measure on mixed batches of fresh sequences."""
    records = []
    for condition in config.conditions:
        model, _, diverged = train_condition(config, condition, seed)
        fresh = take(config.test_batches, batches(config, 0.0, np.random.default_rng(2000 + seed)))
        records.append(
            {
                "norm": condition.norm,
                "share": condition.share,
                "learning_rate": condition.learning_rate,
                "diverged": diverged,
                "loss": mean_token_loss(model, fresh),
            }
        )
    return records
