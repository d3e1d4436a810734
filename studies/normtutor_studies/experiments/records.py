"""Run an experiment seed by seed, save what comes out, and load it again.

A saved file says everything that is needed to judge or repeat it: the configuration, and for each
seed the records, the wall and CPU time, the versions of Python and the packages, the processor, and
the fingerprint of the data. It names no machine and no path.
"""

import importlib
import inspect
import json
import math
import os
import platform
import re
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from normtutor_studies.store import processor

Record = dict[str, Any]
Config = SimpleNamespace  # all settings of an experiment, by name

# The book's saved runs, which come with the package.
RESULTS = Path(__file__).resolve().parents[1] / "results"
#: Where runs of one's own are saved, below the working directory.
RUNS = Path("runs")


def short(value: float, digits: int = 4) -> float:
    """``value`` to a few significant digits, so that a saved file stays small.

    >>> short(0.123456)
    0.1235
    """
    return float(f"{value:.{digits}g}")


@cache
def names() -> tuple[str, ...]:
    """Name the experiments: the modules of this package that state their ``SEEDS``.

    Only what is asked for is imported: a chapter that loads one run depends on one.
    """
    modules = sorted(Path(__file__).parent.glob("[a-z]*.py"))
    return tuple(p.stem for p in modules if re.search(r"^SEEDS = ", p.read_text("utf-8"), re.M))


def module_of(name: str) -> ModuleType:
    """Import the experiment called ``name``."""
    if name not in names():
        raise ValueError(f"there is no experiment {name!r}; there are {', '.join(names())}.")
    return importlib.import_module(f"normtutor_studies.experiments.{name}")


def fingerprint_of(module: Any) -> dict[str, str]:
    """What identifies the data; nothing where they are drawn, or come with scikit-learn."""
    if not hasattr(module, "TEXT"):
        return {}
    from normtutor_studies.corpus import load_corpus  # differs between versions of the packages

    return {"text_sha256": load_corpus(**module.TEXT).sha256}


def control(name: str) -> str:
    """What else could explain the result of the experiment called ``name``, and what was checked.

    In the words of its module's docstring: the paragraph that begins with "Control:".

    >>> control("gradient_parts").split(":")[0]
    'a share could be chance'
    """
    paragraphs = (inspect.getdoc(module_of(name)) or "").split("\n\n")
    (found,) = (text for text in paragraphs if text.startswith("Control: "))
    return " ".join(found.split()).removeprefix("Control: ")


def controls(chapter: str) -> str:
    """The controls of a chapter's experiments as a list in Markdown, in the order of their names.

    >>> controls("04_invariance").split(":")[0]
    '- `effective_rate`'
    """
    found = [name for name in names() if module_of(name).CHAPTER == chapter]
    return "\n".join(f"- `{name}`: {control(name)}" for name in found)


def schedule(config: Any) -> dict[str, Any]:
    """How long a configuration trains and how fast: what of it the training loop asks for.

    >>> schedule(Config(steps=3, warmup=1, width=8))
    {'steps': 3, 'warmup': 1}
    """
    asked = ("steps", "warmup", "learning_rate")
    return {name: value for name, value in vars(config).items() if name in asked}


def as_plain(config: Any) -> Any:
    """A configuration as JSON will give it back: tuples become lists, and objects dicts."""
    return json.loads(json.dumps(config, default=vars))


@dataclass(frozen=True)
class Saved:
    """The finished seeds of one experiment."""

    name: str
    config: dict[str, Any]
    runs: tuple[dict[str, Any], ...]  # one per seed, in the order of the seeds

    @property
    def seeds(self) -> list[int]:
        return [run["seed"] for run in self.runs]

    def records(self, **where: Any) -> list[Record]:
        """The one record of each seed that matches ``where``."""
        found = []
        for run in self.runs:
            matching = [r for r in run["records"] if where.items() <= r.items()]
            if len(matching) != 1:
                raise ValueError(
                    f"exactly one record of each seed must match {where}; {len(matching)} do in "
                    f"seed {run['seed']} of {self.name!r}. Name more, or other, entries."
                )
            found.append(matching[0])
        return found

    def values(self, key: str, **where: Any) -> np.ndarray:
        """Entry ``key`` of the one record of each seed that matches ``where``, stacked over seeds.

        Two arrays from one file are paired: entry i of both comes from the same seed. What a
        diverged run could not measure is NaN.

        >>> run = {"seed": 7, "records": [{"norm": "layer", "loss": 2.0}]}
        >>> Saved("example", {}, (run,)).values("loss", norm="layer")
        array([2.])
        """
        return np.array([record[key] for record in self.records(**where)], dtype=np.float64)


# --- save and load --------------------------------------------------------------------------------


