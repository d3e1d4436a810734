"""Which norms a model has: their kind, their ε, and where they stand in its blocks.

:func:`norms_of` runs a copy of the model once, on tensors that have a shape and no values, and
writes down its operations: which results each of them took. A norm's *place* follows from that
graph, its *kind* and its ε from what a copy of the module does to random numbers.
The names of classes decide only what counts as a norm, and what a sublayer is called.
"""

import inspect
import os
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from normtutor.anatomy.computed import Computed, _computed, _over
from normtutor.anatomy.graph import Graph, _steps, gates
from normtutor.anatomy.parts import Block, Norm, Norms, Step
from normtutor.anatomy.running import Call, _run, _tensors, model_of
from normtutor.swapping import _looks_like_a_norm

__all__ = ["Block", "Norm", "Norms", "Step", "model_of", "norms_of"]

# How many tokens a language model is given: a number that is no other size in it.
LENGTH = 11


def _layers(calls: Sequence[Call], norms: Sequence[Call]) -> dict[str, list[Call]]:
    """Find the lists of layers: those whose members hold norms, and no list inside of another."""
    lists: dict[str, dict[str, Call]] = {}
    for call in calls:
        parent, _, last = call.name.rpartition(".")
        if last.isdigit() and call.stop > call.start:
            lists.setdefault(parent, {}).setdefault(call.name, call)
    held = {
        name: [n for n in norms if any(c.holds(n) for c in members.values())]
        for name, members in lists.items()
    }
    chosen: dict[str, list[Call]] = {}
    taken: set[int] = set()
    for name in sorted(lists, key=lambda name: (-len(held[name]), -len(lists[name]))):
        inside = {n.start for n in held[name]}
        if inside and taken.isdisjoint(inside):
            chosen[name] = [*lists[name].values()]
            taken |= inside
    return dict(sorted(chosen.items(), key=lambda entry: entry[1][0].start))


