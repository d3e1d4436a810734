r"""The backward pass that the book derives, as a function for autograd; for eager layers.

Every norm with a statistic of x alone is :math:`y = \gamma \hat x + \beta` with
:math:`\hat x = (x - \mu) / \sqrt{\sigma^2 + \varepsilon}` over some axes, or the same with
:math:`\mu = 0` and the mean square. Left to itself, autograd keeps what every operation of the
formula has read. Here x and the statistics are kept, and with
:math:`g = \gamma\, \partial L / \partial y` the gradient is

.. math::

    \frac{\partial L}{\partial x} = \frac{1}{\sqrt{\sigma^2 + \varepsilon}}
    \left( g - \overline{g} - \hat x\, \overline{g \hat x} \right),

without :math:`\overline g` where no mean is subtracted: :func:`normtutor.norms.layer_norm_backward`
and :func:`normtutor.norms.rms_norm_backward`. The code has it twice: as it stands here, for whoever
differentiates it again, and in place, for one part of x after the other, so that what lies between
x and its gradient fits into a processor's cache.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from normtutor.moments import mean_square, moments, widen

# How many numbers a part has: on a processor two megabytes of float32. On a GPU, where many small
# parts take longer, they only bound the memory.
PART, PART_ELSEWHERE = 2**19, 2**24


class _How(NamedTuple):
    """The axes of the statistic, counted from the end, and the shapes of γ and β beside x."""

    axes: tuple[int, ...]
    centred: bool
    eps: float
    shapes: tuple[tuple[int, ...], tuple[int, ...]]


def by_hand(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    *,
    over: Sequence[int],
    along: Sequence[int],
    shape: tuple[int, ...],
    centred: bool = True,
) -> tuple[Tensor, ...] | None:
    """Normalize x, with the gradient derived by hand, wherever the case is plain.

    Parameters
    ----------
    x : Tensor
    weight, bias : Tensor of ``shape``, which may be flat, or None
    eps : float
        Inside the root.
    over : sequence of int
        The axes that share a statistic.
    along, shape : sequence of int
        The axes along which weight and bias vary, and their lengths.
    centred : bool
        Whether the mean is subtracted.

    Returns
    -------
    tuple of Tensor, or None
        y; then without gradient the mean, if it is subtracted, and the variance or mean square, in
        which the axes ``over`` have length one. None where a compiler reads the code, which
        derives the backward pass itself; where something else follows each operation, such as
        forward-mode differentiation; where a statistic would be of one number or none; for
        subclasses of tensors; and where a dtype or a shape is wrong. The formula is for these.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or _followed(x):
        return None
    given = [t for t in (x, weight, bias) if t is not None]
    if (
        not all(type(t) in (Tensor, nn.Parameter) and t.is_floating_point() for t in given)
        or not all(-x.ndim <= a < x.ndim for a in (*over, *along))
        or tuple([x.shape[a] for a in along]) != shape
        or any(p.shape not in (shape, (math.prod(shape),)) for p in given[1:])
        or x.numel() == 0
        or math.prod([x.shape[a] for a in over]) == 1
    ):
        return None
    beside = [a % x.ndim for a in along]
    laid = tuple([n if a in beside else 1 for a, n in enumerate(x.shape)])
    axes = tuple(sorted([a % x.ndim - x.ndim for a in over]))
    return _ByHand.apply(x, weight, bias, _How(axes, centred, eps, (laid, laid)))


