"""A language model on padded sentences with PowerNorm, beside LayerNorm and BatchNorm.

The data, the model, the seeds and the measurements are those of
:mod:`normtutor.experiments.text_batches`, so that a difference to a run saved there is paired by
seed: a norm draws no random number, and the same seed gives the same initial weights and the same
batches. New here are PN-V, PN, and PN as its authors' code has it, a batch of 2 sentences for
LayerNorm, BatchNorm and the three, and settings of PN's warm-up and averages. The learning rate of
each condition was chosen by :mod:`normtutor.experiments.power_rates` on other seeds and on the
validation part; what is recorded here is measured on the test part.

Control: a difference could come from the rate, which was tuned for every norm, though on two rates
only; from the batches, which are the same for every norm of a seed; or from padding, which every
norm here is told to leave out. A model without any norm runs alongside: where it does as well, the
text shows what a norm costs and not what it gains. Not checked here: Pre-LN and an untied output,
which :mod:`normtutor.experiments.batch_composition` has, and more than 600 steps.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from normtutor import layers
from normtutor.data import Order, Sentence, pad, sentence_batches
from normtutor.experiments import text_batches
from normtutor.experiments.records import Saved, load
from normtutor.experiments.text_batches import (
    BLOCK,
    Condition,
    corpus_of,
    fingerprint,
    losses,
    train_condition,
)
from normtutor.models import NormFactory

__all__ = ["CONFIG", "NORMS", "SEEDS", "Condition", "Config", "fingerprint", "rows", "run"]

CHAPTER = "06_power_norm"
FIGURE = "fig-pn-text"
FINDING = "on equal lengths PN stays close to LayerNorm and BatchNorm does not; PN is never ahead"
XLABEL = "test loss minus LayerNorm's (nats/token)"
SEEDS = tuple(range(10, 15))
HEADS = 4
# A third of the training, chosen in a pilot on one seed of power_rates and the validation part.
PN_WARMUP = 200

# name -> (the norm, whether it is told which tokens are padding)
NORMS: dict[str, tuple[str | NormFactory, bool]] = {
    **text_batches.NORMS,
    "power-v": ("power-v", True),
    "power": (partial(layers.PowerNorm, warmup_steps=PN_WARMUP), True),
    # The published code scales tokens in as many groups as there are heads.
    "authors": (
        partial(
            layers.PowerNorm,
            warmup_steps=PN_WARMUP,
            variant="authors-code",
            groups=HEADS,
            nu_counts_padding=False,  # the published code counts it; these runs leave it out
        ),
        True,
    ),
    "power, warm-up 60": (partial(layers.PowerNorm, warmup_steps=60), True),
    "power, no nu": (partial(layers.PowerNorm, warmup_steps=PN_WARMUP, alpha_backward=1.0), True),
    "authors, one group": (
        partial(
            layers.PowerNorm,
            warmup_steps=PN_WARMUP,
            variant="authors-code",
            nu_counts_padding=False,
        ),
        True,
    ),
}
POWER = ("power-v", "power", "authors")
# What is trained here, by kind of batch; the rest comes from text_batches.
TRAINED: dict[tuple[Order, int], tuple[str, ...]] = {
    ("shuffled", 4): ("power-v", "power"),
    ("document", 4): ("none", *POWER),
    ("document", 2): ("layer", "masked batch", "power-v", "power"),
    ("length", 16): POWER,
}
CELLS: tuple[tuple[Order, int], ...] = (("shuffled", 4), ("document", 4), ("length", 16))
# The ablation of the batch size, on neighbours; BatchNorm's 16 are text_batches'.
SIZES = (2, 4, 16)
# Settings of PN are compared where batches are small and alike; their rate is that of PN there.
VARIANTS = tuple(name for name in NORMS if ", " in name)
VARIANTS_AT: tuple[Order, int] = ("document", 4)


@dataclass(frozen=True)
class Config:
    """All settings of this experiment; those of the model and the text are text_batches'."""

    heads: ClassVar[int] = HEADS  # part of NORMS
    dropout: ClassVar[float] = 0.0

    conditions: tuple[Condition, ...]
    width: int = 64
    depth: int = 2
    wiring: str = "post"
    longest: int = 40
    min_count: int = 3
    steps: int = 600
    warmup: int = 60


