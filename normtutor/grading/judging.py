"""What a task is, and how an answer is compared: shapes first, then dtypes, then numbers.

A check calls the answer on inputs drawn afresh and raises :class:`Mistake` with words for the
student. The words never hold an expected number. They name a mistake only where the answer is what
that mistake gives on the same inputs, and no other one does. Otherwise they say where the answer
first differs, in which slices, and by how much.
"""

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from normtutor.grading import answers

SECONDS = 20.0  # for one call
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
    """A submission's words in one line, without what would steer a terminal."""
    return "".join(c if c.isprintable() else " " for c in str(text))


def received(reply: dict[str, Any]) -> Any:
    """The value in a reply, or a Mistake that says why there is none."""
    if reply.get("missing"):
        why = printable(str(reply.get("why", "no cell defines it"))[:600])
        raise Mistake(f"it is not defined: {why}")
    if "error" in reply:
        raise Mistake(f"it stopped: {printable(str(reply['error'])[:600])}")
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
    numbers : mapping of str to sequence of float
        What may stand for the book's own numbers, which are keyword arguments of the checks.
    """

    id: str
    kind: str
    title: str
    name: str
    points: float
    checks: tuple[Check, ...] = field(default=())
    numbers: Mapping[str, Sequence[float]] = field(default_factory=dict)


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
    """A known mistake: what it says to the student, and what it puts out; None where that is right.

    ``handed_out`` marks the mistake that is to be repaired. Where several give the same, the one
    of the lowest ``rank`` is named: 0 has words of its own, 1 is a frequent slip, 2 another one.
    """

    words: str
    outputs: tuple[Any, ...]
    handed_out: bool = False
    rank: int = 0


def close(a: Any, b: Any, tolerance: float) -> bool:
    """Whether two arrays agree, measured by the largest entry of the second."""
    if np.shape(a) != np.shape(b):
        return False
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
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
    dtypes = {row.dtype if isinstance(row, answers.Array) else answers.LIST for row in rows}
    if not values or len({v.shape for v in values}) > 1:
        return value
    return answers.Array(np.stack(values), dtypes.pop() if len(dtypes) == 1 else "float64")


def outputs_of(value: Any, names: Sequence[str]) -> list[answers.Array]:
    """The answer's outputs as arrays, one for each name."""
    if value is None:
        raise Mistake("it returns None: there is no answer yet, or no return statement", known=True)
    if len(names) == 1 and type(value) is tuple:
        value = value[0] if len(value) == 1 else stacked(value)
    values = value if type(value) is tuple else (value,)
    if len(names) > 1 and isinstance(value, answers.Array):
        if value.values.shape[:1] == (len(names),):  # [n, mean, variance]
            values = tuple(answers.Array(v, value.dtype) for v in value.values)
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
            exact = reshaped(g.values, w, tolerance)
            shapes = f"{name} must have shape {w.shape}; it has {g.values.shape}"
            raise Mistake(f"{name} {exact}" if exact else shapes, known=bool(exact))
    for name, g in zip(names, got, strict=True):
        if dtype is not None and g.dtype not in (dtype, answers.LIST):
            words = f"{name} must come back as {dtype}, like the input; it is {g.dtype}"
            raise Mistake(words, known=True)
    values = [np.asarray(g.values, np.float64) for g in got]
    wrong = [not close(v, w, tolerance) for v, w in zip(values, wanted, strict=True)]
    if not any(wrong):
        return
    i = wrong.index(True)
    symptom = described(names[i], values[i], wanted[i].astype(np.float64), tolerance)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a slip may well divide by zero
        named = cause(values, wanted, itertools.chain(known, slips() if slips else ()), tolerance)
    if named:
        raise Mistake(named.words, known=True, symptom=str(symptom) if named.handed_out else "")
    raise symptom


def cause(
    got: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
    every: Iterable[Known],
    tolerance: float,
) -> Known | None:
    """The one mistake that puts out what came back; None where there is none, or more than one."""
    found: dict[str, int] = {}
    loose = max(tolerance, 1e-7)
    for mistake in every:
        outputs = [
            w if o is None else np.reshape(o, w.shape) if np.size(o) == w.size else np.asarray(o)
            for o, w in zip(mistake.outputs, wanted, strict=True)
        ]
        tells = any(
            telling(o) and not close(o, w, 3 * loose) for o, w in zip(outputs, wanted, strict=True)
        )
        if tells and all(close(g, o, loose) for g, o in zip(got, outputs, strict=True)):
            if mistake.handed_out:
                return mistake
            found.setdefault(mistake.words, mistake.rank)
    best = [words for words, rank in found.items() if rank == min(found.values())]
    return Known(best[0], ()) if len(best) == 1 else None


def telling(output: np.ndarray) -> bool:
    """Whether it takes a particular mistake to put this out: zeros or one number come of many."""
    finite = output[np.isfinite(output)]
    return bool(finite.size and finite.any() and (output.size == 1 or np.ptp(finite) > 0))


