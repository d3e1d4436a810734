"""A language model on a made-up text, whose batches are of one topic more or less often.

A topic is a Markov chain over symbols of its own; a sequence has one topic. With probability
``share`` all sequences of a batch have the same topic, else each draws its own: the more one-topic
batches, the more alike are the tokens of a batch, while every topic stays as frequent as before.
Nothing else differs. The loss of a perfect model is the entropy of the chains, which is known.

The learning rate of each norm and share was chosen by :mod:`normtutor_studies.experiments.topic_rates` on
other seeds. The shares between, a quarter and three quarters, are in
:mod:`normtutor_studies.experiments.topic_doses`.

Control: a deficit could come from topics that become rarer or harder, but every topic stays as
frequent as before and the chains do not change. LayerNorm and RMSNorm, which cannot see who shares
a batch, are the control; norms that take only one of the two statistics from the batch show what
each does alone. Topics here have no symbol in common. Those of a real text share most of their
words, and :mod:`normtutor_studies.experiments.batch_composition` repeats the experiment with them. All
models are Post-LN with a tied output; :mod:`normtutor_studies.experiments.topic_share_pre` has the two ends
with Pre-LN and an untied one. A sixth seed, 40, run afterwards and not on record, lies where the
five expect it in 14 of 15 rows; in the last, PowerNorm with nothing but one-topic batches, it is at
0.29, beyond their 0.00 to 0.22 and no better than BatchNorm. How far PowerNorm is set back in 300
steps is thus not settled; in 1,500, in :mod:`normtutor_studies.experiments.topic_share_longer`, it hardly
is. Not checked: another warm-up of its statistic.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from normtutor import layers
from normtutor.data import TokenBatch
from normtutor.models import NormFactory, TransformerLM
from normtutor.training import language_model_loss, mean_token_loss, start, train
from normtutor_studies.experiments.records import Saved

CHAPTER = "06_power_norm"
FIGURE = "fig-pn-topics"
FINDING = (
    "in 300 steps one-topic batches set BatchNorm back, and PowerNorm about half as far in five "
    "seeds, as far in a sixth"
)
XLABEL = "test loss minus LayerNorm's (nats/token)"
SEEDS = tuple(range(10, 15))

WARMUP = 40  # steps, of PN and of the learning rate


class BatchMeanThenRMS(nn.Module):
    """Subtract the batch's mean of each feature, then divide each token by its own rms.

    The one half of BatchNorm that PN-V leaves out, in a norm that is otherwise of each token by
    itself. In evaluation the mean is a running average, as in BatchNorm.
    """

    running_mean: Tensor

    def __init__(self, features: int, momentum: float = 0.1) -> None:
        super().__init__()
        self.momentum = momentum
        self.rms = layers.RMSNorm(features)
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, H) -> (B, L, H)."""
        mean = self.running_mean
        if self.training:
            mean = x.mean(dim=(0, 1))
            with torch.no_grad():
                self.running_mean.lerp_(mean.detach(), self.momentum)
        return self.rms(x - mean) + self.bias


NORMS: dict[str, str | NormFactory] = {
    "layer": "layer",
    "batch": "batch",
    "power-v": "power-v",
    "power": lambda features: layers.PowerNorm(features, warmup_steps=WARMUP),
    "rms": "rms",
    "batch mean, rms": BatchMeanThenRMS,
}
SHARES = (0.0, 0.5, 1.0)


class Languages(NamedTuple):
    """The chains: K topics over S symbols each. Token number = topic · S + symbol."""

    first: np.ndarray  # (K, S): the stationary distribution
    transitions: np.ndarray  # (K, S, S)

    @property
    def entropy(self) -> float:
        """Of the next token given the present one and the topic, in nats: the smallest loss."""
        terms = -self.transitions * np.log(np.maximum(self.transitions, 1e-300))
        return float((self.first * terms.sum(axis=-1)).sum(axis=-1).mean())


@dataclass(frozen=True)
class Condition:
    """One model: its norm, the share of one-topic batches, its learning rate."""

    norm: str
    share: float
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    topics: int = 8
    symbols: int = 32
    concentration: float = 0.05  # of the Dirichlet distribution of each row: few likely successors
    batch_size: int = 16
    length: int = 24
    width: int = 32
    depth: int = 2
    heads: int = 4
    steps: int = 300
    test_batches: int = 20

    @property
    def build(self) -> dict[str, Any]:
        """How the model is built beyond its size; as it is, Post-LN with a tied output."""
        return {}


# The learning rates that topic_rates chose; a test compares them with its saved run.
CONFIG = Config(
    conditions=(
        Condition("layer", 0.0, 24e-3),
        Condition("layer", 0.5, 12e-3),
        Condition("layer", 1.0, 6e-3),
        Condition("batch", 0.0, 24e-3),
        Condition("batch", 0.5, 24e-3),
        Condition("batch", 1.0, 24e-3),
        Condition("power-v", 0.0, 24e-3),
        Condition("power-v", 0.5, 12e-3),
        Condition("power-v", 1.0, 12e-3),
        Condition("power", 0.0, 24e-3),
        Condition("power", 0.5, 12e-3),
        Condition("power", 1.0, 6e-3),
        Condition("rms", 0.0, 24e-3),
        Condition("rms", 0.5, 12e-3),
        Condition("rms", 1.0, 6e-3),
        Condition("batch mean, rms", 0.0, 24e-3),
        Condition("batch mean, rms", 0.5, 24e-3),
        Condition("batch mean, rms", 1.0, 12e-3),
    )
)


