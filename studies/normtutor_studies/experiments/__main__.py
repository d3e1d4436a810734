"""The command line of the experiments: list them, run one, draw one."""

import argparse
import inspect
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from normtutor_studies.experiments.records import (
    RUNS,
    control,
    load,
    module_of,
    names,
    read,
    results_directory,
    run_experiment,
)

DOTS_PER_INCH = 200  # of a drawing that `show` writes


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
    run.add_argument(
        "--jobs", type=int, default=-1, help="seeds that run at the same time (default: one a core)"
    )
    run.add_argument("--seeds", type=int, nargs="+", help="other seeds than the book's")
    run.add_argument("--restart", action="store_true", help="forget what is saved")
    show = commands.add_parser("show", help="draw the figure of a saved experiment")
    show.add_argument("name", choices=names())
    show.add_argument("--output", type=Path, help="image file; by default NAME.png")
    run.add_argument("--directory", type=Path, help="default: runs")
    show.add_argument("--directory", type=Path, help="default: the book's own record")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "run":
            directory = chosen.directory or RUNS
            saved = run_experiment(
                chosen.name,
                seeds=chosen.seeds,
                jobs=chosen.jobs,
                directory=directory,
                restart=chosen.restart,
            )
            print(saved.provenance())
            print(f"Saved in {directory}; show {chosen.name} --directory {directory} draws it")
        elif chosen.command == "show":
            output = chosen.output or Path(f"{chosen.name}.png")
            _show(chosen.name, chosen.directory, output)
        else:
            _list()
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _list() -> None:
    for name in names():
        module = module_of(name)
        try:
            runs = read(name, results_directory()).runs
            cost = f"{sum(run['cpu_seconds'] for run in runs) / 60:.0f} CPU minutes"
            cost += f" for {len(runs)} seeds"
        except FileNotFoundError:
            cost = "not run yet"
        except ValueError as error:
            cost = str(error)
        print(name)
        print(f"  {(inspect.getdoc(module) or '').splitlines()[0]}")
        print(f"  chapter {module.CHAPTER}, figure {module.FIGURE}; {cost}")
        print(f"  finding: {module.FINDING}")


def _show(name: str, directory: Path | None, output: Path) -> None:
    # Listing and running need no matplotlib.
    from matplotlib import pyplot as plt

    from normtutor_studies import plotting

    saved = load(name, directory)
    print(saved.provenance())
    print(textwrap.fill(f"Control: {control(name)}", width=100))
    module = module_of(name)
    if hasattr(module, "best_rates"):
        for cell, rate in module.best_rates(saved).items():
            print(f"{' '.join(map(str, cell))}: learning rate {rate:g}")
    with plt.rc_context():
        plotting.use_book_style()
        plotting.intervals(
            module.rows(saved), xlabel=module.XLABEL, reference=getattr(module, "REFERENCE", 0.0)
        )
        plt.savefig(output, dpi=DOTS_PER_INCH, bbox_inches="tight")
        plt.close()
    print(f"drawn: {output}")


if __name__ == "__main__":
    raise SystemExit(main())
