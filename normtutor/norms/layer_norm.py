"""LayerNorm: each token is centred and scaled by its own mean and variance.

x_hat = (x - mean) / sqrt(variance + eps)    over H
y = weight * x_hat + bias
"""

from typing import Any

from normtutor.norms.choices import TABLE
from normtutor.norms.normalize import Cache, Grads, affine, backward, normalize
from normtutor.tracing import array_namespace
from normtutor.validation import check_cache, check_grad_y, check_trailing

Array = Any
CHOICES = TABLE["LayerNorm"]  # over H; mean and variance; of the token itself


def layer_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    normalized_shape: int | tuple[int, ...] | None = None,
    eps: float = 1e-5,
) -> tuple[Array, Cache]:
    r"""Remove the mean and the scale of each token.

    With :math:`d` the number of entries in the normalized axes,
    :math:`y = \gamma (x - \mu) / \sqrt{\sigma^2 + \varepsilon} + \beta`, where
    :math:`\mu` and the biased variance :math:`\sigma^2` are those of the token itself.

    **Axes of the statistics:** the trailing axes named by ``normalized_shape``; every other
    position has its own statistics.

    Parameters
    ----------
    x : array of shape (..., \*normalized_shape)
    weight, bias : array of shape normalized_shape, optional
        γ and β. Without them the output is x̂.
    normalized_shape : int or tuple of int, optional
        The trailing shape that shares a statistic. By default the shape of ``weight`` or, without
        one, the last axis.
    eps : float
        ε, inside the root. As in torch its sign is not checked.

    Returns
    -------
    y : array of x's shape and dtype
    cache : Cache

    Notes
    -----
    From :cite:t:`ba2016`. Same values as ``torch.nn.functional.layer_norm``; here half-precision
    input may come with parameters of any floating dtype.

    Examples
    --------
    >>> import numpy as np
    >>> y, cache = layer_norm(np.asarray([[1.0, 2.0, 6.0]]), eps=0.0)
    >>> y.round(3)
    array([[-0.926, -0.463,  1.389]])
    """
    features = check_trailing(x, normalized_shape, weight, bias)
    axes = CHOICES.statistic_axes(x.ndim, *features)  # H
    x_hat, normalized = normalize(x, axes, centred=CHOICES.centred, eps=eps)
    y = affine(x_hat, weight, bias, axes)
    cache = Cache("layer_norm", normalized, weight, bias, axes)
    return array_namespace(x).astype(y, x.dtype, copy=False), cache


def layer_norm_backward(grad_y: Array, cache: Cache) -> Grads:
    r"""Gradients of a loss through :func:`layer_norm`.

    With :math:`g = \gamma\, \partial L / \partial y` and means over the normalized axes,

    .. math::

        \frac{\partial L}{\partial x} = \frac{1}{\sqrt{\sigma^2 + \varepsilon}}
        \left( g - \overline{g} - \hat x\, \overline{g \hat x} \right).

    Subtracting :math:`\overline g` is the backward pass of the mean; subtracting
    :math:`\hat x\, \overline{g \hat x}` is that of the standard deviation.
    """
    check_cache(cache, "layer_norm")
    check_grad_y(grad_y, cache.x_hat)
    return backward(grad_y, cache)
