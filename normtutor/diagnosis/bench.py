"""The copy of a model on which every experiment of a diagnosis is made, and its data."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from normtutor.layers import PowerNorm, update_statistics

FAR = 0.15  # outputs that move by less than this share of their spread are taken as equal
Forward = Callable[[nn.Module, Tensor], Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]
State = dict[str, dict[str, Tensor]]  # the running statistics of each norm, by its name


class Batch(NamedTuple):
    x: Tensor
    target: Tensor | None


def take(loader: Iterable[Any], most: int, name: str) -> tuple[list[Batch], bool]:
    """The first batches of a loader, and whether it has more."""
    batches: list[Batch] = []
    for number, batch in enumerate(loader):
        if number == most:
            return batches, True
        parts = list(batch) if isinstance(batch, list | tuple) else [batch]
        if not isinstance(parts[0], Tensor):
            raise TypeError(
                f"{name} must give tensors x, or tuples (x, target, ...); got "
                f"{type(parts[0]).__name__}. Wrap the loader so that x comes first, and pass "
                "forward= if your model takes more than x."
            )
        target = parts[1] if len(parts) > 1 and isinstance(parts[1], Tensor) else None
        batches.append(Batch(parts[0], target))
    if not batches:
        raise ValueError(f"{name} must give at least one batch; it gave none.")
    return batches, False


def left_over(loader: Any) -> int | None:
    """How many examples the last batch of a DataLoader has beyond full ones; None if unknown."""
    size, examples = getattr(loader, "batch_size", None), getattr(loader, "sampler", None)
    if not size or not isinstance(examples, Sized):
        return None
    return 0 if loader.drop_last else len(examples) % size


def pooled_batches(batches: Sequence[Tensor], size: int) -> list[Tensor]:
    """The same examples, shuffled into batches of one size; as they are where shapes differ."""
    if len({x.shape[1:] for x in batches}) > 1:
        return list(batches)
    x = torch.cat(list(batches))
    x = x[torch.randperm(len(x), device=x.device)]
    return [part for part in x.split(size) if len(part) == size] or [x]


def outputs_of(model: nn.Module, x: Tensor) -> Tensor:
    y = model(x)
    y = getattr(y, "logits", y)
    return y[0] if isinstance(y, list | tuple) else y


def distance(changed: Tensor, y: Tensor) -> float:
    """Root mean square of the change, over the spread of y among its examples."""
    spread = (y - y.mean(0)).square().mean().sqrt()
    moved = (changed - y).square().mean().sqrt()
    if not torch.isfinite(moved):
        return math.inf
    return float(moved / spread.clamp_min(1e-12))


class Sums(NamedTuple):
    """Of each example at a norm: how many values, their sum and that of their squares."""

    values: Tensor  # how many, (N, 1)
    first: Tensor  # (N, C)
    second: Tensor

    def moments(self) -> tuple[Tensor, Tensor]:
        values = self.values.sum()
        mean = self.first.sum(0) / values
        return mean, (self.second.sum(0) / values - mean.square()).clamp_min(0)


Seen = dict[str, list[list[Sums]]]  # by norm, call within a forward pass, and batch


class Bench:
    """A copy of the model in float32, whose norms can be run in either mode."""

    def __init__(self, model: nn.Module, train: list[Batch], forward: Forward, device: Any) -> None:
        first = next(model.parameters(), None)
        self.device = device or (first.device if first is not None else "cpu")
        self.model = copy.deepcopy(model).float().to(self.device).eval().requires_grad_(False)
        self.forward = forward
        self.all_norms = {
            name: module
            for name, module in self.model.named_modules()
            if isinstance(module, _BatchNorm | PowerNorm)
        }
        self.norms = {n: m for n, m in self.all_norms.items() if buffers_of(m)}
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
        sums: Seen = {}
        calls: dict[str, int] = {}
        examples = 0

        def hook(name: str) -> Callable[..., None]:
            def record(module: nn.Module, args: Any, kwargs: Any) -> None:
                call = calls[name] = calls.get(name, -1) + 1
                per_call = sums.setdefault(name, [])
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
        return sums


class _Called(nn.Module):
    """The model behind its forward function, for what calls a module with x."""

    def __init__(self, model: nn.Module, forward: Forward) -> None:
        super().__init__()
        self.model, self.function = model, forward

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.model, x)


def buffers_of(norm: nn.Module) -> list[str]:
    """The names of a norm's running statistics that are there."""
    names = ("running_mean", "running_var", "running_mean_square")
    return [name for name in names if getattr(norm, name, None) is not None]


def _sums(norm: nn.Module, x: Tensor, mask: Tensor | None, examples: int) -> Sums:
    axis = getattr(norm, "feature_axis", 1)
    x = x.detach().double().movedim(axis, -1)
    weight = torch.ones_like(x[..., :1]) if mask is None else mask.to(x)[..., None]
    rows = examples if examples and x.shape[0] % examples == 0 else 1
    x, weight = x.reshape(rows, -1, x.shape[-1]), weight.reshape(rows, -1, 1)
    return Sums(weight.sum(1), (weight * x).sum(1), (weight * x * x).sum(1))
