"""A student's answer: how it is called, what is seen of the call, and how values travel as text.

A grade and a student's own ``check`` both go through :func:`call` and :func:`drive`, so they agree.
What torch computes during a call is read from torch's own record of it, whatever name a student
called it by. This file is run by its path as well, beside a submission, and imports nothing of
normtutor.
"""

import base64
import contextlib
import numbers
import os
import re
import secrets
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

DTYPES = ("bool", "int64", "int32", "float16", "float32", "float64")
MOST_BYTES = 40_000_000  # of one answer, as text
PATIENCE = 4  # seconds by the clock for each of computing: a busy machine costs nobody points
# Packages that hold an answer or take derivatives. None of them is there for a graded submission.
WITHHELD = (
    *("normtutor", "jax", "jaxlib", "flax", "equinox", "haiku", "keras", "tensorflow", "autograd"),
    *("mlx", "transformers", "timm", "onnxruntime", "nbgrader"),
)
# How torch's record names what an exercise asks for: its norms, and its derivatives.
NORMS = re.compile(r"(?:layer|batch|group|instance|rms|weight)_norm(?!al)", re.IGNORECASE)
SET_PROFILE = sys.setprofile
DERIVATIVES = re.compile(r"Backward\d*$|^autograd::|AccumulateGrad|_make_dual|_fw_primal")

# Functions in Python that hold a norm or take a derivative: what they are, file and name.
WRITTEN = tuple(
    (what, re.compile(file), re.compile(name))
    for what, file, name in (
        ("a norm of torch's", r"[/\\]torch[/\\](_refs|_decomp|_prims|testing)[/\\]", "norm"),
        ("a norm of torch's", r"[/\\]torch[/\\]", NORMS.pattern),
        ("torch's fusion of norms", r"[/\\]torch[/\\](nn[/\\]utils|ao)[/\\]", "^_?fuse_"),
        ("code that torch.fx has written", r"^<eval_with_key>", ""),
        (
            "SciPy's derivatives",
            r"[/\\]scipy[/\\](differentiate[/\\]|optimize[/\\]_numdiff)",
            "derivative|jacobian|hessian",
        ),
        ("torch's numerical derivatives", r"[/\\]torch[/\\]autograd[/\\]gradcheck", "numerical"),
        ("SymPy's derivatives", r"[/\\]sympy[/\\]", r"^(diff|fdiff|_eval_derivative\w*)$"),
        ("code that SymPy has written", "^<lambdifygenerated", ""),
        ("mpmath's derivatives", r"[/\\]mpmath[/\\]calculus[/\\]differentiation", r"^diff"),
    )
)


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
        return value[:10_000] if isinstance(value, str) else value
    if isinstance(value, int) and abs(value) < 2**63:
        return {"integer": value}
    if isinstance(value, numbers.Number) and not isinstance(value, (np.generic, complex)):
        return {"number": float(value)}  # type: ignore[arg-type] # a Fraction or a Decimal, too
    if isinstance(value, Sublayer):
        return {"sublayer": encode(value.weight)}
    if isinstance(value, dict):
        return {"dict": [[str(key), encode(item)] for key, item in value.items()]}
    if isinstance(value, list) and not _numeric(value):
        return {"tuple": [encode(item) for item in value]}
    if isinstance(value, tuple):
        return {"tuple": [encode(item) for item in value]}
    dtype = ""
    if hasattr(value, "detach"):  # a torch tensor
        dtype = str(value.dtype).removeprefix("torch.")
        value = value.detach().cpu()
        value = (value.float() if dtype == "bfloat16" else value).numpy()
    elif hasattr(value, "to_numpy"):  # a table or a column of pandas
        value = value.to_numpy()
    if isinstance(value, (np.ndarray, np.generic, list)):
        array = np.ascontiguousarray(np.asarray(value))
        array = array.reshape(np.shape(value))  # ascontiguousarray makes a scalar one-dimensional
        if array.dtype == np.longdouble or (array.dtype == object and _numeric(array.tolist())):
            array = array.astype(np.float64)
        if array.dtype.name in DTYPES:
            if array.nbytes > MOST_BYTES // 2:
                raise ValueError(f"the result is too large: shape {array.shape}")
            data = base64.b64encode(array.tobytes()).decode()
            name = array.dtype.name
            return {"array": data, "dtype": name, "shape": array.shape, "of": dtype or name}
    return {"other": type(value).__name__[:100]}


