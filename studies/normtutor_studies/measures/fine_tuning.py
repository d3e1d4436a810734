"""Ways to treat BatchNorm while a network is fine-tuned on few images of another look.

A small convolutional network learns digits and is then fine-tuned on 60 labelled images at half the
contrast, brighter and noisy, in batches of 2 or 16. The norms stay in training mode; or their
weights are frozen by ``requires_grad_(False)`` alone; or they are in evaluation mode with the
statistics of the first training; or these are recomputed once over the new images and then frozen;
or the norms stay in training mode and the statistics are recomputed at the end. The learning rate
is chosen for each way, size and seed on 240 other images of the new look.
"""

import copy
from functools import cache

import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import update_bn

from normtutor.data import Split, load_digits
from normtutor.training import start
from normtutor_studies.measures.modes_disagree import Network, error, fit, loader_of
from normtutor_studies.store import Cell, Run, World

WAYS = (
    "training mode",
    "requires_grad_(False) alone",
    "eval(), old",
    "training mode, then recomputed",
    "eval(), recomputed",
)


def new_look(split: Split, noise: float) -> Split:
    """The images at half the contrast, brighter, with the same noise for every way and seed."""
    draw = np.random.default_rng(1).normal(size=tuple(split.images.shape))
    images = 0.5 * split.images + 1 + noise * torch.from_numpy(draw).to(split.images.dtype)
    return Split(images, split.labels)


def tuned(
    pretrained: nn.Module, images: Split, way: str, size: int, epochs: int, seed: int, rate: float
) -> nn.Module:
    """Fine-tune a copy with the norms treated in one way."""
    model = copy.deepcopy(pretrained)
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    if way == "eval(), recomputed":
        update_bn(loader_of(images, len(images.labels)), model)
    for norm in norms:
        norm.requires_grad_(way.startswith("training mode"))
    start(seed)
    loader = loader_of(images, size, shuffle=True, drop_last=True)
    optimizer = torch.optim.SGD(
        [p for p in model.parameters() if p.requires_grad], lr=rate, momentum=0.9
    )
    for _ in range(epochs):
        model.train()
        if way.startswith("eval"):
            for norm in norms:
                norm.eval()
        for x, labels in loader:
            loss = nn.functional.cross_entropy(model(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if way == "training mode, then recomputed":
        update_bn(loader_of(images, len(images.labels)), model)
    return model


@cache
def pretrained(steps: int, seed: int) -> nn.Module:
    """The network before fine-tuning, the same for all ways."""
    start(seed)
    loader = loader_of(load_digits().train, 32, shuffle=True, drop_last=True)
    return fit(Network(), loader, steps)


def measure(cell: Cell, rate: None, seed: int) -> Run:
    """Fine-tune in one way; errors on the test images of the new look, before and after."""
    digits, before = load_digits(), pretrained(cell["steps"], seed)
    test = loader_of(new_look(digits.test, cell["noise"]), 100)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(digits.validation.labels)))
    images, others = (
        new_look(Split(*(each[part] for each in digits.validation)), cell["noise"])
        for part in (order[: cell["images"]], order[cell["images"] :])
    )
    choose_on = loader_of(others, 100)
    recomputed = copy.deepcopy(before)
    update_bn(loader_of(images, len(images.labels)), recomputed)
    models = {
        rate: tuned(before, images, cell["way"], cell["batch_size"], cell["epochs"], seed, rate)
        for rate in cell["learning_rates"]
    }
    best = min(models, key=lambda rate: error(models[rate], choose_on))
    return {
        "learning_rate": best,
        "error": error(models[best], test),
        "before": error(before, test),
        "before_recomputed": error(recomputed, test),
    }


WORLD = World(
    "fine_tuning",
    measure,
    {
        "way": WAYS[0],
        "batch_size": 2,
        "steps": 180,
        "images": 60,
        "epochs": 5,
        "learning_rates": [0.000003, 0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01],
        "noise": 0.3,
    },
    title="Digits of another look",
    small={"steps": 5, "images": 32, "epochs": 1, "learning_rates": [0.001, 0.01]},
)
