"""Which rate and which size of the embeddings suit Fixup's weights without their learned factor.

"Fixup" is in this book a build of two parts: initial weights, and a learned factor on each branch
that starts at 1. Here the weights stand alone and the factor stays 1, in twelve layers, trained as
in :mod:`normtutor_studies.experiments.text_stability_rates` on the same seed; Fixup itself is on record in
:mod:`normtutor_studies.experiments.text_stability_rates_12_none` and not trained again.

Control: the weights could look bad because of a rate or a size that suits them with the factor, so
they have three sizes and four rates each, one of them between two that Fixup has; the best of each
lies between worse ones. Not checked: a second seed, and rates in between.
"""

from normtutor_studies.experiments import text_stability
from normtutor_studies.experiments.package_chunks import Size
from normtutor_studies.experiments.text_stability import Condition, Config, run
from normtutor_studies.experiments.text_stability_rates import (
    WITHOUT_FACTOR,
    best_rates,
    fingerprint,
)

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: it chooses the learning rates of fixup_factor"
FINDING = (
    "without the learned factor Fixup's weights are best at a smaller rate than with it, and worse"
)
SEEDS = (0,)
CONFIG = Config(
    conditions=tuple(
        Condition(WITHOUT_FACTOR, 12, scale, rate)
        for scale in (1 / 16, 1 / 4, 1.0)
        for rate in (6.3e-3, 1.6e-2, 2.5e-2, 4e-2)
    ),
    size=text_stability.CONFIG.size,
)
REDUCED = {
    "conditions": (Condition(WITHOUT_FACTOR, 2, 1.0, 1e-3),),
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}
