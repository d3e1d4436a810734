"""Twelve layers with and without the norm after the last one: which rates and embeddings are best.

The question of :mod:`normtutor_studies.experiments.final_norm` in twelve layers. The settings are those of
:mod:`normtutor_studies.experiments.text_stability_rates`, on the same seed: 300 steps with gradients
clipped at length 1; one network is trained without clipping as well. With an output matrix of their
own LayerNorm and RMSNorm with the last norm and Fixup without a norm are on record there and not
trained again. Embeddings are tried in factors of four, until the best size lies between worse ones
or one step more gains less than 0.02 nats. Dynamic tanh is in
:mod:`normtutor_studies.experiments.deep_tanh_starts`, LayerNorm with small gains in
:mod:`normtutor_studies.experiments.deep_small_gains`.

Control: the last norm could cost or gain something because of a rate or an embedding that suits the
other network, so each has its own of both; every best rate lies inside its rates, and of the sizes
the largest, 256 times the usual one, is best for models with the last norm alone. Clipping could
favour one of them: the run without it has two rates and was best at the larger. Not checked: a
second seed of this grid.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from normtutor.models import TransformerLM
from normtutor_studies.experiments import text_stability_rates
from normtutor_studies.experiments.final_norm import Cell, start_alpha
from normtutor_studies.experiments.package_chunks import Size, fingerprint, measured, train_models
from normtutor_studies.experiments.records import Saved

__all__ = [
    "CONFIG",
    "SEEDS",
    "GainNetwork",
    "Network",
    "TanhNetwork",
    "best_rates",
    "fingerprint",
    "run",
    "train_network",
]

CHAPTER = "05_rms_norm"
FIGURE = "none: it chooses the learning rates of deep_last_norm"
FINDING = "which size of the embeddings is best depends on the last norm, at twelve layers too"
SEEDS = (0,)

BUILDS = text_stability_rates.BUILDS | {
    "Pre-DyT": ("tanh", "pre"),
    "Pre-LN, small gains": ("layer", "pre"),
}


@dataclass(frozen=True)
class Network:
    """What is built: where its norms stand, its output matrix, the scale of its embeddings."""

    build: str
    final: bool
    tied: bool
    scale: float


@dataclass(frozen=True)
class TanhNetwork(Network):
    """One with dynamic tanh: where its α starts, in the layers and after the last one."""

    alpha: float
    last: float


@dataclass(frozen=True)
class GainNetwork(Network):
    """One whose norms in the layers start with a gain other than 1."""

    gain: float


@dataclass(frozen=True)
class Row:
    """A network, and the learning rates that are tried."""

    network: Network
    rates: tuple[float, ...]
    clip: float | None = 1.0


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    rows: tuple[Row, ...]
    depth: int = 12
    size: Size = text_stability_rates.CONFIG.size


CONFIG = Config(
    rows=(
        Row(Network("Pre-LN", True, True, 1.0), (1.6e-2, 4e-2)),
        Row(Network("Pre-LN", True, True, 4.0), (6.3e-3, 1.6e-2, 4e-2)),
        Row(Network("Pre-LN", False, True, 1.0), (6.3e-3, 1.6e-2, 4e-2)),
        Row(Network("Pre-LN", False, True, 4.0), (1.6e-2, 4e-2)),
        Row(Network("Pre-LN", False, False, 1.0), (1.6e-2, 4e-2, 1e-1)),
        Row(Network("Pre-LN", False, False, 4.0), (1.6e-2, 4e-2)),
        Row(Network("no norm, Fixup", False, True, 1.0), (1.6e-2, 4e-2, 1e-1)),
        Row(Network("Pre-RMSNorm", True, True, 1.0), (6.3e-3, 1.6e-2, 4e-2)),
        Row(Network("Pre-RMSNorm", True, True, 4.0), (6.3e-3, 1.6e-2, 4e-2)),
        Row(Network("Pre-RMSNorm", True, True, 4.0), (1e-1,)),
        Row(Network("Pre-RMSNorm", False, True, 1.0), (6.3e-3, 1.6e-2, 4e-2)),
        Row(Network("Pre-RMSNorm", False, True, 4.0), (6.3e-3, 1.6e-2, 4e-2)),
        Row(Network("Pre-RMSNorm", False, False, 1.0), (6.3e-3, 1.6e-2, 4e-2)),
        Row(Network("Pre-RMSNorm", False, False, 1.0), (1e-1,)),
        Row(Network("Pre-RMSNorm", False, False, 4.0), (6.3e-3, 1.6e-2, 4e-2)),
        # Larger and smaller embeddings, until the best lies inside or a step gains under 0.02.
        Row(Network("Pre-LN", True, True, 16.0), (1.6e-2, 4e-2, 1e-1)),
        Row(Network("Pre-LN", True, True, 64.0), (1.6e-2, 4e-2, 1e-1)),
        Row(Network("Pre-LN", True, True, 256.0), (1.6e-2, 4e-2, 1e-1, 2.5e-1)),
        Row(Network("Pre-RMSNorm", True, True, 16.0), (1.6e-2, 4e-2, 1e-1)),
        Row(Network("Pre-RMSNorm", True, True, 64.0), (1.6e-2, 4e-2, 1e-1)),
        Row(Network("Pre-RMSNorm", True, True, 256.0), (1.6e-2, 4e-2, 1e-1)),
        Row(Network("Pre-LN", False, False, 1 / 4), (1.6e-2, 4e-2, 1e-1)),
        Row(Network("Pre-LN", False, False, 4.0), (1e-1,)),
        Row(Network("Pre-RMSNorm", False, False, 1 / 4), (1.6e-2, 4e-2, 6.3e-3)),
        Row(Network("Pre-LN", False, True, 1 / 4), (1.6e-2, 4e-2, 6.3e-3)),
        Row(Network("Pre-LN", False, True, 4.0), (6.3e-3,)),
        Row(Network("Pre-RMSNorm", False, True, 1 / 4), (1.6e-2, 4e-2, 6.3e-3)),
        Row(Network("no norm, Fixup", False, True, 1 / 4), (1.6e-2, 4e-2, 1e-1)),
        Row(Network("no norm, Fixup", False, True, 4.0), (1.6e-2, 4e-2, 1e-1)),
        Row(Network("no norm, Fixup", False, True, 1 / 16), (1.6e-2, 4e-2, 1e-1)),
        # A control; no rate is chosen from it.
        Row(Network("Pre-LN", False, False, 1.0), (1.6e-2, 4e-2), clip=None),
    )
)
REDUCED = {
    "rows": (
        Row(Network("Pre-LN", False, True, 1.0), (1e-3, 4e-3)),
        Row(Network("no norm, Fixup", False, True, 1.0), (1e-3,)),
    ),
    "depth": 2,
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}


def start_gain(gain: float, model: TransformerLM) -> None:
    """Let the norms in the layers begin with this gain; that after the last layer keeps its own."""
    for module in model.layers.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.constant_(module.weight, gain)


def train_network(
    size: Size, network: Network, depth: int, runs: Sequence[tuple[int, float]]
) -> list[dict[str, Any]]:
    """Train a network with each pair of a seed and a rate; a record for each."""
    norm, wiring = BUILDS[network.build]
    adjust = None
    if isinstance(network, TanhNetwork):
        start = Cell("tanh", network.final, network.tied, alpha=network.alpha, last=network.last)
        adjust = partial(start_alpha, start)
    elif isinstance(network, GainNetwork):
        adjust = partial(start_gain, network.gain)
    trained = train_models(
        size,
        runs,
        adjust=adjust,
        depth=depth,
        norm=norm,
        wiring=wiring,
        final_norm=network.final,
        tied=network.tied,
        embedding_scale=network.scale,
    )
    return [
        {
            **vars(network),
            "learning_rate": rate,
            "clip": size.clip,
            **measured(size, model, history),
        }
        for (_, rate), (model, history) in zip(runs, trained, strict=True)
    ]


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every network at its rates with this seed."""
    return [
        record
        for row in config.rows
        for record in train_network(
            dataclasses.replace(config.size, clip=row.clip),
            row.network,
            config.depth,
            [(seed, rate) for rate in row.rates],
        )
    ]


def best_rates(saved: Saved) -> dict[tuple[str, bool, bool, float], float]:
    """(build, last norm, tied, scale) -> rate with the smallest validation loss, at the best scale.

    Rates at which a seed diverged do not count, nor do the controls: without clipping, and with a
    smaller gain.
    """
    best: dict[tuple[str, bool, bool], tuple[float, float, float]] = {}
    for record in saved.runs[0]["records"]:
        if record["clip"] is None or "gain" in record:
            continue
        build, final, tied = record["build"], record["final"], record["tied"]
        scale, rate = record["scale"], record["learning_rate"]
        losses = saved.values(
            "validation",
            build=build,
            final=final,
            tied=tied,
            scale=scale,
            learning_rate=rate,
            clip=record["clip"],
        )
        this = (float(losses.mean()), scale, rate)
        if not np.isnan(this[0]):
            best[build, final, tied] = min(best.get((build, final, tied), this), this)
    return {(*cell, scale): rate for cell, (_, scale, rate) in best.items()}
