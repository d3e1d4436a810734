"""InstanceNorm: each feature of each example is centred and scaled over the positions.

    x_hat = (x - mean) / sqrt(variance + eps)    over L
    y = weight * x_hat + bias

Where running statistics are kept, evaluation uses them: it is then that of BatchNorm.
"""

import math
from typing import Any

from normtutor.moments import count, mean, unbiased
from normtutor.norms.batch_norm import RunningStats, remembered, running_after
from normtutor.norms.choices import TABLE
from normtutor.norms.normalize import Cache, Grads, affine, backward, normalize
from normtutor.tracing import array_namespace, is_number
from normtutor.validation import (
    check_cache,
    check_features,
    check_grad_y,
    check_momentum,
    refuse,
)

Array = Any
CHOICES = TABLE["InstanceNorm"]  # over L; mean and variance; of the example itself


def instance_norm(
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
    r"""Remove the mean and the scale of each feature of each example.

    :math:`y = \gamma (x - \mu) / \sqrt{\sigma^2 + \varepsilon} + \beta`, with the mean and the
    biased variance of that feature in that example.

    **Axes of the statistics:** the positions or pixels. Examples and features never mix.

    Parameters
    ----------
    x : array of shape (B, C, ...) or, with ``feature_axis=-1``, (B, L, H)
    weight, bias : array of shape (C,), optional
    running_mean, running_var : array of shape (C,), optional
        By keyword only. Averages over the examples, the variance unbiased. They are used in
        evaluation if given, and the layer then computes what BatchNorm does in evaluation; most
        models do not use them.
    training, momentum, eps, mask, feature_axis
        As in :func:`~normtutor.norms.batch_norm`.

    Returns
    -------
    y : array of x's shape and dtype
    cache : Cache
    running : RunningStats

    Raises
    ------
    ValueError
        If the example's own statistics are used and there is only one position; if only one of the
        running statistics is given.

    Notes
    -----
    From :cite:t:`ulyanov2016`. Same values as ``torch.nn.functional.instance_norm``. It is
    GroupNorm with one feature in each group.

    Examples
    --------
    >>> import numpy as np
    >>> y, cache, _ = instance_norm(np.asarray([[[1.0, 3.0], [10.0, 30.0]]]), eps=1e-12)
    >>> y
    array([[[-1.,  1.],
            [-1.,  1.]]])
    """
    given: Any = {"running_mean": running_mean, "running_var": running_var}
    feature, mask = check_features(
        x, feature_axis, mask, smallest_ndim=3, weight=weight, bias=bias, **given
    )
    check_momentum(momentum)
    running = RunningStats(running_mean, running_var)
    if (running_mean is None) != (running_var is None):
        rule = "running_mean and running_var go together"
        refuse(ValueError, rule, "only one of them", "Pass both or neither.")
    memory = None if running_mean is None or training else remembered(running, x, feature)
    if memory is None and math.prod(x.shape) == x.shape[0] * x.shape[feature] > 0:
        rule = "InstanceNorm needs more than one position per example, because the variance of one "
        got = f"x of shape {tuple(x.shape)}"
        refuse(ValueError, rule + "value is 0", got, "Use a longer input or another norm.")

    axes = CHOICES.statistic_axes(x.ndim, feature)  # L
    x_hat, normalized = normalize(
        x, axes, centred=CHOICES.centred, eps=eps, mask=mask, memory=memory
    )
    y = affine(x_hat, weight, bias, (feature,), mask)
    if running_mean is not None and memory is None:
        n = count(x_hat, axes, mask)
        running = running_after_examples(running, normalized.mean, normalized.square, n, momentum)
    cache = Cache("instance_norm", normalized, weight, bias, (feature,))
    return array_namespace(x).astype(y, x.dtype, copy=False), cache, running


def running_after_examples(
    running: RunningStats, mu: Array, variance: Array, n: Any, momentum: float | Array
) -> RunningStats:
    """The running statistics after a batch: the examples' own, of n values, averaged over them."""
    real, total = None, n * mu.shape[0]
    if not is_number(n):  # with a mask, where an example that is all padding counts as none
        real, total = n > 0, array_namespace(n).sum(n, axis=0, keepdims=True)
    mu, variance = (mean(statistic, (0,), real) for statistic in (mu, unbiased(variance, n)))
    return running_after(running, mu, variance, total, momentum)


def instance_norm_backward(grad_y: Array, cache: Cache) -> Grads:
    """Gradients of a loss through :func:`instance_norm`.

    The one formula, :func:`~normtutor.norms.normalize_backward`, with means over the positions, or,
    where running statistics were used, without them.
    """
    check_cache(cache, "instance_norm")
    check_grad_y(grad_y, cache.x_hat)
    return backward(grad_y, cache)
