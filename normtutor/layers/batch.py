"""BatchNorm, and the running statistics of a model."""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from normtutor import norms
from normtutor.layers.by_hand import by_hand
from normtutor.layers.common import (
    _axis_repr,
    _check_dtype,
    _check_features,
    _one_node,
    _over_batch,
    _store,
    _without_bias,
)
from normtutor.layers.power import PowerNorm
from normtutor.moments import unbiased
from normtutor.norms.batch_norm import running_after
from normtutor.validation import check_momentum

__all__ = ["BatchNorm", "update_statistics"]


class BatchNorm(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
    r"""BatchNorm over the formula :func:`normtutor.norms.batch_norm`.

    It is ``torch.nn.BatchNorm1d``, ``BatchNorm2d`` and ``BatchNorm3d`` in one, an instance of each,
    and with ``feature_axis=-1`` it serves sequences of shape (B, L, H).

    Parameters
    ----------
    num_features : int
    eps : float
    momentum : float or None
        The weight of the new value in the running statistics. None is the plain average of all
        batches so far.
    affine : bool
    track_running_stats : bool
        If False, the batch's statistics are used in evaluation too.
    bias : bool
        Whether there is a β beside γ, as in recent versions of torch.
    feature_axis : int

    Notes
    -----
    ``forward(x, mask=None)``: x of shape (B, C, ...) or (B, L, H), the mask boolean, of x's shape
    without the feature axis, True on real tokens. Masked positions are left out of every statistic;
    the output there is 0 and no gradient passes. The running variance is unbiased over the real
    tokens. A batch without a real token increases ``num_batches_tracked`` and changes nothing
    else. Raises ValueError for one value per feature in training and for a negative ε.
    ``torch.nn.SyncBatchNorm.convert_sync_batchnorm`` makes a layer whose features are on axis 1, so
    it raises for another ``feature_axis``. Source: :cite:t:`ioffe2015`.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
        feature_axis: int = 1,
    ) -> None:
        check_momentum(momentum)
        super().__init__(
            num_features,
            eps,
            momentum,
            affine,
            track_running_stats,
            device,
            dtype,
            **_without_bias(bias),
        )
        self.feature_axis = feature_axis

    @_one_node
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        _check_dtype(x, self.weight, self.bias, self.running_mean, self.running_var)
        _check_features(x, self.num_features, self.feature_axis)
        if self.eps < 0 and not self.training:  # in training the formula raises
            raise ValueError(
                f"eps must not be negative, or a small variance has no root; got {self.eps}. "
                "The usual value is 1e-5."
            )
        tracking = self.training and self.track_running_stats and self.running_mean is not None
        momentum: Any = 0.0 if self.momentum is None else self.momentum
        if tracking and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                # A Python number would hide the count from torch.compile; 1 / int64 is float32.
                wide = torch.promote_types(x.dtype, torch.float32)
                momentum = 1.0 / self.num_batches_tracked.to(wide)
        use_running = tracking or not self.training
        before = norms.RunningStats(
            self.running_mean if use_running else None, self.running_var if use_running else None
        )
        training = self.training or self.running_mean is None
        found, parameters = None, (self.weight, self.bias)
        if training and mask is None and self.eps > 0:
            found = by_hand(x, *parameters, self.eps, **_over_batch(x, self.feature_axis))
        if found is not None:
            y, mean, variance = found
            n = x.numel() // self.num_features
            running = running_after(before, mean, unbiased(variance, n), n, momentum)
        else:
            y, _, running = norms.batch_norm(
                x,
                *parameters,
                *before,
                training=training,
                momentum=momentum,
                eps=self.eps,
                mask=mask,
                feature_axis=self.feature_axis,
            )
        if tracking:
            _store(self.running_mean, running.mean)
            _store(self.running_var, running.var)
        return y

    def named_children(self) -> Iterator[tuple[str, nn.Module]]:
        """Return none, and raise where torch is about to forget the feature axis."""
        # The conversion asks each module for its children, after it has made a layer of its own.
        caller = sys._getframe(1).f_code.co_name
        if self.feature_axis != 1 and caller == "convert_sync_batchnorm":
            raise ValueError(
                "torch.nn.SyncBatchNorm has its features on axis 1; got a BatchNorm with "
                f"feature_axis={self.feature_axis}. Convert the model before its norms are "
                "replaced, or keep one process."
            )
        return super().named_children()

    def extra_repr(self) -> str:
        return super().extra_repr() + _axis_repr(self.feature_axis, 1)


def update_statistics(loader: Iterable[Any], model: nn.Module, device: Any = None) -> None:
    """Compute the running statistics anew, as plain averages over the batches of ``loader``.

    What ``torch.optim.swa_utils.update_bn`` does for BatchNorm, and for :class:`PowerNorm` too:
    after weights were averaged, or before an evaluation, the statistics of training belong to other
    weights. The model runs in training mode without gradients; ν and the parameters stay.

    Parameters
    ----------
    loader : iterable
        Of batches x, or of tuples or lists whose first entry is x.
    model : torch.nn.Module
    device : torch.device, optional
        Where to move each batch first.

    Raises
    ------
    ValueError
        If the model has no norm that keeps running statistics.
    """
    batch_norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    power_norms = [m for m in model.modules() if isinstance(m, PowerNorm)]
    if not any(m.track_running_stats for m in batch_norms) and not power_norms:
        raise ValueError(
            f"the model must hold a norm with running statistics to update; "
            f"{type(model).__name__} has no norm with running statistics. LayerNorm and RMSNorm "
            "keep none and need no update."
        )
    before: list[tuple[nn.Module, dict[str, Any]]] = [
        (m, {"momentum": m.momentum}) for m in batch_norms
    ]
    before += [
        (m, {"alpha_forward": m.alpha_forward, "warmup_steps": m.warmup_steps}) for m in power_norms
    ]
    steps = [m.num_batches_tracked.clone() for m in power_norms]
    flags = [(m, m.training) for m in model.modules()]
    try:
        for batch_norm in batch_norms:
            batch_norm.reset_running_stats()
            batch_norm.momentum = None
        for power_norm in power_norms:
            power_norm.running_mean_square.fill_(1)
            power_norm.num_batches_tracked.zero_()
            # In a warm-up ψ² is the plain average of the batches so far.
            power_norm.warmup_steps, power_norm.alpha_forward = sys.maxsize, 1.0
        model.train()
        with torch.no_grad():
            for batch in loader:
                x = batch[0] if isinstance(batch, list | tuple) else batch
                model(x if device is None else x.to(device))
    finally:
        for norm, attributes in before:
            for name, value in attributes.items():
                setattr(norm, name, value)
        for power_norm, step in zip(power_norms, steps, strict=True):
            power_norm.num_batches_tracked.copy_(step)
        for module, training in flags:
            module.training = training
