"""WeightNorm: each unit's weight vector is split into a direction and a length.

    w = g * v / sqrt(sum(v**2))    over the weights of one unit

It normalizes the parameter, not the activations.
"""

import math
from typing import Any, NamedTuple

from normtutor.norms.choices import TABLE
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
    check_floating,
    check_grad_y,
    check_library,
    refuse,
)

Array = Any
CHOICES = TABLE["WeightNorm"]  # over the weights of one unit; Euclidean norm; of the weights


@passes_jit
class WeightNormCache(NamedTuple):
    """What :func:`weight_norm_backward` needs from the forward pass."""

    made_by: str
    normalized: Normalized
    g: Array | None
    axes: tuple[int, ...]


class WeightNormGrads(NamedTuple):
    """Gradients with respect to the arguments of :func:`weight_norm`."""

    v: Array
    g: Array | None


def weight_norm(
    v: Array, g: Array | None = None, *, axis: int | None = 0
) -> tuple[Array, WeightNormCache]:
    r"""Give each unit's weight vector the length g and the direction of v.

    :math:`w = g\, v / \lVert v \rVert`, one norm for each index along ``axis``.

    **Axes of the statistic:** all axes of the weights except ``axis``; with ``axis=None``, all.

    Parameters
    ----------
    v : array of shape (units, ...)
    g : array, optional
        The lengths, of v's shape with every axis but ``axis`` of length one, as in torch.
        Without it every unit has length 1.
    axis : int or None

    Returns
    -------
    w : array of v's shape and dtype
    cache : WeightNormCache

    Raises
    ------
    ValueError
        If ``axis`` does not exist in v.

    Notes
    -----
    From :cite:t:`salimans2016`. No ε: a unit with v = 0 has no direction and
    gives NaN, as in ``torch.nn.utils.parametrizations.weight_norm``.

    Examples
    --------
    >>> import numpy as np
    >>> w, cache = weight_norm(np.asarray([[3.0, 4.0]]), np.asarray([[10.0]]))
    >>> w
    array([[6., 8.]])
    """
    check_floating(v, "v")
    if axis is not None and not -v.ndim <= axis < v.ndim:
        raise ValueError(
            f"axis={axis} does not exist in v of shape {tuple(v.shape)}. "
            "Use 0 for one length per unit, or None for one length for all."
        )
    kept = () if axis is None else (axis % v.ndim,)
    shape = tuple([n if a in kept else 1 for a, n in enumerate(v.shape)])
    if g is not None:
        check_floating(g, "g")
        check_library(g, "g", v, "v")
        if tuple(g.shape) != shape:
            rule = f"g must have shape {shape}, one length for each index along axis={axis} of v"
            fix = f"Reshape it, for example with g.reshape({shape})."
            refuse(ValueError, rule, tuple(g.shape), fix)

    axes = tuple([a for a in range(v.ndim) if a not in kept])  # the weights of one unit
    x_hat, normalized = normalize(v, axes, centred=CHOICES.centred, eps=0.0)
    w = affine(x_hat / _root(x_hat, axes), g, None, kept)
    cache = WeightNormCache("weight_norm", normalized, g, kept)
    return array_namespace(v).astype(w, v.dtype, copy=False), cache


def _root(x: Array, axes: tuple[int, ...]) -> float:
    """√n for n weights: their length is √n times their root mean square."""
    return math.sqrt(math.prod([x.shape[a] for a in axes]))


def weight_norm_backward(grad_w: Array, cache: WeightNormCache) -> WeightNormGrads:
    r"""Gradients of a loss through :func:`weight_norm`.

    With the direction :math:`u = v / \lVert v \rVert`,

    .. math::

        \frac{\partial L}{\partial g} = \langle \tfrac{\partial L}{\partial w}, u \rangle, \qquad
        \frac{\partial L}{\partial v} = \frac{g}{\lVert v \rVert}
        \left( \tfrac{\partial L}{\partial w}
        - u\, \langle \tfrac{\partial L}{\partial w}, u \rangle \right).

    The gradient of v is orthogonal to v.
    """
    check_cache(cache, "weight_norm")
    _, normalized, g, kept = cache
    check_grad_y(grad_w, normalized.x_hat)
    xp, root = array_namespace(grad_w), _root(normalized.x_hat, normalized.axes)
    grad_u, grad_g, _ = affine_backward(grad_w, normalized.x_hat / root, g, None, kept)
    grad_v = normalize_backward(grad_u / root, normalized)
    return WeightNormGrads(xp.astype(grad_v, grad_w.dtype, copy=False), grad_g)
