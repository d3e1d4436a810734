"""How the input of a sigmoid drifts while a network on digits trains.

The design is that of figure 1 of Ioffe and Szegedy, with a smaller image: three hidden layers of
100 sigmoids, batches of 60, plain gradient descent. The statistics are taken on one fixed batch, so
that all that changes in them comes from the parameters.
"""

from typing import Any

import numpy as np
import torch

from normtutor import probes
from normtutor.data import image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import image_scores, start
from normtutor_studies.measures.descent import descend, initialise
from normtutor_studies.store import Cell, Run, World


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


def measure(cell: Cell, rate: float, seed: int) -> Run:
    """Train one network: what its last hidden layer saw, and how well it did."""
    order, digits = start(seed), load_digits()
    model = MLP(cell["widths"], norm=cell["norm"], activation=torch.sigmoid)
    initialise(model, "sigmoid", cell["scale"])
    still = digits.train.images[: cell["fixed_batch"]]

    def watch(of: str) -> Any:
        """What enters the last norm, or what leaves it for the sigmoid."""
        return probes.record_statistics(
            model,
            ["norms.2"],
            of=of,
            fixed=lambda m: m(still),
            every=cell["every"],
            quantiles=cell["quantiles"],
        )

    with watch("input") as before, watch("output") as sigmoid:
        stream = image_batches(digits.train, cell["batch_size"], order)
        descend(model, stream, steps=cell["steps"], rate=rate)
        before.measure()
        sigmoid.measure()
    places = {"before": before["norms.2"], "sigmoid": sigmoid["norms.2"]}
    moved = {
        f"{place}_{key}": value
        for place, seen in places.items()
        for key, value in drift(seen.mean, seen.variance).items()
    }
    return {
        "loss": image_scores(model, [digits.validation])["loss"],
        "test_error": image_scores(model, [digits.test])["error"],
        # Of the first unit of the layer: not the nicest one, the first one.
        "quantiles": places["sigmoid"].quantiles[:, :, 0].T.tolist(),
        **moved,
    }


WORLD = World(
    "input_drift",
    measure,
    {
        "norm": "none",
        "scale": 1.0,
        "widths": [64, 100, 100, 100, 10],
        "batch_size": 60,
        "fixed_batch": 300,
        "steps": 1000,
        "every": 20,
        "quantiles": [0.15, 0.5, 0.85],
    },
    title="Digits",
    small={"steps": 5, "every": 2, "fixed_batch": 60},
)
