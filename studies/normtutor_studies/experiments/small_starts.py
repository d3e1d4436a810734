"""Three layers that start with quiet branches: Fixup without a norm, LayerNorm with small gains.

Two baselines for :mod:`normtutor_studies.experiments.final_norm`, in the same models on the same seeds and
sequences. There the network without a norm starts from ordinary weights; here it has Fixup. There
dynamic tanh hands its branches a smaller input than LayerNorm does; here LayerNorm, without the
last norm, starts with gains of 0.1. Nothing is clipped. As there, every seed trains all learning
rates, and that of a condition is chosen by the mean validation loss over the seeds.

Control: a lead of Fixup could come from its rate, so it has three, those of final_norm but one; the
best lies between the other two. Its branches have a learned factor more than those of a norm, and
its gains could be had from the embeddings, which are as in final_norm at scale 1: with embeddings
64 times as large and an output matrix of its own LayerNorm is ahead of it. A sixth seed, 40, run
afterwards and not on record, lies where the five expect it in all three rows. Not checked: such
embeddings for Fixup, gains other than 0.1, small gains with the last norm, and more than 300
steps.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from normtutor_studies.experiments import final_norm
from normtutor_studies.experiments.deep_last_norm_rates import start_gain
from normtutor_studies.experiments.package_chunks import Size, fingerprint, measured, train_models
from normtutor_studies.experiments.records import Saved, load

__all__ = ["CONFIG", "SEEDS", "Condition", "Config", "chosen", "fingerprint", "rows", "run"]

CHAPTER = "05_rms_norm"
FIGURE = "fig-final-norm"
FINDING = (
    "in 300 steps with three layers Fixup without a norm beats LayerNorm, tied or not, at the "
    "usual embeddings"
)
XLABEL = "test loss minus LayerNorm's without the last norm, same output (nats/token)"
SEEDS = final_norm.SEEDS
GAIN = 0.1


@dataclass(frozen=True)
class Condition:
    """What is built, and its output matrix."""

    build: str
    tied: bool


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = (
        Condition("Fixup", True),
        Condition("Fixup", False),
        Condition("small gains", True),
    )
    rates: tuple[float, ...] = (16e-3, 32e-3, 64e-3)
    depth: int = 3
    size: Size = final_norm.SIZE


CONFIG = Config()
REDUCED = {
    "conditions": (Condition("Fixup", True), Condition("small gains", True)),
    "rates": (1e-3, 4e-3),
    "depth": 1,
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64),
}


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed, its learning rates side by side."""
    records: list[dict[str, Any]] = []
    for condition in config.conditions:
        fixup = condition.build == "Fixup"
        trained = train_models(
            config.size,
            [(seed, rate) for rate in config.rates],
            adjust=None if fixup else partial(start_gain, GAIN),
            depth=config.depth,
            norm="none" if fixup else "layer",
            wiring="fixup" if fixup else "pre",
            final_norm=False,
            tied=condition.tied,
        )
        records += [
            {**vars(condition), "learning_rate": rate, **measured(config.size, model, history)}
            for rate, (model, history) in zip(config.rates, trained, strict=True)
        ]
    return records


def chosen(saved: Saved, build: str, tied: bool) -> dict[str, Any]:
    """The learning rate with the smallest mean validation loss, and the test losses at it."""

    def validation(rate: float) -> float:
        losses = saved.values("validation", build=build, tied=tied, learning_rate=rate)
        return float(losses.mean())

    rate = min(saved.config["rates"], key=validation)
    losses = saved.values("test", build=build, tied=tied, learning_rate=rate)
    return {"learning_rate": rate, "test": losses}


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus that of LayerNorm without the last norm and with the same output."""
    there = load("final_norm")
    found: dict[str, np.ndarray] = {}
    for condition in saved.config["conditions"]:
        build, tied = condition["build"], condition["tied"]
        layer = final_norm.chosen(there, norm="layer", tied=tied, final=False, scale=1.0)["test"]
        loss = chosen(saved, build, tied)["test"]
        found[f"{build}, {'tied' if tied else 'untied'}"] = loss - layer[: len(loss)]
    return found
