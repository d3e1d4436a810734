"""Learning rates for :mod:`normtutor_studies.experiments.rms_against_layer`, chosen on the validation part.

Every norm is trained with each rate of the grid on seeds that are used nowhere else. The rate with
the smallest validation loss, averaged over the seeds, is taken.

Control: rates are chosen on other seeds, and on the validation part rather than the test part. All
three models share one grid, and each one's best rate lies in the middle of it. Not checked: rates
in between, which are a factor of 2 apart.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from normtutor.training import mean_token_loss
from normtutor_studies.experiments import rms_against_layer
from normtutor_studies.experiments.package_chunks import held_out
from normtutor_studies.experiments.rates import best_rates, tried
from normtutor_studies.experiments.records import short
from normtutor_studies.experiments.rms_against_layer import (
    Condition,
    Config,
    fingerprint,
    train_norm,
)

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "05_rms_norm"
FIGURE = "none: it chooses the learning rates of rms_against_layer"
FINDING = "averaged over two seeds, one of five rates is best for LayerNorm and RMSNorm alike"
SEEDS = (0, 1)
RATES = (4e-3, 8e-3, 16e-3, 32e-3, 64e-3)

CONFIG = Config(
    conditions=tuple(Condition(norm, rate) for norm in ("layer", "rms", "none") for rate in RATES)
)
REDUCED = rms_against_layer.REDUCED


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Train every condition with all seeds, the rates of a norm together; records by seed."""
    validation = held_out(config.size, "validation")

    def train(norm: str, runs: list[tuple[int, float]]) -> Iterator[tuple[bool, float | None]]:
        for model, history in train_norm(config, norm, runs):
            loss = None if history.diverged else short(mean_token_loss(model, validation), 6)
            yield history.diverged, loss

    return tried(config.conditions, seeds, train)


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; measure on the validation part."""
    return run_seeds(config, [seed])[0]
