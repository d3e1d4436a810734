"""Networks that fit 100 digits: what LayerNorm, its γ and β, and BatchNorm's noise do to the fit.

Two hidden layers of 64 ReLUs, ten images a step, SGD with momentum. With LayerNorm, with LayerNorm
without γ and β, or without a norm; or with BatchNorm, whose statistics come from the ten images of
the step or from all 100. Its losses are taken in evaluation mode with the statistics of all.

Control: a difference could come from the rate, so LayerNorm is trained at two, and BatchNorm at two
and for two lengths. Networks without BatchNorm start from He's weights, those with it from torch's.
Not checked: other rates, and other sizes of the network or of the training set.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from normtutor.data import load_digits
from normtutor.models import MLP
from normtutor.training import start
from normtutor_studies.experiments.descent import he
from normtutor_studies.experiments.digit_batches import fingerprint
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "change", "fingerprint", "ratio", "rows", "run"]

CHAPTER = "05_rms_norm"
FIGURE = "none: three entries of the ledger rest on it"
FINDING = (
    "on 100 digits, in 150 steps, LayerNorm fits less closely at one rate and more closely at "
    "three times that, its γ and β fit more closely, and BatchNorm's noise less at 0.03, more in "
    "600 steps at 0.003"
)
XLABEL = "change of the test loss (nats/image)"
SEEDS = tuple(range(24))
NORMS: dict[str, str | Callable[[int], nn.Module]] = {
    "none": "none",
    "layer": "layer",
    "plain layer": partial(nn.LayerNorm, elementwise_affine=False),
    "batch": nn.BatchNorm1d,
}


@dataclass(frozen=True)
class Condition:
    """One of `NORMS`, how many images share BatchNorm's statistics, a rate and a length."""

    norm: str
    rate: float
    steps: int = 150
    company: int = 10


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = (
        Condition("none", 0.01),
        *(Condition(norm, rate) for norm in ("layer", "plain layer") for rate in (0.01, 0.03)),
        *(Condition("batch", 0.03, company=company) for company in (10, 100)),
        Condition("batch", 0.003, 600, 10),
        *(Condition("batch", rate, 600, 100) for rate in (0.003, 0.03)),
    )
    images: int = 100
    batch_size: int = 10


CONFIG = Config()
REDUCED = {
    "conditions": (Condition("plain layer", 0.01, 3), Condition("batch", 0.03, 3, 20)),
    "images": 20,
}


def fit(config: Config, condition: Condition, seed: int) -> dict[str, float]:
    """Train one network; its losses on the images that it fits and on the test images."""
    digits, order = load_digits(), start(seed)
    rows = order.permutation(len(digits.train.labels))[: config.images]
    x, y = digits.train.images.flatten(1)[rows], digits.train.labels[rows]
    model = MLP((64, 64, 64, 10), norm=NORMS[condition.norm])
    batch_norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d)]
    if not batch_norms:
        he(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=condition.rate, momentum=0.9)
    for _ in range(condition.steps):
        together = order.permutation(config.images)[: condition.company]
        step = together[: config.batch_size]
        loss = F.cross_entropy(model(x[together])[: config.batch_size], y[step])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for norm in batch_norms:
        norm.momentum = 1.0  # the next pass makes the statistics of all the averages
    with torch.no_grad():
        model(x)
        model.eval()
        test = F.cross_entropy(model(digits.test.images.flatten(1)), digits.test.labels)
        return {"training": F.cross_entropy(model(x), y).item(), "test": test.item()}


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed."""
    return [{**vars(c), **fit(config, c, seed)} for c in config.conditions]


def change(saved: Saved, key: str, of: dict[str, Any], than: dict[str, Any]) -> np.ndarray:
    """The loss ``key`` ("training" or "test") of one condition minus another's, by seed."""
    return saved.values(key, **of) - saved.values(key, **than)


def ratio(saved: Saved, of: dict[str, Any], than: dict[str, Any]) -> np.ndarray:
    """The training loss of one condition over another's, log2 (1 is twice), by seed."""
    return np.log2(saved.values("training", **of) / saved.values("training", **than))


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """What each of the three does to the test loss, by seed."""
    plain = {"norm": "layer", "rate": 0.03}
    ten, all_ = ({"norm": "batch", "steps": 150, "company": number} for number in (10, 100))
    return {
        "LayerNorm at three times the rate": change(saved, "test", plain, {"norm": "none"}),
        "γ and β, rate 0.03": change(saved, "test", plain, {"norm": "plain layer", "rate": 0.03}),
        "BatchNorm's noise, 150 steps": change(saved, "test", ten, all_),
    }
