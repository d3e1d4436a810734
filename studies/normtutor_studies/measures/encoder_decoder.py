"""Gradients over the layers of an encoder and a decoder, before training.

The models are torch's own Transformer, which would learn to sort: the encoder reads ten digits in
random order, the decoder writes them sorted. Of each layer three things are recorded: the norm of
the gradient at the last feed-forward matrix, the norm of the gradient at the layer's output, and,
in the decoder, the variance of what its cross-attention adds. In Post-LN that last number predicts
the second: what the loss sends into cross-attention leaves the decoder for the encoder, so that
each layer passes down the share 1 / √(1 + variance) and no more.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor.training import start
from normtutor_studies.engine import Study
from normtutor_studies.store import Cell, Run, World

PARTS = ("encoder", "decoder")
PROBED = 128  # sequences on which gradients are measured


class SequencePair(NamedTuple):
    """What the encoder reads, what the decoder has written so far, and what it should write."""

    source: Tensor  # (B, L)
    inputs: Tensor  # (B, L): the start mark, then the targets but the last
    targets: Tensor  # (B, L)


class Sorter(nn.Module):
    """torch's Transformer between embeddings and scores of digits."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        width, depth = cell["width"], cell["depth"]
        self.tokens = nn.Embedding(cell["symbols"] + 1, width)
        self.places = nn.Embedding(cell["length"], width)
        shape: dict[str, Any] = {
            "dim_feedforward": 4 * width,
            "dropout": 0.0,
            "batch_first": True,
            "norm_first": cell["wiring"] == "pre",
        }
        layer = nn.TransformerEncoderLayer(width, cell["heads"], **shape)
        self.transformer = nn.Transformer(
            width,
            cell["heads"],
            num_decoder_layers=depth,
            # torch's own encoder, without its shortcut for padding, which warns about Pre-LN.
            custom_encoder=nn.TransformerEncoder(
                layer, depth, nn.LayerNorm(width), enable_nested_tensor=False
            ),
            **shape,
        )
        self.scores = nn.Linear(width, cell["symbols"])
        for table in (self.tokens, self.places):
            nn.init.normal_(table.weight, std=0.5**0.5)
        ahead = torch.triu(torch.ones(cell["length"], cell["length"], dtype=torch.bool), diagonal=1)
        self.register_buffer("ahead", ahead, persistent=False)

    def embed(self, tokens: Tensor) -> Tensor:
        """Tokens and their places, of variance 1, (B, L) -> (B, L, H)."""
        return self.tokens(tokens) + self.places.weight

    def forward(self, batch: SequencePair) -> Tensor:
        """Scores of the next digit, (B, L, symbols)."""
        hidden = self.transformer(
            self.embed(batch.source),
            self.embed(batch.inputs),
            tgt_mask=self.ahead,
            tgt_is_causal=True,
        )
        return self.scores(hidden)


def batch_of(cell: Cell, size: int, rng: np.random.Generator) -> SequencePair:
    """``size`` new sequences with their sorted copies."""
    source = torch.from_numpy(rng.integers(cell["symbols"], size=(size, cell["length"])))
    targets = source.sort(dim=1).values
    first = torch.full((size, 1), cell["symbols"])
    return SequencePair(source, torch.cat([first, targets[:, :-1]], dim=1), targets)


def profile(model: Sorter, batch: SequencePair) -> Run:
    """One backward pass, layer by layer: lists with one entry per layer, the first layer first.

    "encoder" and "decoder" are gradient norms at the last feed-forward matrix, "encoder output" and
    "decoder output" those at what the layer hands on, and "cross" is the variance of what
    cross-attention adds.
    """
    stacks: list[Any] = [getattr(model.transformer, part).layers for part in PARTS]
    layers = [layer for stack in stacks for layer in stack]
    outputs: list[Tensor] = []
    added: list[float] = []
    handles = [
        layer.register_forward_hook(lambda *call: outputs.append(call[2])) for layer in layers
    ]
    handles += [
        layer.multihead_attn.register_forward_hook(
            lambda *call: added.append(call[2][0].var(correction=0).item())
        )
        for layer in stacks[1]
    ]
    model.train()  # without dropout the same numbers; in evaluation torch takes another path
    loss = F.cross_entropy(model(batch).flatten(0, 1), batch.targets.flatten())
    for handle in handles:
        handle.remove()
    matrices = [layer.linear2.weight for layer in layers]
    norms = [g.norm().item() for g in torch.autograd.grad(loss, [*matrices, *outputs])]
    depth = len(added)
    keys = (*PARTS, *(f"{part} output" for part in PARTS))
    by_part: Run = {k: norms[i * depth : (i + 1) * depth] for i, k in enumerate(keys)}
    return by_part | {"cross": added}


def measure(cell: Cell, rate: None, seed: int) -> Run:
    """The gradients of an untrained model."""
    batch = batch_of(cell, PROBED, np.random.default_rng(1000 + seed))
    start(seed)
    return profile(Sorter(cell), batch)


def bottom_over_top(study: Study, part: str, **where: Any) -> np.ndarray:
    """log2 of the lowest layer's gradient over the highest's, before training, by seed."""
    norms = study.read(part, **where)
    return np.log2(norms[:, 0] / norms[:, -1])


def predicted(study: Study, **where: Any) -> np.ndarray:
    """What the variances of cross-attention predict of :func:`bottom_over_top` in the decoder.

    In Post-LN each layer above the lowest passes 1 / √(1 + variance) of the gradient down.
    """
    added = study.read("cross", **where)
    return -0.5 * np.log2(1 + added[..., 1:]).sum(axis=-1)


def predicted_profile(study: Study, **where: Any) -> np.ndarray:
    """The same by layer, as multiples of the last layer's gradient, (seeds, layers)."""
    added = study.read("cross", **where)
    above = np.cumsum(np.log2(1 + added[:, :0:-1]), axis=1)[:, ::-1]  # of the layers above each
    return 2 ** np.pad(-0.5 * above, ((0, 0), (0, 1)))


WORLD = World(
    "encoder_decoder",
    measure,
    {"wiring": "post", "width": 128, "depth": 6, "heads": 4, "symbols": 10, "length": 10},
    title="Sorting with an encoder and a decoder",
    small={"width": 16, "depth": 2},
)
