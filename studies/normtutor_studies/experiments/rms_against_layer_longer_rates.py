"""Learning rates for rms_against_layer_longer, chosen at its 1,500 steps on another seed.

The models of :mod:`normtutor_studies.experiments.rms_rates`, trained five times as long.

Control: rates are chosen on another seed, and on the validation part rather than the test part.
All three models share one grid, and the best rate of each lies in its middle. Not checked:
rates in between, which are a factor of 2 apart, and a second seed.
"""

import dataclasses

from normtutor_studies.experiments import rms_rates
from normtutor_studies.experiments.rms_against_layer import Condition
from normtutor_studies.experiments.rms_rates import best_rates, fingerprint, run, run_seeds

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run", "run_seeds"]

CHAPTER = rms_rates.CHAPTER
FIGURE = "none: it chooses the learning rates of rms_against_layer_longer"
FINDING = "at 1,500 steps the best rate of each of the three is half of that of 300"
SEEDS = (0,)
RATES = (4e-3, 8e-3, 16e-3)
CONFIG = dataclasses.replace(
    rms_rates.CONFIG,
    conditions=tuple(Condition(norm, rate) for norm in ("layer", "rms", "none") for rate in RATES),
    size=dataclasses.replace(rms_rates.CONFIG.size, steps=1500),
)
REDUCED = rms_rates.REDUCED
