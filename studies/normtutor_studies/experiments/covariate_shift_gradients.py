"""How much a layer's gradient changes when the layers below it take their step.

This is the internal covariate shift of Santurkar and others, in length and in angle, with and
without BatchNorm: in a linear network of 25 layers, where nothing but depth makes training hard,
and in networks on digits with three activations. Every network is trained with each rate of its
grid; the rate of a figure is chosen on the seeds of ``TUNING`` by the loss at the end. BatchNorm's
is the largest of each grid, so that it might gain more from a larger one.

Control: a network that does not learn has a gradient that does not shift, which would look like
success. Each network starts with the weights that its activation calls for. The sigmoid network
does not learn without a norm all the same, so it is also trained with weights four times as large.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor import probes
from normtutor.data import image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import start
from normtutor_studies.experiments.descent import finite, initialise
from normtutor_studies.experiments.rates import best_rate, split
from normtutor_studies.experiments.records import Saved

CHAPTER = "01_internal_covariate_shift"
FIGURE = "fig-shift"
XLABEL = "cosine of the angle between the gradients, BatchNorm minus no norm"
FINDING = (
    "at equal rates less shift need not go with a smaller loss: BatchNorm has either without the "
    "other"
)
TUNING = (0, 1)
SEEDS = tuple(range(8))
NORMS = ("none", "batch")
RATES = {
    "linear": (0.003, 0.01, 0.03, 0.1, 0.3),
    "relu": (0.03, 0.1, 0.3, 1.0),
    "tanh": (0.03, 0.1, 0.3, 1.0),
    "sigmoid": (0.1, 0.3, 1.0, 3.0),
    "sigmoid x4": (0.1, 0.3, 1.0, 3.0),
}
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": nn.Identity(),
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "sigmoid x4": torch.sigmoid,
}


@dataclass(frozen=True)
class Condition:
    """One network."""

    task: str
    norm: str
    rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = tuple(
        Condition(task, norm, rate)
        for task, rates in RATES.items()
        for norm in NORMS
        for rate in rates
    )
    linear_layers: int = 25
    linear_width: int = 32
    linear_examples: int = 500
    digits_widths: tuple[int, ...] = (64, 64, 64, 64, 64, 64, 10)
    batch_size: int = 128
    steps: int = 200
    every: int = 10


CONFIG = Config()


def linear_task(config: Any) -> tuple[Tensor, Tensor]:
    """Gaussian x, and Ax with a random A scaled so that the targets have variance 1 or so."""
    width = config.linear_width
    A = torch.randn(width, width) / math.sqrt(width)
    x = torch.randn(config.linear_examples, width)
    return x, x @ A.T


def build(config: Any, task: str, norm: str) -> MLP:
    """The network for a task."""
    deep = (config.linear_width,) * (config.linear_layers + 1)
    widths = deep if task == "linear" else config.digits_widths
    # torch's own layer, three times as fast; a test of the package holds ours equal to it.
    make = nn.BatchNorm1d if norm == "batch" else norm
    model = MLP(widths, norm=make, activation=ACTIVATIONS[task])
    return initialise(model, task, scale=4.0 if task.endswith("x4") else 1.0)


def loss_of(task: str, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Half the squared error for the linear task, cross entropy for digits."""
    x, target = batch
    if task == "linear":
        return 0.5 * (model(x) - target).square().mean()
    return F.cross_entropy(model(x), target)


def layer_names(model: MLP) -> list[list[str]]:
    """Each layer's parameters, from the bottom: its matrix and bias, and those of its norm."""
    layers = []
    for i in range(len(model.linears)):
        own = (f"linears.{i}.", f"norms.{i}.")
        layers.append([name for name, _ in model.named_parameters() if name.startswith(own)])
    return layers


def run_condition(config: Config, condition: Condition, seed: int) -> dict[str, Any]:
    """Train one network; return its losses and the shift of its layers' gradients."""
    order = start(seed)
    task = condition.task
    batches: Iterator[tuple[Tensor, Tensor]]
    if task == "linear":
        batches = repeat(linear_task(config))
    else:
        batches = image_batches(load_digits().train, config.batch_size, order)
    model = build(config, task, condition.norm)
    layers = layer_names(model)
    watched = np.unique(np.linspace(1, len(layers) - 1, 5).round().astype(int))
    losses: list[float] = []
    shifts: list[list[probes.Shift]] = []
    model.train()
    for step in range(config.steps):
        batch = next(batches)

        def loss(m: nn.Module, batch: tuple[Tensor, Tensor] = batch) -> Tensor:
            return loss_of(task, m, batch)

        value = loss(model)
        losses.append(value.item())
        if not math.isfinite(losses[-1]):
            break
        parameters = dict(model.named_parameters())
        grads = torch.autograd.grad(value, list(parameters.values()))
        before = dict(zip(parameters, grads, strict=True))
        after = {
            name: (p - condition.rate * before[name]).detach() for name, p in parameters.items()
        }
        if step % config.every == 0:
            row = []
            for i in watched:
                below = {name: after[name] for layer in layers[:i] for name in layer}
                row.append(
                    probes.gradient_shift(model, loss, below, [f"linears.{i}.weight"], before)
                )
            shifts.append(row)
        with torch.no_grad():
            for name, p in parameters.items():
                p.copy_(after[name])
    losses += [math.inf] * (config.steps - len(losses))
    record = {
        "task": task,
        "norm": condition.norm,
        "rate": condition.rate,
        "diverged": not math.isfinite(losses[-1]),
        "loss": finite(float(np.mean(losses[-10:]))),
        "curve": [finite(float(v)) for v in losses[:: config.every]],
    }
    for name in probes.Shift._fields:
        values = np.array([[getattr(shift, name) for shift in row] for row in shifts])
        record[name] = finite(float(values.mean()))
        # The mean over the layers watched, at each step looked at.
        record[f"{name}_curve"] = [finite(float(v)) for v in values.mean(axis=1)]
    return record


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every network with this seed."""
    return [run_condition(config, condition, seed) for condition in config.conditions]


def best_rates(saved: Saved) -> dict[tuple[str, str], float]:
    """(task, norm) -> the rate with the smallest loss at the end on the seeds of ``TUNING``."""
    return {
        (task, norm): best_rate(saved, TUNING, rates, "loss", task=task, norm=norm)
        for task, rates in RATES.items()
        for norm in NORMS
    }


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """BatchNorm's cosine minus that without a norm, each at its best rate, paired by seed."""
    _, reported = split(saved, TUNING)
    best = best_rates(saved)
    cosine = {
        (task, norm): reported.values("cosine", task=task, norm=norm, rate=best[task, norm])
        for task in RATES
        for norm in NORMS
    }
    return {task: cosine[task, "batch"] - cosine[task, "none"] for task in RATES}
