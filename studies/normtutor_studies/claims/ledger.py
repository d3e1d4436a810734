"""What a claim is, what counts as evidence, and how a verdict follows from it.

A claim is a sentence that readers meet elsewhere, with a function that looks for evidence and
yields it as findings. A finding is a number. Some findings are *judged*: the claim says,
or implies, in which range the number must lie, and the function states that range and why it ends
where it does. The others are told for context. From the judged findings the verdict follows:

- **true** if the claim's predictions all came out as it says;
- **false** if none did;
- **partly** if some did and some did not, whatever is undecided beside them: the claim leaves out a
  condition;
- **open** otherwise, if a finding's interval reaches over the end of the range; and always if the
  function says that something is unsettled: the evidence does not decide.

A claim that says *all* or *always* needs one counterexample to be false; where it does hold is told
for context. Each claim has an answer beside its verdict: what to believe, in a sentence to quote.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from normtutor.intervals import t_interval

TRUE, FALSE, PARTLY, OPEN = VERDICTS = ("true", "false", "partly", "open")


def printed(number: float, form: str) -> str:
    """A number as a reader expects it: a real minus sign, and no zeros before an exponent."""
    if number == 0 and not form.endswith("%"):
        return "0"
    digits = f"{number:{form}}"
    if not re.search("[1-9]", digits):
        digits = digits.lstrip("-")  # −0.000 is a small number's sign and nothing else
    return re.sub(r"e([+-])0*(\d)", r"e\1\2", digits).replace("-", "−")


class Interval(NamedTuple):
    """A mean over seeds with the half-width of its 95% t-interval."""

    mean: float
    half_width: float


class Range(NamedTuple):
    """From ``low`` to ``high``, both included, and why the claim says so."""

    low: float
    high: float
    why: str

    def in_words(self, form: str = ".4g") -> str:
        """The range as a reader's words; ``form`` is how its ends are printed."""
        low, high = printed(self.low, form), printed(self.high, form)
        if self.low == -math.inf:
            return f"at most {high}"
        if self.high == math.inf:
            return f"at least {low}"
        return low if low == high else f"{low} to {high}"


def above(low: float, why: str) -> Range:
    """Every number from ``low`` on."""
    return Range(low, math.inf, why)


def below(high: float, why: str) -> Range:
    """Every number up to ``high``."""
    return Range(-math.inf, high, why)


def near(value: float, tolerance: float, why: str) -> Range:
    """The numbers that differ from ``value`` by at most ``tolerance``."""
    return Range(value - tolerance, value + tolerance, why)


def usual_form(estimate: Interval) -> str:
    """How a number is printed: three digits, or two of its interval and no more than four places.

    >>> usual_form(Interval(0.1234, 0.0567)), usual_form(Interval(2e-16, 0.0))
    ('.3f', '.0e')
    """
    mean, half_width = estimate
    if half_width:
        return f".{min(4, max(0, 1 - math.floor(math.log10(half_width))))}f"
    return ".0e" if abs(mean) < 1e-4 else ".3g"


