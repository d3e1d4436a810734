"""Twelve layers on text, Post-LN and Pre-LN: which learning rates train, by length of the warm-up.

A language model of twelve layers is trained for 1,000 steps with Post-LN and with Pre-LN, without
warm-up and with 300 or 600 steps of it, each at three or four learning rates, in factors of 2.5, on
one seed. Gradients are not clipped, because clipping hides what warm-up is for. The best rate of
the rows without warm-up and with 300 steps, by the validation loss, is what
:mod:`normtutor.experiments.depth_on_text` takes on fresh seeds.

Post-LN stays near the loss of a model that knows how often each piece occurs and nothing else, at
every rate, with every warm-up. A pilot of twice the width with the usual embeddings (warm-up 300,
rate 0.001) did not leave it either: 5.90. Pre-LN learns at every rate, best with 300 steps.

Control: Post-LN could fail because of its rate or because of the missing warm-up, so each row has
its rates, and all best ones lie inside; Pre-LN has the same steps, sequences and embeddings, and
learns. The embeddings are four times as large as usual, which suits Pre-LN best on a million tokens
(:mod:`normtutor.experiments.more_tokens_rates`) but is too small for it in 300 steps; they cost
Post-LN 0.2 nats with two and with six layers, at rate 0.0063
(:mod:`normtutor.experiments.text_stability_rates`). It could fail because a step has 256 tokens, so
two rows have 1,024: there it does leave the plateau with 300 steps of warm-up (5.46), and hardly
without (5.84), on one seed and at one rate. Post-LN's longest warm-up is its best one, by 0.02, on
the plateau. Not checked: a second seed of the grid, ordinary embeddings in 1,000 steps, more than
600 steps of warm-up, and clipping.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from normtutor.experiments.package_chunks import LARGE, Size, fingerprint
from normtutor.experiments.records import Saved
from normtutor.experiments.text_profiles import train_row

__all__ = ["CONFIG", "LARGE_CONFIG", "SEEDS", "Row", "best_rates", "fingerprint", "run"]

CHAPTER = "07_pre_ln_and_post_ln"
FIGURE = "none: it chooses the learning rates of depth_on_text"
FINDING = "in 1,000 steps of 256 tokens Post-LN starts with no rate and no warm-up; Pre-LN learns"
SEEDS = (0,)


@dataclass(frozen=True)
class Row:
    """A wiring with a length of the warm-up, and the rates that are tried."""

    wiring: str
    warmup: int
    rates: tuple[float, ...]
    batch_size: int | None = None  # None is what all rows have that are compared


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    rows: tuple[Row, ...]
    depth: int = 12
    scale: float = 4.0
    size: Size = field(default_factory=lambda: Size(steps=1000))


CONFIG = Config(
    rows=(
        Row("post", 300, (4e-4, 1e-3, 2.5e-3)),
        Row("post", 0, (1.6e-4, 4e-4, 1e-3, 2.5e-3)),
        Row("post", 600, (4e-4, 1e-3, 2.5e-3)),
        Row("pre", 300, (6.3e-3, 1.6e-2, 4e-2, 1e-1)),
        Row("pre", 0, (6.3e-3, 1.6e-2, 4e-2)),
        Row("pre", 600, (1.6e-2, 4e-2, 1e-1)),
        # A control, from which no rate is chosen: four times as many tokens a step.
        Row("post", 300, (1e-3,), batch_size=32),
        Row("post", 0, (1e-3,), batch_size=32),
    )
)
LARGE_CONFIG = Config(
    rows=tuple(
        Row(wiring, warmup, rates)
        for wiring, rates in (
            ("post", (1e-4, 2.5e-4, 6.3e-4, 1.6e-3)),
            ("pre", (6.3e-4, 1.6e-3, 4e-3, 1e-2)),
        )
        for warmup in (0, 100, 300, 600)
    ),
    depth=24,
    size=LARGE,
)
REDUCED = {
    "rows": (Row("post", 2, (1e-3, 4e-3)), Row("pre", 0, (1e-3,))),
    "size": Size(width=8, heads=2, steps=5, held_out_chunks=64),
}


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every row at its rates with this seed."""
    return [
        {"batch_size": size.batch_size, **record}
        for row in config.rows
        for size in [
            dataclasses.replace(config.size, batch_size=row.batch_size or config.size.batch_size)
        ]
        for record in train_row(
            size,
            row.wiring,
            config.depth,
            config.scale,
            row.warmup,
            [(seed, rate) for rate in row.rates],
        )
    ]


def losses(saved: Saved) -> dict[tuple[str, int], dict[float, float]]:
    """(wiring, warm-up) -> validation loss by rate, mean over the seeds; NaN if one diverged.

    Rows with more tokens a step than the others are left out.
    """
    found: dict[tuple[str, int], dict[float, float]] = {}
    usual = saved.config["size"]["batch_size"]
    for record in saved.runs[0]["records"]:
        if record["batch_size"] != usual:
            continue
        keys = ("wiring", "warmup", "learning_rate", "batch_size")
        cell = {key: record[key] for key in keys}
        by_rate = found.setdefault((record["wiring"], record["warmup"]), {})
        by_rate[record["learning_rate"]] = float(saved.values("validation", **cell).mean())
    return found


def best_rates(saved: Saved) -> dict[tuple[str, int], float]:
    """(wiring, warm-up) -> the rate with the smallest validation loss."""
    return {
        cell: min(
            (rate for rate, loss in by_rate.items() if not np.isnan(loss)),
            key=lambda rate: by_rate[rate],
        )
        for cell, by_rate in losses(saved).items()
    }
