"""InstanceNorm and GroupNorm, whose statistics belong to one example."""

import warnings
from typing import Any

from torch import Tensor, nn

from normtutor import norms
from normtutor.layers.by_hand import by_hand
from normtutor.layers.common import (
    _as_under_autocast,
    _axis_repr,
    _check_dtype,
    _check_features,
    _fits,
    _one_node,
    _over_batch,
    _runs_fused,
    _store,
    _without_bias,
)
from normtutor.norms.group_norm import running_after_examples
from normtutor.validation import check_feature_axis, check_groups, check_momentum

__all__ = ["GroupNorm", "InstanceNorm"]


class InstanceNorm(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d):
    r"""InstanceNorm over the formula :func:`normtutor.norms.instance_norm`.

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
            **_without_bias(bias),
        )
        self.feature_axis = feature_axis

    @_one_node
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        _check_dtype(x, self.weight, self.bias, self.running_mean, self.running_var)
        if x.ndim == 2:
            mask = None if mask is None else mask.unsqueeze(0)
            return self.forward(x.unsqueeze(0), mask).squeeze(0)
        if self.affine or self.track_running_stats:
            _check_features(x, self.num_features, self.feature_axis)
        elif not _fits(x, self.num_features, self.feature_axis):
            warnings.warn(
                f"x has {x.shape[self.feature_axis]} features along axis {self.feature_axis}, the "
                f"layer was built for {self.num_features}. Without an affine the number is unused.",
                stacklevel=3,
            )
        momentum = 0.0 if self.momentum is None else self.momentum
        before = norms.RunningStats(self.running_mean, self.running_var)
        found, parameters = None, (self.weight, self.bias)
        if mask is None and (self.training or self.running_mean is None):
            axes = _over_batch(x, self.feature_axis)
            found = by_hand(x, *parameters, self.eps, **axes | {"over": axes["over"][1:]})
        if found is not None:
            y, mean, variance = found
            n = x[0].numel() // mean[0].numel()
            running = running_after_examples(before, mean, variance, n, momentum)
        else:
            y, _, running = norms.instance_norm(
                x,
                *parameters,
                *before,
                training=self.training,
                momentum=momentum,
                eps=self.eps,
                mask=mask,
                feature_axis=self.feature_axis,
            )
        if self.training:
            _store(self.running_mean, running.mean)
            _store(self.running_var, running.var)
        return y

    def extra_repr(self) -> str:
        return super().extra_repr() + _axis_repr(self.feature_axis, 1)


class GroupNorm(nn.GroupNorm):
    r"""GroupNorm over the formula :func:`normtutor.norms.group_norm`.

    Parameters
    ----------
    num_groups : int
    num_channels : int
        A multiple of ``num_groups``.
    eps : float
    affine : bool
    bias : bool
        Whether there is a β beside γ, as in recent versions of torch.
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
        super().__init__(
            num_groups, num_channels, eps, affine, device, dtype, **_without_bias(bias)
        )
        self.feature_axis = feature_axis

    @_one_node
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        _check_dtype(x, self.weight, self.bias)
        _check_features(x, self.num_channels, self.feature_axis)
        x = _as_under_autocast(lambda two: nn.functional.group_norm(two, 1), x)
        if x.numel() == self.num_groups:
            raise ValueError(
                "GroupNorm needs more than one value to normalize; got x of shape "
                f"{tuple(x.shape)} with {self.num_groups} groups. Use fewer groups."
            )
        if _runs_fused() and mask is None and self.feature_axis == 1:
            return super().forward(x)
        if mask is None:
            axis = check_feature_axis(x, self.feature_axis)
            shape = (self.num_groups, self.num_channels // self.num_groups)
            split = x.unflatten(axis, shape)
            over = [a for a in range(1, split.ndim) if a != axis]
            along = (axis, axis + 1)
            found = by_hand(
                split, self.weight, self.bias, self.eps, over=over, along=along, shape=shape
            )
            if found is not None:
                return found[0].flatten(*along)
        y, _ = norms.group_norm(
            x,
            self.weight,
            self.bias,
            num_groups=self.num_groups,
            eps=self.eps,
            mask=mask,
            feature_axis=self.feature_axis,
        )
        return y

    def extra_repr(self) -> str:
        return super().extra_repr() + _axis_repr(self.feature_axis, 1)
