"""MNIST-1D: ten shapes, moved, stretched and shaken along a line of forty numbers.

A small set in which networks differ: a linear model finds a third of the shapes, a network without
weight sharing two thirds, a convolutional one nearly all. `Greydanus and Kobak (2024)
<https://arxiv.org/abs/2011.14439>`_ made it, and their package generates it from a seed. Two worlds
stand on it: a deep perceptron and a convolutional network, under SGD with momentum.
"""

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from normtutor import layers
from normtutor.data import Split, image_batches
from normtutor.models import make_norm
from normtutor.training import classification_loss, image_scores, start, train
from normtutor_studies.store import World
from normtutor_studies.worlds.transformers import POINTS, averages, columns

SAMPLES = 10_000  # a fifth of them for tests
CLASSES, LENGTH = 10, 40


class Signals(NamedTuple):
    train: Split
    test: Split


@cache
def signals() -> Signals:
    """The shapes, (count, 1, 40), and their classes; generated, the same each time."""
    from mnist1d.data import get_dataset_args, make_dataset

    arguments = get_dataset_args()
    arguments.num_samples = SAMPLES
    made = make_dataset(arguments)  # seeds the global generators
    parts = [
        Split(torch.from_numpy(made[x]).float()[:, None], torch.from_numpy(made[y]))
        for x, y in (("x", "y"), ("x_test", "y_test"))
    ]
    return Signals(*parts)


class Noise(nn.Module):
    """Scale and shift each unit at random in training, anew in every call; evaluation has none.

    Of each unit a shift from U(−0.5, 0.5) and a scale from U(1, 1.25); then of each example a
    shift within 0.1 of it, and a scale whose standard deviation is 0.1: the numbers of
    Santurkar et al. (2018), times ``size``.
    """

    def __init__(self, size: float) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        unit = (1, x.shape[1], *[1] * (x.ndim - 2))
        one = (len(x), *unit[1:])
        shift = torch.rand(unit) - 0.5 + 0.1 * (2 * torch.rand(one) - 1)
        scale = 0.25 * torch.rand(unit) + 0.1 * torch.randn(one)
        return x + self.size * (shift + scale * x)


class Net(nn.Module):
    """A stem, then layers of one width, each followed by a norm and an activation; then classes.

    ``kind`` "mlp": linear layers; "conv": convolutions of five places, the first two with stride 2,
    and a mean over places at the end.
    """

    def __init__(self, cell: Mapping[str, Any]) -> None:
        super().__init__()
        conv, width, depth = cell["kind"] == "conv", cell["width"], cell["depth"]
        self.conv, self.norm_first = conv, cell["norm_first"]
        inputs = [1 if conv else LENGTH, *[width] * (depth - 1)][:depth]
        self.layers = nn.ModuleList(
            nn.Conv1d(i, width, 5, stride=2 if at < 2 else 1, padding=2)
            if conv
            else nn.Linear(i, width)
            for at, i in enumerate(inputs)
        )
        self.norms = nn.ModuleList(self._norm(cell) for _ in inputs)
        flat = width if depth else LENGTH
        self.classify = nn.Linear(flat, CLASSES)
        self.reset_parameters(cell["scale"])

    @staticmethod
    def _norm(cell: Mapping[str, Any]) -> nn.Module:
        width, conv = cell["width"], cell["kind"] == "conv"
        if cell["norm"] == "batch":
            norm: nn.Module = layers.BatchNorm(width, momentum=cell["momentum"])
        else:
            norm = make_norm(cell["norm"], width, feature_axis=1 if conv else -1)
        return nn.Sequential(norm, Noise(cell["noise"])) if cell["noise"] else norm

    def reset_parameters(self, scale: float) -> None:
        """He's weights, times ``scale``; biases of zero."""
        for layer in self.layers:
            fan = layer.weight[0].numel()  # type: ignore[index]
            nn.init.normal_(layer.weight, std=scale * math.sqrt(2) / math.sqrt(fan))  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        nn.init.normal_(self.classify.weight, std=1 / math.sqrt(self.classify.in_features))
        nn.init.zeros_(self.classify.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes, (B, 1, 40) -> (B, 10)."""
        if not self.conv:
            x = x.flatten(1)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = layer(x)
            x = torch.relu(norm(x)) if self.norm_first else norm(torch.relu(x))
        if x.ndim == 3:
            x = x.mean(-1) if len(self.layers) else x.flatten(1)
        return self.classify(x)


def without_noise(model: nn.Module, batches: Iterable[Tensor]) -> nn.Module:
    """A copy whose running averages are those of training examples without noise.

    Averages that were gathered behind noise do not fit the network that is tested, which has none.
    """
    model = copy.deepcopy(model).eval()
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm1d):
            norm.reset_running_stats()
            norm.momentum = None  # a plain mean
            norm.train()
    with torch.no_grad():
        for batch in batches:
            model(batch)
    return model.eval()


def run(cell: Mapping[str, Any], rate: float, seed: int) -> dict[str, Any]:
    """Train one network; record test loss and error at eight points."""
    rng = start(seed)
    model = Net(cell)
    data = signals()
    test = list(zip(*(part.split(500) for part in data.test), strict=True))

    def evaluate(model: nn.Module) -> dict[str, float]:
        if cell["noise"]:
            model = without_noise(model, data.train.images.split(500))
        found = image_scores(model, test)
        if any(True for _ in model.buffers()):
            found["batch_loss"] = image_scores(model, test, batch_statistics=True)["loss"]
        return found

    steps = cell["examples"] // cell["batch_size"]
    options = {"warmup": round(cell["warmup"] * steps), "weight_decay": cell["decay"]}
    return fit(model, data.train, cell["batch_size"], rate, rng, steps, evaluate, **options)


def fit(
    model: nn.Module,
    examples: Split,
    batch_size: int,
    rate: float,
    rng: np.random.Generator,
    steps: int,
    evaluate: Callable[[nn.Module], dict[str, float]],
    **options: Any,
) -> dict[str, Any]:
    """Train a classifier by SGD with momentum; what it says of itself at eight points."""
    history = train(
        model,
        image_batches(examples, batch_size, rng),
        classification_loss,
        steps=steps,
        learning_rate=rate,
        optimizer="sgd",
        evaluate=evaluate,
        evaluate_every=steps / POINTS,
        **options,
    )
    training = averages(history.loss, steps)
    return {"diverged": history.diverged, "training": training} | columns(history.evaluations)


SETTINGS: dict[str, Any] = {
    "kind": "mlp",
    "norm": "batch",
    "depth": 6,
    "width": 64,
    "scale": 1.0,  # of the initial weights
    "noise": 0.0,  # behind each norm, in training
    "momentum": 0.1,  # of BatchNorm's running average
    "batch_size": 64,
    "examples": 192_000,  # seen in all, whatever the size of a batch
    "warmup": 0.05,
    "decay": 0.0,
    "norm_first": True,  # or the activation first, then the norm
}

PERCEPTRON = World(
    "perceptron", run, SETTINGS, rate=0.05, unit="nats per example", title="Perceptron"
)
CONVOLUTIONS = World(
    "convolutions",
    run,
    SETTINGS | {"kind": "conv", "width": 24, "examples": 64_000},
    rate=0.05,
    unit="nats per example",
    title="Convolutional network",
)
