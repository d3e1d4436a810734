"""Run an experiment seed by seed, save what comes out, and load it again.

A saved file says everything that is needed to judge or repeat it: the configuration, and for each
seed the records, the wall and CPU time, the versions of Python and the packages, the processor, and
the fingerprint of the data. It names no machine and no path.
"""

import dataclasses
import functools
import importlib
import inspect
import json
import math
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

Record = dict[str, Any]


def short(value: float, digits: int = 4) -> float:
    """``value`` to a few significant digits, so that a saved file stays small.

    >>> short(0.123456)
    0.1235
    """
    return float(f"{value:.{digits}g}")


@functools.cache
def names() -> tuple[str, ...]:
    """Name the experiments: the modules of this package that state a ``FINDING``.

    Only a call for the list imports them all: a chapter that loads one run depends on one.
    """
    modules = sorted(Path(__file__).parent.glob("[a-z]*.py"))
    return tuple(
        path.stem for path in modules if re.search(r"^FINDING\b", path.read_text("utf-8"), re.M)
    )


def module_of(name: str) -> ModuleType:
    """Import the experiment called ``name``."""
    if is_experiment(name):
        return importlib.import_module(f"normtutor_studies.experiments.{name}")
    if Path(__file__).with_name(f"{name}.py").exists():
        raise ValueError(f"{name}.py states no FINDING, by which an experiment is recognized.")
    raise ValueError(f"there is no experiment {name!r}; there are {', '.join(names())}.")


def is_experiment(name: str) -> bool:
    """Say whether there is an experiment called ``name``."""
    if not name.isidentifier() or not Path(__file__).with_name(f"{name}.py").exists():
        return False
    return hasattr(importlib.import_module(f"normtutor_studies.experiments.{name}"), "FINDING")


def fingerprint_of(module: Any, config: Any) -> dict[str, str]:
    """What identifies the data; nothing where they are drawn, or come with scikit-learn."""
    return module.fingerprint(config) if hasattr(module, "fingerprint") else {}


def control(name: str) -> str:
    """What else could explain the result of the experiment called ``name``, and what was checked.

    In the words of its module's docstring: the paragraph that begins with "Control:".

    >>> control("gradient_parts").split(":")[0]
    'a share could be chance'
    """
    return control_in(inspect.getdoc(module_of(name)) or "")


def control_in(docstring: str) -> str:
    """The one paragraph of a docstring that begins with "Control:", as one line of plain text."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in docstring.split("\n\n"))
    found = [text for text in paragraphs if text.startswith("Control: ")]
    if len(found) != 1:
        raise ValueError(
            "an experiment's docstring has one paragraph that begins with 'Control:' and says what "
            f"else could explain the result and what was checked; there are {len(found)}."
        )
    text = re.sub(r":\w+:`(?:normtutor_studies\.experiments\.)?([^`]+)`", r"\1", found[0])
    return text.removeprefix("Control: ").replace("``", "")


def controls(chapter: str) -> str:
    """The controls of a chapter's experiments as a list in Markdown, in the order of their names.

    >>> controls("04_invariance").splitlines()[-1].split(":")[0]
    '- `effective_rate`'
    """
    found = [name for name in names() if module_of(name).CHAPTER == chapter]
    return "\n".join(f"- `{name}`: {in_code_style(lowered(control(name)))}" for name in found)


def lowered(text: str) -> str:
    """Begin a sentence with a small letter, unless it begins with a name, such as RMSNorm.

    >>> lowered("A share could be chance."), lowered("SGD trains.")
    ('a share could be chance.', 'SGD trains.')
    """
    first = text.split(" ", 1)[0]
    is_name = any(letter.isupper() for letter in first[1:])
    return text if is_name else text[0].lower() + text[1:]


def in_code_style(text: str) -> str:
    """Set the names of other experiments, such as warmup_map, apart from words.

    >>> in_code_style("In warmup_map it is tuned.")
    'In `warmup_map` it is tuned.'
    """
    return re.sub(r"\b[a-z]+_\w+\b", r"`\g<0>`", text)


#: Where runs of one's own are saved, below the working directory.
RUNS = Path("runs")


def results_directory() -> Path:
    """Where the book's saved runs are: they come with the package."""
    return Path(__file__).resolve().parents[1] / "results"


