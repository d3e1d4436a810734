"""Causes that lie in the batches, and in what of them reaches the outputs."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from normtutor.diagnosis.bench import FAR, Batch, Bench, State, Sums, distance, left_over
from normtutor.diagnosis.report import Finding, finding_of


def no_statistics(bench: Bench, held_out: list[Batch]) -> Iterator[Finding]:
    where = [name for name in bench.all_norms if name not in bench.norms]
    whole = [bench.cast(batch.x) for batch in held_out]
    if not where:
        return
    if max(map(len, whole)) > 3:
        parts = [half for x in whole if len(x) > 3 for half in x.tensor_split(2)]
        whole, words = [x for x in whole if len(x) > 3], "cut in two"
    elif len({x.shape[1:] for x in whole}) == 1 and sum(map(len, whole)) > 3:
        parts, words = whole, "of more examples"
        whole = list(torch.cat(parts).split(16))
    else:
        return
    effect = distance(bench.outputs(parts), bench.outputs(whole))
    if effect > 0.01:
        yield finding_of(
            "no running statistics",
            where,
            effect,
            f"that is how far predictions change when each batch of evaluation is {words}",
        )


def small_last_batch(bench: Bench, train_loader: Iterable[Any], fresh: State) -> Iterator[Finding]:
    where = list(bench.norms)
    refused = finding_of(
        "small last batch",
        where,
        math.inf,
        "a batch of one example stops training with an error: one value has no variance",
    )
    if bench.refused:
        yield refused
        return
    size = max(len(x) for x in bench.train)
    smallest = min(bench.train, key=len)
    left = left_over(train_loader)
    if left and left < len(smallest):
        smallest = bench.train[0][:left]
    if 4 * len(smallest) > size:
        return
    before = bench.at(fresh, bench.train)

    def moved(x: Tensor) -> float:
        with bench.unchanged():
            bench.load(fresh)
            for norm in bench.norms.values():
                norm.train()
            bench.forward(bench.model, x)
            bench.model.eval()
            return distance(bench.outputs(bench.train), before)

    full = [x for x in bench.train if len(x) == size][:5]
    usual = sum(moved(x) for x in full) / len(full)
    try:
        effect = moved(smallest)
    except ValueError:
        yield refused
        return
    if effect > max(0.03, 3 * usual):
        yield finding_of(
            "small last batch",
            where,
            effect,
            f"that is what one batch of {len(smallest)} does to the running statistics; one of "
            f"{size} does {usual:.1%}",
        )


def _between_modes(bench: Bench, batches: list[Tensor], statistics: State) -> float:
    with bench.unchanged():
        bench.load(statistics)
        trained = bench.outputs(batches, batch_statistics=True)
        return distance(trained, bench.outputs(batches))


def composed_differently(
    bench: Bench, shuffled: list[Tensor], fresh: State, pooled: State
) -> Iterator[Finding]:
    """Do the batches differ more from each other than shuffled ones would?"""
    with bench.unchanged():
        bench.load(pooled)
        seen = bench.seen(bench.train, batch_statistics=False)
    ratios = {
        name: ratio
        for name, calls in seen.items()
        if name in bench.norms and (ratio := max(map(_design_effect, calls))) > 2
    }
    if not ratios:
        return
    effect = _between_modes(bench, bench.train, fresh)
    usual = _between_modes(bench, shuffled, pooled)
    if shuffled is bench.train:
        usual = 0.0
    if effect > max(FAR, 1.3 * usual):
        worst = max(ratios, key=lambda name: ratios[name])
        yield finding_of(
            "batches composed differently",
            ratios,
            effect,
            f"the two modes differ that much, after shuffling {usual:.0%}; between the batches of "
            f"the loader the mean at {worst} varies {ratios[worst]:.1f} times as much as between "
            "shuffled ones",
        )


def _design_effect(batches: list[Sums]) -> float:
    """Variance of the batches' means, over that of batches drawn at random; 1 if not significant.

    Significant means: above all of 200 shuffles.
    """
    if len(batches) < 3 or any(len(b.values) < 2 for b in batches):
        return 1.0
    size = min(len(b.values) for b in batches)
    usual = max(len(b.values) for b in batches)
    full = [b for b in batches if len(b.values) == usual] if size < usual else batches
    if len(full) < 3:
        return 1.0
    count = torch.cat([b.values for b in full]).clamp_min(1)
    moments = torch.cat(
        [torch.cat([b.first for b in full]) / count, torch.cat([b.second for b in full]) / count],
        dim=1,
    )
    moments = moments[:, :: max(1, moments.shape[1] // 64)]  # some features tell as much as all
    moments = (moments - moments.mean(0)) / moments.std(0).clamp_min(1e-12)

    def between(rows: Tensor) -> float:
        return float(rows.reshape(len(full), usual, -1).mean(1).square().mean())

    actual = between(moments)
    by_chance = [between(moments[torch.randperm(len(moments))]) for _ in range(200)]
    if actual <= max(by_chance):
        return 1.0
    return actual / (sum(by_chance) / len(by_chance))


def small_batches(
    bench: Bench, shuffled: list[Tensor], pooled: State, size: int
) -> Iterator[Finding]:
    effect = _between_modes(bench, shuffled, pooled)
    if effect > 0.6:
        yield finding_of(
            "small batches",
            bench.norms,
            effect,
            f"in training each batch of {size} has statistics that far from those of all data",
        )


def two_domains(bench: Bench, held_out: list[Batch], shuffled: list[Tensor]) -> Iterator[Finding]:
    """Statistics of the evaluation data against those of training examples.

    Training examples in their place, which the statistics have not seen either, are the control.
    """
    there = [bench.cast(b.x) for b in held_out]
    if len({x.shape[1:] for x in (*there, *shuffled)}) > 1:
        return
    here = torch.cat(shuffled)
    size = max(map(len, shuffled))
    count = min(sum(map(len, there)), len(here) // 2)
    if count < 2 * min(size, 8):
        return
    some = torch.cat(there)
    some = some[torch.randperm(len(some), device=some.device)][:count]
    size = min(size, count // 2)

    def outputs(x: Tensor) -> Tensor:
        parts = [part for part in x.split(size) if len(part) == size]
        return bench.at(bench.recomputed(parts, dropout=False), there)

    moved, effects, usual = outputs(some), [], []
    for _ in range(5):
        order = here[torch.randperm(len(here), device=here.device)]
        right = outputs(order[count:])
        effects.append(distance(moved, right))
        usual.append(distance(outputs(order[:count]), right))
    effect = min(effects)
    if effect > max(FAR, 1.5 * max(usual)):
        yield finding_of(
            "two domains",
            bench.norms,
            effect,
            f"so far do statistics of the evaluation data stand from those of training; of as "
            f"many training examples {max(usual):.0%}"
            + (
                f"; inputs: mean {float(here.mean()):.2g} and deviation {float(here.std()):.2g} "
                f"in training, {float(some.mean()):.2g} and {float(some.std()):.2g} in evaluation"
                if here.is_floating_point()
                else ""
            ),
        )


def dead_network(bench: Bench) -> Iterator[Finding]:
    """Outputs that are the same for all examples, in both modes, though the inputs differ."""
    if not any(bool((x != x[:1]).any()) for x in bench.train):
        return
    for batch_statistics in (False, True):
        y = bench.outputs(bench.train, batch_statistics=batch_statistics)
        if not (y - y.mean(0)).abs().max() <= 1e-6 * y.abs().max():
            return
    gains = {
        name: float(weight.detach().abs().max())
        for name, module in bench.model.named_modules()
        if "norm" in type(module).__name__.lower()
        and isinstance(weight := getattr(module, "weight", None), Tensor)
    }
    where = [name for name, gain in gains.items() if gain < 1e-6]
    yield finding_of(
        "dead network",
        where,
        math.inf,
        "in both modes all examples have the same outputs, to six digits"
        + "".join(f"; γ of {name} is at most {gains[name]:.2g}" for name in where[:1]),
    )


def features_elsewhere(bench: Bench, notes: list[str]) -> Iterator[Finding]:
    """Norms over axis 1 of inputs (B, C, C), of which a layer before has put the features last."""
    last: dict[str, bool] = {}

    def written(module: nn.Module, args: Any, y: Any) -> None:
        keeps = type(module).__module__.endswith((".activation", ".dropout"))
        if isinstance(module, nn.Linear | nn.Embedding | nn.LayerNorm) or (
            keeps and hasattr(args[0], "features_last")
        ):
            y.features_last = True

    def read(name: str) -> Callable[..., None]:
        def look(norm: nn.Module, args: Any) -> None:
            x = args[0]
            if x.ndim == 3 and x.shape[1] == x.shape[2] and getattr(norm, "feature_axis", 1) == 1:
                last[name] = hasattr(x, "features_last")

        return look

    handles = [m.register_forward_hook(written) for m in bench.model.modules()]
    handles += [m.register_forward_pre_hook(read(name)) for name, m in bench.all_norms.items()]
    bench.outputs(bench.train[:1])
    for handle in handles:
        handle.remove()
    where = [name for name in last if last[name]]
    if where:
        yield finding_of(
            "features on another axis",
            where,
            math.inf,
            "axes 1 and 2 of its input are equally long; the layer before has put the features on "
            "axis 2, and the norm takes axis 1 for them",
        )
    elif last:
        notes.append(
            f"axes 1 and 2 of the input of {', '.join(last)} are equally long, and axis 1 is taken "
            "for the features: if they are on axis 2, transpose"
        )
