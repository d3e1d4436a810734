"""The norms as ``torch.nn`` modules over the formulas of :mod:`normtutor.norms`.

Each layer that torch.nn also has is a subclass of it: constructor, parameters, buffers,
``state_dict`` and ``repr`` are torch's own, and only ``forward`` is ours. So a layer of this module
can take the place of torch's in any model, and loads its weights. The layers whose statistics
cross tokens take a mask as well.
"""

import warnings
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.utils import parametrize

from normtutor import norms
from normtutor.validation import check_groups, partial_count

__all__ = [
    "BatchNorm",
    "DynamicTanh",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
    "PartialRMSNorm",
    "PowerNorm",
    "RMSNorm",
    "weight_norm",
]


def _check_dtype(x: Tensor, *parameters: Tensor | None) -> None:
    """Raise TypeError unless each parameter has x's dtype, or is float32 beside half precision."""
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


class BatchNorm(_BatchNorm):
    r"""BatchNorm over the formula :func:`normtutor.norms.batch_norm`.

    It stands for ``torch.nn.BatchNorm1d``, ``BatchNorm2d`` and ``BatchNorm3d``, and with
    ``feature_axis=-1`` for sequences of shape (B, L, H).

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
    without the feature axis, True on real tokens. Masked positions count in no statistic; the
    output there is 0 and no gradient passes. The running variance is unbiased over the real
    tokens. A batch without a real token counts in ``num_batches_tracked`` and changes nothing
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

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        _check_features(x, self.num_features, self.feature_axis)
        _check_dtype(x, self.weight, self.bias, self.running_mean, self.running_var)
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


def _store(buffer: Tensor | None, value: Tensor | None) -> None:
    """Write ``value`` into ``buffer`` without its graph, which would keep every past batch."""
    if buffer is not None and value is not None:
        with torch.no_grad():
            buffer.copy_(value.detach())


class InstanceNorm(_InstanceNorm):
    r"""InstanceNorm over the formula :func:`normtutor.norms.instance_norm`.

    It stands for ``torch.nn.InstanceNorm1d``, ``InstanceNorm2d`` and ``InstanceNorm3d``, and with
    ``feature_axis=-1`` for sequences of shape (B, L, H). Unlike torch's it tells a batched from an
    unbatched input by two axes only: (C, L) is one example, everything larger is a batch.

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

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if x.ndim == 2:
            mask = None if mask is None else mask.unsqueeze(0)
            return self.forward(x.unsqueeze(0), mask).squeeze(0)
        if self.affine or self.track_running_stats:
            _check_features(x, self.num_features, self.feature_axis)
        elif not _fits(x, self.num_features, self.feature_axis):
            warnings.warn(
                f"x has {x.shape[self.feature_axis]} features along axis {self.feature_axis}, the "
                f"layer was built for {self.num_features}. Without an affine the number is unused.",
                stacklevel=2,
            )
        _check_dtype(x, self.weight, self.bias, self.running_mean, self.running_var)
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
    ``forward(x, mask=None)``: shapes and mask as in :class:`BatchNorm`. Raises ValueError where a
    single value is all there is to normalize. Source: :cite:t:`wu2018`.
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

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        _check_features(x, self.num_channels, self.feature_axis)
        _check_dtype(x, self.weight, self.bias)
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

    Notes
    -----
    ``forward(x)``: x of shape (..., \*normalized_shape). Source: :cite:t:`ba2016`.
    """

    def forward(self, x: Tensor) -> Tensor:
        _check_dtype(x, self.weight, self.bias)
        y, _ = norms.layer_norm(
            x, self.weight, self.bias, normalized_shape=self.normalized_shape, eps=self.eps
        )
        return y


class RMSNorm(nn.RMSNorm):
    r"""RMSNorm over the formula :func:`normtutor.norms.rms_norm`.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The trailing shape that shares a statistic: H for x of shape (B, L, H).
    eps : float or None
        None is the machine epsilon of the dtype in which the statistic is accumulated.
    elementwise_affine : bool

    Notes
    -----
    ``forward(x)``: x of shape (..., \*normalized_shape). Half-precision x gives half-precision
    output whatever the dtype of the weight. Source: :cite:t:`zhang2019rms`.
    """

    def forward(self, x: Tensor) -> Tensor:
        y, _ = norms.rms_norm(x, self.weight, normalized_shape=self.normalized_shape, eps=self.eps)
        return y


class DynamicTanh(nn.Module):
    r"""Dynamic tanh over the formula :func:`normtutor.norms.dynamic_tanh`; no norm.

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

    def __init__(self, num_features: int, alpha_init_value: float = 0.5) -> None:
        super().__init__()
        self.num_features, self.alpha_init_value = num_features, alpha_init_value
        self.alpha = nn.Parameter(torch.empty(1))
        self.weight = nn.Parameter(torch.empty(num_features))
        self.bias = nn.Parameter(torch.empty(num_features))
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
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

    def __init__(self, dim: int, p: float, eps: float = 1e-8) -> None:
        super().__init__()
        partial_count(dim, p)
        self.dim, self.p, self.eps = dim, p, eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
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
        """Return the gradients of x, weight and bias, where there are such, and the ν that follows."""
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
        return *[
            g.sum(0) if d is None else g for g, d in zip(grads, given, strict=True)
        ], new_nu

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
        In so many batches at first, the batch's own quadratic mean divides.
    variant : {"pn", "pn-v", "authors-code"}
        "pn" is the paper's Algorithm 2, :func:`~normtutor.norms.power_norm`; "pn-v" divides by
        this batch, with the exact gradient, :func:`~normtutor.norms.power_norm_v`;
        "authors-code" is what the authors published,
        :func:`~normtutor.norms.power_norm_authors_code`.
    groups : int
        Of the per-token scaling in "authors-code".
    feature_axis : int

    Notes
    -----
    ``forward(x, mask=None)``: x of shape (B, L, H) or, with ``feature_axis=1``, (B, C, ...); the
    mask as in :class:`BatchNorm`. Buffers: ``running_mean_square``, ψ², which starts at 1, and
    moves in training; ``nu``, which starts at 0 and moves in the backward pass of a training step,
    after it was used; ``num_batches_tracked``. In evaluation nothing moves, and the output is
    linear in x but for β and the scaling of "authors-code". "pn-v" keeps ψ² for its evaluation.
    In training the gradient of "pn" and "authors-code" is approximate and has no gradient of its
    own: autograd raises where a second one is asked for. Gradient checkpointing changes it, because
    the forward pass then runs again after ψ² has moved. Source: :cite:t:`shen2020`.
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
        *,
        variant: str = "pn",
        groups: int = 1,
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
        self.feature_axis = feature_axis
        self.weight = nn.Parameter(torch.ones(num_features)) if affine else None
        self.bias = nn.Parameter(torch.zeros(num_features)) if affine else None
        self.register_buffer("running_mean_square", torch.ones(num_features))
        self.register_buffer("nu", torch.zeros(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def reset_parameters(self) -> None:
        """Set the parameters and the running statistics to their initial values."""
        self.running_mean_square.fill_(1)
        self.nu.zero_()
        self.num_batches_tracked.zero_()
        if self.weight is not None and self.bias is not None:
            nn.init.ones_(self.weight)
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        _check_features(x, self.num_features, self.feature_axis)
        _check_dtype(x, self.weight, self.bias, self.running_mean_square)
        options: dict[str, Any] = {
            "training": self.training,
            "alpha": self.alpha_forward,
            "eps": self.eps,
            "feature_axis": self.feature_axis,
            "warmup_steps": self.warmup_steps,
        }
        if self.variant == "authors-code":
            options["groups"] = self.groups
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
        return text + _axis_repr(self.feature_axis, -1)


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
        If ``module`` has no parameter of that name.

    Notes
    -----
    Source: :cite:t:`salimans2016`.
    """
    if not isinstance(getattr(module, name, None), Tensor):
        raise ValueError(
            f"module has no parameter {name!r}; got {type(module).__name__}. "
            f"Choose one of: {', '.join(n for n, _ in module.named_parameters()) or 'none there'}."
        )
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module.register_load_state_dict_pre_hook(partial(_rename_old_keys, name=name))
    type(module).__reduce_ex__ = _reduce  # type: ignore[method-assign,assignment]
    return module
