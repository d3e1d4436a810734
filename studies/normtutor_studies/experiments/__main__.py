"""The command line of the experiments: list them, run one, show what came out."""

import argparse
import inspect
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from normtutor.intervals import t_interval
from normtutor_studies.experiments import records
from normtutor_studies.experiments.records import RESULTS, RUNS, module_of, names


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse ``arguments`` and do what they say; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m normtutor_studies.experiments",
        description="The experiments behind the book's figures. Without a command: list them.",
    )
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("list", help="list the experiments")
    run = commands.add_parser("run", help="run an experiment, or go on with one")
    run.add_argument("name", choices=names())
    run.add_argument("--seeds", type=int, nargs="+", help="other seeds than the book's")
    run.add_argument("--restart", action="store_true", help="forget what is saved")
    run.add_argument("--directory", type=Path, default=RUNS, help="default: runs")
    show = commands.add_parser("show", help="print what came out of an experiment")
    show.add_argument("name", choices=names())
    show.add_argument("--directory", type=Path, default=RESULTS, help="default: the book's record")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "run":
            options = {key: getattr(chosen, key) for key in ("seeds", "directory", "restart")}
            records.run_experiment(chosen.name, **options)
            print(f"Saved. Next: show {chosen.name} --directory {chosen.directory}")
        elif chosen.command == "show":
            _show(chosen.name, chosen.directory)
        else:
            for name in names():
                saved, module = records.read(name, RESULTS), module_of(name)
                print(f"{name}\n  {(inspect.getdoc(module) or '').splitlines()[0]}")
                print(f"  chapter {module.CHAPTER}; {_cost(saved)}")
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _cost(saved: records.Saved) -> str:
    minutes = sum(run["cpu_seconds"] for run in saved.runs) / 60
    return f"{minutes:.0f} CPU minutes for {len(saved.runs)} seeds"


def _show(name: str, directory: Path) -> None:
    saved, module = records.load(name, directory), module_of(name)
    environments = (run["environment"] for run in saved.runs)
    places = {f"{e['processor']}; {e['versions']}": None for e in environments}
    print(f"{name}: {_cost(saved)}, {', '.join(map(str, saved.seeds))}")
    print(*(f"on {place}" for place in places), sep="\n")
    print(textwrap.fill(f"Control: {records.control(name)}", width=100))
    print(f"\n{(inspect.getdoc(module.rows) or '').splitlines()[0]}")
    for row, values in module.rows(saved).items():
        mean, half = t_interval(values) if len(values) > 1 else (values[0], float("nan"))
        print(f"  {row}: {mean:.4g} ± {half:.2g}")


if __name__ == "__main__":
    raise SystemExit(main())
