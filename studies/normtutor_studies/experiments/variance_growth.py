"""How the size of the residual stream grows with depth, before, during and after training.

After each layer the mean square of the stream is recorded, averaged over tokens and features, and
of the layer's own contribution. With v for the first, b for the second and c for the cross term
between the stream and the contribution, v_{l+1} = v_l + b_l + c_l exactly: growth comes from large
contributions or from contributions that point along the stream.

Control: a stream can grow because contributions are large or because they point along it; the
identity above splits every layer's growth into the two parts. The rate matters more than the
wiring, so Pre-LN has three rates, and three depths at one of them. Shapes are judged on layers that
no fit has seen, in :mod:`normtutor_studies.experiments.growth_shapes`. Losses of the wirings are compared
at one rate, which was tuned for none; at larger ones their order is another
(:mod:`normtutor_studies.experiments.variance_growth_rates`). At that rate 48 layers learn least. The growth
hardly changes over the last sixty steps, but the rate falls to zero there, so it need not have
settled. A sixth seed, 40, run afterwards and not on record, lies where the five expect it in all
six rows with 12 and 24 layers. Not checked: more than 300 steps, and a rate of its own for each
depth.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from normtutor.models import TransformerLM
from normtutor.training import evaluation_mode
from normtutor_studies.experiments import package_chunks
from normtutor_studies.experiments.package_chunks import Size, fingerprint, measured, train_models
from normtutor_studies.experiments.records import Saved, short

__all__ = ["CONFIG", "SEEDS", "Condition", "Config", "fingerprint", "profile", "run", "streams"]

CHAPTER = "08_after_2020"
FIGURE = "fig-after-growth"
FINDING = (
    "before training Pre-LN's stream grows about linearly with depth; after it faster at the two "
    "smaller rates, with 24 and 48 layers as a power"
)
XLABEL = "growth exponent of the stream's mean square over depth"
REFERENCE = 1.0  # linear growth
SEEDS = tuple(range(10, 15))
STEPS = 300
KEPT = (15, 30, 60, 120, 180, 240, 300)


@dataclass(frozen=True)
class Condition:
    """A wiring with its depth and its learning rate."""

    wiring: str
    depth: int
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    size: Size = field(default_factory=lambda: Size(steps=STEPS, warmup=30))
    norm: str = "rms"
    evaluate_every: int = 15
    kept: tuple[int, ...] = KEPT  # steps whose profiles are saved


CONFIG = Config(
    conditions=(
        *(Condition("pre", 12, rate) for rate in (1e-3, 4e-3, 16e-3)),
        *(Condition(wiring, 12, 4e-3) for wiring in ("peri", "ln-scaling")),
        *(Condition("pre", depth, 4e-3) for depth in (24, 48)),
    )
)
REDUCED = {
    "size": Size(width=8, heads=2, steps=4, warmup=2, held_out_chunks=64),
    "conditions": (Condition("pre", 3, 1e-3), Condition("pre", 3, 4e-3)),
    "evaluate_every": 2,
    "kept": (2, 4),
}


@torch.no_grad()
def streams(model: TransformerLM, tokens: Tensor) -> list[Tensor]:
    """The residual stream before the first layer and after each, depth + 1 of (B, L, H)."""
    x = model.embed(tokens)
    found = [x]
    for layer in model.layers:
        x = layer(x)
        found.append(x)
    return found


def some_tokens(size: Size) -> Tensor:
    """Sixteen chunks of the validation part, the same for every model, (16, length)."""
    return package_chunks.held_out(size, "validation")[0].inputs[:16]


def profile(model: TransformerLM, tokens: Tensor) -> dict[str, list[float]]:
    """Mean squares by layer: of the stream and of the contribution; and the cross term c."""
    with evaluation_mode(model):
        found = streams(model, tokens)
    pairs = list(pairwise(found))
    entries = {
        "stream": [x.square().mean() for x in found],
        "branch": [(after - before).square().mean() for before, after in pairs],
        "cross": [(2 * before * (after - before)).mean() for before, after in pairs],
    }
    return {key: [short(value.item()) for value in values] for key, values in entries.items()}


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Train every condition with all seeds, those of one build together; records by seed."""
    builds = dict.fromkeys((condition.wiring, condition.depth) for condition in config.conditions)
    found: dict[tuple[Condition, int], dict[str, Any]] = {}
    for wiring, depth in builds:
        group = [c for c in config.conditions if (c.wiring, c.depth) == (wiring, depth)]
        found |= _run_build(config, group, seeds)
    return [[found[condition, seed] for condition in config.conditions] for seed in seeds]


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed."""
    return run_seeds(config, [seed])[0]


def _run_build(
    config: Config, group: Sequence[Condition], seeds: Sequence[int]
) -> dict[tuple[Condition, int], dict[str, Any]]:
    tokens = some_tokens(config.size)
    profiles: dict[int, list[dict[str, list[float]]]] = {}

    def look(model: TransformerLM) -> None:
        profiles.setdefault(id(model), []).append(profile(model, tokens))

    def evaluate(model: TransformerLM) -> dict[str, float]:
        look(model)
        return {}

    cells = [(condition, seed) for seed in seeds for condition in group]
    trained = train_models(
        config.size,
        [(seed, condition.learning_rate) for condition, seed in cells],
        adjust=look,
        training={"evaluate": evaluate, "evaluate_every": config.evaluate_every},
        wiring=group[0].wiring,
        depth=group[0].depth,
        norm=config.norm,
        tied=False,
    )
    records = {}
    for (condition, seed), (model, history) in zip(cells, trained, strict=True):
        steps = [0, *(int(numbers["step"]) for numbers in history.evaluations)]
        found = profiles[id(model)]
        kept = [i for i, step in enumerate(steps) if step in (0, *config.kept)]
        records[condition, seed] = {
            "wiring": condition.wiring,
            "depth": condition.depth,
            "learning_rate": condition.learning_rate,
            **measured(config.size, model, history),
            "steps": [steps[i] for i in kept],
            **{key: [found[i][key] for i in kept] for key in found[0]},
            # Each evaluate_every steps: how fast the mean square grows over the upper half.
            "last_over_middle": [
                short(p["stream"][-1] / p["stream"][condition.depth // 2]) for p in found
            ],
        }
    return records


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """log2 of the mean square after the last layer over that at half depth, at the end."""
    names = {}
    for condition in saved.config["conditions"]:
        ratio = saved.values("last_over_middle", **condition)[:, -1]
        wiring, depth, rate = condition.values()
        names[f"{wiring}, {depth} layers, rate {rate:g}"] = np.log2(ratio)
    return names