def blamed(
    words: str,
    hard: Callable[[], None],
    easy: Callable[[], None],
    *,
    seen: str = "",
    handed_out: bool = False,
) -> None:
    """Run a check on a hard case; where that fails and an easy case does not, ``words`` say why.

    ``seen`` must stand in what the hard case has to say.
    """
    try:
        hard()
    except Mistake as mistake:
        symptom = str(mistake)
        if mistake.known or seen not in symptom:
            raise
        try:
            easy()
        except Mistake:
            raise mistake from None
        shown = symptom if handed_out else ""
        raise Mistake(f"{words}. {symptom}", known=True, symptom=shown) from None


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


def reshaped(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> str:
    """Whether an output is the right one with its axes in another order, or not yet summed."""
    if got.ndim == wanted.ndim <= 4:
        for order in itertools.permutations(range(got.ndim)):
            moved = np.transpose(got, order)
            if order != tuple(range(got.ndim)) and close(moved, wanted, tolerance):
                return "has the right numbers with its axes exchanged"
    if got.size == wanted.size and got.shape != wanted.shape:
        if close(got.reshape(wanted.shape), wanted, tolerance):
            return f"has the right numbers in the shape {got.shape}; it must be {wanted.shape}"
    for axes in ((0,), (0, 1)) if 0 < wanted.ndim < got.ndim else ():
        if close(got.sum(axes), wanted, tolerance):
            return f"is not summed yet over the first {len(axes)} of its {got.ndim} axes"
    return ""


def related(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> str:
    """Whether an output is a simple function of the right one, entry by entry."""
    loose = 10 * tolerance
    factor = float(np.vdot(got, wanted) / max(float(np.vdot(wanted, wanted)), 1e-300))
    for words, values in (
        ("has the wrong sign everywhere", -wanted),
        (f"is {factor:.4g} times what it should be, everywhere", factor * wanted),
        ("is the square of what it should be", wanted**2),
        ("is the root of what it should be", np.sqrt(np.abs(wanted))),
        ("is one divided by what it should be", 1 / wanted),
        ("is off by the same number everywhere", wanted + (got - wanted).mean()),
    ):
        if factor and np.isfinite(values).all() and close(got, values, loose):
            return words
    return reshaped(got, wanted, tolerance)


def described(name: str, got: np.ndarray, wanted: np.ndarray, tolerance: float) -> Mistake:
    """Say in which way one output is wrong, without saying what is right."""
    off = ~(np.abs(got - wanted) <= tolerance * max(float(np.abs(wanted).max()), 1e-300))
    bad = ~np.isfinite(got) & np.isfinite(wanted)
    if bad.any():
        place = f", first at {np.argwhere(bad)[0].tolist()}" if got.ndim else ""
        return Mistake(f"{name} holds NaN or infinity in {bad.sum()} of {got.size} entries{place}")
    if got.size == 1:  # a ratio would give the number away
        size = "large" if abs(got.item()) > abs(wanted.item()) else "small"
        sign = got.item() * wanted.item() < 0
        return Mistake(f"{name} {'has the wrong sign' if sign else f'is too {size}'}")
    if not np.ptp(got):
        return Mistake(f"{name} is {'the same number' if got.any() else 'zero'} everywhere")
    if close(got, wanted, 5e-6):
        return Mistake(f"{name} is right to some six digits and no more; the input has more")
    with np.errstate(all="ignore"):
        if np.ptp(wanted) and (words := related(got, wanted, tolerance)):
            return Mistake(f"{name} {words}", known=True)
    largest = float(np.abs(got - wanted).max() / max(float(np.abs(wanted).max()), 1e-300))
    return Mistake(
        f"{name} first differs at {np.argwhere(off)[0].tolist()}; "
        f"{off.sum()} of {off.size} entries differ{within(off)}; "
        f"the largest difference is {largest:.2g} of the largest entry"
    )


def within(off: np.ndarray) -> str:
    """In which slices all wrong entries are, where they are not in every slice."""
    places = []
    for axis in range(off.ndim):
        others = tuple(a for a in range(off.ndim) if a != axis)
        slices = np.flatnonzero(off.any(others))
        if len(slices) < min(off.shape[axis], 4):
            places.append(f"{' and '.join(map(str, slices))} along axis {axis}")
    return f", all at {', '.join(places)}" if places else ""


def prediction(
    value: Any, truth: float, known: Sequence[tuple[float, str]] = (), tolerance: float = 0.02
) -> None:
    """Raise Mistake unless a predicted number is right to 2 %."""
    value = predicted(value)
    if near(value, truth, tolerance):
        return
    for wrong, words in sorted(known, key=lambda mistake: abs(value - mistake[0])):
        if near(value, wrong, tolerance):
            raise Mistake(words, known=True)
    if truth and near(-value, truth, tolerance):
        raise Mistake("the size is right, the sign is not", known=True)
    raise Mistake("that is not the number. Work it out on paper once more before you go on")


def predicted(value: Any) -> float:
    """The number in a prediction; a Mistake where there is none."""
    if value is None or value is Ellipsis:
        raise Mistake("there is no prediction yet: enter a number")
    if isinstance(value, answers.Array) and value.values.size == 1:
        value = float(value.values.reshape(()))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Mistake("a prediction is one number")
    return value


def near(value: float, truth: float, tolerance: float) -> bool:
    """Whether a number is right to a share of itself; zero must be met to 1e-6."""
    return abs(value - truth) <= max(tolerance * abs(truth), 1e-6)
