"""Which learning rates train two, six and twelve layers with PowerNorm.

The grid of :mod:`normtutor_studies.experiments.text_stability_rates`, whose text says how it is laid out.
PowerNorm has a module of its own because it takes longest: one model is trained at a time.

Control: PowerNorm could do badly because its running statistic starts at 1 and its tokens do not,
so in the first third of the steps it divides by the batch's own, as in
:mod:`normtutor_studies.experiments.batch_composition`; without that it trains far worse. It could do badly
in evaluation only, so its loss is also taken with the statistics of each batch, which makes no
difference. It is trained by another function than the others, one model at a time, which a test
holds to give the same. Not checked: another warm-up of the statistic, and a second seed.
"""

import dataclasses

from normtutor_studies.experiments import text_stability_rates
from normtutor_studies.experiments.text_stability_rates import best_rates, fingerprint, run

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: it chooses the learning rates of text_stability"
FINDING = (
    "with embeddings that suit it PowerNorm comes near its best at three rates of seven, at each "
    "of three depths"
)
SEEDS = text_stability_rates.SEEDS
CONFIG = dataclasses.replace(
    text_stability_rates.CONFIG, builds=("Pre-PowerNorm",), depths=(2, 6, 12)
)
REDUCED = text_stability_rates.REDUCED | {"builds": ("Pre-PowerNorm",)}
