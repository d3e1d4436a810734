"""Learning rates for topic_share_pre, chosen on other seeds.

:mod:`normtutor_studies.experiments.topic_rates` on the models of
:mod:`normtutor_studies.experiments.topic_share_pre`, with larger rates. ``grids`` puts it together with
:mod:`normtutor_studies.experiments.topic_share_pre_rates_mixed`, which goes on where the largest was best.

Control: rates are chosen on other seeds, by the loss in evaluation mode, and the two grids together
have a worse rate on both sides of every best one. On mixed batches the rates from 0.024 to 0.096
differ by less than 0.01 nats, so there the choice decides little. With one-topic batches the next
rate of PowerNorm is better on one seed and much worse on the other. Not checked: rates in between,
and more than two seeds.
"""

from normtutor_studies.experiments import topic_rates, topic_share_pre
from normtutor_studies.experiments.rates import joined
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.topic_rates import Condition, best_rates, fingerprint, run

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "grids", "run"]

CHAPTER = topic_rates.CHAPTER
FIGURE = "none: it chooses the learning rates of topic_share_pre"
FINDING = (
    "with Pre-LN and an untied output every best rate is two or four times that of topic_rates, "
    "whose grid ends at 0.024"
)
SEEDS = topic_rates.SEEDS
# Share of one-topic batches -> rates.
RATES = {0.0: (12e-3, 24e-3, 48e-3, 96e-3), 1.0: (6e-3, 12e-3, 24e-3, 48e-3, 96e-3)}
CONFIG = topic_share_pre.Config(
    conditions=tuple(
        Condition(norm, share, rate)
        for norm, share in dict.fromkeys(
            (condition.norm, condition.share) for condition in topic_share_pre.CONFIG.conditions
        )
        for rate in RATES[share]
    )
)


def grids() -> Saved:
    """This grid and the larger rates for mixed batches, as one."""
    return joined("topic_share_pre_rates", "topic_share_pre_rates_mixed")
