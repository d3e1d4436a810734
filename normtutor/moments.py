r"""Statistics over chosen axes, as the norms take them: the mean and the mean square.

- A variance takes two passes, first the mean :math:`\mu`, then the mean of
  :math:`(x - \mu)^2`. The shortcut :math:`E[x^2] - E[x]^2` subtracts two large numbers when the
  mean is large and can lose every digit.
- It is biased: it divides by the number of values n, not by n − 1.
- Values that a mask excludes take no part, whatever they are, NaN included.

In float32 the square of a number above 1.8e19 is infinite, and a norm divides by it to 0.
"""

import math
from typing import Any

from normtutor.tracing import array_namespace, is_number

Array = Any  # NumPy, torch and JAX arrays share no base class


def widen(x: Array) -> Array:
    """Return x in the dtype in which statistics are accumulated: float32 at least."""
    xp = array_namespace(x)
    # Not xp.result_type, which torch.compile cannot follow.
    narrow = xp.finfo(x.dtype).bits < 32
    return xp.astype(x, xp.float32 if narrow else x.dtype, copy=False)


def count(x: Array, axes: tuple[int, ...], mask: Array | None = None) -> Any:
    """Number of values that a statistic over ``axes`` pools.

    A Python int without a mask. With a mask, an array that broadcasts against x: how many
    positions over ``axes`` are True, times the axes over which the mask only broadcasts.
    """
    if mask is None:
        return math.prod([x.shape[a] for a in axes])
    xp = array_namespace(x)
    repeats = math.prod([x.shape[a] for a in axes if mask.shape[a] == 1])
    return xp.sum(xp.astype(mask, x.dtype), axis=axes, keepdims=True) * repeats


def mean(x: Array, axes: tuple[int, ...], mask: Array | None = None) -> Array:
    """Mean of x over ``axes``, which stay, with length one.

    Parameters
    ----------
    x : floating-point array
    axes : tuple of int
        The axes that share the statistic.
    mask : boolean array, optional
        As many axes as x, each of x's length or of length one. True marks what counts. Where
        nothing counts, and for an empty x, the result is 0.
    """
    hidden = x if mask is None else array_namespace(x).where(mask, x, 0.0)
    return average(hidden, axes, count(x, axes, mask))


def average(x: Array, axes: tuple[int, ...], n: Any) -> Array:
    """The sum of x over ``axes`` by ``n``, their :func:`count`; None leaves it the sum.

    What a mask excludes must be 0 in x.
    """
    xp = array_namespace(x)
    if n is None or is_number(n):
        return (xp.mean if n else xp.sum)(x, axis=axes, keepdims=True)
    return xp.sum(x, axis=axes, keepdims=True) / xp.where(n > 0, n, 1.0)


def mean_square(x: Array, axes: tuple[int, ...], mask: Array | None = None) -> Array:
    """Mean of x² over ``axes``: the second moment about zero, not about the mean.

    Arguments as in :func:`mean`.
    """
    return mean(x * x, axes, mask)


def unbiased(variance: Array, n: Any) -> Array:
    """Turn a biased variance of ``n`` values into the unbiased one, which divides by n − 1."""
    if is_number(n):
        return variance * (n / max(n - 1, 1))
    return variance * (n / array_namespace(variance).where(n > 1, n - 1, 1.0))


def unless_empty(new: Array, old: Array, n: Any) -> Array:
    """Return ``new``, or ``old`` where the statistic pooled ``n`` = 0 values."""
    if is_number(n):
        return new if n > 0 else old
    return array_namespace(new).where(n > 0, new, old)
