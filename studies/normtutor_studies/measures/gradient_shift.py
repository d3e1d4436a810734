"""How much a layer's gradient changes when the layers below it take their step.

This is the internal covariate shift of Santurkar and others, in length and in angle: in a linear
network of 25 layers, where nothing but depth makes training hard, and in networks on digits with
three activations.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor import probes
from normtutor.data import image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import start
from normtutor_studies.measures.descent import initialise
from normtutor_studies.store import Cell, Run, World

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": nn.Identity(),
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid x4": torch.sigmoid,
}


def linear_task(cell: Cell) -> tuple[Tensor, Tensor]:
    """Gaussian x, and Ax with a random A scaled so that the targets have variance 1 or so."""
    width = cell["linear_width"]
    A = torch.randn(width, width) / math.sqrt(width)
    x = torch.randn(cell["linear_examples"], width)
    return x, x @ A.T


def build(cell: Cell) -> MLP:
    """The network for a task."""
    task = cell["task"]
    deep = (cell["linear_width"],) * (cell["linear_layers"] + 1)
    widths = deep if task == "linear" else cell["digits_widths"]
    model = MLP(widths, norm=cell["norm"], activation=ACTIVATIONS[task])
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
    prefixes = [(f"linears.{i}.", f"norms.{i}.") for i in range(len(model.linears))]
    return [[name for name in names if name.startswith(of_layer)] for of_layer in prefixes]


def measure(cell: Cell, rate: float, seed: int) -> Run:
    """Train one network: its first loss and its last, and its gradients' mean shift."""
    order, task = start(seed), cell["task"]
    batches: Iterator[tuple[Tensor, Tensor]]
    if task == "linear":
        batches = repeat(linear_task(cell))
    else:
        batches = image_batches(load_digits().train, cell["batch_size"], order)
    model = build(cell).train()
    layers = layer_names(model)
    watched = np.unique(np.linspace(1, len(layers) - 1, 5).round().astype(int))
    losses: list[float] = []
    shifts: list[list[probes.Shift]] = []
    for step in range(cell["steps"]):
        loss = partial(loss_of, task, batch=next(batches))
        value = loss(model)
        losses.append(value.item())
        if not math.isfinite(losses[-1]):
            break
        parameters = dict(model.named_parameters())
        grads = torch.autograd.grad(value, list(parameters.values()))
        before = dict(zip(parameters, grads, strict=True))
        after = {name: (p - rate * before[name]).detach() for name, p in parameters.items()}
        if step % cell["every"] == 0:
            row = []
            for i in watched:
                below = {name: after[name] for layer in layers[:i] for name in layer}
                moved = [f"linears.{i}.weight"]
                row.append(probes.gradient_shift(model, loss, below, moved, before))
            shifts.append(row)
        with torch.no_grad():
            for name, p in parameters.items():
                p.copy_(after[name])
    losses += [math.inf] * (cell["steps"] - len(losses))
    means = {
        key: float(np.mean([[getattr(s, key) for s in row] for row in shifts]))
        for key in ("relative", "cosine")
    }
    return {"first_loss": losses[0], "loss": float(np.mean(losses[-10:])), **means}


WORLD = World(
    "gradient_shift",
    measure,
    {
        "task": "linear",
        "norm": "none",
        "linear_layers": 25,
        "linear_width": 32,
        "linear_examples": 500,
        "digits_widths": [64, 64, 64, 64, 64, 64, 10],
        "batch_size": 128,
        "steps": 200,
        "every": 10,
    },
    small={"steps": 3, "every": 2, "linear_layers": 6},
)
