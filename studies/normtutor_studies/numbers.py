"""Numbers for pages: a page names a study, a row and its digits; the build puts the number in."""

import itertools
import re

import numpy as np

from normtutor_studies import html_tables
from normtutor_studies.engine import Study
from normtutor_studies.tables import study

DIGITS = re.compile(r"(\d)(%?)")
NO_BREAK = "\N{NO-BREAK SPACE}"


def said(mark: str) -> str:
    """The number that a mark stands for: ``study / row / digits``, the mean over seeds.

    ``1`` gives one digit after the point, ``0%`` a share in whole percents.

    Raises
    ------
    ValueError, KeyError, LookupError
        If the mark is no mark, names what there is not, or names what is not on record.
    """
    name, _, rest = mark.partition("/")
    row, _, last = rest.rpartition("/")
    if (digits := DIGITS.fullmatch(last.strip())) is None:
        raise ValueError(f"a number is marked as `study / row / digits`, as 2 or 0%; got {mark!r}.")
    values = study(name.strip()).row(row.strip()) * (100 if digits[2] else 1)
    return html_tables.number(values.mean(), f".{digits[1]}f") + digits[2]


def interval(values: np.ndarray, digits: int) -> str:
    """The mean over seeds with its 95% t-interval.

    >>> interval(np.array([0.11, 0.13]), 2).replace(NO_BREAK, " ")
    '0.12 ± 0.13'
    """
    text = html_tables.interval(values, f".{digits}f")
    return "diverged" if "nan" in text else text.replace(" ", NO_BREAK)


def table(*studies: Study) -> str:
    """What studies found, as a table in Markdown, in the worlds on record.

    Of studies that compare arms, and of those without :attr:`Study.rows`, the test loss of each
    arm; else the rows.

    Raises
    ------
    LookupError
        If one of them is not on record in any world.
    """
    for one in studies:
        if not one.on_record():
            raise LookupError(f"{one.name} is not on record in any world.")
    if all(one.rows and not one.pairs for one in studies):
        lines = ["| | mean over seeds |", "| --- | ---: |"]
        rows = [(row, one.row(row)) for one in studies for row in one.rows]
        return "\n".join(lines + [f"| {row} | {interval(found, 3)} |" for row, found in rows])
    lines = ["| world | arm | rate | test loss, halfway | test loss, end |"]
    lines.append("| --- | --- | ---: | ---: | ---: |")
    for one in studies:
        for world, arm in itertools.product(one.on_record(), one.arms):
            loss = one.values(world, arm, "loss")
            halfway = interval(loss[:, loss.shape[1] // 2 - 1], 3) if loss.ndim > 1 else ""
            end = interval(loss[:, -1] if loss.ndim > 1 else loss, 3)
            rate = f"{one.rate(world, arm):g}"
            lines.append(f"| {world} | {arm} | {rate} | {halfway} | {end} |")
    return "\n".join(lines)