def _numeric(value: Any) -> bool:
    """Whether a list holds nothing but numbers, at any depth, in rows of one length."""
    if isinstance(value, list):
        lengths = {len(item) if isinstance(item, list) else -1 for item in value}
        return len(lengths) < 2 and all(_numeric(item) for item in value)
    return isinstance(value, (numbers.Real, np.generic))


class Array(NamedTuple):
    """An array that came over, and the dtype that its sender gave it."""

    values: np.ndarray
    dtype: str


class Other(NamedTuple):
    """Something that is no value: the name of its type."""

    name: str


def decode(text: Any, *, arrays: bool = False) -> Any:
    """Undo :func:`encode`, trusting nothing; with ``arrays`` an :class:`Array` keeps its dtype."""
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
    if "dict" in text:
        return {str(key): decode(item, arrays=arrays) for key, item in text["dict"]}
    if "tuple" in text:
        return tuple(decode(item, arrays=arrays) for item in text["tuple"])
    if "array" in text:
        if text["dtype"] not in DTYPES:
            raise ValueError("not an encoded value")
        shape = tuple(int(n) for n in text["shape"])
        values = np.frombuffer(base64.b64decode(text["array"]), dtype=text["dtype"])
        values = values.reshape(shape).copy()
        # NumPy has no bfloat16; any other dtype is that of the numbers, whatever a sender says.
        dtype = "bfloat16" if text["of"] == "bfloat16" else values.dtype.name
        return Array(values, dtype) if arrays else values
    return Other(str(text.get("other"))[:100])


# --- what torch did -------------------------------------------------------------------------------


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what compiled code writes to the error output away from a notebook."""
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # there is none
        yield
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def _profile(torch: Any) -> Any:
    """torch's recorder of operators; one of all threads where this torch has that."""
    try:
        of_all = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        return torch.autograd.profiler.profile(experimental_config=of_all)
    except (AttributeError, TypeError):
        return torch.autograd.profiler.profile()


def watched(run: Callable[..., Any], *given: Any) -> Any:
    """Call something, and raise Forbidden if a library's Python code did the work."""
    called: set[Any] = set()

    def note(frame: Any, event: str, function: Any) -> None:
        if event == "call":
            called.add(frame.f_code)
        elif event == "c_call" and function is SET_PROFILE and not over:
            called.add(None)  # somebody takes this function away

    before, over = sys.getprofile(), False
    threading.setprofile(note)
    SET_PROFILE(note)
    try:
        result = run(*given)
    finally:
        over = True
        SET_PROFILE(before)
        threading.setprofile(before)
    if None in called:
        raise Forbidden("it interferes with the record of what is called")
    for what, file, name in WRITTEN:
        if any(name.search(code.co_name) and file.search(code.co_filename) for code in called):
            raise Forbidden(
                f"it calls {what}, which does what the exercise asks for; "
                "write the formula yourself"
            )
    return result


