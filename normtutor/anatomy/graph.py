"""Where a norm stands: the graph of the operations that a run was made of."""

import bisect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise

from normtutor.anatomy.parts import Norm, Step
from normtutor.anatomy.running import PARAMETER, Call, Operation

MATMULS = re.compile(r"_?(mm|addmm|bmm|baddbmm|mv|addmv|linear)$|\w*convolution|\w*grouped_mm")
ATTENTIONS = re.compile(r"_?scaled_dot_product|\w*flash_attention|\w*efficient_attention")
# What computes a norm where no module does.
FUNCTIONS = re.compile(r"rsqrt|native_layer_norm|native_group_norm|linalg_vector_norm|_fused_rms")
# What mixes tokens; a hyper-connection around attention mixes streams.
MIXERS = re.compile(r"att(?!n_h)|mamba|mixer|conv(?!1D)|recurr|lstm|rwkv|delta|ssm|retention", re.I)
NO_MIXERS = re.compile(r"mlp|moe|ffn|feed", re.I)

Ways = Mapping[int, Sequence[int]]


class Graph:
    """The operations behind a result, those of one call of a norm as one node.

    A node is the number of an operation, in the order in which they ran; of a norm, the number of
    its first one. Operations on parameters alone are left out.
    """

    def __init__(self, result: int, operations: Sequence[Operation], norms: Sequence[Call]) -> None:
        self.starts, self.norms = [norm.start for norm in norms], norms
        used, waiting = {PARAMETER}, [result]
        while waiting:
            if (number := waiting.pop()) not in used:
                used.add(number)
                waiting += [p for p in operations[number].parents if p is not None]
        constant = {PARAMETER}
        self.operation: dict[int, Operation] = {}
        self.parents: dict[int, list[int]] = {}
        self.weights: set[int] = set()  # products with a matrix of parameters
        for number in sorted(used - {PARAMETER}):
            operation = operations[number]
            parents = [p for p in operation.parents if p is not None]
            if parents and constant.issuperset(parents) and "embedding" not in operation.name:
                constant.add(number)
                continue
            node = self.node(number)
            self.operation.setdefault(node, operation)
            known = self.parents.setdefault(node, [])
            others = (self.node(p) for p in parents if p not in constant)
            known += [p for p in dict.fromkeys(others) if p != node and p not in known]
            if MATMULS.match(operation.name) and not constant.isdisjoint(parents):
                self.weights.add(node)
        self.weights -= {*self.starts}

    def node(self, number: int) -> int:
        """Give the node of an operation: the norm that it belongs to, or itself."""
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
        name = self.graph.operation[node].name
        return not self.graph.norm(node) and bool(ATTENTIONS.match(name) or MATMULS.match(name))

    def attends(self, node: int) -> bool:
        """Whether attention weighs tokens here; a softmax over experts or streams does not."""
        name, *_, shape = self.graph.operation[node]
        if ATTENTIONS.match(name):
            return True
        return (
            name.endswith("softmax")
            and len(shape) > 2
            and shape[-2] == self.length
            and (len(shape) > 3 or shape[-1] == self.length)
        )

    def weighs(self, node: int) -> bool:
        """Whether a router's weights are brought to sum 1 here, which is no norm of a result."""
        near = _reached(node, self.parents, stop=self.blocking) - self.blocking
        names = (self.graph.operation[n].name for n in near if n in self.graph.operation)
        return any(re.match(r"_?softmax|sigmoid|topk|gather", name) for name in names)

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
            name, operands, shapes, _ = self.graph.operation[product]
            which = next((i for i, p in enumerate(operands) if self.comes_from(p, node)), 0)
            if ATTENTIONS.match(name):
                return "qkv"[min(which, 2)], branch, shapes[0][-1]
            if _reached(product, self.children) & self.softmax:
                first = name == "baddbmm"  # what is added comes before the two matrices
                return "qk"[which - first == 1], branch, shapes[first][-1]
            if _reached(product, self.parents) & self.softmax:
                return "v", branch, 0
        latent = _reached(node, self.children) & self.softmax
        return ("latent" if latent else "inner"), branch, 0

    def comes_from(self, operand: int | None, node: int) -> bool:
        if operand in (None, PARAMETER):
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
            elif FUNCTIONS.match(graph.operation[node].name) and not region.weighs(node):
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
