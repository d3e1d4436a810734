"""Twelve layers with BatchNorm and with LayerNorm, in batches of four times as many tokens.

A control of :mod:`normtutor_studies.experiments.embedding_sizes`: with embeddings four times the usual
size, which is too small for both norms, twelve layers with BatchNorm end behind LayerNorm, in
training mode too, where a step has 256 tokens. Is it the embeddings alone, or the noise of
statistics over so few tokens? Everything is as there, but for 1,024 tokens a step. Both norms are
tried at the three largest rates of the grid, on the seeds of that experiment.

Control: larger batches suit larger rates, so each norm has its own, which lies inside the three for
both. Embeddings of the best size, too, let BatchNorm keep up, in small batches
(:mod:`normtutor_studies.experiments.embedding_sizes`). The rate is chosen on the validation part of the
same seeds, with three rates for each norm alike; the losses compared are those of the test part. A
seventh seed, 40, run afterwards and not on record, lies where the six expect it in both rows. Not
checked: 256 tokens a step for four times as many steps, so that the number of tokens, which grows
too, is not told from the size of the batch; PowerNorm; other depths.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from normtutor_studies.experiments import text_stability
from normtutor_studies.experiments.package_chunks import Size, fingerprint
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.text_stability_rates import train_build

__all__ = ["CONFIG", "SEEDS", "at_best_rates", "fingerprint", "rows", "run"]

CHAPTER = "03_batch_norm_vs_layer_norm"
FIGURE = "none: chapter 3 and the ledger read it, on BatchNorm in twelve layers"
FINDING = "with 1,024 tokens a step BatchNorm keeps up with LayerNorm in twelve layers"
XLABEL = "test loss minus Pre-LN's (nats/token)"
REFERENCE_BUILD = "Pre-LN"
SEEDS = text_stability.SEEDS


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    builds: tuple[str, ...] = ("Pre-LN", "Pre-BatchNorm")
    rates: tuple[float, ...] = (1.6e-2, 4e-2, 1e-1)
    depth: int = 12
    scale: float = 4.0
    size: Size = dataclasses.field(
        default_factory=lambda: dataclasses.replace(text_stability.CONFIG.size, batch_size=32)
    )


CONFIG = Config()
REDUCED = {
    "rates": (1e-3, 4e-3),
    "depth": 2,
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train both networks at every rate with this seed."""
    return [
        record
        for build in config.builds
        for record in train_build(
            config.size, build, config.depth, config.scale, [(seed, rate) for rate in config.rates]
        )
    ]


def at_best_rates(saved: Saved) -> dict[str, dict[str, Any]]:
    """Build -> its keys and the rate with the smallest mean validation loss."""
    return {
        build: min(
            ({"build": build, "learning_rate": rate} for rate in saved.config["rates"]),
            key=lambda cell: np.nan_to_num(saved.values("validation", **cell).mean(), nan=np.inf),
        )
        for build in saved.config["builds"]
    }


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus LayerNorm's, by seed, each at its best rate; in both modes for BatchNorm."""
    best = at_best_rates(saved)
    reference = saved.values("test", **best[REFERENCE_BUILD])
    cell = best["Pre-BatchNorm"]
    return {
        "Pre-BatchNorm": saved.values("test", **cell) - reference,
        "Pre-BatchNorm, batch statistics": saved.values("test_in_batches", **cell) - reference,
    }
