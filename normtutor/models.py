r"""Small models whose norm is an argument.

- :class:`TransformerLM`: a causal language model. Where its norms stand is an argument too
  (see :mod:`normtutor.wiring`).
- :class:`ResNet`: a convolutional network for small images.
- :class:`MLP` and :class:`GRU`: the two simplest networks in which a norm has something to do.

A norm is named ("layer", "batch", ...; see :func:`make_norm`) or is a function that takes the
number of features and returns a module.
"""

import math
from collections.abc import Callable, Sequence
from inspect import signature
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor import layers, norms
from normtutor.wiring import NormFactory, ResidualStep, Wiring, apply_norm, wiring_named

# The wiring of a layer: of both its steps, or of attention and of the feed-forward network.
LayerWiring = str | Wiring | tuple[str | Wiring, str | Wiring]


# --- which norm -----------------------------------------------------------------------------------


# What a model calls a norm -> how its layer is built.
NORM_LAYERS = {
    row.layer.called: row.layer
    for row in (norms.TABLE | norms.RELATIVES).values()
    if row.layer.called
}


def make_norm(norm: str | NormFactory, features: int, *, feature_axis: int = -1) -> nn.Module:
    """Build a norm over ``features`` features.

    Parameters
    ----------
    norm : str or function
        "none", or what the norm's row of :data:`normtutor.norms.TABLE` or
        :data:`normtutor.norms.RELATIVES` has it called: "layer", "rms", "batch", "group",
        "instance", "power", "power-v", "tanh" (:class:`normtutor.layers.DynamicTanh`), ...; or a
        function from the number of features to a module.
    feature_axis : int
        −1 for tokens (B, L, H), 1 for images (B, C, H, W). On images "layer" is what papers on
        images call LayerNorm: GroupNorm with one group.
    """
    if callable(norm):
        return norm(features)
    if norm == "none":
        return nn.Identity()
    if norm == "layer" and feature_axis == 1:
        return layers.GroupNorm(1, features)
    layer = NORM_LAYERS.get(norm)
    kind = getattr(layers, layer.name) if layer else None
    chooses_axis = kind is not None and "feature_axis" in signature(kind).parameters
    if layer is None or kind is None or not (chooses_axis or feature_axis == -1):
        raise ValueError(
            f'norm must be "none", {", ".join(map(repr, NORM_LAYERS))}, or a function of the '
            f"number of features; got {norm!r} for feature_axis={feature_axis}. Some norms are for "
            "tokens alone, whose features come last."
        )
    axis = {"feature_axis": feature_axis} if chooses_axis else {}
    return kind(*layer.before, features, **layer.options, **axis)


# --- a Transformer language model -----------------------------------------------------------------


