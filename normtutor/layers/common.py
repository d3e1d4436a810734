"""What the layers share: checks, autocast, one node for torch.fx, torch's own kernels."""

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from normtutor.validation import check_feature_axis

__all__ = ["set_fused"]

_FUSERS = ("torch.fx.experimental.optimization", "torch.ao.quantization.quantize_fx")
_fused = False


def set_fused(enabled: bool) -> None:
    """Let LayerNorm, GroupNorm and RMSNorm run torch's own kernel, for all layers at once.

    Where torch has a function for exactly the layer, without a mask, with the features where torch
    has them, and for RMSNorm without an option of ours.

    Parameters
    ----------
    enabled : bool
        False when the package is imported. That was decided by measuring on our processor: torch's
        kernel makes LayerNorm and GroupNorm alone two to three times as fast, but a training step
        of a small Transformer by less than a tenth, and it makes RMSNorm slower. To measure on
        yours, run ``python -m normtutor_studies.benchmark`` with ``--fused`` and without.

    Notes
    -----
    Compiled, exported and traced layers follow the switch, too: the graph then has torch's norm
    in it.
    """
    global _fused
    _fused = enabled


def _runs_fused() -> bool:
    return _fused


def _one_node(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let ``torch.fx`` record a layer as one node, as it does with the layers of torch.nn."""

    @wraps(forward)
    def recorded(self: nn.Module, x: Any, *inputs: Any, **named: Any) -> Any:
        if isinstance(x, fx.Proxy):
            _warn_of_a_fuser(self)
            path = x.tracer.path_of_module(self)  # type: ignore[attr-defined]
            return x.tracer.create_proxy("call_module", path, (x, *inputs), named)
        return forward(self, x, *inputs, **named)

    return recorded


def _warn_of_a_fuser(layer: nn.Module) -> None:
    """Warn where a fuser of ``torch.fx`` is at work, which knows BatchNorm by its exact class."""
    frame = sys._getframe() if isinstance(layer, _BatchNorm) else None
    while frame is not None:
        if frame.f_globals.get("__name__") in _FUSERS:
            warnings.warn(
                "torch.fx folds BatchNorm into the layer before it only where it is torch's own; "
                f"this {type(layer).__name__} stays as it is, and the output is right. To have it "
                "folded, undo swap_norms first or load its state dict into torch's layer.",
                stacklevel=3,
            )
            return
        frame = frame.f_back


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


def _over_batch(x: Tensor, feature_axis: int) -> dict[str, Any]:
    """The axes of a statistic over the batch, for :func:`normtutor.layers.by_hand.by_hand`."""
    axis = check_feature_axis(x, feature_axis)
    over = [a for a in range(x.ndim) if a != axis]
    return {"over": over, "along": [axis], "shape": (x.shape[axis],)}


def _without_bias(bias: bool) -> dict[str, bool]:
    """The argument that leaves β out, where it is wanted: older versions of torch lack it."""
    return {} if bias else {"bias": False}


def _axis_repr(feature_axis: int, default: int) -> str:
    return "" if feature_axis == default else f", feature_axis={feature_axis}"


def _store(buffer: Tensor | None, value: Tensor | None) -> None:
    """Write ``value`` into ``buffer`` without its graph, which would keep every past batch."""
    if buffer is not None and value is not None:
        with torch.no_grad():
            buffer.copy_(value.detach())