def fingerprint(config: Config) -> dict[str, str]:
    """The text is made from the seed 0 and the settings: nothing to identify."""
    return {}


@cache
def _languages(topics: int, symbols: int, concentration: float) -> Languages:
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.full(symbols, concentration), size=(topics, symbols))
    # A little of everything, so that every chain reaches all of its symbols.
    transitions = 0.98 * transitions + 0.02 / symbols
    first = np.full((topics, symbols), 1 / symbols)
    for _ in range(200):
        first = np.einsum("ks,kst->kt", first, transitions)
    return Languages(first, transitions)


def languages(config: Config) -> Languages:
    """The chains, the same for every seed."""
    return _languages(config.topics, config.symbols, config.concentration)


def batches(config: Config, share: float, rng: np.random.Generator) -> Iterator[TokenBatch]:
    """Yield batches for ever, the given share of them, on average, of one topic."""
    text = languages(config)
    cumulative = text.transitions.cumsum(axis=-1)
    B, L, S = config.batch_size, config.length, config.symbols
    mask = torch.ones(B, L, dtype=torch.bool)
    while True:
        alike = rng.random() < share
        topic = rng.integers(config.topics, size=B)
        if alike:
            topic[:] = topic[0]
        symbols = np.empty((B, L + 1), dtype=np.int64)
        draws = rng.random((B, L + 1))
        symbols[:, 0] = (draws[:, :1] > text.first.cumsum(axis=-1)[topic]).sum(axis=-1)
        for step in range(1, L + 1):
            rows = cumulative[topic, symbols[:, step - 1]]  # (B, S)
            symbols[:, step] = (draws[:, step : step + 1] > rows).sum(axis=-1)
        # Rounding may leave a draw above the last cumulative sum.
        numbers = torch.from_numpy(topic[:, None] * S + np.minimum(symbols, S - 1))
        yield TokenBatch(numbers[:, :-1], numbers[:, 1:], mask)


def take(count: int, stream: Iterator[TokenBatch]) -> list[TokenBatch]:
    """The next ``count`` batches."""
    return [next(stream) for _ in range(count)]


def train_condition(
    config: Config, condition: Condition, seed: int
) -> tuple[TransformerLM, list[float], bool]:
    """Train one model; return it, its losses by step, and whether it diverged."""
    order = start(seed)
    model = TransformerLM(
        config.topics * config.symbols,
        width=config.width,
        depth=config.depth,
        heads=config.heads,
        max_length=config.length,
        norm=NORMS[condition.norm],
        dropout=0.0,
        **config.build,
    )
    history = train(
        model,
        batches(config, condition.share, order),
        language_model_loss,
        steps=config.steps,
        learning_rate=condition.learning_rate,
        warmup=WARMUP,
    )
    return model, history.loss, history.diverged


def run_condition(config: Config, condition: Condition, seed: int) -> dict[str, Any]:
    """Train one model; measure it on mixed batches, and on batches composed as in training."""
    model, curve, diverged = train_condition(config, condition, seed)
    rng = np.random.default_rng(1000 + seed)  # sequences that no training has seen
    mixed = take(config.test_batches, batches(config, 0.0, rng))
    alike = take(config.test_batches, batches(config, condition.share, rng))
    return {
        "norm": condition.norm,
        "share": condition.share,
        "learning_rate": condition.learning_rate,
        "diverged": diverged,
        "train": float(np.mean(curve[-100:])),
        "loss": mean_token_loss(model, mixed),
        "own": mean_token_loss(model, alike),
        "own_batch": mean_token_loss(model, alike, batch_statistics=True),
        "mixed_batch": mean_token_loss(model, mixed, batch_statistics=True),
    }


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed."""
    return [run_condition(config, condition, seed) for condition in config.conditions]


def differences(saved: Saved, key: str = "loss") -> dict[str, np.ndarray]:
    """For each norm the difference to LayerNorm, paired by seed, (seeds, shares)."""
    layer = np.stack([saved.values(key, norm="layer", share=share) for share in SHARES], axis=1)
    return {
        norm: np.stack([saved.values(key, norm=norm, share=share) for share in SHARES], axis=1)
        - layer
        for norm in NORMS
        if norm != "layer"
    }


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """What the figure shows, as rows: test losses minus LayerNorm's, paired by seed."""
    titles = {
        "batch": "BatchNorm",
        "power-v": "PN-V",
        "power": "PN",
        "rms": "RMSNorm",
        "batch mean, rms": "batch mean, RMSNorm",
    }
    return {
        f"share {share:g}, {titles[norm]}": losses[:, position]
        for norm, losses in differences(saved).items()
        for position, share in enumerate(SHARES)
    }
