"""Small networks, batches of digits and training, for the tests of diagnose."""

import copy
import functools
import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from normtutor import data

IMAGES = 512


@functools.cache
def digits():
    return data.load_digits()


def training_set(scale=1.0, shift=0.0, count=IMAGES, by_class=False):
    split = digits().train
    images, labels = split.images[:count] * scale + shift, split.labels[:count]
    if by_class:
        order = torch.argsort(labels)
        images, labels = images[order], labels[order]
    return TensorDataset(images, labels)


def loader(dataset=None, batch_size=32, shuffle=True, **options):
    dataset = training_set() if dataset is None else dataset
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle, **options)


def held_out(scale=1.0, shift=0.0):
    split = digits().test
    return DataLoader(TensorDataset(split.images * scale + shift, split.labels), batch_size=100)


def network(norm=nn.BatchNorm2d, dropout=0.0):
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1, bias=False), norm(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1, bias=False), norm(16), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(16, 10)),
    )


def perceptron(norm=nn.BatchNorm1d):
    hidden = (nn.Linear(64, 32), norm(32), nn.ReLU())
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(32, 10))


def batch_norms(model):
    return [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]


def fit(model, batches, steps=80, rate=0.05, training=True):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=rate, momentum=0.9)
    model.train(training)
    for x, labels in itertools.islice(data.epochs(lambda: batches), steps):
        loss = nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.train()


@functools.cache
def _trained(seed):
    torch.manual_seed(seed)
    return fit(network(), loader())


def trained():
    """A network that has learnt, from this test's seed."""
    return copy.deepcopy(_trained(torch.initial_seed()))


class TwoUses(nn.Module):
    """One norm behind two convolutions, whose outputs differ or not."""

    def __init__(self, offset):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.second = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm, self.offset = nn.BatchNorm2d(8), offset
        self.classify = nn.Linear(8, 10)

    def forward(self, x):
        x = self.norm(self.first(x)).relu()
        x = self.norm(self.offset + self.second(x)).relu()
        return self.classify(x.mean((2, 3)))


class GroupNorm4(nn.GroupNorm):
    def __init__(self, channels):
        super().__init__(4, channels)


class Siamese(nn.Module):
    """One network on two views of the same kind: its norms are called twice, and rightly so."""

    def __init__(self):
        super().__init__()
        self.network = network()

    def forward(self, x):
        return self.network(x) + self.network(x + 0.1 * torch.randn_like(x))
