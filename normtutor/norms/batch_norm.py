"""BatchNorm: each feature is centred and scaled by its mean and variance over the batch.

    x_hat = (x - mean) / sqrt(variance + eps)    over B and L
    y = weight * x_hat + bias

In evaluation they are running averages, and the layer is a fixed affine map of each value.
"""

from typing import Any, NamedTuple

from normtutor.moments import count, unbiased, unless_empty, widen
from normtutor.norms.choices import TABLE
from normtutor.norms.normalize import Cache, Grads, affine, backward, laid_along, normalize
from normtutor.tracing import array_namespace, known_value
from normtutor.validation import (
    check_cache,
    check_features,
    check_grad_y,
    check_momentum,
    check_positive_eps,
    refuse,
)

Array = Any
CHOICES = TABLE["BatchNorm"]  # over B and L; mean and variance; of the batch, then an average


class RunningStats(NamedTuple):
    """Running mean and running variance of each feature, or None where there are none."""

    mean: Array | None
    var: Array | None


def batch_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    training: bool = True,
    momentum: float | Array = 0.1,
    eps: float = 1e-5,
    mask: Array | None = None,
    feature_axis: int = 1,
) -> tuple[Array, Cache, RunningStats]:
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
        By keyword only, since torch.nn.functional has them before weight and bias. Needed in
        evaluation. In training they are updated if given.
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
    cache : Cache
    running : RunningStats
        The updated ``mean`` and ``var``. A batch without a real token does not change them.

    Raises
    ------
    ValueError
        In training, if there is one value per feature or ε is not positive; in evaluation, if a
        running statistic is missing.

    Notes
    -----
    From :cite:t:`ioffe2015`. Same values as ``torch.nn.functional.batch_norm``, which has no mask,
    no feature axis, and updates the running statistics in place.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[1.0, 10.0], [3.0, 30.0]])
    >>> start = {"running_mean": np.zeros(2), "running_var": np.ones(2)}
    >>> y, cache, running = batch_norm(x, **start, eps=1e-12)
    >>> y
    array([[-1., -1.],
           [ 1.,  1.]])
    >>> running.mean, running.var
    (array([0.2, 2. ]), array([ 1.1, 20.9]))
    """
    given: Any = {"running_mean": running_mean, "running_var": running_var}
    feature, mask = check_features(x, feature_axis, mask, weight=weight, bias=bias, **given)
    check_momentum(momentum)
    running = RunningStats(running_mean, running_var)
    axes, memory = CHOICES.statistic_axes(x.ndim, feature), None  # B and L
    if training:
        check_positive_eps(eps)
        n = _enough_values(x, axes, mask)
    elif running_mean is None or running_var is None:
        rule = "in evaluation BatchNorm normalizes by running_mean and running_var"
        refuse(
            ValueError, rule, "None", "Pass both, or use training=True to normalize by this batch."
        )
    else:
        memory = remembered(running, x, feature)

    x_hat, normalized = normalize(
        x, axes, centred=CHOICES.centred, eps=eps, mask=mask, memory=memory
    )
    y = affine(x_hat, weight, bias, (feature,), mask)
    if training:
        variance = unbiased(normalized.square, n)
        running = running_after(running, normalized.mean, variance, n, momentum)
    cache = Cache("batch_norm", normalized, weight, bias, (feature,))
    return array_namespace(x).astype(y, x.dtype, copy=False), cache, running


def _enough_values(x: Array, axes: tuple[int, ...], mask: Array | None) -> Any:
    """How many values share a statistic; raise ValueError if it is one."""
    n = count(x, axes, mask)
    if known_value(n) == 1:
        rule = "BatchNorm needs more than one value per feature in training, because the variance "
        got = f"x of shape {tuple(x.shape)}" + (" with one real token" if mask is not None else "")
        refuse(
            ValueError, rule + "of one value is 0", got, "Use a larger batch, or evaluation mode."
        )
    return n


def remembered(running: RunningStats, x: Array, feature: int) -> tuple[Array, Array]:
    """The running statistics as :func:`normalize` takes them in place of those of x."""
    mean, var = (laid_along(statistic, widen(x), (feature,)) for statistic in running)
    return mean, var


def running_after(
    running: RunningStats, mean: Array, variance: Array, n: Any, momentum: float | Array
) -> RunningStats:
    """The running statistics after a batch with this mean and unbiased variance of n values."""

    def after(old: Array | None, new: Array) -> Array | None:
        if old is None:
            return None
        xp = array_namespace(new)
        before = xp.reshape(xp.astype(old, new.dtype, copy=False), new.shape)
        blend = unless_empty((1 - momentum) * before + momentum * new, before, n)
        return xp.astype(xp.reshape(blend, old.shape), old.dtype, copy=False)

    return RunningStats(after(running.mean, mean), after(running.var, variance))


def batch_norm_backward(grad_y: Array, cache: Cache) -> Grads:
    r"""Gradients of a loss through :func:`batch_norm`.

    In training the one formula, :func:`~normtutor.norms.normalize_backward`, with means over the
    n values of a feature. In evaluation, where the statistics are constants,
    :math:`\partial L / \partial x = g / \sqrt{\sigma^2 + \varepsilon}` with
    :math:`g = \gamma\, \partial L / \partial y`.
    """
    check_cache(cache, "batch_norm")
    check_grad_y(grad_y, cache.x_hat)
    return backward(grad_y, cache)
