"""What a task is, and how an answer is compared: shapes first, then dtypes, then numbers.

A check calls the answer on inputs drawn afresh and raises :class:`Mistake` with words for the
student. The words never hold an expected number. Where the answer equals what a known mistake gives
on the same inputs, the words are those of that mistake.
"""

import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from normtutor.grading import answers

SECONDS = 10.0  # for one call
NOT_TRIED = "not tried: first make the checks above pass"


class Mistake(Exception):
    """What is wrong with an answer, in words for the student.

    Parameters
    ----------
    words : str
    known : bool
        Whether the words are a diagnosis.
    symptom : str
        What to say in its place to somebody who is to find the mistake without help.
    """

    def __init__(self, words: str, *, known: bool = False, symptom: str = "") -> None:
        super().__init__(words)
        self.known, self.symptom = known, symptom


class GraderFailed(Exception):
    """The grader could not ask a submission. That says nothing about the submission."""


class Answer(Protocol):
    """How checks reach an answer, wherever it runs."""

    def __call__(self, *arguments: Any) -> Any:
        """Call the student's function, or return the student's value when called without."""

    def drive(self, arguments: Sequence[Any], steps: Sequence[Any]) -> tuple:
        """Build the student's torch module and lead it through steps."""


def printable(text: Any) -> str:
    """A submission's words without what would steer a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in str(text))


def received(reply: dict[str, Any]) -> Any:
    """The value in a reply, or a Mistake that says why there is none."""
    if reply.get("missing"):
        raise Mistake("it is not defined: keep the name that the exercise gives")
    if "error" in reply:
        raise Mistake(f"it stopped: {printable(reply['error'])[:600]}")
    try:
        value = answers.decode(reply["value"], arrays=True)
    except (KeyError, TypeError, ValueError, RecursionError, OverflowError) as error:
        raise Mistake("what it returned is not readable as numbers") from error
    changed = reply.get("changed") or []
    if changed:
        numbers = ", ".join(str(int(i) + 1) for i in changed[:5])
        raise Mistake(
            f"it changes its input (argument {numbers}): work on a copy. A cache or a residual "
            "connection still needs the old values.",
            known=True,
        )
    return value


class Local:
    """An answer that runs right here, as in a notebook."""

    def __init__(self, answer: Any, seconds: float = SECONDS) -> None:
        self.answer, self.seconds = answer, seconds

    def __call__(self, *arguments: Any) -> Any:
        return received(answers.call(self.answer, arguments, self.seconds))

    def drive(self, arguments: Sequence[Any], steps: Sequence[Any]) -> tuple:
        return received(answers.drive(self.answer, arguments, steps, self.seconds))


@dataclass(frozen=True)
class Check:
    """One named check. ``run(answer, rng)`` raises :class:`Mistake` unless all is well.

    The points of the other checks count only if those marked ``first`` have passed: a function
    that returns zeros of the right shape and dtype has earned nothing.
    """

    name: str
    run: Callable[[Any, np.random.Generator], None]
    first: bool = False


@dataclass(frozen=True)
class Task:
    """An exercise that can be checked.

    Parameters
    ----------
    id : str
        "02.3": chapter and number.
    kind : "implement", "predict", "explain" or "repair"
    title : str
    name : str
        The name that the answer has in the notebook.
    points : float
        Shared equally by the checks.
    checks : sequence of Check
    prepared : str
        What the notebook hands out under ``name``, as code: a stub, or the code to repair.
    """

    id: str
    kind: str
    title: str
    name: str
    points: float
    checks: tuple[Check, ...] = field(default=())


class Finding(NamedTuple):
    """The outcome of one check."""

    check: str
    passed: bool
    words: str = ""
    known: bool = False
    symptom: str = ""  # stands for the words where a student wants no hint


class Result(NamedTuple):
    """The outcome of one task."""

    task: Task
    findings: tuple[Finding, ...]
    score: float


def judge(task: Task, answer: Any, rng: np.random.Generator) -> Result:
    """Run all checks of a task on an answer."""
    findings: list[Finding] = []
    barred = False
    for check in task.checks:
        if barred:
            findings.append(Finding(check.name, False, NOT_TRIED))
            continue
        try:
            with np.errstate(all="ignore"):
                check.run(answer, rng)
            findings.append(Finding(check.name, True))
        except Mistake as mistake:
            words, symptom = printable(mistake), printable(mistake.symptom)
            findings.append(Finding(check.name, False, words, mistake.known, symptom))
            barred = check.first
        except (ImportError, GraderFailed):
            raise  # torch is missing here, or no process starts; a student did nothing wrong
        except Exception as error:
            # A submission may hand back what no check foresaw; that is no reason to stop grading.
            words = f"what came back could not be checked ({type(error).__name__})"
            findings.append(Finding(check.name, False, words))
            barred = check.first
    right = 0 if barred else sum(finding.passed for finding in findings)
    score = round(task.points * right / max(len(task.checks), 1), 2)
    return Result(task, tuple(findings), score)


# --- comparing ------------------------------------------------------------------------------------


class Known(NamedTuple):
    """A known mistake: what it says to the student, and what it gives in place of each output.

    None where that output is right, or does not matter. ``handed_out`` marks the mistake that is to
    be repaired.
    """

    words: str
    outputs: tuple[Any, ...]
    handed_out: bool = False


def close(a: Any, b: Any, tolerance: float) -> bool:
    """Whether two arrays agree, measured by the largest entry of the second."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return False
    finite = np.isfinite(b)
    if not finite.any():
        return True
    scale = max(float(np.abs(b[finite]).max()), 1e-300)
    return float(np.abs(a[finite] - b[finite]).max()) <= tolerance * scale


