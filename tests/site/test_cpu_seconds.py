"""A reader waits for a chapter that he executes: its kernel's CPU seconds have a budget."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAIN_LINE, DEPTH_PAGE = 10, 30  # CPU seconds, imports included, on a quiet machine
# Types are checked and a second kernel runs beside it, and on two threads of one core a second of
# each counts for less: the same page has taken 9 CPU seconds and 15.
ALLOWANCE = 2


def budget_of(name: str) -> int:
    return DEPTH_PAGE if "/in_depth/" in name else MAIN_LINE


def over_budget(seconds: dict[str, float]) -> list[str]:
    """Name the pages that take longer than they may."""
    return [
        f"{name}: {taken:.1f} CPU seconds, at most {budget_of(name)}"
        for name, taken in seconds.items()
        if taken > ALLOWANCE * budget_of(name)
    ]


def is_held(name: str) -> bool:
    """Say whether a page has a budget: a depth page, or a chapter that has one below it.

    A chapter that is not yet in two depths holds both; the ledger decides claims and may.
    """
    path = ROOT / name
    return path.exists() and any((ROOT / "book" / "in_depth").glob(path.name))


def test_every_chapter_keeps_to_its_budget():
    record = ROOT / "_build" / "cpu_seconds.json"
    if not record.exists():
        pytest.skip("no chapter was executed here: make notebooks")
    present = {
        name: taken for name, taken in json.loads(record.read_text()).items() if is_held(name)
    }
    problems = over_budget(present)
    assert not problems, "\n".join(problems)


def test_who_is_over_budget_is_named():
    seconds = {"book/a.ipynb": 21.0, "book/in_depth/a.ipynb": 59.0, "book/in_depth/b.ipynb": 61.0}
    assert [line.split(":")[0] for line in over_budget(seconds)] == [
        "book/a.ipynb",
        "book/in_depth/b.ipynb",
    ]
