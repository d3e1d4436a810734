"""Slips of the pen: what a formula gives with one place of it changed.

A :class:`Formula` is a right answer, written as a student may write it: assignments, one per line.
Its slips are made from its syntax. A term or a factor is missing or has the wrong sign, a sum
stands where a mean belongs, a bracket closes too early, a root is missing, one name stands for
another. An answer is compared with what each of them gives on the same inputs.
"""

import ast
import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np

from normtutor.grading.judging import Known

Steps = dict[str, ast.expr]  # names, and what is assigned to them, in order
Run = Callable[..., dict[str, Any]]  # of inputs by name; gives every name of the formula
Change = tuple[str, bool, str]  # words, whether it is frequent, and what stands there instead
Slip = tuple[str, int, CodeType]  # words, rank, and the steps with it
MATHS: dict[str, Any] = {"root": np.sqrt, "maximum": np.maximum, "abs": np.abs}
MATHS["column"] = lambda v: v[:, None]
SIGNS = ((" ** 2", "²"), (" * ", "·"), (" / ", "/"), (" - ", " − "), ("root(", "√("))
SYMBOLS = {"eps": "ε", "weight": "γ", "bias": "β", "var": "σ²", "mu": "μ", "x_hat": "x̂"}
SYMBOLS |= {"alpha": "α", "inverse": "1/√(σ² + ε)", "psi_squared": "ψ²", "root": "the root"}


@dataclass(frozen=True, eq=False)
class Formula:
    """A right answer in steps, from which slips are made.

    Parameters
    ----------
    text : str
        Assignments, one per line; behind a line "or", another way to write them. ``mean(v)`` runs
        over ``axes`` and ``total(v)`` is the sum over ``tokens``; both keep their axes.
        ``mean(v, less=1)`` divides by n − 1.
    axes, tokens : tuple of int
        Of arrays with ``rank`` axes.
    said : mapping
        What a name is called in words, where it is not one of ``SYMBOLS``.
    alike : sequence of str
        Groups of names of which one may be taken for another.
    more : mapping
        Further mistakes: the words, and the assignments that make them. An assignment takes the
        place of the step with its name; where there is none it stands before those that do.
    handed_out : str
        The words in ``more`` of the mistake that a task hands out.
    """

    text: str
    axes: tuple[int, ...] = (2,)
    tokens: tuple[int, ...] = (0, 1)
    said: Mapping[str, str] = field(default_factory=dict)
    alike: Sequence[str] = ()
    more: Mapping[str, str] = field(default_factory=dict)
    handed_out: str = ""
    rank: int = 3

    def __call__(self, **given: Any) -> dict[str, Any]:
        """Every name of the formula, from its inputs by name."""
        text, *_ = forms(self.text)
        return self.run(compile(text, "formula", "exec"), **given)

    def run(self, code: CodeType, **given: Any) -> dict[str, Any]:
        """What some steps give in the place of the formula's own."""
        names: dict[str, Any] = {"axes": self.axes, "tokens": self.tokens, **given}

        def mean(v: Any, over: Any = None, less: int = 0) -> Any:
            sums = np.sum(v, over or names["axes"], keepdims=True)
            return sums / (np.size(v) / np.size(sums) - less)

        def total(v: Any, over: Any = None) -> Any:
            return np.sum(v, over or names["tokens"], keepdims=True)

        exec(code, {**MATHS, "mean": mean, "total": total}, names)
        return names

    def slips(self, outputs: Callable[[Run], tuple[Any, ...]]) -> Iterator[Known]:
        """What the slips put out.

        ``outputs`` gets the formula as a function of its inputs by name, and returns what an answer
        would.
        """
        for words, rank, code in singles(self):
            try:
                put_out = outputs(functools.partial(self.run, code))
            except (ArithmeticError, ValueError, TypeError, IndexError, NameError):
                continue  # that slip does not go with these shapes
            yield Known(words, put_out, words == self.handed_out, rank)

    def known(self, *names: str, **given: Any) -> Callable[[], Iterator[Known]]:
        """What the slips put out under some names, from its inputs, for ``compare``."""
        return lambda: self.slips(lambda run: tuple(map(run(**given).get, names)))

    def say(self, text: str) -> str:
        """A part of the formula as one would write it."""
        for sign, written in SIGNS:
            text = text.replace(sign, written)
        called = SYMBOLS | dict(self.said)
        return re.sub(r"\b[a-z]\w*", lambda name: called.get(name[0], name[0]), text)


def forms(text: str) -> list[str]:
    """The ways to write a formula."""
    return inspect.cleandoc(text).split("\nor\n")


