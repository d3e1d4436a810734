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

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normtutor.data import TokenBatch
from normtutor.models import TransformerLM
from normtutor.moments import mean, mean_square
from normtutor.training import language_model_loss, mean_token_loss, start, train
from normtutor_studies.experiments.records import Saved

CHAPTER = "05_rms_norm"
FIGURE = "fig-detach"
FINDING = (
    "on sorting, in 300 steps, the loss is far higher without the scale's gradient; the mean, in "
    "either pass, matters little"
)
XLABEL = "test loss minus LayerNorm's (nats/token)"
SEEDS = tuple(range(10, 16))

OFF, DETACHED, ON = "off", "detached", "on"
PARTS = (OFF, DETACHED, ON)
BLOCK = 20  # steps averaged into one point of the training curve


class DetachedNorm(nn.Module):
    r"""Centre and scale each token; each of the two off, on, or on in the forward pass alone.

    Parameters
    ----------
    features : int
    centre, scale : "off", "detached" or "on"
        "on" and "on" is LayerNorm, "off" and "on" RMSNorm, "off" and "off" no norm. All nine carry
        the same weight γ and bias β, so that they have the same parameters.
    eps : float
    """

    def __init__(self, features: int, *, centre: str, scale: str, eps: float = 1e-5) -> None:
        super().__init__()
        if centre not in PARTS or scale not in PARTS:
            raise ValueError(
                f"centre and scale must be one of {PARTS}; got centre={centre!r}, scale={scale!r}."
            )
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

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, centre={self.centre!r}, scale={self.scale!r}, eps={self.eps}"


@dataclass(frozen=True)
class Condition:
    """One of the nine norms, with a learning rate."""

    centre: str
    scale: str
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    symbols: int = 10
    length: int = 8
    width: int = 32
    depth: int = 4
    heads: int = 4
    wiring: str = "post"
    batch_size: int = 32
    steps: int = 300
    warmup: int = 100
    test_sequences: int = 1024


CONFIG = Config(
    conditions=tuple(
        Condition(centre, scale, rate)
        for rate in (5e-4, 2e-3, 8e-3, 32e-3)
        for centre in PARTS
        for scale in PARTS
    )
)


def sorting_batch(config: Config, batch_size: int, rng: np.random.Generator) -> TokenBatch:
    """Sequences x₁ … xₙ, a separator, and x sorted; the mask marks the sorted part.

    The loss counts masked positions alone. The norms here never look at a mask.
    """
    symbols = rng.integers(config.symbols, size=(batch_size, config.length))
    separator = np.full((batch_size, 1), config.symbols)
    tokens = torch.from_numpy(np.concatenate([symbols, separator, np.sort(symbols)], axis=1))
    mask = torch.zeros(batch_size, 2 * config.length, dtype=torch.bool)
    mask[:, config.length :] = True
    return TokenBatch(tokens[:, :-1], tokens[:, 1:], mask)


def sorting_batches(config: Config, rng: np.random.Generator) -> Iterator[TokenBatch]:
    """New sequences for ever: nothing is seen twice but by chance."""
    while True:
        yield sorting_batch(config, config.batch_size, rng)


def run_condition(config: Config, condition: Condition, seed: int) -> dict[str, Any]:
    """Train one model and score it on new sequences, the same for every condition of a seed."""
    order = start(seed)
    model = TransformerLM(
        config.symbols + 1,
        width=config.width,
        depth=config.depth,
        heads=config.heads,
        max_length=2 * config.length,
        norm=lambda n: DetachedNorm(n, centre=condition.centre, scale=condition.scale),
        wiring=config.wiring,
        dropout=0.0,
    )
    history = train(
        model,
        sorting_batches(config, order),
        language_model_loss,
        steps=config.steps,
        learning_rate=condition.learning_rate,
        warmup=config.warmup,
    )
    test = sorting_batch(config, config.test_sequences, np.random.default_rng(1000 + seed))
    loss = mean_token_loss(model, [test])
    curve = history.loss
    return {
        "centre": condition.centre,
        "scale": condition.scale,
        "learning_rate": condition.learning_rate,
        "loss": loss if np.isfinite(loss) else None,
        "diverged": history.diverged or not bool(np.isfinite(loss)),
        "curve": [
            float(np.mean(curve[i : i + BLOCK]))
            for i in range(0, len(curve) - BLOCK + 1, BLOCK)
            if np.isfinite(curve[i : i + BLOCK]).all()
        ],
    }


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed."""
    return [run_condition(config, condition, seed) for condition in config.conditions]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus LayerNorm's, paired by seed, at the second learning rate."""
    rate = sorted({condition["learning_rate"] for condition in saved.config["conditions"]})[1]
    layer = saved.values("loss", centre=ON, scale=ON, learning_rate=rate)
    return {
        f"centre {centre}, scale {scale}": saved.values(
            "loss", centre=centre, scale=scale, learning_rate=rate
        )
        - layer
        for centre in PARTS
        for scale in PARTS
        if (centre, scale) != (ON, ON)
    }
