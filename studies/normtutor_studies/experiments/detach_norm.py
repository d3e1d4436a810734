"""What in LayerNorm does the work: the mean or the scale, forward or backward?

After the DetachNorm of Xu et al. (2019): a statistic that is detached normalizes the forward pass,
but the backward pass takes it for a constant. Here the mean and the scale can each be left out,
detached, or kept, which makes nine norms; LayerNorm, RMSNorm and no norm are three of them. A small
Post-LN Transformer learns to sort generated sequences of digits with each of the nine at four
learning rates.

Control: a failure could come from a rate that does not suit, so all nine norms are trained at four
rates, a factor of 64 apart, and the best of each lies inside the grid. Detaching a statistic leaves
the forward pass exactly as it was, so what changes is the backward pass and nothing else; initial
weights and sequences are the same. Not checked: Pre-LN, text, and other weights than Xavier's for
the network without a norm.
"""

from dataclasses import fields
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from normtutor.moments import mean, mean_square
from normtutor.training import language_model_loss, mean_token_loss, start, train
from normtutor_studies.engine import grid
from normtutor_studies.experiments.records import Config, Record, Saved, schedule
from normtutor_studies.experiments.wired_sorting import Task, model_of, stream_of, test_batch

CHAPTER = "05_rms_norm"
SEEDS = tuple(range(10, 16))
OFF, DETACHED, ON = PARTS = ("off", "detached", "on")
CONFIG = Config(
    conditions=[
        {"centre": centre, "scale": scale, "learning_rate": rate}
        for rate in (5e-4, 2e-3, 8e-3, 32e-3)
        for centre in PARTS
        for scale in PARTS
    ],
    symbols=10,
    length=8,
    width=32,
    depth=4,
    heads=4,
    wiring="post",
    batch_size=32,
    steps=300,
    warmup=100,
    test_sequences=1024,
)


class DetachedNorm(nn.Module):
    """Centre and scale each token; each of the two "off", "on", or "detached".

    Detached is on in the forward pass alone. "on" and "on" is LayerNorm, "off" and "on" RMSNorm,
    "off" and "off" no norm. All nine have the same parameters.
    """

    def __init__(self, features: int, *, centre: str, scale: str, eps: float = 1e-5) -> None:
        super().__init__()
        self.centre, self.scale, self.eps = centre, scale, eps
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        if self.centre != OFF:
            mu = mean(x, (-1,))
            x = x - (mu.detach() if self.centre == DETACHED else mu)
        if self.scale != OFF:
            root = torch.sqrt(mean_square(x, (-1,)) + self.eps)
            x = x / (root.detach() if self.scale == DETACHED else root)
        return self.weight * x + self.bias


def measure(config: Config, seed: int, centre: str, scale: str, learning_rate: float) -> Record:
    """Train one model and score it on new sequences, the same for every condition of a seed."""
    task = Task(**{part.name: getattr(config, part.name) for part in fields(Task)})
    norm = partial(DetachedNorm, centre=centre, scale=scale)
    stream = stream_of(task, start(seed))
    model = model_of(task, config.wiring, config.depth, seed, norm)
    train(model, stream, language_model_loss, learning_rate=learning_rate, **schedule(config))
    return {"loss": mean_token_loss(model, [test_batch(task, seed)])}


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus LayerNorm's, paired by seed, at the second learning rate."""

    def loss(centre: str, scale: str) -> np.ndarray:
        return saved.values("loss", centre=centre, scale=scale, learning_rate=2e-3)

    return {
        f"centre {cell['centre']}, scale {cell['scale']}": loss(**cell) - loss(ON, ON)
        for cell in grid(centre=[*PARTS], scale=[*PARTS])
        if cell != {"centre": ON, "scale": ON}
    }
