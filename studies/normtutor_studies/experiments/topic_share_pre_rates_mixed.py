"""Two larger rates for mixed batches, beyond the grid of topic_share_pre_rates.

There LayerNorm and PowerNorm were best at the largest rate if no batch is of one language.
Together with that grid this one has a worse rate on both sides of every best one.

Control: that of :mod:`normtutor_studies.experiments.topic_share_pre_rates`, whose rates these continue on
the same seeds. BatchNorm had a worse rate on both sides there already.
"""

from normtutor_studies.experiments import topic_share_pre, topic_share_pre_rates
from normtutor_studies.experiments.topic_rates import Condition, best_rates, fingerprint, run

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = topic_share_pre_rates.CHAPTER
FIGURE = "none: it chooses, with topic_share_pre_rates, the learning rates of topic_share_pre"
FINDING = "on mixed batches LayerNorm and PowerNorm lose at rates beyond 0.096, with Pre-LN"
SEEDS = topic_share_pre_rates.SEEDS
RATES = (192e-3, 384e-3)
CONFIG = topic_share_pre.Config(
    conditions=tuple(Condition(norm, 0.0, rate) for norm in ("layer", "power") for rate in RATES)
)
