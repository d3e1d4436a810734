"""What the tests of the layers share: the layers, a complete measurement, and a comparison."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from normtutor import layers

# Relative and absolute. Both sides round, and their sums run in another order.
TOLERANCE = {torch.float64: (1e-9, 1e-10), torch.float32: (2e-4, 2e-5)}
SECOND_ORDER = {torch.float64: (1e-8, 1e-9), torch.float32: (2e-3, 2e-3)}

# Each takes x of shape (3, 5, 4).
LAYERS: dict[str, Callable[..., nn.Module]] = {
    "BatchNorm": partial(layers.BatchNorm, 5),
    "InstanceNorm": partial(layers.InstanceNorm, 5, affine=True),
    "GroupNorm": partial(layers.GroupNorm, 1, 5),
    "LayerNorm": partial(layers.LayerNorm, 4),
    "LayerNorm over channels": partial(layers.LayerNorm, 5, feature_axis=1),
    "RMSNorm": partial(layers.RMSNorm, 4),
    "RMSNorm, as in Gemma": partial(layers.RMSNorm, 4, add_unit_offset=True),
    "PartialRMSNorm": partial(layers.PartialRMSNorm, 4, 0.5),
    "ScaleNorm": partial(layers.ScaleNorm, 4),
    "DynamicTanh": partial(layers.DynamicTanh, 4),
    "PowerNorm": partial(layers.PowerNorm, 4, warmup_steps=2),
    "PowerNorm-V": partial(layers.PowerNorm, 4, variant="pn-v"),
    "PowerNorm, authors' code": partial(
        layers.PowerNorm, 4, variant="authors-code", groups=2, warmup_steps=2
    ),
}
APPROXIMATE = ["PowerNorm", "PowerNorm, authors' code"]  # gradients that are no derivatives
# The same, but they need a condition: two numbers for each example.
CONDITIONAL: dict[str, Callable[..., nn.Module]] = {
    "FiLM": partial(layers.FiLM, 4, 2),
    "AdaLN": partial(layers.AdaptiveLayerNorm, 4, 2),
    "AdaLN-Zero": lambda **options: layers.AdaptiveLayerNormZero(nn.Tanh(), 4, 2, **options),
}


class Conditioned(nn.Module):
    """A conditional layer whose condition is taken from x, so that x is all that it needs."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def reset_parameters(self) -> None:
        self.layer.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, x[:, 0, :2])


def conditioned(make: Callable[..., nn.Module], **options: Any) -> nn.Module:
    return Conditioned(make(**options))


# Every layer, called with x alone.
ALL = LAYERS | {name: partial(conditioned, make) for name, make in CONDITIONAL.items()}


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
    gradient = partial(torch.autograd.grad, (y * cotangent).sum(), list(leaves.values()))
    first = gradient(retain_graph=second)
    found = {"y": y} | {f"grad of {n}": g for n, g in zip(leaves, first, strict=True)}
    if second:
        first = gradient(create_graph=True)  # which may take another way
        found |= {f"recorded grad of {n}": g for n, g in zip(leaves, first, strict=True)}
        total = sum(
            (g * randn(*g.shape, seed=2 + i, dtype=g.dtype)).sum() for i, g in enumerate(first)
        )
        leaves["the cotangent"] = cotangent
        again = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        for (name, leaf), g in zip(leaves.items(), again, strict=True):
            found[f"second grad of {name}"] = torch.zeros_like(leaf) if g is None else g
    found |= buffers(layer)
    return {name: value.detach() for name, value in found.items()}


def buffers(layer: nn.Module) -> dict[str, Tensor]:
    """The running statistics as they are now, by name."""
    return {f"buffer {name}": buffer.clone() for name, buffer in layer.named_buffers()}


def assert_same(ours: dict[str, Tensor], theirs: dict[str, Tensor], factor: float = 1.0) -> None:
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
            equal_nan=factor == 0,
            msg=lambda text, name=name: f"{name}: {text}",
        )


assert_equal = partial(assert_same, factor=0.0)  # in every bit
