"""The norm after the last layer: on and off, with tied and untied output, over learning rates.

A Pre-LN Transformer ends with a norm. In models as small as the book's this last norm can cost more
than all the others gain, and then "no norm beats LayerNorm" says something about the last norm and
nothing about the rest. Here it is switched on and off, with the output matrix tied to the embedding
or not, at four learning rates each; with the norm on also with larger embeddings, and without any
norm with larger and smaller ones. Gradients are not clipped.

Every seed trains the whole grid. The learning rate of a condition is chosen by the mean validation
loss over the seeds; what is compared is the loss on the test part. A network of three layers also
trains without a norm, so it stands beside the others.

Dynamic tanh stands beside LayerNorm and RMSNorm. Its α starts where
:mod:`normtutor_studies.experiments.tanh_starts` found it to start best, in the layers and after the last
one, on another seed. Twelve layers are in :mod:`normtutor_studies.experiments.deep_last_norm`.

Control: the last norm could cost something because of the rate, so every condition is trained at
four, and the best lies inside the grid at scale 1; because of the embeddings, to which a tied
output binds it, so the output is also untied; or because of their scale, so they are also larger:
with the best scale LayerNorm's tied model is no longer worse with the last norm than without it at
the usual one. With the largest embeddings the best rate is the largest of the four; on another seed
a rate twice as large is worse (:mod:`normtutor_studies.experiments.tanh_embeddings_rates`), and still
larger embeddings gain LayerNorm 0.007 untied and nothing tied. No norm, which has nothing after the
last layer either, runs alongside, from ordinary weights; with Fixup it is ahead of both norms at
the usual embeddings (:mod:`normtutor_studies.experiments.small_starts`, which also has LayerNorm with small
gains). Which part of the last norm costs a tied model with the usual embeddings what it does is the
subject of :mod:`normtutor_studies.experiments.last_norm_parts`. A sixth seed, 40, run afterwards and not on
record, lies where the five expect it in all 12 rows. It is a matter of 300 steps: after 1,500, on
seed 20 and not on record, at the usual embeddings and the best of two or three rates, LayerNorm's
tied model with the last norm is level with no norm (0.002 behind), and the last norm costs 0.056
tied and 0.006 untied. Dynamic tanh's lead after 1,000 is the subject of
:mod:`normtutor_studies.experiments.final_norm_longer`, larger embeddings for it that of
:mod:`normtutor_studies.experiments.tanh_embeddings`. Not checked: such embeddings for RMSNorm beyond 64
times the usual ones.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from normtutor.layers import DynamicTanh
from normtutor.models import TransformerLM
from normtutor_studies.experiments.package_chunks import (
    LARGE,
    SMALL,
    Size,
    fingerprint,
    measured,
    train_models,
)
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "LARGE_CONFIG", "SEEDS", "chosen", "fingerprint", "rows", "run"]

CHAPTER = "05_rms_norm"
FIGURE = "fig-final-norm"
FINDING = (
    "in 300 steps, with ordinary embeddings and weights, a tied model of three layers with a last "
    "norm loses to one without any norm; without the last norm it is ahead"
)
XLABEL = "test loss minus that without any norm (nats/token)"
SEEDS = tuple(range(20, 25))

NAMES = {"layer": "LayerNorm", "rms": "RMSNorm", "tanh": "dynamic tanh"}

SIZE = dataclasses.replace(SMALL, steps=300, warmup=60)


@dataclass(frozen=True)
class Cell:
    """What is varied, apart from the learning rate."""

    norm: str
    final: bool
    tied: bool
    scale: float = 1.0
    # Where dynamic tanh's α starts, in the layers and after the last one; else of no meaning.
    alpha: float = 0.5
    last: float = 0.5


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
        *_both_heads("layer", True, False, scale=4.0),
        *_both_heads("rms", True, False),
        # Where tanh_starts found α to start best: after the last layer at 0.25 with a tied output.
        Cell("tanh", True, True, last=0.25),
        Cell("tanh", True, False),
        *_both_heads("tanh", False),
        *_both_heads("none", False, scale=1 / 4),
        *_both_heads("layer", True, scale=16.0),
        *_both_heads("layer", True, scale=64.0),
        *_both_heads("rms", True, scale=4.0),
        *_both_heads("rms", True, scale=16.0),
        *_both_heads("rms", True, scale=64.0),
    )
)
LARGE_CONFIG = Config(
    cells=tuple(
        cell
        for scale in (1.0, 4.0)
        for norm in ("none", *NAMES)
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
    return [record for cell in config.cells for record in train_cell(config, cell, seed)]


def train_cell(config: Config, cell: Cell, seed: int) -> list[dict[str, Any]]:
    """Train a cell at all learning rates; a record for each."""
    return train_runs(config.size, config.depth, cell, [(seed, rate) for rate in config.rates])


def train_runs(
    size: Size, depth: int, cell: Cell, runs: Sequence[tuple[int, float]]
) -> list[dict[str, Any]]:
    """Train a cell with each pair of a seed and a rate; a record for each."""
    trained = train_models(
        size,
        runs,
        adjust=partial(start_alpha, cell) if cell.norm == "tanh" else None,
        depth=depth,
        norm=cell.norm,
        wiring="none" if cell.norm == "none" else "pre",
        final_norm=cell.final,
        tied=cell.tied,
        embedding_scale=cell.scale,
    )
    return [
        {**vars(cell), "learning_rate": rate, **measured(size, model, history)}
        for (_, rate), (model, history) in zip(runs, trained, strict=True)
    ]


def start_alpha(cell: Cell, model: TransformerLM) -> None:
    """Let every dynamic tanh of ``model`` begin with the α of ``cell``, by place."""
    for name, module in model.named_modules():
        if isinstance(module, DynamicTanh):
            torch.nn.init.constant_(module.alpha, cell.last if name == "final_norm" else cell.alpha)


KEYS = (*(field.name for field in dataclasses.fields(Cell)), "learning_rate")


def chosen(saved: Saved, **cell: Any) -> dict[str, Any]:
    """Learning rate and embedding scale with the smallest mean validation loss, and the losses.

    ``cell`` says which runs compete, for instance ``norm="layer", final=True, tied=False``.
    """
    best: tuple[float, dict[str, Any]] | None = None
    for record in saved.runs[0]["records"]:
        if any(record[k] != v for k, v in cell.items()):
            continue
        where = {key: record[key] for key in KEYS}
        loss = float(saved.values("validation", **where).mean())
        if not np.isnan(loss) and (best is None or loss < best[0]):
            best = loss, where
    if best is None:
        raise ValueError(f"no run with {cell} reached the end.")
    where = best[1]
    return {**where, "test": saved.values("test", **where)}


def _present(saved: Saved) -> dict[str, str]:
    """The norms on record, with their names on the page."""
    found = {record["norm"] for record in saved.runs[0]["records"]}
    return {norm: name for norm, name in NAMES.items() if norm in found}


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus that without any norm, each at its own best rate and α, at scale 1."""
    found = {}
    for tied in (True, False):
        without = chosen(saved, norm="none", tied=tied, scale=1.0)["test"]
        for norm, name in _present(saved).items():
            for final in (True, False):
                loss = chosen(saved, norm=norm, tied=tied, final=final, scale=1.0)["test"]
                label = f"{name}, {'final norm' if final else 'no final norm'}"
                found[f"{label}, {'tied' if tied else 'untied'}"] = loss - without
    return found


def curves(saved: Saved) -> dict[str, dict[str, dict[str, np.ndarray]]]:
    """Test losses for the figure: head -> norm -> curve -> (seeds, rates), at scale 1.

    Dynamic tanh is shown with the α that :func:`chosen` takes for each curve.
    """
    rates = sorted({record["learning_rate"] for record in saved.runs[0]["records"]})

    def over_rates(norm: str, final: bool, tied: bool) -> np.ndarray:
        best = chosen(saved, norm=norm, final=final, tied=tied, scale=1.0)
        where = {key: best[key] for key in KEYS if key != "learning_rate"}
        return np.stack([saved.values("test", **where, learning_rate=r) for r in rates], axis=1)

    return {
        head: {
            row: {
                "final norm": over_rates(norm, True, tied),
                "no final norm": over_rates(norm, False, tied),
                "no norm": over_rates("none", False, tied),
            }
            for norm, row in _present(saved).items()
        }
        for head, tied in (("tied", True), ("untied", False))
    }
