"""The three wirings of :mod:`normtutor_studies.experiments.variance_growth` at larger rates.

There the losses of Pre-LN, Peri-LN and LN scaling are compared at 0.004, a rate that was tuned for
none. At four and sixteen times that rate, do they stand in the same order?

Control: models, text, seeds, steps and warm-up are those of
:mod:`normtutor_studies.experiments.variance_growth`, where the runs at 0.004 are, and Pre-LN's at 0.016,
from another processor. Of the three rates 0.016 is best for Pre-LN and LN scaling, and the largest,
0.064, for Peri-LN, whose lead may grow beyond it. Embeddings have the usual size and nothing is
clipped: with larger embeddings, clipped, Pre-LN of this depth ends below all of these
(:mod:`normtutor_studies.experiments.text_stability`) and level with Peri-LN
(:mod:`normtutor_studies.experiments.variance_growth_embeddings`), so this does not say which wiring is
best. Nor does it say that a smaller stream is the reason. Not checked: rates in between, which are
four times apart, other depths, and more than 300 steps.
"""

import dataclasses

import numpy as np

from normtutor_studies.experiments import variance_growth
from normtutor_studies.experiments.records import Saved, load
from normtutor_studies.experiments.variance_growth import Condition, fingerprint, run, run_seeds

__all__ = [
    "CONFIG",
    "SEEDS",
    "against_pre_ln",
    "at_its_best",
    "fingerprint",
    "rows",
    "run",
    "run_seeds",
    "values",
]

CHAPTER = variance_growth.CHAPTER
FIGURE = "none: a control of variance_growth, which chapter 8 cites"
FINDING = (
    "Peri-LN, behind Pre-LN at 0.004, is ahead at larger rates; each at its best of three, for "
    "Peri-LN the largest, 0.064, it leads by 0.47, LN scaling by 0.19"
)
XLABEL = "test loss minus Pre-LN's (nats/token)"
SEEDS = variance_growth.SEEDS
WIRINGS = {"pre": "Pre-LN", "peri": "Peri-LN", "ln-scaling": "LN scaling"}
RATES = (16e-3, 64e-3)
CONFIG = dataclasses.replace(
    variance_growth.CONFIG,
    conditions=tuple(
        Condition(wiring, 12, rate)
        for wiring in WIRINGS
        for rate in RATES
        if (wiring, rate) != ("pre", 16e-3)
    ),
    kept=(300,),
)
REDUCED = variance_growth.REDUCED | {
    "conditions": tuple(Condition(wiring, 3, 16e-3) for wiring in WIRINGS)
}


def values(saved: Saved, key: str, wiring: str, rate: float) -> np.ndarray:
    """One value per seed, from here or from variance_growth."""
    where = {"wiring": wiring, "depth": 12, "learning_rate": rate}
    here = where in saved.config["conditions"]
    return np.array((saved if here else load("variance_growth")).values(key, **where))


def against_pre_ln(saved: Saved, wiring: str, rate: float) -> np.ndarray:
    """The test loss minus Pre-LN's at the same rate, one per seed."""
    return values(saved, "test", wiring, rate) - values(saved, "test", "pre", rate)


def best_rate(saved: Saved, wiring: str) -> float:
    """The rate with the smallest mean validation loss, of those here and 0.004."""
    means = {rate: values(saved, "validation", wiring, rate).mean() for rate in (4e-3, *RATES)}
    return min(means, key=means.__getitem__)


def at_its_best(saved: Saved, wiring: str) -> dict[str, np.ndarray]:
    """Test losses and streams of a wiring at its best rate, by seed."""
    rate = best_rate(saved, wiring)
    return {key: values(saved, key, wiring, rate) for key in ("test", "stream")}


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus Pre-LN's, paired by seed."""
    found = {}
    for wiring, name in list(WIRINGS.items())[1:]:
        for rate in RATES:
            found[f"{name}, rate {rate:g}"] = against_pre_ln(saved, wiring, rate)
        found[f"{name}, best rates"] = (
            at_its_best(saved, wiring)["test"] - at_its_best(saved, "pre")["test"]
        )
    return found
