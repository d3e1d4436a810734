"""The choice of a learning rate, in one place for all experiments."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from normtutor_studies.experiments.records import Saved


def split(saved: Saved, tuning: Sequence[int]) -> tuple[Saved, Saved]:
    """The runs on which a rate is chosen, and the runs on which the choice is reported."""
    chosen = tuple(run for run in saved.runs if run["seed"] in tuning)
    others = tuple(run for run in saved.runs if run["seed"] not in tuning)
    return Saved(saved.name, saved.config, chosen), Saved(saved.name, saved.config, others)


def tried(
    conditions: Iterable[Any],
    seeds: Sequence[int],
    train: Callable[[str, list[tuple[int, float]]], Iterable[tuple[bool, float | None]]],
) -> list[list[dict[str, Any]]]:
    """Train each norm of the conditions at all its rates with all seeds at once; records by seed.

    ``train`` takes a norm and pairs of a seed and a rate, and says of each whether it diverged, and
    its loss on the validation part.
    """
    records: dict[int, list[dict[str, Any]]] = {seed: [] for seed in seeds}
    rates: dict[str, list[float]] = {}
    for condition in conditions:
        rates.setdefault(condition.norm, []).append(condition.learning_rate)
    for norm, of_norm in rates.items():
        runs = [(seed, rate) for seed in seeds for rate in of_norm]
        for (seed, rate), (diverged, loss) in zip(runs, train(norm, runs), strict=True):
            records[seed].append(
                {"norm": norm, "learning_rate": rate, "diverged": diverged, "loss": loss}
            )
    return list(records.values())


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


def best_rates(saved: Saved, key: str = "loss") -> dict[tuple[Any, ...], float]:
    """Each condition apart from its rate -> the rate with the smallest mean loss over the seeds.

    ``key`` names the loss in the records. A condition that diverged at every rate has no entry.

    >>> conditions = [{"norm": "rms", "learning_rate": rate} for rate in (1.0, 2.0, 4.0)]
    >>> losses = (math.nan, 0.7, 0.5)
    >>> records = [{**c, "loss": loss} for c, loss in zip(conditions, losses)]
    >>> best_rates(Saved("grid", {"conditions": conditions}, ({"seed": 0, "records": records},)))
    {('rms',): 4.0}
    """
    tried: dict[tuple[Any, ...], dict[float, Iterable[float | None]]] = {}
    for condition in saved.config["conditions"]:
        cell = tuple(value for key, value in condition.items() if key != "learning_rate")
        losses = saved.values(key, **condition)
        tried.setdefault(cell, {})[condition["learning_rate"]] = losses
    chosen = {cell: smallest(losses) for cell, losses in tried.items()}
    return {cell: rate for cell, rate in chosen.items() if rate is not None}


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
