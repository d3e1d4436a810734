"""The loss along its own gradient while a network trains: range, change of the gradient, curvature.

At every few steps of a run on digits we walk from the parameters along the gradient of the step's
batch, over several learning rates, as Santurkar and others do. On the way we record the loss and
the change of the gradient. Where we stand we record the largest eigenvalue of the Hessian, for the
step's batch and for one fixed batch, and on the fixed batch its trace. All losses are those of
training mode, and all networks start with He's weights.

Control: where a norm follows a matrix, the length of that matrix does not change the function but
does change every derivative. So the change of the gradient and the curvature are recorded for
relative changes of the matrices as well, which do not depend on their lengths. Not checked: more
than 200 steps, other depths, and other rates.
"""

from itertools import islice

import numpy as np
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor import probes
from normtutor.data import image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import start
from normtutor_studies.experiments.descent import descend, he
from normtutor_studies.experiments.records import Config, Record, Saved

CHAPTER = "01_internal_covariate_shift"
SEEDS = tuple(range(2, 8))
CONFIG = Config(
    conditions=[{"norm": "none"}, {"norm": "batch"}],
    rate=0.1,
    hidden=5,
    width=64,
    batch_size=128,
    fixed_batch=300,
    steps=200,
    every=10,
    # Where to look, as multiples of the run's own learning rate.
    multiples=(0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0),
    curvature_every=20,
    trace_samples=5,
    iterations=40,
    tolerance=0.01,
)


def loss_on(batch: tuple[Tensor, Tensor]) -> probes.LossOfModel:
    """The cross entropy on a batch, as a function of the model."""
    images, labels = batch

    def loss(model: nn.Module) -> Tensor:
        return F.cross_entropy(model(images), labels)

    return loss


def matrix_lengths(model: nn.Module) -> dict[str, float]:
    """The length ‖W‖ of each weight matrix."""
    return {
        name: parameter.norm().item()
        for name, parameter in model.named_parameters()
        if name.startswith("linears.") and name.endswith("weight")
    }


def measure(config: Config, seed: int, norm: str) -> Record:
    """Train one ReLU network; return what it saw around it on the way."""
    digits, order = load_digits(), start(seed)
    # torch's own layer, three times as fast; a test of the package holds ours equal to it.
    make = nn.BatchNorm1d if norm == "batch" else norm
    model = he(MLP((64, *(config.width,) * config.hidden, 10), norm=make))
    fixed = loss_on(
        (digits.train.images[: config.fixed_batch], digits.train.labels[: config.fixed_batch])
    )
    stream = list(islice(image_batches(digits.train, config.batch_size, order), config.steps))
    found: dict[str, list[float]] = {}

    def put(**values: float) -> None:
        for key, value in values.items():
            found.setdefault(key, []).append(float(value))

    def curvature(loss: probes.LossOfModel, scales: dict[str, float] | None = None) -> float:
        options = {"iterations": config.iterations, "tolerance": config.tolerance}
        return probes.largest_curvature(model, loss, scales=scales, **options).value

    def watch(step: int) -> None:
        model.train()
        on_batch, lengths = loss_on(stream[step]), matrix_lengths(model)
        if step % config.every == 0:
            stops = [m * config.rate for m in config.multiples]
            along = probes.look_along(model, on_batch, [0.0, *stops])
            relative = probes.look_along(model, on_batch, stops, scales=lengths)
            put(
                low=along.loss.min(),
                high=along.loss.max(),
                change=along.gradient_change.max(),
                smoothness=np.nanmax(along.smoothness),
                relative_smoothness=np.nanmax(relative.smoothness),
            )
        if step % config.curvature_every == 0:
            put(
                batch_curvature=curvature(on_batch),
                fixed_curvature=curvature(fixed),
                relative_curvature=curvature(fixed, lengths),
                trace=probes.hessian_trace(model, fixed, samples=config.trace_samples),
            )

    descend(model, stream, steps=config.steps, rate=config.rate, watch=watch)
    return dict(found)


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Log10 of the median largest eigenvalue over the run, no norm minus BatchNorm."""
    none, batch = (
        np.log10(np.median(saved.values("fixed_curvature", norm=norm), axis=1))
        for norm in ("none", "batch")
    )
    return {"batch": none - batch}
