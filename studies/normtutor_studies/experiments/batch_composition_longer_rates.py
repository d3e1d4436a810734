"""Learning rates for batch_composition_longer, chosen at its 1,500 steps on another seed.

:mod:`normtutor_studies.experiments.batch_rates` with five times the steps: every norm with every kind of
batches is trained with two rates, and where the best of them lies at an end, with the next beyond,
a factor of 2 away. The one with the smallest validation loss in evaluation mode is taken.

Control: rates are chosen on another seed than those reported, on the validation part, and by the
loss in evaluation mode, which is where BatchNorm may lose. Every chosen rate has a worse one on
both sides, a factor of 2 away. Not checked: a second seed, and rates in between.
"""

import dataclasses

from normtutor_studies.experiments import batch_rates
from normtutor_studies.experiments.batch_rates import best_rates, fingerprint, run

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = batch_rates.CHAPTER
FIGURE = "none: it chooses the learning rates of batch_composition_longer"
FINDING = (
    "on one seed LayerNorm and PowerNorm have the best rates that they have in 300 steps, "
    "BatchNorm half of it on shuffled batches and four times it with equal lengths"
)
SEEDS = batch_rates.SEEDS
CELLS = (
    *(
        (norm, kind)
        for kind in ("shuffled", "length")
        for norm in ("layer", "masked batch", "power")
    ),
    ("none", "shuffled"),
)
CONFIG = dataclasses.replace(
    batch_rates.CONFIG, cells=CELLS, rates=(8e-3, 16e-3), most=7, steps=1500
)
REDUCED = batch_rates.REDUCED
