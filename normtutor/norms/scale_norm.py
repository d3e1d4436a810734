"""ScaleNorm: every token gets the same learned length. No mean is subtracted.

    y = g * x / sqrt(sum(x**2) + eps)    over H

It is RMSNorm with one number g = γ √d in place of one γ per feature.
"""

from typing import Any, NamedTuple

from normtutor.norms.choices import RELATIVES
from normtutor.norms.normalize import Cache, affine, backward, normalize
from normtutor.tracing import array_namespace
from normtutor.validation import (
    check_cache,
    check_floating,
    check_grad_y,
    check_normalized_shape,
    check_parameters,
)

Array = Any
CHOICES = RELATIVES["ScaleNorm"]  # over H; Euclidean norm; of the token itself


class ScaleNormGrads(NamedTuple):
    """Gradients with respect to the arguments of :func:`scale_norm`."""

    x: Array
    g: Array


def scale_norm(x: Array, g: Array, *, eps: float = 1e-5) -> tuple[Array, Cache]:
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
    cache : Cache

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
    check_normalized_shape(x, None)
    check_parameters(x, (1,), g=g)

    axes = CHOICES.statistic_axes(x.ndim, -1)  # H
    x_hat, normalized = normalize(x, axes, centred=CHOICES.centred, sums=CHOICES.sums, eps=eps)
    y = affine(x_hat, g, None, ())
    cache = Cache("scale_norm", normalized, g, None, ())
    return array_namespace(x).astype(y, x.dtype, copy=False), cache


def scale_norm_backward(grad_y: Array, cache: Cache) -> ScaleNormGrads:
    r"""Gradients of a loss through :func:`scale_norm`.

    That of x as in :func:`~normtutor.norms.rms_norm_backward`, with a sum over the features for the
    mean; that of g is :math:`\sum \frac{\partial L}{\partial y} \hat x` over all entries.
    """
    check_cache(cache, "scale_norm")
    check_grad_y(grad_y, cache.x_hat)
    return ScaleNormGrads(*backward(grad_y, cache)[:2])
