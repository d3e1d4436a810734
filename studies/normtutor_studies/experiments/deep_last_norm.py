"""Twelve layers with and without the norm after the last one, on fresh seeds.

LayerNorm, RMSNorm and dynamic tanh, and Fixup without a norm beside them. Each network has the
embeddings and the learning rate that were best for it on another seed: in
:mod:`normtutor_studies.experiments.text_stability_rates` for those with a norm, an output matrix of their
own and the usual last place, in :mod:`normtutor_studies.experiments.deep_tanh_starts` for dynamic tanh,
whose α starts where it did best there, and in :mod:`normtutor_studies.experiments.deep_last_norm_rates` for
the others. The first are trained as in :mod:`normtutor_studies.experiments.text_stability`, with the same
seeds, sequences and settings; their records are taken from there, and their time is counted there.

Control: a difference could come from the rate or from the size of the embeddings, so each network
has its own of both, chosen on another seed. The last norm lets a network have large embeddings,
which suit both norms: without it they make the last state large as well. It could come from
clipping at length 1, which acts on at most 2 % of the steps of a network with the last norm and on
about two thirds of those of a norm without it. Fixup stands beside both outputs, so that what a
tied output costs anyway is seen. Dynamic tanh has a setting more than the norms, the start of α,
and with its default it would end up to half a nat behind. It hands the branches a small input at
first; so LayerNorm also stands there with gains that start small
(:mod:`normtutor_studies.experiments.deep_small_gains`), and these take away most of what it loses without
the last norm. A sixth seed, 40, run afterwards and not on record, lies where the five expect it in
all 14 rows. In these 300 steps the best of these networks do no better than none of their layers
would (:mod:`normtutor_studies.experiments.text_stability`). More tokens take most of the gain away
(:mod:`normtutor_studies.experiments.more_tokens_last_norm`). Not checked: such gains for RMSNorm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from normtutor_studies.experiments import deep_last_norm_rates
from normtutor_studies.experiments.deep_last_norm_rates import (
    GainNetwork,
    Network,
    TanhNetwork,
    train_network,
)
from normtutor_studies.experiments.package_chunks import Size, fingerprint
from normtutor_studies.experiments.records import Saved

__all__ = [
    "CONFIG",
    "SEEDS",
    "at_best",
    "fingerprint",
    "losses",
    "rows",
    "run",
    "run_seeds",
]

CHAPTER = "05_rms_norm"
FIGURE = "fig-deep-last-norm"
FINDING = (
    "in 300 clipped steps at twelve layers, each at its best embeddings, LayerNorm and RMSNorm "
    "gain by a last norm, tied or not, and dynamic tanh loses by its last place; small initial "
    "gains do much of what the last norm does"
)
XLABEL = "test loss minus Fixup's, same output (nats/token)"
REFERENCE_BUILD = "no norm, Fixup"
SEEDS = tuple(range(10, 15))


@dataclass(frozen=True)
class Condition:
    """A network with its learning rate."""

    build: str
    final: bool
    tied: bool
    scale: float
    learning_rate: float

    @property
    def network(self) -> Network:
        return Network(self.build, self.final, self.tied, self.scale)


@dataclass(frozen=True)
class TanhCondition(Condition):
    """One with dynamic tanh: where its α starts, in the layers and after the last one."""

    alpha: float
    last: float

    @property
    def network(self) -> Network:
        return TanhNetwork(self.build, self.final, self.tied, self.scale, self.alpha, self.last)


@dataclass(frozen=True)
class GainCondition(Condition):
    """One whose norms in the layers start with a gain other than 1."""

    gain: float

    @property
    def network(self) -> Network:
        return GainNetwork(self.build, self.final, self.tied, self.scale, self.gain)


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    depth: int = 12
    size: Size = deep_last_norm_rates.CONFIG.size


# What the two grids chose; a test compares them with their saved runs.
CONFIG = Config(
    conditions=(
        Condition("Pre-LN", True, True, 256.0, 1e-1),
        Condition("Pre-LN", False, True, 1.0, 1.6e-2),
        Condition("no norm, Fixup", False, True, 1 / 4, 4e-2),
        Condition("Pre-LN", True, False, 256.0, 4e-2),
        Condition("Pre-LN", False, False, 1.0, 4e-2),
        Condition("no norm, Fixup", False, False, 1 / 4, 4e-2),
        Condition("Pre-RMSNorm", True, True, 256.0, 4e-2),
        Condition("Pre-RMSNorm", False, True, 1.0, 1.6e-2),
        Condition("Pre-RMSNorm", True, False, 256.0, 4e-2),
        Condition("Pre-RMSNorm", False, False, 1.0, 4e-2),
        TanhCondition("Pre-DyT", True, True, 4.0, 1.6e-2, alpha=0.125, last=0.25),
        TanhCondition("Pre-DyT", False, True, 1.0, 1.6e-2, alpha=0.25, last=0.25),
        TanhCondition("Pre-DyT", True, False, 1.0, 4e-2, alpha=0.125, last=0.5),
        TanhCondition("Pre-DyT", False, False, 1 / 4, 4e-2, alpha=0.0625, last=0.5),
        # A control: what a small input of the branches does for LayerNorm.
        GainCondition("Pre-LN, small gains", False, True, 1.0, 4e-2, gain=0.1),
        GainCondition("Pre-LN, small gains", False, False, 1 / 4, 4e-2, gain=0.03),
    )
)
REDUCED = {
    "conditions": (
        Condition("no norm, Fixup", False, True, 1.0, 1e-3),
        Condition("Pre-LN", True, True, 4.0, 1e-3),
        Condition("Pre-LN", False, True, 1.0, 1e-3),
        TanhCondition("Pre-DyT", True, True, 1.0, 1e-3, alpha=0.25, last=0.5),
        GainCondition("Pre-LN, small gains", False, True, 1.0, 1e-3, gain=0.1),
    ),
    "depth": 2,
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Train every condition with all seeds at once; a list of records for each seed."""
    by_condition = [
        train_network(
            config.size,
            condition.network,
            config.depth,
            [(seed, condition.learning_rate) for seed in seeds],
        )
        for condition in config.conditions
    ]
    return [list(records) for records in zip(*by_condition, strict=True)]


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed."""
    return run_seeds(config, [seed])[0]


def losses(saved: Saved) -> dict[tuple[str, bool, bool], np.ndarray]:
    """(build, last norm, tied) -> test loss of each seed."""
    cells = [(c["build"], c["final"], c["tied"]) for c in saved.config["conditions"]]
    return {
        (build, final, tied): saved.values("test", build=build, final=final, tied=tied)
        for build, final, tied in cells
    }


def at_best(saved: Saved, build: str, tied: bool) -> np.ndarray:
    """Test losses with the last norm or without it, whichever has the smaller validation loss."""
    places = [
        c["final"] for c in saved.config["conditions"] if (c["build"], c["tied"]) == (build, tied)
    ]

    def validation(final: bool) -> float:
        return float(saved.values("validation", build=build, final=final, tied=tied).mean())

    return saved.values("test", build=build, final=min(places, key=validation), tied=tied)


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus that of Fixup without a norm and with the same output, by seed."""
    found = losses(saved)
    return {
        f"{build.removeprefix('Pre-')}, {'last norm' if final else 'no last norm'}, "
        f"{'tied' if tied else 'untied'}": values - found[REFERENCE_BUILD, False, tied]
        for (build, final, tied), values in found.items()
        if build != REFERENCE_BUILD and (REFERENCE_BUILD, False, tied) in found
    }
