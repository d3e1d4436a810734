"""Which learning rates train a network on digits, with and without BatchNorm.

Two activations, two optimizers (SGD with momentum, and Adam) and a grid of rates, in half decades.
Every network sees the same batches for the same number of steps. Initial weights are He's for ReLU
and Xavier's for the sigmoid.

Control: initial weights that do not suit the network without a norm could explain the contrast. The
sigmoid network without a norm is therefore also trained with weights four times Xavier's, which
make up for the sigmoid's slope of 1/4. Not checked: more than 200 steps. A seventh seed, 40, run afterwards and not on record,
lies where the six expect it in all four rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from normtutor.data import Digits, image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import classification_loss, image_scores, start, train
from normtutor_studies.experiments.descent import finite, initialise
from normtutor_studies.experiments.rates import best_rate, split
from normtutor_studies.experiments.records import Saved

CHAPTER = "01_internal_covariate_shift"
FIGURE = "fig-rates"
XLABEL = "test error, BatchNorm minus no norm, each at its best rate"
FINDING = (
    "in 200 steps BatchNorm trains at rates and from weights at which the same network does not"
)
TUNING = (0, 1)
SEEDS = tuple(range(8))
NORMS = ("none", "batch")
ACTIVATIONS = {"relu": torch.relu, "sigmoid": torch.sigmoid}
# Activation, norm, and the factor on the initial weights.
NETWORKS = (
    *((activation, norm, 1.0) for activation in ACTIVATIONS for norm in NORMS),
    ("sigmoid", "none", 4.0),
)
RATES = {
    "sgd": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
    "adamw": (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3),
}


@dataclass(frozen=True)
class Condition:
    """One network and its optimizer."""

    activation: str
    norm: str
    scale: float
    optimizer: str
    rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = tuple(
        Condition(activation, norm, scale, optimizer, rate)
        for activation, norm, scale in NETWORKS
        for optimizer, rates in RATES.items()
        for rate in rates
    )
    widths: tuple[int, ...] = (64, 64, 64, 64, 64, 64, 10)
    batch_size: int = 64
    steps: int = 200


CONFIG = Config()


def fingerprint(config: Any) -> dict[str, str]:
    """The digits come with scikit-learn, whose version is recorded anyway."""
    return {}


def run_condition(
    config: Config, condition: Condition, digits: Digits, seed: int
) -> dict[str, Any]:
    """Train one network and score it."""
    order = start(seed)
    # torch's own layer, three times as fast; a test of the package holds ours equal to it.
    norm = nn.BatchNorm1d if condition.norm == "batch" else condition.norm
    activation = ACTIVATIONS[condition.activation]
    model = MLP(config.widths, norm=norm, activation=activation)
    initialise(model, condition.activation, condition.scale)
    history = train(
        model,
        image_batches(digits.train, config.batch_size, order),
        classification_loss,
        steps=config.steps,
        learning_rate=condition.rate,
        optimizer=condition.optimizer,
    )
    validation = image_scores(model, [digits.validation])
    test = image_scores(model, [digits.test])
    return {
        "activation": condition.activation,
        "norm": condition.norm,
        "scale": condition.scale,
        "optimizer": condition.optimizer,
        "rate": condition.rate,
        "diverged": history.diverged,
        "train_loss": finite(float(np.mean(history.loss[-10:]))),
        "validation_loss": finite(validation["loss"]),
        "validation_error": validation["error"],
        "test_error": test["error"],
    }


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every network with this seed."""
    digits = load_digits()
    return [run_condition(config, condition, digits, seed) for condition in config.conditions]


Cell = tuple[str, str, float, str]


def best_rates(saved: Saved) -> dict[Cell, float]:
    """(activation, norm, scale, optimizer) -> the rate with the smallest validation loss.

    It is chosen on the seeds of ``TUNING``.
    """
    return {
        (activation, norm, scale, optimizer): best_rate(
            saved,
            TUNING,
            rates,
            activation=activation,
            norm=norm,
            scale=scale,
            optimizer=optimizer,
        )
        for activation, norm, scale in NETWORKS
        for optimizer, rates in RATES.items()
    }


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """BatchNorm's test error minus that without a norm, each at its best rate, paired by seed."""
    _, reported = split(saved, TUNING)
    best = best_rates(saved)

    def error(activation: str, norm: str, optimizer: str) -> np.ndarray:
        rate = best[activation, norm, 1.0, optimizer]
        where = {"activation": activation, "norm": norm, "scale": 1.0, "optimizer": optimizer}
        return reported.values("test_error", rate=rate, **where)

    return {
        f"{activation}, {optimizer}": error(activation, "batch", optimizer)
        - error(activation, "none", optimizer)
        for activation in ACTIVATIONS
        for optimizer in RATES
    }