class CausalAttention(nn.Module):
    """Multi-head self-attention in which a token sees itself and what came before.

    ``qk_norm`` names a norm for the queries and the keys, over the features of one head; with
    ``value_norm`` the values get one too.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        qk_norm: str | NormFactory = "none",
        value_norm: bool = False,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)
        self.query_norm = make_norm(qk_norm, width // heads)
        self.key_norm = make_norm(qk_norm, width // heads)
        self.value_norm = make_norm(qk_norm if value_norm else "none", width // heads)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values by head, (B, L, H) -> three of (B, heads, L, H/heads)."""
        B, L, H = x.shape
        parts = (B, L, 3, self.heads, H // self.heads)
        query, key, value = self.project_in(x).view(parts).permute(2, 0, 3, 1, 4)
        return self.query_norm(query), self.key_norm(key), self.value_norm(value)

    def forward(self, x: Tensor) -> Tensor:
        """Mix what the tokens carry, (B, L, H) -> (B, L, H)."""
        query, key, value = self.split(x)
        # No padding mask: padding stands on the right, and no token looks to its right.
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project_out(mixed.transpose(1, 2).reshape(x.shape))

    def weight_groups(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """The matrices behind the scores, those that read the values, those that write."""
        query, key, value = self.project_in.weight.chunk(3)
        return [query, key], [value], [self.project_out.weight]


class FeedForward(nn.Sequential):
    """Two linear layers with a ReLU between them, the same for every position."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))

    def weight_groups(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """As in :meth:`CausalAttention.weight_groups`; there are no scores."""
        return [], [self[0].weight], [self[2].weight]  # type: ignore[list-item]


class TransformerLayer(nn.Module):
    """Attention, then a position-wise network: two residual steps."""

    def __init__(
        self,
        attention: CausalAttention,
        feed_forward: FeedForward,
        attention_step: ResidualStep,
        feed_forward_step: ResidualStep,
    ) -> None:
        super().__init__()
        self.attention, self.attention_step = attention, attention_step
        self.feed_forward, self.feed_forward_step = feed_forward, feed_forward_step

    def steps(self) -> tuple[tuple[ResidualStep, CausalAttention | FeedForward], ...]:
        """The residual steps with their sublayers, in order."""
        return (
            (self.attention_step, self.attention),
            (self.feed_forward_step, self.feed_forward),
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """One layer, (B, L, H) -> (B, L, H)."""
        bottom = x if self.feed_forward_step.wiring.bottom else None
        x = self.attention_step(x, self.attention, mask)
        return self.feed_forward_step(x, self.feed_forward, mask, bottom)


class TransformerLM(nn.Module):
    """A causal Transformer language model: token numbers in, scores of the next token out.

    Padding must be on the right. A real token then never attends to padding, and the *only* way
    in which padding can reach a real token is a norm that pools over tokens without a mask.

    Parameters
    ----------
    vocabulary, width, depth, heads, max_length : int
        Number of tokens known, features H, layers, attention heads, longest input L.
    norm : str or function
        See :func:`make_norm`.
    wiring : str or Wiring, or a sequence of them
        Where the norms stand: a name in :data:`normtutor.wiring.WIRINGS`. A sequence gives each
        layer its own; an entry of it may be a pair, for attention and for the feed-forward network.
    dropout : float
        Applied to the embeddings and to each residual branch.
    mask_norms : bool
        Whether norms that pool over tokens are told which tokens are padding.
    qk_norm : str or function
        A norm for the queries and keys of each head; "none" by default.
    value_norm : bool
        Whether the values get that norm too.
    tied : bool
        Whether the output matrix is that of the token embedding, or a head of its own, drawn
        alike.
    final_norm : bool, optional
        Whether a norm follows the last layer; by default what the wiring of the last layer says.
    embedding_scale : float
        A factor on what the embeddings put into the first layer.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        width: int = 64,
        depth: int = 2,
        heads: int = 4,
        max_length: int = 64,
        norm: str | NormFactory = "layer",
        wiring: str | Wiring | Sequence[LayerWiring] = "post",
        dropout: float = 0.1,
        mask_norms: bool = True,
        qk_norm: str | NormFactory = "none",
        value_norm: bool = False,
        tied: bool = True,
        final_norm: bool | None = None,
        embedding_scale: float = 1.0,
    ) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"heads must divide width; got width={width} and heads={heads}.")
        pairs = _wiring_of_each_layer(wiring, depth)
        self.mask_norms = mask_norms
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.position_embedding = nn.Embedding(max_length, width)
        self.dropout = nn.Dropout(dropout)

        def step(wiring: Wiring, layer: int) -> ResidualStep:
            return ResidualStep(
                wiring,
                width,
                lambda features: make_norm(norm, features),
                layer=layer,
                depth=depth,
                dropout=dropout,
            )

        self.layers = nn.ModuleList(
            TransformerLayer(
                CausalAttention(width, heads, qk_norm=qk_norm, value_norm=value_norm),
                FeedForward(width, 4 * width),
                step(around_attention, layer),
                step(around_feed_forward, layer),
            )
            for layer, (around_attention, around_feed_forward) in enumerate(pairs, start=1)
        )
        if final_norm is None:
            final_norm = bool(pairs) and pairs[-1][1].final_norm
        self.final_norm = make_norm(norm if final_norm else "none", width)
        self.embedding_scale = embedding_scale
        self.head = None if tied else nn.Linear(width, vocabulary, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights anew: Xavier for matrices, zero for biases, variance 1/width for tokens.

        Then each matrix inside a residual branch is multiplied by the factor of its wiring.
        """
        width = self.token_embedding.embedding_dim
        for module in self.modules():
            if isinstance(module, nn.Linear) and module is not self.head:
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        # The embedding is the output matrix too, so its scale sets the scale of the first scores.
        nn.init.normal_(self.token_embedding.weight, std=width**-0.5)
        nn.init.normal_(self.position_embedding.weight, std=width**-0.5)
        if self.head is not None:
            nn.init.normal_(self.head.weight, std=width**-0.5)
        with torch.no_grad():
            for number, layer in enumerate(self.layers, start=1):
                for step, sublayer in layer.steps():  # type: ignore[operator]
                    factors = step.wiring.weights(number, len(self.layers))
                    for factor, group in zip(factors, sublayer.weight_groups(), strict=True):
                        for weight in group:
                            weight.mul_(factor)

    def embed(self, tokens: Tensor) -> Tensor:
        """Token and position embeddings, scaled to about variance 2, (B, L) -> (B, L, H)."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        return self.dropout(x * (self.embedding_scale * math.sqrt(x.shape[-1])))

    def hidden(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """The last hidden states, (B, L) -> (B, L, H)."""
        norm_mask = mask if self.mask_norms else None
        x = self.embed(tokens)  # (B, L, H)
        for layer in self.layers:
            x = layer(x, norm_mask)
        return apply_norm(self.final_norm, x, norm_mask)

    def scores(self, hidden: Tensor) -> Tensor:
        """Scores of the next token, (..., H) -> (..., vocabulary)."""
        matrix = self.token_embedding if self.head is None else self.head
        return hidden @ matrix.weight.T

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Scores of the next token, (B, L) -> (B, L, vocabulary)."""
        return self.scores(self.hidden(tokens, mask))


def _wiring_of_each_layer(
    wiring: str | Wiring | Sequence[LayerWiring], depth: int
) -> list[tuple[Wiring, Wiring]]:
    every: Sequence[LayerWiring] = (
        (wiring,) * depth if isinstance(wiring, (str, Wiring)) else tuple(wiring)
    )
    if len(every) != depth:
        raise ValueError(
            f"a sequence of wirings needs one entry per layer; got {len(every)} for depth={depth}."
        )
    pairs = (entry if isinstance(entry, tuple) else (entry, entry) for entry in every)
    return [(wiring_named(a), wiring_named(b)) for a, b in pairs]


def admin_initialise(model: TransformerLM, tokens: Tensor) -> None:
    r"""Set the skip vectors of the wiring "admin" from one batch, as :cite:t:`liu2020` do.

    With :math:`f_i` the branch of step i, :math:`\omega_i^2 = 1 + \sum_{j<i} \mathrm{Var}\,f_j`:
    each step then weights its branch against the stream as an untrained Pre-LN model does.

    Parameters
    ----------
    model : TransformerLM
        Every layer wired as "admin". Changed in place.
    tokens : Tensor of shape (B, L)
        A batch of training data, without padding.
    """
    steps = [pair for layer in model.layers for pair in layer.steps()]  # type: ignore[operator]
    if not all(step.wiring.learned == "skip" for step, _ in steps):
        raise ValueError('every layer must have the learned skip of the wiring "admin".')
    was_training = model.training
    model.eval()  # dropout would be measured as variance of the branch
    with torch.no_grad():
        x, total = model.embed(tokens), 1.0
        for step, sublayer in steps:
            step.skip.fill_(math.sqrt(total))
            total += sublayer(x).var(correction=0).item()
            x = step(x, sublayer)
    model.train(was_training)


# --- networks for images and vectors --------------------------------------------------------------


class ResidualBlock(nn.Module):
    """Two 3-by-3 convolutions with a skip connection; a wider block halves the grid."""

    def __init__(self, c_in: int, c_out: int, norm: str | NormFactory) -> None:
        super().__init__()
        stride = 1 if c_in == c_out else 2
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, padding=1, bias=False)
        self.norm1 = make_norm(norm, c_out, feature_axis=1)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1, bias=False)
        self.norm2 = make_norm(norm, c_out, feature_axis=1)
        self.shortcut = (
            nn.Identity() if stride == 1 else nn.Conv2d(c_in, c_out, 1, stride, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        branch = F.relu(self.norm1(self.conv1(x)))
        branch = self.norm2(self.conv2(branch))
        return F.relu(self.shortcut(x) + branch)  # (B, C, H, W)


class ResNet(nn.Module):
    """A small residual network: one convolution, one block per width, mean over the grid, classes.

    On images, "layer" is GroupNorm with one group (see :func:`make_norm`).
    """

    def __init__(
        self,
        *,
        norm: str | NormFactory = "batch",
        widths: Sequence[int] = (16, 32),
        classes: int = 10,
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, widths[0], 3, padding=1, bias=False)
        self.stem_norm = make_norm(norm, widths[0], feature_axis=1)
        pairs = pairwise((widths[0], *widths))
        self.blocks = nn.Sequential(*(ResidualBlock(a, b, norm) for a, b in pairs))
        self.classify = nn.Linear(widths[-1], classes)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of the classes, (B, 1, H, W) -> (B, classes)."""
        x = F.relu(self.stem_norm(self.stem(images)))
        x = self.blocks(x)  # (B, C, H, W)
        return self.classify(x.mean(dim=(2, 3)))


class MLP(nn.Module):
    """Linear, norm, activation, repeated; then a linear layer to the classes."""

    def __init__(
        self,
        widths: Sequence[int] = (64, 100, 100, 100, 10),
        *,
        norm: str | NormFactory = "none",
        activation: Callable[[Tensor], Tensor] = torch.relu,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(make_norm(norm, width) for width in widths[1:-1])

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes, (B, ...) -> (B, classes)."""
        x = x.flatten(1)
        for linear, norm in zip(self.linears[:-1], self.norms, strict=True):
            x = self.activation(norm(linear(x)))
        return self.linears[-1](x)


class GRU(nn.Module):
    """A gated recurrent unit, written out, with norms on the input's and the state's projections.

    ``norm`` must treat each token by itself ("layer", "rms", "none"): a norm with statistics over
    the batch would need its own for every step.
    """

    def __init__(self, inputs: int, width: int, *, norm: str | NormFactory = "none") -> None:
        super().__init__()
        self.width = width
        self.from_input = nn.Linear(inputs, 3 * width)
        self.from_state = nn.Linear(width, 3 * width, bias=False)
        # Gates and candidate are normalized apart: they play different parts.
        self.input_norms = nn.ModuleList((make_norm(norm, 2 * width), make_norm(norm, width)))
        self.state_norms = nn.ModuleList((make_norm(norm, 2 * width), make_norm(norm, width)))

    def forward(self, x: Tensor, state: Tensor | None = None) -> Tensor:
        """All hidden states, (B, L, inputs) -> (B, L, width)."""
        B, L, _ = x.shape
        H = self.width
        if state is None:
            state = x.new_zeros(B, H)
        projected = self.from_input(x)  # (B, L, 3H)
        gates_in = self.input_norms[0](projected[..., : 2 * H])
        candidate_in = self.input_norms[1](projected[..., 2 * H :])
        states = []
        for t in range(L):
            from_state = self.from_state(state)  # (B, 3H)
            gates = gates_in[:, t] + self.state_norms[0](from_state[:, : 2 * H])
            reset, update = torch.sigmoid(gates).split(H, dim=-1)
            recurrent = self.state_norms[1](from_state[:, 2 * H :])
            candidate = torch.tanh(candidate_in[:, t] + reset * recurrent)
            state = update * state + (1 - update) * candidate
            states.append(state)
        return torch.stack(states, dim=1)
