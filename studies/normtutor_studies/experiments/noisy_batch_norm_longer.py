"""BatchNorm with noise behind it, as in noisy_batch_norm, five times as many steps.

In 200 steps most of BatchNorm's gain stays when noise shakes its outputs. And in 1,000?

Control: the rates suited 200 steps, so each network's is chosen anew at 1,000, on another seed,
with a worse one on both sides (:mod:`normtutor_studies.experiments.noisy_batch_norm_longer_rates`). The
loss over the run counts the first steps most: at the end all three networks are below 0.005, and
whether noise leaves anything of BatchNorm's gain there is not to be told. Networks, noise, images,
order and measurements are those of 200 steps. Not checked: the noise alone, and equal rates.
"""

import dataclasses
from typing import Any

import numpy as np

from normtutor_studies.experiments import noisy_batch_norm
from normtutor_studies.experiments.noisy_batch_norm import Condition, Config, fingerprint
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "Config", "fingerprint", "kept", "rows", "run"]

CHAPTER = noisy_batch_norm.CHAPTER
FIGURE = "none: a control of noisy_batch_norm, which chapter 1 cites"
FINDING = (
    "over 1,000 steps 78 % of BatchNorm's gain in training loss stay when noise shakes its outputs"
)
XLABEL = noisy_batch_norm.XLABEL
SEEDS = (2, 3, 4, 5, 6)
RATES = {"none": 0.1, "batch": 1.0, "noisy batch": 1.0}  # noisy_batch_norm_longer_rates chose them
CONFIG = dataclasses.replace(
    noisy_batch_norm.CONFIG,
    conditions=tuple(Condition(norm, rate) for norm, rate in RATES.items()),
    steps=1000,
)
REDUCED = {"steps": 10}
LAST = 5  # points of the training curve that are the end, as in the shorter runs


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every network with this seed; of the training curve, keep the end."""
    records = noisy_batch_norm.run(config, seed)
    return [{**record, "curve": record["curve"][-LAST:]} for record in records]


def kept(saved: Saved, key: str = "mean_loss") -> np.ndarray:
    """Share of BatchNorm's gain that is left with noise, in percent."""

    def loss(norm: str) -> np.ndarray:
        values = saved.values(key, norm=norm)
        return values.mean(axis=1) if key == "curve" else values

    return 100 * (loss("none") - loss("noisy batch")) / (loss("none") - loss("batch"))


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Each network's training loss over the run, minus BatchNorm's."""
    loss = {norm: saved.values("mean_loss", norm=norm) for norm in RATES}
    return {norm: loss[norm] - loss["batch"] for norm in RATES if norm != "batch"}
