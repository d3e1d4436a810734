"""Digits to sort: a deep, narrow model learns it in seconds, and does not if its wiring is wrong.

A sequence is eight digits, a separator and the digits in order; the loss counts on the ordered
part. Little depth is needed, so what holds here about layers is asked again in another world.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from normtutor_studies.store import World
from normtutor_studies.worlds.transformers import SETTINGS, Batch, run

SYMBOLS, LENGTH = 10, 8
TEST_SEQUENCES = 512


def batch_of(count: int, rng: np.random.Generator) -> Batch:
    """``count`` new sequences, (count, 16) tokens with their successors."""
    digits = rng.integers(SYMBOLS, size=(count, LENGTH))
    separator = np.full((count, 1), SYMBOLS)
    tokens = np.concatenate([digits, separator, np.sort(digits)], axis=1)
    real = np.ones((count, 2 * LENGTH), dtype=bool)
    counted = real & (np.arange(2 * LENGTH) >= LENGTH)
    return Batch(*map(torch.from_numpy, (tokens[:, :-1], tokens[:, 1:], real, counted)))


def train(cell: Mapping[str, Any], rate: float, seed: int) -> dict[str, Any]:
    def batches(rng: np.random.Generator) -> Iterator[Batch]:
        while True:
            yield batch_of(cell["batch_size"], rng)

    test = batch_of(TEST_SEQUENCES, np.random.default_rng(1_000_000))
    return run(cell, rate, seed, vocabulary=SYMBOLS + 1, batches=batches, test=test)


SORTING = World(
    "sorting",
    train,
    SETTINGS
    | {
        "depth": 12,
        "width": 32,
        "batch_size": 16,
        "steps": 400,
        "warmup": 0.15,
        "clip": None,
        "decay": 0.0,
    },
    rate=4e-3,
    unit="nats per digit",
    title="Sorting",
)
