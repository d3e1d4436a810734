"""The network of the playground in torch, for the tests; who imports this imports torch."""

import torch
from torch import nn

from normtutor import layers

OPTIMIZERS = {
    "SGD": lambda parameters, rate: torch.optim.SGD(parameters, lr=rate),
    "momentum": lambda parameters, rate: torch.optim.SGD(parameters, lr=rate, momentum=0.9),
    "Adam": lambda parameters, rate: torch.optim.Adam(parameters, lr=rate),
}


def norm_layer(name: str, width: int, warmup: int) -> nn.Module | None:
    return {
        "none": lambda: None,
        "BatchNorm": lambda: layers.BatchNorm(width, feature_axis=-1),
        "LayerNorm": lambda: layers.LayerNorm(width),
        "RMSNorm": lambda: layers.RMSNorm(width, eps=1e-5),
        "PowerNorm": lambda: layers.PowerNorm(width, warmup_steps=warmup),
    }[name]()


def torch_network(settings: dict) -> nn.Sequential:
    acts = {"ReLU": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "identity": nn.Identity}
    width, parts = settings["width"], []
    for i in range(settings["depth"]):
        norm = norm_layer(settings["norm"], width, settings["warmup"])
        pair = [norm, acts[settings["activation"]]()]
        if settings["placement"] == "after":
            pair.reverse()
        parts += [nn.Linear(width if i else 2, width), *filter(None, pair)]
    return nn.Sequential(*parts, nn.Linear(width, 2)).double()


class WithOneBias(nn.Module):
    """Add the playground's shift to a layer that has none of its own."""

    def __init__(self, norm: nn.Module, width: int) -> None:
        super().__init__()
        self.norm = norm
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return self.norm(x) + self.bias
