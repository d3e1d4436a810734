"""Which learning rates train twenty-four layers without a norm.

The grid of :mod:`normtutor_studies.experiments.text_stability_rates`, whose text says how it is laid out,
for the builds that decide: scaled weights and Fixup.

Control: that of the grid at two and six layers: initial weights, embeddings, rates and clipping.
Not checked: Xavier's weights, more steps, and a second seed of the grid.
"""

import dataclasses

from normtutor_studies.experiments import text_stability_rates
from normtutor_studies.experiments.text_stability_rates import best_rates, fingerprint, run

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: it chooses the learning rates of text_stability"
FINDING = "of two ways to train twenty-four layers without a norm Fixup is better"
SEEDS = text_stability_rates.SEEDS
CONFIG = dataclasses.replace(
    text_stability_rates.CONFIG,
    builds=("no norm, scaled weights", "no norm, Fixup"),
    depths=(24,),
)
REDUCED = text_stability_rates.REDUCED | {"builds": ("no norm, scaled weights",)}
