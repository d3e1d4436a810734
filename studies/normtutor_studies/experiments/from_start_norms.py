"""BatchNorm and PowerNorm from the start, where :mod:`normtutor_studies.experiments.swapped_norms` swaps.

There a model trained with LayerNorm gets BatchNorm or PowerNorm and is fine-tuned on other text; it
ends behind the model that kept LayerNorm. Is that the swap, or the norm? Here the same models have
these norms from the first step: 300 steps on five packages, then 100 on the sixth. The models with
LayerNorm and the swapped ones are on record there.

Control: a deficit could come from a rate that suits LayerNorm, so the first training has its own
for each norm, chosen on another seed (:mod:`normtutor_studies.experiments.from_start_norms_rates`); in
swapped_norms that rate is LayerNorm's. Fine-tuning has the rate that was best after a swap, for all
of them. The swapped models copied γ and β; with fitted ones BatchNorm ends where it does from the
start (:mod:`normtutor_studies.experiments.swapped_norms_fitted`). PowerNorm divides by each batch's own
statistic in the first third of the first training, as in
:mod:`normtutor_studies.experiments.text_stability_rates`. Weights, sentences and batches are those of
swapped_norms. Not checked: a rate of fine-tuning of its own, more steps, larger batches than 256
tokens, and Post-LN.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from normtutor.data import shuffled_chunks
from normtutor.layers import PowerNorm
from normtutor.training import (
    language_model_loss,
    masked_language_model_loss,
    mean_token_loss,
    train,
    train_together,
)
from normtutor_studies.experiments import swapped_norms
from normtutor_studies.experiments.package_chunks import build, fingerprint
from normtutor_studies.experiments.records import Saved, load, short
from normtutor_studies.experiments.swapped_norms import Condition, chunks_of, held_out, text_of

__all__ = ["CONFIG", "SEEDS", "Condition", "Config", "fingerprint", "measured", "rows", "run_seeds"]

CHAPTER = swapped_norms.CHAPTER
FIGURE = "none: a control of swapped_norms, which the ledger cites"
FINDING = (
    "with BatchNorm from the start these models end less far behind LayerNorm than after a swap "
    "with γ and β copied, with PowerNorm further"
)
XLABEL = "test loss minus another's (nats/token)"
SEEDS = swapped_norms.SEEDS
NAMES = {"batch": "BatchNorm", "power": "PN"}


@dataclass(frozen=True)
class Config(swapped_norms.Config):
    """The settings of the swap; the rate of a condition is that of the first training."""

    tuning_rate: float = 16e-3  # of fine-tuning; swapped_norms_rates chose it for all


# The rates that from_start_norms_rates chose; a test compares them with its saved run.
CONFIG = Config(conditions=(Condition("batch", 8e-3), Condition("power", 8e-3)))
REDUCED = swapped_norms.REDUCED


def measured(
    config: Config, norm: str, runs: Sequence[tuple[int, float]], part: str
) -> list[dict[str, Any]]:
    """Train with ``norm`` on both texts; losses of the second before and after its steps.

    ``runs`` holds a seed and a rate of the first training for each model.
    """
    size, test = config.size, held_out(config, part)
    kind: Any = norm
    if norm == "power":
        kind = partial(PowerNorm, warmup_steps=size.steps // 3)
    made = [build(size, seed, depth=config.depth, norm=kind, wiring="pre") for seed, _ in runs]
    models, orders = [model for model, _ in made], [order for _, order in made]
    chunks = chunks_of(config, "train", of_it=False)

    def trained(batches: Sequence[Any], rates: list[float], **how: Any) -> list[bool]:
        if norm == "power":  # which cannot train under vmap
            histories = [
                train(model, stream, language_model_loss, learning_rate=rate, **how)
                for model, stream, rate in zip(models, batches, rates, strict=True)
            ]
        else:
            histories = train_together(
                models, batches, masked_language_model_loss, learning_rate=rates, **how
            )
        return [history.diverged for history in histories]

    first = trained(
        [shuffled_chunks(chunks, size.batch_size, order) for order in orders],
        [rate for _, rate in runs],
        steps=size.steps,
        warmup=size.warmup,
    )
    before = [mean_token_loss(model, test) for model in models]
    second = trained(
        [text_of(config, seed) for seed, _ in runs],
        [config.tuning_rate] * len(runs),
        steps=config.tuning_steps,
        warmup=config.tuning_warmup,
    )
    return [
        {
            "norm": norm,
            "learning_rate": rate,
            "diverged": any(ended),
            "before": short(start, 6),
            "loss": short(mean_token_loss(model, test), 6),
        }
        for (_, rate), *ended, start, model in zip(runs, first, second, before, models, strict=True)
    ]


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Train every condition with all seeds at once; a list of records per seed."""
    found = [
        measured(config, c.norm, [(seed, c.learning_rate) for seed in seeds], "test")
        for c in config.conditions
    ]
    return [list(records) for records in zip(*found, strict=True)]


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed."""
    return run_seeds(config, [seed])[0]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """From the start minus LayerNorm's, and what the swap ends above it, paired by seed."""
    there = load("swapped_norms")
    found = {}
    for norm, name in NAMES.items():
        from_start = saved.values("loss", norm=norm)
        found[f"{name} from the start, minus LN"] = from_start - there.values("loss", norm="layer")
        found[f"{name}, swapped minus from the start"] = (
            there.values("loss", norm=norm) - from_start
        )
    return found
