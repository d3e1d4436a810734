"""Handwritten digits: the network that opens chapter 1, sixteen hidden layers of 64 ReLUs.

It has the initial weights that PyTorch draws, under which it learns nothing without a norm, and is
trained by SGD with momentum; the rate falls along a cosine.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from normtutor import layers
from normtutor.data import load_digits
from normtutor.models import MLP
from normtutor.training import image_scores, start
from normtutor_studies.store import World
from normtutor_studies.worlds.signals import Noise, fit, without_noise

PIXELS, CLASSES = 64, 10


def norm_of(cell: Mapping[str, Any], features: int) -> nn.Module:
    """The norm of one layer, with noise behind it if the cell asks for some."""
    norms: dict[str, nn.Module] = {
        "none": nn.Identity(),
        "batch": layers.BatchNorm(features, affine=cell["affine"]),
        "layer": layers.LayerNorm(features, elementwise_affine=cell["affine"]),
    }
    norm = norms[cell["norm"]]
    return nn.Sequential(norm, Noise(cell["noise"])) if cell["noise"] else norm


def run(cell: Mapping[str, Any], rate: float, seed: int) -> dict[str, Any]:
    """Train one network; record test loss and error, without noise, at eight points."""
    order = start(seed)
    widths = (PIXELS, *[cell["width"]] * cell["depth"], CLASSES)
    model, digits = MLP(widths, norm=lambda features: norm_of(cell, features)), load_digits()

    def evaluate(model: nn.Module) -> dict[str, float]:
        if cell["noise"]:
            model = without_noise(model, torch.split(digits.train.images, 200))
        return image_scores(model, [(digits.test.images, digits.test.labels)])

    size, steps = cell["batch_size"], cell["steps"]
    return fit(model, digits.train, size, rate, order, steps, evaluate)


DIGITS = World(
    "digits",
    run,
    {
        "norm": "batch",
        "affine": True,  # whether the norm has γ and β
        "noise": 0.0,  # behind each norm, in training: its shifts are within half of this
        "depth": 16,
        "width": 64,
        "batch_size": 64,
        "steps": 128,
    },
    rate=0.05,
    unit="nats per image",
    title="Digits",
)
