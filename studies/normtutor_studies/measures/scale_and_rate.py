"""Sixteen hidden ReLU layers on digits, plain gradient descent, initial weights of any scale.

The factor multiplies He's initial weights; 0.4082, which is 1/√6, gives the spread of torch's own
``nn.Linear``.
"""

from typing import Any

import numpy as np
import torch
from torch import nn

from normtutor.data import image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import image_scores, start
from normtutor_studies.measures.descent import descend, initialise
from normtutor_studies.store import Cell, Run, World

BLOCK = 5  # steps averaged into one point of a training curve


def build(cell: Cell) -> MLP:
    """A deep network on digits with its initial weights scaled."""
    widths = (64, *(cell["width"],) * cell["hidden"], 10)
    return initialise(MLP(widths, norm=cell["norm"]), "relu", cell["scale"])


def spreads(model: MLP, images: torch.Tensor) -> list[float]:
    """Spread over the images of what each ReLU receives, from the bottom: root mean variance."""
    spread: list[float] = []

    def keep(_: nn.Module, __: Any, output: torch.Tensor) -> None:
        spread.append(float(output.var(dim=0, correction=0).mean().sqrt()))

    hooks = [norm.register_forward_hook(keep) for norm in model.norms]
    with torch.no_grad():
        model(images)
    for hook in hooks:
        hook.remove()
    return spread


def measure(cell: Cell, rate: float, seed: int) -> Run:
    """Train one network: its training curve, its test error, its spreads at the start."""
    order, digits = start(seed), load_digits()
    model = build(cell)
    at_start = spreads(model.train(), digits.train.images[: cell["fixed_batch"]])
    stream = image_batches(digits.train, cell["batch_size"], order)
    losses = descend(model, stream, steps=cell["steps"], rate=rate)
    curve = np.array(losses).reshape(-1, BLOCK).mean(axis=1)
    error = image_scores(model, [digits.test])["error"]
    return {"test_error": error, "curve": curve.tolist(), "spreads": at_start}


WORLD = World(
    "scale_and_rate",
    measure,
    {
        "norm": "none",
        "scale": 1.0,
        "width": 64,
        "hidden": 16,
        "batch_size": 64,
        "steps": 150,
        "fixed_batch": 300,
    },
    title="Digits",
    small={"hidden": 3, "width": 16, "steps": 5, "fixed_batch": 60},
)
