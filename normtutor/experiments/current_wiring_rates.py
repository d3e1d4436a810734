"""Learning rates for :mod:`normtutor.experiments.current_wirings`, chosen on the validation part.

Every design is trained with each rate of the grid, on seeds that are used nowhere else. The rate
with the smallest validation loss, averaged over the seeds, is taken.
"""

from typing import Any

from normtutor.experiments import current_wirings
from normtutor.experiments.current_wirings import DESIGNS, Condition, Config
from normtutor.experiments.records import Saved
from normtutor.experiments.text_chunks import best_rates, corpus_of, fingerprint

__all__ = ["CONFIG", "SEEDS", "chosen", "corpus_of", "fingerprint", "run"]

CHAPTER = "08_after_2020"
FIGURE = "none: it chooses the learning rates of current_wirings"
FINDING = "most designs are best at the same learning rate"
SEEDS = (0, 1)
RATES = (4e-3, 8e-3, 16e-3)

CONFIG = Config(conditions=tuple(Condition(design, rate) for design in DESIGNS for rate in RATES))


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; measure on the validation part."""
    return current_wirings.measure(config, seed, "validation")


def chosen(saved: Saved) -> dict[tuple[str, ...], float]:
    """(design,) -> the rate with the smallest mean validation loss."""
    return best_rates(saved)
