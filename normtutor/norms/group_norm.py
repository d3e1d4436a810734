r"""GroupNorm and InstanceNorm: statistics of one example, over its positions.

.. math::

    \hat x = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}, \qquad y = \gamma \hat x + \beta

GroupNorm takes :math:`\mu` and :math:`\sigma^2` over the positions and the features of one group.
InstanceNorm is GroupNorm with one feature in each group.
"""

import math
from typing import Any, NamedTuple

from normtutor.affine import affine, affine_backward, along
from normtutor.moments import Moments, count, mean, moments, unbiased, widen
from normtutor.norms.batch_norm import (
    BatchNormCache,
    BatchNormGrads,
    RunningStats,
    batch_norm,
    batch_norm_backward,
    running_after,
)
from normtutor.tracing import array_namespace, is_compiled, is_number, passes_jit
from normtutor.validation import (
    check_cache,
    check_feature_axis,
    check_floating,
    check_grad_y,
    check_groups,
    check_mask,
    check_momentum,
    check_parameter,
    check_running_stats,
    in_torchs_order,
)

Array = Any


@passes_jit
class GroupNormCache(NamedTuple):
    """What :func:`group_norm_backward` needs from the forward pass."""

    x_hat: Array
    inverse_std: Array
    weight: Array | None
    bias: Array | None
    mask: Array | None
    feature_axis: int
    num_groups: int


class GroupNormGrads(NamedTuple):
    """Gradients with respect to the arguments of :func:`group_norm`; None where one was None."""

    x: Array
    weight: Array | None
    bias: Array | None


