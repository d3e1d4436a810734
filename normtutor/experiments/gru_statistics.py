"""Mean and spread of a GRU's projected state, by position in the sequence, with four norms.

After the measurement of Zhang and Sennrich (2019) in the decoder of a translation system. Here a
GRU reads the prose of the packages' docstrings character by character. At each position the state
is multiplied by the gates' matrix and normalized; what goes into that norm and what comes out of it
is described by three numbers: the mean over all entries, how much the mean of one vector differs
from token to token, and the spread of the entries of one vector. All four train with one learning
rate, which was not tuned for any of them.

Control: a spread that depends on the position could come from the state itself, which starts at
zero and fills up over the first characters; the network without a norm shows how much of it does.
All four start from the same weights and read the same text at the same rate. At three times this
rate, on seeds 10 to 12 and not on record, LayerNorm and pRMSNorm both end lower, and pRMSNorm is
not behind. Not checked: a rate tuned for each norm, so the losses at the end decide nothing between
them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor import layers
from normtutor.data import Corpus, TokenBatch, cut_chunks, load_corpus, shuffled_chunks
from normtutor.experiments.records import Saved
from normtutor.models import GRU, NormFactory
from normtutor.training import evaluation_mode, start, train

CHAPTER = "05_rms_norm"
FIGURE = "fig-gru"
FINDING = (
    "both norms hold the spread; LayerNorm also evens out the means; pRMSNorm holds the spread in "
    "part"
)
XLABEL = "validation loss minus LayerNorm's (nats/character)"
SEEDS = tuple(range(10, 16))
NORMS = ("none", "layer", "rms", "partial")


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    norms: tuple[str, ...] = NORMS
    eps: float = 1e-5
    p: float = 1 / 16
    embedding: int = 32
    width: int = 64
    length: int = 32
    batch_size: int = 16
    steps: int = 300
    warmup: int = 30
    learning_rate: float = 1e-2
    validation_chunks: int = 256


CONFIG = Config()


def _corpus() -> Corpus:
    return load_corpus(level="character", shortest=20, longest=400)


def fingerprint(config: Config) -> dict[str, str]:
    """The text differs between versions of the packages: its SHA-256."""
    return {"text_sha256": _corpus().sha256}


class CharacterModel(nn.Module):
    """Embedding, GRU, and scores of the next character."""

    def __init__(self, characters: int, config: Config, norm: str | NormFactory) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, config.embedding)
        self.gru = GRU(config.embedding, config.width, norm=norm)
        self.classify = nn.Linear(config.width, characters)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, L) -> (B, L, characters)."""
        return self.classify(self.gru(self.embedding(tokens)))


def norm_factory(norm: str, config: Config) -> str | NormFactory:
    """The four norms, with the same ε where it stands in the same place."""
    factories: dict[str, NormFactory] = {
        "layer": lambda features: layers.LayerNorm(features, eps=config.eps),
        "rms": lambda features: layers.RMSNorm(features, eps=config.eps),
        "partial": lambda features: layers.PartialRMSNorm(features, config.p),
    }
    return factories.get(norm, norm)


def loss(model: nn.Module, batch: TokenBatch) -> Tensor:
    """Mean cross entropy of the next character, in nats."""
    return F.cross_entropy(model(batch.inputs).flatten(0, 1), batch.targets.flatten())


def state_statistics(model: CharacterModel, batches: Iterable[TokenBatch]) -> dict[str, list[Any]]:
    """Three numbers for each position, before and after the norm of the gates' state part."""
    seen: dict[str, list[list[Tensor]]] = {"before": [], "after": []}

    def record(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        seen["before"][-1].append(inputs[0])
        seen["after"][-1].append(output)

    handle = model.gru.state_norms[0].register_forward_hook(record)
    try:
        with evaluation_mode(model):
            for batch in batches:
                for calls in seen.values():
                    calls.append([])
                model(batch.inputs)
    finally:
        handle.remove()
    found: dict[str, list[Any]] = {}
    for place, calls in seen.items():
        x = torch.cat([torch.stack(steps) for steps in calls], dim=1)  # (L, sequences, 2H)
        token_means = x.mean(dim=-1)
        found[f"{place}_mean"] = token_means.mean(dim=1).tolist()
        found[f"{place}_mean_varies"] = token_means.std(dim=1).tolist()
        found[f"{place}_spread"] = x.std(dim=-1, correction=0).mean(dim=1).tolist()
    return found


def run_norm(config: Config, norm: str, seed: int) -> dict[str, Any]:
    """Train one model; describe its states and its loss on the validation part."""
    corpus = _corpus()
    order = start(seed)
    model = CharacterModel(len(corpus.vocabulary), config, norm_factory(norm, config))
    history = train(
        model,
        shuffled_chunks(cut_chunks(corpus.train, config.length), config.batch_size, order),
        loss,
        steps=config.steps,
        learning_rate=config.learning_rate,
        warmup=config.warmup,
    )
    # The same chunks for every model of every seed.
    held_out = shuffled_chunks(
        cut_chunks(corpus.validation, config.length), 64, np.random.default_rng(0)
    )
    batches = [next(held_out) for _ in range(config.validation_chunks // 64)]
    with evaluation_mode(model):
        validation = float(np.mean([loss(model, batch).item() for batch in batches]))
    return {
        "norm": norm,
        "diverged": history.diverged,
        "loss": validation,
        **state_statistics(model, batches),
    }


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train the four models with this seed."""
    return [run_norm(config, norm, seed) for norm in config.norms]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Validation loss minus LayerNorm's, paired by seed."""
    names = {"none": "no norm", "rms": "RMSNorm", "partial": "pRMSNorm, p = 1/16"}
    layer = saved.values("loss", norm="layer")
    return {text: saved.values("loss", norm=norm) - layer for norm, text in names.items()}
