"""How the input of a sigmoid drifts while a network on digits trains, with and without BatchNorm.

The design is that of figure 1 of Ioffe and Szegedy, with a smaller image: three hidden layers of
100 sigmoids, batches of 60, plain gradient descent. The statistics are taken on one fixed batch, so
that all that changes in them comes from the parameters. Every network is trained with each rate of
one grid; the rate of a figure is chosen on the seeds of ``TUNING`` by the validation loss.

Control: without a norm, Xavier's weights let the signal shrink fourfold in every sigmoid layer, so
the drift is measured against a tiny spread. The network without a norm is therefore also trained
with weights four times as large, which keep the spread.
"""

from typing import Any

import numpy as np
import torch
from torch import nn

from normtutor import probes
from normtutor.data import image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import image_scores, start
from normtutor_studies.experiments.descent import descend, initialise
from normtutor_studies.experiments.rates import best_rate, split
from normtutor_studies.experiments.records import Config, Record, Saved

CHAPTER = "01_internal_covariate_shift"
TUNING = (0, 1)
SEEDS = tuple(range(8))
# The norm, and the factor on Xavier's initial weights.
NETWORKS = {
    "no norm": {"norm": "none", "scale": 1.0},
    "no norm, weights 4×": {"norm": "none", "scale": 4.0},
    "BatchNorm": {"norm": "batch", "scale": 1.0},
}
RATES = (0.1, 0.3, 1.0, 3.0)
CONFIG = Config(
    conditions=[
        {**network, "learning_rate": rate} for network in NETWORKS.values() for rate in RATES
    ],
    widths=(64, 100, 100, 100, 10),
    batch_size=60,
    fixed_batch=300,
    steps=1000,
    every=20,
    quantiles=(0.15, 0.5, 0.85),
)


def shift_of_a_step(mean: np.ndarray, variance: np.ndarray) -> float:
    """Move of a unit's mean in one step, in its standard deviations; mean over units and steps."""
    std = np.sqrt((variance[1:] + variance[:-1]) / 2)
    alive = std > 1e-6  # a unit that gives every image the same value has no spread to compare with
    return float((np.abs(np.diff(mean, axis=0))[alive] / std[alive]).mean())


def drift(mean: np.ndarray, variance: np.ndarray) -> dict[str, float]:
    """How far the units' distributions have moved; each number is the median over the units.

    ``mean`` and ``variance`` have the shape (rows, units). "path" adds up the moves of the mean
    from row to row, each in units of the standard deviation just then; "path_end" does so in units
    of the standard deviation at the end, which a small beginning cannot inflate; "spread" is the
    ratio of the standard deviations at the end and at the beginning.
    """
    std = np.sqrt(variance)
    moves = np.abs(np.diff(mean, axis=0))
    return {
        "path": float(np.median((moves / std[:-1]).sum(axis=0))),
        "path_end": float(np.median(moves.sum(axis=0) / std[-1])),
        "spread": float(np.median(std[-1] / std[0])),
    }


def measure(config: Config, seed: int, norm: str, scale: float, learning_rate: float) -> Record:
    """Train one network; return what its last hidden layer saw and how well it did."""
    order, digits = start(seed), load_digits()
    # torch's own layer, three times as fast; a test of the package holds ours equal to it.
    make = nn.BatchNorm1d if norm == "batch" else norm
    model = MLP(config.widths, norm=make, activation=torch.sigmoid)
    initialise(model, "sigmoid", scale)
    still = digits.train.images[: config.fixed_batch]

    def watch(of: str) -> Any:
        """What enters the last norm, or what leaves it for the sigmoid."""
        return probes.record_statistics(
            model,
            ["norms.2"],
            of=of,
            fixed=lambda m: m(still),
            every=config.every,
            quantiles=config.quantiles,
        )

    with watch("input") as before, watch("output") as sigmoid:
        stream = image_batches(digits.train, config.batch_size, order)
        descend(model, stream, steps=config.steps, rate=learning_rate)
        before.measure()
        sigmoid.measure()
    places = {"before": before["norms.2"], "sigmoid": sigmoid["norms.2"]}
    return {
        "loss": image_scores(model, [digits.validation])["loss"],
        "test_error": image_scores(model, [digits.test])["error"],
        # Of the first unit of the layer: not the nicest one, the first one.
        "quantiles": places["sigmoid"].quantiles[:, :, 0].T.tolist(),
        **{place: drift(seen.mean, seen.variance) for place, seen in places.items()},
    }


def best_rates(saved: Saved) -> dict[str, float]:
    """The rate of each network with the smallest validation loss on the seeds of ``TUNING``."""
    return {name: best_rate(saved, TUNING, RATES, **where) for name, where in NETWORKS.items()}


def at_best(saved: Saved) -> dict[str, list[Record]]:
    """The records of each network at its best rate, on the seeds not used to choose it."""
    _, reported = split(saved, TUNING)
    best = best_rates(saved)
    return {
        name: reported.records(**where, learning_rate=best[name])
        for name, where in NETWORKS.items()
    }


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """The way of the mean of a sigmoid's input, in its standard deviations at the end."""
    return {
        name: np.array([record["sigmoid"]["path_end"] for record in records])
        for name, records in at_best(saved).items()
    }