def norms_of(model: Any, inputs: Any = None) -> Norms:
    """Find the norms of a model, and where they stand.

    Parameters
    ----------
    model : torch.nn.Module, configuration, dict, str or Path
        A model of any library. Or a configuration of transformers, its ``config.json`` as a dict,
        or the path of that file: then transformers must be installed, and nothing is downloaded.
    inputs : tuple or dict, optional
        What to call the model with, of the shapes (B, L, ...). A language model of transformers
        needs none.

    Returns
    -------
    Norms

    Raises
    ------
    ValueError
        Without inputs where they are needed; if the configuration names no class that transformers
        has; if a model without numbers computes what depends on them.

    Notes
    -----
    The model is copied without its numbers and called once, so that its size does not matter, and
    its state stays. Where a copy without numbers cannot be called, because the model looks at what
    it has computed, the model itself is called, in evaluation mode.

    Examples
    --------
    >>> layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
    >>> model = nn.TransformerEncoder(layer, 2, nn.LayerNorm(16), enable_nested_tensor=False)
    >>> found = norms_of(model, (torch.zeros(1, 5, 16),))
    >>> [(norm.name, norm.place, norm.eps) for step in found.blocks[0].steps for norm in step.norms]
    [('norm1', 'in', 1e-05), ('norm2', 'in', 1e-05)]
    >>> [(norm.name, norm.place) for norm in found.ends]
    [('norm', 'final')]
    """
    if not isinstance(model, nn.Module):
        model = model_of(model)
    length, language = LENGTH, inputs is None
    if language:
        takes = inspect.signature(model.forward).parameters
        if "input_ids" not in takes:
            raise ValueError("inputs must say what to call the model with; got None.")
        # A cache of earlier tokens would only be filled.
        inputs = {"input_ids": torch.zeros(1, LENGTH, dtype=torch.long), "use_cache": False}
        if "decoder_input_ids" in takes:
            inputs["decoder_input_ids"] = inputs["input_ids"]
    else:
        inputs = (inputs,) if isinstance(inputs, Tensor) else inputs
        shape = next(_tensors(inputs)).shape
        length = shape[1] if len(shape) > 1 else 0
    output, calls, record = _run(model, inputs)
    norms = [c for c in calls if _looks_like_a_norm(c.module, True)]
    _, result = record.traced(output)
    graph = Graph(
        result, record.operations, [n for n in norms if n.stop > n.start and not n.hidden]
    )
    known: dict[str, Computed] = {}
    lists = _layers(calls, graph.norms)
    starts = (f"{re.escape(name)}\\." if name else "" for name in lists)
    numbers = re.compile("|".join(rf"^{start}\d+\." for start in starts) or "$^")
    placed: set[str] = set()
    short = partial(numbers.sub, "")
    streams, entered = 1, 0  # what enters a layer, in numbers

    def make(call: Call, place: str, branch: str, width: int) -> Norm:
        nonlocal streams
        placed.add(call.name)
        settings = {k: v for k, v in vars(call.module).items() if isinstance(v, int | float | str)}
        shapes = [t.shape for t in (*_tensors((call.args, call.kwargs)), *call.module.parameters())]
        key = repr((type(call.module), settings, shapes))
        if key not in known:
            known[key] = _computed(call)
        read = known[key]
        if language and place in ("in", "stream") and entered and read.cells:
            # A norm reads one stream, or each as a part of its input.
            apart = read.shape[-1] // read.cells
            streams = max(streams, entered // torch.Size(read.shape).numel() * max(apart, 1))
        over = {"over": _over(read, place, width, length, "expert" in call.name)}
        return Norm(short(call.name), place, branch, **read.known | over)

    blocks: dict[tuple[str, tuple[Step, ...]], list[int]] = {}
    root = graph.node(result)
    streams_of: list[tuple[int, int, int]] = []  # of each list: where it begins, ends, and starts
    for where, members in lists.items():
        sinks = []
        for i, layer in enumerate(members):
            entering, source = record.traced((layer.args, layer.kwargs))
            begin = graph.node(source)
            sinks.append((graph.node(record.traced(layer.output)[1]), begin))
            ways = graph.between(begin, sinks[-1][0], layer.start)
            entered = entering.numel()
            tokens = entering.shape[1] if entering.ndim == 3 else length
            inside = [call for call in calls if layer.holds(call)]
            steps = _steps(graph, inside, ways, tokens, short, make)
            aside = [
                make(n, "beside", "", 0)
                for n in norms
                if n.name.startswith(f"{layer.name}.") and n.name not in placed
            ]
            if aside:
                steps += (Step((), False, tuple(aside)),)
            blocks.setdefault((where, steps), []).append(i)
        first = min(begin for _, begin in sinks)
        streams_of.append((first, max(sinks)[0], members[0].start))
    ends: list[Norm] = []
    # An encoder and a decoder have a stream each; of lists along one stream the outer ends count.
    for first, last, _ in streams_of:
        above = graph.above(first)
        later = [(b, start) for b, _, start in streams_of if b > first]
        until = min((start for _, start in later), default=root + 1)
        if not any(end in above for _, end, _ in streams_of):
            for node in gates(graph.between(min(above), first)):
                norm = graph.norm(node)
                if norm and not numbers.match(norm.name):
                    ends.append(make(norm, "embedding", "", 0))
        if not any(last in graph.above(b) for b, _ in later):
            for node in gates(graph.between(last, root)):
                norm = graph.norm(node)
                if norm and node < until and not numbers.match(norm.name):
                    ends.append(make(norm, "final", "", 0))
                if node in graph.weights:
                    break
    if not lists:
        inside = [call for call in calls if call.name]
        parents = {c.name.rpartition(".")[0].replace(".", "/") for c in inside if c.stop > c.start}
        top = len(os.path.commonpath(parents) + "/") if all(parents) else 0
        ways = graph.between(min(graph.parents), root)
        steps = _steps(graph, inside, ways, length, lambda name: name[top:], make)
        blocks["", steps] = [0]
    ends += [
        make(norm, "beside", "", 0)
        for norm in norms
        if norm.name not in placed and not numbers.match(norm.name)
    ]
    with_bias, weights = _biases(model, [m.module for members in lists.values() for m in members])
    return Norms(
        type(model).__name__,
        streams,
        tuple(Block(where, tuple(layers), steps) for (where, steps), layers in blocks.items()),
        tuple(dict.fromkeys(ends)),
        with_bias,
        weights,
    )


def _biases(
    model: nn.Module, layers: Sequence[nn.Module]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which matrices have a bias, and which there are, by their last name, routers left out."""
    with_bias: dict[str, None] = {}
    weights: dict[str, None] = {}
    for layer in layers or [model]:
        for name, module in layer.named_modules():
            router = re.search(r"router|(^|\.)gate(\.|$)", name)
            if router or _looks_like_a_norm(module, True) or isinstance(module, nn.Embedding):
                continue
            parameters = dict(module.named_parameters(recurse=False))
            for key, matrix in parameters.items():
                if matrix.ndim > 1 and "bias" not in key:
                    last = (
                        re.sub(r"^.*?(\w*[a-z]\w*(\.\d+)?)$", r"\1", name)
                        if key == "weight"
                        else key
                    )
                    weights[last] = None
                    if ("bias" if key == "weight" else f"{key}_bias") in parameters:
                        with_bias[last] = None
    return tuple(with_bias), tuple(weights)
