"""The curvature of the networks of loss_landscape, followed for five times as many steps.

Control: networks, images, order, rates and measurements are those of 200 steps; there are fewer
looks, one every 100 steps, and the trace is a single sample. A curvature that falls because the
loss does says little about a norm, so the two networks are compared at equal rates. At equal steps
their losses differ, and the one with the smaller loss, without a norm, has the larger curvature.
Not checked: other rates, depths and BatchNorm with noise.
"""

import dataclasses

import numpy as np

from normtutor_studies.experiments import loss_landscape
from normtutor_studies.experiments.loss_landscape import DEEP, Condition, fingerprint, run
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "curvature", "ended_lower", "fingerprint", "rows", "run"]

CHAPTER = loss_landscape.CHAPTER
FIGURE = "none: a control of loss_landscape, which chapter 1 cites"
FINDING = (
    "from step 400 to 1,000 the largest eigenvalue is below 1/rate, at equal rates still several "
    "times larger without a norm; at both rates that network ends lower"
)
XLABEL = "log10 of the largest Hessian eigenvalue from step 400 on, no norm minus BatchNorm"
SEEDS = (2, 3, 4, 5, 6)
RATES = (0.1, 0.3)
LATE = 400
CONFIG = dataclasses.replace(
    loss_landscape.CONFIG,
    conditions=tuple(Condition(DEEP, norm, rate) for rate in RATES for norm in ("none", "batch")),
    steps=1000,
    every=100,
    curvature_every=100,
    trace_samples=1,
)


def curvature(saved: Saved, norm: str, rate: float) -> np.ndarray:
    """Largest eigenvalue on the fixed batch from step ``LATE`` on, (seeds, looks)."""
    every = saved.config["curvature_every"]
    values = saved.values("fixed_curvature", hidden=DEEP, norm=norm, rate=rate)
    return values[:, LATE // every :]


def ended_lower(saved: Saved, rate: float) -> np.ndarray:
    """Log2 of the loss at the end without a norm over that with BatchNorm."""
    none, batch = (
        saved.values("loss", hidden=DEEP, norm=norm, rate=rate) for norm in ("none", "batch")
    )
    return np.log2(none / batch)


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Median over the looks, as a difference of logarithms at equal rates."""
    median = {
        (norm, rate): np.log10(np.median(curvature(saved, norm, rate), axis=1))
        for norm in ("none", "batch")
        for rate in RATES
    }
    return {f"rate {rate:g}": median["none", rate] - median["batch", rate] for rate in RATES}
