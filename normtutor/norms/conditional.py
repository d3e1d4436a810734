r"""Conditional norms: γ and β are not parameters but come from a condition, one pair per example.

.. math::

    \text{FiLM:}\quad y &= (1 + s)\, x + t \\
    \text{AdaLN:}\quad y &= (1 + s)\, \hat x + t, \qquad
    \hat x = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} \\
    \text{AdaLN-Zero:}\quad y &= x + g\, f\bigl((1 + s)\, \hat x + t\bigr)

where the scale s, the shift t and the gate g are computed from the condition, for example from a
class and a time, by a small network of the model. AdaLN is LayerNorm without parameters, then FiLM.
In AdaLN-Zero that network starts at 0, so that every block starts as the identity.
"""

from typing import Any, NamedTuple

from normtutor.moments import widen
from normtutor.norms.layer_norm import layer_norm, layer_norm_backward
from normtutor.norms.normalize import Cache
from normtutor.tracing import array_namespace, passes_jit
from normtutor.validation import (
    check_cache,
    check_feature_axis,
    check_floating,
    check_grad_y,
    check_parameters,
)

Array = Any


@passes_jit
class FiLMCache(NamedTuple):
    """What :func:`film_backward` needs from the forward pass."""

    made_by: str
    x: Array
    scale: Array
    shift: Array
    feature_axis: int


class FiLMGrads(NamedTuple):
    """Gradients with respect to x, scale and shift."""

    x: Array
    scale: Array
    shift: Array


@passes_jit
class AdaptiveLayerNormCache(NamedTuple):
    """What :func:`adaptive_layer_norm_backward` needs from the forward pass."""

    made_by: str
    norm: Cache
    modulation: FiLMCache


@passes_jit
class GatedResidualCache(NamedTuple):
    """What :func:`gated_residual_backward` needs from the forward pass."""

    made_by: str
    branch: Array
    gate: Array


class GatedResidualGrads(NamedTuple):
    """Gradients with respect to x, branch and gate."""

    x: Array
    branch: Array
    gate: Array


def _per_example(condition: Array, x: Array, feature_axis: int) -> Array:
    """Reshape (B, H) so that it broadcasts against x: (B, 1, H) for x of shape (B, L, H)."""
    xp = array_namespace(x)
    shape = tuple(n if a in (0, feature_axis) else 1 for a, n in enumerate(x.shape))
    return xp.reshape(xp.astype(condition, x.dtype, copy=False), shape)


def _sum_positions(x: Array, feature_axis: int, like: Array) -> Array:
    """Sum over everything but the batch and the features: the shape and dtype of ``like``."""
    xp = array_namespace(x)
    axes = tuple(a for a in range(x.ndim) if a not in (0, feature_axis))
    return xp.astype(xp.sum(x, axis=axes) if axes else x, like.dtype, copy=False)


def film(
    x: Array, scale: Array, shift: Array, *, feature_axis: int = -1
) -> tuple[Array, FiLMCache]:
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
    cache : FiLMCache

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
    check_floating(x)
    axis = check_feature_axis(x, feature_axis)
    check_parameters(x, (x.shape[0], x.shape[axis]), scale=scale, shift=shift)

    xp, wide = array_namespace(x), widen(x)
    y = (1 + _per_example(scale, wide, axis)) * wide + _per_example(shift, wide, axis)
    return xp.astype(y, x.dtype, copy=False), FiLMCache("film", wide, scale, shift, axis)


def film_backward(grad_y: Array, cache: FiLMCache) -> FiLMGrads:
    r"""Gradients of a loss through :func:`film`.

    .. math::

        \frac{\partial L}{\partial x} = (1 + s) \frac{\partial L}{\partial y}, \qquad
        \frac{\partial L}{\partial s} = \sum \frac{\partial L}{\partial y} x, \qquad
        \frac{\partial L}{\partial t} = \sum \frac{\partial L}{\partial y},

    the sums over the positions of an example.
    """
    check_cache(cache, "film")
    _, x, scale, shift, axis = cache
    check_grad_y(grad_y, x)
    xp = array_namespace(grad_y)
    wide = widen(grad_y)
    return FiLMGrads(
        xp.astype((1 + _per_example(scale, wide, axis)) * wide, grad_y.dtype, copy=False),
        _sum_positions(wide * x, axis, scale),
        _sum_positions(wide, axis, shift),
    )


