"""Dynamic tanh beside LayerNorm as in :mod:`normtutor_studies.experiments.final_norm`, in 1,000 steps.

In 300 steps dynamic tanh is ahead of LayerNorm or level with it at the usual embeddings. Is it
after 1,000? A tied model is trained with the last norm and without it, an untied one without it.

Control: a lead could come from rates that suited 300 steps, so each is chosen at 1,000 on another
seed, with a worse one on both sides (:mod:`normtutor_studies.experiments.final_norm_longer_rates`); models,
seeds and the steps of the warm-up are those of 300 steps. Where α starts was chosen at 300 steps.
The embeddings are the usual ones for both; in 300 steps these are best for dynamic tanh, and much
larger ones for LayerNorm with the last norm. Not checked: such embeddings, another start of α,
untied models with the last norm, RMSNorm, twelve layers.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from normtutor_studies.experiments import final_norm
from normtutor_studies.experiments.final_norm import Cell, fingerprint, train_runs
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.tanh_embeddings import Condition, Config

__all__ = ["CELLS", "CONFIG", "SEEDS", "Condition", "Config", "fingerprint", "rows", "run"]

CHAPTER = "08_after_2020"
FIGURE = "none: a control of final_norm, which chapter 8 cites"
FINDING = (
    "in 1,000 steps, at the usual embeddings, dynamic tanh is ahead of LayerNorm by two hundredths "
    "of a nat or less without the last norm, and behind tied with it"
)
XLABEL = "test loss minus LayerNorm's in the same place (nats/token)"
SEEDS = final_norm.SEEDS
CELL = tuple(field.name for field in dataclasses.fields(Cell))
CELLS = tuple(
    cell
    for cell in final_norm.CONFIG.cells
    if cell.norm in ("layer", "tanh") and cell.scale == 1 and (cell.tied or not cell.final)
)


def condition_of(cell: Cell, rate: float) -> Condition:
    """A model with a learning rate."""
    return Condition(**vars(cell), learning_rate=rate)


CONFIG = Config(
    conditions=tuple(condition_of(cell, 16e-3) for cell in CELLS),
    size=dataclasses.replace(final_norm.SIZE, steps=1000),
)
REDUCED = {key: final_norm.REDUCED[key] for key in ("depth", "size")}


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Train every model at its rates with all seeds at once; a list of records for each seed."""
    records: list[list[dict[str, Any]]] = [[] for _ in seeds]
    rates: dict[Cell, list[float]] = {}
    for condition in config.conditions:
        cell = Cell(**{name: getattr(condition, name) for name in CELL})
        rates.setdefault(cell, []).append(condition.learning_rate)
    for cell, of_cell in rates.items():
        runs = [(seed, rate) for seed in seeds for rate in of_cell]
        found = train_runs(config.size, config.depth, cell, runs)
        for (seed, _), record in zip(runs, found, strict=True):
            records[seeds.index(seed)].append(record)
    return records


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every model at its rates with this seed."""
    return run_seeds(config, [seed])[0]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Dynamic tanh's test loss minus LayerNorm's in the same place, paired by seed."""
    places = {(cell.tied, cell.final) for cell in CELLS}

    def loss(norm: str, tied: bool, final: bool) -> np.ndarray:
        return saved.values("test", norm=norm, tied=tied, final=final)

    return {
        f"{'final norm' if final else 'no final norm'}, {'tied' if tied else 'untied'}": loss(
            "tanh", tied, final
        )
        - loss("layer", tied, final)
        for tied, final in sorted(places, reverse=True)
    }
