"""PowerNorm as its authors published it in code, which differs from their paper.

The pieces are :mod:`normtutor.norms.rms_norm` over groups of features and
:mod:`normtutor.norms.power_norm`; this module only contains how the published code combines and
changes them.
"""

from typing import Any, NamedTuple

from normtutor.moments import count, mean_square, unless_empty, widen
from normtutor.norms.normalize import Cache, Grads, laid_along
from normtutor.norms.power_norm import (
    PowerNormCache,
    choose,
    power_norm,
    power_norm_backward,
    restore,
)
from normtutor.norms.rms_norm import rms_norm, rms_norm_backward
from normtutor.tracing import array_namespace, passes_jit
from normtutor.validation import (
    check_cache,
    check_features,
    check_grad_y,
    check_groups,
)

Array = Any


@passes_jit
class AuthorsCodeCache(NamedTuple):
    """What :func:`power_norm_authors_code_backward` needs from the forward pass.

    In training, where ν counts padding, ``power`` holds every token and has no mask of its own.
    """

    made_by: str
    scaling: Cache
    power: PowerNormCache
    mask: Array | None


def power_norm_authors_code(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    running_mean_square: Array | None = None,
    *,
    training: bool = True,
    alpha: float = 0.9,
    eps: float = 1e-5,
    mask: Array | None = None,
    feature_axis: int = -1,
    step: Any = None,
    warmup_steps: int = 0,
    groups: int = 1,
    nu_counts_padding: bool = True,
) -> tuple[Array, AuthorsCodeCache, Array]:
    r"""PowerNorm as its authors published it in code, which differs from their paper.

    1. Each token is first divided by its own root mean square, within ``groups`` runs of
       neighbouring features, in evaluation too. The rest works on the scaled token s.
    2. For :math:`t \le` ``warmup_steps`` the divisor is :math:`\psi_B` of this batch, then
       :math:`\psi_{t-1}`.
    3. For :math:`t <` ``warmup_steps`` the running average is first replaced by the plain average
       so far; the moving average is then applied on top of it, at every step.
    4. The backward pass divides by :math:`\psi_B` of this batch, not by :math:`\psi_{t-1}`, and
       uses ν from the first step on.
    5. With a mask :math:`\psi_B` is that of the real tokens, but ν averages over padding too, where
       no gradient arrives and :math:`\hat x` is the padding's own value, divided like the rest, or
       0 where that is not finite. ``nu_counts_padding=False`` leaves padding out.

    **Axes of the statistics:** the features of a group for the scaling; every axis but
    ``feature_axis``, and the past batches, for ψ.

    Parameters
    ----------
    x, weight, bias, running_mean_square, training, alpha, eps, mask, feature_axis
        As in :func:`~normtutor.norms.power_norm`.
    step, warmup_steps
        As in :func:`~normtutor.norms.power_norm`.
    groups : int
        Must divide H. The authors use the number of attention heads.
    nu_counts_padding : bool
        Whether ν averages over padding too, as published. Without a mask it makes no difference.

    Returns
    -------
    y : array of x's shape and dtype
    cache : AuthorsCodeCache
    running_mean_square : array of shape (H,)

    Raises
    ------
    ValueError
        As in :func:`~normtutor.norms.power_norm`, and if ``groups`` does not divide H.

    Notes
    -----
    Restated from the code that accompanies :cite:t:`shen2020`. Equal to it
    at the real tokens, if the loss reads no padding. At padding y is 0 here and no gradient
    passes; in the published code both follow the same formulas. Two faults are not reproduced: one
    number that is not finite ruins ν for good, and a batch of padding ruins ψ.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[3.0, 4.0], [30.0, 40.0]])
    >>> y, cache, _ = power_norm_authors_code(x, None, None, np.ones(2), eps=0.0)
    >>> y.round(3)  # both tokens have the same direction
    array([[0.849, 1.131],
           [0.849, 1.131]])
    """
    axis, padding = check_features(x, feature_axis, mask, weight=weight, bias=bias)
    check_groups(groups, x.shape[axis])
    xp, wide = array_namespace(x), widen(x)
    if padding is not None:
        counts = training and nu_counts_padding
        wide = xp.where(padding | xp.isfinite(wide) if counts else padding, wide, 0.0)
    scaled, scaling = rms_norm(_split_last(wide, axis, groups), eps=1e-5)
    s = _join_last(scaled, axis)

    y, power, updated = power_norm(
        s,
        weight,
        bias,
        running_mean_square,
        training=training,
        alpha=alpha,
        eps=eps,
        mask=mask,
        feature_axis=axis,
        step=step,
        warmup_steps=warmup_steps,
    )
    if training:
        axes = tuple(a for a in range(s.ndim) if a != axis)
        batch = mean_square(s, axes, padding)
        past = old = laid_along(running_mean_square, s, (axis,))
        if warmup_steps > 0:
            past = choose(step < warmup_steps, old + (batch - old) / step, old)
        updated = unless_empty(alpha * past + (1 - alpha) * batch, old, count(s, axes, padding))
        updated = xp.where(xp.isfinite(updated), updated, old)
        updated = restore(updated, running_mean_square)
        # The backward pass divides by this batch, and ν averages over all that it is given.
        normalized = power.norm.normalized
        if padding is not None and nu_counts_padding:
            x_hat = s * normalized.r
            # What is not finite there shall not spoil ν.
            x_hat = xp.where(padding | xp.isfinite(x_hat), x_hat, 0.0)
            normalized = normalized._replace(x_hat=x_hat, mask=None)
        normalized = normalized._replace(r=1 / xp.sqrt(batch + eps))
        power = power._replace(norm=power.norm._replace(normalized=normalized), exact=False)
    cache = AuthorsCodeCache("power_norm_authors_code", scaling, power, padding)
    return xp.astype(y, x.dtype, copy=False), cache, updated


