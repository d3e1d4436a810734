"""Dynamic tanh in three layers with larger embeddings, beside LayerNorm with still larger ones.

In :mod:`normtutor_studies.experiments.final_norm` LayerNorm has embeddings up to 64 times the usual size,
dynamic tanh the usual ones. :mod:`normtutor_studies.experiments.tanh_embeddings_rates` tried larger ones
for both on another seed. Where a size beat what final_norm has, the model is trained here, on
final_norm's seeds and sequences, with the start of α and the rate that were best there.

Control: a lead could come from embeddings that one of the two never got, so dynamic tanh is tried
at the sizes that LayerNorm has, with α starting as usual and lower by as much as they grew, and
LayerNorm beyond the largest. With a tied output the usual size stays best for dynamic tanh, and 64
times it for LayerNorm, so nothing is trained here. With an output of its own dynamic tanh is level
with its model at the usual size, so a gain on the one seed that chose was no more than its scatter.
Size, start and rate come from that seed, the rate with a worse one on both sides. Not checked: a
start of α between the two, smaller embeddings, and more than 300 steps.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from normtutor_studies.experiments import final_norm
from normtutor_studies.experiments.final_norm import Cell, fingerprint
from normtutor_studies.experiments.package_chunks import Size
from normtutor_studies.experiments.records import Saved, load

__all__ = ["CONFIG", "SEEDS", "Condition", "Config", "at_best", "fingerprint", "rows", "run"]

CHAPTER = "08_after_2020"
FIGURE = "none: a control of final_norm, which chapter 8 cites"
FINDING = (
    "at three layers larger embeddings for both do not change who is ahead: tied dynamic tanh, "
    "untied LayerNorm"
)
XLABEL = "test loss minus LayerNorm's, each at its best (nats/token)"
SEEDS = final_norm.SEEDS


@dataclass(frozen=True)
class Condition(Cell):
    """A model with its learning rate."""

    learning_rate: float = 32e-3


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    depth: int = 3
    size: Size = final_norm.SIZE


CONFIG = Config(
    conditions=(
        Condition("tanh", True, False, 4.0, 0.125, 0.125, 64e-3),
        Condition("layer", True, False, 256.0, learning_rate=64e-3),
    )
)
REDUCED = {key: final_norm.REDUCED[key] for key in ("depth", "size")}


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every model with this seed."""
    records = []
    for condition in config.conditions:
        settings = vars(condition)
        cell = Cell(**{field.name: settings[field.name] for field in dataclasses.fields(Cell)})
        alone = final_norm.Config((cell,), (condition.learning_rate,), config.depth, config.size)
        records += final_norm.train_cell(alone, cell, seed)
    return records


def at_best(norm: str, tied: bool, saved: Saved | None = None) -> np.ndarray:
    """Test losses of a norm's best run, by mean validation loss, here or in final_norm."""
    saved, there = saved or load("tanh_embeddings"), load("final_norm")
    best = []
    for one in (saved, there):
        if any((r["norm"], r["tied"]) == (norm, tied) for r in one.runs[0]["records"]):
            found = final_norm.chosen(one, norm=norm, tied=tied)
            where = {key: value for key, value in found.items() if key != "test"}
            best.append((float(one.values("validation", **where).mean()), found["test"]))
    return min(best, key=lambda pair: pair[0])[1]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Dynamic tanh's test loss at its best minus LayerNorm's, paired by seed."""
    return {
        f"{'tied' if tied else 'untied'}": at_best("tanh", tied, saved)
        - at_best("layer", tied, saved)
        for tied in (True, False)
    }
