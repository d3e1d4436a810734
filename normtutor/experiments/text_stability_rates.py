"""Which learning rates train two and twelve layers, with and without a norm.

Six ways to build a Transformer language model are trained at seven learning rates between 0.0004
and 0.1, in factors of 2.5. What is tuned for one is tuned for all: the embeddings enter the first
layer as they are or four times as large, whichever gives the smaller validation loss at three of
the rates; then the other four rates are run at that scale. Gradients are clipped at length 1 in all
conditions, which helps those that explode, and the share of clipped steps is recorded.

A rate *works* if the validation loss lies within ``margin`` of the best one that any
condition reached at this depth. The margin, 0.25 nats, was fixed before the first run. The best
rates are those of :mod:`normtutor.experiments.text_stability`, which runs them on fresh seeds.

Two layers are trained with the builds that decide, twelve with Post-LN as well. Cut for time: 6 and
24 layers, BatchNorm and PowerNorm, a second seed here, larger embeddings than four times, and runs
longer than 300 steps of 256 tokens. Post-LN at 12 layers needs a longer warm-up and more steps than
these, so what it does here is no verdict on it.

Control: a network without a norm could fail because of its initial weights, so two schemes that
scale them run beside the ordinary ones; because of the embeddings, so every network is tried with
both sizes; or because of the rate, so there are seven, over a factor of 250. Clipping at length 1
is on for all and helps those that explode, so the share of clipped steps stands beside each loss.
Not checked: a second seed of the grid, and embeddings more than four times as large, which the
norms might use best. With two layers Pre-LN's best rate is the largest of the grid.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from normtutor.experiments.package_chunks import (
    LARGE,
    SMALL,
    Size,
    fingerprint,
    measured,
    train_models,
)
from normtutor.experiments.records import Saved
from normtutor.wiring import Wiring

__all__ = [
    "BUILDS",
    "CONFIG",
    "LARGE_CONFIG",
    "SEEDS",
    "best_rates",
    "fingerprint",
    "run",
    "working_rates",
]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: it chooses the learning rates of text_stability"
FINDING = "twelve layers without a norm train only from small initial weights"
SEEDS = (0,)


def _scaled(layer: int, depth: int) -> tuple[float, float, float]:
    return 1.0, 1.0, (2 * depth) ** -0.5


# name -> (norm, wiring)
BUILDS: dict[str, tuple[str, str | Wiring]] = {
    "no norm": ("none", "none"),
    "no norm, scaled weights": ("none", Wiring((), weights=_scaled)),
    "no norm, Fixup": ("none", "fixup"),
    "Pre-LN": ("layer", "pre"),
    "Pre-RMSNorm": ("rms", "pre"),
    "Post-LN": ("layer", "post"),
    "Pre-BatchNorm": ("batch", "pre"),
    "Pre-PowerNorm": ("power", "pre"),
}


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    builds: tuple[str, ...] = tuple(
        build for build in BUILDS if build not in ("Pre-BatchNorm", "Pre-PowerNorm")
    )
    depths: tuple[int, ...] = (2, 12)
    # These are trained at the greatest depth only.
    deepest_only: tuple[str, ...] = ("Post-LN",)
    # Both scales are tried at the first three, and the better one at the others.
    rates: tuple[float, ...] = (1e-3, 6.3e-3, 4e-2, 4e-4, 2.5e-3, 1.6e-2, 1e-1)
    scales: tuple[float, ...] = (1.0, 4.0)
    margin: float = 0.25
    size: Size = dataclasses.field(
        default_factory=lambda: dataclasses.replace(SMALL, steps=300, warmup=75, clip=1.0)
    )


CONFIG = Config()
LARGE_CONFIG = Config(
    builds=tuple(BUILDS),
    depths=(6, 12, 24),
    deepest_only=(),
    size=dataclasses.replace(LARGE, clip=1.0),
)
REDUCED = {
    "builds": ("no norm", "Pre-LN"),
    "depths": (2,),
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}


def train_build(
    size: Size, build: str, depth: int, scale: float, runs: Sequence[tuple[int, float]]
) -> list[dict[str, Any]]:
    """Train one build with each pair of a seed and a rate; a record for each."""
    norm, wiring = BUILDS[build]
    trained = train_models(
        size,
        runs,
        together=norm != "power",
        depth=depth,
        norm=norm,
        wiring=wiring,
        tied=False,
        embedding_scale=scale,
    )
    return [
        {
            "build": build,
            "depth": depth,
            "scale": scale,
            "learning_rate": rate,
            **measured(size, model, history),
        }
        for (_, rate), (model, history) in zip(runs, trained, strict=True)
    ]


def tune(config: Config, build: str, depth: int, seed: int) -> list[dict[str, Any]]:
    """Both scales at three rates; the other rates at the scale of the smallest loss."""
    first, rest = config.rates[:3], config.rates[3:]
    records = [
        record
        for scale in config.scales
        for record in train_build(config.size, build, depth, scale, [(seed, r) for r in first])
    ]
    finished = [record for record in records if not record["diverged"]]
    best = min(finished, key=lambda record: record["validation"], default=records[0])
    if rest:
        runs = [(seed, rate) for rate in rest]
        records += train_build(config.size, build, depth, best["scale"], runs)
    return records


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Tune every build at every depth with this seed."""
    return [
        record
        for depth in config.depths
        for build in config.builds
        if depth == max(config.depths) or build not in config.deepest_only
        for record in tune(config, build, depth, seed)
    ]


def _means(saved: Saved) -> dict[tuple[str, int, float, float], float]:
    """(build, depth, scale, rate) -> mean validation loss; NaN if one diverged."""
    keys = ("build", "depth", "scale", "learning_rate")
    losses: dict[tuple[str, int, float, float], list[float]] = {}
    for run in saved.runs:
        for record in run["records"]:
            cell = tuple(record[key] for key in keys)
            loss = record["validation"]
            losses.setdefault(cell, []).append(np.nan if loss is None else loss)
    return {cell: float(np.mean(found)) for cell, found in losses.items()}


def best_rates(saved: Saved) -> dict[tuple[str, int, float], float]:
    """(build, depth, scale) -> rate with the smallest validation loss, at the best scale."""
    best: dict[tuple[str, int], tuple[float, float, float]] = {}
    for (build, depth, scale, rate), loss in _means(saved).items():
        if not np.isnan(loss):
            found = best.get((build, depth), (np.inf, 0.0, 0.0))
            best[build, depth] = min(found, (loss, scale, rate))
    return {(build, depth, scale): rate for (build, depth), (_, scale, rate) in best.items()}


def best_loss(saved: Saved, build: str, depth: int) -> float:
    """The smallest mean validation loss that a build reached at a depth, at any rate and scale."""
    means = _means(saved).items()
    return float(np.nanmin([loss for cell, loss in means if cell[:2] == (build, depth)]))


def working_rates(saved: Saved, depth: int) -> dict[str, list[float]]:
    """Build -> the rates, in order, whose loss is within the margin of the best at this depth."""
    losses: dict[str, dict[float, float]] = {}
    for (build, here, _, rate), loss in _means(saved).items():
        if here == depth:
            by_rate = losses.setdefault(build, {})
            by_rate[rate] = float(np.fmin(by_rate.get(rate, np.nan), loss))
    limit = np.nanmin([loss for by_rate in losses.values() for loss in by_rate.values()])
    limit += saved.config["margin"]
    return {
        build: sorted(rate for rate, loss in by_rate.items() if loss <= limit)
        for build, by_rate in losses.items()
    }