def parsed(text: str) -> Steps:
    """The assignments in a text."""
    body = ast.parse(inspect.cleandoc(text)).body
    return {ast.unparse(s.targets[0]): s.value for s in body if isinstance(s, ast.Assign)}


@functools.cache
def singles(formula: Formula) -> list[Slip]:
    """The slips of one place."""
    return _compiled(
        slip for text in forms(formula.text) for slip in _changes(formula, parsed(text))
    )


def _compiled(slips: Iterator[tuple[str, int, Steps]]) -> list[Slip]:
    """Slips with their code, each code once."""
    found: dict[str, tuple[str, int]] = {}
    for words, rank, steps in slips:
        text = "\n".join(f"{name} = {ast.unparse(value)}" for name, value in steps.items())
        found.setdefault(text, (words, rank))
    return [(*slip, compile(text, "formula", "exec")) for text, slip in found.items()]


# --- changing one place ---------------------------------------------------------------------------


def _changes(formula: Formula, steps: Steps) -> Iterator[tuple[str, int, Steps]]:
    """Every change of one place: its words, its rank, and the steps with it."""

    def put(text: str) -> Steps:
        more = parsed(text)
        new = {name: value for name, value in more.items() if name not in steps}
        first = next((n for n, name in enumerate(steps) if name in more), 0)
        return dict(itertools.islice(steps.items(), first)) | new | steps | more

    for words, text in formula.more.items():
        yield words, 0, put(text)
    for name, value in steps.items():
        place = formula.say(name)
        means = [n for n in ast.walk(value) if isinstance(n, ast.Call) and _called(n) == "mean"]
        inside = {id(n) for call in means for n in ast.walk(call) if n is not call}
        for node in ast.walk(value):
            where = f"in {place}, inside the mean" if id(node) in inside else f"in {place}"
            for words, often, text in _of_node(formula, steps, node):
                new = ast.parse(text, mode="eval").body
                changed = steps | {name: _exchanged(value, node, new)}
                yield f"{where}: {words}", 1 if often else 2, changed
        for words, text in _brackets(formula, ast.unparse(value)):
            yield f"in {place}: {words}", 1, put(f"{name} = {text}")
    yield f"the sign of {place} is wrong", 1, put(f"{name} = -({ast.unparse(value)})")
    for axes, told in _other_axes(formula) if "mean(" in formula.text else ():
        yield f"the statistics run over the {told}", 1, put(f"axes = {axes}")


def _exchanged(node: Any, old: ast.AST, new: ast.AST) -> Any:
    """A copy of a tree with another node in one place."""
    if node is old:
        return new
    if isinstance(node, list):
        return [_exchanged(item, old, new) for item in node]
    if isinstance(node, ast.AST):
        return type(node)(**{f: _exchanged(getattr(node, f), old, new) for f in node._fields})
    return node


def _other_axes(formula: Formula) -> Iterator[tuple[tuple[int, ...], str]]:
    """Axes over which a mean may run by mistake, and the words for them."""
    right = ", ".join(map(str, formula.axes))
    for size in range(1, formula.rank + 1):
        for axes in itertools.combinations(range(formula.rank), size):
            if axes != formula.axes:
                told = ", ".join(map(str, axes))
                yield axes, f"{'axis' if size == 1 else 'axes'} {told}; it should be {right}"


def _of_node(formula: Formula, steps: Steps, node: ast.AST) -> Iterator[Change]:
    """What may stand in the place of one node."""
    say, text = formula.say, ast.unparse
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            yield from _of_operation(formula, left, op, right)
        case ast.Call(func=ast.Name(id="root"), args=[inner]):
            yield "a root is missing", True, text(inner)
        case ast.Call(func=ast.Name(id="mean" | "total" as name), args=[inner, *_], keywords=less):
            yield from _of_mean(formula, name, inner, bool(less))
        case ast.Call(func=ast.Name(id=name), args=[inner, *rest]) if name not in MATHS:
            yield f"{say(name)} is missing", True, text(inner)
            if _is(inner, ast.Add):
                a, b = text(inner.left), text(inner.right)  # type: ignore[attr-defined]
                others = "".join(f", {text(argument)}" for argument in rest)
                yield f"{say(b)} stands outside {say(name)}", True, f"{name}({a}{others}) + {b}"
                yield f"{say(a)} stands outside {say(name)}", True, f"{a} + {name}({b}{others})"
        case ast.Name(id=name):
            often = len(re.findall(rf"\b{name}\b", formula.text)) > 2  # assigned, and used twice
            if often and isinstance(steps.get(name), ast.Call):
                yield from _of_node(formula, steps, steps[name])
            for group in formula.alike:
                for instead in group.split() if name in group.split() else ():
                    if instead != name:
                        yield f"{say(instead)} stands where {say(name)} belongs", False, instead


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _is(node: ast.expr, *operators: type[ast.operator]) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, operators)


