"""PowerNorm: each feature is divided by its quadratic mean over the batch. No mean is subtracted.

    x_hat = x / sqrt(psi**2 + eps)    psi**2 = mean(x**2) over B and L
    y = weight * x_hat + bias

PN-V divides by ψ of this batch. PN divides by a running average of ψ², in training too, and
replaces the gradient through it, which would need all past batches, by a second average, ν.
"""

from typing import Any, NamedTuple

from normtutor.moments import count, mean, mean_square, unless_empty, widen
from normtutor.norms.choices import TABLE
from normtutor.norms.normalize import (
    Cache,
    Grads,
    affine,
    affine_backward,
    backward,
    laid_along,
    normalize,
    normalize_backward,
)
from normtutor.tracing import array_namespace, passes_jit
from normtutor.validation import (
    check_cache,
    check_features,
    check_floating,
    check_grad_y,
    check_library,
    check_parameters,
    refuse,
)

Array = Any
CHOICES = TABLE["PowerNorm"]  # over B and L; root mean square; of an average over past batches
CHOICES_V = TABLE["PowerNorm-V"]  # of the batch in training, then of the average


@passes_jit
class PowerNormCache(NamedTuple):
    """What :func:`power_norm_backward` needs from the forward pass."""

    made_by: str
    norm: Cache
    training: bool
    exact: Any  # bool or boolean array: this batch divided by its own ψ, so its gradient is known

    @property
    def x_hat(self) -> Array:
        """x̂, what γ multiplies."""
        return self.norm.x_hat


def power_norm_v(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    eps: float = 1e-5,
    mask: Array | None = None,
    feature_axis: int = -1,
) -> tuple[Array, Cache]:
    r"""Remove the scale of each feature over the batch and keep its mean.

    :math:`y = \gamma x / \sqrt{\psi_B^2 + \varepsilon} + \beta`, with the mean square
    :math:`\psi_B^2` of this batch.

    **Axes of the statistic:** every axis but ``feature_axis``, as in BatchNorm.

    Parameters
    ----------
    x : array of shape (B, L, H) or, with ``feature_axis=1``, (B, C, ...)
    weight, bias : array of shape (H,), optional
    eps, mask, feature_axis
        As in :func:`~normtutor.norms.batch_norm`, but the features are last by default.

    Returns
    -------
    y : array of x's shape and dtype
    cache : Cache

    Notes
    -----
    From :cite:t:`shen2020`, section 4.1. torch.nn has no such layer.

    Examples
    --------
    >>> import numpy as np
    >>> y, cache = power_norm_v(np.asarray([[1.0, 10.0], [7.0, 70.0]]), eps=0.0)
    >>> y
    array([[0.2, 0.2],
           [1.4, 1.4]])
    """
    feature, mask = check_features(x, feature_axis, mask, weight=weight, bias=bias)
    axes = CHOICES_V.statistic_axes(x.ndim, feature)  # B and L
    x_hat, normalized = normalize(x, axes, centred=CHOICES_V.centred, eps=eps, mask=mask)
    y = affine(x_hat, weight, bias, (feature,), mask)
    cache = Cache("power_norm_v", normalized, weight, bias, (feature,))
    return array_namespace(x).astype(y, x.dtype, copy=False), cache


def power_norm_v_backward(grad_y: Array, cache: Cache) -> Grads:
    """Gradients of a loss through :func:`power_norm_v`, exact.

    That of :func:`~normtutor.norms.rms_norm_backward`, with means over the values of a feature.
    """
    check_cache(cache, "power_norm_v")
    check_grad_y(grad_y, cache.x_hat)
    return backward(grad_y, cache)


def power_norm(
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
) -> tuple[Array, PowerNormCache, Array]:
    r"""Divide each feature by a running quadratic mean, in training too.

    :math:`y = \gamma x / \sqrt{\psi_{t-1}^2 + \varepsilon} + \beta`, after which, in training,
    :math:`\psi_t^2 = \alpha \psi_{t-1}^2 + (1 - \alpha) \psi_B^2`. In the first ``warmup_steps``
    batches y is that of :func:`power_norm_v`, and :math:`\psi_t^2` is the plain average of
    :math:`\psi_B^2` so far. In evaluation y is linear in x except for β.

    **Axes of the statistic:** every axis but ``feature_axis``, and the past batches.

    Parameters
    ----------
    x : array of shape (B, L, H) or, with ``feature_axis=1``, (B, C, ...)
    weight, bias : array of shape (H,), optional
    running_mean_square : array of shape (H,)
        :math:`\psi_{t-1}^2`. Start with ones.
    training : bool
    alpha : float
        The weight of the past in ψ².
    eps, mask, feature_axis
        As in :func:`power_norm_v`.
    step : int or array of shape (), optional
        t, which counts from 1. Needed if ``warmup_steps`` is positive and in training.
    warmup_steps : int

    Returns
    -------
    y : array of x's shape and dtype
    cache : PowerNormCache
    running_mean_square : array of shape (H,)
        :math:`\psi_t^2`. It does not change if the batch has no real token, nor for a feature
        whose mean square is not finite.

    Raises
    ------
    ValueError
        If ``running_mean_square`` is missing, or ``step`` in a warm-up.

    Notes
    -----
    From :cite:t:`shen2020`, Algorithm 2. The warm-up's average is ours: the paper does
    not say how ψ starts. torch.nn has no such layer. After the warm-up ψ is a constant for autograd
    through this forward pass; the paper's gradient is :func:`power_norm_backward`. In the warm-up
    the two agree.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[1.0, 10.0], [7.0, 70.0]])
    >>> y, cache, psi_squared = power_norm(x, None, None, np.ones(2), alpha=0.9, eps=0.0)
    >>> y  # divided by 1, the start
    array([[ 1., 10.],
           [ 7., 70.]])
    >>> psi_squared
    array([  3.4, 250.9])
    """
    feature, mask = check_features(x, feature_axis, mask, weight=weight, bias=bias)
    if running_mean_square is None:
        rule = "power_norm divides by a running mean square"
        fix = "Start with ones, or use power_norm_v, which divides by that of the batch."
        refuse(ValueError, rule, None, fix)
    check_parameters(x, (x.shape[feature],), running_mean_square=running_mean_square)
    if training and warmup_steps > 0 and step is None:
        rule = f"a warm-up of {warmup_steps} steps needs the number of this step"
        fix = "Pass step=1 for the first batch, then 2, and so on."
        refuse(ValueError, rule, "step=None", fix)

    xp, wide = array_namespace(x), widen(x)
    if mask is not None:
        wide = xp.where(mask, wide, 0.0)
    axes = CHOICES.statistic_axes(x.ndim, feature)  # B and L
    psi_squared = laid_along(running_mean_square, wide, (feature,))
    updated, in_warmup = running_mean_square, False
    if training:
        batch, n = mean_square(wide, axes, mask), count(wide, axes, mask)
        updated = running_after(updated, batch, n, alpha, step, warmup_steps)
        if warmup_steps > 0:
            in_warmup = step <= warmup_steps
            psi_squared = choose(in_warmup, batch, psi_squared)
    memory = (None, psi_squared)
    x_hat, normalized = normalize(
        wide, axes, centred=CHOICES.centred, eps=eps, mask=mask, memory=memory
    )
    y = affine(x_hat, weight, bias, (feature,), mask)
    norm = Cache("power_norm", normalized, weight, bias, (feature,))
    cache = PowerNormCache("power_norm", norm, training, in_warmup)
    return xp.astype(y, x.dtype, copy=False), cache, updated