# The learning rates that power_rates chose; a test compares them with its saved run.
CONFIG = Config(
    conditions=(
        Condition("power-v", "shuffled", 4, 4e-3),
        Condition("power", "shuffled", 4, 4e-3),
        Condition("none", "document", 4, 8e-3),
        Condition("power-v", "document", 4, 4e-3),
        Condition("power", "document", 4, 4e-3),
        Condition("authors", "document", 4, 4e-3),
        Condition("layer", "document", 2, 4e-3),
        Condition("masked batch", "document", 2, 4e-3),
        Condition("power-v", "document", 2, 2e-3),
        Condition("power", "document", 2, 4e-3),
        Condition("power-v", "length", 16, 8e-3),
        Condition("power", "length", 16, 4e-3),
        Condition("authors", "length", 16, 2e-3),
        Condition("power, warm-up 60", "document", 4, 4e-3),
        Condition("power, no nu", "document", 4, 4e-3),
        Condition("authors, one group", "document", 4, 4e-3),
    )
)


def run_condition(
    config: Config,
    condition: Condition,
    sentences: tuple[tuple[Sentence, ...], ...],
    seed: int,
) -> dict[str, Any]:
    """Train one model and measure it on ``sentences`` in both modes."""
    model, curve, diverged = train_condition(config, condition, seed, NORMS)
    everything = [sentence for document in sentences for sentence in document]
    in_batches = [pad(everything[i : i + 64]) for i in range(0, len(everything), 64)]
    # The same batches as in text_batches: composed as in training, drawn with the seed.
    as_in_training = sentence_batches(
        sentences, condition.batch_size, condition.order, np.random.default_rng(seed)
    )
    record: dict[str, Any] = {
        "norm": condition.norm,
        "order": condition.order,
        "batch_size": condition.batch_size,
        "learning_rate": condition.learning_rate,
        "diverged": diverged,
        "train": float(np.mean(curve[-5 * BLOCK :])),
    }
    measured = {
        "": losses(model, in_batches),
        "kept_": losses(model, as_in_training),
        "batch_": losses(model, as_in_training, batch_statistics=True),
    }
    for prefix, parts in measured.items():
        record |= {f"{prefix}{name}": value for name, value in parts.items()}
    return record


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; report on the test part."""
    sentences = corpus_of(config).test
    return [run_condition(config, condition, sentences, seed) for condition in config.conditions]


def values(saved: Saved, key: str, norm: str, order: str, batch_size: int) -> np.ndarray:
    """A number of every seed, from this saved run or, for the other norms, from text_batches."""
    where = {"norm": norm, "order": order, "batch_size": batch_size}
    here = any(
        all(condition[name] == value for name, value in where.items())
        for condition in saved.config["conditions"]
    )
    return (saved if here else load("text_batches")).values(key, **where)


def has(saved: Saved, norm: str, order: str, batch_size: int) -> bool:
    """Whether this norm was trained with such batches, here or in text_batches."""
    conditions = [*saved.config["conditions"], *load("text_batches").config["conditions"]]
    cell = (norm, order, batch_size)
    return any((c["norm"], c["order"], c["batch_size"]) == cell for c in conditions)


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """What the figure shows: test losses minus LayerNorm's, paired by seed."""
    orders = {"shuffled": "shuffled", "document": "neighbours", "length": "of equal length"}
    names = {"masked batch": "masked BN", "power-v": "PN-V", "power": "PN", "authors": "PN (code)"}
    return {
        f"{size} {orders[order]}, {title}": values(saved, "all", norm, order, size)
        - values(saved, "all", "layer", order, size)
        for order, size in CELLS
        for norm, title in names.items()
        if has(saved, norm, order, size)
    }
