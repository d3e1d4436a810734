"""Which initial scales and learning rates train a deep ReLU network, without a norm and with one.

Sixteen hidden layers on digits, plain gradient descent. The factor on He's initial weights runs
from 1/√6 to √6; the smallest gives the spread of torch's own ``nn.Linear``. The norm is BatchNorm,
LayerNorm or none.

Control: too small or too large a rate could explain a failure, so every scale is trained with every
rate of a grid of five. Without a norm 1.4 times He's scale overflows at all of them. The weights
are normal, with biases of zero.
"""

from typing import Any

import numpy as np
import torch
from torch import nn

from normtutor.data import image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import image_scores, start
from normtutor_studies.engine import grid
from normtutor_studies.experiments.descent import descend, initialise
from normtutor_studies.experiments.records import Config, Record, Saved

CHAPTER = "01_internal_covariate_shift"
SEEDS = tuple(range(5))
NORMS = ("none", "batch", "layer")
SCALES = (0.4082, 0.7071, 1.0, 1.4142, 2.4495)
TORCH = SCALES[0]  # the scale of torch's own initial weights
RATES = (0.01, 0.03, 0.1, 0.3, 1.0)


CONFIG = Config(
    conditions=grid(norm=[*NORMS], scale=[*SCALES], rate=[*RATES]),
    width=64,
    hidden=16,
    batch_size=64,
    steps=150,
    fixed_batch=300,
)
REDUCED = {"hidden": 3}
BLOCK = 5  # steps averaged into one point of a training curve


def build(config: Config, norm: str, scale: float) -> MLP:
    """A deep network on digits with its initial weights scaled."""
    # torch's own layers, three times as fast; a test of the package holds ours equal to them.
    makers: dict[str, Any] = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}
    widths = (64, *(config.width,) * config.hidden, 10)
    return initialise(MLP(widths, norm=makers.get(norm, norm)), "relu", scale)


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


def measure(config: Config, seed: int, norm: str, scale: float, rate: float) -> Record:
    """Train one network; return its training curve, its test error and its spreads at the start."""
    order, digits = start(seed), load_digits()
    model = build(config, norm, scale)
    at_start = spreads(model.train(), digits.train.images[: config.fixed_batch])
    stream = image_batches(digits.train, config.batch_size, order)
    losses = descend(model, stream, steps=config.steps, rate=rate)
    curve = np.array(losses).reshape(-1, BLOCK).mean(axis=1)
    error = image_scores(model, [digits.test])["error"]
    return {"test_error": error, "curve": curve.tolist(), "spreads": at_start}


def trained(saved: Saved, norm: str) -> np.ndarray:
    """Share of test images right, (seeds, scales, rates)."""
    cells = grid(norm=norm, scale=[*SCALES], rate=[*RATES])
    right = np.stack([1 - saved.values("test_error", **cell) for cell in cells], axis=1)
    return right.reshape(-1, len(SCALES), len(RATES))


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """In how many cells of the map, of 25, each network gets 60% of the test images right."""
    return {norm: (trained(saved, norm) >= 0.6).sum(axis=(1, 2)).astype(float) for norm in NORMS}
