"""Numbers for pages: a page names a study, a row and a format, and the build puts the number in."""

import itertools
import re

import numpy as np

from normtutor.intervals import t_interval
from normtutor_studies.engine import Study
from normtutor_studies.tables import study

MARK = re.compile(r"(?P<study>\w+)\s*/\s*(?P<row>[^/]+?)\s*/\s*(?P<form>[^/]+)")
FORM = re.compile(r"(?P<of>min |max |abs )?(?P<digits>\d)(?P<unit>%?)(?P<spread>±?)")
MINUS, NO_BREAK = "\N{MINUS SIGN}", "\N{NO-BREAK SPACE}"


def said(mark: str) -> str:
    """The number that a mark stands for: ``study / row / format``.

    A format is the number of digits after the point; before it ``min``, ``max`` (over seeds) or
    ``abs`` (the mean without its sign), behind it ``%`` for a share in percent and ``±`` for the
    95% t-interval over seeds.

    Raises
    ------
    ValueError, KeyError, LookupError
        If the mark is no mark, names what there is not, or names what is not on record.
    """
    if (found := MARK.fullmatch(mark.strip())) is None:
        raise ValueError(f"a number is marked as `study / row / format`; got {mark!r}.")
    values = study(found["study"]).row(found["row"])
    return written(values, found["form"])


def written(values: np.ndarray, form: str) -> str:
    """Numbers over seeds as text.

    >>> written(np.array([-0.11, -0.13]), "2"), written(np.array([-0.11, -0.13]), "abs 0%")
    ('−0.12', '12%')
    """
    if (found := FORM.fullmatch(form.strip())) is None:
        raise ValueError(
            f"a format is a number of digits, such as 2, 0%, 2± or max 1; got {form!r}"
        )
    values = np.asarray(values) * (100 if found["unit"] else 1)
    mean, half = t_interval(values)
    number = {"min ": values.min(), "max ": values.max(), "abs ": abs(mean), None: mean}
    text = f"{float(number[found['of']]):.{found['digits']}f}"
    if found["spread"]:
        text += f" ± {float(half):.{found['digits']}f}"
    return text.replace("-", MINUS) + found["unit"]


def table(*studies: Study) -> str:
    """All arms of studies as a table in Markdown, in the worlds on record.

    Raises
    ------
    LookupError
        If one of them is not on record in any world.
    """
    lines = ["| world | arm | rate | test loss, halfway | test loss, end |"]
    lines.append("| --- | --- | ---: | ---: | ---: |")
    for one in studies:
        if not one.on_record():
            raise LookupError(f"{one.name} is not on record in any world.")
        for world, arm in itertools.product(one.on_record(), one.arms):
            loss = one.values(world, arm, "loss")
            cells = [written(loss[:, at], "3±") for at in (loss.shape[1] // 2 - 1, -1)]
            cells = ["diverged" if "nan" in cell else cell.replace(" ", NO_BREAK) for cell in cells]
            rate = f"{one.rate(world, arm):g}"
            lines.append(f"| {world} | {arm} | {rate} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)
