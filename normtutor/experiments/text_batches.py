"""A Transformer language model on padded sentences: LayerNorm, BatchNorm with and without a mask.

What changes is which sentences meet in a batch (any, neighbours in the text, or sentences of equal
length) and how many. Dropout is off, so that training and evaluation differ in the source of
BatchNorm's statistics and in nothing else. The learning rate of each condition was chosen by
:mod:`normtutor.experiments.text_rates` on other seeds and on the validation part of the text; what
is recorded here is measured on the test part.

Tried and dropped: pilots with one seed, dropout 0.1, sentences up to 62 tokens and 1000 steps. They
showed the same order of the kinds of batches, with a larger gap for equal lengths, and took too
long to repeat. Width, depth, wiring and warm-up were not tuned.

Control: a deficit of BatchNorm could come from padding, so it runs with a mask and without; from
the rate, which was tuned; or from its two modes, so the same test batches are scored with running
statistics and with those of the batch. A model without any norm runs alongside. The output is tied
to the embedding and the norms stand on the stream (Post-LN), both of which hold LayerNorm's model
back; :mod:`normtutor.experiments.batch_composition` repeats the comparison without either, on
another text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from normtutor.data import (
    END,
    Corpus,
    Order,
    Sentence,
    TokenBatch,
    epochs,
    load_corpus,
    pad,
    sentence_batches,
)
from normtutor.experiments.records import Saved
from normtutor.models import NormFactory, TransformerLM
from normtutor.training import (
    evaluation_mode,
    language_model_loss,
    start,
    token_losses,
    train,
)

CHAPTER = "03_batch_norm_vs_layer_norm"
FIGURE = "fig-seq-text"
FINDING = "BatchNorm keeps up on shuffled sentences and breaks on batches of equal length"
XLABEL = "BatchNorm's test loss minus LayerNorm's (nats/token)"
SEEDS = tuple(range(10, 15))

# name -> (the norm, whether it is told which tokens are padding)
NORMS: dict[str, tuple[str, bool]] = {
    "layer": ("layer", True),
    "batch": ("batch", False),
    "masked batch": ("batch", True),
    "none": ("none", True),
}
CELLS: tuple[tuple[Order, int], ...] = (
    ("shuffled", 16),
    ("shuffled", 4),
    ("document", 16),
    ("document", 4),
    ("length", 16),
)
# Losses are also recorded by the length of the sentence: inputs up to this many tokens.
LENGTHS = (8, 16, 32, 41)
BLOCK = 20  # steps averaged into one point of the training curve


@dataclass(frozen=True)
class Condition:
    """One model: its norm, its batches and its learning rate."""

    norm: str
    order: Order
    batch_size: int
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    width: int = 64
    depth: int = 2
    heads: int = 4
    wiring: str = "post"
    dropout: float = 0.0
    longest: int = 40
    min_count: int = 3
    steps: int = 600
    warmup: int = 60
    recalibration_batches: int = 200


# The learning rates that text_rates chose; a test compares them with its saved run.
CONFIG = Config(
    conditions=(
        Condition("layer", "shuffled", 16, 8e-3),
        Condition("batch", "shuffled", 16, 8e-3),
        Condition("masked batch", "shuffled", 16, 8e-3),
        Condition("none", "shuffled", 16, 8e-3),
        Condition("layer", "shuffled", 4, 4e-3),
        Condition("batch", "shuffled", 4, 4e-3),
        Condition("masked batch", "shuffled", 4, 4e-3),
        Condition("none", "shuffled", 4, 8e-3),
        Condition("layer", "document", 16, 4e-3),
        Condition("batch", "document", 16, 4e-3),
        Condition("masked batch", "document", 16, 8e-3),
        Condition("layer", "document", 4, 4e-3),
        Condition("batch", "document", 4, 4e-3),
        Condition("masked batch", "document", 4, 4e-3),
        Condition("layer", "length", 16, 4e-3),
        Condition("batch", "length", 16, 16e-3),
        Condition("masked batch", "length", 16, 16e-3),
    )
)


# These three serve the experiments on PowerNorm too, whose configuration has the same entries.


def corpus_of(config: Any) -> Corpus:
    """The text."""
    return load_corpus(
        text="python", level="word", longest=config.longest, min_count=config.min_count
    )


def fingerprint(config: Any) -> dict[str, str]:
    """The text differs between Python versions: its SHA-256."""
    return {"text_sha256": corpus_of(config).sha256}


def train_condition(
    config: Any,
    condition: Condition,
    seed: int,
    norms: Mapping[str, tuple[str | NormFactory, bool]] = NORMS,
) -> tuple[TransformerLM, list[float], bool]:
    """Train one model; return it, its losses by step, and whether it diverged."""
    corpus = corpus_of(config)
    order = start(seed)
    norm, mask_norms = norms[condition.norm]
    model = TransformerLM(
        len(corpus.vocabulary),
        width=config.width,
        depth=config.depth,
        heads=config.heads,
        max_length=config.longest + 1,
        norm=norm,
        wiring=config.wiring,
        dropout=config.dropout,
        mask_norms=mask_norms,
    )
    history = train(
        model,
        epochs(
            lambda: sentence_batches(corpus.train, condition.batch_size, condition.order, order)
        ),
        language_model_loss,
        steps=config.steps,
        learning_rate=condition.learning_rate,
        warmup=config.warmup,
    )
    return model, history.loss, history.diverged


def losses(
    model: TransformerLM,
    batches: Iterable[TokenBatch],
    *,
    batch_statistics: bool = False,
    lengths_up_to: Sequence[int] = LENGTHS,
) -> dict[str, Any]:
    """Mean loss per token: over all tokens, over end marks, over the rest, and by length."""
    parts: dict[str, list[torch.Tensor]] = {"loss": [], "end": [], "length": []}
    with evaluation_mode(model, batch_statistics=batch_statistics):
        for batch in batches:
            parts["loss"].append(token_losses(model, batch))
            parts["end"].append(batch.targets[batch.mask] == END)
            lengths = batch.mask.sum(dim=1, keepdim=True).expand_as(batch.mask)
            parts["length"].append(lengths[batch.mask])
    loss, end, length = (torch.cat(part) for part in parts.values())
    group = torch.bucketize(length, torch.tensor(lengths_up_to))
    return {
        "all": loss.mean().item(),
        "end": loss[end].mean().item(),
        "other": loss[~end].mean().item(),
        "by_length": [loss[group == i].mean().item() for i in range(len(lengths_up_to))],
    }


def recalibrate(model: TransformerLM, batches: Iterable[TokenBatch]) -> None:
    """Replace running statistics by plain averages over ``batches``, weights unchanged."""
    norms = [m for m in model.modules() if hasattr(m, "running_mean")]
    for norm in norms:
        norm.reset_running_stats()  # type: ignore[operator]
        norm.momentum = None  # type: ignore[assignment]  # torch: average over all batches
        norm.train()
    with torch.no_grad():
        for batch in batches:
            model.hidden(batch.inputs, batch.mask)
    model.eval()


def run_condition(
    config: Config,
    condition: Condition,
    sentences: tuple[tuple[Sentence, ...], ...],
    seed: int,
) -> dict[str, Any]:
    """Train one model and measure it on ``sentences`` in both modes."""
    model, curve, diverged = train_condition(config, condition, seed)
    corpus = corpus_of(config)
    # The batches of an evaluation are the same for every model of this seed.
    rng = np.random.default_rng(seed)
    everything = [sentence for document in sentences for sentence in document]
    one_by_one = [pad([sentence]) for sentence in everything]
    in_batches = [pad(everything[i : i + 64]) for i in range(0, len(everything), 64)]
    as_in_training = sentence_batches(sentences, condition.batch_size, condition.order, rng)
    kept = losses(model, as_in_training)  # the few left over by full batches are not in it
    record: dict[str, Any] = {
        "norm": condition.norm,
        "order": condition.order,
        "batch_size": condition.batch_size,
        "learning_rate": condition.learning_rate,
        "diverged": diverged,
        "curve": [
            float(np.mean(curve[i : i + BLOCK])) for i in range(0, len(curve) - BLOCK + 1, BLOCK)
        ],
        **losses(model, in_batches),
        **{f"kept_{name}": value for name, value in kept.items()},
    }
    if NORMS[condition.norm][0] == "batch":
        batch = losses(model, as_in_training, batch_statistics=True)
        alone = losses(model, one_by_one, batch_statistics=True)
        record |= {f"batch_{name}": value for name, value in batch.items()}
        record["alone_all"] = alone["all"]
        # Two averages over the training text: of batches as in training, each weighing the same;
        # and of shuffled batches, which comes close to pooling all tokens.
        for name, how in (("recalibrated", condition.order), ("pooled", "shuffled")):
            batches = sentence_batches(corpus.train, condition.batch_size, how, rng)
            recalibrate(model, batches[: config.recalibration_batches])
            after = losses(model, in_batches)
            record |= {f"{name}_{part}": value for part, value in after.items()}
    return record


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; report on the test part."""
    sentences = corpus_of(config).test
    return [run_condition(config, condition, sentences, seed) for condition in config.conditions]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """What the figure shows: BatchNorm's test loss minus LayerNorm's, paired by seed."""
    names = {"batch": "plain", "masked batch": "masked"}
    orders = {"shuffled": "shuffled", "document": "neighbours", "length": "of equal length"}
    return {
        f"{size} {orders[order]}, {names[norm]}": saved.values(
            "all", norm=norm, order=order, batch_size=size
        )
        - saved.values("all", norm="layer", order=order, batch_size=size)
        for order, size in CELLS
        for norm in names
    }
