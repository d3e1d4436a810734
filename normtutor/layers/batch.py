"""BatchNorm, and the running statistics of a model."""

import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from normtutor import norms
from normtutor.layers.common import (
    axis_repr,
    check_dtypes,
    feature_axis_of,
    features_first,
    kernel_or_formula,
    one_node,
    store,
)
from normtutor.layers.power import PowerNorm
from normtutor.validation import check_momentum, refuse

__all__ = ["BatchNorm", "update_statistics"]


class BatchNorm(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
    r"""BatchNorm: torch's kernel, or the formula :func:`normtutor.norms.batch_norm`.

    It is ``torch.nn.BatchNorm1d``, ``BatchNorm2d`` and ``BatchNorm3d`` in one, an instance of each,
    and with ``feature_axis=-1`` it serves sequences of shape (B, L, H).

    Parameters
    ----------
    num_features, eps, momentum, affine, track_running_stats, bias, device, dtype
        As in ``torch.nn.BatchNorm1d``; ``momentum`` is the weight of the new value in the running
        statistics, and None makes them the plain average of all batches so far.
    feature_axis : int

    Notes
    -----
    ``forward(x, mask=None)``: x of shape (B, C, ...) or (B, L, H), the mask boolean, of x's shape
    without the feature axis, True on real tokens. Masked positions are left out of every statistic;
    the output there is 0 and no gradient passes. The running variance is unbiased over the real
    tokens. A batch without a real token increases ``num_batches_tracked`` and changes nothing
    else. Raises ValueError for one value per feature in training and for a negative ε.
    ``torch.nn.SyncBatchNorm.convert_sync_batchnorm`` makes a layer whose features are on axis 1
    whatever ``feature_axis`` is. Source: :cite:t:`ioffe2015`.
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
        if eps < 0:
            rule = "eps must not be negative, or a small variance has no root"
            refuse(ValueError, rule, eps, "The usual value is 1e-5.")
        super().__init__(
            num_features,
            eps,
            momentum,
            affine,
            track_running_stats,
            device,
            dtype,
            bias=bias,
        )
        self.feature_axis = feature_axis

    @one_node
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        check_dtypes(self, x)
        axis = feature_axis_of(self, x, self.num_features)
        tracking = self.training and self.track_running_stats and self.running_mean is not None
        momentum: Any = 0.0 if self.momentum is None else self.momentum
        if tracking and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                # A Python number would hide the count from torch.compile; 1 / int64 is float32.
                wide = torch.promote_types(x.dtype, torch.float32)
                momentum = 1.0 / self.num_batches_tracked.to(wide)
        use_running = tracking or not self.training
        running = (self.running_mean, self.running_var) if use_running else (None, None)
        training, eps = self.training or self.running_mean is None, self.eps
        parameters = (self.weight, self.bias)

        def kernel() -> Tensor:
            def on_axis_1(x: Tensor) -> Tensor:
                return F.batch_norm(x, *running, *parameters, training, momentum, eps)

            if axis == x.ndim - 1 > 1:  # one axis before them is enough, and the numbers stay
                return on_axis_1(x.reshape(-1, x.shape[-1])).reshape(x.shape)
            return features_first(on_axis_1, x, axis)

        def formula() -> Tensor:
            y, _, after = norms.batch_norm(
                x,
                *parameters,
                running_mean=running[0],
                running_var=running[1],
                training=training,
                momentum=momentum,
                eps=eps,
                mask=mask,
                feature_axis=axis,
            )
            if tracking:
                store(self.running_mean, after.mean)
                store(self.running_var, after.var)
            return y

        plain = mask is None and eps > 0 and isinstance(momentum, float) and x.numel() > 0
        return kernel_or_formula(plain, kernel, formula)

    def extra_repr(self) -> str:
        return super().extra_repr() + axis_repr(self.feature_axis, 1)


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
