"""What the experiments on current designs share: a language model on chunks of Python's reference.

The corpus is cut into chunks of equal length without padding. Learning rates are chosen on the
validation part, losses are reported on the test part.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from normtutor.data import Corpus, TokenBatch, chunk_batches, epochs, load_corpus
from normtutor.experiments.records import short
from normtutor.models import TransformerLM
from normtutor.training import (
    History,
    masked_language_model_loss,
    mean_token_loss,
    start,
    train_together,
)


@dataclass(frozen=True)
class Text:
    """The text, the batches and the size of the model, apart from what an experiment varies."""

    longest: int = 40
    min_count: int = 3
    length: int = 32
    batch_size: int = 8
    width: int = 48
    heads: int = 4


def corpus_of(text: Text) -> Corpus:
    """The text, by its settings."""
    return load_corpus(text="python", level="word", longest=text.longest, min_count=text.min_count)


def fingerprint(text: Text) -> dict[str, str]:
    """The text differs between Python versions: its SHA-256."""
    return {"text_sha256": corpus_of(text).sha256}


def build(text: Text, seed: int, **settings: Any) -> tuple[TransformerLM, np.random.Generator]:
    """An untrained model and the generator for the order of its data."""
    order = start(seed)
    model = TransformerLM(
        len(corpus_of(text).vocabulary),
        width=text.width,
        heads=text.heads,
        max_length=text.length,
        dropout=0.0,
        **settings,
    )
    return model, order


def training_batches(
    text: Text, order: np.random.Generator, *, share: float = 1.0
) -> Iterator[TokenBatch]:
    """Shuffled chunks of the first ``share`` of every training document, for ever."""
    documents = tuple(
        document[: math.ceil(share * len(document))] for document in corpus_of(text).train
    )
    return epochs(lambda: chunk_batches(documents, text.batch_size, text.length, "shuffled", order))


def held_out(text: Text, part: str) -> list[TokenBatch]:
    """The validation or the test part, in order."""
    documents = getattr(corpus_of(text), part)
    rng = np.random.default_rng(0)  # it orders the batches, which changes no mean
    return chunk_batches(documents, 16, text.length, "document", rng)


def some_tokens(text: Text) -> Tensor:
    """Sixteen chunks of the validation part, the same for every model, (16, length)."""
    return held_out(text, "validation")[0].inputs


def train_at(
    text: Text,
    rates: Sequence[float],
    seed: int,
    *,
    steps: int,
    warmup: int,
    share: float = 1.0,
    evaluate: Any = None,
    evaluate_every: int | None = None,
    **settings: Any,
) -> tuple[list[TransformerLM], list[History]]:
    """Train one model a learning rate, all from the same weights and on the same batches."""
    built = [build(text, seed, **settings) for _ in rates]
    models = [model for model, _ in built]
    histories = train_together(
        models,
        [training_batches(text, order, share=share) for _, order in built],
        masked_language_model_loss,
        steps=steps,
        learning_rate=list(rates),
        warmup=warmup,
        evaluate=evaluate,
        evaluate_every=evaluate_every,
    )
    return models, histories


def loss_of(model: TransformerLM, batches: Sequence[TokenBatch], history: History) -> float | None:
    """Mean loss per token, or None if the run did not end."""
    if history.diverged:
        return None
    return short(mean_token_loss(model, batches), 5)


def end_of(curve: Sequence[float], steps: int = 20) -> float:
    """Mean training loss over the last steps."""
    return short(float(np.mean(curve[-steps:])), 5)


def grouped(conditions: Sequence[Any]) -> list[list[Any]]:
    """Conditions that differ in nothing but their learning rate, together."""
    groups: dict[Any, list[Any]] = {}
    for condition in conditions:
        cell = tuple(v for k, v in vars(condition).items() if k != "learning_rate")
        groups.setdefault(cell, []).append(condition)
    return list(groups.values())


@torch.no_grad()
def streams(model: TransformerLM, tokens: Tensor) -> list[Tensor]:
    """The residual stream before the first layer and after each, depth + 1 of (B, L, H)."""
    x = model.embed(tokens)
    found = [x]
    for layer in model.layers:
        x = layer(x)
        found.append(x)
    return found
