"""How the size of the residual stream grows with depth, before, during and after training.

After each layer the mean square of the stream is recorded, averaged over tokens and features, and
of the layer's own contribution. With v for the first, b for the second and c for the cross term
between the stream and the contribution, v_{l+1} = v_l + b_l + c_l exactly: growth comes from large
contributions or from contributions that point along the stream.

Control: a stream can grow because contributions are large or because they point along it; the
identity above splits every layer's growth into the two parts. The rate matters more than the
wiring, so there are up to three rates for a wiring, and three depths at one rate. Shapes are judged
on layers that no fit has seen, in :mod:`normtutor.experiments.growth_shapes`. Not checked: more
than 240 steps, and more than 24 layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from torch import Tensor

from normtutor.experiments import text_chunks
from normtutor.experiments.records import Saved, short
from normtutor.experiments.text_chunks import Text, corpus_of, fingerprint
from normtutor.models import TransformerLM
from normtutor.training import evaluation_mode

__all__ = ["CONFIG", "SEEDS", "Condition", "Config", "corpus_of", "fingerprint", "profile", "run"]

CHAPTER = "08_after_2020"
FIGURE = "fig-after-growth"
FINDING = (
    "before training the stream grows linearly with depth; after it faster at the two smaller "
    "rates, by a law that stays undecided"
)
XLABEL = "growth exponent of the stream's mean square over depth"
REFERENCE = 1.0  # linear growth
SEEDS = tuple(range(10, 15))


@dataclass(frozen=True)
class Condition:
    """A wiring with its depth and its learning rate."""

    wiring: str
    depth: int
    learning_rate: float


@dataclass(frozen=True)
class Config(Text):
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = ()
    norm: str = "rms"
    steps: int = 240
    warmup: int = 24
    evaluate_every: int = 12
    kept: tuple[int, ...] = (12, 24, 60, 120, 240)  # steps whose profiles are saved


CONFIG = Config(
    conditions=(
        *(Condition("pre", 12, rate) for rate in (1e-3, 4e-3, 16e-3)),
        *(Condition("peri", 12, rate) for rate in (1e-3, 4e-3)),
        *(Condition("ln-scaling", 12, rate) for rate in (1e-3, 4e-3)),
        *(Condition("pre", depth, 4e-3) for depth in (6, 24)),
    )
)


def profile(model: TransformerLM, tokens: Tensor) -> dict[str, list[float]]:
    """Mean squares by layer: of the stream and of the contribution; and the cross term c."""
    with evaluation_mode(model):
        found = text_chunks.streams(model, tokens)
    pairs = list(pairwise(found))
    entries = {
        "stream": [x.square().mean() for x in found],
        "branch": [(after - before).square().mean() for before, after in pairs],
        "cross": [(2 * before * (after - before)).mean() for before, after in pairs],
    }
    return {key: [short(value.item()) for value in values] for key, values in entries.items()}


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed, those of one build together."""
    tokens = text_chunks.some_tokens(config)
    test = text_chunks.held_out(config, "test")
    records = []
    for group in text_chunks.grouped(config.conditions):
        records += _run_group(config, group, seed, tokens, test)
    return records


def _run_group(
    config: Config, group: Sequence[Condition], seed: int, tokens: Tensor, test: Any
) -> list[dict[str, Any]]:
    settings: dict[str, Any] = {
        "wiring": group[0].wiring,
        "depth": group[0].depth,
        "norm": config.norm,
    }
    untrained, _ = text_chunks.build(config, seed, **settings)
    first = profile(untrained, tokens)
    profiles: dict[int, list[dict[str, list[float]]]] = {}

    def evaluate(model: TransformerLM) -> dict[str, float]:
        profiles.setdefault(id(model), []).append(profile(model, tokens))
        return {}

    models, histories = text_chunks.train_at(
        config,
        [condition.learning_rate for condition in group],
        seed,
        steps=config.steps,
        warmup=config.warmup,
        evaluate=evaluate,
        evaluate_every=config.evaluate_every,
        **settings,
    )
    records = []
    for condition, model, history in zip(group, models, histories, strict=True):
        steps = [0, *(int(numbers["step"]) for numbers in history.evaluations)]
        found = [first, *profiles.get(id(model), [])]
        kept = [i for i, step in enumerate(steps) if step in (0, *config.kept)]
        records.append(
            {
                "wiring": condition.wiring,
                "depth": condition.depth,
                "learning_rate": condition.learning_rate,
                "diverged": history.diverged,
                "loss": text_chunks.loss_of(model, test, history),
                "steps": [steps[i] for i in kept],
                **{key: [found[i][key] for i in kept] for key in first},
                # Each evaluate_every steps: how fast the mean square grows over the upper half.
                "last_over_middle": [
                    short(p["stream"][-1] / p["stream"][condition.depth // 2]) for p in found
                ],
            }
        )
    return records


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """log2 of the mean square after the last layer over that at half depth, at the end."""
    names = {}
    for condition in saved.config["conditions"]:
        ratio = saved.values("last_over_middle", **condition)[:, -1]
        wiring, depth, rate = condition.values()
        names[f"{wiring}, {depth} layers, rate {rate:g}"] = np.log2(ratio)
    return names
