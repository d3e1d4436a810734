"""Learning rates for :mod:`normtutor.experiments.post_or_pre`, chosen on the validation part.

Both wirings are trained with each rate of the grid on seeds that are used nowhere else. The rate
with the smallest validation loss, averaged over the seeds, is taken.
"""

import math
from typing import Any

from normtutor.experiments.post_or_pre import (
    Condition,
    Config,
    build,
    chunks,
    corpus_of,
    fingerprint,
    training_batches,
)
from normtutor.experiments.records import Saved
from normtutor.experiments.wired_sorting import short
from normtutor.training import masked_language_model_loss, mean_token_loss, train_together

__all__ = ["CONFIG", "SEEDS", "best_rates", "corpus_of", "fingerprint", "run"]

CHAPTER = "07_pre_ln_and_post_ln"
FIGURE = "none: it chooses the learning rates of post_or_pre"
FINDING = "the best learning rate of Post-LN is smaller than that of Pre-LN"
SEEDS = (0, 1)
RATES = {"post": (1e-3, 2e-3, 4e-3), "pre": (4e-3, 8e-3, 16e-3)}

CONFIG = Config(
    conditions=tuple(Condition(wiring, rate) for wiring, rates in RATES.items() for rate in rates)
)


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed, all rates of a wiring together."""
    validation = chunks(config, "validation")
    records = []
    for wiring in dict.fromkeys(condition.wiring for condition in config.conditions):
        rates = [c.learning_rate for c in config.conditions if c.wiring == wiring]
        built = [build(config, wiring, seed) for _ in rates]
        models = [model for model, _ in built]
        histories = train_together(
            models,
            [training_batches(config, order) for _, order in built],
            masked_language_model_loss,
            steps=config.steps,
            learning_rate=rates,
            warmup=config.warmup,
        )
        for model, rate, history in zip(models, rates, histories, strict=True):
            loss = mean_token_loss(model, validation)
            records.append(
                {
                    "wiring": wiring,
                    "learning_rate": rate,
                    "diverged": history.diverged,
                    "loss": short(loss) if math.isfinite(loss) else None,
                }
            )
    return records


def best_rates(saved: Saved) -> dict[tuple[str], float]:
    """(wiring,) -> the rate with the smallest mean validation loss."""
    tried: dict[tuple[str], list[tuple[float, float]]] = {}
    for condition in saved.config["conditions"]:
        loss = float(saved.values("loss", **condition).mean())
        if math.isnan(loss):  # a run diverged
            continue
        tried.setdefault((condition["wiring"],), []).append((loss, condition["learning_rate"]))
    return {wiring: min(outcomes)[1] for wiring, outcomes in tried.items()}
