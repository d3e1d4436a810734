"""Seven ways to make a network with BatchNorm do worse in evaluation, and the remedy of each.

Each row plants one mistake in a small convolutional network on digits, and then mends it: by
training again without the mistake where it spoils training, and otherwise by mending the statistics
of the trained network. Reported are the errors in training mode on the training images, and in
evaluation mode on the test images before and after the remedy, and what
:func:`normtutor.diagnosis.diagnose` says of the network before it.

Without running statistics the test images come in batches of two, so that every prediction rests
on the statistics of two images.

Control: a mistake could merely train a worse network, so the error in training mode stands beside
each; and a remedy could help any network, so the healthy one, with its statistics recomputed, is a
row of its own. What a network without running statistics does depends on the batches in evaluation,
of two images here. One rate for all, not tuned.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn
from torch.utils.data import DataLoader, Sampler, TensorDataset

from normtutor.data import Split, load_digits
from normtutor.diagnosis import diagnose
from normtutor.training import start
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "rows", "run"]

CHAPTER = "09_norms_at_work"
FIGURE = "fig-work-bugs"
FINDING = (
    "on every seed the remedy lowers the error in evaluation after six of seven mistakes, on four "
    "of five after a last batch of one; with other preprocessing to twice the healthy error; the "
    "diagnosis names the mistake in 34 of 35 networks"
)
SEEDS = tuple(range(10, 15))
XLABEL = "error in evaluation with the mistake minus after its remedy (percentage points)"

Loader = Iterable[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Condition:
    """One mistake."""

    mistake: str


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...] = tuple(
        Condition(name)
        for name in (
            "none",
            "momentum too small",
            "three classes a batch",
            "last batch of one",
            "no running statistics",
            "one norm used twice",
            "other preprocessing",
            "frozen by requires_grad",
        )
    )
    steps: int = 150
    learning_rate: float = 0.02
    batch_size: int = 32


CONFIG = Config()


class Network(nn.Module):
    """Two convolutions with BatchNorm, mean over the grid, classes."""

    def __init__(self, *, shared: bool = False, **options: Any) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(16, 16, 3, padding=1, bias=not shared)
        self.norm1 = nn.BatchNorm2d(16, **options)
        self.norm2 = self.norm1 if shared else nn.BatchNorm2d(16, **options)
        self.classify = nn.Linear(16, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of the classes, (B, 1, H, W) -> (B, 10)."""
        x = self.norm1(self.conv1(images)).relu()
        x = self.norm2(self.conv2(nn.functional.max_pool2d(x, 4))).relu()
        return self.classify(x.mean((2, 3)))


