"""The sigmoid networks of learning_rate_sweep, trained for five times as many steps.

In 200 steps a sigmoid network without a norm hardly trains from Xavier's weights. And in 1,000?

Control: a failure could come from the rate, so each network without a norm has several; the rate
falls to zero at the end, as in 200 steps. Adam's best from Xavier's weights lies inside its three;
SGD's from the larger weights, 0.3, is the largest tried, and at 0.1 the error is about the same.
Networks, images, order and measurements are those of 200 steps, rates are compared on the seeds
that are reported, and BatchNorm is run at the rate that was best there. Not checked:
other rates of BatchNorm, still larger ones without a norm, ReLU, and Adam from the larger weights.
"""

import dataclasses

import numpy as np

from normtutor_studies.experiments import learning_rate_sweep
from normtutor_studies.experiments.learning_rate_sweep import Condition, fingerprint, run
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "errors", "fingerprint", "rows", "run"]

CHAPTER = learning_rate_sweep.CHAPTER
FIGURE = "none: a control of learning_rate_sweep, which chapter 1 cites"
FINDING = (
    "in 1,000 steps Adam trains the sigmoid network without a norm from Xavier's weights, to "
    "5 % of errors; SGD trains it only from weights four times as large, to 3 %"
)
XLABEL = "percent of test images wrong, at the best rate"
SEEDS = (2, 3, 4, 5, 6)
GRID = {
    ("none", 1.0, "sgd"): (0.3, 1.0),
    ("none", 1.0, "adamw"): (0.003, 0.01, 0.03),
    ("none", 4.0, "sgd"): (0.03, 0.1, 0.3),
    ("batch", 1.0, "sgd"): (0.3,),
}
CONFIG = dataclasses.replace(
    learning_rate_sweep.CONFIG,
    conditions=tuple(
        Condition("sigmoid", *network, rate) for network, rates in GRID.items() for rate in rates
    ),
    steps=1000,
)


def errors(saved: Saved, norm: str, scale: float, optimizer: str) -> np.ndarray:
    """Percent of the test images wrong, (seeds, rates of :data:`GRID`)."""
    found = [
        saved.values("test_error", norm=norm, scale=scale, optimizer=optimizer, rate=rate)
        for rate in GRID[norm, scale, optimizer]
    ]
    return 100 * np.stack(found, axis=1)


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Each network at the rate that is best on average over the seeds."""
    names = {"sgd": "SGD", "adamw": "Adam"}
    found = {}
    for (norm, scale, optimizer), _ in GRID.items():
        wrong = errors(saved, norm, scale, optimizer)
        what = "BatchNorm" if norm == "batch" else f"no norm, weights {scale:g}×"
        found[f"{what}, {names[optimizer]}"] = wrong[:, wrong.mean(axis=0).argmin()]
    return found
