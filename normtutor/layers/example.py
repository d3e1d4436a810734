"""InstanceNorm and GroupNorm, whose statistics belong to one example."""

import warnings
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from normtutor import norms
from normtutor.layers.common import (
    as_under_autocast,
    axis_repr,
    check_dtypes,
    feature_axis_of,
    features_first,
    kernel_or_formula,
    one_node,
    store,
)
from normtutor.validation import check_feature_axis, check_groups, check_momentum, refuse

__all__ = ["GroupNorm", "InstanceNorm"]


class InstanceNorm(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d):
    r"""InstanceNorm: torch's kernel, or the formula :func:`normtutor.norms.instance_norm`.

    It is ``torch.nn.InstanceNorm1d``, ``InstanceNorm2d`` and ``InstanceNorm3d`` in one, an instance
    of each, and with ``feature_axis=-1`` it serves sequences of shape (B, L, H). Unlike torch's it
    takes only an input with two axes as unbatched: (C, L) is one example, and anything with more
    axes is a batch.

    Parameters
    ----------
    num_features, eps, momentum, affine, track_running_stats, bias, feature_axis
        As in :class:`BatchNorm`, but ``affine`` and ``track_running_stats`` are False by default.

    Notes
    -----
    ``forward(x, mask=None)``: shapes and mask as in :class:`BatchNorm`. Raises ValueError for one
    position per example. As in torch, a wrong number of features is only a warning where there is
    no affine. Source: :cite:t:`ulyanov2016`.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
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
            momentum,  # type: ignore[arg-type]
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
        if x.ndim == 2:
            mask = None if mask is None else mask.unsqueeze(0)
            return self.forward(x.unsqueeze(0), mask).squeeze(0)
        axis = check_feature_axis(x, self.feature_axis, smallest_ndim=3)
        if self.affine or self.track_running_stats:
            feature_axis_of(self, x, self.num_features)
        elif x.shape[axis] != self.num_features:
            warnings.warn(
                f"x has {x.shape[axis]} features along axis {self.feature_axis}, the layer was "
                f"built for {self.num_features}. Without an affine the number is unused.",
                stacklevel=3,
            )
        momentum = 0.0 if self.momentum is None else self.momentum
        running, parameters = (self.running_mean, self.running_var), (self.weight, self.bias)
        own = self.training or self.running_mean is None

        def kernel(x: Tensor) -> Tensor:
            return F.instance_norm(x, *running, *parameters, own, momentum, self.eps)

        def formula() -> Tensor:
            y, _, after = norms.instance_norm(
                x,
                *parameters,
                running_mean=running[0],
                running_var=running[1],
                training=self.training,
                momentum=momentum,
                eps=self.eps,
                mask=mask,
                feature_axis=axis,
            )
            if self.training:
                store(self.running_mean, after.mean)
                store(self.running_var, after.var)
            return y

        plain = mask is None and x.numel() > 0
        return kernel_or_formula(plain, lambda: features_first(kernel, x, axis), formula)

    def extra_repr(self) -> str:
        return super().extra_repr() + axis_repr(self.feature_axis, 1)


class GroupNorm(nn.GroupNorm):
    r"""GroupNorm: torch's kernel, or the formula :func:`normtutor.norms.group_norm`.

    Parameters
    ----------
    num_groups, num_channels, eps, affine, bias, device, dtype
        As in ``torch.nn.GroupNorm``.
    feature_axis : int

    Notes
    -----
    ``forward(x, mask=None)``: shapes and mask as in :class:`BatchNorm`. Raises ValueError where
    there is only a single value to normalize. Where a square overflows, the output is as that of
    :class:`LayerNorm`. Source: :cite:t:`wu2018`.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
        feature_axis: int = 1,
    ) -> None:
        check_groups(num_groups, num_channels)
        super().__init__(num_groups, num_channels, eps, affine, device, dtype, bias=bias)
        self.feature_axis = feature_axis

    @one_node
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        check_dtypes(self, x)
        axis = feature_axis_of(self, x, self.num_channels)
        if x.numel() == self.num_groups:
            got = f"x of shape {tuple(x.shape)} with {self.num_groups} groups"
            rule = "GroupNorm needs more than one value to normalize"
            refuse(ValueError, rule, got, "Use fewer groups.")
        parameters = (self.weight, self.bias)

        def kernel(x: Tensor) -> Tensor:
            return F.group_norm(x, self.num_groups, *parameters, self.eps)

        def formula() -> Tensor:
            return norms.group_norm(
                as_under_autocast(lambda two: F.group_norm(two, 1), x),
                *parameters,
                num_groups=self.num_groups,
                eps=self.eps,
                mask=mask,
                feature_axis=axis,
            )[0]

        plain = mask is None and x.numel() > 0
        return kernel_or_formula(plain, lambda: features_first(kernel, x, axis), formula)

    def extra_repr(self) -> str:
        return super().extra_repr() + axis_repr(self.feature_axis, 1)
