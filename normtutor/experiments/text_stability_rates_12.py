"""Which learning rates train twelve layers, with and without a norm.

The grid of :mod:`normtutor.experiments.text_stability_rates`, whose text says how it is laid out,
at twelve layers. It is a module of its own so that no rerun takes much more than twenty minutes.

Control: that of the grid at two and six layers: initial weights, embeddings, rates and clipping.
Post-LN does not leave the loss of guessing by frequency in 300 steps of 256 tokens, at any rate;
with four times the tokens a step and a longer warm-up it does
(:mod:`normtutor.experiments.depth_on_text_rates`), so this is no verdict on it. Not checked: a
second seed of the grid.
"""

import dataclasses

from normtutor.experiments import text_stability_rates
from normtutor.experiments.text_stability_rates import best_rates, fingerprint, run

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: it chooses the learning rates of text_stability"
FINDING = "twelve layers without a norm train well only from Fixup's weights"
SEEDS = text_stability_rates.SEEDS
CONFIG = dataclasses.replace(text_stability_rates.CONFIG, depths=(12,))
REDUCED = text_stability_rates.REDUCED | {"builds": ("no norm, Fixup", "Pre-LN")}