def stacked(value: Any) -> Any:
    """A list of rows, of whatever they are, as one array; unchanged where it is none."""
    rows = [stacked(item) if type(item) is tuple else item for item in value]
    if not all(isinstance(row, (bool, int, float, answers.Array)) for row in rows):
        return value
    values = [row.values if isinstance(row, answers.Array) else np.asarray(row) for row in rows]
    dtypes = {row.dtype if isinstance(row, answers.Array) else "float64" for row in rows}
    if not values or len({v.shape for v in values}) > 1:
        return value
    return answers.Array(np.stack(values), dtypes.pop() if len(dtypes) == 1 else "float64")


def outputs_of(value: Any, names: Sequence[str]) -> list[answers.Array]:
    """The answer's outputs as arrays, one for each name."""
    if value is None:
        raise Mistake(
            "it returns None: is there no answer yet, or no return statement?", known=True
        )
    if len(names) == 1 and type(value) is tuple:
        value = value[0] if len(value) == 1 else stacked(value)
    values = value if type(value) is tuple else (value,)
    if (
        len(names) > 1
        and isinstance(value, answers.Array)
        and value.values.shape[:1] == (len(names),)
    ):
        values = tuple(answers.Array(v, value.dtype) for v in value.values)  # [n, mean, variance]
    if len(values) != len(names):
        wanted = f"{len(names)} results ({', '.join(names)})" if len(names) > 1 else "one result"
        raise Mistake(f"it must return {wanted}; it returned {len(values)}", known=True)
    arrays = []
    for name, item in zip(names, values, strict=True):
        if type(item) is tuple:
            item = stacked(item)
        if isinstance(item, (bool, int, float)):
            item = answers.Array(np.asarray(item, np.float64), "float64")
        if item is None:
            raise Mistake(f"{name} is None")
        if not isinstance(item, answers.Array):
            kind = item.name if isinstance(item, answers.Other) else type(item).__name__
            raise Mistake(f"{name} must be an array of numbers; it is a {kind}")
        arrays.append(item)
    return arrays


