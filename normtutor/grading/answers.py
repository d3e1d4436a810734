"""A student's answer: how it is called, what is seen of the call, and how values travel as text.

A grade and a student's own ``check`` both go through :func:`call` and :func:`drive`, so they agree.
The grader runs this file beside a submission as well, so it imports nothing of normtutor.
"""

import base64
import contextlib
import numbers
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

DTYPES = ("bool", "int64", "int32", "float16", "float32", "float64")
LIST = "a list"  # of Python's numbers, which have no dtype
MOST_BYTES = 16_000_000  # of one answer, as text
MOST_TEXT = 100_000  # characters of a string
# Packages that hold an answer or take derivatives. None of them is there for a graded submission.
WITHHELD = (
    "normtutor normtutor_grader normtutor_studies jax jaxlib flax equinox haiku keras tensorflow "
    "autograd mlx transformers timm onnxruntime nbgrader"
).split()


def is_withheld(name: str) -> bool:
    """Whether a package, or a file of it in a folder of packages, is not there when one is graded.

    With a "~" in front pip keeps what it could not remove.
    """
    return name.startswith(("~", "__editable__")) or re.split("[-.]", name)[0] in WITHHELD


# What a library calls a norm, and what in torch and SciPy takes a derivative.
NORMS = re.compile(r"(layer|batch|group|instance|rms|weight|local_response)_norm(?!al)")
DERIVATIVES = re.compile(r"^(backward|grad|vjp|jvp|jac\w*|hessian|make_dual|\w*derivative)$")


class Forbidden(Exception):
    """Raised when graded code uses what the exercise asks it to write."""


class Sublayer(NamedTuple):
    """A small network to put into a residual step: h -> tanh(h @ weight), for any array."""

    weight: np.ndarray

    def __call__(self, h: Any) -> Any:
        if isinstance(h, np.ndarray):
            return np.tanh(h @ self.weight.astype(h.dtype))
        if hasattr(h, "tanh"):
            return (h @ h.new_tensor(self.weight)).tanh()
        return np.tanh(np.asarray(h) @ self.weight)


# --- values as text -------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """Turn a value into what JSON can carry. Unknown types are named, not carried."""
    if value is None or isinstance(value, (bool, str)):
        return value[:MOST_TEXT] if isinstance(value, str) else value
    if isinstance(value, int) and abs(value) < 2**63:
        return {"integer": value}
    if isinstance(value, numbers.Number) and not isinstance(value, (np.generic, complex)):
        return {"number": float(value)}  # type: ignore[arg-type] # a Fraction or a Decimal, too
    if isinstance(value, Sublayer):
        return {"sublayer": encode(value.weight)}
    if isinstance(value, tuple) or (isinstance(value, list) and not _numeric(value)):
        return {"tuple": [encode(item) for item in value]}
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu().numpy()
    if isinstance(value, (np.ndarray, np.generic, list)):
        array = np.ascontiguousarray(np.asarray(value))
        array = array.reshape(np.shape(value))  # ascontiguousarray makes a scalar one-dimensional
        if array.dtype == np.longdouble or (array.dtype == object and _numeric(array.tolist())):
            array = array.astype(np.float64)
        if array.dtype.name in DTYPES:
            if array.nbytes > MOST_BYTES // 2:
                raise ValueError(f"the result is too large: shape {array.shape}")
            data = base64.b64encode(array.tobytes()).decode()
            found = {"array": data, "dtype": array.dtype.name, "shape": array.shape}
            return found | {"list": True} if isinstance(value, list) else found
    return {"other": type(value).__name__[:100]}


def _numeric(value: Any) -> bool:
    """Whether a list holds nothing but numbers, at any depth, in rows of one length."""
    if isinstance(value, list):
        lengths = {len(item) if isinstance(item, list) else -1 for item in value}
        return len(lengths) < 2 and all(_numeric(item) for item in value)
    return isinstance(value, (numbers.Real, np.generic))


class Array(NamedTuple):
    """An array that came over, and its dtype: LIST where it had none."""

    values: np.ndarray
    dtype: str


class Other(NamedTuple):
    """Something that is no value: the name of its type."""

    name: str


def decode(text: Any, *, arrays: bool = False) -> Any:
    """Undo :func:`encode`, trusting nothing; with ``arrays`` an array is an :class:`Array`."""
    if text is None or isinstance(text, (bool, str)):
        return text
    if not isinstance(text, dict):
        raise ValueError("not an encoded value")
    if "integer" in text:
        return int(text["integer"])
    if "number" in text:
        return float(text["number"])
    if "sublayer" in text:
        return Sublayer(decode(text["sublayer"]))
    if "tuple" in text:
        return tuple(decode(item, arrays=arrays) for item in text["tuple"])
    if "array" in text:
        if text["dtype"] not in DTYPES:
            raise ValueError("not an encoded value")
        shape = tuple(int(n) for n in text["shape"])
        values = np.frombuffer(base64.b64decode(text["array"]), dtype=text["dtype"])
        values = values.reshape(shape).copy()
        return Array(values, LIST if text.get("list") else values.dtype.name) if arrays else values
    return Other(str(text.get("other"))[:100])


# --- whose lines do the work ----------------------------------------------------------------------


