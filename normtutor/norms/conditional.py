r"""Conditional norms: γ and β are not parameters but come from a condition, one pair per example.

.. math::

    \text{FiLM:}\quad y &= (1 + s)\, x + t \\
    \text{AdaLN:}\quad y &= (1 + s)\, \hat x + t, \qquad
    \hat x = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}

where the scale s and the shift t are computed from the condition, for example from a class and a
time, by a small network of the model. AdaLN is LayerNorm without parameters, then FiLM.
"""

from typing import Any, NamedTuple

from normtutor.moments import widen
from normtutor.norms.choices import RELATIVES
from normtutor.norms.normalize import (
    Normalized,
    affine,
    affine_backward,
    normalize,
    normalize_backward,
)
from normtutor.tracing import array_namespace, passes_jit
from normtutor.validation import (
    check_cache,
    check_feature_axis,
    check_floating,
    check_grad_y,
    check_parameters,
)

Array = Any
CHOICES = RELATIVES["AdaLN"]  # over H; mean and variance; of the token itself


@passes_jit
class ConditionalCache(NamedTuple):
    """What the backward passes of this module need; ``x_hat`` is what the scale multiplies."""

    made_by: str
    x_hat: Array
    normalized: Normalized | None
    scale: Array
    shift: Array
    along: tuple[int, int]


class ConditionalGrads(NamedTuple):
    """Gradients with respect to x, scale and shift."""

    x: Array
    scale: Array
    shift: Array


def film(
    x: Array, scale: Array, shift: Array, *, feature_axis: int = -1
) -> tuple[Array, ConditionalCache]:
    r"""Scale and shift each feature as the example's condition says: :math:`y = (1 + s) x + t`.

    It removes nothing. It follows a norm and replaces its γ and β.

    **Axes of the statistics:** none. One s and one t per example and feature.

    Parameters
    ----------
    x : array of shape (B, L, H) or, with ``feature_axis=1``, (B, C, ...)
    scale, shift : array of shape (B, H)
        s and t. The scale is an offset from 1, so that 0 changes nothing.
    feature_axis : int

    Returns
    -------
    y : array of x's shape and dtype
    cache : ConditionalCache

    Notes
    -----
    From :cite:t:`perez2018`, who write γ for 1 + s.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[[1.0, 2.0]], [[1.0, 2.0]]])  # two examples of one token
    >>> y, cache = film(x, np.asarray([[0.0, 0.0], [1.0, 1.0]]), np.zeros((2, 2)))
    >>> y[:, 0]
    array([[1., 2.],
           [2., 4.]])
    """
    feature = _checked(x, scale, shift, feature_axis)
    y, cache = _modulated("film", widen(x), None, scale, shift, feature)
    return array_namespace(x).astype(y, x.dtype, copy=False), cache


def _checked(x: Array, scale: Array, shift: Array, feature_axis: int) -> int:
    """Check the arguments; return the axis of the features, from the front."""
    check_floating(x)
    feature = check_feature_axis(x, feature_axis)
    check_parameters(x, (x.shape[0], x.shape[feature]), scale=scale, shift=shift)
    return feature


def _modulated(
    made_by: str, x_hat: Array, normalized: Any, scale: Array, shift: Array, feature: int
) -> tuple[Array, ConditionalCache]:
    """γ x̂ + β with γ = 1 + s and β = t, which vary along the batch and the features."""
    y = affine(x_hat, 1 + widen(scale), shift, (0, feature))
    return y, ConditionalCache(made_by, x_hat, normalized, scale, shift, (0, feature))


def film_backward(grad_y: Array, cache: ConditionalCache) -> ConditionalGrads:
    r"""Gradients of a loss through :func:`film`.

    .. math::

        \frac{\partial L}{\partial x} = (1 + s) \frac{\partial L}{\partial y}, \qquad
        \frac{\partial L}{\partial s} = \sum \frac{\partial L}{\partial y} x, \qquad
        \frac{\partial L}{\partial t} = \sum \frac{\partial L}{\partial y},

    the sums over the positions of an example.
    """
    check_cache(cache, "film")
    return _backward(grad_y, cache)


def _backward(grad_y: Array, cache: ConditionalCache) -> ConditionalGrads:
    """The way back through the modulation, and through the norm where there is one."""
    _, x_hat, normalized, scale, shift, along = cache
    check_grad_y(grad_y, x_hat)
    xp = array_namespace(grad_y)
    g, grad_scale, grad_shift = affine_backward(grad_y, x_hat, 1 + widen(scale), shift, along)
    grad_x = g if normalized is None else normalize_backward(g, normalized)
    return ConditionalGrads(
        xp.astype(grad_x, grad_y.dtype, copy=False),
        xp.astype(grad_scale, scale.dtype, copy=False),
        grad_shift,
    )


def adaptive_layer_norm(
    x: Array, scale: Array, shift: Array, *, eps: float = 1e-5
) -> tuple[Array, ConditionalCache]:
    r"""Normalize each token, then scale and shift as its example's condition says (AdaLN).

    :math:`y = (1 + s)\, (x - \mu) / \sqrt{\sigma^2 + \varepsilon} + t`.

    **Axes of the statistics:** the last; s and t belong to an example.

    Parameters
    ----------
    x : array of shape (B, ..., H)
    scale, shift : array of shape (B, H)
        s and t.
    eps : float
        ε, inside the root.

    Returns
    -------
    y : array of x's shape and dtype
    cache : ConditionalCache

    Notes
    -----
    As in the diffusion Transformers of :cite:t:`peebles2023`.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[[1.0, 3.0]], [[1.0, 3.0]]])
    >>> y, cache = adaptive_layer_norm(
    ...     x, np.asarray([[0.0, 0.0], [1.0, 1.0]]), np.zeros((2, 2)), eps=0.0
    ... )
    >>> y[:, 0]
    array([[-1.,  1.],
           [-2.,  2.]])
    """
    feature = _checked(x, scale, shift, -1)
    axes = CHOICES.statistic_axes(x.ndim, feature)  # H
    x_hat, normalized = normalize(x, axes, centred=CHOICES.centred, eps=eps)
    y, cache = _modulated("adaptive_layer_norm", x_hat, normalized, scale, shift, feature)
    return array_namespace(x).astype(y, x.dtype, copy=False), cache


def adaptive_layer_norm_backward(grad_y: Array, cache: ConditionalCache) -> ConditionalGrads:
    """Gradients of a loss through :func:`adaptive_layer_norm`.

    Those of :func:`film`, and then :func:`~normtutor.norms.normalize_backward` for x.
    """
    check_cache(cache, "adaptive_layer_norm")
    return _backward(grad_y, cache)
