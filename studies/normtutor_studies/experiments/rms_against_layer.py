"""LayerNorm against RMSNorm in a tied Pre-LN language model: is dropping the mean free?

The three models (LayerNorm, RMSNorm, no norm) differ in the norm alone; ε is the same. The learning
rate of each was chosen by :mod:`normtutor_studies.experiments.rms_rates` on other seeds and on the
validation part of the text. What is compared is the loss on the test part. The margin of the
equivalence test was fixed before the first run: 2 % of perplexity.

Recorded too: how much of the residual stream's energy lies along the all-ones direction, the one
that LayerNorm removes, against random directions; and what happens to a model trained with
LayerNorm when its norms are replaced by RMSNorm without further ado.

Control: RMSNorm's advantage could come from the rate, which was tuned for each on a grid that goes
on beyond the best on both sides; initial weights, batches and ε are the same. It could belong to
the tied output with a norm before it, in which a model without norms is further ahead still:
:mod:`normtutor_studies.experiments.final_norm` switches both on and off, and
:mod:`normtutor_studies.experiments.text_stability` compares the two at two and twelve layers with an untied
output, where they are equivalent within the same margin. A ninth seed, 40, run afterwards and not
on record, lies where the eight expect it in both rows. It is a matter of 300 steps: after
1,500 the two are equivalent, and no norm's lead is less than a tenth of what it was
(:mod:`normtutor_studies.experiments.rms_against_layer_longer`).
"""

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normtutor import layers, norms
from normtutor.data import Sentence, TokenBatch, pad
from normtutor.models import NormFactory, TransformerLM
from normtutor.training import History, evaluation_mode, mean_token_loss
from normtutor_studies.experiments.package_chunks import Size, fingerprint, held_out, train_models
from normtutor_studies.experiments.records import Saved, short

__all__ = ["CONFIG", "SEEDS", "Condition", "Config", "fingerprint", "rows", "run", "train_norm"]

CHAPTER = "05_rms_norm"
FIGURE = "fig-curves"
FINDING = (
    "in 300 steps, tied, with a norm at the end and the usual embeddings, RMSNorm ends ahead of "
    "LayerNorm, and no norm ahead of both"
)
XLABEL = "test loss minus LayerNorm's (nats/token)"
SEEDS = tuple(range(10, 18))


@dataclass(frozen=True)
class Condition:
    """One model: its norm and its learning rate."""

    norm: str
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    size: Size = field(default_factory=lambda: Size(width=64, steps=300, warmup=30))
    eps: float = 1e-5
    depth: int = 3
    wiring: str = "pre"
    evaluate_every: int = 50
    directions: int = 400
    margin: float = math.log(1.02)  # nats/token


CONFIG = Config(
    conditions=(
        Condition("layer", 16e-3),
        Condition("rms", 16e-3),
        Condition("none", 16e-3),
    )
)
REDUCED = {
    "size": Size(width=8, heads=2, steps=4, warmup=2, held_out_chunks=64),
    "depth": 1,
    "evaluate_every": 2,
    "directions": 4,
}


def norm_factory(norm: str, eps: float) -> str | NormFactory:
    """LayerNorm and RMSNorm with the same ε, so that the mean alone tells them apart."""
    factories: dict[str, NormFactory] = {
        "layer": lambda features: layers.LayerNorm(features, eps=eps),
        "rms": lambda features: layers.RMSNorm(features, eps=eps),
    }
    return factories.get(norm, norm)


def in_batches(documents: Iterable[Iterable[Sentence]], size: int = 64) -> list[TokenBatch]:
    """All sentences in order; in these models a batch's composition changes nothing."""
    sentences = [sentence for document in documents for sentence in document]
    return [pad(sentences[i : i + size]) for i in range(0, len(sentences), size)]


def train_norm(
    config: Config,
    norm: str,
    runs: Sequence[tuple[int, float]],
    *,
    adjust: Any = None,
    training: Mapping[str, Any] | None = None,
) -> list[tuple[TransformerLM, History]]:
    """Train one model for each pair of a seed and a learning rate; ``adjust`` sees it before."""
    return train_models(
        config.size,
        runs,
        adjust=adjust,
        training=training,
        depth=config.depth,
        norm=norm_factory(norm, config.eps),
        wiring=config.wiring,
    )


# --- the direction that LayerNorm removes ---------------------------------------------------------