def own_work(run: Callable[..., Any], *given: Any, derivatives: bool = False) -> Any:
    """Call something, and raise Forbidden if a library's norms or derivatives did the work.

    With ``derivatives`` only the norms are refused.
    """
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "autograd"):
        return watched(run, *given)
    # Two marks that nobody can write in advance: whoever stops the record in between loses one.
    marks = [f"mark {secrets.token_hex(8)}" for _ in range(2)]
    label = torch.autograd.profiler.record_function
    profile = _profile(torch)
    with quiet():
        profile.__enter__()
    try:
        with label(marks[0]):
            pass
        result = watched(run, *given)
        with label(marks[1]):
            pass
    finally:
        with quiet():
            profile.__exit__(None, None, None)
    seen = {event.name() for event in profile.kineto_results.events()}
    if not seen.issuperset(marks):
        raise Forbidden("it interferes with the record of what torch computes")
    norms = sorted(name for name in seen if NORMS.search(name))
    if norms:
        raise Forbidden(
            f"it calls torch's {norms[0].split('::')[-1]}, which is what the exercise asks for; "
            "write the formula yourself"
        )
    if not derivatives and any(DERIVATIVES.search(name) for name in seen):
        raise Forbidden(
            "torch's autograd takes the derivative, which is what the exercise asks for; write the "
            "formula yourself"
        )
    return result


# --- calling a student's code ---------------------------------------------------------------------


class Late(BaseException):
    """Raised inside code that has used up its time. No ``except Exception`` stops it."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt what runs inside after some seconds of computing, where signals allow it.

    What waits without computing is interrupted, too, ``PATIENCE`` times as late.
    """
    usable = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not usable or seconds <= 0:
        yield
        return

    def late(signum: int, frame: Any) -> None:
        waited = PATIENCE * seconds if signum == signal.SIGALRM else seconds
        raise Late(f"it did not finish within {waited:g} seconds")

    clocks = (
        (signal.SIGPROF, signal.ITIMER_PROF, seconds),
        (signal.SIGALRM, signal.ITIMER_REAL, PATIENCE * seconds),
    )
    before = [signal.signal(number, late) for number, _, _ in clocks]
    for _, clock, most in clocks:
        signal.setitimer(clock, most)
    try:
        yield
    finally:
        for _, clock, _ in clocks:
            signal.setitimer(clock, 0)
        for (number, _, _), handler in zip(clocks, before, strict=True):
            signal.signal(number, handler)


def in_words(error: BaseException) -> str:
    """The error in one line, as Python would end its report, and where in the student's code."""
    if isinstance(error, Late):
        return f"{error}{where(error)}"
    if isinstance(error, SystemExit):
        return f"it tried to end the program (SystemExit){where(error)}"
    if isinstance(error, Forbidden):
        return str(error)
    try:
        words = str(error)
    except BaseException:
        words = ""
    return f"{type(error).__name__}: {words}"[:400].strip() + where(error)


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
    if not callable(function):
        return {"value": encode(function)} if not arguments else {"error": "it is not a function"}

    def run() -> Any:
        given[:] = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        return encode(function(*given))

    given: list[Any] = []
    try:
        with time_limit(seconds):
            without_torch = "torch" not in sys.modules
            value = own_work(run)
            if without_torch and "torch" in sys.modules:  # it has just been imported: once more
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

    Steps: ``("train",)``, ``("eval",)``, ``("forward", x)``, ``("forward without grad", x)``,
    ``("backward", grad_y)`` (of the last forward, with respect to its x), ``("buffer", name)``,
    ``("keeps graph", name)``.
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
                x = torch.from_numpy(step[1].copy()).requires_grad_()
                with torch.enable_grad():
                    y = own_work(module, x)
                answers.append(y)
            elif kind == "forward without grad":
                given = torch.from_numpy(step[1].copy())
                with torch.no_grad():
                    answers.append(own_work(module, given))
            elif kind == "backward":
                grad = torch.from_numpy(step[1].copy())
                own_work(torch.autograd.backward, [y], [grad], derivatives=True)
                answers.append(x.grad)
            elif kind == "buffer":
                answers.append(getattr(module, step[1]))
            elif kind == "keeps graph":
                buffer = getattr(module, step[1])
                answers.append(bool(buffer.requires_grad or buffer.grad_fn is not None))
        return tuple(answers)

    try:
        with time_limit(seconds):
            return {"value": encode(run())}
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return {"error": in_words(error)}