def compare(
    value: Any,
    expected: Sequence[Any],
    names: Sequence[str],
    known: Sequence[Known] = (),
    *,
    tolerance: float = 1e-8,
    dtype: str | None = None,
    slips: Callable[[], Iterable[Known]] | None = None,
) -> None:
    """Raise Mistake unless the outputs are the expected ones: shapes, then dtypes, then values."""
    got = outputs_of(value, names)
    wanted = [np.asarray(e) for e in expected]
    got = [
        answers.Array(g.values.reshape(()), g.dtype) if not w.ndim and g.values.size == 1 else g
        for g, w in zip(got, wanted, strict=True)
    ]
    if len(got) > 1 and (order := exchanged(got, wanted, tolerance)):
        raise Mistake(
            f"the results are right and stand in another order: {order(names)}", known=True
        )
    for name, g, w in zip(names, got, wanted, strict=True):
        if g.values.shape != w.shape:
            hint = turned(g.values, w, tolerance)
            if hint:
                raise Mistake(f"{name} {hint}", known=True)
            if g.values.size == w.size:
                hint = ". The number of entries is right: an axis of length one, or a transpose?"
            elif g.values.ndim > w.ndim:
                hint = ". Something was not summed, or was broadcast."
            elif g.values.ndim == w.ndim == 1:
                hint = ". Is the sum taken over another axis?"
            words = f"{name} must have shape {w.shape}; it has {g.values.shape}{hint}"
            raise Mistake(words, known=bool(hint))
    for name, g in zip(names, got, strict=True):
        if dtype is not None and g.dtype != dtype:
            words = f"{name} must come back as {dtype}, like the input; it is {g.dtype}"
            raise Mistake(words, known=True)
    wrong = [
        i for i, (g, w) in enumerate(zip(got, wanted, strict=True))
        if not close(g.values, w, tolerance)
    ]  # fmt: skip
    if not wrong:
        return
    i = wrong[0]
    symptom = described(names[i], np.asarray(got[i].values, np.float64), wanted[i], tolerance)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a slip may well divide by zero
        every = [*known, *(slips() if slips else ())]
    for mistake in every:
        told = [(i, o) for i, o in enumerate(mistake.outputs) if o is not None]
        tells = any(i in wrong and not close(o, wanted[i], tolerance) for i, o in told)
        if tells and all(close(got[i].values, o, max(tolerance, 1e-7)) for i, o in told):
            raise Mistake(
                mistake.words, known=True, symptom=str(symptom) if mistake.handed_out else ""
            )
    raise symptom


def exchanged(
    got: Sequence[answers.Array], wanted: Sequence[np.ndarray], tolerance: float
) -> Callable[[Sequence[str]], str] | None:
    """Which order right results came back in, if it is not the one that was asked for."""
    if len(got) > 5:
        return None
    straight = tuple(range(len(got)))
    for order in itertools.permutations(straight):
        same = (close(got[i].values, wanted[j], tolerance) for i, j in enumerate(order))
        if all(same):
            if order == straight:
                return None
            return lambda names: ", ".join(names[j] for j in order)
    return None


