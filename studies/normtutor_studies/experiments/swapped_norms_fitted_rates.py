"""Learning rates of fine-tuning for swapped_norms_fitted, chosen on the validation part.

Control: rates are chosen on two other seeds, with another order of the text, and on the validation
part of the package. Each norm's best rate has a worse one on both sides, on either seed. Not
checked: rates in between, which are a factor of 2 apart.
"""

from typing import Any

from normtutor.training import mean_token_loss
from normtutor_studies.experiments import swapped_norms_fitted
from normtutor_studies.experiments.rates import best_rates
from normtutor_studies.experiments.records import short
from normtutor_studies.experiments.swapped_norms import fine_tuned, held_out, trained
from normtutor_studies.experiments.swapped_norms_fitted import (
    NAMES,
    Condition,
    Config,
    fingerprint,
    fitted,
)

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = swapped_norms_fitted.CHAPTER
FIGURE = "none: it chooses the learning rates of swapped_norms_fitted"
FINDING = (
    "on two seeds BatchNorm and PowerNorm with fitted γ and β have the best rate of copied ones"
)
SEEDS = (0, 1)
RATES = (8e-3, 16e-3, 32e-3)
CONFIG = Config(conditions=tuple(Condition(norm, rate) for norm in NAMES for rate in RATES))
REDUCED = swapped_norms_fitted.REDUCED


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Fine-tune one model with each norm at every rate; measure on the validation part."""
    (model,), validation = trained(config, [seed]), held_out(config, "validation")
    records = []
    for norm in dict.fromkeys(condition.norm for condition in config.conditions):
        rates = [c.learning_rate for c in config.conditions if c.norm == norm]
        runs = [(seed, rate) for rate in rates]
        found = fine_tuned(config, [model] * len(rates), norm, runs, fitted)
        for rate, (_, tuned, history) in zip(rates, found, strict=True):
            loss = None if history.diverged else short(mean_token_loss(tuned, validation), 6)
            records.append(
                {"norm": norm, "learning_rate": rate, "diverged": history.diverged, "loss": loss}
            )
    return records
