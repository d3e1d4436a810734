"""Which learning rate suits each variant of the last norm in a tied model.

Three rates in factors of 2 for every variant of :mod:`normtutor_studies.experiments.last_norm_parts` that
is not on record in :mod:`normtutor_studies.experiments.final_norm`, on a seed that is used in neither.

Control: the best rate lies between the other two for every variant, so no variant is held back by
the grid. Not checked: a second seed, and rates within a factor of 2 of the best.
"""

from typing import Any

from normtutor_studies.experiments import last_norm_parts
from normtutor_studies.experiments.last_norm_parts import (
    VARIANTS,
    Condition,
    Config,
    fingerprint,
    run,
)
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "05_rms_norm"
FIGURE = "none: it chooses the learning rates of last_norm_parts"
FINDING = "every variant of the last norm has its best rate at 0.032"
SEEDS = (18,)

CONFIG = Config(
    tuple(
        Condition(*variant, rate)
        for variant in VARIANTS
        if variant not in (("tied", "norm"), ("tied", "none"))
        for rate in (1.6e-2, 3.2e-2, 6.4e-2)
    )
)
REDUCED: dict[str, Any] = {
    "conditions": (Condition("tied", "one length", 1e-3), Condition("tied", "one length", 4e-3)),
    "depth": 1,
    "size": last_norm_parts.REDUCED["size"],
}


def best_rates(saved: Saved) -> dict[tuple[str, str], float]:
    """(output, what stands last) -> the rate with the smallest validation loss."""
    losses: dict[tuple[str, str], dict[float, float]] = {}
    for condition in saved.config["conditions"]:
        by_rate = losses.setdefault((condition["head"], condition["last"]), {})
        by_rate[condition["learning_rate"]] = float(saved.values("validation", **condition).mean())
    return {cell: min(by_rate, key=by_rate.__getitem__) for cell, by_rate in losses.items()}
