"""Formulas to evaluate: a world in which every level of brackets asks for a step of its own.

A formula is a complete binary tree in postfix notation. Its leaves are digits below five; an
operator adds or subtracts modulo five, or takes the larger or the smaller of two values. At each
operator the model says the value of what that operator combines. Formulas are generated, so none is
seen twice but by chance.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import torch

from normtutor_studies.store import World
from normtutor_studies.worlds.transformers import SETTINGS, Batch, run

DIGITS = 5
OPERATORS = (
    lambda a, b: (a + b) % DIGITS,
    lambda a, b: (a - b) % DIGITS,
    np.maximum,
    np.minimum,
)
PAD = DIGITS + len(OPERATORS)
LEVELS = 3  # of brackets
TEST_FORMULAS = 512


@cache
def tree(levels: int) -> tuple[tuple[int, int] | None, ...]:
    """A complete tree in postfix order: of each token the places of its two parts, None: a leaf.

    >>> tree(1)
    (None, None, (0, 1))
    """
    if levels == 0:
        return (None,)
    part = tree(levels - 1)
    moved = tuple(p and (p[0] + len(part), p[1] + len(part)) for p in part)
    return (*part, *moved, (len(part) - 1, 2 * len(part) - 1))


def formulas(
    count: int, levels: int, rng: np.random.Generator, *, operator: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens, values and which tokens are operators, (count, L) each; or all are one operator."""
    places = tree(levels)
    tokens = np.zeros((count, len(places)), dtype=np.int64)
    values = np.zeros_like(tokens)
    for at, parts in enumerate(places):
        if parts is None:
            tokens[:, at] = values[:, at] = rng.integers(DIGITS, size=count)
            continue
        if operator is None:
            chosen = rng.integers(len(OPERATORS), size=count)
        else:
            chosen = np.full(count, operator)
        a, b = values[:, parts[0]], values[:, parts[1]]
        values[:, at] = np.choose(chosen, [of(a, b) for of in OPERATORS])
        tokens[:, at] = DIGITS + chosen
    counted = np.broadcast_to([parts is not None for parts in places], tokens.shape)
    return tokens, values, counted


def batch_of(
    count: int, levels: np.ndarray, rng: np.random.Generator, *, one_operator: bool = False
) -> Batch:
    """Formulas with the given numbers of levels, padded on the right; or all of one operator."""
    width = len(tree(int(levels.max())))
    arrays = [np.full((count, width), PAD), np.zeros((count, width), dtype=np.int64)]
    arrays += [np.zeros((count, width), dtype=bool) for _ in range(2)]
    operator = int(rng.integers(len(OPERATORS))) if one_operator else None
    for level in np.unique(levels):
        rows = np.flatnonzero(levels == level)
        tokens, values, counted = formulas(len(rows), int(level), rng, operator=operator)
        length = tokens.shape[1]
        for array, own in zip(arrays, (tokens, values, True, counted), strict=True):
            array[rows, :length] = own
    return Batch(*map(torch.from_numpy, arrays))


def levels_of(cell: Mapping[str, Any], rng: np.random.Generator) -> np.ndarray:
    """How many levels the formulas of one batch have."""
    count = cell["batch_size"]
    if cell["lengths"] == "one":
        return np.full(count, LEVELS)
    if cell["lengths"] == "varied":
        return rng.integers(1, LEVELS + 1, size=count)
    return np.full(count, rng.integers(1, LEVELS + 1))  # "equal": the same within a batch


def train(cell: Mapping[str, Any], rate: float, seed: int) -> dict[str, Any]:
    def batches(rng: np.random.Generator) -> Iterator[Batch]:
        while True:
            levels = levels_of(cell, rng)
            one_operator = rng.random() < cell["share"]
            yield batch_of(cell["batch_size"], levels, rng, one_operator=one_operator)

    rng = np.random.default_rng(1_000_000)
    levels = np.full(TEST_FORMULAS, LEVELS)
    if cell["lengths"] != "one":
        levels = rng.integers(1, LEVELS + 1, size=TEST_FORMULAS)
    test = batch_of(TEST_FORMULAS, levels, rng)
    return run(cell, rate, seed, vocabulary=PAD + 1, batches=batches, test=test)


FORMULAS = World(
    "formulas",
    train,
    SETTINGS
    | {
        "width": 32,
        "batch_size": 64,
        "lengths": "one",  # "varied": one to three levels; "equal": the same in a batch
        "share": 0.0,  # of batches with one kind of operator
    },
    rate=8e-3,
    unit="nats per operator",
    title="Formulas",
)