def _split(x: Array, feature_axis: int, groups: int) -> Array:
    """Split the feature axis in two: (B, C, ...) -> (B, groups, C / groups, ...)."""
    xp = array_namespace(x)
    shape = tuple(x.shape)
    split = (groups, shape[feature_axis] // groups)
    return xp.reshape(x, shape[:feature_axis] + split + shape[feature_axis + 1 :])


def _statistic_axes(ndim: int, feature_axis: int) -> tuple[int, ...]:
    """Axes that share a statistic once the feature axis is split: all but batch and group."""
    return tuple(a for a in range(1, ndim) if a != feature_axis)


@in_torchs_order(
    "group_norm(x, num_groups, weight, bias, eps)",
    "group_norm(x, weight, bias, num_groups=2, eps=1e-5)",
)
def group_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    num_groups: int,
    eps: float = 1e-5,
    mask: Array | None = None,
    feature_axis: int = 1,
) -> tuple[Array, GroupNormCache]:
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
    cache : GroupNormCache

    Raises
    ------
    ValueError
        If ``num_groups`` does not divide C, or a shape does not fit.
    TypeError
        If an array does not hold real floating-point numbers, or the mask is not boolean.

    Notes
    -----
    From :cite:t:`wu2018`. Same values as ``torch.nn.functional.group_norm``, which has
    no mask and no feature axis. With one group it is what some papers on images call LayerNorm;
    it is not ``torch.nn.LayerNorm(C)``, whose statistics belong to one position.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[1.0, 3.0, 10.0, 30.0]])  # one example, four features, no positions
    >>> y, cache = group_norm(x, num_groups=2, eps=1e-12)
    >>> y
    array([[-1.,  1., -1.,  1.]])
    """
    check_floating(x)
    feature_axis = check_feature_axis(x, feature_axis)
    channels = x.shape[feature_axis]
    check_groups(num_groups, channels)
    check_parameter(weight, "weight", (channels,), x)
    check_parameter(bias, "bias", (channels,), x)
    mask = check_mask(mask, x, feature_axis)
    xp = array_namespace(x, weight, bias)

    wide = widen(x)
    if mask is not None:
        wide = xp.where(mask, wide, 0.0)
    mu, variance = _group_moments(wide, num_groups, mask, feature_axis)
    inverse_std = 1 / xp.sqrt(variance + eps)
    x_hat = xp.reshape((_split(wide, feature_axis, num_groups) - mu) * inverse_std, wide.shape)
    if is_compiled(x):
        # With a γ and a β for each example, the compiled backward pass sums over positions once,
        # for the statistics and for γ and β together, and over the examples at the end. In groups
        # of several features γ takes up 1 / σ, so that the sum over those comes at the end too.
        axes, values = (0, feature_axis), x_hat
        gamma, beta = (p if p is None else xp.tile(p, (x.shape[0], 1)) for p in (weight, bias))
        if num_groups < channels:
            centre, scale = (
                xp.repeat(xp.reshape(s, (-1, num_groups)), channels // num_groups, axis=1)
                for s in (mu, inverse_std)
            )
            values = wide - along(centre, wide, axes)
            gamma = scale if gamma is None else scale * gamma
        y = affine(values, gamma, beta, axes)
    else:
        y = affine(x_hat, weight, bias, (feature_axis,))
    if mask is not None:
        x_hat, y = xp.where(mask, x_hat, 0.0), xp.where(mask, y, 0.0)
    cache = GroupNormCache(x_hat, inverse_std, weight, bias, mask, feature_axis, num_groups)
    return xp.astype(y, x.dtype, copy=False), cache


def _group_moments(x: Array, groups: int, mask: Array | None, feature_axis: int) -> Moments:
    """Mean and biased variance of each group of each example."""
    split = _split(x, feature_axis, groups)
    split_mask = None if mask is None else _split(mask, feature_axis, 1)
    return moments(split, _statistic_axes(split.ndim, feature_axis), split_mask)


def group_norm_backward(grad_y: Array, cache: GroupNormCache) -> GroupNormGrads:
    r"""Gradients of a loss through :func:`group_norm`.

    As for LayerNorm, with the means taken over one group of one example:

    .. math::

        \frac{\partial L}{\partial x} = \frac{1}{\sqrt{\sigma^2 + \varepsilon}}
        \left( g - \overline{g} - \hat x\, \overline{g \hat x} \right), \qquad
        g = \gamma\, \frac{\partial L}{\partial y}.

    Parameters
    ----------
    grad_y : array of y's shape
    cache : GroupNormCache

    Returns
    -------
    GroupNormGrads
        ``x`` of grad_y's dtype, 0 at masked positions; ``weight`` and ``bias`` of shape (C,).
    """
    check_cache(cache, GroupNormCache, "group_norm")
    x_hat, inverse_std, weight, bias, mask, feature_axis, groups = cache
    check_grad_y(grad_y, x_hat)
    xp = array_namespace(grad_y, x_hat)
    wide = widen(grad_y)
    if mask is not None:
        wide = xp.where(mask, wide, 0.0)
    g, grad_weight, grad_bias = affine_backward(wide, x_hat, weight, bias, (feature_axis,))
    split_g, split_x_hat = _split(g, feature_axis, groups), _split(x_hat, feature_axis, groups)
    split_mask = None if mask is None else _split(mask, feature_axis, 1)
    axes = _statistic_axes(split_g.ndim, feature_axis)
    pull = mean(split_g, axes, split_mask)
    pull = pull + split_x_hat * mean(split_g * split_x_hat, axes, split_mask)
    grad_x = xp.reshape(inverse_std * (split_g - pull), x_hat.shape)
    if mask is not None:
        grad_x = xp.where(mask, grad_x, 0.0)
    return GroupNormGrads(xp.astype(grad_x, grad_y.dtype, copy=False), grad_weight, grad_bias)


@in_torchs_order(
    "instance_norm(x, running_mean, running_var, weight, bias, use_input_stats)",
    "instance_norm(x, weight, bias, running_mean, running_var, training=True)",
)
def instance_norm(
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
) -> tuple[Array, GroupNormCache | BatchNormCache, RunningStats]:
    r"""Remove the mean and the scale of each feature of each example.

    :math:`y = \gamma (x - \mu) / \sqrt{\sigma^2 + \varepsilon} + \beta`, with the mean and the
    biased variance of that feature in that example.

    **Axes of the statistics:** the positions or pixels. Examples and features never mix.

    Parameters
    ----------
    x : array of shape (B, C, ...) or, with ``feature_axis=-1``, (B, L, H)
    weight, bias : array of shape (C,), optional
    running_mean, running_var : array of shape (C,), optional
        Averages over the examples, the variance unbiased. They are used in evaluation if given,
        and the layer then computes what BatchNorm does in evaluation; most models do not use them.
    training, momentum, eps, mask, feature_axis
        As in :func:`~normtutor.norms.batch_norm`.

    Returns
    -------
    y : array of x's shape and dtype
    cache : GroupNormCache, or BatchNormCache where running statistics were used
    running : RunningStats

    Raises
    ------
    ValueError
        If the example's own statistics are used and there is only one position; if only one of the
        running statistics is given; if a shape does not fit.
    TypeError
        If an array does not hold real floating-point numbers, or the mask is not boolean.

    Notes
    -----
    From :cite:t:`ulyanov2016`. Same values as
    ``torch.nn.functional.instance_norm``.

    Examples
    --------
    >>> import numpy as np
    >>> y, cache, _ = instance_norm(np.asarray([[[1.0, 3.0], [10.0, 30.0]]]), eps=1e-12)
    >>> y
    array([[[-1.,  1.],
            [-1.,  1.]]])
    """
    check_floating(x)
    feature_axis = check_feature_axis(x, feature_axis, smallest_ndim=3)
    if (running_mean is None) != (running_var is None):
        raise ValueError(
            "running_mean and running_var go together; got only one of them. Pass both or neither."
        )
    if running_mean is not None and not training:
        return batch_norm(
            x,
            weight,
            bias,
            running_mean,
            running_var,
            training=False,
            eps=eps,
            mask=mask,
            feature_axis=feature_axis,
        )
    channels = x.shape[feature_axis]
    check_parameter(running_mean, "running_mean", (channels,), x)
    check_parameter(running_var, "running_var", (channels,), x)
    check_running_stats(running_mean, running_var, weight, bias)
    check_momentum(momentum)
    if math.prod(x.shape) == x.shape[0] * channels > 0:
        raise ValueError(
            "InstanceNorm needs more than one position per example, because the variance of one "
            f"value is 0; got x of shape {tuple(x.shape)}. Use a longer input or another norm."
        )
    y, cache = group_norm(
        x, weight, bias, num_groups=channels, eps=eps, mask=mask, feature_axis=feature_axis
    )
    running = RunningStats(running_mean, running_var)
    if running_mean is not None:
        wide, axes = widen(x), tuple(a for a in range(1, x.ndim) if a != feature_axis)
        n = count(wide, axes, cache.mask)
        running = running_after_examples(running, *moments(wide, axes, cache.mask), n, momentum)
    return y, cache, running


def running_after_examples(
    running: RunningStats, mu: Array, variance: Array, n: Any, momentum: float | Array
) -> RunningStats:
    """The running statistics after a batch: the examples' own, of n values, averaged over them."""
    real, total = None, n * mu.shape[0]
    if not is_number(n):  # with a mask, where an example that is all padding counts as none
        real, total = n > 0, array_namespace(n).sum(n, axis=0, keepdims=True)
    mu, variance = (mean(statistic, (0,), real) for statistic in (mu, unbiased(variance, n)))
    return running_after(running, mu, variance, total, momentum)


def instance_norm_backward(
    grad_y: Array, cache: GroupNormCache | BatchNormCache
) -> GroupNormGrads | BatchNormGrads:
    """Gradients of a loss through :func:`instance_norm`.

    :func:`group_norm_backward` with one feature in each group, or, where running statistics were
    used, :func:`~normtutor.norms.batch_norm_backward` in evaluation.
    """
    check_cache(cache, (GroupNormCache, BatchNormCache), "instance_norm")
    if isinstance(cache, BatchNormCache):
        return batch_norm_backward(grad_y, cache)
    return group_norm_backward(grad_y, cache)