def save(saved: Saved, directory: Path) -> Path:
    """Write the file completely or not at all. A changed record is one changed line."""
    runs = []
    for run in saved.runs:
        about = json.dumps({key: value for key, value in run.items() if key != "records"})
        lines = ",\n".join(json.dumps(record, allow_nan=False) for record in run["records"])
        runs.append(f'{about[:-1]}, "records": [\n{lines}\n]}}')
    head = json.dumps({"experiment": saved.name, "config": saved.config})
    text = f'{head[:-1]}, "runs": [\n' + ",\n".join(runs) + "\n]}\n"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{saved.name}.json"
    part = directory / f".{saved.name}.{os.getpid()}.json"
    part.write_text(text, encoding="utf-8")
    part.replace(path)
    return path


def read(name: str, directory: Path) -> Saved:
    """Read a saved file as it is, whatever its configuration."""
    path = directory / f"{name}.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"no saved run of {name!r} in {str(directory)!r}. Make one: "
            f"python -m normtutor_studies.experiments run {name} --directory {directory}"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Saved(content["experiment"], content["config"], tuple(content["runs"]))
    except (ValueError, KeyError) as error:
        raise ValueError(f"{str(path)!r} is damaged ({error!r}). Delete it.") from error


def load(name: str, directory: str | Path | None = None) -> Saved:
    """Load the saved run of an experiment; refuse it if the code's configuration is another one.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    directory : path, optional
        By default the book's own record, which comes with the package.

    Raises
    ------
    FileNotFoundError
        If nothing has been saved yet.
    ValueError
        If the file was made with another configuration than the code has now.
    """
    config = as_plain(module_of(name).CONFIG)
    saved = read(name, RESULTS if directory is None else Path(directory))
    _refuse_other_config(saved, config)
    return saved


def _refuse_other_config(saved: Saved, config: dict[str, Any]) -> None:
    keys = config.keys() | saved.config.keys()
    if differing := sorted(key for key in keys if config.get(key) != saved.config.get(key)):
        raise ValueError(
            f"the saved run of {saved.name!r} was made with another configuration: "
            f"{', '.join(differing)} differ from the code's. Run it again with --restart."
        )


# --- run ------------------------------------------------------------------------------------------


def run_experiment(
    name: str,
    *,
    seeds: Iterable[int] | None = None,
    config: Any = None,
    directory: str | Path = RUNS,
    restart: bool = False,
    progress: bool = True,
) -> Saved:
    """Run the seeds that are not saved yet, and save each as soon as it is finished.

    An interrupted run continues where it stopped. Several processes may run different seeds.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    seeds, config : optional
        By default the ``SEEDS`` and the ``CONFIG`` of the experiment.
    directory : path, optional
        By default ``runs`` in the working directory; the book's own record stays as it is.
    restart : bool
        Forget what is saved. Without it a file made with another configuration or on other data is
        refused.
    progress : bool
        Show a bar with the time left.

    Raises
    ------
    ValueError
        If what is saved must not be mixed with this run.
    """
    from tqdm import tqdm

    module = module_of(name)
    config = module.CONFIG if config is None else config
    plain, fingerprint, directory = as_plain(config), fingerprint_of(module), Path(directory)
    done: dict[int, dict[str, Any]] = {}

    def take_in_what_is_saved() -> None:
        if (directory / f"{name}.json").is_file():
            saved = read(name, directory)
            _refuse_other_config(saved, plain)
            if any(run["environment"]["data"] != fingerprint for run in saved.runs):
                raise ValueError(
                    f"the saved seeds of {name!r} were run on other data than this run would be. "
                    "Name another place with --directory, or forget them with --restart."
                )
            done.update({run["seed"]: run for run in saved.runs})

    if not restart:
        take_in_what_is_saved()
    missing = [seed for seed in (module.SEEDS if seeds is None else seeds) if seed not in done]
    if not missing and progress:
        print(f"All seeds are saved in {directory}. --restart replaces them.", file=sys.stderr)
    for seed in tqdm(missing, name, unit="seed", disable=not progress):
        run = _run_seed(module, config, seed, fingerprint)
        if not restart:
            take_in_what_is_saved()  # another process may have run other seeds meanwhile
        restart = False
        done[seed] = run
        save(Saved(name, plain, tuple(done[seed] for seed in sorted(done))), directory)
    return Saved(name, plain, tuple(done[seed] for seed in sorted(done)))


def run_seed(module: Any, config: Any, seed: int) -> list[Record]:
    """What ``run(config, seed)`` returns, or ``measure`` for each of the configuration's cells."""
    if hasattr(module, "run"):
        return module.run(config, seed)
    return [cell | module.measure(config, seed, **cell) for cell in config.conditions]


def _run_seed(module: Any, config: Any, seed: int, data: dict[str, str]) -> dict[str, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    found = run_seed(module, config, seed)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    packages = ("torch", "numpy", "scikit-learn")
    versions = {"Python": platform.python_version()} | {p: metadata.version(p) for p in packages}
    return {
        "seed": seed,
        "wall_seconds": round(wall, 1),
        "cpu_seconds": short(max(cpu, 1e-3), 3),  # the shortest experiments take hundredths
        "environment": {"versions": versions, "processor": processor(), "data": data},
        "records": _without_nan(found),
    }


def _without_nan(value: Any) -> Any:
    """JSON knows no NaN and no infinity: what a diverged run measured becomes null."""
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
