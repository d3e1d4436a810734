"""Learning rates of fine-tuning for swapped_norms, chosen on the validation part.

Control: rates are chosen on another seed, with another order of the text, and on the validation
part of the package. All four norms share one grid, and each one's best rate has worse ones on both
sides. Not checked: a second seed, and rates in between, which are a factor of 2 apart.
"""

from typing import Any

from normtutor.training import mean_token_loss
from normtutor_studies.experiments import swapped_norms
from normtutor_studies.experiments.rates import best_rates
from normtutor_studies.experiments.records import short
from normtutor_studies.experiments.swapped_norms import (
    Condition,
    Config,
    fine_tuned,
    fingerprint,
    held_out,
    trained,
)

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = swapped_norms.CHAPTER
FIGURE = "none: it chooses the learning rates of swapped_norms"
FINDING = "on one seed LayerNorm, RMSNorm, BatchNorm and PowerNorm have the same best rate of five"
SEEDS = (0,)
RATES = (2e-3, 4e-3, 8e-3, 16e-3, 32e-3)
CONFIG = Config(
    conditions=tuple(
        Condition(norm, rate) for norm in ("layer", "rms", "batch", "power") for rate in RATES
    )
)
REDUCED = swapped_norms.REDUCED


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Fine-tune one model with every norm at every rate; measure on the validation part."""
    (model,), validation = trained(config, [seed]), held_out(config, "validation")
    records = []
    for norm in dict.fromkeys(condition.norm for condition in config.conditions):
        rates = [c.learning_rate for c in config.conditions if c.norm == norm]
        found = fine_tuned(config, [model] * len(rates), norm, [(seed, rate) for rate in rates])
        for rate, (_, tuned, history) in zip(rates, found, strict=True):
            loss = None if history.diverged else short(mean_token_loss(tuned, validation), 6)
            records.append(
                {"norm": norm, "learning_rate": rate, "diverged": history.diverged, "loss": loss}
            )
    return records
