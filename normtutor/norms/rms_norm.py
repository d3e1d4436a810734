"""RMSNorm: each token is divided by its own root mean square. No mean is subtracted.

    x_hat = x / sqrt(mean(x**2) + eps)    over H
    y = weight * x_hat + bias

pRMSNorm estimates the root mean square from the first entries.
"""

from typing import Any, NamedTuple

from array_api_compat import device

from normtutor.moments import mean_square, widen
from normtutor.norms.choices import TABLE
from normtutor.norms.normalize import (
    Cache,
    Grads,
    affine,
    affine_backward,
    normalize,
    normalize_backward,
)
from normtutor.tracing import array_namespace, passes_jit
from normtutor.validation import (
    check_cache,
    check_floating,
    check_grad_y,
    check_trailing,
    partial_count,
)

Array = Any
CHOICES = TABLE["RMSNorm"]  # over H; root mean square; of the token itself


def rms_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    normalized_shape: int | tuple[int, ...] | None = None,
    eps: float | None = None,
    add_unit_offset: bool = False,
    cast_before_weight: bool = False,
) -> tuple[Array, Cache]:
    r"""Remove the scale of each token and keep its mean.

    :math:`y = \gamma x / \sqrt{\tfrac1d \sum_i x_i^2 + \varepsilon} + \beta`.

    **Axes of the statistic:** the trailing axes named by ``normalized_shape``; every other
    position has a statistic of its own.

    Parameters
    ----------
    x : array of shape (..., \*normalized_shape)
    weight, bias : array of shape normalized_shape, optional
        γ and β. torch.nn.RMSNorm and most models have no β.
    normalized_shape : int or tuple of int, optional
        The trailing shape that shares a statistic. By default the shape of ``weight`` or, without
        one, the last axis.
    eps : float, optional
        ε, inside the root. None is the machine epsilon of the dtype in which the statistic is
        accumulated: 1.19e-7 for float32, float16 and bfloat16 input, 2.2e-16 for float64.
    add_unit_offset : bool
        Multiply by 1 + γ, so that γ starts at 0 and weight decay pulls the factor towards 1. Gemma,
        all versions to 3, has it.
    cast_before_weight : bool
        Round x̂ to x's dtype before it is multiplied by γ. Llama, Mistral, Qwen 2 and 3, and T5 do;
        Gemma and OLMo 2 multiply in float32 and round once. It makes a difference only for
        half-precision input.

    Returns
    -------
    y : array of x's shape and dtype
    cache : Cache

    Notes
    -----
    From :cite:t:`zhang2019rms`. Same values as ``torch.nn.functional.rms_norm``; here
    half-precision input gives half-precision output whatever the dtype of ``weight``. Who uses
    which option was read in the transformers library, version 5.23.

    Examples
    --------
    >>> import numpy as np
    >>> y, cache = rms_norm(np.asarray([[1.0, 2.0, 2.0]]))
    >>> y.round(3)
    array([[0.577, 1.155, 1.155]])
    """
    features = check_trailing(x, normalized_shape, weight, bias)
    xp = array_namespace(x)
    if eps is None:
        eps = float(xp.finfo(widen(x).dtype).eps)

    axes = CHOICES.statistic_axes(x.ndim, *features)  # H
    x_hat, normalized = normalize(x, axes, centred=CHOICES.centred, eps=eps)
    rounded = _rounded(x_hat, x.dtype) if cast_before_weight else x_hat
    y = affine(rounded, _factor(weight, add_unit_offset), bias, axes)
    options = (add_unit_offset, cast_before_weight)
    cache = Cache("rms_norm", normalized, weight, bias, axes, *options)
    return xp.astype(y, x.dtype, copy=False), cache


def _factor(weight: Array | None, add_unit_offset: bool) -> Array | None:
    """What multiplies x̂: γ or 1 + γ."""
    return 1 + widen(weight) if add_unit_offset and weight is not None else weight


def _rounded(x_hat: Array, dtype: Any) -> Array:
    """The value of x̂ as ``dtype`` can hold it, in the dtype of the statistics."""
    xp = array_namespace(x_hat)
    return xp.astype(xp.astype(x_hat, dtype, copy=False), x_hat.dtype, copy=False)


