"""Wrong answers to the graded tasks: the lines of mistakes.txt, as functions and classes."""

import inspect
import re
from pathlib import Path
from typing import NamedTuple

import coursework_solutions
from coursework_solutions import SOLUTIONS

TABLE = Path(__file__).with_name("mistakes.txt").read_text(encoding="utf-8")


def source_of(task, style="numpy"):
    """The name and the code of a right answer; in another style if the task has not this one."""
    styles = SOLUTIONS[task]
    right = styles.get(style) or styles.get("numpy") or styles["torch"]
    source = re.sub(r"^@solves.*\n", "", inspect.getsource(right), flags=re.MULTILINE)
    return right.__name__, source


class Wrong(NamedTuple):
    """A wrong answer, and what must be said about it."""

    task: str
    edit: str
    words: str
    later: bool  # whether it passes the first check

    @property
    def source(self):
        """Code that puts the answer under the name ``answer``, behind that of all right answers."""
        if self.task not in SOLUTIONS:
            return f"answer = {self.edit}"
        name, source = source_of(self.task)
        edits = self.edit.split(" ;; ")
        if self.edit.startswith("= "):
            source, edits = f"{source.splitlines()[0]}\n    {self.edit[2:]}\n", []
        for edit in edits:
            old, new = re.fullmatch(r"(.*?) ?=> ?(.*)", edit).groups()
            assert old in source, f"{self.task}: {old!r} is not in the right answer\n{source}"
            source = source.replace(old, new)
        return f"{source}\nanswer = {name}"

    @property
    def answer(self):
        """The right answer with its edit made."""
        names = dict(vars(coursework_solutions))
        exec(self.source, names)
        return names["answer"]


def read(line):
    task, rest = line.split(" ", 1)
    edit, words = rest.rsplit(" # ", 1)
    return Wrong(task, edit, words.removeprefix("later: "), words.startswith("later: "))


MISTAKES = [read(line) for line in TABLE.splitlines() if line and not line.startswith("#")]