def _of_operation(
    formula: Formula, left: ast.expr, op: ast.operator, right: ast.expr
) -> Iterator[Change]:
    """What may stand in the place of a sum, a product, a quotient or a square."""
    bare_a, bare_b = ast.unparse(left), ast.unparse(right)
    said_a, said_b = formula.say(bare_a), formula.say(bare_b)
    a, b = f"({bare_a})", f"({bare_b})"
    if isinstance(op, (ast.Add, ast.Sub)):
        sign, other, turned = ("+", "-", "subtracted, not added")
        if isinstance(op, ast.Sub):
            sign, other, turned = ("-", "+", "added, not subtracted")
        if not isinstance(left, ast.Constant):  # else the factor is missing as a whole
            yield f"{said_b} is missing", True, a
        if not _is(left, ast.Add, ast.Sub):
            yield f"{said_a} is missing", True, sign + b
        yield f"{said_b} is {turned}", True, a + other + b
        yield f"{said_b} is counted twice", False, f"{a} {sign} 2 * {b}"
        if sign == "-" and not _is(left, ast.Add, ast.Sub) and not isinstance(left, ast.Constant):
            yield f"{said_a} − {said_b} is the wrong way round", True, f"{b} - {a}"
        if found := re.fullmatch(r"(\w+) \* (.+) \+ \(1 - \1\) \* (.+)", f"{bare_a} + {bare_b}"):
            m, old, new = found.groups()
            yield (
                f"{formula.say(m)} and 1 − {formula.say(m)} are exchanged",
                True,
                (f"(1 - {m}) * {old} + {m} * {new}"),
            )
        if bare_b == "eps":
            yield f"the larger of {said_a} and ε is taken; add ε", True, f"maximum({a}, {b})"
            yield "ε is squared", True, f"{a} + {b} ** 2"
    elif isinstance(op, ast.Mult):
        yield f"the factor {said_b} is missing", True, a
        if not _is(left, ast.Mult, ast.Div):
            yield f"the factor {said_a} is missing", True, b
            yield f"it divides by {said_a}, and should multiply", False, f"{b} / {a}"
            yield f"{said_a} multiplies twice", False, f"{a} * {b} * {a}"
        yield f"it divides by {said_b}, and should multiply", False, f"{a} / {b}"
        yield f"{said_b} multiplies twice", False, f"{a} * {b} * {b}"
        yield f"{said_b} is added, and should multiply", False, f"{a} + {b}"
    elif isinstance(op, ast.Div):
        yield f"the division by {said_b} is missing", True, a
        yield f"it multiplies by {said_b}, and should divide", True, f"{a} * {b}"
        if not bare_b.startswith("root"):
            yield f"it divides twice by {said_b}", False, f"{a} / {b} / {b}"
    elif isinstance(op, ast.Pow):
        yield f"{said_a} is not squared", False, a
        yield f"|{said_a}| stands where its square belongs", False, f"abs{a}"


def _of_mean(formula: Formula, name: str, inner: ast.expr, less: bool) -> Iterator[Change]:
    """What may stand in the place of a mean or a sum."""
    v = ast.unparse(inner)
    of = formula.say(v)
    if less:
        yield f"the mean of {of} divides by n; it should divide by n − 1", True, f"mean({v})"
    elif name == "total":
        yield f"a mean stands where the sum of {of} belongs", True, f"mean({v}, tokens)"
    else:
        yield f"a sum stands where the mean of {of} belongs", True, f"total({v}, axes)"
        words = f"the mean of {of} divides by n − 1; it should divide by n"
        yield words, True, f"mean({v}, less=1)"
        yield f"{of} itself stands where its mean belongs", False, v
        for axes, told in _other_axes(formula):
            yield f"the mean of {of} runs over the {told}", False, f"mean({v}, {axes})"
    match inner:
        case ast.BinOp(left=ast.Name(id=a), op=ast.Pow()) if name == "mean":
            yield f"the square of the mean of {formula.say(a)} is taken", True, f"mean({a}) ** 2"
    if _is(inner, ast.Mult):
        a, b = ast.unparse(inner.left), ast.unparse(inner.right)  # type: ignore[attr-defined]
        yield f"the {name} is that of {formula.say(a)} alone", False, f"{name}({a}) * ({b})"
        yield f"the {name} is that of {formula.say(b)} alone", False, f"({a}) * {name}({b})"


