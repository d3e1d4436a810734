"""Which learning rate suits a model without any layer: embeddings and an output matrix.

The grid of :mod:`normtutor_studies.experiments.text_stability_rates`, whose text says how it is laid out.
Without a layer no token sees another one: the model predicts the next piece from the present one
and its position, and shows what the layers of the others are worth.

Control: a model without layers could look bad because of its rate or the size of its embeddings, so
both are tuned as for all others. Not checked: a norm before the output, and a second seed.
"""

import dataclasses

from normtutor_studies.experiments import text_stability_rates
from normtutor_studies.experiments.text_stability_rates import best_rates, fingerprint, run

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: it chooses the learning rates of text_stability"
FINDING = "a model without layers is best with embeddings a quarter of the usual size"
SEEDS = text_stability_rates.SEEDS
CONFIG = dataclasses.replace(text_stability_rates.CONFIG, builds=("no norm",), depths=(0,))
REDUCED = text_stability_rates.REDUCED | {"builds": ("no norm",), "depths": (0,)}
