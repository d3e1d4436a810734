"""A trained LayerNorm model gets other norms and is fine-tuned, beside one that keeps its own.

The Pre-LN model of :mod:`normtutor_studies.experiments.rms_against_layer` is trained with LayerNorm on the
docstrings of five packages. Then all its norms are replaced, by RMSNorm with a bias, BatchNorm or
PowerNorm, which take over γ and β, and the model is fine-tuned on the sixth package. BatchNorm and
PowerNorm see some batches of the new text first, without a step, from which they get their running
statistics; the loss before fine-tuning is measured with these. All losses are of the sixth
package's held-out modules.

Control: a deficit could come from a rate of fine-tuning that suits LayerNorm alone, so each norm
has its own, chosen on another seed (:mod:`normtutor_studies.experiments.swapped_norms_rates`); it is the
same for all four. It could come from statistics that start at 0 and 1, so these are measured first;
or from other weights, gains or sentences, which are the same. About half of BatchNorm's comes
from γ and β being copied: with ones fitted to what LayerNorm put out it ends about half as far
behind, PowerNorm no less far (:mod:`normtutor_studies.experiments.swapped_norms_fitted`). From the start
BatchNorm is behind in these models about as far as with fitted ones, PowerNorm further than with
copied ones (:mod:`normtutor_studies.experiments.from_start_norms`). Not checked: more steps of fine-tuning,
larger batches than 256 tokens, and Post-LN.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import nn

from normtutor import layers
from normtutor.data import TokenBatch, cut_chunks, shuffled_chunks
from normtutor.models import TransformerLM
from normtutor.swapping import swap_norms
from normtutor.training import (
    History,
    language_model_loss,
    masked_language_model_loss,
    mean_token_loss,
    train,
    train_together,
)
from normtutor_studies.experiments.package_chunks import Size, build, corpus_of, fingerprint
from normtutor_studies.experiments.records import Saved, short
from normtutor_studies.experiments.rms_against_layer import _Uncentred

__all__ = ["CONFIG", "SEEDS", "Condition", "Config", "fine_tuned", "fingerprint", "rows", "run"]

CHAPTER = "05_rms_norm"
FIGURE = "none: it answers a question of the ledger and of the questions from practice"
FINDING = (
    "after 100 steps on other text a LayerNorm model whose γ and β RMSNorm took over is level with "
    "one that kept LayerNorm; with PowerNorm it is behind by 0.06 nats, with BatchNorm by 0.14"
)
XLABEL = "test loss minus that of the model that kept LayerNorm (nats/token)"
SEEDS = tuple(range(10, 15))


@dataclass(frozen=True)
class Condition:
    """The norm of the fine-tuned model, and the learning rate of fine-tuning."""

    norm: str
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    size: Size = field(default_factory=lambda: Size(width=64, steps=300, warmup=30))
    learning_rate: float = 16e-3  # of the first training; rms_rates chose it
    depth: int = 3
    package: str = "torch"
    #: Batches from which BatchNorm and PowerNorm get their running statistics, without a step.
    statistics_batches: int = 50
    tuning_steps: int = 100
    tuning_warmup: int = 10


CONFIG = Config(
    conditions=(
        Condition("layer", 16e-3),
        Condition("rms", 16e-3),
        Condition("batch", 16e-3),
        Condition("power", 16e-3),
    )
)
REDUCED = {
    "size": Size(width=8, heads=2, steps=4, warmup=2, held_out_chunks=64),
    "depth": 1,
    "statistics_batches": 2,
    "tuning_steps": 3,
    "tuning_warmup": 1,
}


@lru_cache(maxsize=8)
def _chunks(sha256: str, size: Size, part: str, package: str, of_it: bool) -> Any:
    corpus = corpus_of(size)
    topics = corpus.topics[part]
    documents = [
        document
        for document, topic in zip(getattr(corpus, part), topics, strict=True)
        if (topic.partition(".")[0] == package) == of_it
    ]
    if not documents:  # a reader's own text, which has no packages
        documents = list(getattr(corpus, part))
    return cut_chunks(documents, size.length)


def chunks_of(config: Config, part: str, *, of_it: bool) -> tuple[np.ndarray, np.ndarray]:
    """A part of the text in chunks: that of the package, or of all others."""
    sha256 = corpus_of(config.size).sha256
    return _chunks(sha256, config.size, part, config.package, of_it)


def held_out(config: Config, part: str) -> list[TokenBatch]:
    """Chunks of the package that fine-tuning does not see, the same for every model."""
    chunks = chunks_of(config, part, of_it=True)
    batch = min(64, len(chunks[0]))
    count = max(1, min(config.size.held_out_chunks, len(chunks[0])) // batch)
    return list(islice(shuffled_chunks(chunks, batch, np.random.default_rng(0)), count))


def trained(config: Config, seeds: Sequence[int]) -> list[TransformerLM]:
    """Models trained with LayerNorm on the other packages, one per seed."""
    chunks = chunks_of(config, "train", of_it=False)
    models, batches = [], []
    for seed in seeds:
        model, order = build(config.size, seed, depth=config.depth, norm="layer", wiring="pre")
        models.append(model)
        batches.append(shuffled_chunks(chunks, config.size.batch_size, order))
    train_together(
        models,
        batches,
        masked_language_model_loss,
        steps=config.size.steps,
        warmup=config.size.warmup,
        learning_rate=config.learning_rate,
    )
    return models


def replacement(norm: str, old: layers.LayerNorm) -> nn.Module:
    """Another norm in the place of a LayerNorm, with its γ and β."""
    if norm == "rms":
        return _Uncentred(old)
    made: dict[str, type[layers.BatchNorm | layers.PowerNorm]] = {
        "batch": layers.BatchNorm,
        "power": layers.PowerNorm,
    }
    new = made[norm](old.normalized_shape[0], old.eps, feature_axis=-1)
    new.load_state_dict({"weight": old.weight, "bias": old.bias}, strict=False)
    return new


def swapped(config: Config, model: TransformerLM, norm: str, seed: int) -> TransformerLM:
    """A copy of ``model`` with ``norm`` in each place, its running statistics measured."""
    model = copy.deepcopy(model)
    if norm == "layer":
        return model
    swap_norms(model, lambda old: replacement(norm, old))  # type: ignore[arg-type]
    if norm in ("batch", "power"):
        model.train()
        with torch.no_grad():
            for batch in islice(text_of(config, seed, first=1), config.statistics_batches):
                model.hidden(batch.inputs, batch.mask)
    return model


Swap = Callable[[Config, TransformerLM, str, int], TransformerLM]


def text_of(config: Config, seed: int, *, first: int = 0) -> Iterator[TokenBatch]:
    """The package's training part in an order of the seed; ``first`` tells two orders apart."""
    order = np.random.default_rng([seed, 1 + first])
    return shuffled_chunks(chunks_of(config, "train", of_it=True), config.size.batch_size, order)