def as_plain(config: Any) -> Any:
    """A configuration as JSON will give it back: tuples become lists, dataclasses dicts."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


# --- what a saved file holds ----------------------------------------------------------------------


@dataclass(frozen=True)
class Saved:
    """The finished seeds of one experiment."""

    name: str
    config: dict[str, Any]
    runs: tuple[dict[str, Any], ...]  # one per seed, in the order of the seeds

    @property
    def seeds(self) -> list[int]:
        return [run["seed"] for run in self.runs]

    def values(self, key: str, **where: Any) -> np.ndarray:
        """Entry ``key`` of the one record of each seed that matches ``where``, stacked over seeds.

        Two arrays from one file are paired: entry i of both comes from the same seed. What a
        diverged run could not measure is NaN.

        >>> run = {"seed": 7, "records": [{"norm": "layer", "loss": 2.0}]}
        >>> Saved("example", {}, (run,)).values("loss", norm="layer")
        array([2.])
        """
        rows = []
        for run in self.runs:
            matching = [
                record
                for record in run["records"]
                if all(record.get(name) == value for name, value in where.items())
            ]
            if len(matching) != 1:
                raise ValueError(
                    f"exactly one record of each seed must match {where}; {len(matching)} do in "
                    f"seed {run['seed']} of {self.name!r}. Name more, or other, entries."
                )
            rows.append(matching[0][key])
        return np.array(rows, dtype=np.float64)

    def provenance(self) -> str:
        """What was run, on what, how long, and the command that runs it again, as plain text."""
        data = self.runs[0]["environment"]["data"]
        places = dict.fromkeys(_place(run["environment"]) for run in self.runs)
        minutes = sum(run["cpu_seconds"] for run in self.runs) / 60
        lines = [
            f"Saved run {self.name}: {len(self.runs)} seeds "
            f"({', '.join(map(str, self.seeds))}), {minutes:.0f} CPU minutes",
            *places,
            *(f"{k} {v[:16]}" for k, v in data.items()),
            f"Rerun: python -m normtutor_studies.experiments run {self.name}",
        ]
        return "\n".join(lines)


def _place(environment: dict[str, Any]) -> str:
    """On what a seed was run, as a line."""
    versions = ", ".join(f"{k} {v}" for k, v in environment["versions"].items())
    return f"on {environment['processor']}; {versions}"


def environment(fingerprint: dict[str, str]) -> dict[str, Any]:
    """Versions, processor and data of this run; nothing that tells whose machine it was."""
    packages = ("torch", "numpy", "scikit-learn")
    return {
        "versions": {
            "Python": platform.python_version(),
            **{package: metadata.version(package) for package in packages},
        },
        "processor": _processor(),
        "data": fingerprint,
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


# --- save and load --------------------------------------------------------------------------------


def _one_record_per_line(saved: Saved) -> str:
    """JSON in which a changed record is one changed line."""

    def text(value: Any) -> str:
        return json.dumps(value, allow_nan=False)

    runs = []
    for run in saved.runs:
        about = text({key: value for key, value in run.items() if key != "records"})
        lines = ",\n".join(map(text, run["records"]))
        runs.append(f'{about[:-1]}, "records": [\n{lines}\n]}}')
    head, tail = text({"experiment": saved.name, "config": saved.config}), ",\n".join(runs)
    return f'{head[:-1]}, "runs": [\n{tail}\n]}}\n'


def save(saved: Saved, directory: Path) -> Path:
    """Write the file completely or not at all: first under another name, then moved."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{saved.name}.json"
    handle, temporary = tempfile.mkstemp(dir=directory, prefix=f".{saved.name}.", suffix=".json")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(_one_record_per_line(saved))
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def read(name: str, directory: Path) -> Saved:
    """Read a saved file as it is, whatever its configuration."""
    path = directory / f"{name}.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"no saved run of {name!r} in {str(directory)!r}. Make one: {_command(name, directory)}"
        )
    try:
        return _sound(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        own = directory.resolve() != results_directory()
        mend = (
            _command(name, directory, "--restart")
            if own
            else "restore it, or install normtutor-studies anew"
        )
        raise ValueError(
            f"the saved run {str(path)!r} is damaged: {error!r}. Mend: {mend}"
        ) from error


def _sound(content: Any) -> Saved:
    """What a file holds; an error if it lacks what every saved file has."""
    for run in content["runs"]:
        environment = run["environment"]
        for value, kind in (
            (run["seed"], int),
            (run["cpu_seconds"], int | float),
            (environment["versions"], dict),
            (environment["data"], dict),
            *((record, dict) for record in run["records"]),
        ):
            if not isinstance(value, kind):
                raise TypeError(f"unexpected {value!r:.60}")
    if not content["runs"]:
        raise ValueError("it holds no runs")
    return Saved(content["experiment"], content["config"], tuple(content["runs"]))


def _command(name: str, directory: Path, option: str = "") -> str:
    """What runs an experiment into a directory, or, in place of the book's record, into RUNS."""
    words = ["python -m normtutor_studies.experiments run", name]
    if directory.resolve() != results_directory():
        words += [f"--directory {directory}", option]
    return " ".join(words).rstrip()


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
    directory = results_directory() if directory is None else Path(directory)
    saved = read(name, directory)
    _refuse_other_config(saved, config, directory)
    return saved


def _refuse_other_config(saved: Saved, config: dict[str, Any], directory: Path) -> None:
    differing = sorted(
        key
        for key in config.keys() | saved.config.keys()
        if config.get(key) != saved.config.get(key)
    )
    if differing:
        raise ValueError(
            f"the saved run of {saved.name!r} was made with another configuration: "
            f"{', '.join(differing)} differ from the code's. Run it again: "
            f"{_command(saved.name, directory, '--restart')}"
        )


def _refuse_other_data(saved: Saved, fingerprint: dict[str, str]) -> None:
    if any(run["environment"]["data"] != fingerprint for run in saved.runs):
        raise ValueError(
            f"the saved seeds of {saved.name!r} were run on other data than this run would be; "
            "seeds of both in one file could not be compared. Name another place with "
            "--directory, or forget the saved seeds with --restart."
        )


# --- run ------------------------------------------------------------------------------------------


def run_experiment(
    name: str,
    *,
    seeds: Iterable[int] | None = None,
    config: Any = None,
    jobs: int = 1,
    directory: str | Path | None = None,
    restart: bool = False,
    progress: bool = True,
) -> Saved:
    """Run the seeds that are not saved yet, and save each as soon as it is finished.

    An interrupted run continues where it stopped: finished seeds are neither lost nor repeated.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    seeds, config : optional
        By default the ``SEEDS`` and the ``CONFIG`` of the experiment.
    jobs : int
        Seeds that run at the same time, -1 for one per core. An experiment that measures time runs
        one after the other.
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
    from joblib import Parallel, delayed
    from tqdm import tqdm

    module = module_of(name)
    config = module.CONFIG if config is None else config
    wanted = list(module.SEEDS if seeds is None else seeds)
    plain, fingerprint = as_plain(config), fingerprint_of(module, config)
    directory = RUNS if directory is None else Path(directory)
    done: dict[int, dict[str, Any]] = {}

    def take_in_what_is_saved() -> None:
        if (directory / f"{name}.json").is_file():
            saved = read(name, directory)
            _refuse_other_config(saved, plain, directory)
            _refuse_other_data(saved, fingerprint)
            done.update({run["seed"]: run for run in saved.runs})

    if not restart:
        take_in_what_is_saved()
    missing = [seed for seed in wanted if seed not in done]
    if not missing and progress:
        print(
            f"All seeds are saved in {directory / name}.json already. To run them again: "
            "--directory ELSEWHERE, or --restart to replace them.",
            file=sys.stderr,
        )
    alone = getattr(module, "ALONE", False) or len(missing) == 1
    parallel = Parallel(n_jobs=1 if alone else jobs, return_as="generator_unordered")
    calls = (delayed(_run_seed)(name, config, seed) for seed in missing)
    for run in tqdm(parallel(calls), name, len(missing), unit="seed", disable=not progress):
        if not restart:
            take_in_what_is_saved()  # another process may run other seeds meanwhile
        restart = False
        done[run["seed"]] = run
        save(Saved(name, plain, tuple(done[seed] for seed in sorted(done))), directory)
    return Saved(name, plain, tuple(done[seed] for seed in sorted(done)))


def _without_nan(value: Any) -> Any:
    """JSON knows no NaN and no infinity: what a diverged run measured becomes null."""
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_nan(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _run_seed(name: str, config: Any, seed: int) -> dict[str, Any]:
    module = module_of(name)
    wall, cpu = time.perf_counter(), time.process_time()
    found = module.run(config, seed)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "seed": seed,
        "wall_seconds": round(wall, 1),
        # The shortest experiments take hundredths.
        "cpu_seconds": float(f"{max(cpu, 1e-3):.3g}"),
        "environment": environment(fingerprint_of(module, config)),
        "records": _without_nan(found),
    }
