"""Plain gradient descent with a constant rate, and the initial weights that an activation needs."""

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import Tensor, nn

from normtutor.training import classification_loss

Model = TypeVar("Model", bound=nn.Module)


def initialise(model: Model, activation: str, scale: float = 1.0) -> Model:
    """Draw initial weights that suit the activation: He's for "relu", Xavier's for any other.

    Biases become zero, and ``scale`` multiplies all weights. A sigmoid's slope is at most 1/4, so
    ``scale=4`` is what keeps a signal's size through many sigmoids.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            if activation == "relu":
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            else:
                nn.init.xavier_normal_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
            with torch.no_grad():
                module.weight.mul_(scale)
    return model


def xavier(model: Model) -> Model:
    """Draw the weights anew as Glorot and Bengio advise, and set the biases to zero."""
    return initialise(model, "tanh")


def he(model: Model) -> Model:
    """Draw the weights anew as He and others advise for ReLU, and set the biases to zero."""
    return initialise(model, "relu")


def descend(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    *,
    steps: int,
    rate: float,
    watch: Callable[[int], None] | None = None,
) -> list[float]:
    """Train in place without momentum or schedule; return each step's training loss.

    ``watch(step)`` is called before each step. The run ends early when the loss is not finite; the
    losses are then filled up with infinity.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    stream = iter(batches)
    losses: list[float] = []
    for step in range(steps):
        if watch is not None:
            watch(step)
        model.train()
        loss = classification_loss(model, next(stream))
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            break
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for p, gradient in zip(parameters, gradients, strict=True):
                p.sub_(gradient, alpha=rate)
    return losses + [math.inf] * (steps - len(losses))
