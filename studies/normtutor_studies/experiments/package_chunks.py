"""What the experiments on why to normalize share: a language model on chunks of the default text.

The text is that of :mod:`normtutor.package_text` in pieces of words, cut into chunks of equal
length without padding. Settings are chosen on the validation part, losses are reported on the test
part. ``SMALL`` is the size that the book can afford on a processor, ``LARGE`` the one that
``--scale large`` runs, meant for a GPU.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from normtutor.data import Corpus, TokenBatch, cut_chunks, load_corpus, shuffled_chunks
from normtutor.models import TransformerLM
from normtutor.training import (
    History,
    language_model_loss,
    masked_language_model_loss,
    mean_token_loss,
    start,
    train,
    train_together,
)


@dataclass(frozen=True)
class Size:
    """The text, the batches, the length of a run and the width, apart from what is varied."""

    longest: int = 62
    length: int = 32
    batch_size: int = 8
    width: int = 32
    heads: int = 4
    steps: int = 400
    warmup: int = 100
    held_out_chunks: int = 512
    clip: float | None = None


SMALL = Size()
#: 8,192 tokens a step; 1,000 steps read the text about three times.
LARGE = Size(
    length=64,
    batch_size=128,
    width=256,
    steps=1000,
    warmup=200,
    held_out_chunks=1024,
)


def corpus_of(size: Size) -> Corpus:
    """The text."""
    return load_corpus(longest=size.longest)


def fingerprint(config: Any) -> dict[str, str]:
    """The text differs between versions of the packages: its SHA-256."""
    return {"text_sha256": corpus_of(config.size).sha256}


@lru_cache(maxsize=8)
def _chunks(sha256: str, part: str, size: Size) -> tuple[np.ndarray, np.ndarray]:
    return cut_chunks(getattr(corpus_of(size), part), size.length)


def chunks_of(size: Size, part: str) -> tuple[np.ndarray, np.ndarray]:
    """The part called ``part`` of the text in chunks."""
    return _chunks(corpus_of(size).sha256, part, size)


@lru_cache(maxsize=4)
def _held_out(sha256: str, part: str, size: Size, device: str) -> tuple[TokenBatch, ...]:
    chunks = chunks_of(size, part)
    if not len(chunks[0]):
        raise ValueError(
            f"the {part} part of the text has fewer than {size.length + 1} tokens, not enough for "
            "a chunk. Use a smaller batch or a longer text."
        )
    batch = min(64, len(chunks[0]))
    count = max(1, min(size.held_out_chunks, len(chunks[0])) // batch)
    batches = shuffled_chunks(chunks, batch, np.random.default_rng(0))
    return tuple(next(batches) for _ in range(count))


def held_out(size: Size, part: str) -> tuple[TokenBatch, ...]:
    """Chunks of the validation or the test part, drawn once: the same for every model."""
    import torch

    device = str(torch.get_default_device())
    return _held_out(corpus_of(size).sha256, part, size, device)


def build(size: Size, seed: int, **settings: Any) -> tuple[TransformerLM, np.random.Generator]:
    """An untrained model and the generator for the order of its data."""
    order = start(seed)
    model = TransformerLM(
        len(corpus_of(size).vocabulary),
        width=size.width,
        heads=size.heads,
        max_length=size.length,
        dropout=0.0,
        **settings,
    )
    return model, order


def train_models(
    size: Size,
    runs: Sequence[tuple[int, float]],
    *,
    together: bool = True,
    adjust: Callable[[TransformerLM], None] | None = None,
    training: Mapping[str, Any] | None = None,
    **settings: Any,
) -> list[tuple[TransformerLM, History]]:
    """Train one model for each pair of a seed and a learning rate, all built alike.

    Two with the same seed start from the same weights and see the same batches. ``together=False``
    is for PowerNorm, which cannot train under vmap. ``adjust`` changes each model before training;
    ``training`` overrides how it is trained.
    """
    chunks = chunks_of(size, "train")
    models, batches = [], []
    for seed, _ in runs:
        model, order = build(size, seed, **settings)
        models.append(model)
        if adjust is not None:
            adjust(model)
        batches.append(shuffled_chunks(chunks, size.batch_size, order))
    how: dict[str, Any] = {"steps": size.steps, "warmup": size.warmup, "clip": size.clip}
    how |= training or {}
    if together:
        histories = train_together(
            models,
            batches,
            masked_language_model_loss,
            learning_rate=[rate for _, rate in runs],
            **how,
        )
    else:
        histories = [
            train(model, stream, language_model_loss, learning_rate=rate, **how)
            for model, stream, (_, rate) in zip(models, batches, runs, strict=True)
        ]
    return list(zip(models, histories, strict=True))


def measured(size: Size, model: TransformerLM, history: History) -> dict[str, Any]:
    """Losses at the end on all three parts, whether the run diverged, and how often it clipped."""
    record: dict[str, Any] = {"diverged": history.diverged}
    for part in ("validation", "test"):
        loss = math.nan if history.diverged else mean_token_loss(model, held_out(size, part))
        record[part] = round(loss, 4)
    record["train"] = round(float(np.mean(history.loss[-20:])), 4)
    if size.clip is not None:
        lengths = np.array(history.gradient_norm)
        record["clipped"] = round(float((lengths > size.clip).mean()), 4) if len(lengths) else 0.0
    return record
