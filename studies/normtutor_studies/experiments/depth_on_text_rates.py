"""Twelve layers on text with Post-LN: which learning rates train, by length of the warm-up.

A language model of twelve layers is trained for 1,000 steps with Post-LN, without warm-up and with
300 or 600 steps of it, each with embeddings of one size or more, in factors of four, and at three
learning rates, in factors of 2.5, on one seed. Pre-LN has a module of its own
(:mod:`normtutor_studies.experiments.depth_on_text_rates_pre`), so that neither takes more than twenty
minutes; ``grids`` puts the two together. Gradients are not clipped, because clipping hides what
warm-up is for. The best size and rate without warm-up and with 300 steps, by the validation loss,
are what :mod:`normtutor_studies.experiments.depth_on_text` takes on fresh seeds.

Post-LN hardly leaves the loss of a model that knows how often each piece occurs and nothing else.
It comes furthest with embeddings a quarter of the usual size, and with warm-up: 5.78 with 300 steps
and 5.75 with 600.

Control: Post-LN could fail because of its rate, its embeddings or the missing warm-up, so each row
has its rates, and at the chosen size the best lies inside; of four sizes of the embeddings the best
lies inside with warm-up, and without it the last step gained 0.015. Pre-LN has the same steps and
sequences, and learns. Post-LN could fail because a step has 256 tokens, so a control has four times
as many (:mod:`normtutor_studies.experiments.post_ln_larger_batches`). On another processor, not on record,
rounding alone moved the chosen cells by at most 0.016 and others by up to 0.09, and the same were
chosen. Not checked: a second seed of the grid, more than 600 steps of warm-up, and clipping.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from normtutor_studies.experiments.package_chunks import LARGE, Size, fingerprint
from normtutor_studies.experiments.rates import joined
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.text_profiles import train_row

__all__ = ["CONFIG", "LARGE_CONFIG", "SEEDS", "Row", "best_rates", "fingerprint", "grids", "run"]

CHAPTER = "07_pre_ln_and_post_ln"
FIGURE = "none: it chooses the learning rates of depth_on_text"
FINDING = "in 1,000 steps of 256 tokens Post-LN hardly starts, at any rate or warm-up tried"
SEEDS = (0,)


@dataclass(frozen=True)
class Row:
    """A wiring, a length of the warm-up and a size of the embeddings, and the rates to try."""

    wiring: str
    warmup: int
    scale: float
    rates: tuple[float, ...]


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    rows: tuple[Row, ...]
    depth: int = 12
    size: Size = field(default_factory=lambda: Size(steps=1000))


CONFIG = Config(
    rows=(
        Row("post", 300, 4.0, (4e-4, 1e-3, 2.5e-3)),
        Row("post", 300, 1.0, (4e-4, 1e-3, 2.5e-3)),
        Row("post", 300, 1 / 4, (4e-4, 1e-3, 2.5e-3)),
        Row("post", 300, 1 / 16, (4e-4, 1e-3, 2.5e-3)),
        Row("post", 0, 4.0, (4e-4, 1e-3, 2.5e-3)),
        Row("post", 0, 1.0, (4e-4, 1e-3, 2.5e-3)),
        Row("post", 0, 1 / 4, (4e-4, 1e-3, 2.5e-3)),
        Row("post", 600, 1 / 4, (4e-4, 1e-3, 2.5e-3)),
    )
)
LARGE_CONFIG = Config(
    rows=tuple(
        Row("post", warmup, 1 / 4, (1e-4, 2.5e-4, 6.3e-4, 1.6e-3)) for warmup in (0, 100, 300, 600)
    ),
    depth=24,
    size=LARGE,
)
REDUCED = {
    "rows": (Row("post", 2, 1.0, (1e-3, 4e-3)),),
    "size": Size(width=8, heads=2, steps=5, held_out_chunks=64),
}


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every row at its rates with this seed."""
    return [
        record
        for row in config.rows
        for record in train_row(
            config.size,
            row.wiring,
            config.depth,
            row.scale,
            row.warmup,
            [(seed, rate) for rate in row.rates],
        )
    ]


def grids(scale: str = "small") -> Saved:
    """The grids of both wirings as one."""
    return joined("depth_on_text_rates", "depth_on_text_rates_pre", scale=scale)


def losses(saved: Saved) -> dict[tuple[str, int, float], dict[float, float]]:
    """(wiring, warm-up, size of the embeddings) -> validation loss by rate, mean over the seeds.

    A rate at which one diverged has NaN.
    """
    found: dict[tuple[str, int, float], dict[float, float]] = {}
    for record in saved.runs[0]["records"]:
        keys = ("wiring", "warmup", "scale", "learning_rate")
        cell = {key: record[key] for key in keys}
        row = record["wiring"], record["warmup"], record["scale"]
        by_rate = found.setdefault(row, {})
        by_rate[record["learning_rate"]] = float(saved.values("validation", **cell).mean())
    return found


def best_rates(saved: Saved) -> dict[tuple[str, int, float], float]:
    """(wiring, warm-up, size) -> rate with the smallest validation loss, at the best size."""
    lowest: dict[tuple[str, int], tuple[float, float, float]] = {}
    for (wiring, warmup, scale), by_rate in losses(saved).items():
        for rate, loss in by_rate.items():
            if not np.isnan(loss):
                found = loss, scale, rate
                lowest[wiring, warmup] = min(found, lowest.get((wiring, warmup), found))
    return {(*row, scale): rate for row, (_, scale, rate) in lowest.items()}
