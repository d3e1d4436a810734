r"""The one formula of the norms, forward and backward.

A norm takes a group of values, and from them a statistic. With means over the group,

.. math::

    c = x - \overline x \ \ (\text{RMSNorm and its kin: } c = x), \qquad
    r = \frac{1}{\sqrt{\overline{c^2} + \varepsilon}}, \qquad
    \hat x = c\, r,

and where a loss has the gradient g with respect to :math:`\hat x`, it has the gradient

.. math::

    \frac{\partial L}{\partial x} = r \left( g - \overline g - \hat x\, \overline{g \hat x} \right)

with respect to x. A small change of x changes :math:`\hat x` by
:math:`r\,(dc - \hat x\, \overline{\hat x\, dc})`, because r changes by
:math:`-r^3\, \overline{c\, dc}`; and :math:`dc = dx - \overline{dx}`. Subtracting a mean and
projecting along :math:`\hat x` are both symmetric, so the way back is the same map.

A norm chooses the group (``axes``), whether a mean is subtracted (``centred``), and whether the
statistic is that of these values or a remembered one (``memory``). Then it has :math:`y = \gamma
\hat x + \beta` (:func:`affine`), and :math:`g = \gamma\, \partial L / \partial y`. WeightNorm and
ScaleNorm have sums in the place of :math:`\overline{c^2}` and :math:`\overline{g \hat x}`,
PowerNorm a remembered number, ν, in that of the second. One norm has arithmetic of its own:
pRMSNorm, whose mean square is that of a token's first entries, with ε outside the root.

Throughout the package g is this gradient, but for the length g that WeightNorm and ScaleNorm learn,
as their papers call it; and an argument ``axes`` or ``over`` names the axes of a statistic,
``along`` those along which γ and β vary.
"""

from typing import Any, NamedTuple

from normtutor.moments import average, count, widen
from normtutor.tracing import array_namespace, passes_jit

Array = Any  # NumPy, torch and JAX arrays share no base class


@passes_jit
class Normalized(NamedTuple):
    """What :func:`normalize_backward` needs, and the statistic.

    ``r``, ``mean`` and ``square`` have length one along ``axes``; ``mean`` is None if not
    ``centred``. ``square`` is the mean of c²: the biased variance, or the mean square; with
    ``sums`` the sum.
    """

    x_hat: Array
    r: Array
    mean: Array | None
    square: Array
    axes: tuple[int, ...]
    centred: bool
    sums: bool
    remembered: bool
    mask: Array | None


def normalize(
    x: Array,
    axes: int | tuple[int, ...],
    *,
    centred: bool = True,
    sums: bool = False,
    eps: float = 1e-5,
    mask: Array | None = None,
    memory: tuple[Array | None, Array] | None = None,
) -> tuple[Array, Normalized]:
    r"""Subtract the mean over ``axes``, if ``centred``, and divide by the root of the mean square.

    Parameters
    ----------
    x : floating-point array, for example of shape (B, L, H)
    axes : int or tuple of int
        Which values share a statistic: -1 for each token, (0, 1) for each feature of a batch.
    centred : bool
        False leaves the mean where it is, as RMSNorm does.
    sums : bool
        Sum the squares and do not average them: x̂ then has the Euclidean norm 1.
    eps : float
        ε, inside the root.
    mask : boolean array that broadcasts against x, with as many axes, optional
        True marks what counts. Elsewhere x̂ is 0 and no gradient passes.
    memory : (mean, mean square), optional
        A remembered statistic, which broadcasts against x and is used in place of that of x.

    Returns
    -------
    x_hat : array of x's shape, in float32 where x is narrower
    cache : Normalized

    Examples
    --------
    >>> import numpy as np
    >>> x_hat, cache = normalize(np.asarray([[1.0, 2.0, 6.0]]), -1, eps=0.0)
    >>> x_hat.round(3)
    array([[-0.926, -0.463,  1.389]])
    >>> normalize_backward(np.asarray([[1.0, 0.0, 0.0]]), cache).round(3)
    array([[ 0.176, -0.22 ,  0.044]])
    """
    xp, x = array_namespace(x), widen(x)
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    if mask is not None:
        x = xp.where(mask, x, 0.0)
    n = count(x, axes, mask)

    def mean(values: Array, n: Any = n) -> Array:
        return average(values, axes, n)  # keeps its axes, with length one

    # The shapes are those of LayerNorm, axes = -1.
    mu: Array = memory[0] if memory else mean(x) if centred else None  # (B, L, 1)
    c = x - mu if centred else x  # (B, L, H)
    if mask is not None and centred:
        c = xp.where(mask, c, 0.0)
    square = memory[1] if memory else mean(c * c, None if sums else n)  # (B, L, 1)
    r = 1 / xp.sqrt(square + eps)  # (B, L, 1)
    x_hat = c * r  # (B, L, H)
    return x_hat, Normalized(x_hat, r, mu, square, axes, centred, sums, memory is not None, mask)


