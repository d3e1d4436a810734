"""Dynamic tanh (DyT): it has no statistic, so it is not a norm, but it is used in place of one.

y = weight * tanh(alpha * x) + bias
"""

from typing import Any, NamedTuple

from normtutor.moments import widen
from normtutor.norms.normalize import affine, affine_backward
from normtutor.tracing import array_namespace, passes_jit
from normtutor.validation import check_cache, check_floating, check_grad_y, check_parameters

Array = Any


@passes_jit
class DynamicTanhCache(NamedTuple):
    """What :func:`dynamic_tanh_backward` needs from the forward pass."""

    made_by: str
    x: Array
    tanh: Array
    alpha: Array
    weight: Array | None
    bias: Array | None


class DynamicTanhGrads(NamedTuple):
    """Gradients with respect to the arguments of :func:`dynamic_tanh`; None where one was None."""

    x: Array
    alpha: Array
    weight: Array | None
    bias: Array | None


def dynamic_tanh(
    x: Array, alpha: Array, weight: Array | None = None, bias: Array | None = None
) -> tuple[Array, DynamicTanhCache]:
    r"""Squash every entry separately: :math:`y = \gamma \tanh(\alpha x) + \beta`.

    It removes nothing, because no entry depends on another. Large entries are bounded, as after a
    norm; the scale of small ones passes through, which a norm would remove.

    **Axes of the statistics:** none.

    Parameters
    ----------
    x : array of shape (..., H)
    alpha : array of shape (1,)
        α, one learned number for the layer.
    weight, bias : array of shape (H,), optional
        γ and β.

    Returns
    -------
    y : array of x's shape and dtype
    cache : DynamicTanhCache

    Notes
    -----
    From :cite:t:`zhu2025`, where α starts at 0.5. torch has no such layer.

    Examples
    --------
    >>> import numpy as np
    >>> y, cache = dynamic_tanh(np.asarray([[0.0, 1.0, 100.0]]), np.asarray([0.5]))
    >>> y.round(3)
    array([[0.   , 0.462, 1.   ]])
    """
    check_floating(x)
    check_parameters(x, (1,), alpha=alpha)
    check_parameters(x, (x.shape[-1],), weight=weight, bias=bias)

    xp, wide = array_namespace(x), widen(x)
    tanh = xp.tanh(xp.astype(alpha, wide.dtype, copy=False) * wide)
    y = affine(tanh, weight, bias, (-1,))
    cache = DynamicTanhCache("dynamic_tanh", wide, tanh, alpha, weight, bias)
    return xp.astype(y, x.dtype, copy=False), cache


def dynamic_tanh_backward(grad_y: Array, cache: DynamicTanhCache) -> DynamicTanhGrads:
    r"""Gradients of a loss through :func:`dynamic_tanh`.

    With :math:`g = \gamma\, \partial L / \partial y` and :math:`t = \tanh(\alpha x)`,

    .. math::

        \frac{\partial L}{\partial x} = \alpha\, g\, (1 - t^2), \qquad
        \frac{\partial L}{\partial \alpha} = \sum x\, g\, (1 - t^2).
    """
    check_cache(cache, "dynamic_tanh")
    _, x, tanh, alpha, weight, bias = cache
    check_grad_y(grad_y, tanh)
    xp = array_namespace(grad_y)
    g, grad_weight, grad_bias = affine_backward(grad_y, tanh, weight, bias, (-1,))
    through = g * (1 - tanh**2)
    grad_alpha = xp.astype(xp.reshape(xp.sum(through * x), (1,)), alpha.dtype, copy=False)
    grad_x = xp.astype(alpha, through.dtype, copy=False) * through
    return DynamicTanhGrads(
        xp.astype(grad_x, grad_y.dtype, copy=False), grad_alpha, grad_weight, grad_bias
    )
