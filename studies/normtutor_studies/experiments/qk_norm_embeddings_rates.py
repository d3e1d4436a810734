"""Learning rates and sizes of the embeddings for qk_norm_embeddings, chosen on another seed.

The models of :mod:`normtutor_studies.experiments.qk_norm` with embeddings 16, 64 and 256 times as large as
usual, each with and without QK-norm at five rates.

Control: a size could look bad because of the rate, so each has five, and the best of each lies
between worse ones. With QK-norm 64 is the best size; without it 256, the largest tried, is level
with 64. Not checked: a second seed, larger embeddings, and rates and sizes in between.
"""

from functools import partial

from normtutor_studies.experiments import qk_norm_embeddings, rates
from normtutor_studies.experiments.qk_norm_embeddings import Condition, Config, fingerprint, run

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = qk_norm_embeddings.CHAPTER
FIGURE = "none: it chooses rates and embeddings for qk_norm_embeddings"
FINDING = (
    "on one seed 0.064 is the best rate, with QK-norm twice that at 256 times the embeddings; 64 "
    "times is the best size with it, level with 256 without"
)
SEEDS = (0,)
SIZES = (16.0, 64.0, 256.0)
RATES = (16e-3, 32e-3, 64e-3, 128e-3, 256e-3)
CONFIG = Config(
    tuple(
        Condition(norm, rate, scale)
        for norm in ("none", "rms")
        for scale in SIZES
        for rate in RATES
    ),
    evaluate_every=300,
)
REDUCED = qk_norm_embeddings.REDUCED

best_rates = partial(rates.best_rates, key="validation")
