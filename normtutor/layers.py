"""The norms as ``torch.nn`` modules over the formulas of :mod:`normtutor.norms`.

Each layer that torch.nn also has is a subclass of it: constructor, parameters, buffers,
``state_dict`` and ``repr`` are torch's own, and only ``forward`` is ours. So a layer of this module
can replace torch's in any model, and loads its weights. The layers whose statistics
cross tokens take a mask as well.
"""

import sys
import warnings
from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.ao.quantization import fuser_method_mappings
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import parametrize

from normtutor import norms
from normtutor.tracing import find_torch
from normtutor.validation import check_groups, check_momentum, partial_count

__all__ = [
    "AdaptiveLayerNorm",
    "AdaptiveLayerNormZero",
    "BatchNorm",
    "DynamicTanh",
    "FiLM",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
    "PartialRMSNorm",
    "PowerNorm",
    "RMSNorm",
    "ScaleNorm",
    "update_statistics",
    "weight_norm",
]

find_torch()  # before a compiler follows the search


def _one_node(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let ``torch.fx`` record a layer as one node, as it does with the layers of torch.nn."""

    @wraps(forward)
    def recorded(self: nn.Module, x: Any, *inputs: Any, **named: Any) -> Any:
        if isinstance(x, fx.Proxy):
            path = x.tracer.path_of_module(self)  # type: ignore[attr-defined]
            return x.tracer.create_proxy("call_module", path, (x, *inputs), named)
        return forward(self, x, *inputs, **named)

    return recorded


def _check_tensor(x: Any, name: str = "x") -> None:
    """Raise TypeError unless x is a torch tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{name} must be a torch tensor; got {type(x).__module__}.{type(x).__qualname__}. "
            "Convert it with torch.as_tensor, or call the formula in normtutor.norms, which takes "
            "NumPy and JAX arrays."
        )


def _check_dtype(x: Tensor, *parameters: Tensor | None) -> None:
    """Raise TypeError unless x is a tensor and each parameter has its dtype.

    Beside half precision a parameter may be float32 too.
    """
    _check_tensor(x)
    half = x.dtype in (torch.float16, torch.bfloat16)
    for parameter in parameters:
        if parameter is None or not x.is_floating_point():
            continue
        if parameter.dtype != x.dtype and not (half and parameter.dtype == torch.float32):
            raise TypeError(
                "the parameters and buffers must have x's dtype, or float32 beside half-precision "
                f"x; got {parameter.dtype} beside x of {x.dtype}. Convert one of them, for example "
                f"with layer.to({x.dtype})."
            )


