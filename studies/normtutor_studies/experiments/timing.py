"""What an experiment will cost on this machine, from a few steps of each of its cells.

A large run is timed before it is started. Each cell of the configuration is run twice, for a few
steps; the difference gives the seconds a step, and the rest is what it costs to build, to compile
and to score. The command line prints it:

.. code-block:: sh

    python -m normtutor_studies.experiments time text_stability_rates --scale large --device cuda
"""

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from normtutor.training import on_device
from normtutor_studies.experiments.records import configuration, module_of

#: Fields of a configuration that list what is run one after the other.
LISTS = ("conditions", "cells", "rows", "builds", "depths")
STEPS = (2, 6)


class Cost(NamedTuple):
    """A part of an experiment and how long one seed of it takes, in seconds."""

    part: str
    seconds: float


def parts(config: Any) -> Iterator[tuple[str, Any]]:
    """Cut a configuration into cells: a name, and the same configuration with that cell alone."""
    lists = [name for name in LISTS if getattr(config, name, ())]
    for chosen in itertools.product(*(getattr(config, name) for name in lists)):
        single = {name: (entry,) for name, entry in zip(lists, chosen, strict=True)}
        yield ", ".join(map(_in_words, chosen)), dataclasses.replace(config, **single)


def _in_words(entry: Any) -> str:
    if not dataclasses.is_dataclass(entry):
        return str(entry)
    return " ".join(f"{key}={value}" for key, value in vars(entry).items())


def shortened(config: Any, steps: int) -> Any:
    """The same configuration with as many steps."""
    size = getattr(config, "size", config)
    if not hasattr(size, "steps"):
        raise ValueError("this experiment is not counted in steps of training; run one seed of it.")
    changed = {"steps": steps}
    if hasattr(size, "warmup"):
        changed["warmup"] = min(size.warmup, steps)
    size = dataclasses.replace(size, **changed)
    return dataclasses.replace(config, size=size) if hasattr(config, "size") else size


def full_cost(few: float, more: float, steps: int) -> float:
    """Seconds of a run of ``steps``, from those of the two short runs of ``STEPS``."""
    a_step = max(0.0, more - few) / (STEPS[1] - STEPS[0])
    return few + a_step * (steps - STEPS[0])


def estimate(
    name: str,
    scale: str = "small",
    *,
    device: str = "cpu",
    only: str = "",
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Cost]:
    """Time each cell whose name contains ``only``, and say what one seed of it will take.

    Raises
    ------
    ValueError
        If the experiment is not counted in steps, or if no cell has that name.
    """
    module, config = module_of(name), configuration(name, scale)
    steps = getattr(config, "size", config)
    shortened(config, STEPS[0])  # refuses what has no steps
    chosen = [(part, cell) for part, cell in parts(config) if only in part]
    if not chosen:
        raise ValueError(
            f"no cell of {name!r} contains {only!r}; there are: "
            + "; ".join(part for part, _ in parts(config))
        )
    with on_device(device):
        for part, cell in chosen:
            taken = []
            for few in (STEPS[0], *STEPS):  # the first run warms up
                started = clock()
                module.run(shortened(cell, few), module.SEEDS[0])
                taken.append(clock() - started)
            yield Cost(part, full_cost(taken[1], taken[2], steps.steps))
