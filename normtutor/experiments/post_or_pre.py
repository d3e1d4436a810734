"""Does Post-LN end better than Pre-LN? A language model of six layers, both at their own rate.

The learning rate of each wiring was chosen by :mod:`normtutor.experiments.post_or_pre_rates`, on
other seeds and on the validation part of the text. What is recorded here is measured on the test
part. Both have the warm-up that Post-LN needs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from normtutor.data import Corpus, TokenBatch, chunk_batches, epochs, load_corpus
from normtutor.experiments.records import Saved
from normtutor.experiments.wide_and_shallow import operate
from normtutor.experiments.wired_sorting import short
from normtutor.models import TransformerLM
from normtutor.training import History, language_model_loss, mean_token_loss, start, train

CHAPTER = "07_pre_ln_and_post_ln"
FIGURE = "fig-wiring-end"
FINDING = "at its own rate Post-LN does not end better than Pre-LN"
XLABEL = "Post-LN's test loss minus Pre-LN's (nats/token)"
SEEDS = tuple(range(10, 15))
BLOCK = 20  # steps averaged into one point of the training curve


@dataclass(frozen=True)
class Condition:
    """A wiring with its learning rate."""

    wiring: str
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    width: int = 64
    depth: int = 6
    heads: int = 4
    dropout: float = 0.0
    longest: int = 40
    min_count: int = 3
    length: int = 32
    batch_size: int = 16
    steps: int = 400
    warmup: int = 80
    evaluate_every: int = 100


# The learning rates that post_or_pre_rates chose; a test compares them with its saved run.
CONFIG = Config(conditions=(Condition("post", 2e-3), Condition("pre", 8e-3)))


def corpus_of(config: Config) -> Corpus:
    """The text."""
    return load_corpus(longest=config.longest, min_count=config.min_count)


def fingerprint(config: Config) -> dict[str, str]:
    """The text differs between Python versions: its SHA-256."""
    return {"text_sha256": corpus_of(config).sha256}


def chunks(config: Config, part: str) -> list[TokenBatch]:
    """The validation or the test part, in order."""
    documents = getattr(corpus_of(config), part)
    rng = np.random.default_rng(0)  # it orders the batches, which changes no mean
    return chunk_batches(documents, 16, config.length, "document", rng)


def build(config: Config, wiring: str, seed: int) -> tuple[TransformerLM, np.random.Generator]:
    """An untrained model and the generator for the order of its data."""
    order = start(seed)
    model = TransformerLM(
        len(corpus_of(config).vocabulary),
        width=config.width,
        depth=config.depth,
        heads=config.heads,
        max_length=config.length,
        wiring=wiring,
        dropout=config.dropout,
    )
    return model, order


def training_batches(config: Config, order: np.random.Generator) -> Any:
    """Shuffled chunks of the training part, for ever."""
    documents = corpus_of(config).train
    return epochs(
        lambda: chunk_batches(documents, config.batch_size, config.length, "shuffled", order)
    )


def train_condition(
    config: Config, condition: Condition, seed: int
) -> tuple[TransformerLM, History]:
    """Train one model; the test loss is taken on the way too, for the figure alone."""
    model, order = build(config, condition.wiring, seed)
    test = chunks(config, "test")
    history = train(
        model,
        training_batches(config, order),
        language_model_loss,
        steps=config.steps,
        learning_rate=condition.learning_rate,
        warmup=config.warmup,
        evaluate=lambda model: {"loss": mean_token_loss(model, test)},  # type: ignore[arg-type]
        evaluate_every=config.evaluate_every,
    )
    return model, history


def run_condition(config: Config, condition: Condition, seed: int) -> dict[str, Any]:
    """Train one model; measure it whole, and with layers removed or swapped."""
    model, history = train_condition(config, condition, seed)
    curve = history.loss
    batches = chunks(config, "test")[:8]
    some = TokenBatch(*(torch.cat(parts) for parts in zip(*batches, strict=True)))
    return {
        "wiring": condition.wiring,
        "learning_rate": condition.learning_rate,
        "diverged": history.diverged,
        "loss": history.evaluations[-1]["loss"] if history.evaluations else None,
        "test_curve": [short(numbers["loss"]) for numbers in history.evaluations],
        "train_curve": [
            short(float(np.mean(curve[i : i + BLOCK])))
            for i in range(0, len(curve) - BLOCK + 1, BLOCK)
        ],
        **operate(model, some),
    }


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train both wirings with this seed."""
    return [run_condition(config, condition, seed) for condition in config.conditions]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Post-LN's test loss minus Pre-LN's, paired by seed, along the training."""
    post, pre = (saved.values("test_curve", wiring=wiring) for wiring in ("post", "pre"))
    every = saved.config["evaluate_every"]
    return {f"after {every * (i + 1)} steps": (post - pre)[:, i] for i in range(post.shape[1])}
