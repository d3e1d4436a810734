"""Coursework that is checked: named checks, points, and words that say what went wrong.

In a notebook, ``check("02.3", my_function)`` tries an answer on fresh random inputs and prints what
it found. To grade whole notebooks, and a class of them, there is ``normtutor-grader``.

>>> check("05.3", lambda eps, share: eps / share)
05.3 When does it matter? (implement): 0 of 2 points
  ✗ values: close: the share that is missing is ε/(ψ + ε), not ε/ψ. Which of the two did
      you solve?
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
from normtutor.grading.notebook import check, check_file, explain, gather, numbers, score
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
    "check_file",
    "compare",
    "explain",
    "gather",
    "judge",
    "numbers",
    "outputs_of",
    "prediction",
    "score",
    "tasks_of",
]
