"""Grade a whole notebook: read it, run it apart, judge its answers, write the report."""

import importlib.util
import io
import re
import secrets
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from normtutor.grading.judging import Finding, GraderFailed, Result, Task, judge, printable
from normtutor.grading.notebook import explained, points, report
from normtutor.grading.tasks import PROJECT, TASKS, tasks_of
from normtutor_grader.sandbox import Limits, Sandbox, parsed

LARGEST_NOTEBOOK = 50_000_000  # bytes: plots are large
MOST_CELLS = 1000
MOST_CODE = 2_000_000  # characters in all of them
MOST_PARTS = 2_000_000  # lists, dictionaries and commas in it
LONGEST_EXPLANATION = 20_000  # characters
HINT_COSTS = 1.0  # points


class Unreadable(ValueError):
    """The file is not a notebook of this chapter."""


@dataclass(frozen=True)
class Grade:
    """What a submission has earned, and what was seen on the way."""

    results: tuple[Result, ...]
    texts: dict[str, str]  # explanations by task id, for a person to read
    notes: tuple[str, ...]
    hidden: frozenset[str] = frozenset()  # ids of tasks that students shall not see at once
    stopped: tuple[str, ...] = ()  # why its process was ended, each time
    seed: int = 0  # with it the same inputs are drawn again

    @property
    def score(self) -> float:
        """The points of all tasks that a program can give."""
        return round(sum(result.score for result in self.results), 2)

    @property
    def possible(self) -> float:
        """The points that could have been earned; explanations have theirs from a person."""
        return sum(r.task.points for r in self.results if r.task.kind != "explain")


# --- reading --------------------------------------------------------------------------------------


