"""Causes that lie in the running statistics themselves, and in what moves them."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.parametrize import is_parametrized

from normtutor.diagnosis.bench import FAR, Bench, State, buffers_of, distance
from normtutor.diagnosis.report import Diagnosis, Finding, finding_of
from normtutor.layers import PowerNorm

EPSILONS = (1e-12, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
LAG = 0.5  # and so far averages may lag behind weights that still change
SHARE = 0.05  # a share of the initial values that may remain in a running average
SWAMPED = 0.5  # and what remains of the initial variance may reach this share of a typical one


def _momentum(norm: nn.Module) -> float | None:
    """The weight of the newest batch in the average; None for a plain average."""
    if isinstance(norm, PowerNorm):
        steps = int(norm.num_batches_tracked)
        return None if steps <= norm.warmup_steps else 1 - norm.alpha_forward
    return norm.momentum  # type: ignore[return-value]


def _initial_share(norm: nn.Module) -> float:
    """How much of the initial values is left in the running statistics."""
    steps: Any = getattr(norm, "num_batches_tracked", None)
    if steps is None:
        return 0.0
    momentum = _momentum(norm)
    if momentum is None:
        return float(steps == 0)
    return float((1 - momentum) ** int(steps))


def _swamped(norm: nn.Module, fresh: dict[str, Tensor]) -> float:
    """What is left of the initial variance of 1, over the variance that most features have."""
    if "running_var" not in fresh:
        return 0.0
    typical = float(fresh["running_var"].double().median())
    return _initial_share(norm) / (typical + float(getattr(norm, "eps", 0.0)) or 1.0)


def _stray(bench: Bench, as_is: State, fresh: State) -> dict[str, float]:
    """How far each norm's running statistics stand from the recomputed ones, in deviations."""
    away = {}
    for name, norm in bench.norms.items():
        old, new = as_is[name], fresh[name]
        second = "running_mean_square" if isinstance(norm, PowerNorm) else "running_var"
        spread = new[second].double().clamp_min(1e-12)
        square = (0.5 * (old[second].double().clamp_min(1e-12) / spread).log()).square()
        if "running_mean" in old:
            square = square + (old["running_mean"] - new["running_mean"]).double().square() / spread
        away[name] = float(square.mean().sqrt())
    return away


def wrong_averages(
    bench: Bench, model: nn.Module, as_is: State, fresh: State, shared: set[str], result: Diagnosis
) -> Iterator[Finding]:
    """The running statistics against those that the same weights give over the same data."""
    modules = dict(model.named_modules())
    bad = [
        name
        for name, norm in bench.norms.items()
        if not all(torch.isfinite(getattr(norm, key)).all() for key in buffers_of(norm))
    ]
    narrow = {
        name: dtype
        for name in bench.norms
        for dtype in [getattr(modules[name], buffers_of(modules[name])[0]).dtype]
        if dtype in (torch.float16, torch.bfloat16)
    }
    if bad:
        cause = "half precision" if all(name in narrow for name in bad) else "not finite"
        yield finding_of(cause, bad, math.inf, "running statistics hold inf or nan")
        return
    right = bench.at(fresh, bench.train)
    yield from _large_momentum(bench, fresh, right)
    total = distance(bench.at(as_is, bench.train), right)
    if total < FAR:
        return
    away = _stray(bench, as_is, fresh)
    if epsilon := _another_epsilon(bench, as_is, away):
        yield epsilon
        return
    frozen = {n for n in bench.norms if model.training and not modules[n].training}
    reasons: dict[str, list[str]] = {}
    for name, norm in bench.norms.items():
        stuck = name in narrow and _stuck(norm, as_is[name], fresh[name], narrow[name]) > 0.1
        reason = _reason(norm, name in frozen, stuck, fresh[name])
        if away[name] > 0.02 and reason is not None:
            if reason != "other statistics" or name not in shared:
                reasons.setdefault(reason, []).append(name)
    if total < LAG and set(reasons) <= {"other statistics", "frozen incorrectly", "half precision"}:
        result.notes.append(
            "the averages lag behind the weights, as they do while a model learns: recomputed, "
            f"they move the outputs by {total:.2g} standard deviations"
        )
        return
    for reason, names in reasons.items():
        with bench.unchanged():
            bench.load(fresh, only=names)
            left = distance(bench.outputs(bench.train), right)
            others = [n for n in bench.norms if n not in names]
            bench.load(as_is)
            bench.load(fresh, only=others)
            effect = distance(bench.outputs(bench.train), right)
        if effect < FAR:
            continue
        norm = bench.norms[names[0]]
        worst = max(names, key=lambda n: away[n])
        evidence = (
            f"recomputed, they leave {left:.0%}; {worst} stands {away[worst]:.2g} deviations off"
        )
        momentum, steps = _momentum(norm), getattr(norm, "num_batches_tracked", None)
        if reason == "other statistics" and momentum:
            usual = _replayed(bench, fresh, right, None)
            if effect < 2 * usual:
                yield finding_of(
                    "small batches",
                    names,
                    effect,
                    f"averages with momentum {momentum:g} over batches of "
                    f"{max(len(x) for x in bench.train)} scatter that much: {usual:.0%}",
                )
                continue
        share, swamped = _initial_share(norm), _swamped(norm, fresh[names[0]])
        if reason in ("not converged", "momentum") and (share > SHARE or swamped > SWAMPED):
            evidence += (
                f"; {int(steps or 0)} batches at momentum {momentum:g} leave "
                f"{share:.{0 if share > SHARE else 1}%} of the initial values 0 and 1"
            )
            if share <= SHARE:
                evidence += f", {swamped:.1g} times a typical variance"
        elif reason == "half precision":
            dtype = narrow[worst]
            share = _stuck(bench.norms[worst], as_is[worst], fresh[worst], dtype)
            evidence += (
                f"; they are kept in {str(dtype).removeprefix('torch.')}, where {share:.0%} of "
                "them do not move any more: an update is less than half of the last digit"
            )
        elif reason == "frozen incorrectly":
            evidence += "; the norms are frozen with statistics that do not fit the data"
        finding = finding_of(reason, names, effect, evidence)
        kept = result.losses.get("training data, running statistics", math.inf)
        new = result.losses.get("training data, statistics recomputed", 0.0)
        if "recompute" in finding.remedy and new > kept:
            remedy = (
                "Keep the running statistics: with recomputed ones the loss on the training data "
                f"rises from {kept:.2g} to {new:.2g}. Look for what else changed since training."
            )
            finding = finding._replace(remedy=remedy)
        yield finding


