r"""BatchNorm: each feature is centred and scaled by its mean and variance over the batch.

.. math::

    \mu = \frac1n \sum_i x_i, \qquad
    \sigma^2 = \frac1n \sum_i (x_i - \mu)^2, \qquad
    \hat x_i = \frac{x_i - \mu}{\sqrt{\sigma^2 + \varepsilon}}, \qquad
    y_i = \gamma \hat x_i + \beta

where i runs over the n values of one feature in the batch. In evaluation μ and σ² are running
averages, and the layer is a fixed affine map of each value.
"""

from typing import Any, NamedTuple

from normtutor.affine import affine, affine_backward, along
from normtutor.moments import count, mean, moments, unbiased, unless_empty, widen
from normtutor.tracing import array_namespace, known_value, passes_jit
from normtutor.validation import (
    check_cache,
    check_feature_axis,
    check_floating,
    check_grad_y,
    check_mask,
    check_momentum,
    check_parameter,
    check_positive_eps,
    check_running_stats,
    in_torchs_order,
)

Array = Any


class RunningStats(NamedTuple):
    """Running mean and running variance of each feature, or None where there are none."""

    mean: Array | None
    var: Array | None


@passes_jit
class BatchNormCache(NamedTuple):
    """What :func:`batch_norm_backward` needs from the forward pass."""

    x_hat: Array
    inverse_std: Array
    weight: Array | None
    bias: Array | None
    mask: Array | None
    feature_axis: int
    training: bool


class BatchNormGrads(NamedTuple):
    """Gradients with respect to the arguments of :func:`batch_norm`; None where one was None."""

    x: Array
    weight: Array | None
    bias: Array | None


@in_torchs_order(
    "batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)",
    "batch_norm(x, weight, bias, running_mean, running_var, training=True)",
)
def batch_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    *,
    training: bool = True,
    momentum: float | Array = 0.1,
    eps: float = 1e-5,
    mask: Array | None = None,
    feature_axis: int = 1,
) -> tuple[Array, BatchNormCache, RunningStats]:
    r"""Remove the mean and the scale of each feature over the batch.

    :math:`y = \gamma (x - \mu) / \sqrt{\sigma^2 + \varepsilon} + \beta`. In training
    :math:`\mu` and the biased variance :math:`\sigma^2` are those of this batch; in evaluation
    they are ``running_mean`` and ``running_var``.

    **Axes of the statistics:** every axis but ``feature_axis``: the batch, and the positions or
    pixels too.

    Parameters
    ----------
    x : array of shape (B, C, ...) or, with ``feature_axis=-1``, (B, L, H)
    weight, bias : array of shape (C,), optional
        γ and β. Without them the output is x̂.
    running_mean, running_var : array of shape (C,), optional
        Needed in evaluation. In training they are updated if given.
    training : bool
    momentum : float or array of shape ()
        The weight of the new value, as in torch: running ← (1 − momentum)·running +
        momentum·batch. The batch variance enters unbiased, with n − 1.
    eps : float
        ε, inside the root.
    mask : boolean array of x's shape without its feature axis, optional
        True on real tokens: (B, L) for x of shape (B, L, H). All other positions are left out of
        every statistic; there y is 0 and no gradient passes.
    feature_axis : int

    Returns
    -------
    y : array of x's shape and dtype
    cache : BatchNormCache
    running : RunningStats
        The updated ``mean`` and ``var``. A batch without a real token does not change them.

    Raises
    ------
    ValueError
        In training, if there is one value per feature or ε is not positive; in evaluation, if a
        running statistic is missing; if a shape does not fit.
    TypeError
        If an array does not hold real floating-point numbers, or the mask is not boolean.

    Notes
    -----
    From :cite:t:`ioffe2015`. Same values as ``torch.nn.functional.batch_norm``,
    which has no mask, no feature axis, and updates the running statistics in place.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[1.0, 10.0], [3.0, 30.0]])
    >>> y, cache, running = batch_norm(x, None, None, np.zeros(2), np.ones(2), eps=1e-12)
    >>> y
    array([[-1., -1.],
           [ 1.,  1.]])
    >>> running.mean, running.var
    (array([0.2, 2. ]), array([ 1.1, 20.9]))
    """
    check_floating(x)
    feature_axis = check_feature_axis(x, feature_axis)
    shape = (x.shape[feature_axis],)
    for name, parameter in (
        ("weight", weight),
        ("bias", bias),
        ("running_mean", running_mean),
        ("running_var", running_var),
    ):
        check_parameter(parameter, name, shape, x)
    check_running_stats(running_mean, running_var, weight, bias)
    check_momentum(momentum)
    mask = check_mask(mask, x, feature_axis)
    xp = array_namespace(x, weight, bias)
    running = RunningStats(running_mean, running_var)

    wide = widen(x)
    if mask is not None:
        wide = xp.where(mask, wide, 0.0)
    if training:
        check_positive_eps(eps)
        mu, variance, running = _batch_statistics(wide, mask, running, momentum, feature_axis)
    elif running_mean is None or running_var is None:
        raise ValueError(
            "in evaluation BatchNorm normalizes by running_mean and running_var; got "
            "None. Pass both, or use training=True to normalize by this batch."
        )
    else:
        mu = along(running_mean, wide, (feature_axis,))
        variance = along(running_var, wide, (feature_axis,))
    inverse_std = 1 / xp.sqrt(variance + eps)
    x_hat = (wide - mu) * inverse_std
    y = affine(x_hat, weight, bias, (feature_axis,))
    if mask is not None:
        x_hat, y = xp.where(mask, x_hat, 0.0), xp.where(mask, y, 0.0)
    cache = BatchNormCache(x_hat, inverse_std, weight, bias, mask, feature_axis, training)
    return xp.astype(y, x.dtype, copy=False), cache, running


