"""PowerNorm: its buffers, and its approximate gradient as a function for autograd."""

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from normtutor import norms
from normtutor.layers.by_hand import by_hand
from normtutor.layers.common import (
    _axis_repr,
    _check_dtype,
    _check_features,
    _one_node,
    _over_batch,
    _store,
)
from normtutor.norms.power_norm import running_after
from normtutor.validation import check_groups

__all__ = ["PowerNorm"]


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
        found = None
        if self.variant == "pn-v" and mask is None:
            axes = _over_batch(x, self.feature_axis)
            found = by_hand(x, *parameters, self.eps, **axes, centred=False)
        if found is not None:
            y, batch = found
            n, alpha = x.numel() // self.num_features, self.alpha_forward
            updated = running_after(psi_squared, batch, n, alpha, step, self.warmup_steps)
        elif self.variant == "pn-v":
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
