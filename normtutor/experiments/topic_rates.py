"""Learning rates for the experiment topic_share: one a norm, for all shares of one-topic batches.

Every norm is trained with each rate of the grid at three shares, on seeds that are used nowhere
else. The rate with the smallest loss in evaluation mode, averaged over shares and seeds, is taken.
"""

from typing import Any

import numpy as np

from normtutor.experiments.records import Saved
from normtutor.experiments.topic_share import (
    NORMS,
    Condition,
    Config,
    batches,
    fingerprint,
    take,
    train_condition,
)
from normtutor.training import mean_token_loss

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "06_power_norm"
FIGURE = "none: it chooses the learning rates of topic_share"
FINDING = "the rate of each norm that is best over three shares of one-topic batches"
SEEDS = (0, 1)
RATES = (6e-3, 12e-3, 24e-3)
SHARES = (0.0, 0.5, 1.0)

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


def best_rates(saved: Saved) -> dict[tuple[str], float]:
    """(norm,) -> the rate with the smallest mean loss over shares and seeds."""
    best = {}
    for norm in NORMS:
        means = {
            rate: np.mean(
                [
                    saved.values("loss", norm=norm, share=share, learning_rate=rate)
                    for share in SHARES
                ]
            )
            for rate in RATES
        }
        # A run that diverged has no finite loss, and its rate cannot be the best.
        best[norm,] = min(means, key=lambda rate: np.nan_to_num(means[rate], nan=np.inf))
    return best
