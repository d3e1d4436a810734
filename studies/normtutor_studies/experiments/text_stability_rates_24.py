"""Which learning rates train twenty-four layers with a norm.

The grid of :mod:`normtutor_studies.experiments.text_stability_rates`, whose text says how it is laid out,
for the norms that decide: Pre-LN and Pre-RMSNorm.

Control: that of the grid at two and six layers: embeddings, rates and clipping. Not checked: more
steps, BatchNorm, PowerNorm and Post-LN, and a second seed of the grid.
"""

import dataclasses

from normtutor_studies.experiments import text_stability_rates
from normtutor_studies.experiments.text_stability_rates import best_rates, fingerprint, run

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: it chooses the learning rates of text_stability"
FINDING = (
    "twenty-four layers with Pre-LN or Pre-RMSNorm come near their best at three rates of seven"
)
SEEDS = text_stability_rates.SEEDS
CONFIG = dataclasses.replace(
    text_stability_rates.CONFIG, builds=("Pre-LN", "Pre-RMSNorm"), depths=(24,)
)
REDUCED = text_stability_rates.REDUCED | {"builds": ("Pre-RMSNorm",)}
