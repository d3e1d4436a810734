"""LayerNorm, a detached scale and no norm of detach_norm, three times as many steps.

In the 300 steps of :mod:`normtutor_studies.experiments.detach_norm` a divisor without its gradient is worse
than no norm, and no norm is behind LayerNorm at the rate 0.002. What is left of both?

Control: models, weights, sequences, test sequences and warm-up are those of 300 steps, and the
three norms share the rate. Not checked: other rates than this one, the other six norms, and still
more steps.
"""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from normtutor.models import TransformerLM
from normtutor.training import masked_language_model_loss, start, train_together
from normtutor_studies.experiments import detach_norm
from normtutor_studies.experiments.detach_norm import (
    DETACHED,
    OFF,
    ON,
    Condition,
    Config,
    DetachedNorm,
    fingerprint,
    sorting_batch,
    sorting_batches,
)
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.wired_sorting import score, short

__all__ = ["CONFIG", "SEEDS", "behind", "fingerprint", "rows", "run", "run_seeds"]

CHAPTER = detach_norm.CHAPTER
FIGURE = "none: a control of detach_norm, which chapter 5 cites"
FINDING = (
    "in 900 steps at one rate a detached scale still ends far behind no norm, which is within "
    "0.001 of LayerNorm"
)
XLABEL = detach_norm.XLABEL
SEEDS = detach_norm.SEEDS[:5]
NORMS = {"LayerNorm": (ON, ON), "scale detached": (ON, DETACHED), "no norm": (OFF, OFF)}
RATE = 2e-3  # in 300 steps LayerNorm is ahead of no norm there, and that of a detached scale
CONFIG = dataclasses.replace(
    detach_norm.CONFIG,
    conditions=tuple(Condition(*norm, RATE) for norm in NORMS.values()),
    steps=900,
)
REDUCED = {"steps": 3}


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """All seeds; the models of one norm train together, one per seed and learning rate."""
    found: list[list[dict[str, Any]]] = [[] for _ in seeds]
    for centre, scale in dict.fromkeys((c.centre, c.scale) for c in config.conditions):
        norm = partial(DetachedNorm, centre=centre, scale=scale)
        own = [c for c in config.conditions if (c.centre, c.scale) == (centre, scale)]
        runs = [(number, condition) for number in range(len(seeds)) for condition in own]
        streams, models = [], []
        for number, _ in runs:
            streams.append(sorting_batches(config, start(seeds[number])))
            models.append(
                TransformerLM(
                    config.symbols + 1,
                    width=config.width,
                    depth=config.depth,
                    heads=config.heads,
                    max_length=2 * config.length,
                    norm=norm,
                    wiring=config.wiring,
                    dropout=0.0,
                )
            )
        histories = train_together(
            models,
            streams,
            masked_language_model_loss,
            steps=config.steps,
            learning_rate=[condition.learning_rate for _, condition in runs],
            warmup=config.warmup,
        )
        for (number, condition), model, history in zip(runs, models, histories, strict=True):
            rng = np.random.default_rng(1000 + seeds[number])
            loss = score(model, sorting_batch(config, config.test_sequences, rng))["loss"]
            found[number].append(
                {
                    **dataclasses.asdict(condition),
                    "loss": short(loss),
                    "diverged": history.diverged or loss is None,
                }
            )
    return found


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed."""
    return run_seeds(config, [seed])[0]


def behind(saved: Saved, norm: str, other: str = "LayerNorm") -> np.ndarray:
    """Test loss of one norm minus the other's, paired by seed."""
    first, second = (
        saved.values("loss", centre=centre, scale=scale)
        for centre, scale in (NORMS[norm], NORMS[other])
    )
    return first - second


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus LayerNorm's, paired by seed."""
    return {norm: behind(saved, norm) for norm in NORMS if norm != "LayerNorm"}