def fit(model: nn.Module, loader: Loader, config: Config, steps: int | None = None) -> nn.Module:
    """Plain SGD with momentum on those parameters that want a gradient."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=config.learning_rate, momentum=0.9)
    model.train()
    step, wanted = 0, config.steps if steps is None else steps
    while step < wanted:
        for images, labels in loader:
            # The rate falls to zero, so that the averages have time to settle.
            optimizer.param_groups[0]["lr"] = config.learning_rate * max(0.0, 1 - step / wanted)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
        # Whole epochs: the statistics of an epoch's last batch are what evaluation meets.
    return model


def error(model: nn.Module, loader: Loader, *, training: bool = False) -> float:
    """The share of wrong answers in one of the two modes; nothing is updated."""
    model = copy.deepcopy(model).train(training)
    wrong = count = 0
    with torch.no_grad():
        for images, labels in loader:
            wrong += int((model(images).argmax(1) != labels).sum())
            count += len(labels)
    return wrong / count


def loader_of(split: Split, batch_size: int, **options: Any) -> DataLoader:
    """The images in batches."""
    return DataLoader(TensorDataset(*split), batch_size=batch_size, **options)


class FewClasses(Sampler[list[int]]):
    """Batches of three or four classes alone: digits 0 to 3, 4 to 6, 7 to 9; in random order."""

    def __init__(self, labels: Tensor, batch_size: int) -> None:
        self.groups = [torch.nonzero(labels * 3 // 10 == i)[:, 0] for i in range(3)]
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[list[int]]:
        parts = [
            part.tolist()
            for group in self.groups
            for part in group[torch.randperm(len(group))].split(self.batch_size)
            if len(part) == self.batch_size
        ]
        return iter([parts[i] for i in torch.randperm(len(parts)).tolist()])

    def __len__(self) -> int:
        return sum(len(group) // self.batch_size for group in self.groups)


def other_look(split: Split) -> Split:
    """The images at half the contrast and brighter, as from another preprocessing."""
    return Split(0.5 * split.images + 1, split.labels)


def planted(mistake: str, config: Config) -> tuple[nn.Module, Loader, Loader, Callable[[], Any]]:
    """A network with one mistake, its two loaders, and what makes it right again."""
    digits = load_digits()
    size = config.batch_size
    one_left = Split(*(part[: 36 * size + 1] for part in digits.train))  # 1153 images
    train, test = loader_of(digits.train, size, shuffle=True, drop_last=True), None
    test = loader_of(digits.test, 100)
    model: Any = Network()

    def again(new: nn.Module, loader: Loader = train) -> nn.Module:
        return fit(new, loader, config)

    if mistake == "momentum too small":
        model = again(Network(momentum=0.001))
        return model, train, test, lambda: update_bn(train, model)
    if mistake == "three classes a batch":
        sampler = FewClasses(digits.train.labels, size)
        ordered = DataLoader(TensorDataset(*digits.train), batch_sampler=sampler)
        return again(model, ordered), ordered, test, lambda: again(Network())
    if mistake == "last batch of one":
        odd = loader_of(one_left, size, shuffle=True)
        even = loader_of(one_left, size, shuffle=True, drop_last=True)
        return again(model, odd), odd, test, lambda: again(Network(), even)
    if mistake == "no running statistics":
        test = loader_of(digits.test, 2)
        return (
            again(Network(track_running_stats=False)),
            train,
            test,
            lambda: again(Network()),
        )
    if mistake == "one norm used twice":
        return again(Network(shared=True)), train, test, lambda: again(Network())
    if mistake == "other preprocessing":
        strange = loader_of(other_look(digits.test), 100)
        theirs = loader_of(other_look(digits.validation), size)
        return again(model), train, strange, lambda: update_bn(theirs, model)
    if mistake == "frozen by requires_grad":
        # A new classifier on other images; the network's old task is to stay as it was.
        again(model)
        before = copy.deepcopy(model)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.startswith("classify"))
        old = copy.deepcopy(model.classify.state_dict())
        fit(model, loader_of(other_look(digits.validation), size, shuffle=True), config, steps=30)
        model.classify.load_state_dict(old)

        def frozen() -> nn.Module:
            return before  # what eval() on the norms would have left: not one statistic moves

        return model, train, test, frozen
    again(model)
    return model, train, test, lambda: update_bn(train, model)


def run_condition(config: Config, condition: Condition, seed: int) -> dict[str, Any]:
    """Plant a mistake, look at the network in both modes, diagnose it, mend it."""
    start(seed)
    model, train, test, mend = planted(condition.mistake, config)
    record: dict[str, Any] = {
        "mistake": condition.mistake,
        "training_mode": error(model, train, training=True),
        "evaluation": error(model, test),
        "causes": diagnose(model.train(), train, test).causes,
    }
    mended = mend()
    record["mended"] = error(mended if isinstance(mended, nn.Module) else model, test)
    return record


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed; report on the test images."""
    return [run_condition(config, condition, seed) for condition in config.conditions]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """The error in evaluation that each mistake costs, in percentage points, by seed."""
    return {
        condition["mistake"]: 100
        * (
            saved.values("evaluation", mistake=condition["mistake"])
            - saved.values("mended", mistake=condition["mistake"])
        )
        for condition in saved.runs[0]["records"]
    }
