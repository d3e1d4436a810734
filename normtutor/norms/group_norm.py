"""GroupNorm: each group of features of each example is centred and scaled over the positions.

x_hat = (x - mean) / sqrt(variance + eps)    over L and a group of H
y = weight * x_hat + bias
"""

from typing import Any

from normtutor.norms.choices import TABLE
from normtutor.norms.normalize import Cache, Grads, affine, backward, normalize
from normtutor.tracing import array_namespace
from normtutor.validation import check_cache, check_features, check_grad_y, check_groups

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
    eps, mask, feature_axis
        As in :func:`~normtutor.norms.batch_norm`.

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
    parts, (feature, _) = cache.x_hat, cache.along
    shape = tuple(parts.shape)
    whole = (*shape[:feature], shape[feature] * shape[feature + 1], *shape[feature + 2 :])
    check_grad_y(grad_y, parts, whole)
    grads = backward(_split(grad_y, feature, shape[feature]), cache)
    return grads._replace(x=array_namespace(grad_y).reshape(grads.x, whole))
