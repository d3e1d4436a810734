"""What a norm takes out of the gradient that passes through it: its mean, and its part along x̂.

A network on digits trains with BatchNorm, LayerNorm or RMSNorm. At a few moments we look at the
gradients above and below each of its three norms. The share of the squared length that lies along
the constant vector is what a norm with centring removes as the mean part; the share along x̂ is what
every norm removes. Both are averaged over the units (BatchNorm) or the images (the other two).

Control: a share could be chance: a random direction in n dimensions has a share of 1/n in each of
the two.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor.data import image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import start
from normtutor_studies.experiments.descent import he
from normtutor_studies.experiments.records import Saved

CHAPTER = "01_internal_covariate_shift"
FIGURE = "fig-ics-parts"
XLABEL = "share of the gradient's squared length along the mean, last norm, last step"
FINDING = (
    "the last BatchNorm removes two to four times what chance would, the two below it about that "
    "after 100 and 300 steps"
)
SEEDS = tuple(range(6))
NORMS = ("batch", "layer", "rms")


@dataclass(frozen=True)
class Condition:
    """One network."""

    norm: str


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = tuple(Condition(norm) for norm in NORMS)
    widths: tuple[int, ...] = (64, 64, 64, 64, 10)
    batch_size: int = 128
    rate: float = 0.3
    looks: tuple[int, ...] = (0, 100, 300)


CONFIG = Config()
REDUCED = {"looks": (0, 2)}


def around_norms(model: MLP, images: Tensor, labels: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Input x, and the gradients below and above, of each norm of the model on one batch."""
    kept: list[tuple[Tensor, Tensor]] = []

    def keep(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        kept.append((inputs[0], output))

    hooks = [norm.register_forward_hook(keep) for norm in model.norms]
    loss = F.cross_entropy(model(images), labels)
    for hook in hooks:
        hook.remove()
    grads = torch.autograd.grad(loss, [tensor for pair in kept for tensor in pair])
    return [
        (x.detach(), below, above)
        for (x, _), below, above in zip(kept, grads[::2], grads[1::2], strict=True)
    ]


def parts(
    x: Tensor, below: Tensor, above: Tensor, weight: Tensor, norm: str, eps: float
) -> dict[str, float]:
    """Shares of the gradient along the mean and along x̂, and how much longer it is below.

    ``above`` is the gradient with respect to the norm's output. LayerNorm's and RMSNorm's weight
    differs from feature to feature, so there the shares are those of weight times ``above``, which
    is what reaches x̂.
    """
    axis = 0 if norm == "batch" else 1
    n = x.shape[axis]
    reaching = above * weight
    mean = torch.zeros_like(x) if norm == "rms" else x.mean(dim=axis, keepdim=True)
    inverse = torch.rsqrt((x - mean).square().mean(dim=axis, keepdim=True) + eps)
    x_hat = (x - mean) * inverse
    length = reaching.square().sum(dim=axis)
    alive = length > 0  # no gradient reaches a unit that is dead, or an image that is settled
    along_mean = reaching.sum(dim=axis) ** 2 / n / length
    along_x = (reaching * x_hat).sum(dim=axis) ** 2 / x_hat.square().sum(dim=axis) / length
    ratio = below.square().sum(dim=axis) / above.square().sum(dim=axis)
    factor = reaching.square().sum(dim=axis) / above.square().sum(dim=axis)
    factor = factor * inverse.squeeze(axis).square()
    return {
        "along_mean": along_mean[alive].mean().item(),
        "along_x": along_x[alive].mean().item(),
        "chance": 1 / n,
        "factor": factor[alive].median().item(),
        "ratio": ratio[alive].median().item(),
    }


def run_condition(config: Config, condition: Condition, seed: int) -> dict[str, Any]:
    """Train one network; return the shares at each look, for each norm from the bottom."""
    order = start(seed)
    train = load_digits().train
    model = he(MLP(config.widths, norm=condition.norm)).double()
    stream = image_batches(train._replace(images=train.images.double()), config.batch_size, order)
    found: dict[str, list[list[float]]] = {}
    for step in range(max(config.looks) + 1):
        images, labels = next(stream)
        if step in config.looks:
            looks = around_norms(model, images, labels)
            layers: list[Any] = list(model.norms)
            rows = [
                parts(*look, norm.weight.detach(), condition.norm, norm.eps or 0.0)
                for look, norm in zip(looks, layers, strict=True)
            ]
            for key in rows[0]:
                found.setdefault(key, []).append([row[key] for row in rows])
        loss = F.cross_entropy(model(images), labels)
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for p, gradient in zip(parameters, gradients, strict=True):
                p.sub_(gradient, alpha=config.rate)
    return {"norm": condition.norm, **found}


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every network with this seed."""
    return [run_condition(config, condition, seed) for condition in config.conditions]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """The mean part's share at the last look in the last norm, a row a norm."""
    return {norm: saved.values("along_mean", norm=norm)[:, -1, -1] for norm in NORMS}
