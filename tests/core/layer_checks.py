"""What the tests of the layers share: measure a layer completely, and compare two of them."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

# Relative and absolute. Both sides round, and their sums run in another order.
TOLERANCE = {torch.float64: (1e-9, 1e-10), torch.float32: (2e-4, 2e-5)}
SECOND_ORDER = {torch.float64: (1e-8, 1e-9), torch.float32: (2e-3, 2e-3)}


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal numbers that depend on the seed alone."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def random_mask(*shape: int, seed: int = 0, share: float = 0.6) -> Tensor:
    """A mask with about ``share`` real tokens, of which two at least stand in each row."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < share
    mask[..., :2] = True
    return mask


def randomize(layer: nn.Module, seed: int = 0) -> None:
    """Give every parameter a value of its own, so that none can be left out unnoticed."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            noise = torch.rand(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(0.5 + noise)


def results(
    layer: nn.Module,
    x: Tensor,
    *inputs: Any,
    second: bool = True,
    cotangent: Tensor | None = None,
) -> dict[str, Tensor]:
    """Output, gradients, second-order gradients and buffers after one call, by name."""
    x = x.detach().requires_grad_()
    y = layer(x, *inputs)
    if cotangent is None:
        cotangent = randn(*y.shape, seed=1, dtype=y.dtype)
    cotangent = cotangent.detach().requires_grad_()
    leaves = {"x": x, **dict(layer.named_parameters())}
    first = torch.autograd.grad((y * cotangent).sum(), list(leaves.values()), create_graph=second)
    found = {"y": y} | {f"grad of {n}": g for n, g in zip(leaves, first, strict=True)}
    if second:
        total = sum(
            (g * randn(*g.shape, seed=2 + i, dtype=g.dtype)).sum() for i, g in enumerate(first)
        )
        leaves["the cotangent"] = cotangent
        again = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        for (name, leaf), g in zip(leaves.items(), again, strict=True):
            found[f"second grad of {name}"] = torch.zeros_like(leaf) if g is None else g
    found |= {f"buffer {name}": b.clone() for name, b in layer.named_buffers()}
    return {name: value.detach() for name, value in found.items()}


def assert_same(
    ours: dict[str, Tensor], theirs: dict[str, Tensor], factor: float = 1.0, **options: Any
) -> None:
    """Raise AssertionError unless all named tensors agree within the stated tolerance."""
    assert list(ours) == list(theirs)
    for name, expected in theirs.items():
        table = SECOND_ORDER if name.startswith("second") else TOLERANCE
        rtol, atol = table.get(expected.dtype, (0.0, 0.0))
        torch.testing.assert_close(
            ours[name],
            expected,
            rtol=factor * rtol,
            atol=factor * atol,
            msg=lambda text, name=name: f"{name}: {text}",
            **options,
        )


def assert_equal(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    """Raise AssertionError unless all named tensors agree in every bit."""
    assert list(ours) == list(theirs)
    for name, expected in theirs.items():
        torch.testing.assert_close(
            ours[name],
            expected,
            rtol=0,
            atol=0,
            equal_nan=True,
            msg=lambda text, name=name: f"{name}: {text}",
        )


def strip_class_names(text: str, names: Iterable[str]) -> str:
    """A repr without the names of the classes."""
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name + "(", "(")
    return text


# Ways to lay the same numbers out in memory.
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x.contiguous(),
    "last axes swapped": lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
    "features last": lambda x: x.movedim(1, -1).contiguous().movedim(-1, 1),
    "every second of a larger array": lambda x: torch.stack([x, -x], dim=-1)[..., 0],
    "within a larger array": lambda x: nn.functional.pad(x, (3, 2), value=7.0)[..., 3:-2],
}
