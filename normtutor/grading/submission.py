"""Grade a whole notebook: read it, run it apart, judge its answers, write the reports."""

import importlib.util
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from normtutor.grading.judging import Finding, GraderFailed, Result, Task, judge, printable
from normtutor.grading.notebook import explained, points, report
from normtutor.grading.sandbox import Limits, Sandbox, parsed
from normtutor.grading.tasks import PROJECT, tasks_of
from normtutor.grading.wall import Wall

LARGEST_NOTEBOOK = 50_000_000  # bytes: plots are large
MOST_CELLS = 1000
MOST_CODE = 2_000_000  # characters in all of them
MOST_PARTS = 2_000_000  # lists, dictionaries and commas in it
LONGEST_EXPLANATION = 3000  # characters that a report repeats


class Unreadable(ValueError):
    """The file is not a notebook."""


class Grade(NamedTuple):
    """What a submission has earned, and what was seen on the way."""

    results: tuple[Result, ...]
    texts: dict[str, str]  # explanations by task id, for a person to read
    notes: tuple[str, ...]
    hidden: frozenset[str]  # ids of tasks that students shall not see at once
    seconds: float
    stopped: tuple[str, ...] = ()  # why its process was ended, each time
    walled: Wall | None = None  # what the kernel held around it; None if it never ran

    @property
    def score(self) -> float:
        """The points of all tasks that a program can give."""
        return round(sum(result.score for result in self.results), 2)

    @property
    def possible(self) -> float:
        """The points that could have been earned; explanations have theirs from a person."""
        return sum(r.task.points for r in self.results if r.task.kind != "explain")


def code_cells(path: Path) -> list[str]:
    """The sources of a notebook's code cells.

    In a file of Python a line that begins with ``# %%`` begins a cell.
    """
    name = printable(path.name)
    try:
        if not is_file(path):  # another student's notebook perhaps, or a pipe that never ends
            raise Unreadable(f"{name} is a link or a device: hand in the notebook itself")
        if path.stat().st_size > LARGEST_NOTEBOOK:
            size = f"{LARGEST_NOTEBOOK // 10**6} MB"
            raise Unreadable(f"{name} is larger than {size}: hand it in without its outputs")
        if path.suffix == ".py":
            text = path.read_text(encoding="utf-8-sig")
            sources = re.split(r"^(?=# %%)", text, flags=re.MULTILINE)
        else:
            sources = _of_notebook(parsed(path.read_bytes(), MOST_PARTS))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, Unreadable):
            raise
        why = "too many parts" if "parts" in str(error) else type(error).__name__
        raise Unreadable(f"{name} is not a notebook: {why}") from error
    if len(sources) > MOST_CELLS:
        raise Unreadable(f"{name} has more than {MOST_CELLS} code cells")
    if sum(map(len, sources)) > MOST_CODE:
        raise Unreadable(f"{name} has more than {MOST_CODE} characters of code")
    return sources


def _of_notebook(notebook: Any) -> list[str]:
    cells = [cell for cell in notebook["cells"] if isinstance(cell, dict)]
    return ["".join(cell.get("source") or "") for cell in cells if cell["cell_type"] == "code"]


def gathered(notebooks: Sequence[Path]) -> str:
    """The file of a project from exercises notebooks: what they import, and each task's answer."""
    cells = [source for path in notebooks for source in code_cells(path)]
    lines = {line for source in cells for line in source.splitlines()}
    imports = sorted(line for line in lines if re.match(r"(import|from) (?!normtutor)\w", line))
    blocks: dict[str, list[str]] = {}
    for task in tasks_of(PROJECT):
        begins = re.compile(rf"^(def|class) {task.name}\b", re.MULTILINE)
        source = next((source for source in cells if begins.search(source)), None)
        if source is not None:
            blocks.setdefault(source.strip(), []).append(f"# %% {task.id} {task.title}")
    parts = ["\n".join(imports)]
    parts += ["\n".join([*heads, source]) for source, heads in blocks.items()]
    return "\n\n\n".join(parts) + "\n"


def is_file(path: Path) -> bool:
    """Whether a path is a file of its own."""
    return path.is_file() and not path.is_symlink()


def chapter_of(path: Path) -> str:
    """The chapter that a file's name begins with; the project where it ends in my_norms."""
    if path.stem.endswith(PROJECT):
        return PROJECT
    match = re.match(r"\d\d", path.name)
    if not match:
        raise ValueError(
            f"the name of a submission must begin with its chapter, as 02_norms.ipynb; got "
            f"{printable(path.name)}. Name the chapter with --chapter 02."
        )
    return match.group()


