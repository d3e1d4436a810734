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
from normtutor.grading.nbgrader import convert, enter_scores
from normtutor.grading.sandbox import Limits
from normtutor.grading.submission import (
    Unreadable,
    as_gradescope,
    as_text,
    chapter_of,
    grade,
    nothing,
    tasks_for,
)
from normtutor.grading.tasks import tasks_of


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
        settings = Settings(chapter, *own, limits, arguments.seed)
        code = grade_class(path, out, settings, jobs=arguments.jobs, again=arguments.again)
        print(f"{out / 'grades.csv'}, {out / 'summary.md'}, {out / 'explanations.csv'}")
        return code
    chapter = arguments.chapter or chapter_of(path)
    tasks, hidden = tasks_for(chapter, arguments.checks, arguments.variant)
    state = "graded"
    try:
        found = grade(path, tasks, limits=limits, hidden=hidden, seed=arguments.seed)
        if found.stopped:
            state = "stopped"
    except Unreadable as error:
        found, state = nothing(tasks, str(error)), "unreadable"
    text = as_text(path, found)
    if arguments.report:
        arguments.report.write_text(text, encoding="utf-8")
    else:
        print(text)
    if arguments.gradescope:
        content = json.dumps(as_gradescope(found), ensure_ascii=False, indent=1)
        arguments.gradescope.write_text(content + "\n", encoding="utf-8")
    return STATES[state]


def run_nbgrader(arguments: argparse.Namespace) -> int:
    """Grade an nbgrader assignment's submissions."""
    chapter = arguments.chapter or chapter_of(Path(arguments.assignment))
    tasks = tasks_of(chapter)
    scores = enter_scores(
        arguments.database, arguments.submitted, arguments.assignment, tasks, Limits()
    )
    for student, score in scores.items():
        print(f"{student}: {score:g}")
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
    one.add_argument("--checks", type=Path, help="a Python file with hidden TASKS of your own")
    one.add_argument("--variant", type=Path, help="a Python file with TASKS in place of the book's")
    one.add_argument("--jobs", type=int, default=1, help="submissions of a folder side by side")
    one.add_argument("--out", type=Path, help="where a folder's results go; FOLDER-graded")
    one.add_argument("--again", action="store_true", help="grade again what is graded already")
    one.add_argument("--seconds", type=float, default=Limits().seconds, help="a cell or a call")
    one.add_argument("--total-seconds", type=float, default=Limits().total_seconds)
    one.add_argument("--megabytes", type=int, default=Limits().megabytes)
    one.add_argument("--seed", type=int, help="for the same inputs again")
    one.set_defaults(run=run)
    merge = commands.add_parser("merge", help="enter the points for explanations")
    merge.add_argument("results", type=Path, help="the folder that grade has written")
    merge.set_defaults(run=lambda a: write_up(a.results))
    two = commands.add_parser("nbgrader", help="turn an exercises notebook into nbgrader's format")
    two.add_argument("notebook", type=Path)
    two.add_argument("output", type=Path)
    two.set_defaults(run=lambda a: convert(a.notebook, a.output))
    three = commands.add_parser(
        "nbgrader-scores", help="grade what nbgrader has collected, and fill its gradebook"
    )
    three.add_argument("assignment")
    three.add_argument("--chapter", help="two digits; by default those of the assignment's name")
    three.add_argument("--database", default="sqlite:///gradebook.db")
    three.add_argument("--submitted", type=Path, default=Path("submitted"))
    three.set_defaults(run=run_nbgrader)
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
        print(
            f'{error}: install it, for example with pip install "normtutor[grading]"',
            file=sys.stderr,
        )
        return 2


if __name__ == "__main__":
    sys.exit(main())
