"""Twelve and twenty-four layers with a norm, with embeddings four times as large again.

The control of :mod:`normtutor.experiments.text_stability` that its embeddings ask for: its grid
tries them as they are and four times as large, every norm in Pre-LN's place is best with the larger
ones, and so the best size lies at the end of the grid. Here they are sixteen times as large.
Everything else is as there, the six seeds too, so that each network has its twin.

Control: the size was found with Pre-LN on the seed of the grid, not on those reported. The rate is
0.04, which was best for these norms with embeddings four times as large, and is not tuned again: a
norm could only gain from that. Fixup, which they are compared with, lost by larger embeddings at
all three rates. Not checked: other rates, still larger embeddings, and embeddings smaller than
ordinary ones for Fixup.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from normtutor.experiments import text_stability
from normtutor.experiments.package_chunks import Size, fingerprint
from normtutor.experiments.records import Saved, load
from normtutor.experiments.text_stability_rates import train_build

__all__ = ["CONFIG", "SEEDS", "fingerprint", "rows", "run", "run_seeds"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: chapter 1 reads it, on networks with a norm beside Fixup's"
FINDING = "with larger embeddings twelve layers with a norm end lower, BatchNorm's most"
XLABEL = "test loss minus that in text_stability (nats/token)"
SEEDS = text_stability.SEEDS


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    networks: tuple[tuple[str, int], ...] = (
        ("Pre-LN", 12),
        ("Pre-RMSNorm", 12),
        ("Pre-BatchNorm", 12),
        ("Pre-LN", 24),
    )
    scale: float = 16.0
    rate: float = 4e-2
    size: Size = dataclasses.field(default_factory=lambda: text_stability.CONFIG.size)


CONFIG = Config()
REDUCED = {
    "networks": (("Pre-LN", 2),),
    "rate": 1e-3,
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Train every network with all seeds at once; a list of records for each seed."""
    by_network = [
        train_build(
            config.size, build, depth, config.scale, [(seed, config.rate) for seed in seeds]
        )
        for build, depth in config.networks
    ]
    return [list(records) for records in zip(*by_network, strict=True)]


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every network with this seed."""
    return run_seeds(config, [seed])[0]


def minus(
    build: str, depth: int, other: str, saved: Saved | None = None, beside: Saved | None = None
) -> np.ndarray:
    """A build's test loss minus that of another in text_stability, at one depth and by seed."""
    saved = saved or load("larger_embeddings")
    reference = text_stability.losses(beside or load("text_stability"), depth)[other]
    return saved.values("test", build=build, depth=depth) - reference


def between(build: str, other: str) -> np.ndarray:
    """A build's test loss minus another's, both with larger embeddings and twelve layers."""
    saved = load("larger_embeddings")
    first, second = (saved.values("test", build=name, depth=12) for name in (build, other))
    return np.asarray(first - second)


def on_seeds(build: str, seeds: Sequence[int]) -> np.ndarray:
    """A build's test losses with larger embeddings and twelve layers, on these seeds."""
    saved = load("larger_embeddings")
    by_seed = dict(zip(saved.seeds, saved.values("test", build=build, depth=12), strict=True))
    return np.array([by_seed[seed] for seed in seeds])


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus that of the same network with smaller embeddings, by seed."""
    return {
        f"{build}, {depth} layers": minus(build, depth, build, saved)
        for build, depth in saved.config["networks"]
    }
