"""One language model, six norms, and four ways to choose the sentences that share a batch.

A batch holds sentences from anywhere (shuffled), neighbours in a module, sentences of one topic, or
sentences of equal length; and, between the first and the third, one-topic batches mixed with
shuffled ones in growing shares. With any share every sentence is drawn equally often: only who
shares a batch with whom differs. Dropout is off, so that training and evaluation differ in the
source of the statistics and in nothing else. The output matrix is not tied to the embedding: tied,
all models with a norm at the end learn much more slowly, and hardly anything could be compared. The
norms stand inside the branches (Pre-LN): with Post-LN and so few steps LayerNorm's model is the one
that trains worst (5.0 nats instead of 4.5), and BatchNorm would be compared with a bad model.

The configuration lists the cells that have been run with all seeds: LayerNorm, masked BatchNorm,
PowerNorm, PN-V and RMSNorm on all four kinds of batches, the first three at every share of
one-topic batches too, BatchNorm without a mask on shuffled and equal-length batches, and no norm on
shuffled ones. For the models without the last norm nothing is on record; their learning rates are
chosen. 300 steps, width 48 and one seed to tune on are what a busy processor could do.

The learning rate of each cell was chosen by :mod:`normtutor_studies.experiments.batch_rates` on other seeds
and on the validation part; what is recorded here is measured on the test part. The controls are a
model without any norm, and models without the norm after the last layer, because that norm has a
cost of its own.

Control: a deficit of BatchNorm could come from padding, so it is masked; from the rate, which was
tuned for every norm on every kind of batches (shares of 1/4 and 3/4 take that of 1/2); from its two
modes, so the same test batches are scored in both, and its running statistics are also replaced by
plain averages; from topics that become rarer, but every sentence is drawn equally often whatever
the share; or from a LayerNorm model that trains badly, as it does with Post-LN, so the norms stand
inside the branches. LayerNorm is scored on other test sentences than BatchNorm in its two modes;
on the same ones, of equal length, it predicts end marks less well than BatchNorm's training mode,
too (:mod:`normtutor_studies.experiments.batch_composition_ends`). A sixth seed, 40, run afterwards and not
on record, lies where the five expect it in all nineteen rows. Shuffled batches and equal lengths
have 1,500 steps in :mod:`normtutor_studies.experiments.batch_composition_longer`; on one-topic batches,
tried on two seeds and not on record, BatchNorm stayed within 0.03 in them. Not checked: a second
text, and another warm-up of PowerNorm's statistic.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from normtutor import layers
from normtutor.data import (
    END,
    Corpus,
    TokenBatch,
    epochs,
    load_corpus,
    pad,
    sentence_stream,
    topic_batches,
)
from normtutor.models import NormFactory, TransformerLM
from normtutor.training import (
    evaluation_mode,
    language_model_loss,
    start,
    token_losses,
    train,
)
from normtutor_studies.experiments.rates import best_tried
from normtutor_studies.experiments.records import Saved, load, short

CHAPTER = "03_batch_norm_vs_layer_norm"
FIGURE = "fig-seq-text"
FINDING = (
    "masked BatchNorm is not told from LayerNorm unless batches are of equal length; then its two "
    "modes part"
)
XLABEL = "test loss minus LayerNorm's (nats/token)"
SEEDS = tuple(range(10, 15))


class Norm(NamedTuple):
    """A norm, whether it is told which tokens are padding, and whether one ends the model."""

    norm: str | NormFactory
    masked: bool = True
    final: bool = True


PN_WARMUP = 100  # steps: a third of the training
NORMS: dict[str, Norm] = {
    "layer": Norm("layer"),
    "rms": Norm("rms"),
    "batch": Norm("batch", masked=False),
    "masked batch": Norm("batch"),
    "power-v": Norm("power-v"),
    "power": Norm(partial(layers.PowerNorm, warmup_steps=PN_WARMUP)),
    "none": Norm("none"),
    "layer, no final": Norm("layer", final=False),
    "masked batch, no final": Norm("batch", final=False),
}
# Kinds of batches: those between "shuffled" and "topic" by their share of one-topic batches.
SHARES = {"shuffled": 0.0, "topic 1/4": 0.25, "topic 1/2": 0.5, "topic 3/4": 0.75, "topic": 1.0}
KINDS = ("shuffled", "document", "topic", "length")
TITLES = {
    "layer": "LayerNorm",
    "rms": "RMSNorm",
    "batch": "BatchNorm, plain",
    "masked batch": "BatchNorm, masked",
    "power-v": "PN-V",
    "power": "PN",
    "none": "no norm",
    "layer, no final": "LayerNorm, none at the end",
    "masked batch, no final": "BatchNorm, none at the end",
}
KIND_TITLES = {
    "shuffled": "shuffled",
    "document": "neighbours",
    "topic": "one topic",
    "length": "equal length",
}
CONTROLS = {
    "none": ("shuffled",),
    "layer, no final": ("shuffled",),
    "masked batch, no final": ("shuffled",),
}
# Without a mask BatchNorm is run on the kinds of batches that differ most in padding.
UNMASKED = ("shuffled", "length")
# These take the learning rate of "topic 1/2"; to tune them too would have taken too long.
UNTUNED = ("topic 1/4", "topic 3/4")
# What is trained with the shares of one-topic batches between 0 and 1.
DOSED = dict.fromkeys(("topic 1/4", "topic 1/2", "topic 3/4"), ("layer", "masked batch", "power"))
POOLING = ("batch", "masked batch", "power-v", "power", "masked batch, no final")
# Losses are also recorded by the length of the sentence: inputs up to this many tokens.
LENGTHS = (8, 16, 24, 33)
BLOCK = 20  # steps averaged into one point of the training curve


def cells() -> tuple[tuple[str, str], ...]:
    """Every norm with every kind of batches that is run, in the order in which it is."""
    kinds_of = dict.fromkeys(NORMS, KINDS) | {"batch": UNMASKED} | CONTROLS
    full = [(norm, kind) for kind in KINDS for norm in NORMS if kind in kinds_of[norm]]
    dosed = [(norm, kind) for kind, norms in DOSED.items() for norm in norms]
    return (*full, *dosed)


@dataclass(frozen=True)
class Condition:
    """One model: its norm, its batches and its learning rate."""

    norm: str
    kind: str
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    width: int = 48
    depth: int = 2
    heads: int = 4
    wiring: str = "pre"
    longest: int = 32
    batch_size: int = 16
    steps: int = 300
    warmup: int = 30
    test_sentences: int = 640
    test_batches: int = 25  # composed as in training
    recalibration_batches: int = 25


#: About 8,192 tokens a step.
LARGE: dict[str, Any] = {
    "width": 256,
    "depth": 6,
    "longest": 62,
    "batch_size": 128,
    "steps": 1000,
    "warmup": 100,
}

# The learning rates that batch_rates chose; a test compares them with its saved run.
CONFIG = Config(
    conditions=(
        Condition("layer", "shuffled", 16e-3),
        Condition("masked batch", "shuffled", 32e-3),
        Condition("power", "shuffled", 16e-3),
        Condition("layer", "topic", 32e-3),
        Condition("masked batch", "topic", 32e-3),
        Condition("power", "topic", 16e-3),
        Condition("layer", "length", 16e-3),
        Condition("masked batch", "length", 16e-3),
        Condition("power", "length", 16e-3),
        Condition("layer", "topic 1/2", 32e-3),
        Condition("masked batch", "topic 1/2", 32e-3),
        Condition("layer", "topic 1/4", 32e-3),
        Condition("masked batch", "topic 1/4", 32e-3),
        Condition("layer", "topic 3/4", 32e-3),
        Condition("masked batch", "topic 3/4", 32e-3),
        Condition("layer", "document", 16e-3),
        Condition("masked batch", "document", 16e-3),
        Condition("batch", "shuffled", 32e-3),
        Condition("batch", "length", 16e-3),
        Condition("rms", "length", 16e-3),
        Condition("rms", "shuffled", 16e-3),
        Condition("rms", "topic", 32e-3),
        Condition("rms", "document", 16e-3),
        Condition("power", "document", 16e-3),
        Condition("power-v", "shuffled", 16e-3),
        Condition("power-v", "document", 16e-3),
        Condition("power-v", "topic", 32e-3),
        Condition("power-v", "length", 16e-3),
        Condition("none", "shuffled", 16e-3),
        Condition("power", "topic 1/4", 16e-3),
        Condition("power", "topic 1/2", 16e-3),
        Condition("power", "topic 3/4", 16e-3),
    )
)


def LARGE_CONFIG() -> Config:
    """The cells of the small size, with the rates that the large run of batch_rates chose."""
    best = best_tried(load("batch_rates", scale="large"), "norm", "kind")
    untuned = dict.fromkeys(UNTUNED, "topic 1/2")
    conditions = tuple(
        Condition(norm, kind, best[norm, untuned.get(kind, kind)]) for norm, kind in cells()
    )
    return Config(conditions, **LARGE)


def corpus_of(config: Config) -> Corpus:
    """The text."""
    return load_corpus(longest=config.longest)


def fingerprint(config: Config) -> dict[str, str]:
    """The text differs between versions of the packages: its SHA-256."""
    return {"text_sha256": corpus_of(config).sha256}


def batches_of(
    config: Config, part: str, kind: str, rng: np.random.Generator
) -> Iterator[TokenBatch]:
    """Batches of one kind from a part of the text, for ever."""
    corpus, size = corpus_of(config), config.batch_size
    documents = getattr(corpus, part)
    if kind in SHARES:
        return topic_batches(documents, corpus.topics[part], size, SHARES[kind], rng)
    return epochs(lambda: sentence_stream(documents, size, kind, rng))  # type: ignore[arg-type]


def sample_of(config: Config, part: str) -> list[TokenBatch]:
    """The same sentences of a part for every model, in batches of 64 of about equal length."""
    everything = [
        sentence for document in getattr(corpus_of(config), part) for sentence in document
    ]
    order = np.random.default_rng(0).permutation(len(everything))[: config.test_sentences]
    # In evaluation it changes nothing who shares a batch, and so there is less padding.
    chosen = sorted((everything[i] for i in order), key=len)
    return [pad(chosen[i : i + 64]) for i in range(0, len(chosen), 64)]


def build(config: Config, norm: str) -> TransformerLM:
    """An untrained model."""
    chosen = NORMS[norm]
    return TransformerLM(
        len(corpus_of(config).vocabulary),
        width=config.width,
        depth=config.depth,
        heads=config.heads,
        max_length=config.longest + 1,
        norm=chosen.norm,
        wiring=config.wiring,
        dropout=0.0,
        mask_norms=chosen.masked,
        tied=False,
        final_norm=chosen.final,
    )


def train_condition(
    config: Config, condition: Condition, seed: int
) -> tuple[TransformerLM, list[float], bool]:
    """Train one model; return it, its losses by step, and whether it diverged."""
    order = start(seed)
    model = build(config, condition.norm)
    history = train(
        model,
        batches_of(config, "train", condition.kind, order),
        language_model_loss,
        steps=config.steps,
        learning_rate=condition.learning_rate,
        warmup=config.warmup,
    )
    return model, history.loss, history.diverged


def losses(
    model: TransformerLM, batches: Iterable[TokenBatch], *, batch_statistics: bool = False
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
    group = torch.bucketize(length, torch.tensor(LENGTHS))
    return {
        "all": short(loss.mean().item(), 6),
        "end": short(loss[end].mean().item(), 6),
        "other": short(loss[~end].mean().item(), 6),
        "by_length": [short(loss[group == i].mean().item(), 6) for i in range(len(LENGTHS))],
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


def run_condition(config: Config, condition: Condition, seed: int) -> dict[str, Any]:
    """Train one model and measure it on the test part in both modes."""
    model, curve, diverged = train_condition(config, condition, seed)
    record: dict[str, Any] = {
        "norm": condition.norm,
        "kind": condition.kind,
        "learning_rate": condition.learning_rate,
        "diverged": diverged,
        "curve": [
            short(float(np.mean(curve[i : i + BLOCK])), 6)
            for i in range(0, len(curve) - BLOCK + 1, BLOCK)
        ],
        **losses(model, sample_of(config, "test")),
    }
    if condition.norm in POOLING:
        # The same batches for every model of this seed, composed as in training.
        rng = np.random.default_rng(1000 + seed)
        stream = batches_of(config, "test", condition.kind, rng)
        alike = [next(stream) for _ in range(config.test_batches)]
        for prefix, batch_statistics in (("kept", False), ("batch", True)):
            found = losses(model, alike, batch_statistics=batch_statistics)
            record |= {f"{prefix}_{name}": value for name, value in found.items()}
    if NORMS[condition.norm].norm == "batch":
        # Two averages over the training text: of batches as in training, each weighing the same;
        # and of shuffled batches, which comes close to pooling all tokens.
        for name, kind in (("recalibrated", condition.kind), ("pooled", "shuffled")):
            stream = batches_of(config, "train", kind, np.random.default_rng(2000 + seed))
            recalibrate(model, (next(stream) for _ in range(config.recalibration_batches)))
            record[f"{name}_all"] = losses(model, sample_of(config, "test"))["all"]
    return record


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; report on the test part."""
    return [run_condition(config, condition, seed) for condition in config.conditions]


