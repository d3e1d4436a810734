"""Four quantities of every BatchNorm, measured at every step while real models train.

The distance of the batch's mean and variance from their running averages, and the two parts of the
gradient that come from the mean and from the variance, for a small ResNet on digits and for
Transformers: on text in shuffled and in neighbouring chunks, and on the digits read pixel by pixel.
Each quantity is recorded raw, as in Shen et al. (2020), and scale-free.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normtutor import layers
from normtutor.data import Order, TokenBatch, epochs, image_batches, load_digits
from normtutor.models import ResNet, TransformerLM
from normtutor.training import classification_loss, language_model_loss, start, train
from normtutor_studies.corpus import chunk_batches, fingerprint, load_corpus
from normtutor_studies.engine import Study
from normtutor_studies.store import Cell, Run, World

TEXT: dict[str, Any] = {"longest": 40}
# The models with BatchNorm where there is little room; what reads text is the Transformer.
SHORT = {
    "images": "ResNet, 16 digits",
    "pixels": "Transformer, digits",
    "shuffled": "text, shuffled",
    "document": "text, neighbours",
    "many images": "ResNet, 64 digits",
}
QUANTITIES = ("mean", "variance", "g_mu", "g_sigma")

# --- recording ------------------------------------------------------------------------------------


@dataclass
class Watch:
    """What one norm showed: a row a training step."""

    count: list[float] = field(default_factory=list)  # pooled values a feature
    raw: list[list[float]] = field(default_factory=list)  # (steps, four quantities)
    free: list[list[float]] = field(default_factory=list)  # scale-free


@contextmanager
def watch(model: nn.Module) -> Iterator[dict[str, Watch]]:
    """Record the four quantities of every BatchNorm, or the two of every PN-V, in training.

    The distances are taken to the running averages as they stand *before* the step. In PN-V the
    quadratic mean takes the place of the variance, and there is no mean.
    """
    chosen = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, layers.BatchNorm | layers.PowerNorm)
    }
    if not chosen:
        raise ValueError("watch needs a model with a BatchNorm or a PowerNorm; it has none.")
    records = {name: Watch() for name in chosen}
    running: dict[str, tuple[Tensor, Tensor]] = {}

    def before(name: str) -> Any:
        def hook(module: Any, args: tuple, kwargs: dict[str, Any]) -> None:
            if isinstance(module, layers.PowerNorm):
                square = module.running_mean_square.clone()
                running[name] = torch.zeros_like(square), square
            else:
                running[name] = module.running_mean.clone(), module.running_var.clone()

        return hook

    def after(name: str) -> Any:
        def hook(module: Any, args: tuple, kwargs: dict[str, Any], output: Tensor) -> None:
            if not module.training:
                return
            x = args[0].detach()
            tokens = x.movedim(module.feature_axis, -1).flatten(0, -2)  # (n, H)
            centred = not isinstance(module, layers.PowerNorm)
            mean, square = running[name]
            shift = tokens.mean(dim=0) if centred else torch.zeros_like(mean)
            spread = (tokens - shift).square().mean(dim=0)
            record = records[name]
            n = len(tokens)
            record.count.append(float(n))
            unbiased = spread * n / (n - 1) if centred else spread
            raw, free = forward_distances(shift, unbiased, mean, square)
            x_hat = (tokens - shift) / torch.sqrt(spread + module.eps)

            def backward(gradient: Tensor) -> None:
                g = gradient.detach().movedim(module.feature_axis, -1).flatten(0, -2)
                g = g * module.weight
                more_raw, more_free = backward_parts(g, x_hat, centred=centred)
                record.raw.append([*raw, *more_raw])
                record.free.append([*free, *more_free])

            output.register_hook(backward)

        return hook

    handles = []
    try:
        for name, module in chosen.items():
            handles.append(module.register_forward_pre_hook(before(name), with_kwargs=True))
            handles.append(module.register_forward_hook(after(name), with_kwargs=True))
        yield records
    finally:
        for handle in handles:
            handle.remove()


def forward_distances(
    shift: Tensor, spread: Tensor, mean: Tensor, square: Tensor
) -> tuple[list[float], list[float]]:
    """Distances of a batch's statistics from the running ones: raw, and free of scale.

    Raw is the Euclidean distance over the features divided by their number. Scale-free is the mean
    over the features of the squared distance in units of the running standard deviation (for the
    mean) or of the running variance (for the variance).
    """
    d = len(mean)
    raw = [(shift - mean).norm().item() / d, (spread - square).norm().item() / d]
    safe = square.clamp(min=1e-12)
    free = [
        ((shift - mean).square() / safe).mean().item(),
        (spread / safe - 1).square().mean().item(),
    ]
    return raw, free


def backward_parts(
    g: Tensor, x_hat: Tensor, *, centred: bool = True
) -> tuple[list[float], list[float]]:
    r"""What the mean and the variance contribute to the gradient: raw norms, and shares.

    ``g`` is γ ∂L/∂y, of shape (n, H). The norms of g_μ = mean of g and g_σ² = mean of g·x̂ over the
    features; and the share of the squared length of g that each of them removes.
    """
    g_mu = g.mean(dim=0) if centred else torch.zeros_like(g[0])
    g_sigma = (g * x_hat).mean(dim=0)
    power = g.square().mean(dim=0).clamp(min=1e-30)
    raw = [g_mu.norm().item(), g_sigma.norm().item()]
    return raw, [(part.square() / power).mean().item() for part in (g_mu, g_sigma)]


# --- models and their batches ---------------------------------------------------------------------


def pixel_batches(batch_size: int, rng: np.random.Generator) -> Iterator[TokenBatch]:
    """Digits as texts: the 64 grey levels of an image, row by row, are its tokens.

    Token 0 starts every image, so that the first pixel is predicted, too.
    """
    train_part = load_digits().train
    levels, tokens = torch.unique(train_part.images.flatten(1), return_inverse=True)
    assert len(levels) == 17  # scikit-learn's digits have the levels 0 to 16
    numbers = torch.cat([torch.zeros(len(tokens), 1, dtype=torch.int64), tokens + 1], dim=1)
    mask = torch.ones(batch_size, 64, dtype=torch.bool)
    while True:
        order = torch.from_numpy(rng.permutation(len(numbers)))
        for first in range(0, len(order) - batch_size + 1, batch_size):
            chosen = numbers[order[first : first + batch_size]]
            yield TokenBatch(chosen[:, :-1], chosen[:, 1:], mask)


def setting(cell: Cell, seed: int) -> tuple[nn.Module, Iterable[Any], Any]:
    """The model of a condition, its batches, and its loss."""
    order, name = start(seed), cell["condition"]
    if name in ("images", "many images"):
        size = cell["images"] if name == "images" else cell["many_images"]
        batches = image_batches(load_digits().train, size, order)
        return ResNet(norm="batch"), batches, classification_loss
    corpus, pixels = load_corpus(**TEXT), name == "pixels"
    model = TransformerLM(
        18 if pixels else len(corpus.vocabulary),
        width=cell["width"],
        depth=cell["depth"],
        heads=cell["heads"],
        max_length=64,
        norm="power-v" if name == "power-v" else "batch",
        dropout=0.0,
    )
    if pixels:
        return model, pixel_batches(cell["images"], order), language_model_loss
    how: Order = "document" if name == "document" else "shuffled"
    epoch = partial(chunk_batches, corpus.train, cell["chunks"], cell["length"], how, order)
    return model, epochs(epoch), language_model_loss


# --- running and summing up -----------------------------------------------------------------------


def summary(watched: Watch) -> dict[str, Any]:
    """One norm over the second half of the training: medians, largest values, and counts."""
    half = len(watched.raw) // 2
    raw, free = np.array(watched.raw)[half:], np.array(watched.free)[half:]
    n = np.array(watched.count)[half:]
    return {
        "n": float(n.mean()),
        "raw": np.median(raw, axis=0).tolist(),
        # Outliers: the largest step in units of the median step.
        "largest": (raw.max(axis=0) / np.maximum(np.median(raw, axis=0), 1e-30)).tolist(),
        # Distances as root mean squares, so that they are in units of a standard deviation.
        "free": np.median(np.sqrt(free), axis=0).tolist(),
        # n times the square: 1 for n independent values, twice that for the variance of Gaussians.
        "effect": np.mean(n[:, None] * free, axis=0).tolist(),
    }


def measure(cell: Cell, rate: float, seed: int) -> Run:
    """Train one model; sum up what its norms showed, from the input up."""
    model, batches, loss = setting(cell, seed)
    schedule = {"steps": cell["steps"], "warmup": cell["warmup"], "learning_rate": rate}
    with watch(model) as records:
        train(model, batches, loss, **schedule)
    norms = [summary(watched) for watched in records.values()]
    raw, block = np.array(next(iter(records.values())).raw), cell["block"]
    blocks = raw[: len(raw) // block * block].reshape(-1, block, 4)
    return {
        **{key: [norm[key] for norm in norms] for key in norms[0]},  # (norms, four quantities)
        # Of the first norm, raw, by blocks of steps.
        "block_medians": np.median(blocks, axis=1).tolist(),
        "block_largest": blocks.max(axis=1).tolist(),
    }


def first_norm(study: Study, condition: str, key: str, quantity: str) -> np.ndarray:
    """A number of the first norm, for each seed."""
    return study.read(key, condition=condition)[:, 0, QUANTITIES.index(quantity)]


WORLD = World(
    "power_statistics",
    measure,
    {
        "condition": "images",
        "images": 16,
        "many_images": 64,
        "chunks": 32,
        "length": 32,
        "width": 64,
        "depth": 2,
        "heads": 4,
        "steps": 200,
        "warmup": 20,
        "block": 10,  # steps summed up in one point of the curves
    },
    fingerprint=partial(fingerprint, **TEXT),
    title="Images and text",
    small={"many_images": 32, "chunks": 8, "steps": 5, "warmup": 2, "width": 16, "block": 2},
)