class _ByHand(torch.autograd.Function):
    """The forward pass, its gradients, and the rule for vmap.

    The batch of a vmap is one more axis in front, which axes counted from the end do not notice.
    """

    @staticmethod
    def forward(x, weight, bias, how):
        axes, centred, eps, shapes = how
        weight, bias = _laid(weight, shapes[0]), _laid(bias, shapes[1])
        equal, wide, scratch = _where_equal(weight, axes), _wide(x), None
        lengths = [1 if a in axes else x.shape[a] for a in range(-x.ndim, 0)]
        statistics = [x.new_empty(lengths, dtype=wide) for _ in range(1 + centred)]
        y = torch.empty_like(x)
        for y_, x_, weight_, bias_, *kept in _parts(x, axes, y, x, weight, bias, *statistics):
            values, part = x_.to(wide), _space(y_, x_, wide)
            if centred:
                torch.mean(values, axes, keepdim=True, out=kept[0])
                scratch = _space(scratch, x_, wide)
                values = torch.sub(values, kept[0], out=part)
                torch.mean(torch.mul(values, values, out=scratch), axes, keepdim=True, out=kept[1])
            else:
                torch.mean(torch.mul(values, values, out=part), axes, keepdim=True, out=kept[0])
            scale = _inverse_root(kept[-1], eps)
            if not equal:
                values, scale = torch.mul(values, scale, out=part), weight_
            elif weight is not None:
                scale = scale * weight_
            torch.mul(values, scale, out=part)
            if bias is not None:
                part.add_(bias_)
            if part is not y_:
                y_.copy_(part)
        return y, *statistics

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, bias, ctx.how = inputs
        ctx.save_for_backward(x, weight, *output[1:])
        ctx.mark_non_differentiable(*output[1:])
        ctx.bias = None if bias is None else (bias.shape, bias.dtype)

    @staticmethod
    def backward(ctx, grad_y, *_):
        x, weight, *statistics = ctx.saved_tensors
        shapes = ctx.how.shapes
        weight_, wanted = _laid(weight, shapes[0]), ctx.needs_input_grad[1:3]
        if torch.is_grad_enabled() or _followed(grad_y) or not _in_memory(grad_y, x):
            grad_x, x_hat = _pulled_back(grad_y, x, weight_, ctx.how)
            sources = (grad_y * x_hat, widen(grad_y))
            sums = [t.sum_to_size(s) for t, s in zip(sources, shapes, strict=True)]
        else:
            grad_x, *sums = _in_parts(grad_y, x, weight_, statistics, ctx.how, wanted)
        grad_weight = sums[0].reshape(weight.shape).to(weight.dtype) if wanted[0] else None
        grad_bias = sums[1].reshape(ctx.bias[0]).to(ctx.bias[1]) if wanted[1] else None
        return grad_x.to(x.dtype), grad_weight, grad_bias, None

    @staticmethod
    def vmap(info, in_dims, x, weight, bias, how):
        parameters, shapes = [], []
        for p, d, laid in zip((weight, bias), in_dims[1:], how.shapes, strict=False):
            parameters.append(p if p is None or d is None else p.movedim(d, 0))
            shapes.append((1 if d is None else info.batch_size, *laid))
        if in_dims[0] is None:  # one x̂ for all
            y, *statistics = _ByHand.apply(x, None, None, how)
            weight, bias = map(_laid, parameters, shapes)
            y = y if weight is None else y * weight
            y = y if bias is None else y + bias
            return (y, *statistics), (0, *[None] * len(statistics))
        x = x.movedim(in_dims[0], 0)
        outputs = _ByHand.apply(x, *parameters, how._replace(shapes=tuple(shapes)))
        return outputs, (0,) * len(outputs)


def _pulled_back(
    grad_y: Tensor, x: Tensor, weight: Tensor | None, how: _How
) -> tuple[Tensor, Tensor]:
    """The gradient of x, in operations that autograd follows, and x̂."""
    axes, centred, eps, _ = how
    x, g = widen(x), widen(grad_y)
    if weight is not None:
        g = weight * g
    if centred:
        mean, square = moments(x, axes)
        x = x - mean
    else:
        square = mean_square(x, axes)
    inverse = 1 / torch.sqrt(square + eps)
    x_hat = x * inverse
    rest = g - x_hat * (g * x_hat).mean(axes, keepdim=True)
    if centred:
        rest = rest - g.mean(axes, keepdim=True)
    return inverse * rest, x_hat


