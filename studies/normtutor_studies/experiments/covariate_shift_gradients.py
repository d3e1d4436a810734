"""How much a layer's gradient changes when the layers below it take their step.

This is the internal covariate shift of Santurkar and others, in length and in angle, with and
without BatchNorm: in a linear network of 25 layers, where nothing but depth makes training hard,
and in networks on digits with three activations. Every network is trained with each rate of its
grid.

Control: a network that does not learn has a gradient that does not shift, which would look like
success. Each network starts with the weights that its activation calls for, so the sigmoid network,
which does not learn from Xavier's, starts with weights four times as large.
"""

import math
from collections.abc import Callable, Iterator
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
from normtutor_studies.engine import grid
from normtutor_studies.experiments.descent import initialise
from normtutor_studies.experiments.records import Config, Record, Saved

CHAPTER = "01_internal_covariate_shift"
SEEDS = tuple(range(2, 8))
RATES = {
    "linear": [0.003, 0.01, 0.03, 0.1, 0.3],
    "relu": [0.03, 0.1, 0.3, 1.0],
    "tanh": [0.03, 0.1, 0.3, 1.0],
    "sigmoid x4": [0.1, 0.3, 1.0, 3.0],
}
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": nn.Identity(),
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid x4": torch.sigmoid,
}
CONFIG = Config(
    conditions=[
        cell
        for task, rates in RATES.items()
        for cell in grid(task=task, norm=["none", "batch"], rate=rates)
    ],
    linear_layers=25,
    linear_width=32,
    linear_examples=500,
    digits_widths=(64, 64, 64, 64, 64, 64, 10),
    batch_size=128,
    steps=200,
    every=10,
)


def linear_task(config: Config) -> tuple[Tensor, Tensor]:
    """Gaussian x, and Ax with a random A scaled so that the targets have variance 1 or so."""
    width = config.linear_width
    A = torch.randn(width, width) / math.sqrt(width)
    x = torch.randn(config.linear_examples, width)
    return x, x @ A.T


def build(config: Config, task: str, norm: str) -> MLP:
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
    names = [name for name, _ in model.named_parameters()]
    layers = [(f"linears.{i}.", f"norms.{i}.") for i in range(len(model.linears))]
    return [[name for name in names if name.startswith(own)] for own in layers]


def measure(config: Config, seed: int, task: str, norm: str, rate: float) -> Record:
    """Train one network; return its first loss and its last, and its gradients' mean shift."""
    order = start(seed)
    batches: Iterator[tuple[Tensor, Tensor]]
    if task == "linear":
        batches = repeat(linear_task(config))
    else:
        batches = image_batches(load_digits().train, config.batch_size, order)
    model = build(config, task, norm).train()
    layers = layer_names(model)
    watched = np.unique(np.linspace(1, len(layers) - 1, 5).round().astype(int))
    losses: list[float] = []
    shifts: list[list[probes.Shift]] = []
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
        after = {name: (p - rate * before[name]).detach() for name, p in parameters.items()}
        if step % config.every == 0:
            row = []
            for i in watched:
                below = {name: after[name] for layer in layers[:i] for name in layer}
                moved = [f"linears.{i}.weight"]
                row.append(probes.gradient_shift(model, loss, below, moved, before))
            shifts.append(row)
        with torch.no_grad():
            for name, p in parameters.items():
                p.copy_(after[name])
    losses += [math.inf] * (config.steps - len(losses))
    record: dict[str, Any] = {"first_loss": losses[0], "loss": float(np.mean(losses[-10:]))}
    for key in ("relative", "cosine"):
        record[key] = float(np.mean([[getattr(s, key) for s in row] for row in shifts]))
    return record


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Relative shift of the gradient with BatchNorm minus that without a norm, both at rate 0.1."""
    return {
        task: saved.values("relative", task=task, norm="batch", rate=0.1)
        - saved.values("relative", task=task, norm="none", rate=0.1)
        for task in RATES
    }
