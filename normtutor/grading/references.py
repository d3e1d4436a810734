"""What answers are compared with: the package's formulas, and autograd through them.

Gradients are those that torch finds by itself, so that no derivation stands here. A known mistake
is a forward pass with a part held constant or left out.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from normtutor import norms
from normtutor.grading.judging import compare

Array = np.ndarray
# No difference of losses is as exact as a formula in float64, whatever its step.
EXACT = 1e-11
# About an answer that fails next to one large number.
ROUGH = (
    "it is right on ordinary numbers and not next to one large one: a difference of two nearly "
    "equal losses has lost its digits. Derive the gradient and write the formula"
)


def gradients(
    function: Callable[..., Any], arguments: Sequence[Array], grad_outputs: Sequence[Array]
) -> tuple[Array, ...]:
    """Gradients of a function's outputs, weighted by ``grad_outputs``, for each argument.

    Computed in float64 by torch, whatever torch's default is.
    """
    import torch

    leaves = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arguments]
    outputs = function(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    given = [torch.tensor(g, dtype=torch.float64) for g in grad_outputs]
    found = torch.autograd.grad(outputs, leaves, given, allow_unused=True)
    return tuple(
        np.zeros(leaf.shape) if grad is None else grad.numpy()
        for leaf, grad in zip(leaves, found, strict=True)
    )


def layer_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """LayerNorm over the last axis."""
    return norms.layer_norm(x, weight, bias, eps=eps)[0]


def rms_norm(x: Any, weight: Any = None, eps: float = 1e-6) -> Any:
    """RMSNorm over the last axis."""
    return norms.rms_norm(x, weight, eps=eps)[0]


def compare_norm(
    answer: Any, x: Array, rng: np.random.Generator, right: Any, slips: Any, eps: float, **how: Any
) -> None:
    """Compare an answer to a norm of x with γ and β with the right one, which has 64 bits."""
    wide, weight, bias = x.astype(np.float64), weights(rng, x.shape[-1]), normal(rng, x.shape[-1])
    known = slips.known("y", x=wide, weight=weight, bias=bias, eps=eps)
    value = answer(*(a.astype(x.dtype) for a in (x, weight, bias)), eps)
    compare(value, (right(wide, weight, bias, eps),), ("y",), slips=known, **how)


def normal(rng: np.random.Generator, *shape: int, mean: float = 0.7, scale: float = 1.8) -> Array:
    """Normal numbers whose mean is not zero and whose scale is not one."""
    return rng.normal(mean, scale, shape)


def outlying(rng: np.random.Generator, *shape: int) -> Array:
    """Numbers of which the first of each feature is a million times larger."""
    x = normal(rng, *shape)
    x[0] *= 1e6
    return x


def faint(x: Array, axis: int = 0) -> Array:
    """An array whose first slice is so small that an ε of some percent is the larger summand."""
    slices = np.moveaxis(x.copy(), axis, 0)
    slices[0] *= 0.05
    return np.moveaxis(slices, 0, axis)


def weights(rng: np.random.Generator, *shape: int) -> Array:
    """Numbers from 0.4 to 1.9, for a γ that is neither 1 nor 0."""
    return rng.uniform(0.4, 1.9, shape)


def sizes(rng: np.random.Generator, *ranges: tuple[int, int]) -> tuple[int, ...]:
    """Lengths of axes, each from its range, all different so that no axis is taken for another."""
    while True:
        found = tuple(int(rng.integers(low, high + 1)) for low, high in ranges)
        if len(set(found)) == len(found):
            return found
