"""Where a norm stands: the graph of operations that autograd has written down."""

import bisect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from normtutor.anatomy.parts import Norm, Step
from normtutor.anatomy.running import Call

MATMULS = re.compile(r"Mm|Addmm|Bmm|Baddbmm|Mv|Addmv|Linear|\w*Convolution|\w*GroupedMm")
ATTENTIONS = re.compile(r"ScaledDotProduct|\w*FlashAttention|\w*EfficientAttention")
# What computes a norm where no module does.
FUNCTIONS = re.compile(r"Rsqrt|NativeLayerNorm|NativeGroupNorm|LinalgVectorNorm|FusedRmsNorm")
# What mixes tokens; a hyper-connection around attention mixes streams.
MIXERS = re.compile(r"att(?!n_h)|mamba|mixer|conv(?!1D)|recurr|lstm|rwkv|delta|ssm|retention", re.I)
NO_MIXERS = re.compile(r"mlp|moe|ffn|feed", re.I)

Ways = Mapping[int, Sequence[int]]


def _name(operation: Any) -> str:
    return operation.name().rpartition("::")[2]


def _is_leaf(operation: Any) -> bool:
    return _name(operation) == "AccumulateGrad"


class Graph:
    """The operations behind a result, those of one call of a norm as one node.

    A node is the number of an operation, in the order in which they ran; of a norm, the number of
    its first one. Operations on parameters alone are left out.
    """

    def __init__(self, result: Tensor, norms: Sequence[Call]) -> None:
        self.starts, self.norms = [norm.start for norm in norms], norms
        above: dict[Any, list[Any]] = {}
        waiting: list[Any] = [result.grad_fn]
        while waiting:
            operation = waiting.pop()
            if operation not in above:
                above[operation] = [p for p, _ in operation.next_functions if p is not None]
                waiting += above[operation]
        constant = {o for o in above if _is_leaf(o) and isinstance(o.variable, nn.Parameter)}
        self.operation: dict[int, Any] = {}
        self.parents: dict[int, list[int]] = {}
        self.weights: set[int] = set()  # products with a matrix of parameters
        for operation in sorted(
            (o for o in above if not _is_leaf(o)), key=lambda o: o._sequence_nr()
        ):
            parents = above[operation]
            if parents and constant.issuperset(parents) and "Embedding" not in _name(operation):
                constant.add(operation)
                continue
            node = self.node(operation)
            self.operation.setdefault(node, operation)
            known = self.parents.setdefault(node, [])
            others = (self.node(p) for p in parents if p not in constant and not _is_leaf(p))
            known += [p for p in dict.fromkeys(others) if p != node and p not in known]
            if MATMULS.match(_name(operation)) and not constant.isdisjoint(parents):
                self.weights.add(node)
        self.weights -= {*self.starts}

    def node(self, operation: Any) -> int:
        """Give the node of an operation: the norm that it belongs to, or itself."""
        number = operation._sequence_nr()
        index = bisect.bisect_right(self.starts, number) - 1
        inside = index >= 0 and number < self.norms[index].stop
        return self.starts[index] if inside else number

    def norm(self, node: int) -> Call | None:
        """Find the call of the norm that a node stands for."""
        index = bisect.bisect_left(self.starts, node)
        return self.norms[index] if self.starts[index : index + 1] == [node] else None

    def above(self, node: int) -> set[int]:
        """Find the nodes on which a node depends, and itself."""
        return {node} | _reached(node, self.parents)

    def between(self, source: int, sink: int, since: int = 0) -> dict[int, list[int]]:
        """Nodes on the ways from one to the other, in order, each with its parents among them.

        Ways over a node earlier than ``since`` do not count, except for the source.
        """
        above, waiting = {source}, [sink]
        while waiting:
            node = waiting.pop()
            if node not in above and node >= max(source, since):
                above.add(node)
                waiting += self.parents.get(node, [])
        ways: dict[int, list[int]] = {source: []}
        for node in sorted(above - {source}):
            if parents := [p for p in self.parents.get(node, ()) if p in ways]:
                ways[node] = parents
        return ways


