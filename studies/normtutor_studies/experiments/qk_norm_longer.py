"""The models of :mod:`normtutor_studies.experiments.qk_norm`, trained for 1,000 steps.

In 300 steps with embeddings of the usual size QK-norm makes no visible difference at the best rate,
and costs about 0.01 nats at the smaller ones. Does it in 1,000?

Control: models, text, seeds, warm-up and the way the rate falls are those of 300 steps. The best
rate by the validation loss, half of what it is there, has a worse one on both sides; of the model
without the norm 0.032 is behind by only 0.001. Nothing is clipped or decayed. For large embeddings
see :mod:`normtutor_studies.experiments.qk_norm_embeddings_longer`. Not checked: rates above 0.032, where
logits run away in 300 steps, and the other remedies of
:mod:`normtutor_studies.experiments.logit_remedies`.
"""

import dataclasses

from normtutor_studies.experiments import qk_norm
from normtutor_studies.experiments.qk_norm import Condition, fingerprint, rows, run

__all__ = ["CONFIG", "SEEDS", "fingerprint", "rows", "run"]

CHAPTER = qk_norm.CHAPTER
FIGURE = "none: a control of qk_norm, which chapter 8 cites"
FINDING = (
    "in 1,000 steps, embeddings of the usual size, QK-norm makes no visible difference at the best "
    "rate, and costs about 0.01 at half of it"
)
XLABEL = qk_norm.XLABEL
SEEDS = qk_norm.SEEDS[:5]
RATES = (8e-3, 16e-3, 32e-3)
CONFIG = dataclasses.replace(
    qk_norm.CONFIG,
    conditions=tuple(Condition(norm, rate) for norm in ("none", "rms") for rate in RATES),
    size=dataclasses.replace(qk_norm.CONFIG.size, steps=1000),
    evaluate_every=100,
)
REDUCED = qk_norm.REDUCED
