"""GroupNorm and InstanceNorm: statistics of one example, over its positions.

    x_hat = (x - mean) / sqrt(variance + eps)    over L and a group of H; InstanceNorm over L
    y = weight * x_hat + bias

InstanceNorm is GroupNorm with one feature in each group.
"""

import math
from typing import Any

from normtutor.moments import count, mean, unbiased
from normtutor.norms.batch_norm import (
    RunningStats,
    batch_norm,
    batch_norm_backward,
    running_after,
)
from normtutor.norms.choices import TABLE
from normtutor.norms.normalize import Cache, Grads, affine, backward, normalize
from normtutor.tracing import array_namespace, is_number
from normtutor.validation import (
    check_cache,
    check_feature_axis,
    check_features,
    check_floating,
    check_grad_y,
    check_groups,
    check_momentum,
    check_parameters,
    refuse,
)

Array = Any
CHOICES = TABLE["GroupNorm"]  # over L and a group of H; mean and variance; of the example itself


def group_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    num_groups: int,
    eps: float = 1e-5,
    mask: Array | None = None,
    feature_axis: int = 1,
) -> tuple[Array, Cache]:
    r"""Remove the mean and the scale of each group of features of each example.

    :math:`y = \gamma (x - \mu) / \sqrt{\sigma^2 + \varepsilon} + \beta`, with the mean and the
    biased variance of the group in that example.

    **Axes of the statistics:** the positions and the C / ``num_groups`` neighbouring features of
    a group. Examples never mix.

    Parameters
    ----------
    x : array of shape (B, C, ...) or, with ``feature_axis=-1``, (B, L, H)
    weight, bias : array of shape (C,), optional
        γ and β, one per feature, not per group. Without them the output is x̂.
    num_groups : int
        Must divide C.
    eps : float
        ε, inside the root.
    mask : boolean array of x's shape without its feature axis, optional
        True on real tokens. Elsewhere y is 0 and no gradient passes.
    feature_axis : int

    Returns
    -------
    y : array of x's shape and dtype
    cache : Cache

    Raises
    ------
    ValueError
        If ``num_groups`` does not divide C.

    Notes
    -----
    From :cite:t:`wu2018`. Same values as ``torch.nn.functional.group_norm``, which has no mask and
    no feature axis. With one group it is what some papers on images call LayerNorm; it is not
    ``torch.nn.LayerNorm(C)``, whose statistics belong to one position.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[1.0, 3.0, 10.0, 30.0]])  # one example, four features, no positions
    >>> y, cache = group_norm(x, num_groups=2, eps=1e-12)
    >>> y
    array([[-1.,  1., -1.,  1.]])
    """
    feature, mask = check_features(x, feature_axis, mask, weight=weight, bias=bias)
    check_groups(num_groups, x.shape[feature])
    xp = array_namespace(x)

    parts = _split(x, feature, num_groups)  # (B, groups, C / groups, ...)
    parts_mask = None if mask is None else _split(mask, feature, 1)
    axes = CHOICES.statistic_axes(parts.ndim, feature)  # all but B and the groups
    x_hat, normalized = normalize(parts, axes, centred=CHOICES.centred, eps=eps, mask=parts_mask)
    y = affine(x_hat, weight, bias, (feature, feature + 1), parts_mask)
    cache = Cache("group_norm", normalized, weight, bias, (feature, feature + 1))
    return xp.astype(xp.reshape(y, x.shape), x.dtype, copy=False), cache


def _split(x: Array, feature: int, groups: int) -> Array:
    """Split the feature axis in two: (B, C, ...) -> (B, groups, C / groups, ...)."""
    shape = tuple(x.shape)
    split = (groups, shape[feature] // groups)
    return array_namespace(x).reshape(x, shape[:feature] + split + shape[feature + 1 :])


def group_norm_backward(grad_y: Array, cache: Cache) -> Grads:
    """Gradients of a loss through :func:`group_norm`.

    The one formula, :func:`~normtutor.norms.normalize_backward`, with means over one group of one
    example.
    """
    check_cache(cache, "group_norm")
    parts, (feature, _) = cache.x_hat, cache.axes
    shape = tuple(parts.shape)
    whole = (*shape[:feature], shape[feature] * shape[feature + 1], *shape[feature + 2 :])
    check_grad_y(grad_y, parts, whole)
    grads = backward(_split(grad_y, feature, shape[feature]), cache)
    return grads._replace(x=array_namespace(grad_y).reshape(grads.x, whole))


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
    From :cite:t:`ulyanov2016`. Same values as ``torch.nn.functional.instance_norm``.

    Examples
    --------
    >>> import numpy as np
    >>> y, cache, _ = instance_norm(np.asarray([[[1.0, 3.0], [10.0, 30.0]]]), eps=1e-12)
    >>> y
    array([[[-1.,  1.],
            [-1.,  1.]]])
    """
    check_floating(x)
    feature = check_feature_axis(x, feature_axis, smallest_ndim=3)
    if (running_mean is None) != (running_var is None):
        rule = "running_mean and running_var go together"
        refuse(ValueError, rule, "only one of them", "Pass both or neither.")
    running: Any = {"running_mean": running_mean, "running_var": running_var}
    where: Any = {"eps": eps, "mask": mask, "feature_axis": feature}
    if running_mean is not None and not training:
        return batch_norm(x, weight, bias, **running, training=False, **where)
    channels = x.shape[feature]
    check_parameters(x, (channels,), **running)
    check_momentum(momentum)
    if math.prod(x.shape) == x.shape[0] * channels > 0:
        rule = "InstanceNorm needs more than one position per example, because the variance of one "
        got = f"x of shape {tuple(x.shape)}"
        refuse(ValueError, rule + "value is 0", got, "Use a longer input or another norm.")

    y, cache = group_norm(x, weight, bias, num_groups=channels, **where)
    after = RunningStats(running_mean, running_var)
    if running_mean is not None:
        _, _, mu, variance, axes, *_, parts_mask = cache.normalized
        n = count(cache.x_hat, axes, parts_mask)
        after = running_after_examples(after, mu, variance, n, momentum)
    return y, cache, after


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

    :func:`group_norm_backward` with one feature in each group, or, where running statistics were
    used, :func:`~normtutor.norms.batch_norm_backward` in evaluation.
    """
    check_cache(cache, "instance_norm", "group_norm", "batch_norm")
    made_by_batch_norm = cache.made_by == "batch_norm"
    return (batch_norm_backward if made_by_batch_norm else group_norm_backward)(grad_y, cache)
