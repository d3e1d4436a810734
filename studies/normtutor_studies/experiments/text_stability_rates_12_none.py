"""Which learning rates train twelve layers without a norm.

The grid of :mod:`normtutor_studies.experiments.text_stability_rates`, whose text says how it is laid out,
at twelve layers, for three ways to train a network without a norm.

The records are part of a run of all builds; the times are those of this part run again alone, on
another processor.

Control: that of the grid at two and six layers: initial weights, embeddings, rates and clipping.
Run again on another processor, not on record, it chose the same rates and sizes. Not checked: a
second seed of the grid.
"""

import dataclasses

from normtutor_studies.experiments import text_stability_rates
from normtutor_studies.experiments.text_stability_rates import best_rates, fingerprint, run

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: it chooses the learning rates of text_stability"
FINDING = "in 300 steps, of three ways to train twelve layers without a norm, only Fixup does well"
SEEDS = text_stability_rates.SEEDS
CONFIG = dataclasses.replace(
    text_stability_rates.CONFIG,
    builds=("no norm", "no norm, scaled weights", "no norm, Fixup"),
    depths=(12,),
)
REDUCED = text_stability_rates.REDUCED | {"builds": ("no norm, Fixup",)}
