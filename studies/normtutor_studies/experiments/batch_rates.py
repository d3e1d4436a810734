"""Learning rates for the experiment batch_composition, chosen on the validation part of the text.

Every norm with every kind of batches is trained with two rates, on seeds that are used nowhere
else. Where the best of them lies at an end of the grid, the next rate beyond is tried, until the
best one has a worse one on either side. The one with the smallest validation loss in evaluation
mode, averaged over the seeds, is taken. Batches of which a quarter or three quarters are of one
topic take the rate of those of which a half is: to tune them too would have taken too long.

Control: rates are chosen on another seed, and on the validation part rather than the test part.
Every chosen rate has a worse one on both sides, a factor of 2 away. Not checked: a second seed, and
rates of their own for batches of which a quarter or three quarters are of one topic.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from normtutor.training import mean_token_loss
from normtutor_studies.experiments import batch_composition
from normtutor_studies.experiments.batch_composition import Condition, fingerprint
from normtutor_studies.experiments.rates import best_tried
from normtutor_studies.experiments.records import Saved, short

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "03_batch_norm_vs_layer_norm"
FIGURE = "none: it chooses the learning rates of batch_composition"
FINDING = (
    "on one seed the best rate differs by at most a factor of 2 between norms and between kinds of "
    "batches"
)
SEEDS = (0,)


@dataclass(frozen=True)
class Config(batch_composition.Config):
    """The settings of batch_composition, with what is tried in place of the conditions."""

    conditions: tuple[Condition, ...] = ()
    cells: tuple[tuple[str, str], ...] = tuple(
        cell for cell in batch_composition.cells() if cell[1] not in batch_composition.UNTUNED
    )
    rates: tuple[float, ...] = (16e-3, 32e-3)
    most: int = 6  # rates tried in one cell


CONFIG = Config()
LARGE_CONFIG = Config(**batch_composition.LARGE, rates=(2e-3, 4e-3))
REDUCED = {
    "cells": (("layer", "shuffled"), ("masked batch", "length")),
    "rates": (1e-3, 4e-3),
    "most": 3,
}


def climb(
    loss_at: Callable[[float], float], rates: tuple[float, ...], most: int
) -> dict[float, float]:
    """Losses by rate: of ``rates``, and beyond an end of them by factors of 2 while it is best."""
    found = {rate: loss_at(rate) for rate in rates}
    while len(found) < most:
        best = min(found, key=lambda rate: found[rate])
        if best not in (min(found), max(found)):
            break
        further = 2 * best if best == max(found) else best / 2
        found[further] = loss_at(further)
    return found


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every cell with its rates; measure on the validation part."""
    records = []
    for norm, kind in config.cells:

        def loss_at(rate: float, norm: str = norm, kind: str = kind) -> float:
            model, _, diverged = batch_composition.train_condition(
                config, Condition(norm, kind, rate), seed
            )
            if diverged:
                return np.inf
            loss = mean_token_loss(model, batch_composition.sample_of(config, "validation"))
            return short(loss, 6) if np.isfinite(loss) else np.inf

        for rate, loss in sorted(climb(loss_at, config.rates, config.most).items()):
            diverged = not np.isfinite(loss)
            records.append(
                {
                    "norm": norm,
                    "kind": kind,
                    "learning_rate": rate,
                    "diverged": diverged,
                    "loss": None if diverged else loss,
                }
            )
    return records


def best_rates(saved: Saved) -> dict[tuple[str, str], float]:
    """(norm, kind) -> the rate with the smallest mean loss, of those that all seeds tried."""
    return best_tried(saved, "norm", "kind")
