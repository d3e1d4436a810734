"""Which initial scales and learning rates train a deep ReLU network, without a norm and with one.

Sixteen hidden layers on digits, plain gradient descent. The factor on He's initial weights runs
from 1/√6 to √6; the smallest gives the spread of torch's own ``nn.Linear``. The norm is BatchNorm,
LayerNorm or none.

Control: too small or too large a rate could explain a failure, so every scale is trained with every
rate of a grid of five. Without a norm 1.4 times He's scale overflows at all of them. The weights
are normal, with biases of zero.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from normtutor.data import Digits, image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import image_scores, start
from normtutor.wiring import NormFactory
from normtutor_studies.experiments.descent import descend, finite, initialise
from normtutor_studies.experiments.records import Saved

CHAPTER = "01_internal_covariate_shift"
FIGURE = "fig-ics-map"
XLABEL = "cells of the map, of 25, in which the network trains"
REFERENCE = 0.0
FINDING = (
    "in 150 steps of plain gradient descent without a norm one initial scale in five trains; with "
    "BatchNorm or LayerNorm all five do"
)
SEEDS = tuple(range(5))
NORMS = ("none", "batch", "layer")
SCALES = (0.4082, 0.7071, 1.0, 1.4142, 2.4495)
TORCH = SCALES[0]  # the scale of torch's own initial weights
RATES = (0.01, 0.03, 0.1, 0.3, 1.0)


@dataclass(frozen=True)
class Condition:
    """One network."""

    norm: str
    scale: float
    rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = tuple(
        Condition(norm, scale, rate) for norm in NORMS for scale in SCALES for rate in RATES
    )
    width: int = 64
    hidden: int = 16
    batch_size: int = 64
    steps: int = 150
    fixed_batch: int = 300


CONFIG = Config()
REDUCED = {"hidden": 3}
BLOCK = 5  # steps averaged into one point of a training curve


def build(config: Any, condition: Condition) -> MLP:
    """A deep network on digits with its initial weights scaled."""
    # torch's own layers, three times as fast; a test of the package holds ours equal to them.
    makers: dict[str, str | NormFactory] = {
        "batch": nn.BatchNorm1d,
        "layer": nn.LayerNorm,
        "none": "none",
    }
    widths = (64, *(config.width,) * config.hidden, 10)
    return initialise(MLP(widths, norm=makers[condition.norm]), "relu", condition.scale)


def spreads(model: MLP, images: torch.Tensor) -> list[float]:
    """Spread over the images of what each ReLU receives, from the bottom: root mean variance."""
    found: list[float] = []

    def keep(_: nn.Module, __: Any, output: torch.Tensor) -> None:
        found.append(float(output.var(dim=0, correction=0).mean().sqrt()))

    hooks = [norm.register_forward_hook(keep) for norm in model.norms]
    with torch.no_grad():
        model(images)
    for hook in hooks:
        hook.remove()
    return found


def run_condition(
    config: Config, condition: Condition, digits: Digits, seed: int
) -> dict[str, Any]:
    """Train one network; return its training curve, its scores and its spreads at the start."""
    order = start(seed)
    model = build(config, condition)
    still = digits.train.images[: config.fixed_batch]
    at_start = spreads(model.train(), still)
    stream = image_batches(digits.train, config.batch_size, order)
    losses = descend(model, stream, steps=config.steps, rate=condition.rate)
    curve = np.array(losses).reshape(-1, BLOCK).mean(axis=1)
    test = image_scores(model, [digits.test])
    return {
        "norm": condition.norm,
        "scale": condition.scale,
        "rate": condition.rate,
        "diverged": not math.isfinite(losses[-1]),
        "loss": finite(float(np.mean(losses[-10:]))),
        "test_error": test["error"],
        "curve": [finite(float(v)) for v in curve],
        "spreads": [finite(v) for v in at_start],
    }


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every network with this seed."""
    digits = load_digits()
    return [run_condition(config, condition, digits, seed) for condition in config.conditions]


def trained(saved: Saved, norm: str) -> np.ndarray:
    """Share of test images right, (seeds, scales, rates)."""
    return np.stack(
        [
            np.stack(
                [
                    1 - saved.values("test_error", norm=norm, scale=scale, rate=rate)
                    for rate in RATES
                ],
                axis=1,
            )
            for scale in SCALES
        ],
        axis=1,
    )


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """In how many cells of the map each network gets at least 60% of the test images right."""
    return {norm: (trained(saved, norm) >= 0.6).sum(axis=(1, 2)).astype(float) for norm in NORMS}
