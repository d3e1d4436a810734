"""Learning rates for the experiment power_text, chosen on the validation part of the text.

Every norm with every kind of batch is trained with each rate of the grid, on seeds that are used
nowhere else. The rate with the smallest validation loss in evaluation mode, averaged over the
seeds, is taken.

Control: rates are chosen on other seeds, and on the validation part rather than the test part. With
only two rates to choose from, every chosen one lies at an end of its grid, so that PN and PN-V
might gain from a smaller rate still. LayerNorm and BatchNorm had three or four rates to choose from
in :mod:`normtutor.experiments.text_rates`, so the comparison favours them.
"""

from typing import Any

from normtutor.data import Order
from normtutor.experiments.power_text import NORMS, TRAINED, Config
from normtutor.experiments.rates import best_rates
from normtutor.experiments.text_batches import Condition, fingerprint
from normtutor.experiments.text_rates import validation_losses

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "06_power_norm"
FIGURE = "none: it chooses the learning rates of power_text"
FINDING = "PN and PN-V mostly do best with the smaller of the two rates tried"
SEEDS = (0, 1)
# The smallest batches bear smaller rates, and so did the published code's PN in a pilot.
RATES, SMALLER_RATES = (4e-3, 8e-3), (2e-3, 4e-3)
SMALLER: tuple[tuple[str, Order, int], ...] = (
    *((norm, "document", 2) for norm in TRAINED["document", 2]),
    ("authors", "length", 16),
)

CONFIG = Config(
    conditions=tuple(
        Condition(norm, order, size, rate)
        for (order, size), norms in TRAINED.items()
        for norm in norms
        for rate in (SMALLER_RATES if (norm, order, size) in SMALLER else RATES)
    )
)


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; measure on the validation part."""
    return validation_losses(config, seed, NORMS)
