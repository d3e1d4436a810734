"""What the layers share: torch's kernel or the formula, checks, masks, one node for torch.fx."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.autograd import forward_ad

from normtutor.validation import check_feature_axis, check_mask, name_of, refuse

__all__ = ["formulas"]

_formulas = False


@contextmanager
def formulas() -> Iterator[None]:
    """Let every layer run the formula of :mod:`normtutor.norms`, and autograd derive its gradient.

    To read along in a debugger, to hook into each operation, to hold torch's kernels against the
    formulas. For all layers of the process at once, compiled and exported ones too.

    Examples
    --------
    >>> import torch
    >>> from normtutor import layers
    >>> layer, x = layers.LayerNorm(4), torch.arange(4.0)
    >>> with layers.formulas():
    ...     torch.testing.assert_close(layer(x), torch.nn.functional.layer_norm(x, (4,)))
    """
    global _formulas
    before, _formulas = _formulas, True
    try:
        yield
    finally:
        _formulas = before


def only_formula() -> bool:
    """Whether the formula runs in any case.

    Under :func:`formulas`, and in forward-mode differentiation, where the reverse derivative of a
    forward derivative of torch's kernels is wrong (in torch 2.13 without an error).
    """
    return _formulas or (not torch.compiler.is_compiling() and forward_ad._current_level >= 0)


def needs_gradient(*tensors: Tensor | None) -> bool:
    """Whether autograd records what is computed from these."""
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def kernel_or_formula(
    plain: bool, kernel: Callable[[], Tensor], formula: Callable[[], Tensor]
) -> Tensor:
    """Run torch's kernel where the case is ``plain``, else the formula.

    Where the kernel refuses something, the formula says what is wrong with it.
    """
    if not plain or only_formula():
        return formula()
    try:
        return kernel()
    except (RuntimeError, ValueError):
        formula()
        raise


def one_node(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let ``torch.fx`` record a layer as one node, as it does with the layers of torch.nn."""

    @wraps(forward)
    def recorded(self: nn.Module, x: Any, *inputs: Any, **named: Any) -> Any:
        if isinstance(x, fx.Proxy):
            path = x.tracer.path_of_module(self)  # type: ignore[attr-defined]
            return x.tracer.create_proxy("call_module", path, (x, *inputs), named)
        return forward(self, x, *inputs, **named)

    return recorded


def check_tensor(x: Any, name: str = "x") -> None:
    """Raise TypeError unless x is a torch tensor."""
    if not isinstance(x, Tensor):
        fix = "Convert it with torch.as_tensor, or call the formula in normtutor.norms, which "
        fix += "takes NumPy and JAX arrays."
        refuse(TypeError, f"{name} must be a torch tensor", name_of(x), fix)


def check_dtypes(layer: nn.Module, x: Any) -> None:
    """Raise TypeError unless x is a tensor and the layer's parameters and buffers have its dtype.

    Beside half precision they may be float32 too.
    """
    check_tensor(x)
    dtype = x.dtype
    for tensors in (layer._parameters, layer._buffers):
        for tensor in tensors.values():
            if tensor is None or tensor.dtype is dtype or not tensor.is_floating_point():
                continue
            half = dtype in (torch.float16, torch.bfloat16)
            if x.is_floating_point() and not (half and tensor.dtype is torch.float32):
                rule = "the parameters and buffers must have x's dtype, or float32 beside "
                fix = f"Convert one of them, for example with layer.to({dtype})."
                got = f"{tensor.dtype} beside x of {dtype}"
                refuse(TypeError, rule + "half-precision x", got, fix)


def feature_axis_of(layer: Any, x: Tensor, num_features: int) -> int:
    """The axis of the features, from the front; raise ValueError for another number of them."""
    axis = check_feature_axis(x, layer.feature_axis)
    if x.shape[axis] != num_features:
        rule = f"x must have {num_features} features along axis {layer.feature_axis}"
        got = f"{x.shape[axis]} in x of shape {tuple(x.shape)}"
        fix = "For (B, L, H), use feature_axis=-1; for (B, C, ...), feature_axis=1."
        refuse(ValueError, rule, got, fix)
    return axis


def features_first(kernel: Callable[[Tensor], Tensor], x: Tensor, axis: int) -> Tensor:
    """Run a kernel of torch that has the features on axis 1."""
    # Not even a view where they are there: autograd would copy the gradient of x behind it.
    return kernel(x) if axis == 1 else kernel(x.movedim(axis, 1)).movedim(1, axis)


def of_real_tokens(
    compute: Callable[[Tensor], Tensor],
    x: Tensor,
    mask: Tensor | None,
    axis: int,
    features: int = 1,
) -> Tensor:
    """Apply a norm of single tokens where the mask is True; elsewhere return 0."""
    if mask is None:
        return compute(x)
    real: Tensor = check_mask(mask, x, axis, features)  # type: ignore[assignment]
    return torch.where(real, compute(torch.where(real, x, 0.0)), 0.0)


def as_under_autocast(kernel: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return x in the dtype in which torch's kernel would compute and return under autocast.

    On some devices autocast lets some norms compute and return float32, and which they are
    changes with torch's version. So torch's own function is asked, with two numbers.
    """
    kind = x.device.type
    if x.dtype not in (torch.float16, torch.bfloat16) or not torch.is_autocast_enabled(kind):
        return x
    return x.to(kernel(x.new_zeros(1, 2)).dtype)


def axis_repr(feature_axis: int, default: int) -> str:
    """What a layer's ``repr`` says of an axis that is not the default."""
    return "" if feature_axis == default else f", feature_axis={feature_axis}"


def store(buffer: Tensor | None, value: Tensor | None) -> None:
    """Write ``value`` into ``buffer`` without its graph, which would keep every past batch."""
    if buffer is not None and value is not None:
        with torch.no_grad():
            buffer.copy_(value.detach())


# --- the gradient that the book derives -----------------------------------------------------------

PART = 2**19  # numbers, two megabytes of float32: a part of x that stays in a processor's cache

Formula = Callable[..., tuple[Tensor, Any]]


class ByHand(torch.autograd.Function):
    """A formula of :mod:`normtutor.norms` for single tokens, with its own backward pass.

    x of shape (tokens, ...), one parameter, and the two functions. It goes through x part by part.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, formula: Formula, backward: Any
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.formula, ctx.backward = formula, backward
        ys, ctx.caches = zip(*[formula(part, weight) for part in x.split(_rows(x))], strict=True)
        return _joined(ys)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> Any:
        x, weight = ctx.saved_tensors  # and autograd raises if they were changed in place
        caches = ctx.caches
        if torch.is_grad_enabled():  # a second derivative needs the way to x
            caches = [ctx.formula(x, weight)[1]]
        parts = grad_y.split(-(-len(x) // len(caches)))
        grads = [ctx.backward(g, cache)[:2] for g, cache in zip(parts, caches, strict=True)]
        grad_x, grad_weight = zip(*grads, strict=True)
        return _joined(grad_x), None if weight is None else sum(grad_weight), None, None


def _joined(parts: Any) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _rows(x: Tensor) -> int:
    """How many rows of x make a part; the parts are of one length but for the last."""
    parts = -(-x.numel() // PART)
    return -(-len(x) // min(parts, len(x)))
