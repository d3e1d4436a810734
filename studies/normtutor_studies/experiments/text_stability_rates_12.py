"""Which learning rates train twelve layers with a norm.

The grid of :mod:`normtutor_studies.experiments.text_stability_rates`, whose text says how it is laid out,
at twelve layers, for LayerNorm, RMSNorm and BatchNorm.

The records are part of a run of all builds; the times are those of this part run again alone, on
another processor.

Control: that of the grid at two and six layers: embeddings, rates and clipping. Post-LN does not
leave the loss of guessing by frequency in 300 steps of 256 tokens, at any rate; this
is no verdict on it.
Run again on another processor, not on record, by rounding alone, the best embeddings were 64 times
the usual size for LayerNorm and RMSNorm and a quarter for Post-LN, with losses within 0.02: sizes
whose losses are that close are not told apart. Not checked: a second seed of the grid.
"""

import dataclasses

from normtutor_studies.experiments import text_stability_rates
from normtutor_studies.experiments.text_stability_rates import best_rates, fingerprint, run

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: it chooses the learning rates of text_stability"
FINDING = (
    "twelve layers with a norm in Pre-LN's places come near their best at three rates of seven"
)
SEEDS = text_stability_rates.SEEDS
CONFIG = dataclasses.replace(
    text_stability_rates.CONFIG,
    builds=("Pre-LN", "Pre-RMSNorm", "Post-LN", "Pre-BatchNorm"),
    depths=(12,),
)
REDUCED = text_stability_rates.REDUCED | {"builds": ("Pre-LN",)}
