"""Characters of source code: a world of text in which layers pay.

The text are the sources of pinned packages, on the reader's machine already. Some nineteen in
twenty files are trained on; the rest is for tests.
"""

import hashlib
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from normtutor_studies.store import World
from normtutor_studies.worlds.transformers import SETTINGS, Batch, run

PACKAGES = ("sklearn", "pandas", "scipy", "matplotlib", "sympy", "networkx")
CHARACTERS = 97  # newline, the 95 printable ones, and one for all others
PAD = CHARACTERS
LENGTH = 64
SHORTEST = 8  # of a block
TEST_SEQUENCES = 512


class Text(NamedTuple):
    """Files as characters, and of each the number of its package."""

    files: list[np.ndarray]
    packages: np.ndarray


def numbered(text: str) -> np.ndarray:
    """A text as numbers below :data:`CHARACTERS`."""
    codes = np.frombuffer(text.encode("ascii", "replace"), dtype=np.uint8).astype(np.int64)
    printable = (codes >= 32) & (codes < 127)
    return np.where(codes == 10, 0, np.where(printable, codes - 31, CHARACTERS - 1))


@cache
def texts() -> tuple[Text, Text]:
    """What is trained on, and what is left for tests."""
    site = Path(sysconfig.get_path("purelib"))
    parts: dict[bool, tuple[list, list]] = {True: ([], []), False: ([], [])}
    for number, package in enumerate(PACKAGES):
        for path in sorted((site / package).rglob("*.py")):
            name = path.relative_to(site).as_posix()
            if "/tests/" in name or (text := path.read_text("utf-8", "replace")).isspace():
                continue
            # By its name, so that a file stays where it is when others come or go.
            for_tests = hashlib.sha256(name.encode()).digest()[0] < 13
            if len(text) > 2 * LENGTH:
                files, packages = parts[for_tests]
                files.append(numbered(text))
                packages.append(number)
    return tuple(Text(files, np.array(packages)) for files, packages in parts.values())[::-1]  # type: ignore[return-value]


@cache
def fingerprint() -> dict[str, str]:
    digest = hashlib.sha256()
    for part in texts():
        for file in part.files:
            digest.update(file.astype(np.uint8).tobytes())
    return {"text_sha256": digest.hexdigest()}


class Reader:
    """Draws sequences from a part of the text."""

    def __init__(self, text: Text) -> None:
        self.joined = np.concatenate(text.files)
        lengths = np.array([len(file) for file in text.files])
        package_of = np.repeat(text.packages, lengths)
        self.bounds = np.searchsorted(package_of, np.arange(len(PACKAGES) + 1))
        # A block begins after an empty line.
        newline = self.joined == 0
        self.blocks = np.flatnonzero(newline[:-1] & newline[1:]) + 2
        self.blocks = self.blocks[self.blocks < len(self.joined) - LENGTH - 1]
        self.block_bounds = np.searchsorted(self.blocks, self.bounds)

    def draw(
        self,
        count: int,
        rng: np.random.Generator,
        *,
        lengths: str = "one",
        package: int | None = None,
    ) -> Batch:
        """``count`` sequences, of one package or of all."""
        low, high = (0, len(self.joined)) if package is None else self.bounds[package : package + 2]
        starts = rng.integers(low, high - LENGTH - 1, size=count)
        sizes = np.full(count, LENGTH)
        if lengths == "varied":
            sizes = rng.integers(SHORTEST, LENGTH + 1, size=count)
        elif lengths == "equal":
            sizes = np.full(count, rng.integers(SHORTEST, LENGTH + 1))
        if lengths != "one":
            own = (
                slice(None) if package is None else slice(*self.block_bounds[package : package + 2])
            )
            blocks = self.blocks[own]
            starts = blocks[rng.integers(len(blocks), size=count)]
        wide = self.joined[starts[:, None] + np.arange(sizes.max() + 1)]
        real = np.arange(sizes.max()) < sizes[:, None]
        inputs, targets = np.where(real, wide[:, :-1], PAD), np.where(real, wide[:, 1:], 0)
        return Batch(*map(torch.from_numpy, (inputs, targets, real, real)))


@cache
def readers() -> tuple[Reader, Reader]:
    training, tests = texts()
    return Reader(training), Reader(tests)


def train(cell: Mapping[str, Any], rate: float, seed: int) -> dict[str, Any]:
    training, tests = readers()

    def batches(rng: np.random.Generator) -> Iterator[Batch]:
        while True:
            one = rng.random() < cell["share"]
            package = int(rng.integers(len(PACKAGES))) if one else None
            yield training.draw(cell["batch_size"], rng, lengths=cell["lengths"], package=package)

    # Tests are drawn alike whatever the batches: from all packages, of all lengths.
    lengths = "one" if cell["lengths"] == "one" else "varied"
    test = tests.draw(TEST_SEQUENCES, np.random.default_rng(1_000_000), lengths=lengths)
    return run(cell, rate, seed, vocabulary=CHARACTERS + 1, batches=batches, test=test)


CODE = World(
    "code",
    train,
    SETTINGS
    | {
        "batch_size": 16,
        "lengths": "one",  # "varied": 8 to 64 characters of a block; "equal": the same in a batch
        "share": 0.0,  # of batches from one package
    },
    rate=8e-3,
    fingerprint=fingerprint,
    unit="nats per character",
    title="Source code",
)
