"""What a norm computes, told from what a copy of it does to random numbers."""

import copy
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from normtutor.anatomy.running import Call, _tensors


def _copy_with(module: nn.Module, gamma: float, dtype: torch.dtype) -> nn.Module:
    """Copy a norm onto the CPU, with this number in its parameters and 0 in its biases."""
    twin = copy.copy(module)
    for kind in ("_parameters", "_buffers"):
        tensors = {
            n: t if t is None else torch.full(t.shape, 0.0 if "bias" in n else gamma, dtype=dtype)
            for n, t in getattr(module, kind).items()
        }
        setattr(twin, kind, tensors)
    for name in [n for n in vars(twin) if "hooks" in n]:
        setattr(twin, name, type(getattr(module, name))())
    return twin.eval()


class Computed(NamedTuple):
    """What a norm does: fields of `Norm`, and the cells and the axes that share a statistic."""

    known: dict[str, Any]
    cells: int = 0
    axes: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()


def _computed(call: Call) -> Computed:
    """Tell what a norm does from what a copy of it does to random numbers."""
    module = call.module
    parameters = dict(module.named_parameters(recurse=False))
    gains = [p for n, p in parameters.items() if "bias" not in n]
    given = [*_tensors((call.args, call.kwargs))]
    shape = tuple(given[0].shape)
    known: dict[str, Any] = {
        "kind": "other",
        "gamma": "γ" if gains else "",
        "bias": any("bias" in n for n in parameters),
        "gate": len(given) > 1,
        "dimensions": max((p.ndim for p in gains), default=0),
    }
    if isinstance(module, nn.modules.batchnorm._NormBase):
        kind = re.sub(r"\d?d$", "", type(module).__name__)
        return Computed({**known, "kind": kind, "eps": module.eps, "over": "tokens"})
    if isinstance(module, nn.GroupNorm):
        over = "tokens" if len(shape) > 2 else "group"
        return Computed({**known, "kind": "GroupNorm", "eps": module.eps, "over": over})
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) + 0.5

    def run(x: Tensor, gamma: float) -> Tensor:
        first = True

        def real(value: Any) -> Any:
            nonlocal first
            if not isinstance(value, Tensor):
                return value
            # SiLU of this number is 1, whether it gates before the statistic or behind it.
            made = x if first else torch.full(value.shape, 1.2784645, dtype=x.dtype)
            first = False
            return made

        args = [real(value) for value in call.args]
        kwargs = {name: real(value) for name, value in call.kwargs.items()}
        with torch.no_grad():
            y = _copy_with(module, gamma, x.dtype)(*args, **kwargs)
        # Some give back what x is to be multiplied by.
        return x * y if y.shape[-1] == 1 else y.reshape(shape)

    try:
        offset = bool(gains) and bool(run(x, 0.0).abs().max() > 1e-3)
        one = 0.0 if offset else 1.0
        y = run(x, one)
        if gains:
            first = bool((run(x, one + 2) / y).median() < 2)
            known["gamma"] = ("1+γ" if offset else "γ") + (" first" if first else "")
        middle = tuple(size // 2 for size in shape)
        bump = torch.zeros(shape)
        bump[middle] = 1e4  # up and down: LayerNorm may leave a cell where it was in one of them
        moved = sum((run(x + b, one) - y).abs() for b in (bump, -bump))
        shared = moved > 0.3 * y.abs() + 1e-7
        centred = torch.allclose(run(x + 3, one), y, rtol=1e-2, atol=1e-2)
        mean = float(x[shared].mean()) if centred else 0.0
        variance = float((x[shared] - mean).double().square().mean())
        factor = float(y[middle]) * variance**0.5 / (float(x[middle]) - mean)
        if known["gate"] or abs(factor - 1) < 1e-2:
            known["kind"] = "LayerNorm" if centred else "RMSNorm"
        elif abs(factor * float(shared.sum()) ** 0.5 - 1) < 1e-2:
            known["kind"], variance = "L2 norm", variance * float(shared.sum())
        if known["kind"] != "other":
            eps = _eps(lambda s: float(run(s * x, one)[middle] / y[middle]), variance)
            stated = (v for v in vars(module).values() if isinstance(v, float))
            known["eps"] = next((v for v in stated if eps and abs(v / eps - 1) < 1e-2), eps)
        large = run((200 * x).half(), one).float()
        known["half"] = not torch.allclose(large, y, rtol=5e-2, atol=5e-2)
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError):
        return Computed({**known, "kind": "other", "gate": False})
    axes = (i for i in range(len(shape)) if shared.movedim(i, 0).flatten(1).any(1).sum() > 1)
    return Computed(known, int(shared.sum()), tuple(axes), shape)


def _eps(ratio: Callable[[float], float], variance: float) -> float | None:
    """Find ε from how much smaller inputs come out, y = x / √(variance + ε), at two scales."""

    def solve(scale: float) -> float:
        r = ratio(scale) ** 2
        return scale**2 * variance * (1 - r) / (r - scale**2) if r > scale**2 else float("nan")

    eps = solve(1e-7)
    if not eps > 1e-17:
        return 0.0 if abs(eps) < 1e-17 else None
    again = solve(min(0.1, (eps / variance) ** 0.5))
    return float(f"{eps:.3g}") if abs(again / eps - 1) < 2e-2 else None


def _over(computed: Computed, place: str, width: int, length: int, expert: bool) -> str:
    """Say what shares a statistic; several experts' results for one token are no heads."""
    if not computed.cells:
        return computed.known.get("over", "?")
    last = len(computed.shape) - 1
    if place in ("q", "k"):
        return "head" if computed.cells <= width else "heads"
    if any(i != last and computed.shape[i] == length for i in computed.axes):
        return "tokens"
    if computed.cells < computed.shape[-1]:
        return "group"
    several = torch.Size(computed.shape).numel() > length * computed.cells
    heads = several and not expert
    return "head" if heads and place in ("inner", "v", "latent") else "token"