def running_after(
    running: Array, batch: Array, n: Any, alpha: float, step: Any, warmup_steps: int
) -> Array:
    """The running mean square after a batch with this one, of n values."""
    xp = array_namespace(batch)
    old = xp.reshape(xp.astype(running, batch.dtype, copy=False), batch.shape)
    updated = alpha * old + (1 - alpha) * batch
    if warmup_steps > 0:
        updated = choose(step <= warmup_steps, old + (batch - old) / step, updated)
    updated = unless_empty(updated, old, n)
    return restore(xp.where(xp.isfinite(updated), updated, old), running)


def choose(condition: Any, yes: Array, no: Array) -> Array:
    """``xp.where`` that also takes a Python bool."""
    if isinstance(condition, bool):
        return yes if condition else no
    return array_namespace(yes).where(condition, yes, no)


def restore(updated: Array, old: Array) -> Array:
    """The updated statistic in the shape and dtype of the old one."""
    xp = array_namespace(updated)
    return xp.astype(xp.reshape(updated, old.shape), old.dtype, copy=False)


def power_norm_backward(
    grad_y: Array, cache: PowerNormCache, nu: Array, *, alpha: float = 0.9
) -> tuple[Grads, Array]:
    r"""The approximate gradients of :func:`power_norm`, and the running average ν after them.

    With :math:`g = \gamma\, \partial L / \partial y`,
    :math:`\Gamma = \overline{\hat x^2}` and :math:`\Lambda = \overline{g \hat x}` of this batch,

    .. math::

        \frac{\partial L}{\partial x} = \frac{1}{\psi_{t-1}} (g - \nu_{t-1} \hat x), \qquad
        \nu_t = \nu_{t-1} \bigl(1 - (1 - \alpha) \Gamma\bigr) + (1 - \alpha) \Lambda .

    In the warm-up, where :math:`\psi` is the batch's own, Λ replaces
    :math:`\nu_{t-1}`, which makes the gradient exact; ν is still averaged. In evaluation ψ is a
    constant: :math:`\partial L / \partial x = g / \psi`, and ν stays.

    Parameters
    ----------
    grad_y : array of y's shape
    cache : PowerNormCache
    nu : array of shape (H,)
        :math:`\nu_{t-1}`. Start with zeros.
    alpha : float
        The weight of the past in ν.

    Returns
    -------
    grads : Grads
        ``x`` of grad_y's dtype, 0 at masked positions; ``weight`` and ``bias`` of shape (H,).
    nu : array of shape (H,)
        :math:`\nu_t`. Where it would not be finite it keeps its old value.
    """
    check_cache(cache, "power_norm")
    _, (_, normalized, weight, bias, along, *_), training, exact = cache
    x_hat, mask = normalized.x_hat, normalized.mask
    check_grad_y(grad_y, x_hat)
    if training:
        check_floating(nu, "nu")
        check_library(nu, "nu", x_hat, "y")
    xp = array_namespace(grad_y)
    g, grad_weight, grad_bias = affine_backward(grad_y, x_hat, weight, bias, along, mask)
    if not training:
        grad_x, new_nu = normalize_backward(g, normalized), nu
    else:
        over, old = normalized.axes, laid_along(nu, x_hat, along)
        product = mean(g * x_hat, over, mask)  # Λ
        grad_x = normalize_backward(g, normalized, choose(exact, product, old))
        updated = old * (1 - (1 - alpha) * mean_square(x_hat, over, mask)) + (1 - alpha) * product
        new_nu = restore(xp.where(xp.isfinite(updated), updated, old), nu)
    grads = Grads(xp.astype(grad_x, grad_y.dtype, copy=False), grad_weight, grad_bias)
    return grads, new_nu
