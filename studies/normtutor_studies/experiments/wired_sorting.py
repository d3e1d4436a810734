"""What the experiments on sorting share: Transformers that learn to sort digits.

Ten digits, sequences of eight, the loss counted on the sorted part. A deep and narrow model learns
it in seconds, and fails to learn it when its wiring is wrong.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from normtutor.data import TokenBatch
from normtutor.models import NormFactory, TransformerLM, admin_initialise
from normtutor.training import language_model_loss, start
from normtutor.wiring import Wiring

# The counterexample of Wang et al. (2022): Post-LN whose lower layers start with smaller weights,
# the layer l divided by L − l + 1, the top layer as it is.
POST_SMALL = Wiring(
    ("stream",),
    weights=lambda layer, depth: (1.0, 1 / (depth - layer + 1), 1 / (depth - layer + 1)),
)


@dataclass(frozen=True)
class Task:
    """The model and the data, apart from what an experiment varies."""

    symbols: int = 10
    length: int = 8
    width: int = 32
    heads: int = 4
    batch_size: int = 16
    test_sequences: int = 512


def batch_of(task: Task, size: int, rng: np.random.Generator) -> TokenBatch:
    """``size`` new sequences x₁ … xₙ, a separator, and x sorted; the mask marks the sorted part.

    The loss counts masked positions alone. The norms here never look at a mask.
    """
    symbols = rng.integers(task.symbols, size=(size, task.length))
    separator = np.full((size, 1), task.symbols)
    tokens = torch.from_numpy(np.concatenate([symbols, separator, np.sort(symbols)], axis=1))
    mask = torch.zeros(size, 2 * task.length, dtype=torch.bool)
    mask[:, task.length :] = True
    return TokenBatch(tokens[:, :-1], tokens[:, 1:], mask)


def stream_of(task: Task, rng: np.random.Generator) -> Iterator[TokenBatch]:
    """New sequences for ever."""
    while True:
        yield batch_of(task, task.batch_size, rng)


def test_batch(task: Task, seed: int) -> TokenBatch:
    """The sequences on which every model of this seed is measured."""
    return batch_of(task, task.test_sequences, np.random.default_rng(1000 + seed))


def model_of(
    task: Task, wiring: str, depth: int, seed: int, norm: str | NormFactory = "layer"
) -> TransformerLM:
    """An untrained model; "admin" is profiled on a batch of its own."""
    start(seed)
    model = TransformerLM(
        task.symbols + 1,
        width=task.width,
        depth=depth,
        heads=task.heads,
        max_length=2 * task.length,
        norm=norm,
        wiring=POST_SMALL if wiring == "post-small" else wiring,
        dropout=0.0,
    )
    if wiring == "admin":
        rng = np.random.default_rng(2000 + seed)
        admin_initialise(model, batch_of(task, task.test_sequences, rng).inputs)
    return model


def gradient_norms(model: TransformerLM, batch: TokenBatch) -> list[float]:
    """The gradient's norm at the last feed-forward matrix of each layer, the first layer first."""
    matrices = [layer.feed_forward[2].weight for layer in model.layers]  # type: ignore[index,union-attr]
    loss = language_model_loss(model, batch)
    return [gradient.norm().item() for gradient in torch.autograd.grad(loss, matrices)]
