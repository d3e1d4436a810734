"""Gradient descent that takes the batch's statistics for constants, on digits.

Four ReLU networks: BatchNorm with its statistics inside the gradient and outside of it, and a layer
that only subtracts the mean, inside and outside. Each is trained with four rates. We record the
loss at the end and the length of a bias that the norm behind it cancels.

Control: the missing scaling or the rate could explain a failure with the statistics outside, so
each network is compared with its twin whose gradient is right, at the same rate.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normtutor.data import image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import start
from normtutor_studies.experiments.descent import descend, finite, he
from normtutor_studies.experiments.records import Saved

CHAPTER = "01_internal_covariate_shift"
FIGURE = "fig-ics-outside"
XLABEL = "log2 of the loss, statistics outside the gradient over inside"
FINDING = (
    "with the statistics outside the gradient a useless bias walks off, and in 150 steps the loss "
    "falls less"
)
SEEDS = tuple(range(6))
RATES = (0.03, 0.1, 0.3, 1.0)


@dataclass(frozen=True)
class Condition:
    """One network: whether the norm scales, and whether its statistics are held constant."""

    scale: bool
    outside: bool
    rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = tuple(
        Condition(scale, outside, rate)
        for scale in (True, False)
        for outside in (False, True)
        for rate in RATES
    )
    widths: tuple[int, ...] = (64, 100, 100, 100, 10)
    batch_size: int = 60
    steps: int = 150


CONFIG = Config()


class Variant(nn.Module):
    """Centre, and scale if asked to; outside, the backward pass takes statistics for constants."""

    def __init__(self, features: int, *, scale: bool, outside: bool) -> None:
        super().__init__()
        self.scale, self.outside = scale, outside
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(x.detach() if self.outside else x, dim=0, correction=0)
        x_hat = (x - mean) / torch.sqrt(variance + 1e-5) if self.scale else x - mean
        return self.weight * x_hat + self.bias


def fingerprint(config: Any) -> dict[str, str]:
    """The digits come with scikit-learn, whose version is recorded anyway."""
    return {}


def run_condition(config: Config, condition: Condition, seed: int) -> dict[str, Any]:
    """Train one network; return its loss at the end and the length of a cancelled bias."""
    order = start(seed)
    train = load_digits().train
    norm = partial(Variant, scale=condition.scale, outside=condition.outside)
    model = he(MLP(config.widths, norm=norm)).double()
    stream = image_batches(train._replace(images=train.images.double()), config.batch_size, order)
    losses = descend(model, stream, steps=config.steps, rate=condition.rate)
    return {
        "scale": condition.scale,
        "outside": condition.outside,
        "rate": condition.rate,
        "diverged": not math.isfinite(losses[-1]),
        "loss": finite(float(np.mean(losses[-20:]))),
        "bias": finite(dict(model.named_parameters())["linears.1.bias"].norm().item()),
    }


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every network with this seed."""
    return [run_condition(config, condition, seed) for condition in config.conditions]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Loss with the statistics outside over that inside, for BatchNorm, by rate."""

    def loss(outside: bool, rate: float) -> np.ndarray:
        return saved.values("loss", scale=True, outside=outside, rate=rate)

    return {
        f"rate {rate:g}": np.log2(loss(outside=True, rate=rate) / loss(outside=False, rate=rate))
        for rate in RATES
    }
