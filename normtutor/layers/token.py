"""The layers that normalize each token by itself: LayerNorm, RMSNorm and their kin."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor import norms
from normtutor.layers.common import (
    ByHand,
    Formula,
    as_under_autocast,
    axis_repr,
    check_dtypes,
    check_tensor,
    kernel_or_formula,
    needs_gradient,
    of_real_tokens,
    one_node,
    only_formula,
)
from normtutor.validation import AXES, partial_count, refuse

__all__ = ["DynamicTanh", "LayerNorm", "PartialRMSNorm", "RMSNorm", "ScaleNorm"]


class LayerNorm(nn.LayerNorm):
    r"""LayerNorm: torch's kernel, or the formula :func:`normtutor.norms.layer_norm`.

    Parameters
    ----------
    normalized_shape, eps, elementwise_affine, bias, device, dtype
        As in ``torch.nn.LayerNorm``; the trailing shape is H for x of shape (B, L, H).
    feature_axis : int
        With 1 each position of x of shape (B, C, ...) is normalized over its C features, as in
        ConvNeXt; ``normalized_shape`` is then C.

    Notes
    -----
    ``forward(x, mask=None)``: x of shape (..., \*normalized_shape); the mask boolean, of x's shape
    without the features, True on real tokens. At masked positions the output is 0 and no gradient
    passes. Where a square overflows, from about 1e19 in float32, torch's kernel returns β or NaN,
    by the number of features, and the formula β. Source: :cite:t:`ba2016`.
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

    @one_node
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        check_dtypes(self, x)
        shape, weight, bias, eps = self.normalized_shape, self.weight, self.bias, self.eps

        def kernel(x: Tensor) -> Tensor:
            return F.layer_norm(x, shape, weight, bias, eps)

        def formula(x: Tensor) -> Tensor:
            wide = as_under_autocast(lambda two: F.layer_norm(two, (2,)), x)
            return norms.layer_norm(wide, weight, bias, normalized_shape=shape, eps=eps)[0]

        def tokens(x: Tensor) -> Tensor:
            return kernel_or_formula(True, lambda: kernel(x), lambda: formula(x))

        return _features_last(tokens, x, mask, self)

    def extra_repr(self) -> str:
        return super().extra_repr() + axis_repr(self.feature_axis, -1)


def _only_one_axis(feature_axis: int, normalized_shape: tuple[int, ...]) -> int:
    """Return ``feature_axis``; raise ValueError if several axes are normalized, not at the end."""
    if feature_axis != -1 and len(normalized_shape) != 1:
        rule = f"feature_axis={feature_axis} needs one number as normalized_shape"
        fix = "Several axes are normalized only at the end of x."
        refuse(ValueError, rule, tuple(normalized_shape), fix)
    return feature_axis


def _features_last(
    norm: Callable[[Tensor], Tensor], x: Tensor, mask: Tensor | None, layer: Any
) -> Tensor:
    """Apply a norm over the trailing axes to x, whose features are on the layer's axis."""
    axis, features = layer.feature_axis, len(layer.normalized_shape)
    if axis == -1:
        return of_real_tokens(norm, x, mask, -features, features)
    if not -x.ndim <= axis < x.ndim:
        rule = f"feature_axis={axis} does not exist in x of shape {tuple(x.shape)}."
        raise ValueError(f"{rule} {AXES}")
    return of_real_tokens(lambda x: norm(x.movedim(axis, -1)).movedim(-1, axis), x, mask, axis)


