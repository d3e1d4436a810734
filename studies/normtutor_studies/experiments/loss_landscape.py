"""The loss along its own gradient while a network trains: range, change of the gradient, curvature.

At every few steps of a run on digits we walk from the parameters along the gradient of the step's
batch, over several learning rates, as Santurkar and others do. On the way we record the loss and
the change of the gradient. Where we stand we record the largest eigenvalue of the Hessian, for the
step's batch and for one fixed batch, and on the fixed batch its trace. All losses are those of
training mode, and all networks start with He's weights.

Control: where a norm follows a matrix, the length of that matrix does not change the function but
does change every derivative. So the change of the gradient and the curvature are recorded for
relative changes of the matrices as well, which do not depend on their lengths, and so are the
lengths. To see the effect of depth, the two networks at rate 0.1 are also trained with two hidden
layers in place of five. Not checked: more than 200 steps.
"""

import math
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor import probes
from normtutor.data import image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import start
from normtutor_studies.experiments.descent import descend, finite, he
from normtutor_studies.experiments.records import Saved

CHAPTER = "01_internal_covariate_shift"
FIGURE = "fig-landscape"
XLABEL = "log10 of the largest Hessian eigenvalue (fixed batch), no norm minus BatchNorm"
FINDING = "at equal rates BatchNorm's loss is smoother"
SEEDS = tuple(range(2, 8))
RATES = {"none": (0.1, 0.3), "batch": (0.1, 0.3, 1.0)}
DEEP, SHALLOW = 5, 2  # hidden layers


@dataclass(frozen=True)
class Condition:
    """One run."""

    hidden: int
    norm: str
    rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = (
        *(Condition(DEEP, norm, rate) for norm, rates in RATES.items() for rate in rates),
        *(Condition(SHALLOW, norm, 0.1) for norm in ("none", "batch")),
    )
    width: int = 64
    batch_size: int = 128
    fixed_batch: int = 300
    steps: int = 200
    every: int = 10
    # Where to look, as multiples of the run's own learning rate.
    multiples: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
    curvature_every: int = 20
    trace_samples: int = 5
    iterations: int = 40
    tolerance: float = 0.01


CONFIG = Config()


def loss_on(batch: tuple[Tensor, Tensor]) -> probes.LossOfModel:
    """The cross entropy on a batch, as a function of the model."""
    images, labels = batch

    def loss(model: nn.Module) -> Tensor:
        return F.cross_entropy(model(images), labels)

    return loss


def build(config: Any, norm: str, hidden: int) -> MLP:
    """A ReLU network with so many hidden layers."""
    widths = (64, *(config.width,) * hidden, 10)
    # torch's own layer, three times as fast; a test of the package holds ours equal to it.
    return he(MLP(widths, norm=nn.BatchNorm1d if norm == "batch" else norm))


def matrix_lengths(model: nn.Module) -> dict[str, float]:
    """The length ‖W‖ of each weight matrix."""
    return {
        name: parameter.norm().item()
        for name, parameter in model.named_parameters()
        if name.startswith("linears.") and name.endswith("weight")
    }


def run_condition(config: Config, condition: Condition, seed: int) -> dict[str, Any]:
    """Train one network; return what it saw around it on the way."""
    digits = load_digits()
    order = start(seed)
    model = build(config, condition.norm, condition.hidden)
    fixed = digits.train.images[: config.fixed_batch], digits.train.labels[: config.fixed_batch]
    batches = image_batches(digits.train, config.batch_size, order)
    stream = list(islice(batches, config.steps))
    found: dict[str, list[float]] = {
        key: []
        for key in (
            "low",
            "high",
            "change",
            "smoothness",
            "relative_smoothness",
            "gradient",
            "batch_curvature",
            "batch_residual",
            "fixed_curvature",
            "fixed_residual",
            "relative_curvature",
            "relative_residual",
            "trace",
            "squared_length",
        )
    }

    def watch(step: int) -> None:
        model.train()
        on_batch = loss_on(stream[step])
        if step % config.every == 0:
            lengths = [m * condition.rate for m in config.multiples]
            along = probes.look_along(model, on_batch, [0.0, *lengths])
            found["low"].append(along.loss.min())
            found["high"].append(along.loss.max())
            found["change"].append(along.gradient_change.max())
            found["smoothness"].append(np.nanmax(along.smoothness))
            relative = probes.look_along(model, on_batch, lengths, scales=matrix_lengths(model))
            found["relative_smoothness"].append(np.nanmax(relative.smoothness))
            grads = probes.gradients(model, on_batch)
            found["gradient"].append(sum(float(g.square().sum()) for g in grads.values()) ** 0.5)
        if step % config.curvature_every == 0:
            for name, loss in (("batch", on_batch), ("fixed", loss_on(fixed))):
                curvature = probes.largest_curvature(
                    model, loss, iterations=config.iterations, tolerance=config.tolerance
                )
                found[f"{name}_curvature"].append(curvature.value)
                found[f"{name}_residual"].append(curvature.residual)
            lengths_of = matrix_lengths(model)
            sharpest = probes.largest_curvature(
                model,
                loss_on(fixed),
                iterations=config.iterations,
                tolerance=config.tolerance,
                scales=lengths_of,
            )
            found["relative_curvature"].append(sharpest.value)
            found["relative_residual"].append(sharpest.residual)
            found["squared_length"].append(sum(length**2 for length in lengths_of.values()))
            found["trace"].append(
                probes.hessian_trace(model, loss_on(fixed), samples=config.trace_samples)
            )

    losses = descend(model, stream, steps=config.steps, rate=condition.rate, watch=watch)
    return {
        "hidden": condition.hidden,
        "norm": condition.norm,
        "rate": condition.rate,
        "diverged": not math.isfinite(losses[-1]),
        "loss": finite(float(np.mean(losses[-10:]))),
        "curve": [finite(float(v)) for v in losses[:: config.every]],
        **{key: [finite(float(v)) for v in values] for key, values in found.items()},
    }


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every network with this seed."""
    return [run_condition(config, condition, seed) for condition in config.conditions]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Median over the run of the curvature at rate 0.1, as a difference of logarithms."""

    def logarithm(norm: str) -> np.ndarray:
        curvature = saved.values("fixed_curvature", hidden=DEEP, norm=norm, rate=0.1)
        return np.log10(np.median(curvature, axis=1))

    return {"batch": logarithm("none") - logarithm("batch")}
