"""What a student calls in a notebook, and what an instructor calls in an nbgrader cell."""

import secrets
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np

from normtutor.grading.answers import WITHHELD
from normtutor.grading.judging import NOT_TRIED, Finding, Local, Result, Task, judge
from normtutor.grading.tasks import task_named

MARKS = {True: "✓", False: "✗"}
FEWEST_WORDS = 30  # of an explanation that can be read as one


def points(value: float, most: float) -> str:
    """Points in words: "1.5 of 3 points"."""
    return f"{value:g} of {most:g} point{'' if most == 1 else 's'}"


def written(finding: Finding, hint: bool) -> str:
    """One line for one check, folded."""
    line = f"{MARKS[finding.passed]} {finding.check}"
    if finding.symptom and not hint:
        line += f": {finding.symptom} [check(..., hint=True) names the mistake]"
    elif finding.words:
        line += f": {finding.words}"
    return folded(line)


def folded(line: str) -> str:
    """A line under a task's head."""
    return textwrap.fill(line, 88, initial_indent="  ", subsequent_indent="      ")


def report(result: Result, hint: bool = True) -> str:
    """The outcome of one task as text; without a hint, a mistake to be repaired is not named."""
    task = result.task
    worth = points(result.score, task.points)
    if task.kind == "explain":
        worth = f"{points(0, task.points).removeprefix('0 of ')} from a person"
    lines = [f"{task.id} {task.title} ({task.kind}): {worth}"]
    lines += [written(found, hint) for found in result.findings if found.words != NOT_TRIED]
    waiting = [finding.check for finding in result.findings if finding.words == NOT_TRIED]
    if waiting:
        lines.append(folded(f"· not tried yet: {'; '.join(waiting)}"))
    return "\n".join(lines)


def borrowed(answer: Any) -> list[str]:
    """Name what a function takes from packages that are not there when it is graded.

    What it takes from torch is seen while it runs, by :func:`normtutor.grading.answers.own_work`.
    """
    found: set[str] = set()
    seen: set[int] = set()

    def visit(function: Any) -> None:
        code = getattr(function, "__code__", None)
        if code is None or id(code) in seen:
            return
        seen.add(id(code))
        known = getattr(function, "__globals__", {})
        cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
        names = set(names_in(code))
        for value in [*(known[name] for name in names if name in known), *cells]:
            home = str(getattr(value, "__module__", None) or getattr(value, "__name__", ""))
            package = home.split(".")[0]
            if package in WITHHELD and not home.startswith("normtutor.grading"):
                found.add(f"{package}'s {getattr(value, '__name__', home)}")
            elif hasattr(value, "__code__") and home == getattr(function, "__module__", None):
                visit(value)

    for function in [answer, *vars(answer).values()] if isinstance(answer, type) else [answer]:
        visit(function)
    return sorted(found)


def names_in(code: Any) -> Iterator[str]:
    """The names that a code object looks up, and those of the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from names_in(constant)


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def examined(task: Task, answer: Any, seed: int | None = None) -> Result:
    """Judge an answer that is here, in this process."""
    rng = np.random.default_rng(secrets.randbits(64) if seed is None else seed)
    if task.kind == "explain":
        return explained(task, answer)
    taken = borrowed(answer)
    if taken:
        words = f"it uses {', '.join(taken)}; the exercise asks for your own lines"
        rest = [Finding(check.name, False, NOT_TRIED) for check in task.checks]
        return Result(task, (Finding("own work", False, words, True), *rest), 0.0)
    if answer is None or answer is Ellipsis:
        empty = Finding("an answer", False, "there is no answer yet")
        return Result(task, (empty,), 0.0)
    return judge(task, Local(answer), rng)


def explained(task: Task, text: Any) -> Result:
    """Say whether an explanation is there to be read. A person gives the points."""
    words = len(text.split()) if isinstance(text, str) else 0
    there = words >= FEWEST_WORDS
    note = f"{words} words, for a person to read" if there else f"at least {FEWEST_WORDS} words"
    return Result(task, (Finding("an explanation", there, note),), 0.0)


def check(id: str, answer: Any, *, hint: bool = False) -> None:
    """Try an answer and print which checks it passes.

    Parameters
    ----------
    id : str
        The task's number, as "02.3".
    answer : function, class or number
        What the exercise asks for.
    hint : bool
        Whether to name the mistake in code that is to be repaired, and not its symptom alone.
    """
    print(report(examined(task_named(id), answer), hint))


def explain(id: str, text: str) -> None:
    """Take note of an explanation, and say whether it is long enough to be read."""
    check(id, text)


def score(id: str, answer: Any) -> float:
    """Print as :func:`check` does and return the points, as nbgrader expects of a test cell."""
    result = examined(task_named(id), answer)
    print(report(result))
    return result.score
