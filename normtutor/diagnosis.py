"""Why does a model compute something different in evaluation than in training?

Every cause is judged by an experiment on a copy of the model: take the cause away, and see how far
the outputs move. The unit is the same for all models and losses: the root mean square of the
change, divided by the spread of the outputs over the examples.
"""

import copy
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils.parametrize import is_parametrized

from normtutor.layers import PowerNorm, update_statistics

__all__ = ["CAUSES", "Diagnosis", "Finding", "diagnose"]

Forward = Callable[[nn.Module, Tensor], Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]
State = dict[str, dict[str, Tensor]]  # the running statistics of each norm, by its name

#: What :func:`diagnose` can find, and what to do about it.
CAUSES = {
    "not finite": "Reset the running statistics, find the batch that holds inf or nan, recompute.",
    "not converged": "Train for more batches before you evaluate, or recompute the statistics: "
    "torch.optim.swa_utils.update_bn(train_loader, model).",
    "momentum": "Set torch's momentum, the weight of the new batch, to 0.01 to 0.1 and recompute "
    "the statistics.",
    "half precision": "Keep the norms and their buffers in float32 (cast the model under "
    "torch.autocast instead of with .half()) and recompute the statistics.",
    "frozen incorrectly": "After each model.train() call norm.eval() on every norm that is to "
    "stay; requires_grad_(False) stops gradients alone. Freeze statistics that fit your data.",
    "small last batch": "DataLoader(..., drop_last=True).",
    "batches composed differently": "Shuffle the examples. If the order must stay, take a norm "
    "that does not look at the batch.",
    "shared layer": "Give each use a norm of its own; they may share weight and bias.",
    "no running statistics": "Build the norms with track_running_stats=True and recompute the "
    "statistics over the training data.",
    "two domains": "Give evaluation the preprocessing of training; if the data really differ, "
    "recompute the statistics on the new domain.",
    "dropout before a norm": "Move dropout behind the last norm, or recompute the statistics with "
    "dropout off.",
    "small batches": "Larger batches, or a norm that does not look at the batch.",
    "other statistics": "The running statistics belong to other weights or other data: recompute "
    "them with torch.optim.swa_utils.update_bn(train_loader, model).",
}
FAR = 0.15  # outputs that move by less than this share of their spread are taken as equal
LAG = 0.5  # and so far averages may lag behind weights that still change
SHARE = 0.05  # a share of the initial values that may remain in a running average
SWAMPED = 0.5  # and what remains of the initial variance may reach this share of a typical one


class Finding(NamedTuple):
    """One cause: where it is, how far it moves the outputs, the evidence, and the remedy.

    Attributes
    ----------
    cause : str
        One of :data:`CAUSES`.
    where : tuple of str
        The names of the norms.
    effect : float
        How far the outputs move when the cause is taken away, over their spread; inf if training
        stops with an error.
    evidence : str
    remedy : str
    """

    cause: str
    where: tuple[str, ...]
    effect: float
    evidence: str
    remedy: str

    def __str__(self) -> str:
        where, evidence = self.where, self.evidence
        shown = ", ".join(where[:3]) + (f" and {len(where) - 3} more" if where[3:] else "")
        if math.isfinite(self.effect):
            evidence = f"outputs move by {self.effect:.0%} of their spread; {evidence}"
        head = self.cause + (f" ({shown})" if shown else "")
        lines = [head]
        for label, text in (("   why:    ", evidence), ("   remedy: ", self.remedy)):
            lines += textwrap.wrap(
                text, 96, initial_indent=label, subsequent_indent=" " * len(label)
            )
        return "\n".join(lines)


@dataclass
class Diagnosis:
    """What :func:`diagnose` found. It prints as a report.

    Attributes
    ----------
    findings : list of Finding
        The strongest first; empty for a model whose modes agree.
    losses : dict
        Mean losses, each under a description; empty if the loaders have no targets.
    notes : list of str
        What could not be checked, and why.
    """

    findings: list[Finding] = field(default_factory=list)
    losses: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def causes(self) -> list[str]:
        """The names of the causes, the strongest first."""
        return [finding.cause for finding in self.findings]

    def __str__(self) -> str:
        lines = [f"{name:<48}{value:9.3g}" for name, value in self.losses.items()]
        if not self.findings:
            lines.append("no cause found: the norms do in evaluation what they did in training")
        lines += [f"{number}. {finding}" for number, finding in enumerate(self.findings, 1)]
        return "\n".join(lines + [f"note: {note}" for note in self.notes])

    __repr__ = __str__


