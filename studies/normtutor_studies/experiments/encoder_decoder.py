"""Gradients over the layers of an encoder and a decoder, before training.

The models are torch's own Transformer, which learns to sort: the encoder reads ten digits in random
order, the decoder writes them sorted. Of each layer three things are recorded: the norm of the
gradient at the last feed-forward matrix, the norm of the gradient at the layer's output, and, in
the decoder, the variance of what its cross-attention adds. In Post-LN that last number predicts the
second: what the loss sends into cross-attention leaves the decoder for the encoder, so that each
layer passes down the share 1 / √(1 + variance) and no more.

This is measured before training, at several depths and two widths.

Control: a small gradient at the bottom could be a matter of which matrix is looked at, so the
gradient at each layer's output is recorded as well; of width, so there are two; or of depth alone,
for which Pre-LN is the control: the same sublayers, with the norms in another place. The prediction
from the variance of cross-attention has no fitted number in it. Not checked: initial weights other
than torch's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor.training import start
from normtutor_studies.experiments.records import Saved, short

CHAPTER = "07_pre_ln_and_post_ln"
FIGURE = "fig-wiring-encoder-decoder"
FINDING = (
    "before training the gradient falls towards the bottom of Post-LN's decoder, the more the "
    "deeper; in its encoder it hardly does"
)
XLABEL = "gradient of the lowest layer over the highest before training (log2)"
SEEDS = tuple(range(10, 16))

PARTS = ("encoder", "decoder")
PROBED = 128  # sequences on which gradients are measured


@dataclass(frozen=True)
class Untrained:
    """One model."""

    wiring: str
    depth: int
    width: int


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    untrained: tuple[Untrained, ...]
    heads: int = 4
    symbols: int = 10
    length: int = 10


CONFIG = Config(
    untrained=tuple(
        Untrained(wiring, depth, width)
        for wiring in ("post", "pre")
        for width in (32, 128)
        for depth in (6, 12, 18)
    )
)
REDUCED = {"untrained": (Untrained("post", 2, 16), Untrained("pre", 2, 16))}


class SequencePair(NamedTuple):
    """What the encoder reads, what the decoder has written so far, and what it should write."""

    source: Tensor  # (B, L)
    inputs: Tensor  # (B, L): the start mark, then the targets but the last
    targets: Tensor  # (B, L)


class Sorter(nn.Module):
    """torch's Transformer between embeddings and scores of digits."""

    def __init__(self, config: Config, wiring: str, depth: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.symbols + 1, width)
        self.places = nn.Embedding(config.length, width)
        shape: dict[str, Any] = {
            "dim_feedforward": 4 * width,
            "dropout": 0.0,
            "batch_first": True,
            "norm_first": wiring == "pre",
        }
        layer = nn.TransformerEncoderLayer(width, config.heads, **shape)
        self.transformer = nn.Transformer(
            width,
            config.heads,
            num_decoder_layers=depth,
            # torch's own encoder, without its shortcut for padding, which warns about Pre-LN.
            custom_encoder=nn.TransformerEncoder(
                layer, depth, nn.LayerNorm(width), enable_nested_tensor=False
            ),
            **shape,
        )
        self.scores = nn.Linear(width, config.symbols)
        for table in (self.tokens, self.places):
            nn.init.normal_(table.weight, std=0.5**0.5)
        ahead = torch.triu(torch.ones(config.length, config.length, dtype=torch.bool), diagonal=1)
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

    def stack(self, part: str) -> Sequence[Any]:
        """The layers of the encoder or of the decoder, the first one first."""
        return getattr(self.transformer, part).layers


def batch_of(config: Config, size: int, rng: np.random.Generator) -> SequencePair:
    """``size`` new sequences with their sorted copies."""
    source = torch.from_numpy(rng.integers(config.symbols, size=(size, config.length)))
    targets = source.sort(dim=1).values
    first = torch.full((size, 1), config.symbols)
    return SequencePair(source, torch.cat([first, targets[:, :-1]], dim=1), targets)


def sorting_loss(model: Sorter, batch: SequencePair) -> Tensor:
    """Mean cross entropy per digit, in nats."""
    return F.cross_entropy(model(batch).flatten(0, 1), batch.targets.flatten())