def _as_under_autocast(theirs: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return x in the dtype in which torch's layer would compute and return under autocast.

    On some devices autocast lets some norms compute and return float32, and which they are
    changes with torch's version. So torch's own function is asked, with two numbers.
    """
    if x.dtype not in (torch.float16, torch.bfloat16):
        return x
    kind = x.device.type
    if not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):
        return x
    return x.to(theirs(x.new_zeros(1, 2)).dtype)


def _fits(x: Tensor, num_features: int, feature_axis: int) -> bool:
    """Whether x has ``num_features`` entries along ``feature_axis``, as far as there is one."""
    if not -x.ndim <= feature_axis < x.ndim or x.ndim < 2:
        return True  # the formula says what is wrong
    return x.shape[feature_axis] == num_features


def _check_features(x: Tensor, num_features: int, feature_axis: int) -> None:
    """Raise ValueError unless x has ``num_features`` entries along ``feature_axis``."""
    if not _fits(x, num_features, feature_axis):
        raise ValueError(
            f"x must have {num_features} features along axis {feature_axis}; got "
            f"{x.shape[feature_axis]} in x of shape {tuple(x.shape)}. For (B, L, H), "
            "use feature_axis=-1; for (B, C, ...), feature_axis=1."
        )


def _without_bias(bias: bool) -> dict[str, bool]:
    """The argument that leaves β out, where it is wanted: older versions of torch lack it."""
    return {} if bias else {"bias": False}


def _axis_repr(feature_axis: int, default: int) -> str:
    return "" if feature_axis == default else f", feature_axis={feature_axis}"


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
    ``torch.nn.SyncBatchNorm.convert_sync_batchnorm`` does not know ``feature_axis``: it makes a
    layer whose features are on axis 1. Source: :cite:t:`ioffe2015`.
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
        y, _, running = norms.batch_norm(
            x,
            self.weight,
            self.bias,
            self.running_mean if use_running else None,
            self.running_var if use_running else None,
            training=self.training or self.running_mean is None,
            momentum=momentum,
            eps=self.eps,
            mask=mask,
            feature_axis=self.feature_axis,
        )
        if tracking:
            _store(self.running_mean, running.mean)
            _store(self.running_var, running.var)
        return y

    def extra_repr(self) -> str:
        return super().extra_repr() + _axis_repr(self.feature_axis, 1)


def _fuse(is_qat: bool, *modules: Any) -> nn.Module:
    """Fold a BatchNorm of ours into the layer before it, as torch folds its own."""
    *others, norm = [m for m in modules if not isinstance(m, nn.ReLU)]
    if norm.training or norm.feature_axis != 1:
        raise ValueError(
            "a BatchNorm can be folded into the layer before it only in evaluation and with "
            f"feature_axis=1; got training={norm.training}, feature_axis={norm.feature_axis}. "
            "Call model.eval() first; for training with quantization undo swap_norms first."
        )
    kinds: dict[Any, Any] = {nn.Conv2d: nn.BatchNorm2d, nn.Conv3d: nn.BatchNorm3d}
    kind = kinds.get(type(others[0]), nn.BatchNorm1d)
    twin = kind(norm.num_features, norm.eps, device="meta")
    twin._parameters, twin._buffers = norm._parameters, norm._buffers
    twin.eval()
    theirs = [twin if m is norm else m for m in modules]
    method = fuser_method_mappings.get_fuser_method(tuple(type(m) for m in theirs))
    return method(is_qat, *theirs)


# torch.ao.quantization.fuse_modules looks classes up by name, so a subclass must be listed.
for _before in (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear):
    for _after in ((BatchNorm,), (BatchNorm, nn.ReLU)):
        fuser_method_mappings._DEFAULT_OP_LIST_TO_FUSER_METHOD[(_before, *_after)] = _fuse


def _store(buffer: Tensor | None, value: Tensor | None) -> None:
    """Write ``value`` into ``buffer`` without its graph, which would keep every past batch."""
    if buffer is not None and value is not None:
        with torch.no_grad():
            buffer.copy_(value.detach())


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
        y, _, running = norms.instance_norm(
            x,
            self.weight,
            self.bias,
            self.running_mean,
            self.running_var,
            training=self.training,
            momentum=0.0 if self.momentum is None else self.momentum,
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
    there is only a single value to normalize. Source: :cite:t:`wu2018`.
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


class LayerNorm(nn.LayerNorm):
    r"""LayerNorm over the formula :func:`normtutor.norms.layer_norm`.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The trailing shape that shares a statistic: H for x of shape (B, L, H).
    eps : float
    elementwise_affine : bool
    bias : bool
    feature_axis : int
        With 1 each position of x of shape (B, C, ...) is normalized over its C features, as in
        ConvNeXt; ``normalized_shape`` is then C.

    Notes
    -----
    ``forward(x)``: x of shape (..., \*normalized_shape). Under autocast on a GPU the output is
    float32, as torch's. Source: :cite:t:`ba2016`.
    """

    def __init__(
        self,
        normalized_shape: int | list[int] | torch.Size,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        feature_axis: int = -1,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device, dtype)
        self.feature_axis = _only_one_axis(feature_axis, self.normalized_shape)

    @_one_node
    def forward(self, x: Tensor) -> Tensor:
        _check_dtype(x, self.weight, self.bias)
        x = _as_under_autocast(lambda two: nn.functional.layer_norm(two, (2,)), x)
        y, _ = norms.layer_norm(
            _features_last(x, self.feature_axis),
            self.weight,
            self.bias,
            normalized_shape=self.normalized_shape,
            eps=self.eps,
        )
        return _features_back(y, self.feature_axis)

    def extra_repr(self) -> str:
        return super().extra_repr() + _axis_repr(self.feature_axis, -1)


def _only_one_axis(feature_axis: int, normalized_shape: tuple[int, ...]) -> int:
    """Return ``feature_axis``; raise ValueError if several axes are normalized, not at the end."""
    if feature_axis != -1 and len(normalized_shape) != 1:
        raise ValueError(
            f"feature_axis={feature_axis} needs one number as normalized_shape; got "
            f"{tuple(normalized_shape)}. Several axes are normalized only at the end of x."
        )
    return feature_axis


def _features_last(x: Tensor, feature_axis: int) -> Tensor:
    """Move the feature axis to the end, if it is not there."""
    if feature_axis == -1:
        return x
    if not -x.ndim <= feature_axis < x.ndim:
        raise ValueError(
            f"feature_axis={feature_axis} does not exist in x of shape {tuple(x.shape)}. "
            "Use 1 for (B, C, ...) and -1 for (B, L, H)."
        )
    return x.movedim(feature_axis, -1)


def _features_back(y: Tensor, feature_axis: int) -> Tensor:
    """Undo :func:`_features_last`."""
    return y if feature_axis == -1 else y.movedim(-1, feature_axis)


class RMSNorm(nn.RMSNorm):
    r"""RMSNorm over the formula :func:`normtutor.norms.rms_norm`.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The trailing shape that shares a statistic: H for x of shape (B, L, H).
    eps : float or None
        None is the machine epsilon of the dtype in which the statistic is accumulated.
    elementwise_affine : bool
    add_unit_offset : bool
        Multiply by 1 + γ, and start with γ = 0, as Gemma does.
    cast_before_weight : bool
        Round to x's dtype before the multiplication by γ, as Llama and Qwen do.
    feature_axis : int
        As in :class:`LayerNorm`.

    Notes
    -----
    ``forward(x)``: x of shape (..., \*normalized_shape). Half-precision x gives half-precision
    output whatever the dtype of the weight, but under autocast on a GPU float32, as torch's.
    Source: :cite:t:`zhang2019rms`.
    """

    def __init__(
        self,
        normalized_shape: int | list[int] | torch.Size,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        add_unit_offset: bool = False,
        cast_before_weight: bool = False,
        feature_axis: int = -1,
    ) -> None:
        self.add_unit_offset = add_unit_offset  # reset_parameters reads it
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)
        self.cast_before_weight = cast_before_weight
        self.feature_axis = _only_one_axis(feature_axis, self.normalized_shape)

    @_one_node
    def forward(self, x: Tensor) -> Tensor:
        _check_tensor(x)
        x = _as_under_autocast(lambda two: nn.functional.rms_norm(two, (2,)), x)
        y, _ = norms.rms_norm(
            _features_last(x, self.feature_axis),
            self.weight,
            normalized_shape=self.normalized_shape,
            eps=self.eps,
            add_unit_offset=self.add_unit_offset,
            cast_before_weight=self.cast_before_weight,
        )
        return _features_back(y, self.feature_axis)

    def reset_parameters(self) -> None:
        """Set the weight to one, or to zero where it is an offset from one."""
        if self.elementwise_affine:
            nn.init.constant_(self.weight, 0.0 if self.add_unit_offset else 1.0)

    def extra_repr(self) -> str:
        text = super().extra_repr()
        if self.add_unit_offset:
            text += ", add_unit_offset=True"
        if self.cast_before_weight:
            text += ", cast_before_weight=True"
        return text + _axis_repr(self.feature_axis, -1)


class ScaleNorm(nn.Module):
    r"""ScaleNorm over the formula :func:`normtutor.norms.scale_norm`.

    Parameters
    ----------
    dim : int
        d, the length of the last axis.
    eps : float

    Notes
    -----
    ``forward(x)``: x of shape (..., dim). Its one parameter ``g`` starts at √d, where the layer is
    RMSNorm. Source: :cite:t:`nguyen2019`.
    """

    def __init__(self, dim: int, eps: float = 1e-5, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps
        self.g = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
        self.reset_parameters()

    @_one_node
    def forward(self, x: Tensor) -> Tensor:
        _check_tensor(x)
        _check_features(x, self.dim, -1)
        return norms.scale_norm(x, self.g, eps=self.eps)[0]

    def reset_parameters(self) -> None:
        """Set g to √d."""
        nn.init.constant_(self.g, self.dim**0.5)

    def extra_repr(self) -> str:
        return f"{self.dim}, eps={self.eps}"


class _Conditional(nn.Module):
    """The linear map from a condition to what stands in the place of γ and β, all 0 at first."""

    def __init__(
        self, num_features: int, condition_features: int, parts: int, device: Any, dtype: Any
    ) -> None:
        super().__init__()
        self.num_features, self.condition_features = num_features, condition_features
        self.projection = nn.Linear(
            condition_features, parts * num_features, device=device, dtype=dtype
        )
        self.parts = parts
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the map to zero, so that every condition gives γ = 1 and β = 0."""
        nn.init.zeros_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def _parts_of(self, x: Tensor, condition: Tensor) -> tuple[Tensor, ...]:
        _check_tensor(x)
        _check_tensor(condition, "condition")
        expected = (x.shape[0], self.condition_features)
        if tuple(condition.shape) != expected:
            raise ValueError(
                f"condition must have shape {expected}, one row for each example of x; got "
                f"{tuple(condition.shape)} beside x of shape {tuple(x.shape)}."
            )
        return self.projection(condition).chunk(self.parts, dim=-1)

    def extra_repr(self) -> str:
        return f"{self.num_features}, {self.condition_features}"


class FiLM(_Conditional):
    r"""FiLM over the formula :func:`normtutor.norms.film`, with the map from the condition.

    After a norm without parameters of its own it makes a conditional norm: after BatchNorm,
    conditional BatchNorm; after InstanceNorm, the norm of style transfer.

    Parameters
    ----------
    num_features : int
        H for x of shape (B, L, H).
    condition_features : int
        The length of a condition.
    feature_axis : int

    Notes
    -----
    ``forward(x, condition)``: condition of shape (B, condition_features). The linear map
    ``projection`` starts at 0, so that the layer starts as the identity. Source:
    :cite:t:`perez2018`.
    """

    def __init__(
        self,
        num_features: int,
        condition_features: int,
        device: Any = None,
        dtype: Any = None,
        *,
        feature_axis: int = -1,
    ) -> None:
        super().__init__(num_features, condition_features, 2, device, dtype)
        self.feature_axis = feature_axis

    @_one_node
    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        scale, shift = self._parts_of(x, condition)
        _check_features(x, self.num_features, self.feature_axis)
        return norms.film(x, scale, shift, feature_axis=self.feature_axis)[0]

    def extra_repr(self) -> str:
        return super().extra_repr() + _axis_repr(self.feature_axis, -1)


class AdaptiveLayerNorm(_Conditional):
    r"""AdaLN over the formula :func:`normtutor.norms.adaptive_layer_norm`.

    Parameters
    ----------
    num_features : int
        H for x of shape (B, ..., H).
    condition_features : int
        The length of a condition.
    eps : float

    Notes
    -----
    ``forward(x, condition)``: condition of shape (B, condition_features), for example the sum of
    the embeddings of a class and a time, after an activation. The linear map ``projection`` starts
    at 0, so that the layer starts as LayerNorm. Source: :cite:t:`peebles2023`.
    """

    def __init__(
        self,
        num_features: int,
        condition_features: int,
        eps: float = 1e-5,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, condition_features, 2, device, dtype)
        self.eps = eps

    @_one_node
    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        scale, shift = self._parts_of(x, condition)
        _check_features(x, self.num_features, -1)
        return norms.adaptive_layer_norm(x, scale, shift, eps=self.eps)[0]

    def extra_repr(self) -> str:
        return super().extra_repr() + f", eps={self.eps}"


class AdaptiveLayerNormZero(_Conditional):
    r"""A residual block with AdaLN-Zero: the norm before a branch and the gate after it.

    :math:`y = x + g\, f(\mathrm{AdaLN}(x))`, over :func:`normtutor.norms.adaptive_layer_norm` and
    :func:`normtutor.norms.gated_residual`.

    Parameters
    ----------
    branch : torch.nn.Module
        f, for example attention or a feed-forward network; it keeps the shape of x.
    num_features, condition_features, eps
        As in :class:`AdaptiveLayerNorm`.

    Notes
    -----
    ``forward(x, condition)``. The linear map ``projection`` gives scale, shift and gate and starts
    at 0, so that the block starts as the identity, whatever the branch. Source:
    :cite:t:`peebles2023`. For ``torch.fx`` it is one node, the branch within.
    """

    def __init__(
        self,
        branch: nn.Module,
        num_features: int,
        condition_features: int,
        eps: float = 1e-5,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, condition_features, 3, device, dtype)
        self.branch, self.eps = branch, eps

    @_one_node
    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        scale, shift, gate = self._parts_of(x, condition)
        _check_features(x, self.num_features, -1)
        normalized, _ = norms.adaptive_layer_norm(x, scale, shift, eps=self.eps)
        return norms.gated_residual(x, self.branch(normalized), gate)[0]

    def extra_repr(self) -> str:
        return super().extra_repr() + f", eps={self.eps}"


class DynamicTanh(nn.Module):
    r"""Dynamic tanh over the formula :func:`normtutor.norms.dynamic_tanh`; it is not a norm.

    Parameters
    ----------
    num_features : int
        H for x of shape (B, L, H).
    alpha_init_value : float
        Where α starts.

    Notes
    -----
    ``forward(x)``: x of shape (..., num_features). Source: :cite:t:`zhu2025`.
    """

    def __init__(
        self,
        num_features: int,
        alpha_init_value: float = 0.5,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_features, self.alpha_init_value = num_features, alpha_init_value
        self.alpha = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
        self.weight = nn.Parameter(torch.empty(num_features, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(num_features, device=device, dtype=dtype))
        self.reset_parameters()

    @_one_node
    def forward(self, x: Tensor) -> Tensor:
        _check_tensor(x)
        y, _ = norms.dynamic_tanh(x, self.alpha, self.weight, self.bias)
        return y

    def reset_parameters(self) -> None:
        """Set α to its starting value, the weight to one and the bias to zero."""
        nn.init.constant_(self.alpha, self.alpha_init_value)
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def extra_repr(self) -> str:
        return f"{self.num_features}, alpha_init_value={self.alpha_init_value}"


class PartialRMSNorm(nn.Module):
    r"""pRMSNorm over the formula :func:`normtutor.norms.partial_rms_norm`.

    Parameters
    ----------
    dim : int
        d, the length of the last axis.
    p : float in (0, 1]
        The first int(d·p) entries estimate the root mean square.
    eps : float
        Added outside the root, as the authors have it.

    Notes
    -----
    ``forward(x)``: x of shape (..., dim). Source: :cite:t:`zhang2019rms`.
    """

    def __init__(
        self, dim: int, p: float, eps: float = 1e-8, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        partial_count(dim, p)
        self.dim, self.p, self.eps = dim, p, eps
        self.weight = nn.Parameter(torch.ones(dim, device=device, dtype=dtype))

    @_one_node
    def forward(self, x: Tensor) -> Tensor:
        _check_tensor(x)
        y, _ = norms.partial_rms_norm(x, self.weight, p=self.p, eps=self.eps)
        return y

    def reset_parameters(self) -> None:
        """Set the weight to one."""
        nn.init.ones_(self.weight)

    def extra_repr(self) -> str:
        return f"{self.dim}, p={self.p}, eps={self.eps}"


@torch.library.custom_op("normtutor::snapshot", mutates_args=())
def _snapshot(buffer: Tensor) -> Tensor:
    """A copy of ψ² or t as it was. The backward pass needs it, after the forward has moved it.

    A plain clone would not do: torch.compile may compute it anew in the backward pass, from the
    buffer as it is then, and silently divide by the wrong ψ. It never recomputes a custom operator.
    """
    return buffer.clone()


@_snapshot.register_fake
def _(buffer: Tensor) -> Tensor:
    return torch.empty_like(buffer)


@_snapshot.register_vmap
def _(info: Any, in_dims: tuple[int | None], buffer: Tensor) -> tuple[Tensor, int | None]:
    return _snapshot(buffer), in_dims[0]


class _Approximation(NamedTuple):
    """Which of the two formulas of PowerNorm whose gradient is approximate, and how it is called.

    ``levels`` holds, for each ``torch.func.vmap`` around the layer, the dimension that it maps of
    x, weight, bias, ψ², ν, the mask and t.
    """

    variant: str
    alpha_backward: float
    options: dict[str, Any]
    levels: tuple[tuple[int | None, ...], ...] = ()

    def forward(self, x, weight, bias, psi_squared, nu, mask, step):
        """Return y and the ψ² that follows."""
        norm = norms.power_norm if self.variant == "pn" else norms.power_norm_authors_code

        def formula(x, weight, bias, psi_squared, nu, mask, step):
            y, _, updated = norm(x, weight, bias, psi_squared, mask=mask, step=step, **self.options)
            return y, updated

        for dims in self.levels:
            if dims[3] is None:
                raise ValueError(
                    "in training PowerNorm moves its running statistics, so under vmap every "
                    "member needs statistics of its own; got one for all. Stack them, for example "
                    "with torch.func.stack_module_state, or use evaluation mode."
                )
            formula = torch.vmap(formula, in_dims=dims, out_dims=(0, dims[3]))
        return formula(x, weight, bias, psi_squared, nu, mask, step)

    def backward(self, grad_y, x, weight, bias, psi_squared, nu, mask, step):
        """Return the gradients of x, weight and bias, or None, and the ν that follows."""
        norm: Any
        norm_backward: Any
        norm, norm_backward = (
            (norms.power_norm, norms.power_norm_backward)
            if self.variant == "pn"
            else (norms.power_norm_authors_code, norms.power_norm_authors_code_backward)
        )

        def formula(grad_y, x, weight, bias, psi_squared, nu, mask, step):
            _, cache, _ = norm(x, weight, bias, psi_squared, mask=mask, step=step, **self.options)
            grads, new_nu = norm_backward(grad_y, cache, nu, alpha=self.alpha_backward)
            return *[g for g in grads if g is not None], new_nu

        for dims in self.levels:
            formula = _mapped_backward(formula, dims)
        *grads, new_nu = formula(grad_y, x, weight, bias, psi_squared, nu, mask, step)
        found = iter(grads)
        return *[next(found) if t is not None else None for t in (x, weight, bias)], new_nu


def _mapped_backward(formula: Any, dims: tuple[int | None, ...]) -> Any:
    """Map a backward pass: a parameter that all members share gets the sum of their gradients."""

    def mapped(grad_y, x, weight, bias, psi_squared, nu, mask, step):
        given = [d for t, d in zip((x, weight, bias), dims, strict=False) if t is not None]
        out_dims = [0 if d is None else d for d in given]
        *grads, new_nu = torch.vmap(
            formula, in_dims=(0, *dims), out_dims=(*out_dims, 0 if dims[4] is None else dims[4])
        )(grad_y, x, weight, bias, psi_squared, nu, mask, step)
        return *[g.sum(0) if d is None else g for g, d in zip(grads, given, strict=True)], new_nu

    return mapped


class _NoSecondDerivative(torch.autograd.Function):
    """Hand the gradients on, and raise where something asks for theirs.

    Their sources are arguments, so that every path from a second derivative to x, the weight or
    the loss leads through here: torch's ``once_differentiable`` guards only the path to the loss.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(count, *grads_and_sources):
        return tuple(grad.view_as(grad) for grad in grads_and_sources[:count])

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError(
            "in training the gradient of PowerNorm is an approximation that has no derivative of "
            "its own: it takes ψ and ν as constants, which are averages over the past. Got a "
            'second derivative through it. Use variant="pn-v", whose gradient is exact, or '
            "evaluation mode."
        )


class _PowerNormFunction(torch.autograd.Function):
    """A forward pass with the paper's backward pass, which also moves the buffer ν."""

    @staticmethod
    def forward(x, weight, bias, psi_squared, nu, mask, step, approximation):
        return approximation.forward(x, weight, bias, psi_squared, nu, mask, step)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, bias, psi_squared, nu, mask, step, approximation = inputs
        ctx.save_for_backward(x, weight, bias, psi_squared, mask, step)
        # ν is read when the backward pass runs, so it is not saved: another may have moved it.
        ctx.nu, ctx.approximation = nu, approximation
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad_y, _):
        x, weight, bias, psi_squared, mask, step = ctx.saved_tensors
        with torch.no_grad():
            *grads, new_nu = ctx.approximation.backward(
                grad_y, x, weight, bias, psi_squared, ctx.nu, mask, step
            )
        _store(ctx.nu, new_nu)
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            there = [i for i, grad in enumerate(grads) if grad is not None]
            sources = [t for t in (grad_y, x, weight) if t is not None]
            guarded = _NoSecondDerivative.apply(len(there), *[grads[i] for i in there], *sources)
            for i, grad in zip(there, guarded, strict=True):
                grads[i] = grad
        return *grads, *[None] * 5

    @staticmethod
    def vmap(info, in_dims, *inputs):
        *tensors, approximation = inputs
        dims = tuple(in_dims[:-1])
        deeper = approximation._replace(levels=(*approximation.levels, dims))
        return _PowerNormFunction.apply(*tensors, deeper), (0, dims[3])


class PowerNorm(nn.Module):
    r"""PowerNorm over the formulas of :mod:`normtutor.norms`.

    Parameters
    ----------
    num_features : int
    eps : float
        Inside the root, with ψ².
    alpha_forward, alpha_backward : float
        The weight of the past in ψ² and in ν.
    affine : bool
    warmup_steps : int
        In the first so many batches the divisor is the batch's own quadratic mean.
    variant : {"pn", "pn-v", "authors-code"}
        "pn" is the paper's Algorithm 2, :func:`~normtutor.norms.power_norm`; "pn-v" divides by
        this batch, with the exact gradient, :func:`~normtutor.norms.power_norm_v`;
        "authors-code" is what the authors published,
        :func:`~normtutor.norms.power_norm_authors_code`.
    groups : int
        Of the per-token scaling in "authors-code".
    nu_counts_padding : bool
        Whether ν of "authors-code" averages over masked positions too, as published.
    feature_axis : int

    Notes
    -----
    ``forward(x, mask=None)``: x of shape (B, L, H) or, with ``feature_axis=1``, (B, C, ...); the
    mask as in :class:`BatchNorm`. Buffers: ``running_mean_square``, ψ², which starts at 1, and
    moves in training; ``nu``, which starts at 0 and moves in the backward pass of a training step,
    after it was used; ``num_batches_tracked``. In evaluation nothing moves, and the output is
    linear in x except for β and the scaling of "authors-code". "pn-v" keeps ψ² for its evaluation.
    In training the gradient of "pn" and "authors-code" is approximate and has no gradient of its
    own, not even in the warm-up: autograd raises an error if a second derivative is taken through
    it. Gradient checkpointing changes it, because the forward pass then runs again after ψ² has
    moved. Source: :cite:t:`shen2020`.
    """

    running_mean_square: Tensor
    nu: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        alpha_forward: float = 0.9,
        alpha_backward: float = 0.9,
        affine: bool = True,
        warmup_steps: int = 0,
        device: Any = None,
        dtype: Any = None,
        *,
        variant: str = "pn",
        groups: int = 1,
        nu_counts_padding: bool = True,
        feature_axis: int = -1,
    ) -> None:
        super().__init__()
        if variant not in ("pn", "pn-v", "authors-code"):
            raise ValueError(
                f'unknown variant {variant!r}. Choose "pn" (Algorithm 2), "pn-v" (the statistic of '
                'the batch) or "authors-code" (what the authors published).'
            )
        check_groups(groups, num_features)
        for name, alpha in (("alpha_forward", alpha_forward), ("alpha_backward", alpha_backward)):
            if not 0 <= alpha <= 1:
                raise ValueError(
                    f"{name} must lie in [0, 1], the weight of the past in an average; "
                    f"got {alpha}. The usual value is 0.9."
                )
        if warmup_steps < 0:
            raise ValueError(f"warmup_steps must not be negative; got {warmup_steps}. 0 is none.")
        self.num_features = num_features
        self.eps = eps
        self.alpha_forward = alpha_forward
        self.alpha_backward = alpha_backward
        self.affine = affine
        self.warmup_steps = warmup_steps
        self.variant = variant
        self.groups = groups
        self.nu_counts_padding = nu_counts_padding
        self.feature_axis = feature_axis
        ones = partial(torch.ones, num_features, device=device, dtype=dtype)
        zeros = partial(torch.zeros, num_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(ones()) if affine else None
        self.bias = nn.Parameter(zeros()) if affine else None
        self.register_buffer("running_mean_square", ones())
        self.register_buffer("nu", zeros())
        self.register_buffer("num_batches_tracked", torch.tensor(0, device=device))

    def reset_parameters(self) -> None:
        """Set the parameters and the running statistics to their initial values."""
        self.running_mean_square.fill_(1)
        self.nu.zero_()
        self.num_batches_tracked.zero_()
        if self.weight is not None and self.bias is not None:
            nn.init.ones_(self.weight)
            nn.init.zeros_(self.bias)

    @_one_node
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        _check_dtype(x, self.weight, self.bias, self.running_mean_square)
        _check_features(x, self.num_features, self.feature_axis)
        options: dict[str, Any] = {
            "training": self.training,
            "alpha": self.alpha_forward,
            "eps": self.eps,
            "feature_axis": self.feature_axis,
            "warmup_steps": self.warmup_steps,
        }
        if self.variant == "authors-code":
            options["groups"] = self.groups
            options["nu_counts_padding"] = self.nu_counts_padding
        parameters = (self.weight, self.bias)
        if not self.training:
            formula = (
                norms.power_norm_authors_code
                if self.variant == "authors-code"
                else norms.power_norm
            )
            return formula(x, *parameters, self.running_mean_square, mask=mask, **options)[0]
        step = _snapshot(self.num_batches_tracked) + 1
        psi_squared = _snapshot(self.running_mean_square)
        if self.variant == "pn-v":
            with torch.no_grad():
                updated = norms.power_norm(
                    x, *parameters, psi_squared, mask=mask, step=step, **options
                )[2]
            y, _ = norms.power_norm_v(
                x, *parameters, eps=self.eps, mask=mask, feature_axis=self.feature_axis
            )
        else:
            y, updated = _PowerNormFunction.apply(
                x,
                *parameters,
                psi_squared,
                self.nu,
                mask,
                step,
                _Approximation(self.variant, self.alpha_backward, options),
            )
        self.num_batches_tracked.add_(1)  # only now: a call that raises is no batch
        _store(self.running_mean_square, updated)
        return y

    def extra_repr(self) -> str:
        text = (
            f"{self.num_features}, eps={self.eps}, alpha_forward={self.alpha_forward}, "
            f"alpha_backward={self.alpha_backward}, affine={self.affine}, "
            f"warmup_steps={self.warmup_steps}, variant={self.variant!r}"
        )
        if self.variant == "authors-code":
            text += f", groups={self.groups}"
            text += "" if self.nu_counts_padding else ", nu_counts_padding=False"
        return text + _axis_repr(self.feature_axis, -1)


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


class _WeightNorm(nn.Module):
    """The parametrization (g, v) -> w, for ``torch.nn.utils.parametrize``."""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = None if dim == -1 else dim  # in torch too -1 is one length for all

    def forward(self, g: Tensor, v: Tensor) -> Tensor:
        if self.dim is None:
            g = g.reshape((1,) * v.ndim)
        return norms.weight_norm(v, g, axis=self.dim)[0]

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return g = ‖v‖ and v = weight."""
        _, cache = norms.weight_norm(weight, axis=self.dim)
        g = cache.norm.to(weight.dtype)
        return (g.reshape(()) if self.dim is None else g), weight


def _reduce(module: nn.Module, _: Any) -> tuple[Any, ...]:
    """How to pickle a parametrized module: its class before, its parameters, its attributes."""
    names = list(module.parametrizations)  # type: ignore[arg-type]
    return _rebuild, (parametrize.type_before_parametrizations(module), names), module.__dict__


def _rebuild(cls: type[nn.Module], names: list[str]) -> nn.Module:
    """An empty module whose class computes the named parameters; its attributes follow."""
    module = cls.__new__(cls)
    parametrize._inject_new_class(module)
    for name in names:
        parametrize._inject_property(module, name)
    type(module).__reduce_ex__ = _reduce  # type: ignore[method-assign,assignment]
    return module


def _rename_old_keys(
    module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any, name: str
) -> None:
    """Let the state dict of torch's older weight_norm load, with its keys *_g and *_v."""
    for old, new in (("g", "original0"), ("v", "original1")):
        if f"{prefix}{name}_{old}" in state_dict:
            value = state_dict.pop(f"{prefix}{name}_{old}")
            state_dict[f"{prefix}parametrizations.{name}.{new}"] = value


def weight_norm(module: nn.Module, name: str = "weight", dim: int | None = 0) -> nn.Module:
    r"""Split a parameter of ``module`` into a length g and a direction v, in place.

    Parameters
    ----------
    module : torch.nn.Module
        For example ``torch.nn.Linear`` or ``torch.nn.Conv2d``.
    name : str
        The parameter's name.
    dim : int or None
        The axis along which each index has a length of its own; None is one length for all.

    Returns
    -------
    torch.nn.Module
        ``module``, whose parameter is now computed by :func:`normtutor.norms.weight_norm` from
        ``parametrizations.<name>.original0`` (g, at first ‖v‖) and ``original1`` (v, at first the
        weight), as with ``torch.nn.utils.parametrizations.weight_norm``, whose state dicts it
        loads. Unlike torch's, the module can be pickled.

    Raises
    ------
    ValueError
        If ``module`` has no parameter of that name, or one that a parametrization computes.

    Notes
    -----
    Source: :cite:t:`salimans2016`.
    """
    if not isinstance(getattr(module, name, None), Tensor):
        raise ValueError(
            f"module has no parameter {name!r}; got {type(module).__name__}. "
            f"Choose one of: {', '.join(n for n, _ in module.named_parameters()) or 'none there'}."
        )
    plain = name in module._parameters or name in module._buffers
    if not plain and not parametrize.is_parametrized(module, name):
        raise ValueError(
            f"{name} must be a plain parameter; got an attribute that something sets anew before "
            "each call, as torch's older weight_norm and spectral_norm do. Undo that first, for "
            f"example with torch.nn.utils.remove_weight_norm(module, {name!r})."
        )
    if parametrize.is_parametrized(module, name):
        there = type(module.parametrizations[name][0]).__name__.lstrip("_")  # type: ignore
        raise ValueError(
            f"{name} must be a plain parameter; got one that is computed already, by {there}. "
            "Splitting it twice would leave a length that does nothing. Undo the first with "
            f"torch.nn.utils.parametrize.remove_parametrizations(module, {name!r})."
        )
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module.register_load_state_dict_pre_hook(partial(_rename_old_keys, name=name))
    type(module).__reduce_ex__ = _reduce  # type: ignore[method-assign,assignment]
    return module