def _in_parts(
    grad_y: Tensor,
    x: Tensor,
    weight: Tensor | None,
    statistics: list[Tensor],
    how: _How,
    wanted: tuple[bool, ...],
) -> tuple[Any, ...]:
    """The gradient of x, and those of γ and β if they are wanted, in place."""
    axes, centred, eps, shapes = how
    equal, wide, scratch = _where_equal(weight, axes), _wide(x), None
    grad_x = torch.empty_like(grad_y)
    sums = [x.new_zeros(s, dtype=wide) if w else None for s, w in zip(shapes, wanted, strict=True)]
    inverse = _inverse_root(statistics[-1], eps)
    share = inverse / -math.prod([x.shape[a] for a in axes])
    tensors = (grad_x, grad_y, x, weight, *sums, inverse, share, *statistics)
    for grad_x_, grad_y_, x_, weight_, of_weight, of_bias, inverse_, share_, *kept in _parts(
        x, axes, *tensors
    ):
        scratch, part = _space(scratch, x_, wide), _space(grad_x_, x_, wide)
        grad, values = grad_y_.to(wide), x_.to(wide)
        if centred:
            values = torch.sub(values, kept[0], out=scratch)
        # Along axes on which γ is equal the sums come first, and are small from there on.
        g, g_x_hat = grad, torch.mul(grad, values, out=part)
        if equal:
            g, g_x_hat = g.sum(equal, keepdim=True), g_x_hat.sum(equal, keepdim=True)
        g_x_hat.mul_(inverse_)
        if of_bias is not None:
            of_bias.add_(g.sum_to_size(of_bias.shape))
        if of_weight is not None:
            of_weight.add_(g_x_hat.sum_to_size(of_weight.shape))
            g_x_hat.mul_(weight_)
        along_x = g_x_hat.sum(axes, keepdim=True).mul_(share_).mul_(inverse_)
        if weight_ is not None:
            g = torch.mul(g, weight_, out=None if equal else part)
        if centred:
            mean_g = g.sum(axes, keepdim=True).mul_(share_)
        if equal:
            torch.mul(grad, inverse_ if weight_ is None else inverse_ * weight_, out=part)
        else:
            part.mul_(inverse_)
        part.addcmul_(values, along_x)
        if centred:
            part.add_(mean_g)
        if part is not grad_x_:
            grad_x_.copy_(part)
    return grad_x, *sums


def _laid(parameter: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
    """A parameter in the shape in which it broadcasts against x."""
    return None if parameter is None else parameter.reshape(shape)


def _where_equal(weight: Tensor | None, axes: tuple[int, ...]) -> list[int]:
    """The axes of a statistic on which all numbers have the same γ."""
    return [a for a in axes if weight is None or weight.shape[a] == 1]


def _wide(x: Tensor) -> torch.dtype:
    """The dtype of the statistics, as :func:`~normtutor.moments.widen` has it."""
    return torch.float32 if x.dtype.itemsize < 4 else x.dtype


def _inverse_root(variance: Tensor, eps: float) -> Tensor:
    return (variance + eps).sqrt_().reciprocal_()


def _space(tensor: Tensor | None, like: Tensor, dtype: torch.dtype) -> Tensor:
    """``tensor``, to write into, if it has the shape and dtype; else a new one."""
    if tensor is not None and tensor.shape == like.shape and tensor.dtype == dtype:
        return tensor
    return torch.empty_like(like, dtype=dtype)


def _followed(x: Tensor) -> bool:
    """Whether something follows each operation: forward-mode derivatives, or a tracer's mode."""
    return (
        forward_ad._current_level >= 0
        or is_in_torch_dispatch_mode()
        or torch._is_functional_tensor(x)
    )


def _in_memory(*tensors: Tensor) -> bool:
    """Whether each tensor is one array: what torch.vmap passes on stands for many."""
    try:
        return all(t.untyped_storage() is not None for t in tensors)
    except (NotImplementedError, RuntimeError):
        return False


def _parts(x: Tensor, axes: tuple[int, ...], *tensors: Any) -> Iterable[tuple[Any, ...]]:
    """Cut the tensors along an axis of x that no statistic sums over: the first one, if that does.

    Not along neighbours in memory. What has length one there goes with every part.
    """
    largest = PART if x.device.type == "cpu" else PART_ELSEWHERE
    if x.numel() <= largest:
        return [tensors]
    front = x.ndim + axes[0]  # so many axes that no statistic sums over stand in front
    if front > 1 and all(
        t is None or (t.is_contiguous() and t.shape[:front] in (x.shape[:front], (1,) * front))
        for t in tensors
    ):
        x = x.flatten(0, front - 1)
        tensors = tuple([None if t is None else t.flatten(0, front - 1) for t in tensors])
    free = [a for a in range(-x.ndim, 0) if a not in axes and x.shape[a] > 1 and x.stride(a) != 1]
    if not free:
        return [tensors]
    enough = [a for a in free if x.numel() <= largest * x.shape[a]]
    cut = enough[0] if enough else max(free, key=lambda a: x.shape[a])
    length = max(1, largest * x.shape[cut] // x.numel())
    return zip(
        *[
            itertools.repeat(t) if t is None or t.shape[cut] == 1 else t.split(length, cut)
            for t in tensors
        ],
        strict=False,
    )