def residual_stream(model: TransformerLM, batches: Iterable[TokenBatch]) -> list[Tensor]:
    """The stream at real tokens: after the embedding and after each layer, (tokens, H) each."""
    stream: list[list[Tensor]] = [[] for _ in range(len(model.layers) + 1)]
    with evaluation_mode(model):
        for batch in batches:
            x = model.embed(batch.inputs)
            stream[0].append(x[batch.mask])
            for depth, layer in enumerate(model.layers, start=1):
                x = layer(x, batch.mask)
                stream[depth].append(x[batch.mask])
    return [torch.cat(parts) for parts in stream]


def share_along(x: Tensor, directions: Tensor) -> Tensor:
    """Mean over tokens of cos² with each direction, (tokens, H), (n, H) -> (n,)."""
    units = directions / directions.norm(dim=-1, keepdim=True)
    cosine = (x @ units.T) / x.norm(dim=-1, keepdim=True)
    return cosine.square().mean(dim=0)


def shares(model: TransformerLM, batches: Sequence[TokenBatch], directions: int) -> dict[str, Any]:
    """Share of the energy along 1 at each depth, and quantiles of it along random directions."""
    width = model.token_embedding.embedding_dim
    # A generator of its own: the measurement must not move the training's random numbers.
    generator = torch.Generator("cpu").manual_seed(0)
    random = torch.randn(directions, width, generator=generator, device="cpu")
    random = random.to(model.token_embedding.weight.device)
    found: dict[str, Any] = {"ones": [], "random": []}
    for x in residual_stream(model, batches):
        found["ones"].append(share_along(x, torch.ones(1, width)).item())
        along = share_along(x, random)
        quantiles = torch.tensor([0.025, 0.5, 0.975])
        found["random"].append([along.mean().item(), *torch.quantile(along, quantiles).tolist()])
    return found


class _Uncentred(nn.Module):
    """A trained LayerNorm's weight, bias and ε, without its centring."""

    def __init__(self, layer_norm: layers.LayerNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = layer_norm.weight, layer_norm.bias, layer_norm.eps

    def forward(self, x: Tensor) -> Tensor:
        return norms.rms_norm(x, self.weight, self.bias, eps=self.eps)[0]


def without_centring(model: TransformerLM) -> TransformerLM:
    """A copy in which every LayerNorm lost its centring and nothing else was changed."""
    model = copy.deepcopy(model)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, layers.LayerNorm):
                setattr(module, name, _Uncentred(child))
    return model


# --- one run --------------------------------------------------------------------------------------


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Train every condition with all seeds at once; a list of records for each seed."""
    by_condition = [run_condition(config, condition, seeds) for condition in config.conditions]
    return [list(records) for records in zip(*by_condition, strict=True)]


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed."""
    return run_seeds(config, [seed])[0]


def run_condition(
    config: Config, condition: Condition, seeds: Sequence[int]
) -> list[dict[str, Any]]:
    """Train one model per seed, follow its validation loss, and score it on the test part."""
    validation, test = held_out(config.size, "validation"), held_out(config.size, "test")
    before: list[dict[str, Any]] = []

    def evaluate(model: nn.Module) -> dict[str, float]:
        return {"loss": short(mean_token_loss(model, validation), 6)}  # type: ignore[arg-type]

    trained = train_norm(
        config,
        condition.norm,
        [(seed, condition.learning_rate) for seed in seeds],
        adjust=lambda model: before.append(shares(model, validation[:1], config.directions)),
        training={"evaluate": evaluate, "evaluate_every": config.evaluate_every},
    )
    records = []
    for start, (model, history) in zip(before, trained, strict=True):
        after = shares(model, validation[:1], config.directions)
        record = {
            "norm": condition.norm,
            "learning_rate": condition.learning_rate,
            "diverged": history.diverged,
            "steps": [evaluation["step"] for evaluation in history.evaluations],
            "validation": [evaluation["loss"] for evaluation in history.evaluations],
            "loss": short(mean_token_loss(model, test), 6),
            **{f"start_{key}": value for key, value in start.items()},
            **{f"end_{key}": value for key, value in after.items()},
        }
        if condition.norm == "layer":
            uncentred = mean_token_loss(without_centring(model), test)
            record["loss_without_centring"] = short(uncentred, 6)
        records.append(record)
    return records


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus LayerNorm's, paired by seed."""
    layer = saved.values("loss", norm="layer")
    names = {"rms": "RMSNorm", "none": "no norm"}
    return {text: saved.values("loss", norm=norm) - layer for norm, text in names.items()}
