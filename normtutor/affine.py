r"""The affine step that follows every norm, :math:`y = \gamma \hat x + \beta`, and its backward.

It is the one part that is identical in all norms. What differs is where γ and β lie: one
value per feature, or one per entry of the trailing axes.
"""

from typing import Any

from normtutor.tracing import array_namespace

Array = Any


def along(parameter: Array, x: Array, axes: tuple[int, ...]) -> Array:
    """Reshape ``parameter`` so that its axes lie along ``axes`` of x and broadcast elsewhere."""
    xp = array_namespace(x)
    axes = tuple(a % x.ndim for a in axes)
    shape = tuple(x.shape[a] if a in axes else 1 for a in range(x.ndim))
    return xp.reshape(xp.astype(parameter, x.dtype, copy=False), shape)


def affine(x_hat: Array, weight: Array | None, bias: Array | None, axes: tuple[int, ...]) -> Array:
    r"""Return :math:`\gamma \hat x + \beta`; a missing weight counts as 1, a missing bias as 0.

    Parameters
    ----------
    x_hat : array
    weight, bias : array or None
        Of the shape that x_hat has along ``axes``.
    axes : tuple of int
        The axes of x_hat along which weight and bias vary.
    """
    y = x_hat
    if weight is not None:
        y = y * along(weight, x_hat, axes)
    if bias is not None:
        y = y + along(bias, x_hat, axes)
    return y


def affine_backward(
    grad_y: Array, x_hat: Array, weight: Array | None, bias: Array | None, axes: tuple[int, ...]
) -> tuple[Array, Array | None, Array | None]:
    """Gradients with respect to x_hat, weight and bias; None for a parameter that is missing."""
    xp = array_namespace(x_hat)
    kept = tuple(a % x_hat.ndim for a in axes)
    summed = tuple(a for a in range(x_hat.ndim) if a not in kept)
    grad_x_hat, grad_weight, grad_bias = grad_y, None, None
    if weight is not None:
        grad_x_hat = grad_y * along(weight, x_hat, axes)
        grad_weight = xp.astype(xp.sum(grad_y * x_hat, axis=summed), weight.dtype, copy=False)
    if bias is not None:
        grad_bias = xp.astype(xp.sum(grad_y, axis=summed), bias.dtype, copy=False)
    return grad_x_hat, grad_weight, grad_bias
