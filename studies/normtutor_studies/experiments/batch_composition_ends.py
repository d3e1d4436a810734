"""LayerNorm's end marks on the very batches that BatchNorm is scored on in batch_composition.

In :mod:`normtutor_studies.experiments.batch_composition` BatchNorm's two modes are compared on test batches
composed as in training, and LayerNorm is scored on other draws from the same part of the text. Here
LayerNorm's models are trained again and scored on BatchNorm's batches.

Control: text, rates, seeds and batches are those of batch_composition, from whose saved run the
rows take the BatchNorm models, so the test sentences are no longer a difference. The two were run
on different processors. Not checked: other draws of test batches, and other kinds of batches.
"""

import dataclasses
from typing import Any

import numpy as np

from normtutor_studies.experiments import batch_composition
from normtutor_studies.experiments.batch_composition import (
    KIND_TITLES,
    Condition,
    Config,
    batches_of,
    fingerprint,
    losses,
    train_condition,
)
from normtutor_studies.experiments.records import Saved, load

__all__ = ["CONFIG", "SEEDS", "fingerprint", "rows", "run"]

CHAPTER = batch_composition.CHAPTER
FIGURE = "none: a control of batch_composition, which chapter 3 cites"
FINDING = (
    "on the same batches of equal length BatchNorm with the batch's statistics predicts end marks "
    "better than LayerNorm on every seed, and on shuffled ones it does not"
)
XLABEL = "loss of end marks, BatchNorm's minus LayerNorm's (nats per end mark)"
SEEDS = batch_composition.SEEDS
KINDS = ("shuffled", "length")
CONFIG = dataclasses.replace(
    batch_composition.CONFIG,
    conditions=tuple(
        condition
        for condition in batch_composition.CONFIG.conditions
        if condition.norm == "layer" and condition.kind in KINDS
    ),
)
REDUCED = {"batch_size": 4}


def run_condition(config: Config, condition: Condition, seed: int) -> dict[str, Any]:
    """Train one model and measure it on the batches that BatchNorm of this seed is measured on."""
    model, _, diverged = train_condition(config, condition, seed)
    stream = batches_of(config, "test", condition.kind, np.random.default_rng(1000 + seed))
    alike = [next(stream) for _ in range(config.test_batches)]
    return {**dataclasses.asdict(condition), "diverged": diverged, **losses(model, alike)}


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; report on the test part."""
    return [run_condition(config, condition, seed) for condition in config.conditions]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """BatchNorm's loss of end marks minus LayerNorm's on the same batches, paired by seed."""
    batch = load("batch_composition")
    return {
        f"{KIND_TITLES[kind]}, {mode}": batch.values(f"{key}_end", norm="masked batch", kind=kind)
        - saved.values("end", norm="layer", kind=kind)
        for kind in KINDS
        for key, mode in (("batch", "batch statistics"), ("kept", "running statistics"))
    }