def _split_last(x: Array, axis: int, groups: int) -> Array:
    """Move the feature axis to the end and split it: (..., groups, H / groups)."""
    xp = array_namespace(x)
    order = (*[a for a in range(x.ndim) if a != axis], axis)  # torch.vmap knows no moveaxis
    x = xp.permute_dims(x, order)
    return xp.reshape(x, (*x.shape[:-1], groups, x.shape[-1] // groups))


def _join_last(x: Array, axis: int) -> Array:
    """Undo :func:`_split_last`."""
    xp = array_namespace(x)
    x = xp.reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    order = list(range(x.ndim - 1))
    order.insert(axis, x.ndim - 1)
    return xp.permute_dims(x, tuple(order))


def power_norm_authors_code_backward(
    grad_y: Array, cache: AuthorsCodeCache, nu: Array, *, alpha: float = 0.9
) -> tuple[Grads, Array]:
    """Gradients as the published code computes them, and ν after them.

    :func:`~normtutor.norms.power_norm_backward` with the divisor of this batch, then the exact
    backward pass of the scaling. Arguments and results as there.
    """
    check_cache(cache, "power_norm_authors_code")
    check_grad_y(grad_y, cache.power.norm.x_hat)
    xp, (axis,) = array_namespace(grad_y), cache.power.norm.along
    wide = widen(grad_y)
    if cache.mask is not None:
        wide = xp.where(cache.mask, wide, 0.0)
    grads, nu = power_norm_backward(wide, cache.power, nu, alpha=alpha)
    groups = cache.scaling.x_hat.shape[-2]
    grad_x = rms_norm_backward(_split_last(grads.x, axis, groups), cache.scaling).x
    grad_x = _join_last(grad_x, axis)
    if cache.mask is not None:
        grad_x = xp.where(cache.mask, grad_x, 0.0)
    grad_x = xp.astype(grad_x, grad_y.dtype, copy=False)
    return grads._replace(x=grad_x), nu