def _another_epsilon(bench: Bench, as_is: State, away: dict[str, float]) -> Finding | None:
    """Another ε with which the model would compute the running statistics that it has."""
    stated = {name: norm.eps for name, norm in bench.norms.items()}
    before, finding = bench.outputs(bench.train), None
    worst = max(away, key=lambda name: away[name])
    nearest = min(away[worst] / 3, FAR)
    for eps in EPSILONS:
        for norm in bench.norms.values():
            norm.eps = eps
        left = max(_stray(bench, as_is, bench.recomputed(bench.train)).values())
        if left < nearest:
            nearest = left
            finding = finding_of(
                "another epsilon",
                stated,
                distance(bench.outputs(bench.train), before),
                f"with ε = {eps:g} instead of {stated[worst]:g} the running statistics stand "
                f"{left:.2g} instead of {away[worst]:.2g} deviations off those that the data give",
            )
    for name, norm in bench.norms.items():
        norm.eps = stated[name]
    return finding


def _stuck(
    norm: nn.Module, old: dict[str, Tensor], new: dict[str, Tensor], dtype: torch.dtype
) -> float:
    """The share of running values that are wrong and whose updates round to nothing."""
    momentum = _momentum(norm) or 0.0
    shares = []
    for key in buffers_of(norm):
        wrong = (new[key] - old[key]).abs()
        half_a_digit = torch.finfo(dtype).eps * old[key].abs() / 2
        stuck = (momentum * wrong < half_a_digit) & (wrong > 0.02 * new[key].abs())
        shares.append(float(stuck.double().mean()))
    return max(shares)


def _reason(norm: nn.Module, frozen: bool, stuck: bool, fresh: dict[str, Tensor]) -> str | None:
    momentum = _momentum(norm)
    if frozen:
        return "frozen incorrectly"
    if momentum == 0:
        return "momentum"
    if _initial_share(norm) > SHARE:
        steps: Any = norm.num_batches_tracked
        return "momentum" if momentum is not None and int(steps) >= 50 else "not converged"
    if _swamped(norm, fresh) > SWAMPED:
        return "not converged"
    if stuck:
        return "half precision"
    return None if _is_large(norm) else "other statistics"


def _is_large(norm: nn.Module) -> bool:
    momentum = _momentum(norm)
    return momentum is not None and momentum > 0.35


def _large_momentum(bench: Bench, fresh: State, right: Tensor) -> Iterator[Finding]:
    """Averages that look back over no more than the last batches, whatever they hold just now."""
    where = [name for name, norm in bench.norms.items() if _is_large(norm)]
    if not where:
        return
    effect = _replayed(bench, fresh, right, None)
    usual = _replayed(bench, fresh, right, 0.1)
    if effect > max(FAR / 2, 2 * usual):
        yield finding_of(
            "momentum",
            where,
            effect,
            f"averages with momentum {_momentum(bench.norms[where[0]]):g} scatter that much from "
            f"batch to batch, with 0.1 by {usual:.0%}",
        )


