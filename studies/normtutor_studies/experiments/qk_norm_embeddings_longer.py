"""The models of :mod:`normtutor_studies.experiments.qk_norm_embeddings`, trained for 1,000 steps.

In 300 steps with large embeddings QK-norm ends 0.016 nats lower, rates and embeddings at their
best. Does it in 1,000, where with embeddings of the usual size no difference shows at the best rate
(:mod:`normtutor_studies.experiments.qk_norm_longer`)?

Control: models, text, seeds, warm-up and the way the rate falls are those of 300 steps. The lead
could come from a rate that suits one of the two, so each has three. Without the norm the best,
half of what it is in 300 steps, has a worse one on both sides; with it the best is the largest
tried, 0.064, by 0.002, so more may be left for QK-norm. It leads at each of the three. Embeddings
are 64 times the usual size for both, chosen in 300 steps. Nothing is clipped or decayed. Not
checked: other sizes, rates above 0.064, and other remedies.
"""

import dataclasses

from normtutor_studies.experiments import qk_norm_embeddings
from normtutor_studies.experiments.qk_norm_embeddings import Condition, fingerprint, rows, run

__all__ = ["CONFIG", "SEEDS", "fingerprint", "rows", "run"]

CHAPTER = qk_norm_embeddings.CHAPTER
FIGURE = "none: a control of qk_norm_longer, which chapter 8 cites"
FINDING = (
    "in 1,000 steps with large embeddings QK-norm ends 0.04 nats lower at the best rate and 0.02 "
    "at half of it"
)
XLABEL = qk_norm_embeddings.XLABEL
SEEDS = qk_norm_embeddings.SEEDS
RATES = (16e-3, 32e-3, 64e-3)
CONFIG = dataclasses.replace(
    qk_norm_embeddings.CONFIG,
    conditions=tuple(Condition(norm, rate, 64.0) for norm in ("none", "rms") for rate in RATES),
    size=dataclasses.replace(qk_norm_embeddings.CONFIG.size, steps=1000),
    evaluate_every=100,
)
REDUCED = qk_norm_embeddings.REDUCED
