"""How the input of a sigmoid drifts while a network on digits trains, with and without BatchNorm.

The design is that of figure 1 of Ioffe and Szegedy, with a smaller image: three hidden layers of
100 sigmoids, batches of 60, plain gradient descent. The statistics are taken on one fixed batch, so
that all that changes in them comes from the parameters. Every network is trained with each rate of
one grid; the rate of a figure is chosen on the seeds of ``TUNING`` by the validation loss.

Control: without a norm, Xavier's weights let the signal shrink fourfold in every sigmoid layer, so
the drift is measured against a tiny spread. The network without a norm is therefore also trained
with weights four times as large, which keep the spread. And BatchNorm's output is looked at twice:
in training, and as evaluation would compute it with running statistics.
"""

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from normtutor import probes
from normtutor.data import Digits, image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import image_scores, start
from normtutor_studies.experiments.descent import descend, initialise
from normtutor_studies.experiments.rates import best_rate, split
from normtutor_studies.experiments.records import Saved

CHAPTER = "01_internal_covariate_shift"
FIGURE = "fig-drift"
XLABEL = "way of the mean of a sigmoid's input (standard deviations)"
FINDING = (
    "at the best rates the sigmoids' inputs move far less with BatchNorm; the input of BatchNorm "
    "itself drifts"
)
TUNING = (0, 1)
SEEDS = tuple(range(8))
# The norm, and the factor on Xavier's initial weights.
NETWORKS = (("none", 1.0), ("none", 4.0), ("batch", 1.0))
RATES = (0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True)
class Condition:
    """One network."""

    norm: str
    scale: float
    rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = tuple(
        Condition(norm, scale, rate) for norm, scale in NETWORKS for rate in RATES
    )
    widths: tuple[int, ...] = (64, 100, 100, 100, 10)
    batch_size: int = 60
    fixed_batch: int = 300
    steps: int = 1000
    every: int = 20
    settled: int = 3  # rows until the running statistics have forgotten where they began
    quantiles: tuple[float, ...] = (0.15, 0.5, 0.85)


CONFIG = Config()


def shift_of_a_step(mean: np.ndarray, variance: np.ndarray) -> float:
    """Move of a unit's mean in one step, in its standard deviations; mean over units and steps."""
    std = np.sqrt((variance[1:] + variance[:-1]) / 2)
    alive = std > 1e-6  # a unit that gives every image the same value has no spread to compare with
    return float((np.abs(np.diff(mean, axis=0))[alive] / std[alive]).mean())


def drift(mean: np.ndarray, variance: np.ndarray) -> dict[str, float]:
    """How far the units' distributions have moved; each number is the median over the units.

    ``mean`` and ``variance`` have the shape (rows, units). "path" adds up the moves of the mean
    from row to row, each in units of the standard deviation just then; "path_end" does so in units
    of the standard deviation at the end, which a small beginning cannot inflate; "moved" is the
    way from the first mean to the last in the same units; "spread" is the ratio of the standard
    deviations at the end and at the beginning.
    """
    std = np.sqrt(variance)
    moves = np.abs(np.diff(mean, axis=0))
    return {
        "path": float(np.median((moves / std[:-1]).sum(axis=0))),
        "path_end": float(np.median(moves.sum(axis=0) / std[-1])),
        "moved": float(np.median(np.abs(mean[-1] - mean[0]) / std[-1])),
        "spread": float(np.median(std[-1] / std[0])),
    }


