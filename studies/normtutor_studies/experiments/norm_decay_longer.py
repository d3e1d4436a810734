"""Weight decay on γ, β and biases as in :mod:`normtutor_studies.experiments.norm_decay`, for 1,500 steps.

In 300 steps a decay of 1 on all parameters leaves about half of γ, and BatchNorm makes fewer errors
with it. Does γ stay there, and does the advantage?

Control: networks, seeds, order of images and rate are those of the shorter runs; only the steps
are five times as many. The rate is constant and was not tuned for either group or for this length.
Strength zero is not run again. Not checked: larger models, and γ in a residual branch.
"""

import dataclasses

from normtutor_studies.experiments import norm_decay
from normtutor_studies.experiments.norm_decay import fingerprint, rows, run

__all__ = ["CONFIG", "SEEDS", "fingerprint", "rows", "run"]

CHAPTER = norm_decay.CHAPTER
FIGURE = "none: a control of norm_decay, which chapter 9 cites"
FINDING = (
    "in 1,500 steps a decay of 1 on all parameters takes γ to 0.1 (LayerNorm) and 0.3 (BatchNorm); "
    "what it does to the test loss and the errors five seeds do not tell"
)
SEEDS = norm_decay.SEEDS[:5]
XLABEL = norm_decay.XLABEL
CONFIG = dataclasses.replace(
    norm_decay.CONFIG,
    conditions=tuple(c for c in norm_decay.CONFIG.conditions if c.decay),
    steps=1500,
)
REDUCED = {"steps": 3}
