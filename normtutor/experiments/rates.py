"""The choice of a learning rate from a saved grid, in one place for all experiments."""

import math
from typing import Any

from normtutor.experiments.records import Saved


def best_rates(saved: Saved) -> dict[tuple[Any, ...], float]:
    """Each condition apart from its rate -> the rate with the smallest mean loss over the seeds.

    A rate at which some seed diverged, so that a loss is missing, is never chosen; a condition that
    diverged at every rate has no entry.

    >>> conditions = [{"norm": "rms", "learning_rate": rate} for rate in (1.0, 2.0, 4.0)]
    >>> losses = (math.nan, 0.7, 0.5)
    >>> records = [{**c, "loss": loss} for c, loss in zip(conditions, losses)]
    >>> best_rates(Saved("grid", {"conditions": conditions}, ({"seed": 0, "records": records},)))
    {('rms',): 4.0}
    """
    tried: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    for condition in saved.config["conditions"]:
        loss = float(saved.values("loss", **condition).mean())
        if math.isnan(loss):
            continue
        cell = tuple(value for key, value in condition.items() if key != "learning_rate")
        tried.setdefault(cell, []).append((loss, condition["learning_rate"]))
    return {cell: min(outcomes)[1] for cell, outcomes in tried.items()}
