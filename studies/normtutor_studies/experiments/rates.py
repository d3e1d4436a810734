"""The choice of a learning rate, in one place for all experiments."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from normtutor_studies.experiments.records import Saved


def split(saved: Saved, tuning: Sequence[int]) -> tuple[Saved, Saved]:
    """The runs on which a rate is chosen, and the runs on which the choice is reported."""
    chosen = tuple(run for run in saved.runs if run["seed"] in tuning)
    others = tuple(run for run in saved.runs if run["seed"] not in tuning)
    return Saved(saved.name, saved.config, chosen), Saved(saved.name, saved.config, others)


def smallest(losses: Mapping[float, Iterable[float | None]]) -> float | None:
    """The rate with the smallest mean loss over the seeds; of two that are equal, the smaller.

    A rate at which some seed diverged, so that a loss is missing or not finite, is never chosen;
    where every rate diverged, none is.

    >>> smallest({0.1: [0.7, 0.8], 0.2: [0.6, 0.7], 0.4: [0.1, None]})
    0.2
    """
    means = {}
    for rate, found in losses.items():
        values = [math.nan if loss is None else float(loss) for loss in found]
        if values and all(map(math.isfinite, values)):
            means[rate] = math.fsum(values) / len(values)
    return min(means, key=lambda rate: (means[rate], rate), default=None)


def best_rate(
    saved: Saved,
    tuning: Sequence[int],
    rates: Sequence[float],
    key: str = "validation_loss",
    **where: Any,
) -> float:
    """The rate with the smallest mean of ``key`` over the seeds of ``tuning``.

    Raises
    ------
    ValueError
        If a seed diverged at every rate.
    """
    runs, _ = split(saved, tuning)
    rate = smallest({rate: runs.values(key, rate=rate, **where) for rate in rates})
    if rate is None:
        raise ValueError(f"of the rates {tuple(rates)} every one diverged, for {where}.")
    return rate
