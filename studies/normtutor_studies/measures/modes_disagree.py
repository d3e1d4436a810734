"""Ways to make a network with BatchNorm do worse in evaluation, and the remedy of each.

Each mistake is planted in a small convolutional network on digits and then mended: by training
again without the mistake where it spoils training, and otherwise by mending the statistics of the
trained network. Without running statistics the test images come in batches of two, so that every
prediction rests on the statistics of two images.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn
from torch.utils.data import DataLoader, Sampler, TensorDataset

from normtutor.data import Split, load_digits
from normtutor.diagnosis import diagnose
from normtutor.training import start
from normtutor_studies.store import Cell, Run, World

Loader = Iterable[tuple[Tensor, Tensor]]


RATE = 0.02
MISTAKES = (
    "none",
    "momentum too small",
    "three classes a batch",
    "last batch of one",
    "no running statistics",
    "one norm used twice",
    "other preprocessing",
    "frozen by requires_grad",
)


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


def fit(model: nn.Module, loader: Loader, steps: int) -> nn.Module:
    """Plain SGD with momentum on those parameters that want a gradient."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=RATE, momentum=0.9)
    model.train()
    step = 0
    while step < steps:
        for images, labels in loader:
            # The rate falls to zero, so that the averages have time to settle.
            optimizer.param_groups[0]["lr"] = RATE * max(0.0, 1 - step / steps)
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


def planted(cell: Cell) -> tuple[nn.Module, Loader, Loader, Callable[[], Any]]:
    """A network with one mistake, its two loaders, and what makes another of it, or mends it."""
    mistake, size, steps = cell["mistake"], cell["batch_size"], cell["steps"]
    digits = load_digits()
    train: Any = loader_of(digits.train, size, shuffle=True, drop_last=True)
    test, healthy = loader_of(digits.test, 100), train
    options: dict[str, Any] = {}
    if mistake == "momentum too small":
        options["momentum"] = 0.001
    if mistake == "three classes a batch":
        sampler = FewClasses(digits.train.labels, size)
        train = DataLoader(TensorDataset(*digits.train), batch_sampler=sampler)
    if mistake == "last batch of one":
        one_left = Split(*(part[: 36 * size + 1] for part in digits.train))  # 1153 images
        train = loader_of(one_left, size, shuffle=True)
        healthy = loader_of(one_left, size, shuffle=True, drop_last=True)
    if mistake == "no running statistics":
        test = loader_of(digits.test, 2)
        options["track_running_stats"] = False
    if mistake == "one norm used twice":
        options["shared"] = True
    usual = Network()
    model = fit(Network(**options) if options else usual, train, steps)
    if mistake == "other preprocessing":
        test = loader_of(other_look(digits.test), 100)
        healthy = loader_of(other_look(digits.validation), size)
    if mistake == "frozen by requires_grad":
        # A new classifier on other images; the network's old task is to stay as it was.
        before: Any = copy.deepcopy(model)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.startswith("classify"))
        fit(model, loader_of(other_look(digits.validation), size, shuffle=True), 30)
        model.classify.load_state_dict(before.classify.state_dict())  # type: ignore[union-attr]
        # What eval() on the norms would have left: not one statistic moves.
        return model, train, test, lambda: before
    if mistake in ("none", "momentum too small", "other preprocessing"):
        return model, train, test, lambda: update_bn(healthy, model)
    return model, train, test, lambda: fit(Network(), healthy, steps)


def measure(cell: Cell, rate: float, seed: int) -> Run:
    """Plant a mistake, look at the network in both modes, diagnose it, mend it.

    All is trained at :data:`RATE`.
    """
    start(seed)
    model, train, test, mend = planted(cell)
    errors = {"training_mode": error(model, train, training=True), "evaluation": error(model, test)}
    causes = diagnose(model.train(), train, test).causes
    return errors | {"causes": causes, "mended": error(mend() or model, test)}


WORLD = World(
    "modes_disagree",
    measure,
    {"mistake": "none", "steps": 150, "batch_size": 32},
    title="Digits",
    small={"steps": 5},
)