def gates(ways: Ways) -> list[int]:
    """Find the nodes that every way passes, in order.

    >>> gates({0: [], 1: [0], 2: [0, 1], 3: [2]})
    [0, 2, 3]
    """
    farthest = {parent: node for node, parents in ways.items() for parent in parents}
    passed, reach = [], -1
    for node in ways:
        if reach <= node:
            passed.append(node)
        reach = max(reach, farthest.get(node, -1))
    return passed


def _reached(start: int, step: Ways, stop: Collection[int] = ()) -> set[int]:
    """Find the nodes on the ways from a node; what is in ``stop`` is reached and not passed."""
    reached: set[int] = set()
    waiting = [*step.get(start, ())]
    while waiting:
        node = waiting.pop()
        if node not in reached:
            reached.add(node)
            waiting += () if node in stop else step.get(node, ())
    return reached


class _Region:
    """What stands between two places of the stream, and the branches that it holds."""

    def __init__(
        self,
        graph: Graph,
        ways: Ways,
        first: int,
        last: int,
        owner: Callable[[int], str],
        length: int,
    ) -> None:
        self.graph, self.first, self.last, self.length = graph, first, last, length
        self.inside = [n for n in ways if first < n < last]
        self.parents = {n: ways[n] for n in (*self.inside, last)}
        self.children: dict[int, list[int]] = {}
        for node, parents in self.parents.items():
            for parent in parents:
                self.children.setdefault(parent, []).append(node)
        # What a weight belongs to; a norm with weights of its own is no sublayer.
        self.owner = {n: owner(n) for n in self.inside if n in graph.weights}
        self.blocking = {n for n in self.inside if n in graph.weights or self.mixes(n)}
        self.softmax = {n for n in self.inside if self.attends(n)}

    def mixes(self, node: int) -> bool:
        """Whether two results that depend on the stream are multiplied as matrices."""
        name = _name(self.graph.operation[node])
        return not self.graph.norm(node) and bool(ATTENTIONS.match(name) or MATMULS.match(name))

    def attends(self, node: int) -> bool:
        """Whether attention weighs tokens here; a softmax over experts or streams does not."""
        operation = self.graph.operation[node]
        if ATTENTIONS.match(_name(operation)):
            return True
        shape = operation._input_metadata[0].shape
        return (
            _name(operation).startswith("Softmax")
            and len(shape) > 2
            and shape[-2] == self.length
            and (len(shape) > 3 or shape[-1] == self.length)
        )

    def weighs(self, node: int) -> bool:
        """Whether a router's weights are brought to sum 1 here, which is no norm of a result."""
        near = _reached(node, self.parents, stop=self.blocking) - self.blocking
        names = (_name(self.graph.operation[n]) for n in near if n in self.graph.operation)
        return any(re.match(r"Softmax|Sigmoid|Topk|Gather", name) for name in names)

    def branches(self, classes: Mapping[str, str]) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
        names = [name for name in dict.fromkeys(self.owner.values()) if not re.search("norm", name)]
        below: dict[str, set[str]] = {name: set() for name in names}
        attends: set[str] = set()
        for node, name in self.owner.items():
            above = _reached(node, self.parents)
            if name in below:
                below[name] |= {self.owner[n] for n in above if n in self.owner}
        for node in self.softmax:
            near = _reached(node, self.parents, stop=self.owner) & {*self.owner}
            attends |= {self.owner[n] for n in near}

        def kind(name: str) -> str:
            if name in attends:
                return "attention"
            of_class = classes.get(name, "")
            mixer = name not in ("mixer", "block") and bool(MIXERS.search(name))
            mixer |= bool(MIXERS.search(of_class)) and not NO_MIXERS.search(of_class)
            return "mixer" if mixer else "feed-forward"

        return tuple(
            (
                name,
                kind(name),
                tuple(i for i, other in enumerate(names[:n]) if other in below[name]),
            )
            for n, name in enumerate(names)
        )

    def place(self, node: int) -> tuple[str, str, int]:
        """Where in its branch a norm stands, for which sublayers, and how wide a head is."""
        up = _reached(node, self.parents, stop=self.blocking)
        down = _reached(node, self.children, stop=self.blocking)

        def sublayers(nodes: set[int]) -> str:
            return ", ".join(dict.fromkeys(self.owner[n] for n in sorted(nodes) if n in self.owner))

        if self.first in up:
            return "in", sublayers(down), 0
        if self.last in down:
            return "out", sublayers(up), 0
        branch = sublayers(up) or sublayers(down)
        for product in sorted(down & self.blocking - {*self.owner}):
            operation = self.graph.operation[product]
            operands = [p for p, _ in operation.next_functions]
            which = next((i for i, p in enumerate(operands) if self.comes_from(p, node)), 0)
            if ATTENTIONS.match(_name(operation)):
                return "qkv"[min(which, 2)], branch, operation._saved_query.shape[-1]
            if _reached(product, self.children) & self.softmax:
                saved = next(k for k in dir(operation) if k in ("_saved_self", "_saved_batch1"))
                which -= _name(operation).startswith("Baddbmm")
                return "qk"[which == 1], branch, getattr(operation, saved).shape[-1]
            if _reached(product, self.parents) & self.softmax:
                return "v", branch, 0
        latent = _reached(node, self.children) & self.softmax
        return ("latent" if latent else "inner"), branch, 0

    def comes_from(self, operand: Any, node: int) -> bool:
        if operand is None or _is_leaf(operand):
            return False
        number = self.graph.node(operand)
        return number == node or node in _reached(number, self.parents)


