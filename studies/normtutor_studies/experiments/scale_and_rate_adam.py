"""The opening network of chapter 1 under Adam, from torch's initial scale and from He's.

In :mod:`normtutor_studies.experiments.scale_and_rate` the network does not start from torch's scale without
a norm, at five rates of plain gradient descent. Is that the network, or the optimizer?

Control: too small or too large a rate could explain a failure, so from torch's scale the best rate
lies between worse ones, without a norm and with BatchNorm; from He's it is 0.003, the largest
tried. At 0.01 without a norm two seeds of five train from torch's scale. Networks, initial weights,
images, order and seeds are those of plain gradient descent; the rate is constant there and here,
and rates are compared on the seeds that are reported. Not checked: the other scales, LayerNorm,
warm-up, and more steps.
"""

import dataclasses
import math
from typing import Any

import numpy as np
import torch

from normtutor.data import Digits, image_batches, load_digits
from normtutor.training import classification_loss, image_scores, start
from normtutor_studies.experiments import scale_and_rate
from normtutor_studies.experiments.descent import finite
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.scale_and_rate import TORCH, Condition, build, fingerprint

__all__ = ["CONFIG", "SEEDS", "best", "fingerprint", "right", "rows", "run"]

CHAPTER = scale_and_rate.CHAPTER
FIGURE = "none: a control of scale_and_rate, which chapter 1 cites"
FINDING = (
    "under Adam the network without a norm gets 90 % of the images right from torch's scale in "
    "1,000 steps, 31 % in 150; with BatchNorm 97 % and 94 %"
)
XLABEL = "percent of test images right, at the best rate"
REFERENCE = 10.0
SEEDS = scale_and_rate.SEEDS
GRID = {
    ("none", TORCH): (1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
    ("none", 1.0): (3e-4, 1e-3, 3e-3),
    ("batch", TORCH): (1e-3, 3e-3, 1e-2, 3e-2),
}


@dataclasses.dataclass(frozen=True)
class Config(scale_and_rate.Config):
    """The settings of plain gradient descent, and the step of a look on the way."""

    conditions: tuple[Condition, ...] = tuple(
        Condition(norm, scale, rate) for (norm, scale), rates in GRID.items() for rate in rates
    )
    steps: int = 1000
    early: int = 150


CONFIG = Config()
REDUCED = {"hidden": 3, "steps": 30, "early": 10}


def run_condition(
    config: Config, condition: Condition, digits: Digits, seed: int
) -> dict[str, Any]:
    """Train one network; return its scores at the early look and at the end."""
    order = start(seed)
    model = build(config, condition).train()
    stream = iter(image_batches(digits.train, config.batch_size, order))
    optimizer = torch.optim.Adam(model.parameters(), lr=condition.rate)
    losses: list[float] = []
    early = None
    for step in range(1, config.steps + 1):
        loss = classification_loss(model, next(stream))
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == config.early:
            early = image_scores(model, [digits.test])["error"]
    return {
        **vars(condition),
        "diverged": not math.isfinite(losses[-1]),
        "loss": finite(float(np.mean(losses[-10:]))),
        "early_error": early,
        "test_error": image_scores(model, [digits.test])["error"],
    }


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every network with this seed."""
    digits = load_digits()
    return [run_condition(config, condition, digits, seed) for condition in config.conditions]


def right(saved: Saved, norm: str, scale: float, when: str = "test") -> np.ndarray:
    """Percent of the test images right, (seeds, rates of :data:`GRID`); ``when``: test or early."""
    errors = [
        saved.values(f"{when}_error", norm=norm, scale=scale, rate=rate)
        for rate in GRID[norm, scale]
    ]
    return 100 * (1 - np.stack(errors, axis=1))


def best(saved: Saved, norm: str, scale: float, when: str = "test") -> np.ndarray:
    """Percent right at the rate that is best on average over the seeds."""
    found = right(saved, norm, scale, when)
    return found[:, found.mean(axis=0).argmax()]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Each network at its best rate for the step in question."""
    names = {
        ("none", TORCH): "no norm",
        ("none", 1.0): "no norm, He's scale",
        ("batch", TORCH): "BatchNorm",
    }
    return {
        f"{name}, {steps} steps": best(saved, *which, when)
        for which, name in names.items()
        for when, steps in (("early", CONFIG.early), ("test", CONFIG.steps))
    }