def profile(model: Sorter, batch: SequencePair) -> dict[str, Any]:
    """One backward pass, layer by layer: lists with one entry per layer, the first layer first.

    "encoder" and "decoder" are gradient norms at the last feed-forward matrix, "encoder output" and
    "decoder output" those at what the layer hands on, and "cross" is the variance of what
    cross-attention adds. "alike" is the mean cosine of two tokens of one sequence, as the encoder
    and as the decoder leave them.
    """
    outputs: dict[str, list[Tensor]] = {part: [] for part in PARTS}
    added: list[float] = []
    handles = []
    for part in PARTS:
        for layer in model.stack(part):
            handles.append(
                layer.register_forward_hook(
                    lambda module, args, output, kept=outputs[part]: kept.append(output)
                )
            )
    for layer in model.stack("decoder"):
        handles.append(
            layer.multihead_attn.register_forward_hook(
                lambda module, args, output: added.append(output[0].var(correction=0).item())
            )
        )
    model.train()  # without dropout the same numbers; in evaluation torch takes another path
    try:
        loss = sorting_loss(model, batch)
    finally:
        for handle in handles:
            handle.remove()
    matrices = [layer.linear2.weight for part in PARTS for layer in model.stack(part)]
    states = [output for part in PARTS for output in outputs[part]]
    norms = [short(g.norm().item()) for g in torch.autograd.grad(loss, [*matrices, *states])]
    depth = len(norms) // 4
    keys = (*PARTS, *(f"{part} output" for part in PARTS))
    found: dict[str, Any] = {k: norms[i * depth : (i + 1) * depth] for i, k in enumerate(keys)}
    found["cross"] = [short(value) for value in added]
    found["alike"] = [likeness(outputs[part][-1].detach()) for part in PARTS]
    return found


def likeness(states: Tensor) -> float:
    """Mean cosine of two different tokens of one sequence, (B, L, H)."""
    L = states.shape[1]
    unit = F.normalize(states, dim=-1)
    total = (unit @ unit.transpose(1, 2)).sum(dim=(1, 2))  # (B,), the L ones of itself included
    return short(((total - L) / (L * (L - 1))).mean().item())


def build(config: Config, wiring: str, depth: int, width: int, seed: int) -> Sorter:
    """An untrained model."""
    start(seed)
    return Sorter(config, wiring, depth, width)


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """All models of one seed."""
    batch = batch_of(config, PROBED, np.random.default_rng(1000 + seed))
    records = []
    for cell in config.untrained:
        model = build(config, cell.wiring, cell.depth, cell.width, seed)
        records.append({"kind": "untrained", **vars(cell), **profile(model, batch)})
    return records


def bottom_over_top(saved: Saved, part: str, **where: Any) -> np.ndarray:
    """log2 of the lowest layer's gradient over the highest's, before training, by seed."""
    norms = saved.values(part, kind="untrained", **where)
    return np.log2(norms[:, 0] / norms[:, -1])


def predicted(saved: Saved, **where: Any) -> np.ndarray:
    """What the variances of cross-attention predict of :func:`bottom_over_top` in the decoder.

    In Post-LN each layer above the lowest passes 1 / √(1 + variance) of the gradient down.
    """
    added = saved.values("cross", kind="untrained", **where)
    return -0.5 * np.log2(1 + added[..., 1:]).sum(axis=-1)


def predicted_profile(saved: Saved, **where: Any) -> np.ndarray:
    """The same by layer, as multiples of the last layer's gradient, (seeds, layers)."""
    added = saved.values("cross", kind="untrained", **where)
    above = np.cumsum(np.log2(1 + added[:, :0:-1]), axis=1)[:, ::-1]  # of the layers above each
    return 2 ** np.pad(-0.5 * above, ((0, 0), (0, 1)))


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """What the figure shows: the lowest layer's gradient over the highest's, before training."""
    names = {"post": "Post-LN", "pre": "Pre-LN"}
    return {
        f"{names[cell['wiring']]}, {part}, {cell['depth']} layers": bottom_over_top(
            saved, part, **cell
        )
        for part in PARTS
        for cell in saved.config["untrained"]
        if cell["width"] == max(other["width"] for other in saved.config["untrained"])
    }
