"""The network of the playground in torch, for the tests; who imports this imports torch."""

import torch
from torch import nn

from normtutor import layers

OPTIMIZERS = {
    "SGD": lambda parameters, rate: torch.optim.SGD(parameters, lr=rate),
    "momentum": lambda parameters, rate: torch.optim.SGD(parameters, lr=rate, momentum=0.9),
    "Adam": lambda parameters, rate: torch.optim.Adam(parameters, lr=rate),
}
ACTIVATIONS = {"ReLU": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "identity": nn.Identity}


class RMSNorm(layers.RMSNorm):
    """The layer with the shift that the playground gives to every norm."""

    def __init__(self, width: int) -> None:
        super().__init__(width, eps=1e-5)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return super().forward(x) + self.bias


def torch_network(settings: dict) -> nn.Sequential:
    width, parts = settings["width"], []
    norm = {
        "none": nn.Identity,
        "BatchNorm": lambda: layers.BatchNorm(width, feature_axis=-1),
        "LayerNorm": lambda: layers.LayerNorm(width),
        "RMSNorm": lambda: RMSNorm(width),
        "PowerNorm": lambda: layers.PowerNorm(width, warmup_steps=settings["warmup"]),
    }[settings["norm"]]
    for i in range(settings["depth"]):
        pair = [norm(), ACTIVATIONS[settings["activation"]]()]
        if settings["placement"] == "after":
            pair.reverse()
        parts += [nn.Linear(width if i else 2, width), *pair]
    return nn.Sequential(*parts, nn.Linear(width, 2)).double()
