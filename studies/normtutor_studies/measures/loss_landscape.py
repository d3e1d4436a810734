"""The loss along its own gradient while a network trains: range, change of the gradient, curvature.

At every few steps of a run on digits we walk from the parameters along the gradient of the step's
batch, over several learning rates, as Santurkar and others do, and record the loss and the change
of the gradient. Where we stand we record the largest eigenvalue of the Hessian, for the step's
batch and for one fixed batch, and on the fixed batch its trace. All losses are those of training
mode, and all networks start with He's weights.
"""

from functools import partial
from itertools import islice

import numpy as np
from torch import nn

from normtutor import probes
from normtutor.data import Split, image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import classification_loss, start
from normtutor_studies.measures.descent import descend, he
from normtutor_studies.store import Cell, Run, World


def matrix_lengths(model: nn.Module) -> dict[str, float]:
    """The length ‖W‖ of each weight matrix."""
    return {
        name: parameter.norm().item()
        for name, parameter in model.named_parameters()
        if name.startswith("linears.") and name.endswith("weight")
    }


def measure(cell: Cell, rate: float, seed: int) -> Run:
    """Train one ReLU network: what it saw around it on the way."""
    digits, order = load_digits(), start(seed)
    model = he(MLP((64, *(cell["width"],) * cell["hidden"], 10), norm=cell["norm"]))
    still = (part[: cell["fixed_batch"]] for part in digits.train)
    fixed = partial(classification_loss, batch=Split(*still))
    stream = list(islice(image_batches(digits.train, cell["batch_size"], order), cell["steps"]))
    seen: dict[str, list[float]] = {}

    def put(**values: float) -> None:
        for key, value in values.items():
            seen.setdefault(key, []).append(float(value))

    def curvature(loss: probes.LossOfModel, scales: dict[str, float] | None = None) -> float:
        options = {"iterations": cell["iterations"], "tolerance": cell["tolerance"]}
        return probes.largest_curvature(model, loss, scales=scales, **options).value

    def watch(step: int) -> None:
        model.train()
        on_batch = partial(classification_loss, batch=stream[step])
        lengths = matrix_lengths(model)
        if step % cell["every"] == 0:
            stops = [m * rate for m in cell["multiples"]]
            along = probes.look_along(model, on_batch, [0.0, *stops])
            relative = probes.look_along(model, on_batch, stops, scales=lengths)
            put(
                low=along.loss.min(),
                high=along.loss.max(),
                change=along.gradient_change.max(),
                smoothness=np.nanmax(along.smoothness),
                relative_smoothness=np.nanmax(relative.smoothness),
            )
        if step % cell["curvature_every"] == 0:
            put(
                batch_curvature=curvature(on_batch),
                fixed_curvature=curvature(fixed),
                relative_curvature=curvature(fixed, lengths),
                trace=probes.hessian_trace(model, fixed, samples=cell["trace_samples"]),
            )

    descend(model, stream, steps=cell["steps"], rate=rate, watch=watch)
    return dict(seen)


WORLD = World(
    "loss_landscape",
    measure,
    {
        "norm": "none",
        "hidden": 5,
        "width": 64,
        "batch_size": 128,
        "fixed_batch": 300,
        "steps": 200,
        "every": 10,
        "multiples": [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0],  # of the run's own learning rate
        "curvature_every": 20,
        "trace_samples": 5,
        "iterations": 40,
        "tolerance": 0.01,
    },
    title="Digits",
    small={"steps": 3, "every": 2, "width": 16, "fixed_batch": 60, "iterations": 3},
)