def against_layer(saved: Saved, norm: str, kind: str, key: str = "all") -> np.ndarray:
    """Test loss minus LayerNorm's with the same batches, paired by seed."""
    return saved.values(key, norm=norm, kind=kind) - saved.values("all", norm="layer", kind=kind)


def gap(saved: Saved, norm: str, kind: str) -> np.ndarray:
    """Evaluation mode minus batch statistics, on the same test batches composed as in training."""
    return saved.values("kept_all", norm=norm, kind=kind) - saved.values(
        "batch_all", norm=norm, kind=kind
    )


def without_gap(saved: Saved, norm: str, kind: str) -> np.ndarray:
    """Test loss minus LayerNorm's, less the gap between the modes: as with batch statistics."""
    return against_layer(saved, norm, kind) - gap(saved, norm, kind)


def was_run(saved: Saved, norm: str, kind: str) -> bool:
    """Whether the saved seeds hold this norm with this kind of batches."""
    cell = (norm, kind)
    return any((c["norm"], c["kind"]) == cell for c in saved.config["conditions"])


def dose(saved: Saved, norm: str, key: str = "all") -> dict[float, np.ndarray]:
    """Test loss minus LayerNorm's by the share of one-topic batches, where it was run."""
    return {
        share: against_layer(saved, norm, kind, key)
        for kind, share in SHARES.items()
        if was_run(saved, norm, kind)
    }


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """What the figure shows: test losses minus LayerNorm's, paired by seed."""
    return {
        f"{KIND_TITLES[kind]}, {TITLES[norm]}": against_layer(saved, norm, kind)
        for norm, kind in cells()
        if norm != "layer" and kind in KINDS and was_run(saved, norm, kind)
    }
