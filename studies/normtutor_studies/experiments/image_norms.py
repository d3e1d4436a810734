"""LayerNorm at each pixel, over the whole image, and BatchNorm in a small ResNet on digits.

Does a norm that mixes the channels of one pixel harm a network for images? The norm stands behind
every convolution, the place that BatchNorm was made for. Besides the test images as they are, the
networks see them shifted by one pixel, and with noise: what is lost of "locality", "translation
invariance" or "robustness" would show there.

Control: BatchNorm alone computes something else in evaluation, and its batches add noise in
training. The learning rate of each norm was chosen by
:mod:`normtutor_studies.experiments.image_rates` on other seeds and on the validation images;
initial weights, which are He's for every norm and for none, order of the images and number of
parameters are the same for all norms of a seed, except that the network without a norm has no gains
and biases. Not checked: other rates on these seeds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from normtutor import layers
from normtutor.data import Digits, Split, image_batches, load_digits
from normtutor.models import ResNet
from normtutor.training import classification_loss, image_scores, start, train
from normtutor_studies.experiments.descent import he
from normtutor_studies.experiments.digit_batches import fingerprint, in_order
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "error", "fingerprint", "panels", "rows", "run"]

CHAPTER = "02_family_of_norms"
FIGURE = "fig-norms-images"
FINDING = (
    "after ten epochs BatchNorm makes fewer errors on shifted images than LayerNorm or no norm; on "
    "ordinary and noisy ones their errors cannot be told apart"
)
SEEDS = tuple(range(10, 20))
XLABEL = "error of the norm minus error of BatchNorm (percentage points)"

NORMS = ("batch", "pixel", "image", "none")
VIEWS = ("as they are", "shifted", "noisy")


@dataclass(frozen=True)
class Condition:
    """One norm and its learning rate."""

    norm: str  # "pixel": LayerNorm over the channels of a pixel; "image": GroupNorm(1)
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    widths: tuple[int, ...] = (16, 32)
    batch_size: int = 32
    images_seen: int = 12_000  # about ten epochs
    warmup_share: float = 0.1
    noise: float = 0.5  # standard deviations of a pixel


# The learning rates that image_rates chose; a test compares them with its saved run.
CONFIG = Config(
    conditions=(
        Condition("batch", 1.0),
        Condition("pixel", 0.1),
        Condition("image", 0.1),
        Condition("none", 0.03),
    )
)


class PixelLayerNorm(layers.LayerNorm):
    """LayerNorm over the channels of each pixel, for images (B, C, H, W), as in ConvNeXt."""

    def forward(self, x: Tensor) -> Tensor:
        """Move the channels to the last axis and back."""
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


def resnet(norm: str, widths: tuple[int, ...]) -> ResNet:
    """The network with one of `NORMS`, from He's weights."""
    if norm == "pixel":
        return he(ResNet(norm=PixelLayerNorm, widths=widths))
    return he(ResNet(norm="layer" if norm == "image" else norm, widths=widths))


def shifted(images: Tensor) -> list[Tensor]:
    """The images moved by one pixel up, down, left and right; the gap shows the background."""
    background = images.min()
    moved = []
    for axis, step in ((2, -1), (2, 1), (3, -1), (3, 1)):
        image = images.roll(step, axis)
        edge = -1 if step < 0 else 0
        image.select(axis, edge).fill_(background)
        moved.append(image)
    return moved


def views_of(split: Split, noise: float) -> dict[str, list[Split]]:
    """The images as they are, shifted, and noisy: the same for every norm and seed."""
    draw = np.random.default_rng(0).normal(size=tuple(split.images.shape))
    noisy = split.images + noise * torch.from_numpy(draw).to(split.images.dtype)
    return {
        "as they are": [split],
        "shifted": [Split(images, split.labels) for images in shifted(split.images)],
        "noisy": [Split(noisy, split.labels)],
    }


def run_condition(
    config: Config, condition: Condition, digits: Digits, evaluate_on: Split, seed: int
) -> dict[str, Any]:
    """Train one network and score it in evaluation mode on each view of the images."""
    order = start(seed)
    steps = config.images_seen // config.batch_size
    model = resnet(condition.norm, config.widths)
    history = train(
        model,
        image_batches(digits.train, config.batch_size, order),
        classification_loss,
        steps=steps,
        learning_rate=condition.learning_rate,
        warmup=max(1, int(config.warmup_share * steps)),
        optimizer="sgd",
    )
    record = {
        "norm": condition.norm,
        "learning_rate": condition.learning_rate,
        "train_loss": float(np.mean(history.loss[-max(1, steps // 10) :])),
        "diverged": history.diverged,
    }
    for view, splits in views_of(evaluate_on, config.noise).items():
        scores = [image_scores(model, in_order(split, 100)) for split in splits]
        for key in ("loss", "error"):
            name = key if view == "as they are" else f"{view}_{key}"
            record[name] = float(np.mean([score[key] for score in scores]))
    return record


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; report on the test images."""
    digits = load_digits()
    return [
        run_condition(config, condition, digits, digits.test, seed)
        for condition in config.conditions
    ]


def error(saved: Saved, norm: str, view: str) -> np.ndarray:
    """The error of each seed, in percent."""
    key = "error" if view == "as they are" else f"{view}_error"
    return 100 * saved.values(key, norm=norm)


def panels(saved: Saved) -> dict[str, dict[str, np.ndarray]]:
    """For each view of the images, each norm's error minus BatchNorm's, paired by seed."""
    titles = {
        "as they are": "test images as they are",
        "shifted": "shifted by one pixel",
        "noisy": "with noise",
    }
    names = {"pixel": "LayerNorm per pixel", "image": "GroupNorm(1)", "none": "no norm"}
    return {
        titles[view]: {
            text: error(saved, norm, view) - error(saved, "batch", view)
            for norm, text in names.items()
        }
        for view in VIEWS
    }


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """The same as one list."""
    return {
        f"{title}, {name}": values
        for title, differences in panels(saved).items()
        for name, values in differences.items()
    }
