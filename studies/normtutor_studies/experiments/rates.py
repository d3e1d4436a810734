"""The choice of a learning rate, in one place for all experiments."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from normtutor_studies.experiments.records import Saved


def split(saved: Saved, tuning: Sequence[int]) -> tuple[Saved, Saved]:
    """The runs on which a rate is chosen, and the runs on which the choice is reported."""
    chosen = tuple(run for run in saved.runs if run["seed"] in tuning)
    others = tuple(run for run in saved.runs if run["seed"] not in tuning)
    return Saved(saved.name, saved.config, chosen), Saved(saved.name, saved.config, others)


def best_rate(saved: Saved, tuning: Sequence[int], rates: Sequence[float], **where: Any) -> float:
    """The rate with the smallest mean loss over the seeds of ``tuning``.

    A rate at which some seed diverged is never chosen.

    Raises
    ------
    ValueError
        If a seed diverged at every rate.
    """
    losses = losses_by_rate(split(saved, tuning)[0], rates, **where)
    mean = np.where(np.isfinite(losses), losses, np.inf).mean(axis=0)
    if not np.isfinite(mean).any():
        raise ValueError(f"of the rates {tuple(rates)} every one diverged, for {where}.")
    return rates[int(mean.argmin())]


def losses_by_rate(saved: Saved, rates: Sequence[float] | None = None, **where: Any) -> np.ndarray:
    """Losses of one cell, (seeds, rates)."""
    rates = saved.config["rates"] if rates is None else rates
    return np.stack([saved.values("loss", learning_rate=r, **where) for r in rates], axis=1)


def at_best_rate(losses: np.ndarray) -> np.ndarray:
    """Losses (seeds, rates) of each seed at the rate that is best on average over the *others*.

    Choosing a rate on the seeds that are reported would make every model look better, and most so
    the one whose losses scatter most. A run that diverged (NaN) counts as infinitely bad.
    """
    losses = np.where(np.isfinite(losses), losses, np.inf)
    seeds = np.arange(len(losses))
    chosen = [np.delete(losses, seed, axis=0).mean(0).argmin() for seed in seeds]
    return losses[seeds, chosen]
