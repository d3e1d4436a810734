"""What a student calls in a notebook, and what an instructor calls in an nbgrader cell."""

import hashlib
import importlib.util
import json
import re
import textwrap
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from normtutor.grading.judging import (
    NOT_TRIED,
    Finding,
    Local,
    Mistake,
    Result,
    Task,
    judge,
    predicted,
)
from normtutor.grading.tasks import PROJECT, task_named, tasks_of

MARKS = {True: "✓", False: "✗"}
NOTED = "noted"  # the finding about a prediction that nobody has judged yet
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
    if any(finding.check == NOTED for finding in result.findings):
        worth = f"{points(0, task.points).removeprefix('0 of ')} when the notebook is graded"
    lines = [f"{task.id} {task.title} ({task.kind}): {worth}"]
    lines += [written(found, hint) for found in result.findings if found.words != NOT_TRIED]
    waiting = [finding.check for finding in result.findings if finding.words == NOT_TRIED]
    if waiting:
        lines.append(folded(f"· not tried yet: {'; '.join(waiting)}"))
    return "\n".join(lines)


def examined(task: Task, answer: Any) -> Result:
    """Judge an answer that is here, in this process."""
    if task.kind == "explain":
        return explained(task, answer)
    if answer is None or answer is Ellipsis:
        empty = Finding("an answer", False, "there is no answer yet")
        return Result(task, (empty,), 0.0)
    return judge(task, Local(answer), np.random.default_rng())


def tried(task: Task, answer: Any) -> Result:
    """What a student sees: as judged, but a prediction is only noted, so guessing on is no use."""
    if task.kind != "predict":
        return examined(task, answer)
    try:
        found = Finding(NOTED, True, f"{predicted(Local(answer)()):g}")
    except Mistake as mistake:
        found = Finding("a prediction", False, str(mistake))
    return Result(task, (found,), 0.0)


def explained(task: Task, text: Any) -> Result:
    """Say whether an explanation is there to be read. A person gives the points."""
    words = len(text.split()) if isinstance(text, str) else 0
    there = words >= FEWEST_WORDS
    note = f"{words} words, for a person to read" if there else f"at least {FEWEST_WORDS} words"
    return Result(task, (Finding("an explanation", there, note),), 0.0)


def personal(task: Task, student: str) -> Task:
    """The task with numbers of one student's own, which follow from the identifier alone."""

    def drawn(name: str) -> float:
        text = f"{task.id} {name} {student.strip().casefold()}"
        values = task.numbers[name]
        return values[int(hashlib.sha256(text.encode()).hexdigest(), 16) % len(values)]

    own = {name: drawn(name) for name in task.numbers}
    if not own:
        return task
    told = ", ".join(f"{name} = {value:g}" for name, value in own.items())
    checks = tuple(replace(check, run=partial(check.run, **own)) for check in task.checks)
    return replace(task, title=f"{task.title} with {told}", checks=checks)


def numbers(student: str, chapter: str) -> None:
    """Print which numbers a student has in place of the book's, and in which tasks.

    >>> numbers("ab123", "02")
    02.1 The largest output with features = 139
    """
    for task in tasks_of(chapter):
        if task.numbers:
            print(task.id, personal(task, student).title)


def check(
    id: str, answer: Any, *, hint: bool = False, final: bool = False, student: str = ""
) -> None:
    """Try an answer and print which checks it passes; a prediction is only noted.

    Parameters
    ----------
    id : str
        The task's number, as "02.3".
    answer : function, class or number
        What the exercise asks for.
    hint : bool
        Whether to name the mistake in code that is to be repaired, and not its symptom alone. In a
        course that costs a point.
    final : bool
        Without a course: whether to say if a prediction is right.
    student : str
        The identifier, where the course gives each student numbers of their own.
    """
    task = personal(task_named(id), student) if student else task_named(id)
    print(report(examined(task, answer) if final else tried(task, answer), hint))


def check_file(path: str | Path) -> tuple[ModuleType, set[str]]:
    """Try every answer in a file of a project, and print what each of them earns.

    Returns
    -------
    module : ModuleType
        The file.
    passed : set of str
        The tasks that have all their points.
    """
    spec = importlib.util.spec_from_file_location(PROJECT, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise ValueError(f"there is no Python file at {path}.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = [examined(task, getattr(module, task.name, None)) for task in tasks_of(PROJECT)]
    for result in found:
        print(report(result, hint=False).partition("\n  ✓")[0])
    return module, {result.task.id for result in found if result.score == result.task.points}


def explain(id: str, text: str) -> None:
    """Take note of an explanation, and say whether it is long enough to be read."""
    check(id, text)


def score(id: str, answer: Any, *, all_or_nothing: bool = False) -> float:
    """Print as :func:`check` does and return the points, as nbgrader expects of a test cell.

    Raises
    ------
    AssertionError
        With ``all_or_nothing``, as otter-grader expects of a test, unless all points are earned;
        its message is the report.
    """
    result = examined(task_named(id), answer)
    if all_or_nothing and result.score < result.task.points:
        raise AssertionError(report(result))
    print(report(result))
    return result.score


def imported(line: str) -> set[str]:
    """The names that an import line binds."""
    parts = re.sub(r".*\bimport\b", "", line).split(",")
    return {part.split()[-1].split(".")[0] for part in parts if part.split()}


def gather(notebooks: Iterable[str | Path], file: str | Path) -> None:
    """Write the file of a project from exercises notebooks: their imports, and each task's answer.

    Raises
    ------
    ValueError
        If the file is there already.
    """
    if Path(file).exists():
        raise ValueError(f"{file} is there already")
    cells: list[str] = []
    for path in notebooks:
        content = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
        cells += ["".join(cell["source"]) for cell in content if cell["cell_type"] == "code"]
    lines = {line for source in cells for line in source.splitlines()}
    imports = sorted(line for line in lines if re.match(r"(import|from) (?!normtutor)\w", line))
    blocks: dict[str, list[str]] = {}
    for task in tasks_of(PROJECT):
        begins = re.compile(rf"^(def|class) {task.name}\b", re.MULTILINE)
        source = next((source for source in cells if begins.search(source)), None)
        if source is not None:
            blocks.setdefault(source.strip(), []).append(f"# %% {task.id} {task.title}")
    code = "\n".join(blocks)
    parts = ["\n".join(line for line in imports if imported(line) & set(re.findall(r"\w+", code)))]
    parts += ["\n".join([*heads, source]) for source, heads in blocks.items()]
    Path(file).write_text("\n\n\n".join(parts) + "\n", encoding="utf-8")
