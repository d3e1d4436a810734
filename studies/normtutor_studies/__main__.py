"""List the studies; ``run`` one, ``show`` what came out, or ``report`` what may be told of it."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from normtutor_studies import numbers
from normtutor_studies.engine import STUDIES, Study
from normtutor_studies.store import RECORDS
from normtutor_studies.tables import study


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse ``arguments`` and do what they say; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m normtutor_studies", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("list", help="the studies and their questions; what happens without a word")
    run = commands.add_parser("run", help="make the runs that are missing; can be interrupted")
    run.add_argument("--world", help="in this world alone")
    run.add_argument("--record", action="store_true", help="into the book's own record")
    show = commands.add_parser("show", help="all that came out of a study, and its control")
    report = commands.add_parser("report", help="what the comparisons on record show, as a table")
    for command in (run, show, report):
        command.add_argument("names", nargs="*", metavar="NAME", help="studies; by default all")
    for command, default in ((run, Path("runs")), (show, RECORDS)):
        command.add_argument("--directory", type=Path, default=default, help=f"default: {default}")
    chosen = parser.parse_args(arguments)
    try:
        studies = [study(name) for name in getattr(chosen, "names", ()) or STUDIES]
        for one in studies if chosen.command != "report" else ():
            if chosen.command == "run":
                make(replace(one, folder=RECORDS if chosen.record else chosen.directory), chosen)
            elif chosen.command == "show":
                print(shown(replace(one, folder=chosen.directory)), end="\n\n")
            else:
                state = "on record" if one.complete() else "not on record"
                print(f"{one.name}: {one.question} (chapter {one.chapter}; {state})")
        if chosen.command == "report":
            print("| study | comparison | world | half | end | one sign | main line |")
            print("| --- | --- | --- | ---: | ---: | --- | --- |")
            for line in (line for one in studies for line in report_of(one)):
                print(f"| {' | '.join(line)} |")
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 1
    return 0


def make(one: Study, chosen: argparse.Namespace) -> None:
    """Make the runs of a study that are missing."""
    with tqdm(one.run(chosen.world), desc=one.name, unit="run", file=sys.stderr) as bar:
        for _ in bar:
            pass
    print(f"Next: python -m normtutor_studies show {one.name} --directory {one.folder}")


def shown(one: Study) -> str:
    """The question, what the runs cost and where they were made, the control, all that was found.

    Raises
    ------
    LookupError
        If the study is not on record.
    """
    table = numbers.table(one)
    runs = [run for world in one.on_record() for arm in one.arms for run in one.runs(world, arm)]
    minutes = sum(run["seconds"] for run in runs) / 60
    made_in = {", ".join(map(str, run["environment"].values())) for run in runs}
    cost = f"{len(runs)} runs, {minutes:.0f} CPU minutes. Python, packages and processor:"
    return "\n".join([one.name, one.question, cost, *sorted(made_in), one.control, "", table])


def report_of(one: Study) -> Iterator[list[str]]:
    """Each comparison of a study in each world: what was found, and what a main line may say."""
    for label, against in one.pairs:
        for world in one.stores:
            row = [one.name, f"{label} - {against}", world]
            try:
                effect = one.effect(world, label, against)
            except LookupError:
                why = "not needed" if one.settled() else "not on record"
                yield [*row, *[why] * 2, "", ""]
                continue
            try:
                enters = "yes" if one.enters(label, against) else "no"
            except LookupError:
                enters = ""
            sign = {1: "+", -1: "-", 0: "no"}[effect.sign]
            yield [
                *row,
                *(numbers.interval(v, 3) for v in (effect.half, effect.full)),
                sign,
                enters,
            ]


if __name__ == "__main__":
    raise SystemExit(main())