def own_work(run: Callable[..., Any], *given: Any) -> Any:
    """Call something, and raise Forbidden if it called a library's norm or derivative by its name.

    This is a tripwire for students who forgot what the exercise asks for. It runs in their own
    process, where nothing can stop one who wants to get past it.
    """
    called: set[tuple[str, str]] = set()

    def note(frame: Any, event: str, function: Any) -> None:
        if event == "call":
            called.add((str(frame.f_globals.get("__name__")), frame.f_code.co_name))
        elif event == "c_call":
            called.add(("torch", str(getattr(function, "__name__", ""))))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = run(*given)
    finally:
        sys.setprofile(before)
    for module, name in sorted(called):
        library = module.partition(".")[0]
        formula = NORMS.search(name) or DERIVATIVES.search(name)
        theirs = library in WITHHELD and not module.startswith("normtutor.grading")
        if theirs or (formula and library in ("torch", "scipy")):
            what = library if theirs else f"{library}'s {name}"
            raise Forbidden(
                f"it calls {what}, which is what the exercise asks for; write the formula yourself"
            )
    return result


# --- calling a student's code ---------------------------------------------------------------------


class Late(BaseException):
    """Raised inside code that has used up its time. No ``except Exception`` stops it."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt what runs inside after some seconds by the clock, where signals allow it."""
    usable = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not usable or seconds <= 0:
        yield
        return

    def late(signum: int, frame: Any) -> None:
        raise Late(f"it did not finish within {seconds:g} seconds")

    before, begun = signal.signal(signal.SIGALRM, late), time.monotonic()
    outer, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:  # the limit around this one still holds
            left = outer - (time.monotonic() - begun)
            signal.setitimer(signal.ITIMER_REAL, max(left, 0.001))


def in_words(error: BaseException) -> str:
    """The error in one line, as Python would end its report, and where in the student's code."""
    try:
        with time_limit(1.0):  # its class is the student's, and so is what shows it
            return _in_words(error)
    except BaseException:
        return "it raised an error that cannot be shown"


def _in_words(error: BaseException) -> str:
    if isinstance(error, Late):
        return f"{error}{where(error)}"
    if isinstance(error, SystemExit):
        return f"it tried to end the program (SystemExit){where(error)}"
    if isinstance(error, Forbidden):
        return str(error)
    return f"{type(error).__name__}: {error}"[:400].strip() + where(error)


def where(error: BaseException) -> str:
    """The cell and the line of a student's code in which an error arose."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        cell = re.fullmatch(r"<code cell (\d+)>", frame.filename)
        if cell or "ipykernel" in frame.filename:
            place = f"code cell {cell[1]}, line {frame.lineno}" if cell else f"line {frame.lineno}"
            name = "" if frame.name == "<module>" else f"{frame.name}, "
            return f" (in {name}{place}: {(frame.line or '').strip()[:80]})"
    return ""


def call(function: Any, arguments: Sequence[Any], seconds: float) -> dict[str, Any]:
    """Call a student's function; say what came back, or what went wrong, as encoded data."""
    if not callable(function) and arguments:
        return {"error": "it is not a function"}

    def run() -> Any:
        if not callable(function):
            return encode(function)
        given[:] = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        return encode(function(*given))

    given: list[Any] = []
    try:
        with time_limit(seconds):
            value = own_work(run)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return {"error": in_words(error)}
    changed = [
        index
        for index, (now, before) in enumerate(zip(given, arguments, strict=True))
        if isinstance(before, np.ndarray) and not _same(now, before)
    ]
    return {"value": value, "changed": changed}


def _same(a: Any, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=True))


def drive(factory: Any, arguments: Sequence[Any], steps: Sequence[Any], seconds: float) -> dict:
    """Build a student's torch module and lead it through steps; the answers are a tuple.

    Tensors have torch's default dtype, as the module's own have.

    Steps: ``("train",)``, ``("eval",)``, ``("forward", x)``, ``("forward without grad", x)``,
    ``("backward", grad_y)`` (of the last forward, with respect to its x), ``("buffer", name)``,
    ``("saved", name)``, ``("keeps graph", name)``.
    """
    import torch

    def run() -> tuple:
        module = own_work(factory, *arguments)
        answers: list[Any] = []
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"the class must be a torch.nn.Module; got {type(module).__name__}")
        x: Any = None
        y: Any = None
        for step in steps:
            kind = step[0]
            if kind in ("train", "eval"):
                module.train(kind == "train")
            elif kind == "forward":
                x = torch.tensor(step[1], dtype=torch.get_default_dtype()).requires_grad_()
                with torch.enable_grad():
                    y = own_work(module, x)
                if not isinstance(y, torch.Tensor):
                    raise TypeError(f"forward must return a tensor; got {type(y).__name__}")
                answers.append(y)
            elif kind == "forward without grad":
                given = torch.tensor(step[1], dtype=torch.get_default_dtype())
                with torch.no_grad():
                    answers.append(own_work(module, given))
            elif kind == "backward":
                grad = torch.tensor(step[1], dtype=y.dtype)
                torch.autograd.backward([y], [grad])
                # A later step may reach this tensor once more, which another check finds out.
                answers.append(None if x.grad is None else x.grad.clone())
            elif kind == "buffer":
                answers.append(getattr(module, step[1]))
            elif kind == "saved":
                buffers = dict(module.named_buffers())
                answers.append(step[1] in buffers and step[1] in module.state_dict())
            elif kind == "keeps graph":
                buffer = getattr(module, step[1])
                answers.append(buffer.grad_fn is not None)
        return tuple(answers)

    try:
        with time_limit(seconds):
            return {"value": encode(run())}
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return {"error": in_words(error)}
