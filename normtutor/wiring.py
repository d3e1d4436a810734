r"""Where the norm is in a residual step, and how the step is weighted.

A Transformer layer is two residual steps, one around attention and one around the feed-forward
network. Every published wiring of such a step is a case of one formula. With a sublayer :math:`F`,
and up to three norms,

.. math::

    x' = N_{\text{stream}}\bigl(a\, x + b\, N_{\text{out}}(F(s\, N_{\text{in}}(x)))\bigr)

Norms that a wiring lacks are the identity, and its factors :math:`a, b, s` are 1 unless it says
otherwise. One wiring, "b2t", adds in the second step of a layer what entered the first.
:data:`WIRINGS` is the table; :class:`ResidualStep` is the formula.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from normtutor import layers

NormFactory = Callable[[int], nn.Module]
Sublayer = Callable[[Tensor], Tensor]
# A number that depends on the layer, counted from 1, and on how many layers there are.
Factor = Callable[[int, int], float]

# These pool over tokens, so they must be told which tokens are padding.
POOLING_NORMS = (layers.BatchNorm, layers.InstanceNorm, layers.GroupNorm, layers.PowerNorm)


def one(layer: int, depth: int) -> float:
    """The factor that changes nothing."""
    return 1.0


@dataclass(frozen=True)
class Wiring:
    r"""One row of the table: which norms are where, and the factors.

    Parameters
    ----------
    norms : tuple of str
        Those of "in", "out" and "stream" that are there.
    skip, branch, inside : function
        a, b and s: functions of the layer, from 1, and the number of layers.
    learned : "", "skip" or "branch"
        Which factor is trained. "skip" makes a a vector with one entry per feature; "branch"
        leaves b a number. Either starts at the value that its function gives.
    weights : function
        From the layer and the number of layers to three factors on the sublayer's initial weights:
        on what makes the attention scores (query and key), on the other matrices that read the
        stream (value, first feed-forward), and on those that write to it (attention output, last
        feed-forward).
    final_norm : bool
        Whether a norm follows the last layer.
    bottom : bool
        Whether the last step of a layer also adds what entered the layer.
    """

    norms: tuple[str, ...]
    skip: Factor = one
    branch: Factor = one
    inside: Factor = one
    learned: str = ""
    weights: Callable[[int, int], tuple[float, float, float]] = lambda layer, depth: (1.0, 1.0, 1.0)
    final_norm: bool = False
    bottom: bool = False


def _deep_norm(layer: int, depth: int) -> tuple[float, float, float]:
    beta = (8 * depth) ** -0.25
    return 1.0, beta, beta


def _depth_scaled(layer: int, depth: int) -> tuple[float, float, float]:
    return (layer**-0.5,) * 3


def _fixup(layer: int, depth: int) -> tuple[float, float, float]:
    # L^(−1/(2m−2)) with L = 2·depth branches of m = 2 matrices.
    scale = (2 * depth) ** -0.5
    return scale, scale, 0.0


#: The wirings by name.
#:
#: - "none": no norm at all;
#: - "post": Post-LN, of the first Transformer :cite:p:`vaswani2017`;
#: - "pre": Pre-LN :cite:p:`xiong2020`;
#: - "out": the norm at the end of the branch, as in OLMo 2 :cite:p:`olmo2025`;
#: - "peri": at both ends of the branch :cite:p:`kim2025`, also called sandwich;
#: - "ln-scaling": Pre-LN, the norm's output divided by √layer :cite:p:`sun2025`;
#: - "gpt-2": Pre-LN, the matrices that write to the stream start 1/√(2·depth) times as large
#:   :cite:p:`radford2019`;
#: - "deepnorm": Post-LN with a larger skip and smaller initial weights :cite:p:`wang2022`, the
#:   values for a decoder;
#: - "ds-init": Post-LN, initial weights divided by √layer :cite:p:`zhang2019dsinit`;
#: - "admin": Post-LN with a learned skip :cite:p:`liu2020`, set by
#:   :func:`normtutor.models.admin_initialise`;
#: - "b2t": Post-LN; a second shortcut leads from the bottom of a layer to the sum before its last
#:   norm :cite:p:`takase2023`. The authors' code also divides all initial weights by √depth;
#: - "rezero": no norm, a learned factor on the branch that starts at 0 :cite:p:`bachlechner2021`;
#: - "fixup": no norm, small initial weights, zero in the last matrix of the branch, and a learned
#:   factor on the branch that starts at 1 :cite:p:`zhang2019fixup`. The biases that our sublayers
#:   have stand for Fixup's own.
WIRINGS: dict[str, Wiring] = {
    "none": Wiring(()),
    "post": Wiring(("stream",)),
    "pre": Wiring(("in",), final_norm=True),
    "out": Wiring(("out",), final_norm=True),
    "peri": Wiring(("in", "out"), final_norm=True),
    "ln-scaling": Wiring(("in",), inside=lambda layer, depth: layer**-0.5, final_norm=True),
    "gpt-2": Wiring(
        ("in",), weights=lambda layer, depth: (1.0, 1.0, (2 * depth) ** -0.5), final_norm=True
    ),
    "deepnorm": Wiring(
        ("stream",), skip=lambda layer, depth: (2 * depth) ** 0.25, weights=_deep_norm
    ),
    "ds-init": Wiring(("stream",), weights=_depth_scaled),
    "admin": Wiring(("stream",), learned="skip"),
    "b2t": Wiring(("stream",), bottom=True),
    "rezero": Wiring((), branch=lambda layer, depth: 0.0, learned="branch"),
    "fixup": Wiring((), learned="branch", weights=_fixup),
}


def wiring_named(name: str | Wiring) -> Wiring:
    """Look up a wiring; a :class:`Wiring` of your own passes through."""
    if isinstance(name, Wiring):
        return name
    if name not in WIRINGS:
        raise ValueError(f"wiring must be one of {', '.join(WIRINGS)}, or a Wiring; got {name!r}.")
    return WIRINGS[name]


def mix_ln(depth: int, share: float = 0.25) -> tuple[str, ...]:
    """Mix-LN :cite:p:`li2025`: Post-LN in the first ``share`` of the layers, then Pre-LN.

    >>> mix_ln(4)
    ('post', 'pre', 'pre', 'pre')
    """
    first = math.floor(share * depth)
    return ("post",) * first + ("pre",) * (depth - first)


def apply_norm(norm: nn.Module, x: Tensor, mask: Tensor | None) -> Tensor:
    """Apply ``norm``, handing the mask to the norms whose statistics cross tokens."""
    if mask is not None and isinstance(norm, POOLING_NORMS):
        return norm(x, mask)
    return norm(x)


class ResidualStep(nn.Module):
    r"""One residual step: the formula at the top of this module.

    Parameters
    ----------
    wiring : str or Wiring
        A name in :data:`WIRINGS`, or a row of your own.
    features : int
        H.
    norm : function
        From the number of features to a norm.
    layer, depth : int
        Which layer this is, from 1, and how many there are.
    dropout : float
        Applied to what the sublayer puts out.

    Notes
    -----
    ``forward(x, sublayer, mask=None, bottom=None)``. The norms are ``norm_in``, ``norm_out`` and
    ``norm_stream``, None where the wiring has none; the factors a, b, s are ``skip``, ``branch``
    and ``inside``, a parameter where learned. ``bottom`` is added before ``norm_stream``: what
    entered the layer, which a layer hands to its last step if that step's wiring has ``bottom``.

    Examples
    --------
    >>> step = ResidualStep("deepnorm", 64, layer=3, depth=8)
    >>> step.skip, step.norm_in is None
    (2.0, True)
    >>> step(torch.randn(2, 5, 64), nn.Linear(64, 64)).shape
    torch.Size([2, 5, 64])
    """

    skip: float | Tensor
    branch: float | Tensor

    def __init__(
        self,
        wiring: str | Wiring,
        features: int,
        norm: NormFactory = layers.LayerNorm,
        *,
        layer: int = 1,
        depth: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not 1 <= layer <= depth:
            raise ValueError(f"layer counts from 1 to depth; got layer={layer} and depth={depth}.")
        self.wiring = wiring_named(wiring)
        self.norm_in, self.norm_out, self.norm_stream = (
            norm(features) if place in self.wiring.norms else None
            for place in ("in", "out", "stream")
        )
        self.skip = self.wiring.skip(layer, depth)
        self.branch = self.wiring.branch(layer, depth)
        self.inside = self.wiring.inside(layer, depth)
        if self.wiring.learned == "skip":
            start = torch.full((features,), self.skip)
            del self.skip  # a plain attribute would stand before the parameter
            self.skip = nn.Parameter(start)
        elif self.wiring.learned == "branch":
            start = torch.tensor(self.branch)
            del self.branch
            self.branch = nn.Parameter(start)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        sublayer: Sublayer,
        mask: Tensor | None = None,
        bottom: Tensor | None = None,
    ) -> Tensor:
        """Step from x to x', (B, L, H) -> (B, L, H); ``mask`` is True on real tokens."""
        h = x
        if self.norm_in is not None:
            h = self.inside * apply_norm(self.norm_in, h, mask)
        h = self.dropout(sublayer(h))
        if self.norm_out is not None:
            h = apply_norm(self.norm_out, h, mask)
        x = self.skip * x + self.branch * h  # (B, L, H)
        if bottom is not None:
            x = x + bottom
        return x if self.norm_stream is None else apply_norm(self.norm_stream, x, mask)
