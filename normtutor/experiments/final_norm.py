"""The norm after the last layer: on and off, with tied and untied output, over learning rates.

A Pre-LN Transformer ends with a norm. In models as small as the book's this last norm can cost more
than all the others gain, and then "no norm beats LayerNorm" says something about the last norm and
nothing about the rest. Here it is switched on and off, with the output matrix tied to the embedding
or not, at four learning rates each; with the norm on, and without any norm, also with embeddings
four times as large. Gradients are not clipped.

Every seed trains the whole grid. The learning rate of a condition is chosen by the mean validation
loss over the seeds; what is compared is the loss on the test part. A network of three layers also
trains without a norm, so it stands beside the others.

Cut for time: RMSNorm and dynamic tanh with its starting values of α, for which the code stands
ready in ``NORMS``; 12 layers; the larger embeddings without the last norm. A pilot with rates
from 0.004 to 0.032 had LayerNorm's best rate at the upper end and that of no norm below it; so the
grid begins at 0.008 and ends at 0.064.

The saved record was put together from cells that ran side by side in processes of their own, some
of them read while the process still ran: losses are what those runs measured, CPU and wall seconds
are estimates.

Control: the last norm could cost something because of the rate, so every condition is trained at
four, and the best lies inside the grid; because of the embeddings, to which a tied output binds it,
so the output is also untied; or because of their scale, so they are also four times as large. No
norm, which has nothing after the last layer either, runs alongside. Not checked: more than 300
steps, and why the last norm costs what it does.
"""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from normtutor import layers
from normtutor.experiments.package_chunks import (
    LARGE,
    SMALL,
    Size,
    fingerprint,
    measured,
    train_models,
)
from normtutor.experiments.records import Saved
from normtutor.models import NormFactory

__all__ = ["CONFIG", "LARGE_CONFIG", "SEEDS", "chosen", "fingerprint", "rows", "run"]

CHAPTER = "05_rms_norm"
FIGURE = "fig-final-norm"
FINDING = "the norm after the last layer, not LayerNorm, loses to no norm in a tied model"
XLABEL = "test loss minus that without any norm (nats/token)"
SEEDS = tuple(range(20, 25))

NORMS: dict[str, str | NormFactory] = {
    "none": "none",
    "layer": "layer",
    "rms": "rms",
    "tanh 0.5": "tanh",
    "tanh 1": partial(layers.DynamicTanh, alpha_init_value=1.0),
}


SIZE = dataclasses.replace(SMALL, steps=300, warmup=60)


@dataclass(frozen=True)
class Cell:
    """What is varied, apart from the learning rate."""

    norm: str
    final: bool
    tied: bool
    scale: float = 1.0


def _both_heads(norm: str, *finals: bool, scale: float = 1.0) -> tuple[Cell, ...]:
    return tuple(Cell(norm, final, tied, scale) for final in finals for tied in (True, False))


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    cells: tuple[Cell, ...]
    rates: tuple[float, ...] = (8e-3, 16e-3, 32e-3, 64e-3)
    depth: int = 3
    size: Size = SIZE


CONFIG = Config(
    cells=(
        *_both_heads("none", False),
        *_both_heads("none", False, scale=4.0),
        *_both_heads("layer", True, False),
        *_both_heads("layer", True, scale=4.0),
    )
)
LARGE_CONFIG = Config(
    cells=tuple(
        cell
        for scale in (1.0, 4.0)
        for norm in NORMS
        for cell in _both_heads(norm, *((False,) if norm == "none" else (True, False)), scale=scale)
    ),
    rates=(1e-3, 2e-3, 4e-3, 8e-3),
    depth=12,
    size=LARGE,
)
REDUCED = {
    "cells": (*_both_heads("none", False), *_both_heads("layer", True, False)),
    "rates": (1e-3, 4e-3),
    "depth": 1,
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64),
}


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every cell of the grid with this seed, its learning rates side by side."""
    records = []
    for cell in config.cells:
        trained = train_models(
            config.size,
            [(seed, rate) for rate in config.rates],
            depth=config.depth,
            norm=NORMS[cell.norm],
            wiring="none" if cell.norm == "none" else "pre",
            final_norm=cell.final,
            tied=cell.tied,
            embedding_scale=cell.scale,
        )
        records += [
            {**vars(cell), "learning_rate": rate, **measured(config.size, model, history)}
            for rate, (model, history) in zip(config.rates, trained, strict=True)
        ]
    return records


def chosen(saved: Saved, **cell: Any) -> dict[str, Any]:
    """Learning rate and embedding scale with the smallest mean validation loss, and the losses.

    ``cell`` says which runs compete, for instance ``norm="layer", final=True, tied=False``; a list
    of norms lets them compete with each other, as the starting values of α do.
    """
    norms = cell.pop("norm")
    norms = [norms] if isinstance(norms, str) else list(norms)
    best: tuple[float, dict[str, Any]] | None = None
    for record in saved.runs[0]["records"]:
        if record["norm"] not in norms or any(record[k] != v for k, v in cell.items()):
            continue
        where = {key: record[key] for key in ("norm", "final", "tied", "scale", "learning_rate")}
        loss = float(saved.values("validation", **where).mean())
        if not np.isnan(loss) and (best is None or loss < best[0]):
            best = loss, where
    if best is None:
        raise ValueError(f"no run of {norms} with {cell} reached the end.")
    where = best[1]
    return {**where, "test": saved.values("test", **where)}


TANH = ("tanh 0.5", "tanh 1")


def _present(saved: Saved) -> dict[str, Any]:
    """Name on the page -> what competes under it, of what the record holds."""
    present = {record["norm"] for record in saved.runs[0]["records"]}
    names = {"LayerNorm": ("layer",), "RMSNorm": ("rms",), "dynamic tanh": TANH}
    return {name: norms for name, norms in names.items() if not present.isdisjoint(norms)}


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus that without any norm, each at its own best rate and α, at scale 1."""
    found = {}
    for tied in (True, False):
        without = chosen(saved, norm="none", tied=tied, scale=1.0)["test"]
        for name, norms in _present(saved).items():
            for final in (True, False):
                loss = chosen(saved, norm=norms, tied=tied, final=final, scale=1.0)["test"]
                label = f"{name}, {'final norm' if final else 'no final norm'}"
                found[f"{label}, {'tied' if tied else 'untied'}"] = loss - without
    return found


def curves(saved: Saved) -> dict[str, dict[str, dict[str, np.ndarray]]]:
    """Test losses for the figure: head -> norm -> curve -> (seeds, rates), at scale 1.

    Dynamic tanh is shown with the α that :func:`chosen` takes for each curve.
    """
    rates = sorted({record["learning_rate"] for record in saved.runs[0]["records"]})
    rows = _present(saved)

    def over_rates(norms: Any, final: bool, tied: bool) -> np.ndarray:
        norm = chosen(saved, norm=norms, final=final, tied=tied, scale=1.0)["norm"]
        where = {"norm": norm, "final": final, "tied": tied, "scale": 1.0}
        return np.stack([saved.values("test", **where, learning_rate=r) for r in rates], axis=1)

    return {
        head: {
            row: {
                "final norm": over_rates(norms, True, tied),
                "no final norm": over_rates(norms, False, tied),
                "no norm": over_rates("none", False, tied),
            }
            for row, norms in rows.items()
        }
        for head, tied in (("tied", True), ("untied", False))
    }
