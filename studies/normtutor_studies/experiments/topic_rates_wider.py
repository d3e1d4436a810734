"""Learning rates beyond the grid of topic_rates, where LayerNorm, BatchNorm or PowerNorm needs one.

Where the best of three rates lay at an end of that grid, one more on its far side is tried, on the
same seeds.

Control: that of :mod:`normtutor_studies.experiments.topic_rates`. Together with that grid this one has a
worse rate on both sides of each best one of the three norms. It was run later; the gaps are 0.05
nats or more in the mean of the two seeds. Not checked: the norms that take only one statistic from
the batch, RMSNorm, and rates in between.
"""

import dataclasses

from normtutor_studies.experiments import topic_rates
from normtutor_studies.experiments.rates import joined
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.topic_rates import Condition, best_rates, fingerprint, run

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "grids", "run"]

CHAPTER = topic_rates.CHAPTER
FIGURE = "none: it chooses, with topic_rates, the learning rates of topic_share"
FINDING = (
    "with Post-LN every rate beyond that grid is worse than the best one in it, for LayerNorm, "
    "BatchNorm and PowerNorm"
)
SEEDS = topic_rates.SEEDS
CONFIG = dataclasses.replace(
    topic_rates.CONFIG,
    conditions=(
        *(Condition(norm, 0.0, 48e-3) for norm in ("layer", "batch", "power")),
        *(Condition("batch", share, 48e-3) for share in (0.5, 1.0)),
        *(Condition(norm, 1.0, 3e-3) for norm in ("layer", "power")),
    ),
)


def grids() -> Saved:
    """The grid of three rates and this one, as one."""
    return joined("topic_rates", "topic_rates_wider")
