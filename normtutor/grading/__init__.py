"""Coursework that is checked: named checks, points, and words that say what went wrong.

In a notebook, ``check("02.3", my_function)`` tries an answer on fresh random inputs and prints what
it found. From the command line, ``python -m normtutor.grading grade SUBMISSION.ipynb`` does so for
a whole notebook, which runs in a process of its own.

>>> check("02.1", -10.0)
02.1 The largest output (predict): 0 of 1 point
  ✗ prediction: the size is right, the sign is not
"""

from normtutor.grading.judging import (
    Check,
    Finding,
    Known,
    Local,
    Mistake,
    Result,
    Task,
    compare,
    judge,
    outputs_of,
    prediction,
)
from normtutor.grading.notebook import check, explain, numbers, score
from normtutor.grading.tasks import TASKS, tasks_of

__all__ = [
    "TASKS",
    "Check",
    "Finding",
    "Known",
    "Local",
    "Mistake",
    "Result",
    "Task",
    "check",
    "compare",
    "explain",
    "judge",
    "numbers",
    "outputs_of",
    "prediction",
    "score",
    "tasks_of",
]
