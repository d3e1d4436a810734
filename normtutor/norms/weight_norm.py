"""WeightNorm: each unit's weight vector is split into a direction and a length.

    w = g * v / sqrt(sum(v**2))    over the weights of one unit

It normalizes the parameter, not the activations. g is a length here, as in the paper and in torch.
"""

from typing import Any, NamedTuple

from normtutor.norms.choices import TABLE
from normtutor.norms.normalize import Cache, affine, backward, normalize
from normtutor.tracing import array_namespace
from normtutor.validation import (
    check_cache,
    check_floating,
    check_grad_y,
    check_library,
    refuse,
)

Array = Any
CHOICES = TABLE["WeightNorm"]  # over the weights of one unit; Euclidean norm; of the weights


class WeightNormGrads(NamedTuple):
    """Gradients with respect to the arguments of :func:`weight_norm`."""

    v: Array
    g: Array | None


def weight_norm(v: Array, g: Array | None = None, *, axis: int | None = 0) -> tuple[Array, Cache]:
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
    cache : Cache

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
    direction, normalized = normalize(v, axes, centred=CHOICES.centred, sums=CHOICES.sums, eps=0.0)
    w = affine(direction, g, None, kept)
    cache = Cache("weight_norm", normalized, g, None, kept)
    return array_namespace(v).astype(w, v.dtype, copy=False), cache


def weight_norm_backward(grad_w: Array, cache: Cache) -> WeightNormGrads:
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
    check_grad_y(grad_w, cache.x_hat)
    return WeightNormGrads(*backward(grad_w, cache)[:2])
