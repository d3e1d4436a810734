"""The layers that normalize each token by itself: LayerNorm, RMSNorm and their kin."""

from typing import Any

import torch
from torch import Tensor, nn

from normtutor import norms
from normtutor.layers.by_hand import by_hand
from normtutor.layers.common import (
    _as_under_autocast,
    _axis_repr,
    _check_dtype,
    _check_features,
    _check_tensor,
    _one_node,
    _runs_fused,
)
from normtutor.moments import widen
from normtutor.validation import partial_count

__all__ = ["DynamicTanh", "LayerNorm", "PartialRMSNorm", "RMSNorm", "ScaleNorm"]


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
    float32, as torch's. Where a square overflows, from about 1e19 in float32, the output is β and
    no gradient passes; torch's is NaN or β, by the number of features. Neither is the right value,
    which does not depend on the scale of x and which float64 gives. Source: :cite:t:`ba2016`.
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
        if _runs_fused() and self.feature_axis == -1:
            return super().forward(x)
        found = by_hand(x, self.weight, self.bias, self.eps, **_own_axes(self))
        if found is not None:
            return found[0]
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


def _own_axes(layer: "LayerNorm | RMSNorm") -> dict[str, Any]:
    """The axes that a layer normalizes, for :func:`normtutor.layers.by_hand.by_hand`."""
    shape, axis = tuple(layer.normalized_shape), layer.feature_axis
    axes = range(-len(shape), 0) if axis == -1 else (axis,)
    return {"over": axes, "along": axes, "shape": shape}


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
        weight: Tensor | None = self.weight
        wide = torch.promote_types(x.dtype, torch.float32)
        plain = not (self.add_unit_offset or self.cast_before_weight) and self.feature_axis == -1
        if _runs_fused() and plain and (weight is None or weight.dtype == x.dtype):
            return super().forward(x)
        if self.add_unit_offset and weight is not None:
            weight = 1 + weight.to(wide)
        eps = torch.finfo(wide).eps if self.eps is None else self.eps
        if not self.cast_before_weight or x.dtype == wide:
            found = by_hand(x, weight, None, eps, **_own_axes(self), centred=False)
            if found is not None:
                return found[0]
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
        # RMSNorm with one γ, of g / √d, and with ε / d beside the mean square.
        weight, eps = widen(self.g) / self.dim**0.5, self.eps / self.dim
        found = by_hand(x, weight, None, eps, over=(-1,), along=(), shape=(), centred=False)
        return norms.scale_norm(x, self.g, eps=self.eps)[0] if found is None else found[0]

    def reset_parameters(self) -> None:
        """Set g to √d."""
        nn.init.constant_(self.g, self.dim**0.5)

    def extra_repr(self) -> str:
        return f"{self.dim}, eps={self.eps}"


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
