"""LayerNorm against RMSNorm in a Pre-LN Transformer language model: is dropping the mean free?

The three models (LayerNorm, RMSNorm, no norm) differ in the norm alone; ε is the same. The learning
rate of each was chosen by :mod:`normtutor.experiments.rms_rates` on other seeds and on the
validation part of the text. What is compared is the loss on the test part. The margin of the
equivalence test was fixed before the first run: 2 % of perplexity.

Recorded too: how much of the residual stream's energy lies along the all-ones direction, the one
that LayerNorm removes, against random directions; and what happens to a model trained with
LayerNorm when its norms are replaced by RMSNorm without further ado.

Control: two norms would also look alike to a test that nothing fails, so the model without a norm
takes the same test. The rate of each was tuned; initial weights, batches and ε are the same. Three
layers train without a norm too, so being level could mean that neither norm matters here;
:mod:`normtutor.experiments.text_stability` compares the two at twelve layers, where ordinary
initial weights do not train without one.
"""

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normtutor import layers, norms
from normtutor.data import Corpus, Sentence, TokenBatch, epochs, load_corpus, pad, sentence_batches
from normtutor.experiments.records import Saved
from normtutor.models import NormFactory, TransformerLM
from normtutor.training import (
    History,
    evaluation_mode,
    language_model_loss,
    mean_token_loss,
    start,
    train,
)

CHAPTER = "05_rms_norm"
FIGURE = "fig-curves"
FINDING = "LayerNorm and RMSNorm are equivalent within 2 % of perplexity"
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
    eps: float = 1e-5
    width: int = 64
    depth: int = 3
    heads: int = 4
    wiring: str = "pre"
    longest: int = 40
    min_count: int = 3
    batch_size: int = 16
    steps: int = 500
    warmup: int = 50
    evaluate_every: int = 50
    directions: int = 400
    margin: float = math.log(1.02)  # nats/token


CONFIG = Config(
    conditions=(
        Condition("layer", 8e-3),
        Condition("rms", 8e-3),
        Condition("none", 8e-3),
    )
)


def corpus_of(config: Config) -> Corpus:
    """The text."""
    return load_corpus(
        text="python", level="word", longest=config.longest, min_count=config.min_count
    )


def fingerprint(config: Config) -> dict[str, str]:
    """The text differs between Python versions: its SHA-256."""
    return {"text_sha256": corpus_of(config).sha256}


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


def train_condition(
    config: Config,
    condition: Condition,
    seed: int,
    evaluate: Callable[[nn.Module], dict[str, float]] | None = None,
    prepare: Callable[[TransformerLM], None] | None = None,
) -> tuple[TransformerLM, History]:
    """Train one model; ``prepare`` sees it before the first step."""
    corpus = corpus_of(config)
    order = start(seed)
    model = TransformerLM(
        len(corpus.vocabulary),
        width=config.width,
        depth=config.depth,
        heads=config.heads,
        max_length=config.longest + 1,
        norm=norm_factory(condition.norm, config.eps),
        wiring=config.wiring,
        dropout=0.0,
    )
    if prepare is not None:
        prepare(model)
    history = train(
        model,
        epochs(lambda: sentence_batches(corpus.train, config.batch_size, "shuffled", order)),
        language_model_loss,
        steps=config.steps,
        learning_rate=condition.learning_rate,
        warmup=config.warmup,
        evaluate=evaluate,
        evaluate_every=config.evaluate_every,
    )
    return model, history


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


def shares(model: TransformerLM, batches: list[TokenBatch], directions: int) -> dict[str, Any]:
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


def run_condition(config: Config, condition: Condition, seed: int) -> dict[str, Any]:
    """Train one model, follow its validation loss, and score it on the test part."""
    corpus = corpus_of(config)
    validation, test = in_batches(corpus.validation), in_batches(corpus.test)
    before: dict[str, Any] = {}
    model, history = train_condition(
        config,
        condition,
        seed,
        evaluate=lambda model: {"loss": mean_token_loss(model, validation)},  # type: ignore[arg-type]
        prepare=lambda model: before.update(shares(model, validation, config.directions)),
    )
    after = shares(model, validation, config.directions)
    record = {
        "norm": condition.norm,
        "learning_rate": condition.learning_rate,
        "diverged": history.diverged,
        "steps": [evaluation["step"] for evaluation in history.evaluations],
        "validation": [evaluation["loss"] for evaluation in history.evaluations],
        "loss": mean_token_loss(model, test),
        **{f"start_{key}": value for key, value in before.items()},
        **{f"end_{key}": value for key, value in after.items()},
    }
    if condition.norm == "layer":
        record["loss_without_centring"] = mean_token_loss(without_centring(model), test)
    return record


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed."""
    return [run_condition(config, condition, seed) for condition in config.conditions]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus LayerNorm's, paired by seed."""
    layer = saved.values("loss", norm="layer")
    names = {"rms": "RMSNorm", "none": "no norm"}
    return {text: saved.values("loss", norm=norm) - layer for norm, text in names.items()}
