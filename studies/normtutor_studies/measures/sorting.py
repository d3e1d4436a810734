"""Transformers that learn to sort digits: which wirings train, at which rates, with which norm.

Runs of 200 steps and a plain test loss; :mod:`normtutor_studies.worlds.sorting` trains longer
and looks inside.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normtutor.data import TokenBatch
from normtutor.models import NormFactory, TransformerLM, admin_initialise
from normtutor.moments import mean, mean_square
from normtutor.training import language_model_loss, start, train
from normtutor.wiring import Wiring
from normtutor_studies.store import Cell, Run, World
from normtutor_studies.worlds import sorting

SETTINGS: dict[str, Any] = {
    "wiring": "post",
    "depth": 12,
    "width": 32,
    "heads": 4,
    "batch_size": 16,
    "steps": 200,
    "warmup": 0,
    "test_sequences": 512,
}
SMALL = {"depth": 2, "steps": 3, "warmup": 1, "test_sequences": 32}

# The counterexample of Wang et al. (2022): Post-LN whose lower layers start with smaller weights,
# the layer l divided by L − l + 1, the top layer as it is.
POST_SMALL = Wiring(
    ("stream",),
    weights=lambda layer, depth: (1.0, 1 / (depth - layer + 1), 1 / (depth - layer + 1)),
)


def batch_of(cell: Cell, size: int, rng: np.random.Generator) -> TokenBatch:
    """``size`` new sequences; the loss counts masked positions alone, and no norm looks at them."""
    inputs, targets, _, counted = sorting.batch_of(size, rng)
    return TokenBatch(inputs, targets, counted)


def stream_of(cell: Cell, rng: np.random.Generator) -> Iterator[TokenBatch]:
    """New sequences for ever."""
    while True:
        yield batch_of(cell, cell["batch_size"], rng)


def test_batch(cell: Cell, seed: int) -> TokenBatch:
    """The sequences on which every model of this seed is measured."""
    return batch_of(cell, cell["test_sequences"], np.random.default_rng(1000 + seed))


def model_of(cell: Cell, seed: int, norm: str | NormFactory = "layer") -> TransformerLM:
    """An untrained model; "admin" is profiled on a batch of its own."""
    start(seed)
    wiring = cell["wiring"]
    model = TransformerLM(
        sorting.SYMBOLS + 1,
        width=cell["width"],
        depth=cell["depth"],
        heads=cell["heads"],
        max_length=2 * sorting.LENGTH,
        norm=norm,
        wiring=POST_SMALL if wiring == "post-small" else wiring,
        dropout=0.0,
    )
    if wiring == "admin":
        rng = np.random.default_rng(2000 + seed)
        admin_initialise(model, batch_of(cell, cell["test_sequences"], rng).inputs)
    return model


def gradient_norms(model: TransformerLM, batch: TokenBatch) -> list[float]:
    """The gradient's norm at the last feed-forward matrix of each layer, the first layer first."""
    matrices = [layer.feed_forward[2].weight for layer in model.layers]  # type: ignore[index,union-attr]
    loss = language_model_loss(model, batch)
    return [gradient.norm().item() for gradient in torch.autograd.grad(loss, matrices)]


def fit(model: TransformerLM, cell: Cell, rate: float, order: np.random.Generator) -> None:
    """Train a model as its cell says."""
    schedule = {"steps": cell["steps"], "warmup": cell["warmup"], "learning_rate": rate}
    train(model, stream_of(cell, order), language_model_loss, **schedule)


def score(model: TransformerLM, cell: Cell, seed: int) -> Run:
    """The loss on new sequences, in nats per digit."""
    with torch.no_grad():
        return {"loss": language_model_loss(model, test_batch(cell, seed)).item()}


def measure(cell: Cell, rate: float, seed: int) -> Run:
    """Train one model and score it."""
    model = model_of(cell, seed)
    fit(model, cell, rate, np.random.default_rng(seed))
    return score(model, cell, seed)


WARMUP_MAP = World(
    "warmup_map", measure, SETTINGS, unit="nats per digit", title="Sorting", small=SMALL
)


# --- which parts of LayerNorm do the work ---------------------------------------------------------

OFF, DETACHED, ON = PARTS = ("off", "detached", "on")


class DetachedNorm(nn.Module):
    """Centre and scale each token; each of the two "off", "on", or "detached".

    After the DetachNorm of Xu et al. (2019). Detached is on in the forward pass alone: the backward
    pass takes the statistic for a constant. "on" and "on" is LayerNorm, "off" and "on" RMSNorm,
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


def measure_detached(cell: Cell, rate: float, seed: int) -> Run:
    """The same with one of the nine norms."""
    order = start(seed)
    norm = partial(DetachedNorm, centre=cell["centre"], scale=cell["scale"])
    model = model_of(cell, seed, norm)
    fit(model, cell, rate, order)
    return score(model, cell, seed)


DETACH_NORM = World(
    "detach_norm",
    measure_detached,
    SETTINGS
    | {"centre": ON, "scale": ON, "depth": 4, "batch_size": 32, "steps": 300, "warmup": 100}
    | {"test_sequences": 1024},
    unit="nats per digit",
    title="Sorting",
    small=SMALL,
)