def code_cells(path: Path) -> list[str]:
    """The sources of a notebook's code cells.

    In a file of Python a line that begins with ``# %%`` begins a cell.

    Raises
    ------
    Unreadable
        If it is no notebook.
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
            cells = parsed(path.read_bytes(), MOST_PARTS)["cells"]
            code = [c for c in cells if isinstance(c, dict) and c["cell_type"] == "code"]
            sources = ["".join(cell.get("source") or "") for cell in code]
    except Unreadable:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = "too many parts" if "parts" in str(error) else type(error).__name__
        raise Unreadable(f"{name} is not a notebook: {why}") from error
    if len(sources) > MOST_CELLS:
        raise Unreadable(f"{name} has more than {MOST_CELLS} code cells")
    if sum(map(len, sources)) > MOST_CODE:
        raise Unreadable(f"{name} has more than {MOST_CODE} characters of code")
    return sources


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


def check_chapter(cells: Sequence[str], tasks: Sequence[Task]) -> None:
    """Raise Unreadable if another chapter has all names that the cells define for these, and more.

    A name alone does not tell: two chapters ask for a ``layer_norm``.
    """
    own = {task.name for task in tasks if defines(cells, task)}
    others = sorted({id[:2] for id in TASKS} - {task.id[:2] for task in tasks})
    there = {c: {task.name for task in tasks_of(c) if defines(cells, task)} for c in others}
    if others and own < there[best := max(others, key=lambda chapter: len(there[chapter]))]:
        raise Unreadable(f"it answers tasks of chapter {best}, not of this one")


def defines(cells: Sequence[str], task: Task) -> bool:
    """Whether a cell gives the name of a task something."""
    there = re.compile(rf"^(def {task.name}\b|class {task.name}\b|{task.name}\s*=)", re.MULTILINE)
    return any(map(there.search, cells))


def answers(path: Path, tasks: Sequence[Task]) -> bool:
    """Whether a file is a notebook that answers some of these tasks."""
    try:
        cells = code_cells(path)
        check_chapter(cells, tasks)
    except Unreadable:
        return False
    return any(defines(cells, task) for task in tasks)


def written(cells: Sequence[str], name: str) -> str | None:
    """The text that a cell assigns to a name, as it was typed.

    What Python makes of it is not it: in LaTeX, ``\\beta`` would lose its backslash and b.
    None where the assignment holds more than plain strings.
    """
    for cell in reversed(cells):
        assigned = [*re.finditer(rf"^([ \t]*){name}\s*(\+?)=\s*", cell, re.MULTILINE)]
        if not assigned:
            continue
        found, parts = assigned[-1], []
        if any(found.groups()):  # in a block, or added to what was there
            return None
        try:
            for token in tokenize.generate_tokens(io.StringIO(cell[found.end() :]).readline):
                if token.type == tokenize.STRING:
                    literal = re.fullmatch(r"""(?s)([rRuU]?)("{3}|'{3}|"|')(.*)\2""", token.string)
                    if not literal:
                        return None
                    parts.append(literal[3])
                elif token.type == tokenize.OP and token.string not in "()":
                    return None
                elif token.type == tokenize.NAME:
                    return None
                elif token.type in (tokenize.NEWLINE, tokenize.ENDMARKER):
                    break
        except (tokenize.TokenError, SyntaxError):
            return None
        return "".join(parts) if parts else None
    return None


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


# --- grading --------------------------------------------------------------------------------------


def grade(
    path: Path,
    tasks: Sequence[Task],
    *,
    limits: Limits | None = None,
    hidden: Sequence[str] = (),
    walled: bool = True,
    seed: int | None = None,
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
    walled : bool
        Whether it runs behind the wall, or as a plain process of yours.
    seed : int, optional
        That of an earlier grade, whose inputs are drawn again.

    Raises
    ------
    Unreadable
        If the file is not a notebook of this chapter.
    GraderFailed
        If no process can be started for it.
    NoWall
        If there is no wall here.
    """
    seed = secrets.randbits(32) if seed is None else seed
    rng = np.random.default_rng(seed)
    results, texts = [], {}
    cells = code_cells(path)
    check_chapter(cells, tasks)
    with Sandbox(cells, limits, walled=walled) as sandbox:
        for task in tasks:
            answer = sandbox.answer(task.name)
            if task.kind == "explain":
                text = written(cells, task.name)
                texts[task.id] = _shown(_text(answer) if text is None else text)
                results.append(explained(task, texts[task.id]))
            else:
                results.append(hinted(judge(task, answer, rng), cells))
    notes, stopped = list(sandbox.errors), tuple(sandbox.stopped)
    if sandbox.cut:  # known for certain once its process has ended
        notes.append("it printed too much; the rest was thrown away")
    return Grade(tuple(results), texts, tuple(notes), frozenset(hidden), stopped, seed)


def hinted(result: Result, cells: Sequence[str]) -> Result:
    """Take a point where the notebook asks for the hint of a repair."""
    id = re.escape(result.task.id)
    asks = re.compile(rf"""\bcheck\(\s*["']{id}["'][^)]{{0,200}}hint\s*=\s*True""")
    if result.task.kind != "repair" or not any(map(asks.search, cells)):
        return result
    note = Finding(
        "the hint", False, f"it was asked for, which costs {points(HINT_COSTS, HINT_COSTS)}"
    )
    return result._replace(
        findings=(*result.findings, note), score=max(result.score - HINT_COSTS, 0.0)
    )


def _text(answer: Any) -> str:
    try:
        value = answer()
    except GraderFailed:
        raise
    except Exception:
        return ""
    return value if isinstance(value, str) else ""


def _shown(text: str) -> str:
    """An explanation as a report repeats it; what is too long ends with a mark."""
    more = len(text) - LONGEST_EXPLANATION
    lines = text[:LONGEST_EXPLANATION].splitlines()
    lines += [f"[cut here: {more} characters more]"] if more > 0 else []
    return "\n".join(map(printable, lines))


def nothing(tasks: Sequence[Task], why: str) -> Grade:
    """The grade of what could not be graded."""
    return Grade(tuple(Result(task, (), 0.0) for task in tasks), {}, (why,))


# --- the report -----------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """A student's own lines, each behind a mark, so that none is taken for one of the report."""
    return "\n".join(f"  | {line}" for line in (text.strip() or "(nothing)").splitlines())


def as_text(path: Path, found: Grade) -> str:
    """The report for a student."""
    head = f"{printable(path.name)}: {points(found.score, found.possible)}"
    by_a_person = sum(r.task.points for r in found.results if r.task.kind == "explain")
    if by_a_person:
        head += f"; for what is explained, a person gives up to {by_a_person:g} more"
    lines = [head, ""]
    for result in found.results:
        if result.task.id not in found.hidden:
            lines += [report(result), ""]
    for id, text in found.texts.items():
        lines += [f"{id}, for a person to read:", quoted(text), ""]
    if found.notes:
        lines += ["While the notebook ran:", *(f"  {note}" for note in found.notes), ""]
    return "\n".join(lines)


def as_refusal(path: Path, why: str) -> str:
    """The report where nothing could be graded: no points, and none lost."""
    return f"{printable(path.name)}: not graded\n\n{printable(why)}\n"
