"""Why the norm after the last layer costs something in a tied model: its parts, one at a time.

A Pre-LN language model of three layers as in :mod:`normtutor_studies.experiments.final_norm`, on the same
seeds and sequences. In a tied model the last norm is replaced: by a division by one length for all
tokens of a batch, so that tokens keep their lengths among themselves; by LayerNorm whose mean and
divisor are constants in the backward pass; by LayerNorm whose gain starts at 3. And the tie is
loosened: an output matrix of its own that starts as a copy of the embedding, with the last norm and
without. The tied models with LayerNorm and with nothing after the last layer are those of
final_norm: their records are taken from there, and their time is counted there. All have the
learning rate 0.032, which :mod:`normtutor_studies.experiments.last_norm_parts_rates` found best for each on
another seed.

Control: a variant could do badly because of the rate, so three were tried for each, and the best
lies between the others. It could be the tokens' own lengths, the backward pass or too small scores
at the start that cost something; each has its variant, and none of them takes the cost away. What
is left in all of them is that the size of the last state is fixed, apart from the gain. The copied
output starts as the tied one does, so that only sharing it in training differs. A sixth seed, 40,
run afterwards and not on record, lies where the five expect it in all five rows. Not checked: what
a constant backward pass costs by itself, whether a fixed size is what costs, more than 300 steps,
embeddings four times as large, and other norms.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normtutor.models import TransformerLM
from normtutor_studies.experiments import final_norm
from normtutor_studies.experiments.detach_norm import DETACHED, DetachedNorm
from normtutor_studies.experiments.package_chunks import Size, fingerprint, measured, train_models
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "Condition", "Config", "fingerprint", "rows", "run"]

CHAPTER = "05_rms_norm"
FIGURE = "fig-last-norm-parts"
FINDING = (
    "in 300 steps, at the end of a tied model of three layers, one length for all tokens costs "
    "what LayerNorm costs or more; sharing the matrix about doubles it"
)
XLABEL = "cost in test loss (nats/token)"
SEEDS = final_norm.SEEDS


@dataclass(frozen=True)
class Condition:
    """An output matrix and what stands before it, with a learning rate."""

    head: str
    last: str
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    depth: int = 3
    size: Size = final_norm.SIZE


VARIANTS = (
    ("tied", "norm"),
    ("tied", "none"),
    ("tied", "one length"),
    ("tied", "detached"),
    ("tied", "gain 3"),
    ("copied", "norm"),
    ("copied", "none"),
)
# What last_norm_parts_rates and, for the first two, final_norm chose; a test compares them.
CONFIG = Config(tuple(Condition(*variant, 3.2e-2) for variant in VARIANTS))
REDUCED = {
    "conditions": tuple(Condition(*variant, 1e-3) for variant in VARIANTS),
    "depth": 1,
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64),
}


class OneLength(nn.Module):
    """Divide by one length for the whole batch: tokens keep their lengths among themselves."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        """Feature by feature, (..., H) -> (..., H)."""
        return self.weight * (x / x.square().mean().sqrt()) + self.bias


def prepare(head: str, last: str, model: TransformerLM) -> None:
    """Make a tied Pre-LN model into the variant; its weights stay as they are."""
    width = model.token_embedding.embedding_dim
    if last == "detached":
        model.final_norm = DetachedNorm(width, centre=DETACHED, scale=DETACHED)
    elif last == "one length":
        model.final_norm = OneLength(width)
    elif last.startswith("gain "):
        nn.init.constant_(model.final_norm.weight, float(last.removeprefix("gain ")))  # type: ignore[arg-type]
    if head == "copied":
        model.head = nn.Linear(width, model.token_embedding.num_embeddings, bias=False)
        with torch.no_grad():
            model.head.weight.copy_(model.token_embedding.weight)


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every variant with this seed, its learning rates side by side."""
    rates: dict[tuple[str, str], list[float]] = {}
    for condition in config.conditions:
        rates.setdefault((condition.head, condition.last), []).append(condition.learning_rate)
    return [
        record
        for (head, last), tried in rates.items()
        for record in train_variant(config, head, last, [(seed, rate) for rate in tried])
    ]


def train_variant(
    config: Config, head: str, last: str, runs: list[tuple[int, float]]
) -> list[dict[str, Any]]:
    """Train one variant with each pair of a seed and a rate; a record for each."""
    trained = train_models(
        config.size,
        runs,
        adjust=partial(prepare, head, last),
        depth=config.depth,
        norm="layer",
        wiring="pre",
        final_norm=last != "none",
    )
    return [
        {
            "head": head,
            "last": last,
            "learning_rate": rate,
            **measured(config.size, model, history),
        }
        for (_, rate), (model, history) in zip(runs, trained, strict=True)
    ]


NAMES = {
    ("tied", "norm"): "LayerNorm",
    ("tied", "detached"): "LayerNorm, constant backward",
    ("tied", "gain 3"): "LayerNorm, gain from 3",
    ("tied", "one length"): "one length for all tokens",
    ("copied", "norm"): "LayerNorm, output a copy",
}


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus that with nothing after the last layer and the same output, by seed."""
    return {
        name: saved.values("test", head=head, last=last)
        - saved.values("test", head=head, last="none")
        for (head, last), name in NAMES.items()
    }
