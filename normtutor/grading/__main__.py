"""The command line: ``python -m normtutor.grading grade SUBMISSION.ipynb``, or ``grade FOLDER``.

Exit codes: 0 all is graded; 2 a wrong command; 3 a submission is no notebook; 4 a submission was
stopped, for time, memory or because it ended its process; 5 the grader itself failed on one.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from normtutor.grading.classes import STATES, Settings, grade_class, write_up
from normtutor.grading.nbgrader import convert
from normtutor.grading.platforms import classroom, gradescope_run, gradescope_zip, passed
from normtutor.grading.sandbox import Limits
from normtutor.grading.submission import (
    Unreadable,
    as_failure,
    as_gradescope,
    as_text,
    chapter_of,
    gathered,
    grade,
    nothing,
    tasks_for,
)


def run(arguments: argparse.Namespace) -> int:
    """Grade one submission or a folder of them, and write the reports."""
    path = arguments.submission
    limits = Limits(arguments.seconds, arguments.total_seconds, arguments.megabytes)
    if not path.exists():
        raise ValueError(f"there is nothing at {path}")
    if path.is_dir():
        if arguments.report or arguments.gradescope:
            raise ValueError("--report and --gradescope are for one notebook; see --out")
        out = arguments.out or path.with_name(f"{path.resolve().name}-graded")
        chapter = arguments.chapter or ""
        own = (arguments.checks, arguments.variant)
        settings = Settings(chapter, *own, limits, arguments.personal)
        how = {"jobs": arguments.jobs, "again": arguments.again, "roster": arguments.roster}
        code = grade_class(path, out, settings, **how)
        print(f"{out / 'grades.csv'}, {out / 'summary.md'}, {out / 'explanations.csv'}")
        return code
    chapter = arguments.chapter or chapter_of(path)
    tasks, hidden = tasks_for(chapter, arguments.checks, arguments.variant)
    state, text = "graded", ""
    try:
        found = grade(path, tasks, limits=limits, hidden=hidden)
        if found.stopped:
            state = "stopped"
    except Unreadable as error:
        found, state = nothing(tasks, str(error)), "unreadable"
    except ModuleNotFoundError:
        raise
    except Exception as error:
        found, state = nothing(tasks, f"the grader failed: {error!r}"), "failed"
        text = as_failure(path, error)
    text = text or as_text(path, found)
    if arguments.report:
        arguments.report.write_text(text, encoding="utf-8")
    else:
        print(text)
    if arguments.gradescope:
        content = json.dumps(as_gradescope(found), ensure_ascii=False, indent=1)
        arguments.gradescope.write_text(content + "\n", encoding="utf-8")
    return STATES[state]


def write_file(arguments: argparse.Namespace) -> int:
    """Write the file of a project, and never over another one."""
    if arguments.output.exists():
        raise ValueError(f"{arguments.output} is there already")
    arguments.output.write_text(gathered(arguments.notebooks), encoding="utf-8")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m normtutor.grading", description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("grade", help="grade a notebook, or a folder of them")
    one.add_argument("submission", type=Path)
    one.add_argument("--chapter", help="two digits; by default those of the file's name")
    one.add_argument("--report", type=Path, help="write the text here instead of printing it")
    one.add_argument("--gradescope", type=Path, help="write Gradescope's results.json here")
    one.add_argument("--roster", type=Path, help="a table of all students: identifier, name, file")
    one.add_argument(
        "--personal", nargs="?", const="identifier", default="", metavar="COLUMN",
        help="numbers of each student's own, which follow from a column of the roster",
    )  # fmt: skip
    one.add_argument("--jobs", type=int, default=1, help="submissions of a folder side by side")
    one.add_argument("--out", type=Path, help="where a folder's results go; FOLDER-graded")
    one.add_argument("--again", action="store_true", help="grade again what is graded already")
    one.add_argument("--seconds", type=float, default=Limits().seconds, help="a cell or a call")
    one.add_argument("--total-seconds", type=float, default=Limits().total_seconds)
    one.add_argument("--megabytes", type=int, default=Limits().megabytes)
    one.set_defaults(run=run)
    merge = commands.add_parser("merge", help="enter the points for explanations")
    merge.add_argument("results", type=Path, help="the folder that grade has written")
    merge.set_defaults(run=lambda a: write_up(a.results))
    two = commands.add_parser("nbgrader", help="turn an exercises notebook into nbgrader's format")
    two.add_argument("notebook", type=Path)
    two.add_argument("output", type=Path)
    two.set_defaults(run=lambda a: convert(a.notebook, a.output, a.checks, a.variant))
    file = commands.add_parser("file", help="gather the answers of notebooks in one file")
    file.add_argument("notebooks", type=Path, nargs="+")
    file.add_argument("output", type=Path)
    file.set_defaults(run=write_file)
    scope = commands.add_parser("gradescope", help="write the zip of an autograder")
    scope.add_argument("--chapter", required=True, help="two digits")
    scope.add_argument("--out", type=Path, default=Path("autograder.zip"))
    scope.set_defaults(run=lambda a: gradescope_zip(a.chapter, a.out, a.checks, a.variant))
    there = commands.add_parser("gradescope-run", help="what that zip runs")
    there.add_argument("--chapter", required=True)
    there.add_argument("--submission", type=Path, required=True)
    there.add_argument("--results", type=Path, required=True)
    there.set_defaults(
        run=lambda a: gradescope_run(a.submission, a.results, a.chapter, a.checks, a.variant)
    )
    for command in (one, two, scope, there):
        command.add_argument("--checks", type=Path, help="hidden TASKS of your own, in Python")
        command.add_argument("--variant", type=Path, help="TASKS in place of the book's")
    room = commands.add_parser("classroom", help="write a template for GitHub Classroom")
    room.add_argument("notebook", type=Path)
    room.add_argument("output", type=Path)
    room.set_defaults(run=lambda a: classroom(a.notebook, a.output))
    ask = commands.add_parser("passed", help="whether a task in results.json has all its points")
    ask.add_argument("results", type=Path)
    ask.add_argument("task")
    ask.set_defaults(run=lambda a: passed(a.results, a.task))
    arguments = parser.parse_args(argv)
    try:
        return arguments.run(arguments)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        more = 'install it, for example with pip install "normtutor[grading]"'
        print(f"{error}: {more}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
