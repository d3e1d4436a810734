"""The layers whose γ and β come from a condition, one pair for each example."""

from typing import Any

from torch import Tensor, nn

from normtutor import norms
from normtutor.layers.common import (
    axis_repr,
    check_tensor,
    feature_axis_of,
    of_real_tokens,
    one_node,
)
from normtutor.validation import check_parameters, refuse

__all__ = ["AdaptiveLayerNorm", "AdaptiveLayerNormZero", "FiLM"]


class _Conditional(nn.Module):
    """The linear map from a condition to what stands in the place of γ and β, all 0 at first."""

    feature_axis = -1

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
        check_tensor(x)
        check_tensor(condition, "condition")
        expected = (x.shape[0], self.condition_features)
        if tuple(condition.shape) != expected:
            rule = f"condition must have shape {expected}, one row for each example of x"
            got = f"{tuple(condition.shape)} beside x of shape {tuple(x.shape)}"
            refuse(ValueError, rule, got)
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
    ``forward(x, condition, mask=None)``: condition of shape (B, condition_features). The linear map
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

    @one_node
    def forward(self, x: Tensor, condition: Tensor, mask: Tensor | None = None) -> Tensor:
        scale, shift = self._parts_of(x, condition)
        axis = feature_axis_of(self, x, self.num_features)
        return of_real_tokens(
            lambda x: norms.film(x, scale, shift, feature_axis=axis)[0], x, mask, axis
        )

    def extra_repr(self) -> str:
        return super().extra_repr() + axis_repr(self.feature_axis, -1)


def _adapted(layer: Any, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """AdaLN of x."""
    feature_axis_of(layer, x, layer.num_features)
    return norms.adaptive_layer_norm(x, scale, shift, eps=layer.eps)[0]


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
    ``forward(x, condition, mask=None)``: condition of shape (B, condition_features), for example
    the sum of the embeddings of a class and a time, after an activation. The linear map
    ``projection`` starts at 0, so that the layer starts as LayerNorm. Source:
    :cite:t:`peebles2023`.
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

    @one_node
    def forward(self, x: Tensor, condition: Tensor, mask: Tensor | None = None) -> Tensor:
        scale, shift = self._parts_of(x, condition)
        return of_real_tokens(lambda x: _adapted(self, x, scale, shift), x, mask, -1)

    def extra_repr(self) -> str:
        return super().extra_repr() + f", eps={self.eps}"


class AdaptiveLayerNormZero(_Conditional):
    r"""A residual block with AdaLN-Zero: the norm before a branch and the gate a after it.

    :math:`y = x + a\, f(\mathrm{AdaLN}(x))`, over :func:`normtutor.norms.adaptive_layer_norm`.

    Parameters
    ----------
    branch : torch.nn.Module
        f, for example attention or a feed-forward network; it keeps the shape of x.
    num_features, condition_features, eps
        As in :class:`AdaptiveLayerNorm`.

    Notes
    -----
    ``forward(x, condition, mask=None)``. The linear map ``projection`` gives scale, shift and gate
    and starts at 0, so that the block starts as the identity, whatever the branch. Source:
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

    @one_node
    def forward(self, x: Tensor, condition: Tensor, mask: Tensor | None = None) -> Tensor:
        scale, shift, gate = self._parts_of(x, condition)

        def block(x: Tensor) -> Tensor:
            branch = self.branch(_adapted(self, x, scale, shift))
            check_parameters(x, tuple(x.shape), branch=branch)
            a = gate.reshape(x.shape[0], *[1] * (x.ndim - 2), -1)  # one per example and feature
            return x + a * branch

        return of_real_tokens(block, x, mask, -1)

    def extra_repr(self) -> str:
        return super().extra_repr() + f", eps={self.eps}"
