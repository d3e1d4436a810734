r"""A check of hand-derived gradients by finite differences along random directions.

For a function f with value :math:`y = f(x)`, a fixed weighting :math:`g` of the output and a
direction :math:`v` of the input,

.. math::

    \Bigl\langle \frac{\partial \langle g, f \rangle}{\partial x}, v \Bigr\rangle
    = \lim_{h \to 0} \frac{\langle g, f(x + h v) \rangle - \langle g, f(x - h v) \rangle}{2h} .

One direction needs two forward passes however large x is. A wrong gradient agrees along a random
direction with probability zero.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace

Array = Any


def gradient_errors(
    function: Callable[..., Array],
    arguments: Sequence[Array],
    grads: Sequence[Array],
    grad_y: Array,
    *,
    directions: int = 4,
    step: float = 1e-5,
    seed: int = 0,
) -> list[float]:
    """Relative disagreement of each gradient with central differences.

    Parameters
    ----------
    function : callable
        ``function(*arguments)`` returns y, an array, or a tuple that begins with it, as the
        formulas of :mod:`normtutor.norms` do. A ``torch.nn.Module`` is called in the same way.
    arguments : sequence of float64 arrays
    grads : sequence of arrays
        The gradients of ⟨grad_y, y⟩ to check, one for each argument, of its shape.
    grad_y : float64 array of y's shape
    directions : int
        How many random directions to try for each argument.
    step : float
        h. The differences are wrong by about h² and by about 1e-16 / h; 1e-5 balances the two.
    seed : int

    Returns
    -------
    list of float
        For each argument the largest error over the directions. About 1e-9 for a right gradient
        of a smooth function of moderate size, about 1 for a wrong one.

    Raises
    ------
    ValueError
        If an argument is not float64, or a gradient has another shape than its argument, or
        ``grad_y`` another than y.

    Examples
    --------
    >>> x = np.asarray([1.0, 2.0])
    >>> gradient_errors(lambda x: x**2, [x], [2 * x], np.ones(2))[0] < 1e-8
    True
    >>> gradient_errors(lambda x: x**2, [x], [3 * x], np.ones(2))[0] > 0.1
    True

    A formula of the package, with the gradients that it derives:

    >>> from normtutor import norms
    >>> x, grad_y = np.asarray([1.0, 2.0, 4.0]), np.asarray([1.0, 0.0, 0.0])
    >>> grads = norms.layer_norm_backward(grad_y, norms.layer_norm(x)[1])
    >>> gradient_errors(norms.layer_norm, [x], [grads.x], grad_y)[0] < 1e-8
    True
    """

    def projected(*arguments: Array) -> float:
        """⟨grad_y, y⟩, the number whose gradients are checked."""
        y = function(*arguments)
        y = y[0] if isinstance(y, tuple) else y
        if tuple(y.shape) != tuple(grad_y.shape):
            raise ValueError(
                f"grad_y must have the shape of y, {tuple(y.shape)}; got {tuple(grad_y.shape)}. "
                "One that would broadcast weights other entries than you think."
            )
        return _number(array_namespace(y, grad_y).sum(grad_y * y))

    # A stream of its own: a caller's default_rng(seed) may have drawn the very x, and along x a
    # norm's gradient is 0.
    generator = np.random.default_rng([seed, 1])
    errors = []
    for i, (argument, grad) in enumerate(zip(arguments, grads, strict=True)):
        xp = array_namespace(argument, grad)
        if argument.dtype != xp.float64:
            raise ValueError(
                f"finite differences need float64, since the rounding of {argument.dtype} is as "
                f"large as the differences; convert argument {i} first."
            )
        if tuple(grad.shape) != tuple(argument.shape):
            raise ValueError(
                f"gradient {i} must have its argument's shape {tuple(argument.shape)}; got "
                f"{tuple(grad.shape)}. A gradient that would broadcast is wrong."
            )
        worst = 0.0
        for _ in range(directions):
            v = xp.asarray(generator.standard_normal(tuple(argument.shape)))
            before, after = (
                projected(*arguments[:i], argument + h * v, *arguments[i + 1 :])
                for h in (-step, step)
            )
            numeric = (after - before) / (2 * step)
            claimed = _number(xp.sum(grad * v))
            # A projection has a standard deviation of the gradient's norm.
            scale = max(_number(xp.sqrt(xp.sum(grad * grad))), abs(numeric), 1e-8)
            worst = max(worst, abs(numeric - claimed) / scale)
        errors.append(worst)
    return errors


def _number(value: Array) -> float:
    """A scalar of any library; torch warns of one that still has its history."""
    return float(value.detach() if hasattr(value, "detach") else value)