def adaptive_layer_norm(
    x: Array, scale: Array, shift: Array, *, eps: float = 1e-5
) -> tuple[Array, AdaptiveLayerNormCache]:
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
    cache : AdaptiveLayerNormCache

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
    check_floating(x)
    check_feature_axis(x, -1)
    x_hat, norm = layer_norm(widen(x), eps=eps)
    y, modulation = film(x_hat, scale, shift)
    y = array_namespace(x).astype(y, x.dtype, copy=False)
    return y, AdaptiveLayerNormCache("adaptive_layer_norm", norm, modulation)


def adaptive_layer_norm_backward(grad_y: Array, cache: AdaptiveLayerNormCache) -> FiLMGrads:
    """Gradients of a loss through :func:`adaptive_layer_norm`.

    Those of :func:`film`, and then :func:`~normtutor.norms.layer_norm_backward` for x.
    """
    check_cache(cache, "adaptive_layer_norm")
    check_grad_y(grad_y, cache.modulation.x)
    grads = film_backward(widen(grad_y), cache.modulation)
    grad_x = layer_norm_backward(grads.x, cache.norm).x
    return grads._replace(x=array_namespace(grad_y).astype(grad_x, grad_y.dtype, copy=False))


def gated_residual(x: Array, branch: Array, gate: Array) -> tuple[Array, GatedResidualCache]:
    r"""Add a branch, multiplied by a gate per example and feature: :math:`y = x + g f`.

    The end of a block with AdaLN-Zero: with a gate of 0 the block is the identity.

    **Axes of the statistics:** none.

    Parameters
    ----------
    x, branch : array of shape (B, ..., H)
        The stream, and the output of attention or of the feed-forward network.
    gate : array of shape (B, H)
        g.

    Returns
    -------
    y : array of x's shape and dtype
    cache : GatedResidualCache

    Notes
    -----
    From :cite:t:`peebles2023`.

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.ones((1, 1, 2))
    >>> gated_residual(ones, 5 * ones, np.asarray([[0.0, 1.0]]))[0]
    array([[[1., 6.]]])
    """
    check_floating(x)
    axis = check_feature_axis(x, -1)
    check_parameters(x, tuple(x.shape), branch=branch)
    check_parameters(x, (x.shape[0], x.shape[axis]), gate=gate)

    xp, wide = array_namespace(x), widen(branch)
    y = widen(x) + _per_example(gate, wide, axis) * wide
    return xp.astype(y, x.dtype, copy=False), GatedResidualCache("gated_residual", wide, gate)


def gated_residual_backward(grad_y: Array, cache: GatedResidualCache) -> GatedResidualGrads:
    r"""Gradients of a loss through :func:`gated_residual`.

    .. math::

        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial y}, \qquad
        \frac{\partial L}{\partial f} = g \frac{\partial L}{\partial y}, \qquad
        \frac{\partial L}{\partial g} = \sum \frac{\partial L}{\partial y} f,

    the sum over the positions of an example. Where all gates are 0, no gradient reaches the branch
    in the first step, but the gates do get one.
    """
    check_cache(cache, "gated_residual")
    _, branch, gate = cache
    check_grad_y(grad_y, branch)
    xp = array_namespace(grad_y)
    axis = branch.ndim - 1
    wide = widen(grad_y)
    grad_branch = xp.astype(_per_example(gate, wide, axis) * wide, grad_y.dtype, copy=False)
    return GatedResidualGrads(grad_y, grad_branch, _sum_positions(wide * branch, axis, gate))
