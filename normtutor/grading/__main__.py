"""The command line: ``python -m normtutor.grading grade SUBMISSION.ipynb``."""

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from normtutor.grading.judging import Task
from normtutor.grading.nbgrader import convert, enter_scores
from normtutor.grading.sandbox import Limits
from normtutor.grading.submission import (
    Unreadable,
    as_gradescope,
    as_text,
    chapter_of,
    grade,
    nothing,
)
from normtutor.grading.tasks import tasks_of


def own_tasks(path: Path) -> list[Task]:
    """The TASKS of an instructor's file, which never goes near a submission's process."""
    spec = importlib.util.spec_from_file_location("own_tasks", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"--checks must name a Python file; got {path}.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.TASKS)


def run(arguments: argparse.Namespace) -> int:
    """Grade one submission and write the reports."""
    path = arguments.submission
    chapter = arguments.chapter or chapter_of(path)
    tasks = {task.id: task for task in tasks_of(chapter)}
    hidden: list[str] = []
    if arguments.checks:
        own = own_tasks(arguments.checks)
        tasks |= {task.id: task for task in own}
        hidden = [task.id for task in own]
    limits = Limits(arguments.seconds, arguments.total_seconds, arguments.megabytes)
    try:
        found = grade(
            path,
            list(tasks.values()),
            limits=limits,
            hidden=hidden,
            seed=arguments.seed,
        )
    except Unreadable as error:
        found = nothing(list(tasks.values()), str(error))
    text = as_text(path, found)
    if arguments.report:
        arguments.report.write_text(text, encoding="utf-8")
    else:
        print(text)
    if arguments.gradescope:
        content = json.dumps(as_gradescope(found), ensure_ascii=False, indent=1)
        arguments.gradescope.write_text(content + "\n", encoding="utf-8")
    return 0


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
    one = commands.add_parser("grade", help="grade a notebook in a process of its own")
    one.add_argument("submission", type=Path)
    one.add_argument("--chapter", help="two digits; by default those of the file's name")
    one.add_argument("--report", type=Path, help="write the text here instead of printing it")
    one.add_argument("--gradescope", type=Path, help="write Gradescope's results.json here")
    one.add_argument("--checks", type=Path, help="a Python file with TASKS of your own")
    one.add_argument("--seconds", type=float, default=Limits().seconds, help="a cell or a call")
    one.add_argument("--total-seconds", type=float, default=Limits().total_seconds)
    one.add_argument("--megabytes", type=int, default=Limits().megabytes)
    one.add_argument("--seed", type=int, help="for the same inputs again")
    one.set_defaults(run=run)
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
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(
            f'{error}: install it, for example with pip install "normtutor[torch]"', file=sys.stderr
        )
        return 2


if __name__ == "__main__":
    sys.exit(main())