class RMSNorm(nn.RMSNorm):
    r"""RMSNorm over the formula :func:`normtutor.norms.rms_norm`, or torch's fused kernel.

    Parameters
    ----------
    normalized_shape, eps, elementwise_affine, device, dtype
        As in ``torch.nn.RMSNorm``; ``eps=None`` is the machine epsilon of the dtype in which the
        statistic is accumulated.
    add_unit_offset : bool
        Multiply by 1 + γ, and start with γ = 0, as Gemma does.
    cast_before_weight : bool
        Round to x's dtype before the multiplication by γ, as Llama and Qwen do.
    feature_axis : int
        As in :class:`LayerNorm`.

    Notes
    -----
    ``forward(x, mask=None)``: as in :class:`LayerNorm`. torch's function runs where it is fused, on
    a GPU and compiled, and where no gradient is needed. Else it is the formula, with the backward
    pass that the book derives, :func:`~normtutor.norms.rms_norm_backward`. Half-precision x gives
    half-precision output whatever the dtype of the weight, but under autocast on a GPU float32, as
    torch's. Source: :cite:t:`zhang2019rms`.
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

    @one_node
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        check_tensor(x)
        shape, weight, eps = self.normalized_shape, self.weight, self.eps
        options = (self.add_unit_offset, self.cast_before_weight)
        fused = x.is_cuda or torch.compiler.is_compiling() or not needs_gradient(x, weight)
        fused = fused and not any(options) and (weight is None or weight.dtype == x.dtype)

        def formula(x: Tensor, weight: Tensor | None) -> Any:
            offset, cast = options
            return norms.rms_norm(
                x,
                weight,
                normalized_shape=shape,
                eps=eps,
                add_unit_offset=offset,
                cast_before_weight=cast,
            )

        def tokens(x: Tensor) -> Tensor:
            def by_formula() -> Tensor:
                wide = as_under_autocast(lambda two: F.rms_norm(two, (2,)), x)
                return run(formula, norms.rms_norm_backward, wide, weight, shape)

            return kernel_or_formula(fused, lambda: F.rms_norm(x, shape, weight, eps), by_formula)

        return _features_last(tokens, x, mask, self)

    def reset_parameters(self) -> None:
        """Set the weight to one, or to zero where it is an offset from one."""
        if self.elementwise_affine:
            nn.init.constant_(self.weight, 0.0 if self.add_unit_offset else 1.0)

    def extra_repr(self) -> str:
        text = super().extra_repr()
        for name in ("add_unit_offset", "cast_before_weight"):
            text += f", {name}=True" if getattr(self, name) else ""
        return text + axis_repr(self.feature_axis, -1)


def run(
    formula: Formula, backward: Any, x: Tensor, weight: Tensor | None, shape: tuple[int, ...]
) -> Tensor:
    """Run a formula of single tokens with the gradient that the book derives.

    It is the formula alone where no gradient is needed, behind a compiler and under a transform of
    ``torch.func``, which derive it themselves, for an empty x, and where the shape is wrong, as the
    formula says.
    """
    whole = tuple(x.shape[x.ndim - len(shape) :]) == tuple(shape) and x.numel() > 0
    traced = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    if only_formula() or traced or not (whole and needs_gradient(x, weight)):
        return formula(x, weight)[0]
    rows = x.reshape(-1, *shape)
    return ByHand.apply(rows, weight, formula, backward).reshape(x.shape)


class ScaleNorm(nn.Module):
    r"""ScaleNorm over the formula :func:`normtutor.norms.scale_norm`.

    Parameters
    ----------
    dim : int
        d, the length of the last axis.
    eps : float

    Notes
    -----
    ``forward(x, mask=None)``: x of shape (..., dim), the mask as in :class:`LayerNorm`. Its one
    parameter ``g`` starts at √d, where the layer is RMSNorm. Source: :cite:t:`nguyen2019`.
    """

    def __init__(self, dim: int, eps: float = 1e-5, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps
        self.g = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
        self.reset_parameters()

    @one_node
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        formulas = (norms.scale_norm, norms.scale_norm_backward)
        return _one_parameter(self, *formulas, x, self.g, mask)

    def reset_parameters(self) -> None:
        """Set g to √d."""
        nn.init.constant_(self.g, self.dim**0.5)

    def extra_repr(self) -> str:
        return f"{self.dim}, eps={self.eps}"


def _one_parameter(
    layer: Any, formula: Any, backward: Any, x: Tensor, weight: Tensor, mask: Any, **options: Any
) -> Tensor:
    """Run a layer of tokens with ``layer.dim`` features and one parameter."""
    check_tensor(x)
    if x.ndim and x.shape[-1] != layer.dim:
        rule, got = f"x must have {layer.dim} features along axis -1", x.shape[-1]
        refuse(ValueError, rule, f"{got} in x of shape {tuple(x.shape)}", "Check the layer's dim.")

    def of(x: Tensor, weight: Tensor) -> Any:
        return formula(x, weight, eps=layer.eps, **options)

    return of_real_tokens(lambda x: run(of, backward, x, weight, (layer.dim,)), x, mask, -1)


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
    ``forward(x, mask=None)``: x of shape (..., dim), the mask as in :class:`LayerNorm`. Source:
    :cite:t:`zhang2019rms`.
    """

    def __init__(
        self, dim: int, p: float, eps: float = 1e-8, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        partial_count(dim, p)
        self.dim, self.p, self.eps = dim, p, eps
        self.weight = nn.Parameter(torch.ones(dim, device=device, dtype=dtype))

    @one_node
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        formulas = (norms.partial_rms_norm, norms.partial_rms_norm_backward)
        return _one_parameter(self, *formulas, x, self.weight, mask, p=self.p)

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
    ``forward(x, mask=None)``: x of shape (..., num_features), the mask as in :class:`LayerNorm`.
    Source: :cite:t:`zhu2025`.
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

    @one_node
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        check_tensor(x)
        parameters = (self.alpha, self.weight, self.bias)
        return of_real_tokens(lambda x: norms.dynamic_tanh(x, *parameters)[0], x, mask, -1)

    def reset_parameters(self) -> None:
        """Set α to its starting value, the weight to one and the bias to zero."""
        nn.init.constant_(self.alpha, self.alpha_init_value)
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def extra_repr(self) -> str:
        return f"{self.num_features}, alpha_init_value={self.alpha_init_value}"
