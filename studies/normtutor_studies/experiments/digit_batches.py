"""A small ResNet on digits with three norms and none, over batch sizes: where BatchNorm comes from.

Every run sees the same number of images, so a smaller batch means more steps. The learning rate of
each norm at each batch size was chosen by :mod:`normtutor_studies.experiments.digit_rates` on other seeds
and on the validation images; what is recorded here is measured on the test images.

Control: BatchNorm could lead because its rate suits it better, so every norm is tuned at every
batch size; or because it sees more, so every run sees the same number of images. A smaller batch
then means more steps, which is why norms are compared at one batch size and never across them. A
network without a norm runs alongside; all start from He's weights, which it needs with ReLU. Not
checked: longer training.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from normtutor.data import Digits, Split, image_batches, load_digits
from normtutor.models import ResNet
from normtutor.training import classification_loss, image_scores, start, train
from normtutor_studies.experiments.descent import he
from normtutor_studies.experiments.records import Saved

CHAPTER = "03_batch_norm_vs_layer_norm"
FIGURE = "fig-seq-digits"
FINDING = (
    "after 3 epochs BatchNorm has the lowest loss of three norms with 2, 8 and 32 images, "
    "not with 1"
)
SEEDS = tuple(range(10, 15))
XLABEL = "log2 of test loss over BatchNorm's (1: twice as high)"

BATCH_SIZES = (1, 2, 8, 32)
NORMS = ("batch", "group", "layer", "none")


@dataclass(frozen=True)
class Condition:
    """One curve of the figure."""

    norm: str
    batch_size: int
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    widths: tuple[int, ...] = (16, 32)
    images_seen: int = 3600  # about three epochs
    warmup_share: float = 0.1


# The learning rates that digit_rates chose; a test compares them with its saved run.
CONFIG = Config(
    conditions=(
        Condition("batch", 1, 0.03),
        Condition("group", 1, 0.01),
        Condition("layer", 1, 0.01),
        Condition("none", 1, 0.01),
        Condition("batch", 2, 0.015),
        Condition("group", 2, 0.015),
        Condition("layer", 2, 0.015),
        Condition("none", 2, 0.005),
        Condition("batch", 8, 0.1),
        Condition("group", 8, 0.03),
        Condition("layer", 8, 0.03),
        Condition("none", 8, 0.03),
        Condition("batch", 32, 0.3),
        Condition("group", 32, 0.1),
        Condition("layer", 32, 0.03),
        Condition("none", 32, 0.03),
    )
)


def fingerprint(config: Any) -> dict[str, str]:
    """The digits come with scikit-learn, whose version is recorded anyway."""
    return {}


def build(config: Config, norm: str) -> ResNet:
    """The network with one of `NORMS`, from He's weights."""
    return he(ResNet(norm=norm, widths=config.widths))


def run_condition(
    config: Config, condition: Condition, digits: Digits, evaluate_on: Split, seed: int
) -> dict[str, Any]:
    """Train one network and score it in evaluation mode and with batch statistics."""
    order = start(seed)
    steps = config.images_seen // condition.batch_size
    model = build(config, condition.norm)
    history = train(
        model,
        image_batches(digits.train, condition.batch_size, order),
        classification_loss,
        steps=steps,
        learning_rate=condition.learning_rate,
        warmup=max(1, int(config.warmup_share * steps)),
        optimizer="sgd",
    )
    running = image_scores(model, in_order(evaluate_on, 100))
    record = {
        "norm": condition.norm,
        "batch_size": condition.batch_size,
        "learning_rate": condition.learning_rate,
        "train_loss": float(np.mean(history.loss[-max(1, steps // 10) :])),
        "loss": running["loss"],
        "error": running["error"],
        "diverged": history.diverged,
    }
    if condition.norm == "batch":
        # The images are shuffled once, so that a batch mixes the classes as in training.
        shuffled = torch.from_numpy(np.random.default_rng(seed).permutation(len(evaluate_on[1])))
        mixed = Split(evaluate_on.images[shuffled], evaluate_on.labels[shuffled])
        batch = image_scores(model, in_order(mixed, condition.batch_size), batch_statistics=True)
        record |= {"batch_loss": batch["loss"], "batch_error": batch["error"]}
    return record


def in_order(split: Split, batch_size: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The images in full batches, in their order; those left over at the end sit out."""
    full = len(split.labels) // batch_size * batch_size
    return [
        (split.images[i : i + batch_size], split.labels[i : i + batch_size])
        for i in range(0, full, batch_size)
    ]


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; report on the test images."""
    digits = load_digits()
    return [
        run_condition(config, condition, digits, digits.test, seed)
        for condition in config.conditions
    ]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """What the figure shows: how many times each norm's test loss is BatchNorm's, as log2.

    The losses differ by an order of magnitude between batch sizes, so ratios share an axis where
    differences would not. Paired by seed.
    """
    names = {"group": "GroupNorm", "layer": "LayerNorm", "none": "no norm"}
    return {
        f"batch of {size}, {names[norm]}": np.log2(
            saved.values("loss", norm=norm, batch_size=size)
            / saved.values("loss", norm="batch", batch_size=size)
        )
        for size in BATCH_SIZES
        for norm in names
    }
