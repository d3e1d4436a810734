"""Weight decay on γ, β and biases: does it cost anything, and what does it do to γ?

A network on digits with LayerNorm or BatchNorm after each hidden layer is trained by AdamW with
decay on every parameter, or on the matrices alone, at three strengths.

Control: the strength of decay on the matrices is the same in both groups, and so are initial
weights, order of images and rate; strength zero stands beside both. The rate was not tuned for
either group. An eleventh seed, 40, run afterwards and not on record, lies where the ten expect it
in three of four rows; BatchNorm, decay 0.1: -0.0144, expected -0.0052 to 0.0035. The
size of γ depends on the steps: 1,500 are in :mod:`normtutor_studies.experiments.norm_decay_longer`. Not
checked: larger models, and γ in a residual branch.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from normtutor.data import image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import image_scores, start
from normtutor_studies.experiments.digit_batches import fingerprint, in_order
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "fingerprint", "rows", "run"]

CHAPTER = "09_norms_at_work"
FIGURE = "fig-work-decay"
FINDING = (
    "decay on γ, β and biases as well shrinks γ; what it does to the test loss ten seeds hardly "
    "tell"
)
SEEDS = tuple(range(10, 20))
XLABEL = "test loss, decay on all parameters minus decay on matrices (nats/image)"


@dataclass(frozen=True)
class Condition:
    """One norm, one strength of decay, and what it acts on."""

    norm: str
    decay: float
    on: str  # "all" or "matrices"


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = tuple(
        Condition(norm, decay, on)
        for norm in ("layer", "batch")
        for decay in (0.0, 0.1, 1.0)
        for on in ("all", "matrices")
        if decay or on == "all"
    )
    steps: int = 300
    learning_rate: float = 0.003
    batch_size: int = 64


CONFIG = Config()


def parameter_groups(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Decay on what has at least two axes, none on γ, β and biases."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    return [
        {"params": matrices, "weight_decay": decay},
        {"params": others, "weight_decay": 0.0},
    ]


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; report on the test images."""
    digits = load_digits()
    records = []
    for condition in config.conditions:
        order = start(seed)
        model = MLP((64, 100, 100, 10), norm=condition.norm)
        groups: Any = (
            parameter_groups(model, condition.decay)
            if condition.on == "matrices"
            else [{"params": list(model.parameters()), "weight_decay": condition.decay}]
        )
        optimizer = torch.optim.AdamW(groups, lr=config.learning_rate)
        batches = image_batches(digits.train, config.batch_size, order)
        model.train()
        for _ in range(config.steps):
            images, labels = next(batches)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        gains: list[Any] = [m.weight for m in model.norms]
        scores = image_scores(model, in_order(digits.test, 100))
        records.append(
            {
                "norm": condition.norm,
                "decay": condition.decay,
                "on": condition.on,
                "test_loss": scores["loss"],
                "test_error": scores["error"],
                "gain": float(torch.cat(gains).abs().mean().detach()),
                "train_loss": float(loss.detach()),
            }
        )
    return records


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """The difference in test loss between the two groups, paired by seed."""
    names = {"layer": "LayerNorm", "batch": "BatchNorm"}
    return {
        f"{names[norm]}, decay {decay:g}": saved.values(
            "test_loss", norm=norm, decay=decay, on="all"
        )
        - saved.values("test_loss", norm=norm, decay=decay, on="matrices")
        for norm in names
        for decay in (0.1, 1.0)
    }
