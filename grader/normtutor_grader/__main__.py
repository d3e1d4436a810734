"""The command line: ``normtutor-grader grade SUBMISSION.ipynb``, or ``grade FOLDER``.

Exit codes: 0 all is graded; 2 a wrong command, or no wall; 3 a submission is no notebook of this
chapter; 4 a submission was stopped, for time, memory or because it ended its process; 5 the grader
itself failed on one.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from normtutor_grader.classes import STATES, Settings, grade_class, write_up
from normtutor_grader.formats import convert
from normtutor_grader.sandbox import Limits
from normtutor_grader.solutions import show
from normtutor_grader.submission import Unreadable, as_text, chapter_of, grade, tasks_for


def run(arguments: argparse.Namespace) -> int:
    """Grade one submission or a folder of them, and write the reports."""
    path: Path = arguments.submission
    limits = Limits(arguments.seconds, arguments.total_seconds, arguments.megabytes)
    if not path.exists():
        raise ValueError(f"there is nothing at {path}")
    own = (arguments.checks, arguments.variant)
    if path.is_dir():
        out = arguments.out or path.with_name(f"{path.resolve().name}-graded")
        settings = Settings(
            arguments.chapter or "", *own, limits, arguments.personal, not arguments.no_wall
        )
        how = {"jobs": arguments.jobs, "again": arguments.again, "roster": arguments.roster}
        return grade_class(path, out, settings, **how)
    tasks, hidden = tasks_for(arguments.chapter or chapter_of(path), *own)
    how = {"limits": limits, "hidden": hidden, "walled": not arguments.no_wall}
    try:
        found = grade(path, tasks, seed=arguments.seed, **how)
    except Unreadable as error:
        print(error, file=sys.stderr)
        return STATES["unreadable"]
    print(as_text(path, found))
    print(f"The inputs can be drawn again with --seed {found.seed}.")
    return STATES["stopped" if found.stopped else "graded"]


def main(argv: Sequence[str] | None = None) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="normtutor-grader", description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("grade", help="grade a notebook, or a folder of them")
    one.add_argument("submission", type=Path)
    one.add_argument("--chapter", help="two digits; by default those of the file's name")
    one.add_argument("--roster", type=Path, help="a table of all students: identifier, name, file")
    one.add_argument(
        "--personal", nargs="?", const="identifier", default="", metavar="COLUMN",
        help="numbers of each student's own, which follow from a column of the roster",
    )  # fmt: skip
    one.add_argument("--jobs", type=int, default=1, help="submissions of a folder side by side")
    one.add_argument("--out", type=Path, help="where a folder's results go; FOLDER-graded")
    one.add_argument("--again", action="store_true", help="grade again what is graded already")
    one.add_argument("--seed", type=int, help="draw the inputs of an earlier grade again")
    one.add_argument("--seconds", type=float, default=Limits().seconds, help="a cell or a call")
    one.add_argument("--total-seconds", type=float, default=Limits().total_seconds)
    one.add_argument("--megabytes", type=int, default=Limits().megabytes)
    one.add_argument(
        "--no-wall", action="store_true",
        help="run each submission as you: it can read your files and use the network",
    )  # fmt: skip
    one.add_argument("--checks", type=Path, help="hidden TASKS of your own, in Python")
    one.add_argument("--variant", type=Path, help="TASKS in place of the book's")
    one.set_defaults(run=run)
    merge = commands.add_parser("merge", help="write the tables anew with what is in by_hand.csv")
    merge.add_argument("results", type=Path, help="the folder of a chapter that grade has written")
    merge.set_defaults(run=lambda a: write_up(a.results))
    form = commands.add_parser("convert", help="an exercises notebook for nbgrader or otter")
    form.add_argument("platform", choices=["nbgrader", "otter"])
    form.add_argument("notebook", type=Path)
    form.add_argument("output", type=Path)
    form.set_defaults(run=lambda a: convert(a.platform, a.notebook, a.output))
    key = commands.add_parser("solutions", help="worked solutions, and how to read explanations")
    key.add_argument("chapter", help="two digits")
    key.set_defaults(run=lambda a: show(a.chapter))
    arguments = parser.parse_args(argv)
    try:
        return arguments.run(arguments)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