def tasks_in(path: Path) -> list[Task]:
    """The TASKS of an instructor's file, which never goes near a submission's process."""
    spec = importlib.util.spec_from_file_location("own_tasks", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"tasks of your own belong in a Python file; there is none at {path}.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.TASKS)


def tasks_for(
    chapter: str, checks: Path | None = None, variant: Path | None = None
) -> tuple[list[Task], list[str]]:
    """A chapter's tasks with an instructor's own, and the ids of those that stay hidden.

    A task of ``variant`` takes the place of the book's with its id; those of ``checks`` are added,
    and hidden from students until their points are published.
    """
    tasks = {task.id: task for task in tasks_of(chapter)}
    if variant is not None:
        tasks |= {task.id: task for task in tasks_in(variant)}
    hidden = tasks_in(checks) if checks is not None else []
    tasks |= {task.id: task for task in hidden}
    return list(tasks.values()), [task.id for task in hidden]


def grade(
    path: Path,
    tasks: Sequence[Task],
    *,
    limits: Limits | None = None,
    hidden: Sequence[str] = (),
) -> Grade:
    """Grade a notebook.

    Parameters
    ----------
    path : Path
        The submission.
    tasks : sequence of Task
    limits : Limits, optional
    hidden : sequence of str
        Ids of tasks whose results students shall not see at once.

    Raises
    ------
    Unreadable
        If the file is not a notebook.
    GraderFailed
        If no process can be started for it.
    """
    started = time.monotonic()
    rng = np.random.default_rng()
    results, texts = [], {}
    cells = code_cells(path)
    with Sandbox(cells, limits) as sandbox:
        for task in tasks:
            answer = sandbox.answer(task.name)
            if task.kind == "explain":
                text = _text(answer)
                texts[task.id] = text
                results.append(explained(task, text))
            else:
                results.append(judge(task, answer, rng))
        notes = _notes(sandbox)
        stopped, walled = tuple(sandbox.stopped), sandbox.walled
    seconds = round(time.monotonic() - started, 1)
    return Grade(tuple(results), texts, notes, frozenset(hidden), seconds, stopped, walled)


def _text(answer: Any) -> str:
    try:
        value = answer()
    except GraderFailed:
        raise
    except Exception:
        return ""
    lines = value[:LONGEST_EXPLANATION].splitlines() if isinstance(value, str) else []
    return "\n".join(map(printable, lines))


def quoted(text: str) -> str:
    """A student's own lines, each behind a mark, so that none is taken for one of the report."""
    return "\n".join(f"  | {line}" for line in (text.strip() or "(nothing)").splitlines())


def _notes(sandbox: Sandbox) -> tuple[str, ...]:
    notes = list(sandbox.errors)
    if sandbox.printed_bytes > len(sandbox.printed.encode()):
        notes.append(f"the submission printed {sandbox.printed_bytes} bytes; most were thrown away")
    return tuple(notes)


def as_text(path: Path, found: Grade) -> str:
    """The report for a student."""
    lines = [f"{printable(path.name)}: {points(found.score, found.possible)}", ""]
    for result in found.results:
        if result.task.id in found.hidden:
            continue
        lines += [report(result), ""]
    for id, text in found.texts.items():
        lines += [f"{id}, for a person to read:", quoted(text), ""]
    if warning := unwalled(found):
        lines += [warning, ""]
    if found.notes:
        lines += ["While the notebook ran:", *(f"  {note}" for note in found.notes), ""]
    return "\n".join(lines)


def as_failure(path: Path, error: Exception) -> str:
    """The report where the grader failed: no points, and none lost."""
    return (
        f"{printable(path.name)}: not graded\n\n"
        "The grader failed; that says nothing about the answers.\n"
        f"  {type(error).__name__}: {printable(error)}\n"
    )


def unwalled(found: Grade) -> str:
    """What the kernel did not hold around a submission; empty where the wall was whole."""
    if found.walled is None or not found.walled.missing:
        return ""
    open_ways = [
        words
        for held, words in (
            (found.walled.files, "could read and write files as you can"),
            (found.walled.calls, "could start processes and use the network"),
        )
        if not held
    ]
    return (
        f"No wall: {found.walled.missing}. This submission {' and '.join(open_ways)}. "
        "The page on teaching has the command that grades in a container."
    )


def as_gradescope(found: Grade) -> dict[str, Any]:
    """The report in the format of Gradescope's results.json."""
    tests = []
    for result in found.results:
        task = result.task
        if task.kind == "explain":
            continue
        seen = "after_due_date" if task.kind == "predict" else "visible"  # who guesses on hands in
        tests.append(
            {
                "number": task.id,
                "name": f"{task.title} ({task.kind})",
                "score": result.score,
                "max_score": task.points,
                "status": "passed" if result.score == task.points else "failed",
                "output": report(result),
                "output_format": "text",
                "visibility": "after_published" if task.id in found.hidden else seen,
            }
        )
    texts = [f"{id}\n{quoted(text)}" for id, text in found.texts.items()]
    warning = [unwalled(found)] if unwalled(found) else []
    output = "\n\n".join([*texts, *warning, *found.notes])
    return {
        "score": found.score,
        "execution_time": found.seconds,
        "output": output,
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
    }


def nothing(tasks: Sequence[Task], why: str) -> Grade:
    """The grade of a file that could not be read."""
    results = tuple(Result(task, (Finding("the file", False, why),), 0.0) for task in tasks)
    return Grade(results, {}, (why,), frozenset(), 0.0)
