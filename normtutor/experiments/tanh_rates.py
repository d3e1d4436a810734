"""Learning rates for :mod:`normtutor.experiments.tanh_against_layer`.

Every kind of model is trained with each rate of the grid, on seeds that are used nowhere else. The
rate with the smallest validation loss, averaged over the seeds, is taken.

Control: rates are chosen on other seeds, and on the validation part rather than the test part. All
models share one grid of four rates. Two chosen rates lie at an end of it and might be better
beyond: LayerNorm's with all of the text, at the upper end, and that of no norm with little text, at
the lower end.
"""

from typing import Any

from normtutor.experiments import tanh_against_layer
from normtutor.experiments.rates import best_rates
from normtutor.experiments.tanh_against_layer import NORMS, SHARES, Condition, Config
from normtutor.experiments.text_chunks import corpus_of, fingerprint

__all__ = ["CONFIG", "SEEDS", "best_rates", "corpus_of", "fingerprint", "run"]

CHAPTER = "08_after_2020"
FIGURE = "none: it chooses the learning rates of tanh_against_layer"
FINDING = "with little text the best learning rates are smaller, or the same"
SEEDS = (0, 1)
RATES = (2e-3, 4e-3, 8e-3, 16e-3)

CONFIG = Config(
    conditions=tuple(
        Condition(norm, share, rate) for norm in NORMS for share in SHARES for rate in RATES
    )
)


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; measure on the validation part."""
    return tanh_against_layer.measure(config, seed, "validation")


chosen = best_rates  # (norm, share) -> rate, as chapter 8 calls it