def rms_norm_backward(grad_y: Array, cache: Cache) -> Grads:
    r"""Gradients of a loss through :func:`rms_norm`.

    With :math:`g = \gamma\, \partial L / \partial y` and the mean over the normalized axes,

    .. math::

        \frac{\partial L}{\partial x} = \frac{1}{\operatorname{RMS}(x)}
        \left( g - \hat x\, \overline{g \hat x} \right).

    It is LayerNorm's backward pass without the term :math:`\overline g`. Where γ is an offset from
    1, :math:`1 + \gamma` replaces it; a rounding is treated as the identity.
    """
    check_cache(cache, "rms_norm")
    _, normalized, weight, bias, axes, add_unit_offset, cast_before_weight = cache
    check_grad_y(grad_y, cache.x_hat)
    xp, x_hat = array_namespace(grad_y), cache.x_hat
    rounded = _rounded(x_hat, grad_y.dtype) if cast_before_weight else x_hat
    factor = _factor(weight, add_unit_offset)
    g, grad_weight, grad_bias = affine_backward(grad_y, rounded, factor, bias, axes)
    if weight is not None:
        grad_weight = xp.astype(grad_weight, weight.dtype, copy=False)
    grad_x = xp.astype(normalize_backward(g, normalized), grad_y.dtype, copy=False)
    return Grads(grad_x, grad_weight, grad_bias)


@passes_jit
class PartialRMSNormCache(NamedTuple):
    """What :func:`partial_rms_norm_backward` needs from the forward pass."""

    made_by: str
    x_hat: Array
    rms: Array
    eps: float
    k: int
    weight: Array | None
    bias: Array | None


def partial_rms_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    p: float,
    eps: float = 1e-8,
) -> tuple[Array, PartialRMSNormCache]:
    r"""Divide each token by the root mean square of its first k entries.

    :math:`y = \gamma x / (r + \varepsilon) + \beta` with
    :math:`r = \sqrt{\tfrac1k \sum_{i \le k} x_i^2}` and :math:`k = \lfloor dp \rfloor`.
    Note that ε stands outside the root.

    **Axes of the statistic:** the first k entries of the last axis.

    Parameters
    ----------
    x : array of shape (..., d)
    weight, bias : array of shape (d,), optional
    p : float in (0, 1]
        The share of entries that the estimate uses.
    eps : float

    Returns
    -------
    y : array of x's shape and dtype
    cache : PartialRMSNormCache

    Raises
    ------
    ValueError
        If p is outside (0, 1], or int(d·p) is 0.

    Notes
    -----
    From :cite:t:`zhang2019rms`, section 5; k and the place of ε follow their published torch code.
    torch.nn has no such layer. Where the first k entries are all zero the rest of the token is
    divided by ε alone.

    Examples
    --------
    >>> import numpy as np
    >>> y, cache = partial_rms_norm(np.asarray([[3.0, 4.0, 10.0, 20.0]]), p=0.5, eps=0.0)
    >>> y.round(3)
    array([[0.849, 1.131, 2.828, 5.657]])
    """
    check_floating(x)
    check_trailing(x, x.shape[-1:], weight, bias)
    k = partial_count(x.shape[-1], p)
    xp, wide = array_namespace(x), widen(x)
    square = mean_square(wide[..., :k], (-1,))
    # The root has an infinite slope at 0; taking it of 1 there keeps autograd's gradient finite.
    rms = xp.where(square > 0, xp.sqrt(xp.where(square > 0, square, 1.0)), square)
    x_hat = wide / (rms + eps)
    y = affine(x_hat, weight, bias, (-1,))
    cache = PartialRMSNormCache("partial_rms_norm", x_hat, rms, eps, k, weight, bias)
    return xp.astype(y, x.dtype, copy=False), cache


def partial_rms_norm_backward(grad_y: Array, cache: PartialRMSNormCache) -> Grads:
    r"""Gradients of a loss through :func:`partial_rms_norm`.

    With :math:`g = \gamma\, \partial L / \partial y` and :math:`r` the estimate,

    .. math::

        \frac{\partial L}{\partial x_i} = \frac{1}{r + \varepsilon}
        \left( g_i - [i \le k]\; \frac{x_i}{k\, r} \sum_j g_j \hat x_j \right).

    Only the entries used for the estimate receive its gradient. Arguments and results as in
    :func:`rms_norm_backward`.
    """
    check_cache(cache, "partial_rms_norm")
    _, x_hat, rms, eps, k, weight, bias = cache
    check_grad_y(grad_y, x_hat)
    xp = array_namespace(grad_y)
    g, grad_weight, grad_bias = affine_backward(grad_y, x_hat, weight, bias, (-1,))
    pull = xp.sum(g * x_hat, axis=-1, keepdims=True) / k
    pull = pull * ((rms + eps) / xp.where(rms > 0, rms, 1.0))  # x̂ times that is x / r, 0 at r = 0
    first = xp.arange(x_hat.shape[-1], device=device(x_hat)) < k
    grad_x = (g - xp.where(first, x_hat * pull, 0.0)) / (rms + eps)
    return Grads(xp.astype(grad_x, grad_y.dtype, copy=False), grad_weight, grad_bias)