def _batch_statistics(
    x: Array, mask: Array | None, running: RunningStats, momentum: float | Array, feature_axis: int
) -> tuple[Array, Array, RunningStats]:
    """Mean and biased variance of this batch, and the running statistics after it."""
    axes = tuple(a for a in range(x.ndim) if a != feature_axis)
    n = count(x, axes, mask)
    if known_value(n) == 1:
        raise ValueError(
            "BatchNorm needs more than one value per feature in training, because the variance of "
            f"one value is 0; got x of shape {tuple(x.shape)}"
            + (" with one real token. " if mask is not None else ". ")
            + "Use a larger batch, or evaluation mode."
        )
    mu, variance = moments(x, axes, mask)
    return mu, variance, running_after(running, mu, unbiased(variance, n), n, momentum)


def running_after(
    running: RunningStats, mean: Array, variance: Array, n: Any, momentum: float | Array
) -> RunningStats:
    """The running statistics after a batch with this mean and unbiased variance of n values."""
    check_momentum(momentum)

    def after(old: Array | None, new: Array) -> Array | None:
        if old is None:
            return None
        xp = array_namespace(new, old)
        before = xp.reshape(xp.astype(old, new.dtype, copy=False), new.shape)
        blend = unless_empty((1 - momentum) * before + momentum * new, before, n)
        return xp.astype(xp.reshape(blend, old.shape), old.dtype, copy=False)

    return RunningStats(after(running.mean, mean), after(running.var, variance))


def batch_norm_backward(grad_y: Array, cache: BatchNormCache) -> BatchNormGrads:
    r"""Gradients of a loss through :func:`batch_norm`.

    With :math:`g = \gamma\, \partial L / \partial y` and means over the n values of a feature,
    in training

    .. math::

        \frac{\partial L}{\partial x} = \frac{1}{\sqrt{\sigma^2 + \varepsilon}}
        \left( g - \overline{g} - \hat x\, \overline{g \hat x} \right)

    and in evaluation, where the statistics are constants,
    :math:`\partial L / \partial x = g / \sqrt{\sigma^2 + \varepsilon}`.

    Parameters
    ----------
    grad_y : array of y's shape
    cache : BatchNormCache

    Returns
    -------
    BatchNormGrads
        ``x`` of grad_y's dtype, 0 at masked positions; ``weight`` and ``bias`` of shape (C,).
    """
    check_cache(cache, BatchNormCache, "batch_norm")
    x_hat, inverse_std, weight, bias, mask, feature_axis, training = cache
    check_grad_y(grad_y, x_hat)
    xp = array_namespace(grad_y, x_hat)
    wide = widen(grad_y)
    if mask is not None:
        wide = xp.where(mask, wide, 0.0)
    g, grad_weight, grad_bias = affine_backward(wide, x_hat, weight, bias, (feature_axis,))
    if training:
        axes = tuple(a for a in range(x_hat.ndim) if a != feature_axis)
        g = g - mean(g, axes, mask) - x_hat * mean(g * x_hat, axes, mask)
    grad_x = inverse_std * g
    if mask is not None:
        grad_x = xp.where(mask, grad_x, 0.0)
    return BatchNormGrads(xp.astype(grad_x, grad_y.dtype, copy=False), grad_weight, grad_bias)
