"""The tasks, a module a chapter."""

from importlib import import_module

from normtutor.grading.judging import Task

#: Every task by its id.
TASKS: dict[str, Task] = {
    task.id: task
    for number in range(1, 9)
    for task in import_module(f"{__name__}.chapter_{number:02}").TASKS
}

#: The file that may hold a student's code for chapters 2 to 8, and what it is called as a chapter.
PROJECT = "my_norms"


def task_named(id: str) -> Task:
    """Look up a task."""
    if id not in TASKS:
        raise ValueError(f"there is no task {id!r}; there are {', '.join(TASKS)}.")
    return TASKS[id]


def tasks_of(chapter: str) -> list[Task]:
    """The tasks of one chapter: "02"; those of the project are all that ask for code."""
    found = [task for task in TASKS.values() if task.id.split(".")[0] == chapter]
    if chapter == PROJECT:
        code = [task for task in TASKS.values() if task.kind in ("implement", "repair")]
        return [task for task in code if task.id >= "02"]
    if not found:
        chapters = [*sorted({id.split(".")[0] for id in TASKS}), PROJECT]
        raise ValueError(f"there is no chapter {chapter!r}; there are {', '.join(chapters)}.")
    return found