def diagnose(
    model: nn.Module,
    train_loader: Iterable[Any],
    eval_loader: Iterable[Any],
    *,
    forward: Forward | None = None,
    loss: Loss | None = None,
    max_batches: int = 64,
    device: Any = None,
) -> Diagnosis:
    """Say which cause makes training and evaluation of ``model`` disagree.

    Pass the model in the state in which your training loop uses it: after ``model.train()`` and
    after any freezing. The model is not changed: all runs are made on a copy in float32.

    Parameters
    ----------
    model : torch.nn.Module
        With the norms of torch.nn or of :mod:`normtutor.layers`.
    train_loader, eval_loader : iterable
        Of batches x, or of tuples or lists (x, target, ...), x a tensor with the examples on its
        first axis. Not a generator that runs out: each is iterated over once.
    forward : callable, optional
        ``forward(model, x)`` returns the outputs, (B, ...). By default ``model(x)``, its
        ``logits`` or its first entry.
    loss : callable, optional
        ``loss(outputs, target)``. By default cross entropy for whole-numbered targets, and mean
        squared error for others.
    max_batches : int
        How many batches of each loader are used.
    device : torch.device, optional
        Where to run; by default where the model is.

    Returns
    -------
    Diagnosis
        ``causes`` names them; printed, it says what shows each and what to do.

    Raises
    ------
    ValueError
        If a loader has no batch.
    TypeError
        If a batch does not begin with a tensor of floating-point numbers or of token numbers.

    Examples
    --------
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    >>> data = TensorDataset(5 + torch.randn(640, 4), torch.zeros(640, dtype=torch.long))
    >>> loader = DataLoader(data, batch_size=32)
    >>> for x, _ in list(loader)[:3]:
    ...     _ = model(x)
    >>> diagnose(model, loader, loader).causes
    ['not converged']
    """
    devices = sorted({p.device.index for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        torch.manual_seed(0)
        train = _take(train_loader, max_batches, "train_loader")
        held_out = _take(eval_loader, max_batches, "eval_loader")
        bench = _Bench(model, train, forward or _outputs_of, device)
        result = _examine(bench, model, train_loader, held_out, loss)
    if len(train) == max_batches and getattr(train_loader, "batch_size", None) is None:
        result.notes.append(
            f"of train_loader only the first {max_batches} batches were looked at; a small last "
            "batch after them is not seen"
        )
    return result


# --- data -----------------------------------------------------------------------------------------


class _Batch(NamedTuple):
    x: Tensor
    target: Tensor | None


def _take(loader: Iterable[Any], most: int, name: str) -> list[_Batch]:
    batches = []
    for number, batch in enumerate(loader):
        if number == most:
            break
        parts = list(batch) if isinstance(batch, list | tuple) else [batch]
        if not isinstance(parts[0], Tensor):
            raise TypeError(
                f"{name} must give tensors x, or tuples (x, target, ...); got "
                f"{type(parts[0]).__name__}. Wrap the loader so that x comes first, and pass "
                "forward= if your model takes more than x."
            )
        target = parts[1] if len(parts) > 1 and isinstance(parts[1], Tensor) else None
        batches.append(_Batch(parts[0], target))
    if not batches:
        raise ValueError(f"{name} must give at least one batch; it gave none.")
    return batches


def _pooled(batches: Sequence[Tensor], size: int) -> list[Tensor]:
    """The same examples, shuffled into batches of one size; as they are where shapes differ."""
    if len({x.shape[1:] for x in batches}) > 1:
        return list(batches)
    x = torch.cat(list(batches))
    x = x[torch.randperm(len(x), device=x.device)]
    return [part for part in x.split(size) if len(part) == size] or [x]


def _outputs_of(model: nn.Module, x: Tensor) -> Tensor:
    y = model(x)
    y = getattr(y, "logits", y)
    return y[0] if isinstance(y, list | tuple) else y


def _distance(changed: Tensor, y: Tensor) -> float:
    """Root mean square of the change, over the spread of y among its examples."""
    spread = (y - y.mean(0)).square().mean().sqrt()
    moved = (changed - y).square().mean().sqrt()
    if not torch.isfinite(moved):
        return math.inf
    return float(moved / spread.clamp_min(1e-12))


# --- the copy on which everything is tried --------------------------------------------------------


class _Sums(NamedTuple):
    """Of each example at a norm: how many values, their sum and that of their squares."""

    values: Tensor  # how many, (N, 1)
    first: Tensor  # (N, C)
    second: Tensor

    def moments(self) -> tuple[Tensor, Tensor]:
        values = self.values.sum()
        mean = self.first.sum(0) / values
        return mean, (self.second.sum(0) / values - mean.square()).clamp_min(0)


Seen = dict[str, list[list[_Sums]]]  # by norm, call within a forward pass, and batch


class _Bench:
    """A copy of the model in float32, whose norms can be run in either mode."""

    def __init__(
        self, model: nn.Module, train: list[_Batch], forward: Forward, device: Any
    ) -> None:
        first = next(model.parameters(), None)
        self.device = device or (first.device if first is not None else "cpu")
        self.model = copy.deepcopy(model).float().to(self.device).eval().requires_grad_(False)
        self.forward = forward
        self.all_norms = {
            name: module
            for name, module in self.model.named_modules()
            if isinstance(module, _BatchNorm | PowerNorm)
        }
        self.norms = {n: m for n, m in self.all_norms.items() if _buffers(m)}
        self.refused: list[Tensor] = []
        self.train: list[Tensor] = []
        self.targets: list[Tensor | None] = []
        for batch in train:
            x = self.cast(batch.x)
            if self.is_refused(x):
                self.refused.append(x)
            else:
                self.train.append(x)
                self.targets.append(batch.target)
        if not self.train:
            raise ValueError(
                "the training batches must hold more than one value per channel; a norm refused "
                f"all of them, of {len(self.refused[0])} example. Use larger batches."
            )

    def cast(self, x: Tensor) -> Tensor:
        return x.to(self.device, torch.float32 if x.is_floating_point() else x.dtype)

    def is_refused(self, x: Tensor) -> bool:
        """Whether a batch of one example stops training with an error."""
        if len(x) != 1:
            return False
        try:
            with self.unchanged():
                self.outputs([x], batch_statistics=True)
        except ValueError:
            return True
        return False

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        state = self.state()
        try:
            yield
        finally:
            self.load(state)

    def state(self) -> State:
        return {
            name: {key: value.clone() for key, value in norm.named_buffers(recurse=False)}
            for name, norm in self.norms.items()
        }

    def load(self, state: State, only: Iterable[str] | None = None) -> None:
        for name in self.norms if only is None else only:
            for key, value in state[name].items():
                getattr(self.norms[name], key).copy_(value)

    def outputs(self, batches: Iterable[Tensor], *, batch_statistics: bool = False) -> Tensor:
        """Outputs for all examples, (N, K); dropout is off, the running statistics stay."""
        with self.unchanged():
            for norm in self.all_norms.values():
                norm.train(batch_statistics)
            try:
                ys = [self.forward(self.model, x).flatten(1).double() for x in batches]
            finally:
                self.model.eval()
        longest = max(y.shape[1] for y in ys)
        return torch.cat([nn.functional.pad(y, (0, longest - y.shape[1])) for y in ys])

    def at(self, state: State, batches: Sequence[Tensor]) -> Tensor:
        """Outputs in evaluation with other running statistics."""
        with self.unchanged():
            self.load(state)
            return self.outputs(batches)

    def recomputed(self, batches: Sequence[Tensor], *, dropout: bool = True) -> State:
        drops = [m for m in self.model.modules() if isinstance(m, _DropoutNd)]
        before = [m.p for m in drops]
        with self.unchanged():
            for m in drops:
                m.p = m.p if dropout else 0.0
            update_statistics(batches, _Called(self.model, self.forward))
            self.model.eval()
            for m, p in zip(drops, before, strict=True):
                m.p = p
            return self.state()

    def seen(self, batches: Sequence[Tensor], *, batch_statistics: bool) -> Seen:
        """Sums at the input of each norm, in the order of its calls."""
        found: Seen = {}
        calls: dict[str, int] = {}
        examples = 0

        def hook(name: str) -> Callable[..., None]:
            def record(module: nn.Module, args: Any, kwargs: Any) -> None:
                call = calls[name] = calls.get(name, -1) + 1
                per_call = found.setdefault(name, [])
                if len(per_call) <= call:
                    per_call.append([])
                mask = kwargs.get("mask", args[1] if len(args) > 1 else None)
                per_call[call].append(_sums(module, args[0], mask, examples))

            return record

        handles = [
            norm.register_forward_pre_hook(hook(name), with_kwargs=True)
            for name, norm in self.all_norms.items()
        ]
        try:
            for x in batches:
                calls.clear()
                examples = len(x)
                self.outputs([x], batch_statistics=batch_statistics)
        finally:
            for handle in handles:
                handle.remove()
        return found


class _Called(nn.Module):
    """The model behind its forward function, for what calls a module with x."""

    def __init__(self, model: nn.Module, forward: Forward) -> None:
        super().__init__()
        self.model, self.function = model, forward

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.model, x)


def _buffers(norm: nn.Module) -> list[str]:
    """The names of a norm's running statistics that are there."""
    names = ("running_mean", "running_var", "running_mean_square")
    return [name for name in names if getattr(norm, name, None) is not None]


def _sums(norm: nn.Module, x: Tensor, mask: Tensor | None, examples: int) -> _Sums:
    axis = getattr(norm, "feature_axis", 1)
    x = x.detach().double().movedim(axis, -1)
    weight = torch.ones_like(x[..., :1]) if mask is None else mask.to(x)[..., None]
    rows = examples if examples and x.shape[0] % examples == 0 else 1
    x, weight = x.reshape(rows, -1, x.shape[-1]), weight.reshape(rows, -1, 1)
    return _Sums(weight.sum(1), (weight * x).sum(1), (weight * x * x).sum(1))


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


def _initial(key: str) -> float:
    return 0.0 if key == "running_mean" else 1.0


# --- the examination ------------------------------------------------------------------------------


def _examine(
    bench: _Bench,
    model: nn.Module,
    train_loader: Iterable[Any],
    held_out: list[_Batch],
    loss: Loss | None,
) -> Diagnosis:
    result = Diagnosis()
    if not bench.all_norms:
        others = sorted({type(m).__name__ for m in model.modules() if isinstance(m, _DropoutNd)})
        result.notes.append(
            "no BatchNorm and no PowerNorm: the model's norms do the same in both modes"
            + (f"; {', '.join(others)} does not" if others else "")
        )
        return result
    result.findings += _without_statistics(bench, held_out)
    if bench.norms:
        result.findings += _with_statistics(bench, model, train_loader, held_out, loss, result)
    result.findings.sort(key=lambda finding: -finding.effect)
    return result


def _found(cause: str, where: Iterable[str], effect: float, evidence: str) -> Finding:
    return Finding(cause, tuple(where), effect, evidence, CAUSES[cause])


def _without_statistics(bench: _Bench, held_out: list[_Batch]) -> Iterator[Finding]:
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
    effect = _distance(bench.outputs(parts), bench.outputs(whole))
    if effect > 0.01:
        yield _found(
            "no running statistics",
            where,
            effect,
            f"that is how far predictions change when each batch of evaluation is {words}",
        )


def _with_statistics(
    bench: _Bench,
    model: nn.Module,
    train_loader: Iterable[Any],
    held_out: list[_Batch],
    loss: Loss | None,
    result: Diagnosis,
) -> Iterator[Finding]:
    size = max(len(x) for x in bench.train)
    same_shape = len({x.shape[1:] for x in bench.train}) == 1
    if not same_shape:
        result.notes.append("batches of several shapes were not shuffled")
    shuffled = _pooled(bench.train, size)
    as_is, fresh = bench.state(), bench.recomputed(bench.train)
    drops = any(isinstance(m, _DropoutNd) and m.p > 0 for m in bench.model.modules())
    still = bench.recomputed(bench.train, dropout=False) if drops else fresh
    pooled = bench.recomputed(shuffled, dropout=False) if same_shape else still
    result.losses = _losses(bench, held_out, fresh, loss)

    found = [*_calls(bench, still)]
    shared = {name for finding in found for name in finding.where}
    found += [
        *_values(bench, model, as_is, fresh, shared, result),
        *_moving(bench, model),
        *_last_batch(bench, train_loader, still),
        *_dropout(bench, fresh, still),
        *_domains(bench, held_out, shuffled, pooled, size),
    ]
    composed = list(_composition(bench, shuffled, still, pooled))
    if not composed and not shared:
        composed = list(_noise(bench, shuffled, pooled, size))
    found += composed
    strongest: dict[str, Finding] = {}
    for finding in sorted(found, key=lambda f: f.effect):
        strongest[finding.cause] = finding
    if strongest.keys() & {"small last batch", "frozen incorrectly", "small batches"}:
        strongest.pop("other statistics", None)  # these say why the averages are off
    yield from strongest.values()
    if not model.training:
        result.notes.append(
            "the model is in evaluation mode, so it cannot be seen what is frozen in training"
        )


def _losses(
    bench: _Bench, held_out: list[_Batch], fresh: State, loss: Loss | None
) -> dict[str, float]:
    pairs = [(x, t) for x, t in zip(bench.train, bench.targets, strict=True) if t is not None]
    others = [(bench.cast(b.x), b.target) for b in held_out if b.target is not None]
    if not pairs or not others:
        return {}

    def mean(batches: list[tuple[Tensor, Tensor]], batch_statistics: bool = False) -> float:
        function = loss or _default_loss
        total = count = 0.0
        with bench.unchanged():
            for norm in bench.all_norms.values():
                norm.train(batch_statistics)
            for x, target in batches:
                y = bench.forward(bench.model, x)
                total += float(function(y, target.to(y.device))) * len(x)
                count += len(x)
            bench.model.eval()
        return total / count

    try:
        losses = {
            "training data, statistics of the batch": mean(pairs, True),
            "training data, running statistics": mean(pairs),
        }
        held = mean(others)
        with bench.unchanged():
            bench.load(fresh)
            losses["training data, statistics recomputed"] = mean(pairs)
            losses["evaluation data, running statistics"] = held
            losses["evaluation data, statistics recomputed"] = mean(others)
    except (RuntimeError, ValueError, TypeError, IndexError):
        if loss is not None:
            raise
        return {}
    return losses


def _default_loss(outputs: Tensor, target: Tensor) -> Tensor:
    if target.is_floating_point():
        return nn.functional.mse_loss(outputs, target)
    if outputs.ndim > 2 and outputs.shape[:-1] == target.shape:  # tokens: the classes come last
        outputs, target = outputs.flatten(0, -2), target.flatten()
    return nn.functional.cross_entropy(outputs, target)


def _stray(bench: _Bench, as_is: State, fresh: State) -> dict[str, float]:
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


def _values(
    bench: _Bench, model: nn.Module, as_is: State, fresh: State, shared: set[str], result: Diagnosis
) -> Iterator[Finding]:
    """The running statistics against those that the same weights give over the same data."""
    theirs = dict(model.named_modules())
    bad = [
        name
        for name, norm in bench.norms.items()
        if not all(torch.isfinite(getattr(norm, key)).all() for key in _buffers(norm))
    ]
    narrow = {
        name: dtype
        for name in bench.norms
        for dtype in [getattr(theirs[name], _buffers(theirs[name])[0]).dtype]
        if dtype in (torch.float16, torch.bfloat16)
    }
    if bad:
        cause = "half precision" if all(name in narrow for name in bad) else "not finite"
        yield _found(cause, bad, math.inf, "running statistics hold inf or nan")
        return
    right = bench.at(fresh, bench.train)
    yield from _large_momentum(bench, fresh, right)
    total = _distance(bench.at(as_is, bench.train), right)
    if total < FAR:
        return
    away = _stray(bench, as_is, fresh)
    frozen = {n for n in bench.norms if model.training and not theirs[n].training}
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
            f"they move the outputs by {total:.0%} of their spread"
        )
        return
    for reason, names in reasons.items():
        with bench.unchanged():
            bench.load(fresh, only=names)
            left = _distance(bench.outputs(bench.train), right)
            others = [n for n in bench.norms if n not in names]
            bench.load(as_is)
            bench.load(fresh, only=others)
            effect = _distance(bench.outputs(bench.train), right)
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
                yield _found(
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
        yield _found(reason, names, effect, evidence)


def _stuck(
    norm: nn.Module, old: dict[str, Tensor], new: dict[str, Tensor], dtype: torch.dtype
) -> float:
    """The share of running values that are wrong and whose updates round to nothing."""
    momentum = _momentum(norm) or 0.0
    shares = []
    for key in _buffers(norm):
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


def _large_momentum(bench: _Bench, fresh: State, right: Tensor) -> Iterator[Finding]:
    """Averages that look back over no more than the last batches, whatever they hold just now."""
    where = [name for name, norm in bench.norms.items() if _is_large(norm)]
    if not where:
        return
    effect = _replayed(bench, fresh, right, None)
    usual = _replayed(bench, fresh, right, 0.1)
    if effect > max(FAR / 2, 2 * usual):
        yield _found(
            "momentum",
            where,
            effect,
            f"averages with momentum {_momentum(bench.norms[where[0]]):g} scatter that much from "
            f"batch to batch, with 0.1 by {usual:.0%}",
        )


def _replayed(bench: _Bench, fresh: State, right: Tensor, momentum: float | None) -> float:
    """How far averages over the batches, in random order, scatter in the outputs; of three."""
    own = {name: getattr(norm, "momentum", None) for name, norm in bench.norms.items()}
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
            distances.append(_distance(bench.outputs(bench.train), right))
            for name, norm in bench.norms.items():
                if isinstance(norm, _BatchNorm):
                    norm.momentum = own[name]
    return sum(distances) / len(distances)


def _moving(bench: _Bench, model: nn.Module) -> Iterator[Finding]:
    """Norms whose parameters are frozen while their running statistics move."""
    if not model.training:
        return
    theirs = dict(model.named_modules())
    trained = any(p.requires_grad for p in model.parameters())
    moving = []
    for name in bench.norms:
        norm = theirs[name]
        own = list(norm.parameters(recurse=False))
        if not own:
            parent = theirs[name.rpartition(".")[0]]
            own = [] if is_parametrized(parent) else list(parent.parameters())
        if own and norm.training and not any(p.requires_grad for p in own):
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
        effect = _distance(bench.outputs(bench.train), before)
    yield _found(
        "frozen incorrectly",
        moving,
        effect,
        f"that is how far {len(bench.train)} more batches move the outputs in evaluation: weight "
        "and bias want no gradient, but the norms are in training mode",
    )


def _last_batch(bench: _Bench, train_loader: Iterable[Any], fresh: State) -> Iterator[Finding]:
    where = list(bench.norms)
    refused = _found(
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
    data: Any = getattr(train_loader, "dataset", None)
    batch_size = getattr(train_loader, "batch_size", None)
    if batch_size and hasattr(data, "__len__") and not getattr(train_loader, "drop_last", True):
        left = len(data) % batch_size
        if 0 < left < len(smallest):
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
            return _distance(bench.outputs(bench.train), before)

    full = [x for x in bench.train if len(x) == size][:5]
    usual = sum(moved(x) for x in full) / len(full)
    try:
        effect = moved(smallest)
    except ValueError:
        yield refused
        return
    if effect > max(0.03, 3 * usual):
        yield _found(
            "small last batch",
            where,
            effect,
            f"that is what one batch of {len(smallest)} does to the running statistics; one of "
            f"{size} does {usual:.1%}",
        )


def _calls(bench: _Bench, fresh: State) -> Iterator[Finding]:
    """A norm that is called several times in a forward pass, on inputs of several kinds."""
    seen = bench.seen(bench.train, batch_statistics=True)
    own: dict[str, list[dict[str, Tensor]]] = {}
    apart: dict[str, float] = {}
    for name, calls in seen.items():
        if len(calls) < 2 or not isinstance(bench.norms.get(name), _BatchNorm):
            continue
        moments = [[sums.moments() for sums in batches] for batches in calls]
        means = torch.stack([torch.stack([m for m, _ in call]).mean(0) for call in moments])
        variances = torch.stack([torch.stack([v for _, v in call]).mean(0) for call in moments])
        own[name] = [
            {"running_mean": mean, "running_var": variance}
            for mean, variance in zip(means, variances, strict=True)
        ]
        spread = (means.amax(0) - means.amin(0)) / variances.mean(0).clamp_min(1e-12).sqrt()
        apart[name] = float(spread.square().mean().sqrt())
    if not own:
        return
    before = bench.at(fresh, bench.train)
    with bench.unchanged():
        bench.load(fresh)
        handles = [
            bench.norms[name].register_forward_pre_hook(_in_turn(statistics))
            for name, statistics in own.items()
        ]
        try:
            effect = _distance(bench.outputs(bench.train), before)
        finally:
            for handle in handles:
                handle.remove()
    if effect > FAR:
        worst = max(apart, key=lambda name: apart[name])
        yield _found(
            "shared layer",
            own,
            effect,
            f"{worst} is called {len(own[worst])} times in a forward pass, on inputs whose means "
            f"are {apart[worst]:.2g} deviations apart; its running statistics fit neither",
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


def _dropout(bench: _Bench, fresh: State, without: State) -> Iterator[Finding]:
    if without is fresh:
        return
    right = bench.at(without, bench.train)
    effect = _distance(bench.at(fresh, bench.train), right)
    if effect < FAR:
        return
    away = _stray(bench, fresh, without)
    worst = max(away, key=lambda name: away[name])
    key = "running_mean_square" if "running_mean_square" in fresh[worst] else "running_var"
    ratio = float((fresh[worst][key] / without[worst][key].clamp_min(1e-12)).median())
    yield _found(
        "dropout before a norm",
        [name for name in away if away[name] > 0.05],
        effect,
        f"with dropout the variance at {worst} is {ratio:.2g} times that without",
    )


def _between_modes(bench: _Bench, batches: list[Tensor], statistics: State) -> float:
    with bench.unchanged():
        bench.load(statistics)
        trained = bench.outputs(batches, batch_statistics=True)
        return _distance(trained, bench.outputs(batches))


def _composition(
    bench: _Bench, shuffled: list[Tensor], fresh: State, pooled: State
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
        yield _found(
            "batches composed differently",
            ratios,
            effect,
            f"the two modes differ that much, after shuffling {usual:.0%}; between the batches of "
            f"the loader the mean at {worst} varies {ratios[worst]:.1f} times as much as between "
            "shuffled ones",
        )


def _design_effect(batches: list[_Sums]) -> float:
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


def _noise(bench: _Bench, shuffled: list[Tensor], pooled: State, size: int) -> Iterator[Finding]:
    effect = _between_modes(bench, shuffled, pooled)
    if effect > 0.6:
        yield _found(
            "small batches",
            bench.norms,
            effect,
            f"in training each batch of {size} has statistics that far from those of all data",
        )


def _domains(
    bench: _Bench, held_out: list[_Batch], shuffled: list[Tensor], pooled: State, size: int
) -> Iterator[Finding]:
    """Statistics of the evaluation data against those of as many training examples."""
    there = [bench.cast(b.x) for b in held_out]
    if any(x.shape[1:] != shuffled[0].shape[1:] for x in there):
        return
    count = min(sum(map(len, there)), sum(map(len, shuffled)) // 2)
    here = torch.cat(shuffled)
    if count < 2 * min(size, 8):
        return
    some = torch.cat(there)
    some = some[torch.randperm(len(some), device=some.device)][:count]
    size = min(size, count // 2)

    def whole(x: Tensor) -> list[Tensor]:
        return [part for part in x.split(size) if len(part) == size]

    right = bench.at(pooled, there)
    effect = _distance(bench.at(bench.recomputed(whole(some)), there), right)
    usual = max(
        _distance(bench.at(bench.recomputed(whole(part)), there), right)
        for part in (here[:count], here[-count:])
    )
    if effect > max(FAR, 2.5 * usual):
        yield _found(
            "two domains",
            bench.norms,
            effect,
            f"so far do statistics of the evaluation data stand from those of training; of as "
            f"many training examples {usual:.0%}"
            + (
                f"; inputs: mean {float(here.mean()):.2g} and deviation {float(here.std()):.2g} "
                f"in training, {float(some.mean()):.2g} and {float(some.std()):.2g} in evaluation"
                if here.is_floating_point()
                else ""
            ),
        )