def _replayed(bench: Bench, fresh: State, right: Tensor, momentum: float | None) -> float:
    """How far averages over the batches, in random order, scatter in the outputs; of three."""
    stated = {name: getattr(norm, "momentum", None) for name, norm in bench.norms.items()}
    distances = []
    for _ in range(3):
        with bench.unchanged():
            bench.load(fresh)
            for norm in bench.norms.values():
                if momentum is not None and isinstance(norm, _BatchNorm):
                    norm.momentum = momentum
                norm.train()
            for index in torch.randperm(len(bench.train)).tolist():
                bench.forward(bench.model, bench.train[index])
            bench.model.eval()
            distances.append(distance(bench.outputs(bench.train), right))
            for name, norm in bench.norms.items():
                if isinstance(norm, _BatchNorm):
                    norm.momentum = stated[name]
    return sum(distances) / len(distances)


def moving_though_frozen(bench: Bench, model: nn.Module) -> Iterator[Finding]:
    """Norms whose parameters are frozen while their running statistics move."""
    if not model.training:
        return
    modules = dict(model.named_modules())
    trained = any(p.requires_grad for p in model.parameters())
    moving = []
    for name in bench.norms:
        norm = modules[name]
        parameters = list(norm.parameters(recurse=False))
        if not parameters:
            parent = modules[name.rpartition(".")[0]]
            parameters = [] if is_parametrized(parent) else list(parent.parameters())
        if parameters and norm.training and not any(p.requires_grad for p in parameters):
            moving.append(name)
    if not moving or not trained:
        return
    before = bench.outputs(bench.train)
    with bench.unchanged():
        for name in moving:
            bench.norms[name].train()
        for x in bench.train:
            bench.forward(bench.model, x)
        bench.model.eval()
        effect = distance(bench.outputs(bench.train), before)
    yield finding_of(
        "frozen incorrectly",
        moving,
        effect,
        f"weight and bias are frozen; {len(bench.train)} more batches in training mode moved the "
        "averages",
    )


def shared_layers(bench: Bench, fresh: State) -> Iterator[Finding]:
    """A norm that is called several times in a forward pass, on inputs of several kinds."""
    seen = bench.seen(bench.train, batch_statistics=True)
    per_call: dict[str, list[dict[str, Tensor]]] = {}
    apart: dict[str, float] = {}
    for name, calls in seen.items():
        if len(calls) < 2 or not isinstance(bench.norms.get(name), _BatchNorm):
            continue
        moments = [[sums.moments() for sums in batches] for batches in calls]
        means = torch.stack([torch.stack([m for m, _ in call]).mean(0) for call in moments])
        variances = torch.stack([torch.stack([v for _, v in call]).mean(0) for call in moments])
        per_call[name] = [
            {"running_mean": mean, "running_var": variance}
            for mean, variance in zip(means, variances, strict=True)
        ]
        spread = (means.amax(0) - means.amin(0)) / variances.mean(0).clamp_min(1e-12).sqrt()
        apart[name] = float(spread.square().mean().sqrt())
    if not per_call:
        return
    before = bench.at(fresh, bench.train)
    with bench.unchanged():
        bench.load(fresh)
        handles = [
            bench.norms[name].register_forward_pre_hook(_in_turn(statistics))
            for name, statistics in per_call.items()
        ]
        try:
            effect = distance(bench.outputs(bench.train), before)
        finally:
            for handle in handles:
                handle.remove()
    if effect > FAR:
        worst = max(apart, key=lambda name: apart[name])
        yield finding_of(
            "shared layer",
            per_call,
            effect,
            f"{worst} is called {len(per_call[worst])} times in a forward pass, on inputs whose "
            f"means are {apart[worst]:.2g} deviations apart; its running statistics fit neither",
        )


def _in_turn(statistics: list[dict[str, Tensor]]) -> Callable[..., None]:
    """A hook that gives a norm other statistics at each call of a forward pass."""
    turn = 0

    def load(module: nn.Module, _: Any) -> None:
        nonlocal turn
        for key, value in statistics[turn % len(statistics)].items():
            getattr(module, key).copy_(value)
        turn += 1

    return load


def dropout_before(bench: Bench, fresh: State, without: State) -> Iterator[Finding]:
    if without is fresh:
        return
    right = bench.at(without, bench.train)
    effect = distance(bench.at(fresh, bench.train), right)
    if effect < FAR:
        return
    away = _stray(bench, fresh, without)
    worst = max(away, key=lambda name: away[name])
    key = "running_mean_square" if "running_mean_square" in fresh[worst] else "running_var"
    ratio = float((fresh[worst][key] / without[worst][key].clamp_min(1e-12)).median())
    yield finding_of(
        "dropout before a norm",
        [name for name in away if away[name] > 0.05],
        effect,
        f"with dropout the variance at {worst} is {ratio:.2g} times that without",
    )