def over_seeds(values: ArrayLike) -> Interval:
    """The mean of one number per seed, with its 95% interval."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or len(numbers) < 2 or not np.isfinite(numbers).all():
        raise ValueError(
            f"over_seeds needs two finite numbers or more, one per seed; got {numbers}."
        )
    mean, half_width = t_interval(numbers)
    return Interval(float(mean), float(half_width))


def apart(first: Any, second: Any) -> float:
    """The largest difference between two arrays or tensors."""
    return float(abs(first - second).max())


@dataclass(frozen=True)
class Finding:
    """One number, and the range in which the claim would have it.

    Parameters
    ----------
    what : str
        What was measured, or reported, in words. MyST markdown.
    value : float, array or Interval
        One number, one per seed, or their mean with its interval.
    claimed : Range, optional
        Where the number must lie if the claim holds, and why the range ends where it does. Without
        it the finding is told for context.
    form : str, optional
        How the number is printed, a format specification of Python; :func:`usual_form` without it.
    reported : str
        Keys of the bibliography if the number is not ours.
    """

    what: str
    value: ArrayLike
    claimed: Range | None = None
    form: str = ""
    reported: str = ""

    @cached_property
    def estimate(self) -> Interval:
        """The number with its interval, which has no width if the number is one alone."""
        if isinstance(self.value, Interval):
            return self.value
        if np.ndim(self.value) == 0:
            return Interval(float(np.asarray(self.value)), 0.0)
        return over_seeds(self.value)

    @property
    def agrees(self) -> bool | None:
        """Whether the number is as claimed; None if its interval reaches over an end."""
        if self.claimed is None:
            raise ValueError(f"this finding is not judged: {self.what!r}.")
        mean, half_width = self.estimate
        if math.isnan(mean):
            raise ValueError(f"not a number: {self.what!r}.")
        low, high = mean - half_width, mean + half_width
        if self.claimed.low <= low and high <= self.claimed.high:
            return True
        return False if high < self.claimed.low or low > self.claimed.high else None

    @property
    def prediction(self) -> str:
        """Where the number must lie by the claim, in words."""
        form = self.form if "%" in self.form else ".4g"
        return self.claimed.in_words(form) if self.claimed else ""

    @property
    def number(self) -> str:
        """The value as it is printed."""
        form = self.form or usual_form(self.estimate)
        shown = self.estimate[: 1 + np.ndim(self.value)]
        return " ± ".join(printed(value, form) for value in shown)


@dataclass(frozen=True)
class Unsettled:
    """What the evidence does not decide, and the experiment that would. MyST markdown."""

    what: str
    would_settle: str


Evidence = list[Finding | Unsettled]
Findings = Iterator[Finding | Unsettled]  # what the function of a claim yields


def verdict_of(evidence: Iterable[Finding | Unsettled]) -> str:
    """The verdict that follows from the evidence; see the head of this module."""
    items = list(evidence)
    answers = {
        item.agrees for item in items if isinstance(item, Finding) and item.claimed is not None
    }
    if any(isinstance(item, Unsettled) for item in items):
        return OPEN
    if not answers:
        raise ValueError(
            "evidence needs a judged finding, or something unsettled: give a Finding the range "
            "that the claim implies: near(...), above(...) or below(...), with its why."
        )
    if {True, False} <= answers:
        return PARTLY
    if None in answers:
        return OPEN
    return TRUE if True in answers else FALSE


class Place(NamedTuple):
    """Where the book explains it: a chapter's file without its ending, and one of its headings.

    The heading is on the chapter's own page, or with ``in_depth`` on its depth page.
    """

    chapter: str
    section: str
    in_depth: bool = False

    @property
    def page(self) -> str:
        """The page that holds the heading, from the folder of the book, without its ending."""
        return f"in_depth/{self.chapter}" if self.in_depth else self.chapter

    @property
    def number(self) -> int:
        """The chapter's number."""
        return int(self.chapter.split("_")[0])


@dataclass(frozen=True)
class Claim:
    """One claim of the ledger.

    Parameters
    ----------
    name : str
        Short, unique: the entry's anchor on the page.
    words : str
        The claim in our words. Plain text.
    met : str
        Where readers meet it. MyST markdown.
    place : Place
        The section of the book that explains it.
    recorded : str
        The verdict on record; a test compares it with the evidence.
    answer : str
        What to believe, in a sentence that can be quoted behind the verdict, as in "True of
        unmasked batches; a mask removes it." Plain text.
    evidence : function
        Gathers the findings in a list.
    condition : str
        Why, in a few more words, if the answer leaves that open. MyST markdown.
    scope : str
        What the page says after the verdict if the evidence reaches no further, as in "at our
        scale".
    """

    name: str
    words: str
    met: str
    place: Place
    recorded: str
    answer: str
    evidence: Callable[[], Evidence]
    condition: str = ""
    scope: str = ""


def claim(
    words: str,
    *,
    met: str,
    place: Place,
    recorded: str,
    answer: str,
    condition: str = "",
    scope: str = "",
) -> Callable[[Callable[[], Findings]], Claim]:
    """Turn a function that yields evidence into the claim that it judges."""
    if recorded not in VERDICTS:
        raise ValueError(f"a verdict is one of {VERDICTS}; got {recorded!r}.")

    def decorate(found: Callable[[], Findings]) -> Claim:
        name = found.__name__.replace("_", "-")
        evidence = lambda: list(found())  # noqa: E731
        return Claim(name, words, met, place, recorded, answer, evidence, condition, scope)

    return decorate


def tally(claims: Iterable[Claim]) -> dict[str, int]:
    """How many claims have each verdict on record."""
    counts = Counter(claim.recorded for claim in claims)
    return {verdict: counts[verdict] for verdict in VERDICTS}
