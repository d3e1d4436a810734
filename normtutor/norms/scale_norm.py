r"""ScaleNorm: every token gets the same learned length. No mean is subtracted.

.. math::

    \hat x = \frac{x}{\sqrt{\sum_i x_i^2 + \varepsilon}}, \qquad y = g \hat x

It is RMSNorm with one number :math:`g = \gamma \sqrt d` in place of one γ per feature.
"""

from typing import Any, NamedTuple

from normtutor.moments import mean_square, widen
from normtutor.tracing import array_namespace, passes_jit
from normtutor.validation import (
    check_cache,
    check_floating,
    check_grad_y,
    check_normalized_shape,
    check_parameter,
)

Array = Any


@passes_jit
class ScaleNormCache(NamedTuple):
    """What :func:`scale_norm_backward` needs from the forward pass."""

    x_hat: Array
    inverse_norm: Array
    g: Array


class ScaleNormGrads(NamedTuple):
    """Gradients with respect to the arguments of :func:`scale_norm`."""

    x: Array
    g: Array


def scale_norm(x: Array, g: Array, *, eps: float = 1e-5) -> tuple[Array, ScaleNormCache]:
    r"""Remove the length of each token and give all tokens the same one.

    :math:`y = g\, x / \sqrt{\sum_i x_i^2 + \varepsilon}`.

    **Axes of the statistic:** the last; every other position has a statistic of its own.

    Parameters
    ----------
    x : array of shape (..., d)
    g : array of shape (1,)
        The length of y, one learned number for the layer. Its authors start it at √d.
    eps : float
        ε, inside the root.

    Returns
    -------
    y : array of x's shape and dtype
    cache : ScaleNormCache

    Raises
    ------
    ValueError
        If g has another shape.
    TypeError
        If x or g does not hold real floating-point numbers.

    Notes
    -----
    From :cite:t:`nguyen2019`, who bound the length from below by ε where here ε is added to its
    square. torch.nn has no such layer.

    Examples
    --------
    >>> import numpy as np
    >>> y, cache = scale_norm(np.asarray([[3.0, 4.0]]), np.asarray([10.0]), eps=0.0)
    >>> y
    array([[6., 8.]])
    """
    check_floating(x)
    check_normalized_shape(x, None, None)
    check_parameter(g, "g", (1,), x)
    xp = array_namespace(x, g)
    wide = widen(x)
    inverse_norm = 1 / xp.sqrt(mean_square(wide, (-1,)) * x.shape[-1] + eps)
    x_hat = wide * inverse_norm
    y = xp.astype(g, wide.dtype, copy=False) * x_hat
    return xp.astype(y, x.dtype, copy=False), ScaleNormCache(x_hat, inverse_norm, g)


def scale_norm_backward(grad_y: Array, cache: ScaleNormCache) -> ScaleNormGrads:
    r"""Gradients of a loss through :func:`scale_norm`.

    .. math::

        \frac{\partial L}{\partial x} = \frac{g}{\lVert x \rVert} \left(
        \tfrac{\partial L}{\partial y} - \hat x \sum_i \tfrac{\partial L}{\partial y_i} \hat x_i
        \right), \qquad
        \frac{\partial L}{\partial g} = \sum \tfrac{\partial L}{\partial y} \hat x .

    Parameters
    ----------
    grad_y : array of y's shape
    cache : ScaleNormCache

    Returns
    -------
    ScaleNormGrads
        ``x`` of grad_y's dtype, ``g`` of shape (1,).
    """
    check_cache(cache, ScaleNormCache, "scale_norm")
    x_hat, inverse_norm, g = cache
    check_grad_y(grad_y, x_hat)
    xp = array_namespace(grad_y, x_hat)
    wide = widen(grad_y)
    radial = xp.sum(wide * x_hat, axis=-1, keepdims=True)
    grad_x = xp.astype(g, wide.dtype, copy=False) * inverse_norm * (wide - x_hat * radial)
    grad_g = xp.astype(xp.reshape(xp.sum(radial), (1,)), g.dtype, copy=False)
    return ScaleNormGrads(xp.astype(grad_x, grad_y.dtype, copy=False), grad_g)
