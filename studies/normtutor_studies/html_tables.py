"""Tables for a chapter: a data frame as a page, a notebook and a test can read it.

The head carries the units, numbers are rounded and aligned, and the row that matters is marked.
"""

import hashlib
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence

import pandas as pd
from numpy.typing import ArrayLike
from pandas.api.types import is_numeric_dtype

from normtutor.intervals import t_interval


def number(value: float, form: str = ".3f") -> str:
    """A number in a format of Python, with a true minus sign; zero is never negative.

    >>> number(-0.0004), number(-1.5, ".1f"), number(1e-7, ".0e")
    ('0.000', '−1.5', '1e−07')
    """
    text = format(value, form)
    if text.startswith("-") and not any(digit in text for digit in "123456789"):
        text = text[1:]
    return text.replace("-", "−")


def interval(samples: ArrayLike, form: str = ".3f") -> str:
    """The mean over seeds and the half-width of its 95% t-interval, as text.

    Parameters
    ----------
    samples : array of shape (n_seeds,)
    form : str
        How both numbers are printed: a format specification of Python.

    >>> interval([1.0, 2.0, 3.0], ".1f")
    '2.0 ± 2.5'
    """
    mean, half = t_interval(samples)
    return f"{number(float(mean), form)} ± {number(float(half), form)}"


def holds_numbers(cells: Iterable[object]) -> bool:
    """Say whether cells are to be read as numbers: each has one, and some begin with theirs.

    A cell without anything, or with a dash, says that there is no number.

    >>> holds_numbers(["below 1e-12", "−0.1 ± 0.2"]), holds_numbers(["BatchNorm 1", "LayerNorm 2"])
    (True, False)
    >>> holds_numbers(["0.2", "–", ""])
    True
    """
    texts = [text for cell in cells if (text := str(cell)) not in ("", "-", "–", "—")]
    each_has_one = all(any(sign.isdigit() for sign in text) for text in texts)
    return each_has_one and any(re.match(r"[-−+±<>≤≥≈]?\d", text) for text in texts)


NUMBERS = "text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap"


class Table:
    """What :func:`table` returns: HTML for a page or a notebook, plain text for everything else."""

    def __init__(self, html: str, text: str) -> None:
        self.html, self.text = html, text

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


def table(
    frame: pd.DataFrame,
    *,
    form: str | Mapping[Hashable, str] = ".3f",
    mark: Hashable | Sequence[Hashable] = (),
    words: Sequence[Hashable] = (),
) -> Table:
    """Show a data frame as a table whose text is the same on every machine.

    Parameters
    ----------
    frame : DataFrame
        Columns are named as a reader shall see them, with units. The index names the rows; a frame
        with the index 0, 1, 2, ... is shown without it.
    form : str, or mapping of column -> str
        How numbers are printed: a format specification of Python. Text stays as it is.
    mark : row label, or sequence of row labels
        The row or rows that matter; they are set in bold type.
    words : sequence of column
        Columns that are no numbers, though their cells may begin with one.

    Raises
    ------
    ValueError
        If a row to be marked is not in the frame.
    """
    marked = list(mark) if isinstance(mark, Sequence) and not isinstance(mark, str) else [mark]
    if missing := [row for row in marked if row not in frame.index]:
        raise ValueError(
            f"rows to mark must be in the table; {missing} are not in {[*frame.index]}."
        )
    shown = frame.copy().astype(object)
    for column in frame.columns:
        if is_numeric_dtype(frame[column]):
            own = form if isinstance(form, str) else form.get(column, ".3f")
            whole = pd.api.types.is_integer_dtype(frame[column]) and isinstance(form, str)
            shown[column] = [number(value, "d" if whole else own) for value in frame[column]]
    numbered = isinstance(frame.index, pd.RangeIndex)
    classes = pd.DataFrame("text", frame.index, frame.columns)
    heads_of_numbers = []
    for place, column in enumerate(frame.columns):
        if column not in words and holds_numbers(shown[column]):
            classes[column] = "number"
            heads_of_numbers.append(f"th.col{place}")
    classes.loc[marked] += " marked"
    head = [
        {"selector": "td.number", "props": NUMBERS},
        {"selector": "td.text, th", "props": "text-align: left"},
        {"selector": "td.marked", "props": "font-weight: 700"},
    ]
    if heads_of_numbers:
        head.append({"selector": ", ".join(heads_of_numbers), "props": "text-align: right"})
    text = shown.to_string(index=not numbered)
    styler = shown.style.set_uuid(hashlib.sha256(text.encode()).hexdigest()[:8])
    styler.cell_ids = False
    styler.set_td_classes(classes).set_table_styles(head)
    if numbered:
        styler.hide(axis="index")
    return Table(styler.to_html(), text)
