"""Mean and spread of a GRU's projected state, by position in the sequence, with four norms.

After the measurement of Zhang and Sennrich (2019) in the decoder of a translation system. Here a
GRU reads the prose of the packages' docstrings character by character. At each position the state
is multiplied by the gates' matrix and normalized; what goes into that norm and what comes out of it
is described by three numbers: the mean over all entries, how much the mean of one vector differs
from token to token, and the spread of the entries of one vector. The losses are those of the test
part of the text. The learning rate of each norm was chosen on the two seeds of ``TUNING`` and on
the validation part: that with the smallest mean loss.

Control: a spread that depends on the position could come from the state itself, which starts at
zero and fills up over the first characters; the network without a norm shows how much of it does. A
difference between losses could come from the rate, so each norm has its own, of one grid, with a
worse one on both sides, a factor of 2 or 3 away; all four start from the same weights and read the
same batches. Two seeds tell some rates apart badly: pRMSNorm's best two, 0.06 and 0.12, differ by
less than the seeds do, and so do RMSNorm's, 0.03 and 0.06. On both seeds RMSNorm is ahead of
LayerNorm at 0.03 and at all three larger ones. Not checked: more than 300 steps, and other widths,
at which a sixteenth of the entries is another number.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor import layers
from normtutor.data import TokenBatch
from normtutor.models import GRU, NormFactory
from normtutor.training import evaluation_mode, start, train
from normtutor_studies.corpus import load_corpus
from normtutor_studies.corpus.chunks import cut_chunks, shuffled_chunks
from normtutor_studies.experiments.rates import best_rate, split
from normtutor_studies.experiments.records import Config, Record, Saved, schedule

CHAPTER = "05_rms_norm"
TUNING = (0, 1)
SEEDS = (*TUNING, *range(10, 16))
TEXT: dict[str, Any] = {"level": "character", "shortest": 20, "longest": 400}
RATES = {"none": 3e-2, "layer": 6e-2, "rms": 6e-2, "partial": 6e-2}  # the best of each
CONFIG = Config(
    conditions=[{"norm": norm, "learning_rate": rate} for norm, rate in RATES.items()],
    rates=(1e-2, 3e-2, 6e-2, 1.2e-1, 2.4e-1),  # tried on the seeds of TUNING
    eps=1e-5,
    p=1 / 16,
    embedding=32,
    width=64,
    length=32,
    batch_size=16,
    steps=300,
    warmup=30,
    held_out_chunks=256,
)
REDUCED = {"steps": 3, "warmup": 1, "length": 8, "held_out_chunks": 64}


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


def state_statistics(model: CharacterModel, batches: Iterable[TokenBatch]) -> Record:
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


def run(config: Config, seed: int) -> list[Record]:
    """Train the four networks with this seed, and describe their states on the test part.

    A seed of ``TUNING`` tries every rate, and measures the loss on the validation part.
    """
    corpus, tuning = load_corpus(**TEXT), seed in TUNING
    chunks = cut_chunks(corpus.train, config.length)
    held_out = cut_chunks(corpus.validation if tuning else corpus.test, config.length)
    stream = shuffled_chunks(held_out, 64, np.random.default_rng(0))  # the same for every model
    batches = [next(stream) for _ in range(config.held_out_chunks // 64)]
    records = []
    for cell in config.conditions:
        for rate in config.rates if tuning else (cell["learning_rate"],):
            order = start(seed)
            norm = norm_factory(cell["norm"], config)
            model = CharacterModel(len(corpus.vocabulary), config, norm)
            read = shuffled_chunks(chunks, config.batch_size, order)
            train(model, read, loss, learning_rate=rate, **schedule(config))
            with evaluation_mode(model):
                mean = float(np.mean([loss(model, batch).item() for batch in batches]))
            record: Record = {"norm": cell["norm"], "learning_rate": rate, "loss": mean}
            records.append(record if tuning else record | state_statistics(model, batches))
    return records


def best_rates(saved: Saved) -> dict[str, float]:
    """The rate of each norm with the smallest mean loss over the seeds of ``TUNING``."""
    rates = saved.config["rates"]
    return {norm: best_rate(saved, TUNING, rates, norm=norm) for norm in RATES}


def reported(saved: Saved) -> Saved:
    """The runs at the chosen rates, on the other seeds."""
    return split(saved, TUNING)[1]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus LayerNorm's, each at its own learning rate, paired by seed."""
    names = {"none": "no norm", "rms": "RMSNorm", "partial": "pRMSNorm, p = 1/16"}
    saved = reported(saved)
    layer = saved.values("loss", norm="layer")
    return {text: saved.values("loss", norm=norm) - layer for norm, text in names.items()}
