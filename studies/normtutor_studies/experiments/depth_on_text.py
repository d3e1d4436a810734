"""Post-LN and Pre-LN of twelve layers on text, with and without warm-up, on fresh seeds.

Each wiring, with and without warm-up, takes the learning rate and the size of the embeddings that
:mod:`normtutor_studies.experiments.depth_on_text_rates` found best for it on another seed. Recorded are the
losses, the likeness of the tokens from the first steps on, and the gradients by layer before,
during and after training.

Control: Post-LN could fail because 12 layers cannot be trained in 1,000 steps of 256 tokens, for
which Pre-LN with the same steps and sequences is the control; or because of a rate, embeddings or a
warm-up that suit another row, so each row has its own rate and size, and 600 steps of warm-up were
tried as well. Few tokens a step may be a part of it, so a control has four times as many
(:mod:`normtutor_studies.experiments.post_ln_larger_batches`). Tokens may become alike in any wiring, so the
likeness is recorded in all of them, and before training, where it is 0.74 in Post-LN already.
Nothing is clipped. A sixth seed, 40, run afterwards and not on record, lies where the five expect
it in all three rows. Not checked: longer runs, other widths and norms, and whether likeness is the
cause of the failure or goes with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from normtutor_studies.experiments import depth_on_text_rates
from normtutor_studies.experiments.package_chunks import Size, fingerprint
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.text_profiles import train_row

__all__ = ["CONFIG", "SEEDS", "Condition", "fingerprint", "name_of", "rows", "run", "run_seeds"]

CHAPTER = "07_pre_ln_and_post_ln"
FIGURE = "none: a table of chapter 7 in depth shows it"
FINDING = (
    "on text too, in batches of 256 tokens, Post-LN's tokens become one and hardly part; Pre-LN's "
    "come apart again"
)
XLABEL = "test loss minus Pre-LN's with warm-up (nats/token)"
SEEDS = tuple(range(10, 15))

NAMES = {"post": "Post-LN", "pre": "Pre-LN"}


@dataclass(frozen=True)
class Condition:
    """A wiring with its warm-up, the size of its embeddings and its learning rate."""

    wiring: str
    warmup: int
    scale: float
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    depth: int = 12
    size: Size = field(default_factory=lambda: Size(steps=1000))


# What depth_on_text_rates chose; a test compares them with its saved run.
CONFIG = Config(
    conditions=(
        Condition("post", 300, 1 / 4, 1e-3),
        Condition("post", 0, 1 / 4, 1e-3),
        Condition("pre", 300, 16.0, 4e-2),
        Condition("pre", 0, 16.0, 4e-2),
    )
)


def LARGE_CONFIG() -> Config:
    """Every row of depth_on_text_rates' large run, at its best rate."""
    large = depth_on_text_rates.LARGE_CONFIG
    best = depth_on_text_rates.best_rates(depth_on_text_rates.grids(scale="large"))
    return Config(
        conditions=tuple(Condition(*row, rate) for row, rate in best.items()),
        depth=large.depth,
        size=large.size,
    )


REDUCED = {
    "conditions": (Condition("post", 2, 1.0, 1e-3), Condition("pre", 0, 1.0, 1e-3)),
    "depth": 2,
    "size": Size(width=8, heads=2, steps=5, held_out_chunks=64),
}


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Train every condition with all seeds at once; a list of records for each seed."""
    by_condition = [
        train_row(
            config.size,
            condition.wiring,
            config.depth,
            condition.scale,
            condition.warmup,
            [(seed, condition.learning_rate) for seed in seeds],
        )
        for condition in config.conditions
    ]
    return [list(records) for records in zip(*by_condition, strict=True)]


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed."""
    return run_seeds(config, [seed])[0]


def name_of(condition: dict[str, Any]) -> str:
    """What a condition of a saved run is called in figures."""
    warmup = f"warm-up {condition['warmup']}" if condition["warmup"] else "no warm-up"
    return f"{NAMES[condition['wiring']]}, {warmup}, rate {condition['learning_rate']:g}"


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus that of Pre-LN with warm-up, paired by seed."""
    conditions = saved.config["conditions"]
    warm = next(c for c in conditions if c["wiring"] == "pre" and c["warmup"])
    reference = saved.values("test", **warm)
    return {name_of(c): saved.values("test", **c) - reference for c in conditions if c is not warm}


def by_layer(saved: Saved, key: str, step: int, **condition: Any) -> np.ndarray:
    """A profile after ``step`` steps, (seeds, layers): "signal", "gradient" or "matrix"."""
    found = []
    for run_ in saved.runs:
        (record,) = (
            r for r in run_["records"] if all(r[name] == v for name, v in condition.items())
        )
        found.append(record["profiles"][record["steps"].index(step)][key])
    return np.array(found, dtype=np.float64)
