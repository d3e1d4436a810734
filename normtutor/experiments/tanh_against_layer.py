"""Dynamic tanh (DyT) in the place of LayerNorm, with all of the text and with little of it.

A Pre-LN language model of three layers; "none" leaves the norms out. The share is the part of
every training document that a model sees: with little text, it sees the same again and again. The
learning rate of each condition was chosen by :mod:`normtutor.experiments.tanh_rates`, on other
seeds and on the validation part. What is recorded here is measured on the test part.

Control: a deficit could come from the rate, which was tuned for every model; from where α starts,
which was left at 0.5; or from the norm after the last layer, which has a cost of its own when the
output is tied to the embedding, as it is here. The model without a norm hints at the last of these.
Not checked here: other starting values of α, an untied output, and more than 300 steps.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from normtutor.experiments import text_chunks
from normtutor.experiments.records import Saved, short
from normtutor.experiments.text_chunks import Text, corpus_of, fingerprint
from normtutor.layers import DynamicTanh
from normtutor.models import TransformerLM
from normtutor.training import evaluation_mode

__all__ = ["CONFIG", "SEEDS", "Condition", "Config", "corpus_of", "fingerprint", "run"]

CHAPTER = "08_after_2020"
FIGURE = "fig-after-dyt"
FINDING = (
    "in a tied model, in the place of every norm and of the last one too, dynamic tanh trails "
    "LayerNorm, and less so with little text"
)
XLABEL = "test loss minus LayerNorm's (nats/token)"
SEEDS = tuple(range(10, 16))
NORMS = ("layer", "tanh", "none")
SHARES = (1.0, 0.125)


@dataclass(frozen=True)
class Condition:
    """What stands in the place of the norm, the share of the text, and the learning rate."""

    norm: str
    share: float
    learning_rate: float


@dataclass(frozen=True)
class Config(Text):
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = ()
    wiring: str = "pre"
    width: int = 64
    depth: int = 3
    steps: int = 300
    warmup: int = 30


# The learning rates that tanh_rates chose; a test compares them with its saved run.
CONFIG = Config(
    conditions=(
        Condition("layer", 1.0, 16e-3),
        Condition("tanh", 1.0, 4e-3),
        Condition("none", 1.0, 8e-3),
        Condition("layer", 0.125, 4e-3),
        Condition("tanh", 0.125, 4e-3),
        Condition("none", 0.125, 2e-3),
    )
)


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; measure on the test part."""
    return measure(config, seed, "test")


def measure(config: Config, seed: int, part: str) -> list[dict[str, Any]]:
    """Train every condition, all rates of one kind together; measure on ``part``."""
    batches = text_chunks.held_out(config, part)
    tokens = text_chunks.some_tokens(config)
    records = []
    for group in text_chunks.grouped(config.conditions):
        models, histories = text_chunks.train_at(
            config,
            [condition.learning_rate for condition in group],
            seed,
            steps=config.steps,
            warmup=config.warmup,
            share=group[0].share,
            norm=group[0].norm,
            wiring=config.wiring,
            depth=config.depth,
        )
        for condition, model, history in zip(group, models, histories, strict=True):
            records.append(
                {
                    "norm": condition.norm,
                    "share": condition.share,
                    "learning_rate": condition.learning_rate,
                    "diverged": history.diverged,
                    "loss": text_chunks.loss_of(model, batches, history),
                    "train": text_chunks.end_of(history.loss),
                    "alpha": [short(layer.alpha.item()) for layer in tanh_layers(model)],
                    "saturated": saturated(model, tokens),
                }
            )
    return records


def tanh_layers(model: TransformerLM) -> list[DynamicTanh]:
    """The dynamic tanhs from bottom to top."""
    return [module for module in model.modules() if isinstance(module, DynamicTanh)]


def saturated(model: TransformerLM, tokens: Tensor) -> list[float]:
    """For each dynamic tanh, the share of entries with αx beyond ±2: the slope is below 0.08."""
    shares: list[float] = []

    def look(module: Any, args: tuple[Tensor]) -> None:
        shares.append(short(((module.alpha * args[0]).abs() > 2).float().mean().item()))

    handles = [layer.register_forward_pre_hook(look) for layer in tanh_layers(model)]
    with evaluation_mode(model):
        model.hidden(tokens)
    for handle in handles:
        handle.remove()
    return shares


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus LayerNorm's on the same share of the text, paired by seed."""
    names = {"tanh": "DyT", "none": "no norm"}
    return {
        f"{names[norm]}, {share:g} of the text": saved.values("loss", norm=norm, share=share)
        - saved.values("loss", norm="layer", share=share)
        for share in SHARES
        for norm in names
    }
