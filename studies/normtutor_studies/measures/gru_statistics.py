"""Mean and spread of a GRU's projected state, by position in the sequence.

After the measurement of Zhang and Sennrich (2019) in the decoder of a translation system. Here a
GRU reads the prose of the packages' docstrings character by character. At each position the state
is multiplied by the gates' matrix and normalized; what comes out of the norm is described by three
numbers: the mean over all entries, how much the mean of one vector differs from token to token, and
the spread of the entries of one vector.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor import layers
from normtutor.data import TokenBatch
from normtutor.models import GRU, NormFactory
from normtutor.training import evaluation_mode, start, train
from normtutor_studies.corpus import cut_chunks, fingerprint, load_corpus, shuffled_chunks
from normtutor_studies.store import Cell, Run, World

TUNING = (0, 1)  # on these seeds the loss is that of the validation part
TEXT: dict[str, Any] = {"level": "character", "shortest": 20, "longest": 400}


class CharacterModel(nn.Module):
    """Embedding, GRU, and scores of the next character."""

    def __init__(self, characters: int, cell: Cell, norm: str | NormFactory) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, cell["embedding"])
        self.gru = GRU(cell["embedding"], cell["width"], norm=norm)
        self.classify = nn.Linear(cell["width"], characters)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, L) -> (B, L, characters)."""
        return self.classify(self.gru(self.embedding(tokens)))


def norm_factory(cell: Cell) -> str | NormFactory:
    """The four norms, with the same ε where it stands in the same place."""
    factories: dict[str, NormFactory] = {
        "layer": lambda features: layers.LayerNorm(features, eps=cell["eps"]),
        "rms": lambda features: layers.RMSNorm(features, eps=cell["eps"]),
        "partial": lambda features: layers.PartialRMSNorm(features, cell["p"]),
    }
    return factories.get(cell["norm"], str(cell["norm"]))


def loss(model: nn.Module, batch: TokenBatch) -> Tensor:
    """Mean cross entropy of the next character, in nats."""
    return F.cross_entropy(model(batch.inputs).flatten(0, 1), batch.targets.flatten())


def state_statistics(model: CharacterModel, batches: Iterable[TokenBatch]) -> Run:
    """Three numbers for each position, after the norm of the gates' state part."""
    seen: list[list[Tensor]] = []
    handle = model.gru.state_norms[0].register_forward_hook(lambda *call: seen[-1].append(call[2]))
    with evaluation_mode(model):
        for batch in batches:
            seen.append([])
            model(batch.inputs)
    handle.remove()
    x = torch.cat([torch.stack(steps) for steps in seen], dim=1)  # (L, sequences, 2H)
    token_means = x.mean(dim=-1)
    return {
        "after_mean": token_means.mean(dim=1).tolist(),
        "after_mean_varies": token_means.std(dim=1).tolist(),
        "after_spread": x.std(dim=-1, correction=0).mean(dim=1).tolist(),
    }


def measure(cell: Cell, rate: float, seed: int) -> Run:
    """Train one network; its loss on held-out text, and what its states look like there."""
    corpus = load_corpus(**TEXT)
    held_out = corpus.validation if seed in TUNING else corpus.test
    stream = shuffled_chunks(cut_chunks(held_out, cell["length"]), 64, np.random.default_rng(0))
    batches = [next(stream) for _ in range(cell["held_out_chunks"] // 64)]
    order = start(seed)
    model = CharacterModel(len(corpus.vocabulary), cell, norm_factory(cell))
    read = shuffled_chunks(cut_chunks(corpus.train, cell["length"]), cell["batch_size"], order)
    train(model, read, loss, learning_rate=rate, steps=cell["steps"], warmup=cell["warmup"])
    with evaluation_mode(model):
        mean = float(np.mean([loss(model, batch).item() for batch in batches]))
    return {"loss": mean} | state_statistics(model, batches)


WORLD = World(
    "gru_statistics",
    measure,
    {
        "norm": "none",
        "eps": 1e-5,
        "p": 1 / 16,
        "embedding": 32,
        "width": 64,
        "length": 32,
        "batch_size": 16,
        "steps": 300,
        "warmup": 30,
        "held_out_chunks": 256,
    },
    fingerprint=partial(fingerprint, **TEXT),
    unit="nats per character",
    title="Docstrings, a GRU",
    small={"steps": 3, "warmup": 1, "length": 8, "held_out_chunks": 64},
)