def fine_tuned(
    config: Config,
    models: Sequence[TransformerLM],
    norm: str,
    runs: Sequence[tuple[int, float]],
    swap: Swap = swapped,
) -> list[tuple[float, TransformerLM, History]]:
    """Fine-tune copies of ``models``; of each the held-out loss before, model and history.

    ``runs`` holds a seed and a learning rate for each model; ``swap`` puts the norms in place.
    """
    copies = [
        swap(config, model, norm, seed) for model, (seed, _) in zip(models, runs, strict=True)
    ]
    before = [mean_token_loss(model, held_out(config, "test")) for model in copies]
    streams = [text_of(config, seed) for seed, _ in runs]
    how: dict[str, Any] = {"steps": config.tuning_steps, "warmup": config.tuning_warmup}
    if norm == "power":  # which cannot train under vmap
        histories = [
            train(model, stream, language_model_loss, learning_rate=rate, **how)
            for model, stream, (_, rate) in zip(copies, streams, runs, strict=True)
        ]
    else:
        histories = train_together(
            copies,
            streams,
            masked_language_model_loss,
            learning_rate=[rate for _, rate in runs],
            **how,
        )
    return list(zip(before, copies, histories, strict=True))


def run_seeds(
    config: Config, seeds: Sequence[int], swap: Swap = swapped
) -> list[list[dict[str, Any]]]:
    """Train with all seeds at once, then fine-tune every condition; a list of records per seed."""
    models, test = trained(config, seeds), held_out(config, "test")
    records: list[list[dict[str, Any]]] = [[] for _ in seeds]
    for condition in config.conditions:
        runs = [(seed, condition.learning_rate) for seed in seeds]
        found = fine_tuned(config, models, condition.norm, runs, swap)
        for at, (before, model, history) in enumerate(found):
            records[at].append(
                {
                    **vars(condition),
                    "diverged": history.diverged,
                    "before": short(before, 6),
                    "loss": short(mean_token_loss(model, test), 6),
                }
            )
    return records


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train and fine-tune with this seed."""
    return run_seeds(config, [seed])[0]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss after fine-tuning minus that of the model that kept LayerNorm, paired by seed."""
    kept = saved.values("loss", norm="layer")
    names = {"rms": "RMSNorm", "batch": "BatchNorm", "power": "PN"}
    return {text: saved.values("loss", norm=norm) - kept for norm, text in names.items()}