def _merged(norms: Sequence[Norm]) -> tuple[Norm, ...]:
    """Show alike norms of a list, such as one for each head, as one."""
    shown = {n: n._replace(name=re.sub(r"\.\d+(?=\.|$)", ".*", n.name)) for n in norms}
    alike = [*shown.values()]
    return tuple(dict.fromkeys(s if alike.count(s) > 1 else n for n, s in shown.items()))


def _steps(
    graph: Graph,
    calls: Sequence[Call],
    ways: Ways,
    length: int,
    short: Callable[[str], str],
    make: Callable[..., Norm],
) -> tuple[Step, ...]:
    """Cut what lies between the ends of a layer, or of a whole model, into steps.

    The calls are those inside of it, and ``short`` makes their names relative.
    """
    classes = {short(c.name): type(c.module).__name__ for c in calls}

    def within(node: int) -> str:
        inner = [short(c.name) for c in calls if c.start <= node < c.stop]
        return inner[-1] if inner else "itself"

    def owner(node: int) -> str:
        return within(node).split(".")[0]

    steps: list[Step] = []
    before = ""
    passed = gates(ways)
    for first, last in pairwise(passed):
        region = _Region(graph, ways, first, last, owner, length)
        norms = []
        for node in region.inside:
            if norm := graph.norm(node):
                norms.append(make(norm, *region.place(node)))
            elif FUNCTIONS.match(_name(graph.operation[node])) and not region.weighs(node):
                place, branch, _ = region.place(node) if region.owner else ("stream", "", 0)
                norms.append(Norm(f"{within(node)}()", place, branch, "function"))
        branches = region.branches(classes)
        if branches or norms:
            steps.append(Step(branches, True, _merged(norms)))
        if norm := graph.norm(last):
            steps.append(Step((), False, (make(norm, "stream", "", 0),)))
        elif last in graph.weights and (name := owner(last)) != before:
            before = name
            kind = "mixer" if MIXERS.search(classes.get(name, name)) else "feed-forward"
            steps.append(Step(((name, kind, ()),), False, ()))
    return tuple(steps)
