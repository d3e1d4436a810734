"""PowerNorm: its buffers, and its approximate gradient as a function for autograd."""

from typing import Any

import torch
from torch import Tensor, nn

from normtutor import norms
from normtutor.layers.common import axis_repr, check_dtypes, feature_axis_of, one_node, store
from normtutor.validation import check_groups, refuse

__all__ = ["PowerNorm"]

FORMULAS: dict[str, tuple[Any, Any]] = {
    "pn": (norms.power_norm, norms.power_norm_backward),
    "pn-v": (norms.power_norm_v, norms.power_norm_v_backward),
    "authors-code": (norms.power_norm_authors_code, norms.power_norm_authors_code_backward),
}


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


class _NoSecondDerivative(torch.autograd.Function):
    """Hand the gradients on, and raise where something asks for theirs.

    Their sources are arguments, so that every path from a second derivative to x, the weight or
    the loss leads through here: torch's ``once_differentiable`` guards only the path to the loss.
    """

    @staticmethod
    def forward(ctx, count, *grads_and_sources):
        return tuple([grad.view_as(grad) for grad in grads_and_sources[:count]])

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError(
            "in training the gradient of PowerNorm is an approximation that has no derivative of "
            "its own: it takes ψ and ν as constants, which are averages over the past. Got a "
            'second derivative through it. Use variant="pn-v", whose gradient is exact, or '
            "evaluation mode."
        )


class _PaperGradient(torch.autograd.Function):
    """A forward pass of PowerNorm with the backward pass of its paper, which also moves ν.

    ``backward`` forms the cache anew, so that x is all that is kept.
    """

    @staticmethod
    def forward(x, weight, bias, psi_squared, mask, step, layer, options):
        norm, _ = FORMULAS[layer.variant]
        y, _, updated = norm(x, weight, bias, psi_squared, mask=mask, step=step, **options)
        return y, updated

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, layer, ctx.options = inputs
        ctx.save_for_backward(*tensors)
        # ν is read when the backward pass runs, so it is not saved: another may have moved it.
        ctx.nu, ctx.variant, ctx.alpha = layer.nu, layer.variant, layer.alpha_backward
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def vmap(*_):
        raise NotImplementedError(
            "in training PowerNorm moves its running statistics, so that it does not run under "
            'vmap. Use variant="pn-v" or evaluation mode, or loop over the members.'
        )

    @staticmethod
    def backward(ctx, grad_y, _):
        x, weight, bias, psi_squared, mask, step = ctx.saved_tensors
        norm, norm_backward = FORMULAS[ctx.variant]
        with torch.no_grad():
            _, cache, _ = norm(x, weight, bias, psi_squared, mask=mask, step=step, **ctx.options)
            grads, new_nu = norm_backward(grad_y, cache, ctx.nu, alpha=ctx.alpha)
        store(ctx.nu, new_nu)
        grads = list(grads)
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            there = [i for i, grad in enumerate(grads) if grad is not None]
            sources = [t for t in (grad_y, x, weight) if t is not None]
            guarded = _NoSecondDerivative.apply(len(there), *[grads[i] for i in there], *sources)
            for i, grad in zip(there, guarded, strict=True):
                grads[i] = grad
        return *grads, *[None] * 5


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
    moved. ν is in units of the loss: where ``torch.amp.GradScaler`` changes its scale, multiply
    ``nu`` by the same factor, or the gradients are off by some percent until ν has followed.
    Source: :cite:t:`shen2020`.
    """

    weight: Tensor | None
    bias: Tensor | None
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
        if variant not in FORMULAS:
            raise ValueError(
                f'unknown variant {variant!r}. Choose "pn" (Algorithm 2), "pn-v" (the statistic of '
                'the batch) or "authors-code" (what the authors published).'
            )
        check_groups(groups, num_features)
        for name, alpha in (("alpha_forward", alpha_forward), ("alpha_backward", alpha_backward)):
            if not 0 <= alpha <= 1:
                rule = f"{name} must lie in [0, 1], the weight of the past in an average"
                refuse(ValueError, rule, alpha, "The usual value is 0.9.")
        if warmup_steps < 0:
            refuse(ValueError, "warmup_steps must not be negative", warmup_steps, "0 is none.")
        self.num_features, self.eps, self.affine = num_features, eps, affine
        self.alpha_forward, self.alpha_backward = alpha_forward, alpha_backward
        self.warmup_steps, self.variant, self.groups = warmup_steps, variant, groups
        self.nu_counts_padding, self.feature_axis = nu_counts_padding, feature_axis
        options: Any = {"device": device, "dtype": dtype}
        for name in ("weight", "bias"):
            value = nn.Parameter(torch.empty(num_features, **options)) if affine else None
            self.register_parameter(name, value)
        for name in ("running_mean_square", "nu"):
            self.register_buffer(name, torch.empty(num_features, **options))
        self.register_buffer("num_batches_tracked", torch.tensor(0, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the parameters and the running statistics to their initial values."""
        self.running_mean_square.fill_(1)
        self.nu.zero_()
        self.num_batches_tracked.zero_()
        if self.weight is not None and self.bias is not None:
            nn.init.ones_(self.weight)
            nn.init.zeros_(self.bias)

    @one_node
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        check_dtypes(self, x)
        axis = feature_axis_of(self, x, self.num_features)
        parameters = (self.weight, self.bias)
        options: dict[str, Any] = {"alpha": self.alpha_forward, "warmup_steps": self.warmup_steps}
        options |= {"training": self.training, "eps": self.eps, "feature_axis": axis}
        if self.variant == "authors-code":
            options |= {"groups": self.groups, "nu_counts_padding": self.nu_counts_padding}
        norm = FORMULAS["pn" if self.variant == "pn-v" else self.variant][0]
        if not self.training:
            return norm(x, *parameters, self.running_mean_square, mask=mask, **options)[0]
        step = _snapshot(self.num_batches_tracked) + 1
        psi_squared = _snapshot(self.running_mean_square)
        if self.variant == "pn-v":
            with torch.no_grad():
                updated = norm(x, *parameters, psi_squared, mask=mask, step=step, **options)[2]
            y, _ = norms.power_norm_v(x, *parameters, mask=mask, eps=self.eps, feature_axis=axis)
        else:
            y, updated = _PaperGradient.apply(
                x, *parameters, psi_squared, mask, step, self, options
            )
        self.num_batches_tracked.add_(1)  # only now: a call that raises is no batch
        store(self.running_mean_square, updated)
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
        return text + axis_repr(self.feature_axis, -1)
