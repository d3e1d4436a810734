"""Four ways to tell a denoiser which digit and how much noise: at the input or in its norms.

A residual network of six blocks predicts the noise in a noisy image of a digit, as in diffusion.
Class and noise level reach it not at all, added to the stream once at the input, through AdaLN in
every block, or through AdaLN-Zero, whose blocks start as the identity. (The lists of rates were
written into the saved records after the run.)

Control: the same embedding of class and noise level serves all ways, data, noise and order are the
same, and each way has the best of three learning rates, a factor of 2 apart, by the loss on
validation images. That is the one in the middle for every way and seed but one, no condition on
seed 10, whose best is the smallest. AdaLN and AdaLN-Zero have more parameters; "added at the input,
wider" has as many and no conditional norm. Five times as many steps, with rates chosen for them,
are in :mod:`normtutor_studies.experiments.conditional_norms_longer`. Not checked: the condition added in
every block without a norm, so telling every block may be what counts.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normtutor import layers
from normtutor.data import Split, image_batches, load_digits
from normtutor.training import start
from normtutor_studies.experiments.digit_batches import fingerprint
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "fingerprint", "rows", "run"]

CHAPTER = "09_norms_at_work"
FIGURE = "fig-work-conditional"
FINDING = (
    "in 300 steps, at its best rate, the condition lowers the loss by a tenth through the norms of "
    "every block, and by a fortieth if added once at the input, in a wider network by less; AdaLN "
    "and AdaLN-Zero cannot be told apart"
)
SEEDS = tuple(range(10, 15))
XLABEL = "test loss minus that of the condition added at the input (squared error per pixel)"

CLASSES, PIXELS = 10, 64


@dataclass(frozen=True)
class Condition:
    """One way for the condition to reach the network, and the rates that are tried."""

    way: str
    rates: tuple[float, ...] = (0.01, 0.02, 0.04)


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = (
        *(Condition(way) for way in ("none", "at the input", "at the input, wider")),
        *(Condition(way, (0.005, 0.01, 0.02)) for way in ("AdaLN", "AdaLN-Zero")),
    )
    depth: int = 6
    width: int = 64
    steps: int = 300
    batch_size: int = 64


CONFIG = Config()


class Block(nn.Module):
    """A feed-forward branch behind a norm that may listen to the condition."""

    def __init__(self, way: str, width: int, hidden: int) -> None:
        super().__init__()
        branch = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.zero = way.startswith("AdaLN-Zero")
        self.conditional = way == "AdaLN"
        if self.zero:
            gated = layers.AdaptiveLayerNormZero(branch, width, width)
            if way == "AdaLN-Zero, gates from one":
                with torch.no_grad():
                    gated.projection.bias[-width:] = 1.0  # scale, shift, gate
            self.body: nn.Module = gated
            return
        self.body = branch
        self.norm: nn.Module = (
            layers.AdaptiveLayerNorm(width, width) if self.conditional else layers.LayerNorm(width)
        )

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """One residual step, (B, H) -> (B, H)."""
        if self.zero:
            return self.body(x, condition)
        return x + self.body(self.norm(x, condition) if self.conditional else self.norm(x))


class Denoiser(nn.Module):
    """Predict the noise of images (B, 64) from class and noise level."""

    def __init__(self, way: str, config: Config) -> None:
        super().__init__()
        width = config.width
        # AdaLN's maps have 2 H² numbers in each block: as many as a hidden layer wider by H.
        hidden = 2 * width if way == "at the input, wider" else width
        self.way = way
        self.read, self.write = nn.Linear(PIXELS, width), nn.Linear(width, PIXELS)
        self.classes, self.level = nn.Embedding(CLASSES, width), nn.Linear(8, width)
        self.blocks = nn.ModuleList(Block(way, width, hidden) for _ in range(config.depth))
        self.last = layers.LayerNorm(width)

    def forward(self, x: Tensor, labels: Tensor, level: Tensor) -> Tensor:
        """The noise, (B, 64)."""
        waves = level[:, None] * math.pi * 2.0 ** torch.arange(4)
        features = torch.cat([waves.sin(), waves.cos()], 1)  # (B, 8)
        condition = nn.functional.silu(self.classes(labels) + self.level(features))
        x = self.read(x)
        if self.way.startswith("at the input"):
            x = x + condition
        for block in self.blocks:
            x = block(x, condition)
        return self.write(self.last(x))


def noisy(images: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Images with noise of a random level, the noise, and the level in [0, 1]."""
    flat = images.flatten(1)
    level = torch.rand(len(flat), generator=generator)
    noise = torch.randn(flat.shape, generator=generator)
    angle = level[:, None] * math.pi / 2
    return angle.cos() * flat + angle.sin() * noise, noise, level


def loss_on(model: nn.Module, split: Split) -> float:
    """Mean squared error over eight draws of noise, the same for every model."""
    generator = torch.Generator().manual_seed(0)
    model.eval()
    losses = []
    with torch.no_grad():
        for _ in range(8):
            x, noise, level = noisy(split.images, generator)
            losses.append(float((model(x, split.labels, level) - noise).square().mean()))
    return float(np.mean(losses))


def trained(way: str, rate: float, config: Config, train: Split, seed: int) -> nn.Module:
    """Adam with a rate that falls to zero."""
    order = start(seed)
    generator = torch.Generator().manual_seed(seed)
    model = Denoiser(way, config)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    batches = image_batches(train, config.batch_size, order)
    for step in range(config.steps):
        optimizer.param_groups[0]["lr"] = rate * (1 - step / config.steps)
        images, labels = next(batches)
        x, noise, level = noisy(images, generator)
        loss = (model(x, labels, level) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every way at every rate with this seed; report the best rate's on the test images."""
    digits = load_digits()
    records = []
    for condition in config.conditions:
        models = {
            rate: trained(condition.way, rate, config, digits.train, seed)
            for rate in condition.rates
        }
        best = min(models, key=lambda rate: loss_on(models[rate], digits.validation))
        records.append(
            {
                "way": condition.way,
                "rates": list(condition.rates),
                "rate": best,
                "parameters": sum(p.numel() for p in models[best].parameters()),
                "loss": loss_on(models[best], digits.test),
            }
        )
    return records


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Each way's test loss minus that of the condition added at the input, paired by seed."""
    reference = saved.values("loss", way="at the input")
    return {
        record["way"]: saved.values("loss", way=record["way"]) - reference
        for record in saved.runs[0]["records"]
        if record["way"] != "at the input"
    }