def _brackets(formula: Formula, text: str) -> Iterator[tuple[str, str]]:
    """A text without one of its pairs of brackets, or with one that closes before the last term."""
    for found in re.finditer(r"(\w*)\(", text):
        depth, end, last = 0, found.end(), 0
        while depth or text[end] != ")":
            depth += (text[end] == "(") - (text[end] == ")")
            if not depth and text[end : end + 3] in (" + ", " - "):
                last = end
            end += 1
        inside, before, behind = text[found.end() : end], text[: found.start()], text[end + 1 :]
        if not last or "," in inside:
            continue
        first, rest = text[found.end() : last], text[last:end]
        if not found[1]:
            yield f"the brackets around {formula.say(inside)} are missing", before + inside + behind
            continue
        out = f"{formula.say(rest[3:])} stands outside {formula.say(found[1])}"
        yield out, f"{before}({found[1]}({first}){rest}){behind}"
        yield f"{out}, and behind all factors", f"{before}{found[1]}({first}){rest}{behind}"


def around(
    formula: Formula, norm: Formula, eps: float, output: str = "y", **given: Any
) -> Iterator[Known]:
    """The slips of a formula that calls ``norm(x, weight, bias)``, and those of that norm."""

    def made(run: Run) -> Callable[..., Any]:
        return lambda x, weight=1, bias=0: run(x=x, weight=weight, bias=bias, eps=eps)["y"]

    for known in norm.slips(lambda run: (formula(norm=made(run), **given)[output],)):
        words = known.words.removeprefix("in y: ")
        if words != "the sign of y is wrong":
            yield known._replace(words=f"in the norm: {words}")
    yield from formula.slips(lambda run: (run(norm=made(norm), **given)[output],))


#: A norm that subtracts a mean, with the axes of LayerNorm.
NORM = Formula(
    """
    mu = mean(x)
    var = mean((x - mu) ** 2)
    y = (x - mu) / root(var + eps) * weight + bias
    """,
    alike=("weight bias",),
    more={
        "no mean is subtracted: that is RMSNorm": "mu = 0 * mean(x)",
        "γ and β are missing": "weight = 1; bias = 0",
        "β is scaled: it is added before γ multiplies":
            "y = ((x - mu) / root(var + eps) + bias) * weight",
        "1 + γ multiplies; here γ itself does": "weight = 1 + weight",
        "it divides by the mean absolute value":
            "y = (x - mu) / (mean(abs(x - mu)) + eps) * weight + bias",
        "the deviation divides by n − 1, and ε is added to it, outside the root":
            "y = (x - mu) / (root(mean((x - mu) ** 2, less=1)) + eps) * weight + bias",
    },
)  # fmt: skip
#: RMSNorm.
RMS = Formula(
    """
    psi_squared = mean(x ** 2)
    y = x / root(psi_squared + eps) * weight
    """,
    more={
        "γ is missing": "weight = 1",
        "the mean is subtracted; RMSNorm keeps it": "x = x - mean(x)",
        "the variance stands where the mean square belongs":
            "psi_squared = mean((x - mean(x)) ** 2)",
        "1 + γ multiplies; here γ itself does": "weight = 1 + weight",
        "it divides by the mean absolute value": "y = x / (mean(abs(x)) + eps) * weight",
        "ε is added after the division: it shifts every output":
            "y = (x / root(psi_squared) + eps) * weight",
    },
)  # fmt: skip
#: A step of a norm that divides by a running mean square, and moves it afterwards.
STEP = Formula(
    """
    y = x / root(psi_squared + eps)
    after = alpha * psi_squared + (1 - alpha) * mean(x ** 2)
    """,
    axes=(0, 1),
    said={"after": "the new ψ²"},
    more={
        "the mean square of y stands where that of x belongs":
            "after = alpha * psi_squared + (1 - alpha) * mean((x / root(psi_squared + eps)) ** 2)",
        "α is the weight of the past: the batch enters with 1 − α": "alpha = 1 - alpha",
        "the batch is divided by its own ψ: that is PN-V": "y = x / root(mean(x ** 2) + eps)",
        "ψ² is replaced by that of the batch; it should move towards it": "after = mean(x ** 2)",
        "the variance of the batch stands where its mean square belongs":
            "after = alpha * psi_squared + (1 - alpha) * mean((x - mean(x)) ** 2)",
        "the average is taken of ψ, not of ψ²":
            "after = (alpha * root(psi_squared) + (1 - alpha) * root(mean(x ** 2))) ** 2",
        "the old ψ is taken, not ψ²":
            "after = alpha * root(psi_squared) + (1 - alpha) * mean(x ** 2)",
        "the batch's ψ is taken, not ψ²":
            "after = alpha * psi_squared + (1 - alpha) * root(mean(x ** 2))",
    },
)  # fmt: skip
