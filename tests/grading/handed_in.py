"""What students hand in, answers that several tests grade, and the table of a graded class."""

import csv
import json

RIGHT = """
import numpy as np
from normtutor.grading import check

def merge_moments(n_a, mean_a, var_a, n_b, mean_b, var_b):
    n = n_a + n_b
    share, gap = n_b / n, mean_b - mean_a
    var = var_a + share * (var_b - var_a) + share * (1 - share) * gap**2
    return n, mean_a + share * gap, var

check("02.3", merge_moments)
"""
WRONG = RIGHT.replace("share * (1 - share) * gap**2", "0")
STUBBORN = """while True:
    try:
        while True: sum(range(1000))
    except BaseException: pass"""


def hand_in(path, *cells):
    """Write a notebook of code cells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = [{"cell_type": "code", "source": cell} for cell in cells]
    path.write_text(json.dumps({"cells": content}))
    return path


def rows(folder):
    """The rows of a class's table, by the identifier."""
    with open(folder / "grades.csv", newline="", encoding="utf-8") as file:
        return {row["identifier"]: row for row in csv.DictReader(file)}
