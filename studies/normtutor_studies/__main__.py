"""List the studies; ``run`` them, or ``report`` what their comparisons show."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from normtutor_studies.engine import STUDIES, Study
from normtutor_studies.numbers import written
from normtutor_studies.store import RECORDS
from normtutor_studies.tables import study


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse ``arguments`` and do what they say; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m normtutor_studies", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    run = commands.add_parser("run", help="make the runs that are missing; can be interrupted")
    run.add_argument("names", nargs="*", metavar="NAME", help="studies; by default all")
    run.add_argument("--world", help="in this world alone")
    run.add_argument("--directory", type=Path, default=Path("runs"), help="default: runs")
    run.add_argument("--record", action="store_true", help="into the book's own record")
    read = commands.add_parser("report", help="what the comparisons on record show, as a table")
    read.add_argument("names", nargs="*", metavar="NAME", help="studies; by default all")
    chosen = parser.parse_args(arguments)
    if chosen.command == "run":
        folder = RECORDS if chosen.record else chosen.directory
        for one in [study(name) for name in chosen.names or STUDIES]:
            make(replace(one, folder=folder), chosen.world)
    elif chosen.command == "report":
        print("| study | comparison | world | half | end | one sign | main line |")
        print("| --- | --- | --- | ---: | ---: | --- | --- |")
        for name in chosen.names or STUDIES:
            for line in report(study(name)):
                print(f"| {' | '.join(line)} |")
    else:
        for one in STUDIES.values():
            state = "on record" if one.complete() else "not on record"
            print(f"{one.name}: {one.question} ({state})")
    return 0


def make(one: Study, world: str | None = None) -> None:
    """Make the runs of a study that are missing."""
    with tqdm(one.run(world), desc=one.name, unit="run", file=sys.stderr) as bar:
        for run in bar:
            bar.set_postfix(loss=run["loss"][-1])


def report(one: Study) -> list[list[str]]:
    """Each comparison of a study in each world: what was found, and what a main line may say."""
    lines = []
    for label, against in one.pairs:
        for world in one.stores:
            row = [one.name, f"{label} - {against}", world]
            try:
                effect = one.effect(world, label, against)
            except LookupError:
                why = "not needed" if one.settled() else "not on record"
                lines.append([*row, *[why] * 2, "", ""])
                continue
            try:
                enters = "yes" if one.enters(label, against) else "no"
            except LookupError:
                enters = ""
            sign = {1: "+", -1: "-", 0: "no"}[effect.sign]
            found = (written(values, "3±") for values in (effect.half, effect.full))
            lines.append([*row, *found, sign, enters])
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
