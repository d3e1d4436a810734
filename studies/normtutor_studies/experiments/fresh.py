"""Whether a seed that is not on record falls where those on record say it should.

A record is a claim about the next seed. For each row of an experiment's figure the seeds on record
give an interval in which another one lies with probability 95 %, if the seeds scatter normally; one
row in twenty is expected outside. The command line runs a seed and compares:

.. code-block:: sh

    python -m normtutor_studies.experiments again company --seed 40
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from normtutor_studies.experiments.records import (
    Saved,
    load,
    module_of,
    run_experiment,
)


class Row(NamedTuple):
    """A row of a figure: what a fresh seed gives, and where it was expected."""

    name: str
    value: float
    low: float
    high: float

    @property
    def inside(self) -> bool:
        return self.low <= self.value <= self.high


def expected(values: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The prediction interval for one more value, by Student's t.

    >>> low, high = expected(np.array([1.0, 2.0, 3.0]))
    >>> round(low, 2), round(high, 2)
    (-2.97, 6.97)
    """
    n = len(values)
    if n < 2:
        raise ValueError("one seed says nothing about the spread.")
    half = stats.t.ppf((1 + level) / 2, n - 1) * values.std(ddof=1) * math.sqrt(1 + 1 / n)
    return float(values.mean() - half), float(values.mean() + half)


def compare(saved: Saved, fresh: dict[str, Any]) -> list[Row]:
    """The rows of an experiment's figure for one fresh seed, beside what was expected of it.

    Where rates are chosen on the other seeds, or on seeds of their own, the fresh one takes what
    those on record choose.
    """
    module: Any = module_of(saved.name)
    of_record = module.rows(saved)
    of_all = module.rows(Saved(saved.name, saved.config, (*saved.runs, fresh)))
    found = []
    for name, values in of_record.items():
        if np.ndim(values) == 1:
            low, high = expected(np.asarray(values))
            found.append(Row(name, float(of_all[name][-1]), low, high))
    return found


def run_again(name: str, seed: int, directory: Path) -> list[Row]:
    """Run a seed that is not on record, and compare it with those that are.

    Raises
    ------
    ValueError
        If the seed is on record, or if the experiment has no figure of its own to compare.
    """
    saved = load(name)
    if seed in saved.seeds:
        raise ValueError(f"seed {seed} is on record; take one that is not: {saved.seeds} are.")
    if not hasattr(module_of(name), "rows"):
        raise ValueError(f"{name!r} chooses settings and compares nothing.")
    config = module_of(name).CONFIG
    run = run_experiment(name, seeds=[seed], config=config, jobs=1, directory=directory)
    (fresh,) = (found for found in run.runs if found["seed"] == seed)
    return compare(saved, fresh)