def turned(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> str:
    """Whether an output is the right one with its axes in another order."""
    if got.ndim != wanted.ndim or not 2 <= got.ndim <= 4:
        return ""
    for order in itertools.permutations(range(got.ndim)):
        if order != tuple(range(got.ndim)) and close(np.transpose(got, order), wanted, tolerance):
            return "has the right numbers with its axes exchanged: is there a transpose too many?"
    return ""


def bent(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> str:
    """Whether an output is a simple function of the right one, entry by entry."""
    loose = 10 * tolerance
    with np.errstate(all="ignore"):
        for words, values in (
            ("is the square of what it should be: is a root missing?", wanted**2),
            ("is the root of what it should be: was a root taken twice?", np.sqrt(np.abs(wanted))),
            ("is one divided by what it should be", 1 / wanted),
            ("has lost its sign: is there an absolute value or a square in it?", np.abs(wanted)),
        ):
            if np.isfinite(values).all() and close(got, values, loose):
                return words
    for axis in range(got.ndim):
        length = got.shape[axis]
        for step in (1, -1):
            if length > 2 and close(got, np.roll(wanted, step, axis), loose):
                return f"is shifted by one along axis {axis}"
        if length > 1 and close(got, np.flip(wanted, axis), loose):
            return f"runs backwards along axis {axis}"
        if length > 1 and close(got, np.cumsum(wanted, axis), loose):
            return f"is summed up along axis {axis}"
        mean = wanted.mean(axis, keepdims=True)
        if (
            length > 1
            and not close(wanted, wanted - mean, loose)
            and close(got, wanted - mean, loose)
        ):
            return f"has lost its mean along axis {axis}: something is centred that should not be"
    if close(got - (got - wanted).mean(), wanted, loose):
        return "is off by the same number everywhere: is something added, or counted twice?"
    return turned(got, wanted, tolerance) or affine(got, wanted, tolerance)


def affine(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> str:
    """Whether an output is right up to a factor or a shift in every slice along an axis.

    The slices say over which axes a statistic was shared, the kind says which statistic is wrong.
    """
    if got.ndim < 2:
        return ""
    along = {1: "along axis {0}", 2: "along axes {0} and {1}"}
    for size in (1, 2):
        for axes in itertools.combinations(range(got.ndim), size):
            if np.prod([got.shape[a] for a in axes]) < 4 or size == got.ndim:
                continue
            a = wanted - wanted.mean(axes, keepdims=True)
            b = got - got.mean(axes, keepdims=True)
            square = np.maximum((a * a).sum(axes, keepdims=True), 1e-300)
            factor = (a * b).sum(axes, keepdims=True) / square
            scale = np.abs(wanted).max()
            if np.abs(b - factor * a).max() > 1e3 * tolerance * scale:
                continue
            place = along[size].format(*axes)
            level = np.abs(got - factor * wanted).max() <= 1e3 * tolerance * scale
            if np.abs(factor - 1).max() < 1e-6:
                return (
                    f"is right up to a number of its own in each slice {place}: a mean or a shift "
                    "is missing, or is taken over other axes"
                )
            if level:
                return (
                    f"is right up to a factor of its own in each slice {place}: the statistic that "
                    "divides is another one. Look at its axes, its divisor, its root and ε"
                )
            return (
                f"is right up to a factor and a shift of its own in each slice {place}: both "
                "statistics differ from the right ones. Look at their axes"
            )
    return ""


def described(name: str, got: np.ndarray, wanted: np.ndarray, tolerance: float) -> Mistake:
    """Say in which way one output is wrong, without saying what is right."""
    bad = ~np.isfinite(got) & np.isfinite(wanted)
    if bad.any():
        return Mistake(
            f"{name} holds NaN or infinity in {bad.sum()} of {got.size} entries: is there a "
            "division by zero, a root of a negative number, or an overflow?"
        )
    if not got.any():
        return Mistake(f"{name} is zero everywhere")
    if close(got, wanted, 5e-6):
        return Mistake(
            f"{name} is right to some six digits and no more: is a step taken in float32, or in a "
            "way that loses digits? The input has more",
            known=True,
        )
    if got.size == 1:  # a ratio would give the number away
        with np.errstate(all="ignore"):
            roots = ((np.sqrt(wanted), "the root"), (np.square(wanted), "the square"))
        for value, words in roots:
            if close(got, value, tolerance) and not close(got, wanted, 1e-3):
                return Mistake(f"{name} is {words} of what it should be", known=True)
        size = "large" if abs(got.item()) > abs(wanted.item()) else "small"
        sign = got.item() * wanted.item() < 0
        return Mistake(f"{name} {'has the wrong sign' if sign else f'is too {size}'}")
    flat_got, flat = got.ravel(), wanted.astype(np.float64).ravel()
    factor = float(flat_got @ flat / max(float(flat @ flat), 1e-300))
    if close(got, -wanted, 10 * tolerance):
        return Mistake(f"{name} has the wrong sign everywhere", known=True)
    if factor and close(got, factor * wanted, 10 * tolerance):
        return Mistake(
            f"{name} is {factor:.4g} times what it should be, everywhere: a sum in the place of a "
            "mean, or a missing factor?",
            known=True,
        )
    if words := bent(got, wanted.astype(np.float64), tolerance):
        return Mistake(f"{name} {words}", known=True)
    scale = max(float(np.abs(wanted).max()), 1e-300)
    off = np.abs(got - wanted) > tolerance * scale
    largest = float(np.abs(got - wanted).max()) / scale
    return Mistake(
        f"{name} is wrong in {off.sum()} of {off.size} entries; the largest difference is "
        f"{largest:.2g} of the largest entry"
    )


def prediction(
    value: Any, truth: float, known: Sequence[tuple[float, str]] = (), tolerance: float = 0.02
) -> None:
    """Raise Mistake unless a predicted number is right to 2 %."""
    if value is None or value is Ellipsis:
        raise Mistake("there is no prediction yet: enter a number")
    if isinstance(value, answers.Array) and value.values.size == 1:
        value = float(value.values.reshape(()))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Mistake("a prediction is one number")
    if near(value, truth, tolerance):
        return
    for wrong, words in known:
        if near(value, wrong, tolerance):
            raise Mistake(words, known=True)
    if truth and near(-value, truth, tolerance):
        raise Mistake("the size is right, the sign is not", known=True)
    raise Mistake("that is not the number. Work it out on paper once more before you go on")


def near(value: float, truth: float, tolerance: float) -> bool:
    """Whether a number is right to a share of itself; zero must be met to 1e-6."""
    return abs(value - truth) <= max(tolerance * abs(truth), 1e-6)
