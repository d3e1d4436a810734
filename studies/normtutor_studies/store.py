"""Runs on disk: one file per world, one run per line, and nothing is run twice.

The first line of a file says which settings a run has where its cell does not say otherwise, and
which data it saw. A line with an environment stands before the runs that were made in it.
"""

import json
import math
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

Cell = Mapping[str, Any]
Run = dict[str, Any]

RECORDS = Path(__file__).parent / "records"  # the book's own


@dataclass(frozen=True, eq=False)
class World:
    """A task with its model, or a measurement: how one run is made.

    Parameters
    ----------
    name : str
    train : function
        From settings, a learning rate and a seed to what is recorded: ``loss``, the test loss at
        eight points of the run or at its end, and whatever else is measured.
    settings : mapping
        Every setting of a cell, with its usual value.
    rate : float, optional
        Where the search for a learning rate begins; without it the arms name theirs, or there is
        none.
    fingerprint : function
        What identifies the data.
    unit : str
        Of the loss.
    title : str
        As figures and the ledger call it.
    small : mapping
        Settings with which a test makes a run in a second.
    """

    name: str
    train: Callable[[Cell, Any, int], Run]
    settings: Cell
    rate: float | None = None
    fingerprint: Callable[[], dict[str, str]] = dict
    unit: str = "nats"
    title: str = ""
    small: Cell = field(default_factory=dict)

    def full(self, cell: Cell) -> dict[str, Any]:
        """The settings of a cell, complete.

        Raises
        ------
        KeyError
            If the cell names a setting that this world does not have.
        """
        if unknown := cell.keys() - self.settings.keys():
            raise KeyError(f"{self.name} has no setting {', '.join(sorted(unknown))}.")
        return {**self.settings, **cell}

    def key(self, cell: Cell, rate: float | None, seed: int) -> str:
        """What tells one run of this world from another; usual values do not count."""
        own = {k: v for k, v in self.full(cell).items() if v != self.settings[k]}
        return json.dumps([own, rate, seed], sort_keys=True)


@dataclass
class Store:
    """The runs of one world in one folder."""

    world: World
    folder: Path = RECORDS
    _made_in: str = field(default="", repr=False)

    @property
    def path(self) -> Path:
        return self.folder / f"{self.world.name}.jsonl"

    @cached_property
    def runs(self) -> dict[str, Run]:
        """What is on record, by :meth:`World.key`."""
        found: dict[str, Run] = {}
        if not self.path.exists():
            return found
        environment: dict[str, Any] = {}
        for number, line in enumerate(self.path.read_text("utf-8").splitlines(), start=1):
            try:
                entry = json.loads(line)
            except ValueError as error:
                raise ValueError(
                    f"{self.path.name}, line {number}: damaged ({error}). Delete the line; the "
                    "run is then made anew by `python -m normtutor_studies run`."
                ) from error
            if "settings" in entry:
                self._check(entry)
            elif "environment" in entry:
                environment = entry["environment"]
            else:
                key = self.world.key(entry["cell"], entry["rate"], entry["seed"])
                found[key] = {**entry, "environment": environment}
        return found

    @property
    def data(self) -> dict[str, str]:
        """What identified the data when the first run was made."""
        with self.path.open(encoding="utf-8") as lines:
            return json.loads(lines.readline())["data"]

    def _check(self, header: dict[str, Any]) -> None:
        usual = json.loads(json.dumps(dict(self.world.settings)))
        if header["settings"] != usual:
            both = header["settings"].keys() | usual.keys()
            other = [k for k in sorted(both) if header["settings"].get(k) != usual.get(k)]
            raise ValueError(
                f"{self.path.name} was made with other settings of {', '.join(other)}. Set them "
                "back, or move the file away and run the studies of this world again."
            )

    def get(self, cell: Cell, rate: float | None, seed: int) -> Run | None:
        """A run on record, or None."""
        return self.runs.get(self.world.key(cell, rate, seed))

    def made(self, cell: Cell, rate: float | None, seed: int) -> Run:
        """A run: from the record, or made now and put there before it is returned."""
        if (run := self.get(cell, rate, seed)) is not None:
            return run
        before = time.process_time()
        values = self.world.train(self.world.full(cell), rate, seed)
        run = {"cell": dict(cell), "rate": rate, "seed": seed}
        run |= {"seconds": round(time.process_time() - before, 1), **_plain(values)}
        self._append(run)
        run = {**run, "environment": _environment()}
        self.runs[self.world.key(cell, rate, seed)] = run
        return run

    def _append(self, run: Run) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = []
        if not self.path.exists():
            lines.append({"settings": dict(self.world.settings), "data": self.world.fingerprint()})
        here = _environment()
        if self._made_in != (said := json.dumps(here)):
            lines.append({"environment": here})
            self._made_in = said
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in [*lines, run])
        # One write at the end of a file: other processes may append to it, too.
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


def _plain(value: Any, digits: int = 5) -> Any:
    """Numbers to a few digits; what is not finite becomes null."""
    if isinstance(value, Mapping):
        return {key: _plain(entry, digits) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry, digits) for entry in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    return value


def _environment() -> dict[str, str]:
    """Versions and processor; nothing that tells whose machine it was."""
    versions = {package: metadata.version(package) for package in ("torch", "numpy", "normtutor")}
    return {"Python": platform.python_version(), **versions, "processor": processor()}


def processor() -> str:
    """The processor's model; no name of a machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    found = {key.strip(): value.strip() for key, value in named.items()}
    return f"{found.get('model name', platform.machine())}, family {found.get('cpu family', '?')}"
