"""Which learning rates train two and six layers, with and without a norm.

Seven ways to build a Transformer language model are trained at seven learning rates between 0.0004
and 0.1, in factors of 2.5. What is tuned for one is tuned for all: the embeddings enter the first
layer as they are, or larger or smaller, in factors of four; at three of the rates the scales are
widened until the best one lies inside, or one step more gains less than 0.02 nats. Then the other
four rates are run at the best scale, and a larger one if the largest is best. Gradients are clipped
at length 1 in all conditions, which helps those that explode, and the share of clipped steps is
recorded.

A rate *works* if the validation loss lies within ``margin`` of the best one that any condition
reached at this depth. The margin, 0.25 nats, was fixed before the first run. The best rates are
those of :mod:`normtutor_studies.experiments.text_stability`, which runs them on fresh seeds.

No layers (:mod:`normtutor_studies.experiments.text_stability_rates_0`), twelve with a norm
(:mod:`normtutor_studies.experiments.text_stability_rates_12`) and without
(:mod:`normtutor_studies.experiments.text_stability_rates_12_none`), twenty-four with a norm
(:mod:`normtutor_studies.experiments.text_stability_rates_24`) and without
(:mod:`normtutor_studies.experiments.text_stability_rates_24_none`), and PowerNorm
(:mod:`normtutor_studies.experiments.text_stability_rates_power`) are in modules of their own, so that none
takes more than twenty minutes; ``grids`` puts all of them together.

Control: a network without a norm could fail because of its initial weights, so two schemes that
scale them run beside the ordinary ones; because of the embeddings, so every network has the size
that is best for it; or because of the rate, so there are seven, over a factor of 250, and no best
rate of a network that trains lies at the end of the grid. Clipping at length 1 is on for all and
helps those that explode, so the share of clipped steps stands beside each loss. BatchNorm could
fail in evaluation only, so its loss is also taken with the statistics of each batch; the two agree
to 0.005. With six layers and more the norms in Pre-LN's places are best with the largest embeddings
tried, 64 or 256 times the usual ones; the last step gained less than 0.02 nats, so a difference
below that may be the size's. Not checked: a second seed of the grid.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from normtutor.layers import PowerNorm
from normtutor.models import TransformerLM
from normtutor.training import History, mean_token_loss
from normtutor.wiring import WIRINGS, Wiring
from normtutor_studies.experiments.package_chunks import (
    LARGE,
    SMALL,
    Size,
    fingerprint,
    held_out,
    measured,
    train_models,
)
from normtutor_studies.experiments.rates import joined
from normtutor_studies.experiments.records import Saved

__all__ = [
    "BUILDS",
    "CONFIG",
    "GRIDS",
    "LARGE_CONFIG",
    "SEEDS",
    "WITHOUT_FACTOR",
    "best_rates",
    "fingerprint",
    "grids",
    "run",
    "working_rates",
]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: it chooses the learning rates of text_stability"
FINDING = (
    "in 300 steps, of three ways to train six layers without a norm, only Fixup comes near one"
)
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

#: Fixup's weights alone: the factor of each branch stays 1. In none of the grids of this module.
WITHOUT_FACTOR = "no norm, Fixup, factor fixed"
VARIANTS: dict[str, tuple[str, str | Wiring]] = {
    WITHOUT_FACTOR: ("none", dataclasses.replace(WIRINGS["fixup"], learned="")),
}

#: Norms that are trained with the statistics of a batch and evaluated with running ones.
KEEP_STATISTICS = ("batch", "power")


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    builds: tuple[str, ...] = tuple(build for build in BUILDS if build != "Pre-PowerNorm")
    depths: tuple[int, ...] = (2, 6)
    # Both scales are tried at the first three, and the better one at the others.
    rates: tuple[float, ...] = (1e-3, 6.3e-3, 4e-2, 4e-4, 2.5e-3, 1.6e-2, 1e-1)
    # Tried one after the other as long as the largest rate is the best one.
    beyond: tuple[float, ...] = (0.25, 0.63)
    scales: tuple[float, ...] = (1.0, 4.0)
    # If the best scale lies at an end, one beyond it is tried, as long as that gains as much.
    scale_step: float = 4.0
    scale_gain: float = 0.02
    margin: float = 0.25
    size: Size = dataclasses.field(
        default_factory=lambda: dataclasses.replace(SMALL, steps=300, warmup=75, clip=1.0)
    )


CONFIG = Config()
LARGE_CONFIG = Config(
    builds=tuple(BUILDS), depths=(6, 12, 24), size=dataclasses.replace(LARGE, clip=1.0)
)
REDUCED = {
    "builds": ("no norm", "Pre-BatchNorm", "Post-LN"),
    "scale_gain": 10.0,
    "depths": (2,),
    "rates": (1e-3, 6.3e-3),
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}


def train_build(
    size: Size, build: str, depth: int, scale: float, runs: Sequence[tuple[int, float]]
) -> list[dict[str, Any]]:
    """Train one build with each pair of a seed and a rate; a record for each."""
    norm, wiring = (BUILDS | VARIANTS)[build]
    trained = train_models(
        size,
        runs,
        together=norm != "power",
        depth=depth,
        norm=partial(PowerNorm, warmup_steps=size.steps // 3) if norm == "power" else norm,
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
            **_with_batch_statistics(size, norm, model, history),
        }
        for (_, rate), (model, history) in zip(runs, trained, strict=True)
    ]


def _with_batch_statistics(
    size: Size, norm: str, model: TransformerLM, history: History
) -> dict[str, float]:
    """The losses of a norm that keeps running statistics, with those of each batch instead."""
    if norm not in KEEP_STATISTICS:
        return {}
    return {
        f"{part}_in_batches": math.nan
        if history.diverged
        else round(mean_token_loss(model, held_out(size, part), batch_statistics=True), 4)
        for part in ("validation", "test")
    }


def tune(config: Config, build: str, depth: int, seed: int) -> list[dict[str, Any]]:
    """The scales at three rates, until the best is inside; then the other rates at that scale."""

    def train(scale: float, rates: Sequence[float]) -> list[dict[str, Any]]:
        return train_build(config.size, build, depth, scale, [(seed, rate) for rate in rates])

    def best() -> dict[str, Any]:
        finished = [record for record in records if not record["diverged"]]
        return min(finished, key=lambda record: record["validation"], default=records[0])

    first, rest = config.rates[:3], config.rates[3:]
    scales = list(config.scales)
    records = [record for scale in scales for record in train(scale, first)]
    while best()["scale"] in (min(scales), max(scales)):
        end, before = best()["scale"], best()["validation"]
        further = end * config.scale_step if end == max(scales) else end / config.scale_step
        scales.append(further)
        records += train(further, first)
        if not before - best()["validation"] >= config.scale_gain:  # not if all diverged, either
            break
    scale = best()["scale"]
    if rest:
        records += train(scale, rest)
    largest = max(config.rates)
    for rate in config.beyond:
        if best()["learning_rate"] == largest:
            records += train(scale, [rate])
            largest = rate
    return records


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Tune every build at every depth with this seed."""
    return [
        record
        for depth in config.depths
        for build in config.builds
        for record in tune(config, build, depth, seed)
    ]


#: The experiments that choose rates: parts of one grid, so that none takes more than 20 minutes.
GRIDS = (
    "text_stability_rates",
    "text_stability_rates_12",
    "text_stability_rates_12_none",
    "text_stability_rates_24",
    "text_stability_rates_24_none",
    "text_stability_rates_power",
)


def grids() -> Saved:
    """The book's grids as one, with all builds and depths."""
    return joined(*GRIDS)


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


def tried_rates(saved: Saved, build: str, depth: int) -> list[float]:
    """The rates, in order, at which a build was trained at a depth."""
    return sorted({rate for b, d, _, rate in _means(saved) if (b, d) == (build, depth)})


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