def normalize_backward(g: Array, cache: Normalized, nu: Array | None = None) -> Array:
    """The gradient of a loss with respect to x, from its gradient ``g`` with respect to x̂.

    Parameters
    ----------
    g : array of x's shape
    cache : Normalized
    nu : array that broadcasts against x, optional
        What takes the place of the mean of g x̂, as in PowerNorm.

    Returns
    -------
    array of x's shape
        Of g's dtype, but float32 where that is narrower. A remembered statistic does not depend on
        x, so that neither mean is in the gradient.
    """
    x_hat, r, _, _, axes, centred, sums, remembered, mask = cache
    xp, g = array_namespace(g), widen(g)
    if mask is not None:
        g = xp.where(mask, g, 0.0)
    n = count(g, axes, mask)

    def mean(values: Array, n: Any = n) -> Array:
        return average(values, axes, n)

    dx = g  # (B, L, H), as below
    if centred and not remembered:
        dx = dx - mean(g)  # what the mean forgets
    if nu is not None:
        dx = dx - x_hat * nu
    elif not remembered:
        dx = dx - x_hat * mean(g * x_hat, None if sums else n)  # what the scale forgets
    dx = r * dx
    return dx if mask is None else xp.where(mask, dx, 0.0)


# --- γ and β, which follow every norm -------------------------------------------------------------


@passes_jit
class Cache(NamedTuple):
    """What the backward pass of a norm needs; γ and β vary along the axes ``along``.

    RMSNorm alone has the two options.
    """

    made_by: str
    normalized: Normalized
    weight: Array | None
    bias: Array | None
    along: tuple[int, ...]
    add_unit_offset: bool = False
    cast_before_weight: bool = False

    @property
    def x_hat(self) -> Array:
        """x̂, what γ multiplies."""
        return self.normalized.x_hat

    @property
    def r(self) -> Array:
        """1 / √(mean(c²) + ε), of length one along the axes that share it."""
        return self.normalized.r


class Grads(NamedTuple):
    """Gradients with respect to x, γ and β; None where one was None."""

    x: Array
    weight: Array | None
    bias: Array | None


def laid_along(parameter: Array, x: Array, along: tuple[int, ...]) -> Array:
    """Reshape ``parameter`` so that its axes lie along some axes of x and broadcast elsewhere."""
    xp = array_namespace(x)
    kept = [a % x.ndim for a in along]
    shape = tuple([n if a in kept else 1 for a, n in enumerate(x.shape)])
    return xp.reshape(xp.astype(parameter, x.dtype, copy=False), shape)


def affine(
    x_hat: Array,
    weight: Array | None,
    bias: Array | None,
    along: tuple[int, ...],
    mask: Array | None = None,
) -> Array:
    """Return γ x̂ + β; a missing weight counts as 1, a missing bias as 0.

    Parameters
    ----------
    x_hat : array
    weight, bias : array or None
        As many numbers as x_hat has along the axes ``along``.
    along : tuple of int
    mask : boolean array that broadcasts against x_hat, optional
        Where it is False, the result is 0.
    """
    y = x_hat
    if weight is not None:
        y = y * laid_along(weight, x_hat, along)
    if bias is not None:
        y = y + laid_along(bias, x_hat, along)
    return y if mask is None else array_namespace(y).where(mask, y, 0.0)


def affine_backward(
    grad_y: Array,
    x_hat: Array,
    weight: Array | None,
    bias: Array | None,
    along: tuple[int, ...],
    mask: Array | None = None,
) -> Grads:
    """Gradients with respect to x̂, weight and bias; None for a parameter that is missing."""
    xp, grad_y = array_namespace(x_hat), widen(grad_y)
    if mask is not None:
        grad_y = xp.where(mask, grad_y, 0.0)
    kept = [a % x_hat.ndim for a in along]
    summed = tuple([a for a in range(x_hat.ndim) if a not in kept])

    def total(values: Array, like: Array) -> Array:
        sums = xp.sum(values, axis=summed) if summed else values
        return xp.astype(xp.reshape(sums, like.shape), like.dtype, copy=False)

    return Grads(
        grad_y if weight is None else grad_y * laid_along(weight, x_hat, along),
        None if weight is None else total(grad_y * x_hat, weight),
        None if bias is None else total(grad_y, bias),
    )


def backward(grad_y: Array, cache: Cache) -> Grads:
    """The way back through γ and β, then through the one formula: that of most norms."""
    _, normalized, weight, bias, along, *_ = cache
    grads = affine_backward(grad_y, cache.x_hat, weight, bias, along, normalized.mask)
    grad_x = normalize_backward(grads.x, normalized)
    xp = array_namespace(grad_x)
    return grads._replace(x=xp.astype(grad_x, grad_y.dtype, copy=False))
