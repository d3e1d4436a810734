"""A study: arms that are trained alike, each at its own best learning rate, in its worlds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from normtutor_studies.store import RECORDS, Cell, Run, Store, World

SEEDS = (0, 1, 2, 3, 4)  # those that are reported
TUNING = (90, 91)  # those on which rates are chosen
FACTOR = 2.0  # between two learning rates
MOST = 8  # steps of the search in one direction

STUDIES: dict[str, "Study"] = {}


def grid(**axes: Any) -> list[dict[str, Any]]:
    """Every combination of the axes that are lists; what is no list is the same in all.

    >>> grid(norm=["layer", "rms"], depth=6)
    [{'norm': 'layer', 'depth': 6}, {'norm': 'rms', 'depth': 6}]
    """
    lists = [value if isinstance(value, list) else [value] for value in axes.values()]
    return [dict(zip(axes, values, strict=True)) for values in product(*lists)]


class Effect(NamedTuple):
    """A difference, one number per seed, read twice in the same runs."""

    half: np.ndarray
    full: np.ndarray

    @property
    def sign(self) -> int:
        """1 or -1 if all seeds agree at half and at full length, else 0."""
        both = np.concatenate([self.half, self.full])
        return int((both > 0).all()) - int((both < 0).all())


@dataclass(frozen=True)
class Study:
    """One question, and everything that answers it.

    Parameters
    ----------
    name, question : str
    chapter : int
    predicts : mapping
        From each explanation to what it says will be seen; written before the first run.
    arms : mapping
        From a label to a cell. An arm that names a ``rate`` has that one; for any other the best
        rate is searched on the tuning seeds.
    worlds : sequence of World
    control : str
        What else could explain the result, and what was done about it.
    pairs : sequence of pairs of str
        The comparisons that the question asks for: an arm, and the one that it is held against.
    rows : mapping
        Named quantities: functions of the study that return one number per seed. Pages, figures
        and the ledger read them by name. Losses and their differences need none; see :meth:`row`.
    finding : str
        What was found, in words, where something was.
    holds : function
        Whether the record bears the finding out.
    rates : sequence of float
        Learning rates of which each is tried on the tuning seeds, in place of the search.
    seeds, tuning : sequences of int
    folder : path
        Where its runs are; by default the book's own record.
    """

    name: str
    chapter: int
    question: str
    arms: Mapping[str, Cell]
    worlds: Sequence[World]
    control: str
    predicts: Mapping[str, str] = field(default_factory=dict)
    pairs: Sequence[tuple[str, str]] = ()
    rows: Mapping[str, Callable[["Study"], np.ndarray]] = field(default_factory=dict)
    finding: str = ""
    holds: Callable[["Study"], bool] | None = None
    rates: Sequence[float] = ()
    seeds: Sequence[int] = SEEDS
    tuning: Sequence[int] = TUNING
    folder: Path = RECORDS

    def __post_init__(self) -> None:
        if STUDIES.setdefault(self.name, self).question != self.question:
            raise ValueError(f"there are two studies called {self.name!r}.")
        for world, (_, cell) in product(self.worlds, self.arms.items()):
            world.full(without_rate(cell))
        if unknown := {label for pair in self.pairs for label in pair} - self.arms.keys():
            raise ValueError(f"{self.name} has no arm {', '.join(sorted(unknown))}.")

    @cached_property
    def stores(self) -> dict[str, Store]:
        """The runs of each world."""
        return {world.name: store_of(world, self.folder) for world in self.worlds}

    # --- making runs

    def run(self, world: str | None = None) -> Iterator[Run]:
        """Make what is missing, and yield each run, new or old.

        The first world is run, and the next only where the first leaves something to confirm; see
        :meth:`settled`. A ``world`` that is named is run in any case.
        """
        for name, store in self.stores.items():
            if world not in (None, name) or (world is None and self.settled()):
                continue
            for cell in self.arms.values():
                rate = self.rate_in(store, cell, Store.made)
                for seed in self.seeds:
                    yield store.made(without_rate(cell), rate, seed)

    def rate(self, world: str, label: str) -> float | None:
        """The learning rate of an arm on record; see :meth:`rate_in`."""
        return self.rate_in(self.stores[world], self.arms[label])

    def rate_in(
        self,
        store: Store,
        cell: Cell,
        get: Callable[[Store, Cell, float | None, int], Run | None] = Store.get,
    ) -> float | None:
        """The learning rate of a cell: its own, or the best one on the tuning seeds.

        None in a world that has no rate to search for.

        Raises
        ------
        LookupError
            If the search is not on record.
        """
        if "rate" in cell:
            return float(cell["rate"])

        def loss(rate: float) -> float:
            runs = [get(store, cell, rate, seed) for seed in self.tuning]
            if None in runs:
                raise LookupError(
                    f"{self.name}: {dict(cell)} at rate {rate:g} in {store.world.name} is not on "
                    "record. Make it: "
                    f"python -m normtutor_studies run {self.name}"
                )
            return float(np.mean([final(run) for run in runs if run is not None]))

        if self.rates:
            return min(self.rates, key=loss)
        return None if store.world.rate is None else search(loss, store.world.rate)

    def on_record(self) -> list[str]:
        """The worlds of which every run is on record."""
        return [world for world in self.stores if self._has(world)]

    def _has(self, world: str) -> bool:
        try:
            for label in self.arms:
                self.runs(world, label)
        except LookupError:
            return False
        return True

    def settled(self) -> bool:
        """Whether a world on record shows no sign in any comparison: none can enter a main line."""
        return bool(self.pairs) and any(
            all(self.effect(world, *pair).sign == 0 for pair in self.pairs)
            for world in self.on_record()
        )

    def complete(self) -> bool:
        """Whether the question is answered as far as it is going to be."""
        return self.settled() or len(self.on_record()) == len(self.stores)

    # --- reading runs

    def runs(self, world: str, label: str) -> list[Run]:
        """The runs of an arm, one per seed.

        Raises
        ------
        LookupError
            If one of them is not on record.
        """
        rate, cell = self.rate(world, label), without_rate(self.arms[label])
        runs = [self.stores[world].get(cell, rate, seed) for seed in self.seeds]
        if None in runs:
            raise LookupError(
                f"{self.name}: not all seeds of {label} in {world} are on record. Make them: "
                f"python -m normtutor_studies run {self.name}"
            )
        return [run for run in runs if run is not None]

    def values(self, world: str, label: str, key: str) -> np.ndarray:
        """What was recorded under ``key``, first axis the seeds; NaN where a run diverged."""
        return np.array([run[key] for run in self.runs(world, label)], dtype=float)

    @property
    def settings(self) -> Cell:
        """What holds in all arms that do not say otherwise; of the first world."""
        return self.worlds[0].settings

    def arms_with(self, **settings: Any) -> dict[str, dict[str, Any]]:
        """The arms that have these settings, ``rate`` among them, each with all of its own."""
        full = {label: {**self.settings, **cell} for label, cell in self.arms.items()}
        return {label: cell for label, cell in full.items() if settings.items() <= cell.items()}

    def choices(self, setting: str, **settings: Any) -> list[Any]:
        """The values that a setting has in the arms with these settings, in their order."""
        cells = self.arms_with(**settings).values()
        return list(dict.fromkeys(cell[setting] for cell in cells))

    def read(self, key: str, **settings: Any) -> np.ndarray:
        """What the one arm with these settings recorded under ``key``, first axis the seeds.

        Raises
        ------
        LookupError
            If no arm has them, or several.
        """
        found = list(self.arms_with(**settings))
        if len(found) != 1:
            raise LookupError(
                f"one arm of {self.name} must have the settings {settings}; "
                f"{', '.join(found[:3]) or 'none'} {'have' if len(found) > 1 else 'has'} them."
            )
        return self.values(self.worlds[0].name, found[0], key)

    def across(self, setting: str, key: str = "loss", **settings: Any) -> np.ndarray:
        """``key`` of the arms with these settings, by another one: (seeds, its choices, ...)."""
        arms = [
            self.read(key, **{setting: value}, **settings)
            for value in self.choices(setting, **settings)
        ]
        return np.stack(arms, axis=1)

    def final(self, world: str, label: str) -> np.ndarray:
        """The loss at the end, one number per seed; infinite where a run diverged."""
        return np.array([final(run) for run in self.runs(world, label)])

    def effect(self, world: str, label: str, against: str, key: str = "loss") -> Effect:
        """An arm minus another, paired by seed: positive where ``label`` has more of it."""
        difference = self.values(world, label, key) - self.values(world, against, key)
        if difference.ndim == 1:  # measured once, at the end
            return Effect(difference, difference)
        return Effect(difference[:, difference.shape[1] // 2 - 1], difference[:, -1])

    def row(self, name: str) -> np.ndarray:
        """A named quantity, one number per seed.

        Beside :attr:`rows` there are "WORLD: ARM", the test loss at the end, and
        "WORLD: ARM - ARM", the difference of two.

        Raises
        ------
        KeyError
            If this study has no such row.
        """
        if name in self.rows:
            return np.asarray(self.rows[name](self), dtype=float)
        world, _, arms = name.partition(": ")
        label, _, against = arms.partition(" - ")
        if world in self.stores and label in self.arms and against in ("", *self.arms):
            return self.effect(world, label, against).full if against else self.final(world, label)
        raise KeyError(
            f"{self.name} has no row {name!r}; it has {', '.join(self.rows) or 'none'}, and "
            f"'WORLD: ARM' or 'WORLD: ARM - ARM' with {', '.join(self.stores)} and "
            f"{', '.join(self.arms)}."
        )

    def enters(self, label: str, against: str) -> bool:
        """Whether a difference may stand in a main line: one sign, everywhere.

        Raises
        ------
        LookupError
            If a world that could bear it out is not on record.
        """
        signs = {self.effect(world, label, against).sign for world in self.on_record()}
        if 0 in signs or len(signs) > 1:
            return False
        return {self.effect(world, label, against).sign for world in self.stores} == signs


@cache
def store_of(world: World, folder: Path) -> Store:
    """The runs of a world in a folder: one store, whatever the study."""
    return Store(world, folder)


def without_rate(cell: Cell) -> dict[str, Any]:
    return {key: value for key, value in cell.items() if key != "rate"}


def final(run: Run) -> float:
    """The last test loss of a run; infinite if it diverged."""
    loss = run["loss"][-1] if isinstance(run["loss"], list) else run["loss"]
    return float("inf") if run.get("diverged") or loss is None else loss


def at_best_rate(losses: np.ndarray) -> np.ndarray:
    """Losses (seeds, rates) of each seed at the rate that is best on average over the *others*.

    Choosing a rate on the seeds that are reported would make every model look better, and most so
    the one whose losses scatter most. A run that diverged (NaN) counts as infinitely bad.
    """
    losses = np.where(np.isfinite(losses), losses, np.inf)
    seeds = np.arange(len(losses))
    chosen = [np.delete(losses, seed, axis=0).mean(0).argmin() for seed in seeds]
    return losses[seeds, chosen]


def search(loss: Callable[[float], float], start: float) -> float:
    """The best of rates a factor of two apart, with a worse one tried on both sides.

    >>> search(lambda rate: (rate - 3e-3) ** 2, 8e-3)
    0.004
    """
    found = {0: loss(start)}
    while True:
        best = min(found, key=found.__getitem__)
        missing = [step for step in (best - 1, best + 1) if step not in found]
        if not missing:
            return _rate(start, best)
        if abs(missing[0]) > MOST:
            raise ValueError(f"no best rate between {_rate(start, -MOST)} and {_rate(start, MOST)}")
        found[missing[0]] = loss(_rate(start, missing[0]))


def _rate(start: float, step: int) -> float:
    return float(f"{start * FACTOR**step:.6g}")
