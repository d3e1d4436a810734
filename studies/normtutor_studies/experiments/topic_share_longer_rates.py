"""Learning rates for topic_share_longer, chosen at its 1,500 steps on other seeds.

:mod:`normtutor_studies.experiments.topic_rates` with five times the steps, on one-language batches alone,
and with two smaller rates.

Control: rates are chosen on other seeds, by the loss in evaluation mode. The grid goes on beyond
the rates of the 300 steps, down to a quarter of LayerNorm's and PowerNorm's and to a sixteenth of
BatchNorm's. Not checked: rates in between, and more than two seeds.
"""

import dataclasses

from normtutor_studies.experiments import topic_rates
from normtutor_studies.experiments.topic_rates import Condition, best_rates, fingerprint, run

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = topic_rates.CHAPTER
FIGURE = "none: it chooses the learning rates of topic_share_longer"
FINDING = (
    "the best rate is the same for LayerNorm, BatchNorm and PowerNorm, a quarter of what is best "
    "for BatchNorm in 300 steps"
)
SEEDS = topic_rates.SEEDS
RATES = (1.5e-3, 3e-3, 6e-3, 12e-3, 24e-3)
CONFIG = dataclasses.replace(
    topic_rates.CONFIG,
    conditions=tuple(
        Condition(norm, 1.0, rate)
        for norm in ("layer", "batch", "power")
        for rate in RATES
        if norm == "batch" or rate < max(RATES)
    ),
    steps=1500,
)
REDUCED = {"steps": 3}
