"""Twelve layers on text, Post-LN and Pre-LN: which learning rates train, by length of the warm-up.

A language model of twelve layers is trained for 1,000 steps with Post-LN and with Pre-LN, without
warm-up and with 300 or 600 steps of it, each with embeddings of several sizes, in factors of four,
and at three learning rates, in factors of 2.5, on one seed. Gradients are not clipped, because
clipping hides what warm-up is for. The best size and rate without warm-up and with 300 steps, by
the validation loss, are what :mod:`normtutor.experiments.depth_on_text` takes on fresh seeds.

Post-LN hardly leaves the loss of a model that knows how often each piece occurs and nothing else.
It comes furthest with embeddings a quarter of the usual size, and with warm-up: 5.77 with 300 steps
and 5.76 with 600. A pilot of twice the width with the usual embeddings (warm-up 300, rate 0.001)
ended at 5.90. Pre-LN learns at every rate and size that was tried, and with embeddings 16 times the
usual size as well without warm-up as with 300 steps of it.

Control: Post-LN could fail because of its rate, its embeddings or the missing warm-up, so each row
has its rates, and at the chosen size the best lies inside; of four sizes of the embeddings the best
lies inside with warm-up, and without it the last step gained 0.01. Pre-LN has the same steps and
sequences, and learns; its larger embeddings gained 0.011 with warm-up and 0.042 without. Post-LN
could fail because a step has 256 tokens, so two rows have 1,024: there it leaves the plateau with
300 steps of warm-up (5.46), and hardly without (5.84), on one seed, at one rate and with embeddings
four times the usual ones, which cost it 0.14 in steps of 256 tokens. The same seed trained beside
other rates ends up to 0.015 elsewhere, by rounding alone. Not checked: a second seed of the grid,
smaller embeddings in larger batches, larger ones than 16 times for Pre-LN, more than 600 steps of
warm-up, and clipping.
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
FINDING = (
    "in 1,000 steps of 256 tokens Post-LN hardly starts, at any rate and with any warm-up tried; "
    "Pre-LN learns"
)
SEEDS = (0,)


@dataclass(frozen=True)
class Row:
    """A wiring, a length of the warm-up and a size of the embeddings, and the rates to try."""

    wiring: str
    warmup: int
    scale: float
    rates: tuple[float, ...]
    batch_size: int | None = None  # None is what all rows have that are compared


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
        Row("pre", 300, 4.0, (1.6e-2, 4e-2, 1e-1)),
        Row("pre", 300, 16.0, (1.6e-2, 4e-2, 1e-1)),
        Row("pre", 0, 4.0, (6.3e-3, 1.6e-2, 4e-2)),
        Row("pre", 0, 16.0, (1.6e-2, 4e-2, 1e-1)),
        Row("pre", 600, 4.0, (1.6e-2, 4e-2, 1e-1)),
        # A control, from which nothing is chosen: four times as many tokens a step.
        Row("post", 300, 4.0, (1e-3,), batch_size=32),
        Row("post", 0, 4.0, (1e-3,), batch_size=32),
    )
)
LARGE_CONFIG = Config(
    rows=tuple(
        Row(wiring, warmup, scale, rates)
        for wiring, scale, rates in (
            ("post", 1 / 4, (1e-4, 2.5e-4, 6.3e-4, 1.6e-3)),
            ("pre", 4.0, (6.3e-4, 1.6e-3, 4e-3, 1e-2)),
        )
        for warmup in (0, 100, 300, 600)
    ),
    depth=24,
    size=LARGE,
)
REDUCED = {
    "rows": (Row("post", 2, 1.0, (1e-3, 4e-3)), Row("pre", 0, 1.0, (1e-3,))),
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
            row.scale,
            row.warmup,
            [(seed, rate) for rate in row.rates],
        )
    ]


def losses(saved: Saved) -> dict[tuple[str, int, float], dict[float, float]]:
    """(wiring, warm-up, size of the embeddings) -> validation loss by rate, mean over the seeds.

    A rate at which one diverged has NaN. Rows with more tokens a step than the others are left out.
    """
    found: dict[tuple[str, int, float], dict[float, float]] = {}
    usual = saved.config["size"]["batch_size"]
    for record in saved.runs[0]["records"]:
        if record["batch_size"] != usual:
            continue
        keys = ("wiring", "warmup", "scale", "learning_rate", "batch_size")
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