def run_condition(
    config: Config, condition: Condition, digits: Digits, seed: int
) -> dict[str, Any]:
    """Train one network; return what its last hidden layer saw and how well it did."""
    order = start(seed)
    # torch's own layer, three times as fast; a test of the package holds ours equal to it.
    norm = nn.BatchNorm1d if condition.norm == "batch" else condition.norm
    model = MLP(config.widths, norm=norm, activation=torch.sigmoid)
    initialise(model, "sigmoid", condition.scale)
    still = digits.train.images[: config.fixed_batch]
    errors: list[float] = []
    running: list[tuple[np.ndarray, ...]] = []

    def watch(step: int) -> None:
        if step % config.every == 0:
            errors.append(image_scores(model, [digits.validation])["error"])
        if condition.norm == "batch" and (step % config.every == 0 or step == config.steps):
            running.append(_running(model.norms[2]))

    # What enters the norm; what leaves it for the sigmoid; what enters the next layer.
    places = {"before": ("norms.2", "input"), "sigmoid": ("norms.2", "output")}
    places["next"] = ("linears.3", "input")
    with ExitStack() as stack:
        seen = {
            place: stack.enter_context(
                probes.record_statistics(
                    model,
                    [name],
                    of=of,
                    fixed=lambda m: m(still),
                    every=config.every,
                    quantiles=config.quantiles,
                )
            )
            for place, (name, of) in places.items()
        }
        stream = image_batches(digits.train, config.batch_size, order)
        losses = descend(model, stream, steps=config.steps, rate=condition.rate, watch=watch)
        for record in seen.values():
            record.measure()
        watch(config.steps)
    at_sigmoid, before = seen["sigmoid"]["norms.2"], seen["before"]["norms.2"]
    found = {
        place: drift(record[name].mean, record[name].variance)
        for (place, record), (name, _) in zip(seen.items(), places.values(), strict=True)
    }
    if running:  # the same batch through BatchNorm as evaluation computes it
        mean, std, weight, bias = (np.array(values) for values in zip(*running, strict=True))
        late = slice(config.settled, None)
        found["evaluation"] = drift(
            (weight * (before.mean - mean) / std + bias)[late],
            ((weight / std) ** 2 * before.variance)[late],
        )
        found["sigmoid_late"] = drift(at_sigmoid.mean[late], at_sigmoid.variance[late])
    return {
        "norm": condition.norm,
        "scale": condition.scale,
        "rate": condition.rate,
        "diverged": not math.isfinite(losses[-1]),
        "validation_loss": image_scores(model, [digits.validation])["loss"],
        "test_error": image_scores(model, [digits.test])["error"],
        "validation_error": errors,
        # Of the first unit of the layer: not the nicest one, the first one.
        "quantiles": at_sigmoid.quantiles[:, :, 0].T.tolist(),
        "std": np.median(np.sqrt(at_sigmoid.variance), axis=1).tolist(),
        **found,
    }


def _running(norm: Any) -> tuple[np.ndarray, ...]:
    """Running mean, running standard deviation, γ and β of a BatchNorm, as they are now."""
    parts = (
        norm.running_mean,
        torch.sqrt(norm.running_var + norm.eps),
        norm.weight.detach(),
        norm.bias.detach(),
    )
    return tuple(part.double().numpy().copy() for part in parts)


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every network with this seed."""
    digits = load_digits()
    return [run_condition(config, condition, digits, seed) for condition in config.conditions]


def best_rates(saved: Saved) -> dict[tuple[str, float], float]:
    """(norm, scale) -> the rate with the smallest validation loss on the seeds of ``TUNING``."""
    return {
        (norm, scale): best_rate(saved, TUNING, RATES, norm=norm, scale=scale)
        for norm, scale in NETWORKS
    }


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """The way of the mean at the best rate of each network, on the seeds not used to choose it."""
    names = {("none", 1.0): "no norm", ("none", 4.0): "no norm, 4x weights"}
    names["batch", 1.0] = "BatchNorm"
    _, reported = split(saved, TUNING)
    return {
        f"{names[network]}, {place}": np.array(
            [record[key]["path_end"] for record in chosen_records(reported, *network, rate)]
        )
        for network, rate in best_rates(saved).items()
        for place, key in (("before the norm", "before"), ("at the sigmoid", "sigmoid"))
        if network[0] == "batch" or key == "sigmoid"  # without a norm the two places are one
    }


def chosen_records(saved: Saved, norm: str, scale: float, rate: float) -> list[dict[str, Any]]:
    """The records of one network at one rate, one per seed."""
    return [
        record
        for run in saved.runs
        for record in run["records"]
        if (record["norm"], record["scale"], record["rate"]) == (norm, scale, rate)
    ]
