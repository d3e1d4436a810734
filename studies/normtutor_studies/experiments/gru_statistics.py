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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor import layers
from normtutor.data import TokenBatch
from normtutor.models import GRU, NormFactory
from normtutor.training import evaluation_mode, start, train
from normtutor_studies.corpus import Corpus, load_corpus
from normtutor_studies.corpus.chunks import cut_chunks, shuffled_chunks
from normtutor_studies.experiments.rates import smallest, split
from normtutor_studies.experiments.records import Saved

CHAPTER = "05_rms_norm"
FIGURE = "fig-gru"
FINDING = (
    "after 300 steps RMSNorm is ahead of LayerNorm, and no norm behind all three; LayerNorm and "
    "RMSNorm hold the spread, pRMSNorm in part; LayerNorm also evens out the means"
)
XLABEL = "test loss minus LayerNorm's (nats/character)"
TUNING = (0, 1)
SEEDS = (*TUNING, *range(10, 16))
NORMS = ("none", "layer", "rms", "partial")


@dataclass(frozen=True)
class Condition:
    """One model: its norm and its learning rate."""

    norm: str
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = ()
    rates: tuple[float, ...] = (1e-2, 3e-2, 6e-2, 1.2e-1, 2.4e-1)  # tried on the seeds of TUNING
    eps: float = 1e-5
    p: float = 1 / 16
    embedding: int = 32
    width: int = 64
    length: int = 32
    batch_size: int = 16
    steps: int = 300
    warmup: int = 30
    held_out_chunks: int = 256


CONFIG = Config(
    conditions=(
        Condition("none", 3e-2),
        Condition("layer", 6e-2),
        Condition("rms", 6e-2),
        Condition("partial", 6e-2),
    )
)
REDUCED = {"steps": 3, "warmup": 1, "length": 8, "held_out_chunks": 64}


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


def train_norm(
    config: Config, norm: str, runs: Sequence[tuple[int, float]]
) -> list[tuple[CharacterModel, bool]]:
    """Train one model for each pair of a seed and a learning rate; say too whether it diverged."""
    corpus = _corpus()
    chunks = cut_chunks(corpus.train, config.length)
    trained = []
    for seed, rate in runs:
        order = start(seed)
        model = CharacterModel(len(corpus.vocabulary), config, norm_factory(norm, config))
        history = train(
            model,
            shuffled_chunks(chunks, config.batch_size, order),
            loss,
            steps=config.steps,
            learning_rate=rate,
            warmup=config.warmup,
        )
        trained.append((model, history.diverged))
    return trained


def held_out(config: Config, part: str) -> list[TokenBatch]:
    """Chunks of the "validation" or the "test" part, the same for every model of every seed."""
    chunks = cut_chunks(getattr(_corpus(), part), config.length)
    stream = shuffled_chunks(chunks, 64, np.random.default_rng(0))
    return [next(stream) for _ in range(config.held_out_chunks // 64)]


def mean_loss(model: CharacterModel, batches: Iterable[TokenBatch]) -> float:
    """Cross entropy over all ``batches``, in evaluation mode."""
    with evaluation_mode(model):
        return float(np.mean([loss(model, batch).item() for batch in batches]))


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train the four networks with this seed, and describe their states on the test part.

    A seed of ``TUNING`` tries every rate, and measures the loss on the validation part.
    """
    tuning = seed in TUNING
    batches = held_out(config, "validation" if tuning else "test")
    records = []
    for condition in config.conditions:
        norm = condition.norm
        rates = config.rates if tuning else (condition.learning_rate,)
        trained = train_norm(config, norm, [(seed, rate) for rate in rates])
        for rate, (model, diverged) in zip(rates, trained, strict=True):
            record = {"norm": norm, "learning_rate": rate, "diverged": diverged}
            record |= {"loss": mean_loss(model, batches)}
            records.append(record if tuning else record | state_statistics(model, batches))
    return records


def best_rates(saved: Saved) -> dict[tuple[str], float]:
    """The rate of each norm with the smallest mean loss over the seeds of ``TUNING``."""
    tuning, _ = split(saved, TUNING)
    found = {}
    for norm in NORMS:
        losses = {
            rate: tuning.values("loss", norm=norm, learning_rate=rate)
            for rate in saved.config["rates"]
        }
        if (rate := smallest(losses)) is not None:
            found[norm,] = rate
    return found


def reported(saved: Saved) -> Saved:
    """The runs at the chosen rates, on the other seeds."""
    return split(saved, TUNING)[1]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus LayerNorm's, each at its own learning rate, paired by seed."""
    names = {"none": "no norm", "rms": "RMSNorm", "partial": "pRMSNorm, p = 1/16"}
    saved = reported(saved)
    layer = saved.values("loss", norm="layer")
    return {text: saved.values("loss", norm=norm) - layer for norm, text in names.items()}
