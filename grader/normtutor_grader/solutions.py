"""Worked solutions of a chapter's tasks, and what to look for in its explanations."""

from pathlib import Path

from normtutor.grading.tasks import tasks_of

FOLDER = Path(__file__).with_name("solutions")


def show(chapter: str) -> int:
    """Print the solutions of a chapter.

    Raises
    ------
    ValueError
        If there is no such chapter.
    """
    tasks_of(chapter)
    print((FOLDER / f"{chapter}.md").read_text(encoding="utf-8"))
    return 0
