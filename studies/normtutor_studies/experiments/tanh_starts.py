"""Where dynamic tanh's α should start, in the layers and after the last one; over learning rates.

The models are those of :mod:`normtutor_studies.experiments.final_norm`. α starts at 0.5 by default; whoever
compares dynamic tanh with a norm that has no such setting must have tuned it, at each place, as
carefully as the learning rate. α in the layers is swept in models that end without a norm; then α
after the last layer is swept, with the value that was best in the layers. Every cell has the four
learning rates of final_norm, with a tied and with an untied output.

In the layers 0.25 and 0.5 are level within 0.001 nats, and larger starts are worse; final_norm
takes 0.5. After the last layer a start of 2 costs 0.73 nats (tied) and 1.01, and a start of
1 0.34 and 0.15.

Control: a start could look bad because of the rate, so each is trained at four; the best lies
inside the grid for all starts in the layers, but after the last one it is the largest rate for
untied models with starts up to 1, and the smallest for a tied one with 2; or because of the output
matrix, so there are two. The losses are of the validation part, and the seed is used nowhere else.
Not checked: a second seed, values of α that differ between attention and the feed-forward network,
and all pairs of the two places.
"""

from typing import Any

from torch import Tensor

from normtutor.layers import DynamicTanh
from normtutor.models import TransformerLM
from normtutor.training import evaluation_mode
from normtutor_studies.experiments import final_norm
from normtutor_studies.experiments.final_norm import Cell, Config, chosen, fingerprint
from normtutor_studies.experiments.records import Saved, short

__all__ = ["CONFIG", "SEEDS", "best_starts", "fingerprint", "run", "saturated", "tanh_layers"]

CHAPTER = "08_after_2020"
FIGURE = "none: it chooses the starting values of α for final_norm"
FINDING = "in three layers α starts best at 0.5 or below; after the last layer 2 ends far behind"
SEEDS = (18,)

IN_THE_LAYERS = (0.25, 0.5, 1.0, 2.0)
AT_THE_END = (0.25, 0.5, 1.0, 2.0)
BEST = 0.5  # in the layers, level with 0.25

CONFIG = Config(
    cells=tuple(
        Cell("tanh", False, tied, alpha=alpha) for tied in (True, False) for alpha in IN_THE_LAYERS
    )
    + tuple(
        Cell("tanh", True, tied, alpha=BEST, last=last)
        for tied in (True, False)
        for last in AT_THE_END
    )
)
REDUCED = {
    "cells": (Cell("tanh", True, True, last=2.0), Cell("tanh", False, True, alpha=1.0)),
    **{key: value for key, value in final_norm.REDUCED.items() if key != "cells"},
}

run = final_norm.run


def best_starts(saved: Saved) -> dict[tuple[bool, bool], dict[str, Any]]:
    """(final norm, tied) -> the starting values and the rate with the smallest validation loss."""
    return {
        (final, tied): chosen(saved, norm="tanh", final=final, tied=tied)
        for final in (True, False)
        for tied in (True, False)
    }


def tanh_layers(model: TransformerLM) -> list[DynamicTanh]:
    """The dynamic tanhs from bottom to top."""
    return [module for module in model.modules() if isinstance(module, DynamicTanh)]


def saturated(model: TransformerLM, tokens: Tensor) -> list[float]:
    """For each dynamic tanh, the share of entries with αx beyond ±2: the slope is below 0.08."""
    shares: list[float] = []

    def look(module: Any, args: tuple[Tensor]) -> None:
        shares.append(short(((module.alpha * args[0]).abs() > 2).float().mean().item()))

    handles = [layer.register_forward_pre_hook(look) for layer in tanh_layers(model)]
    with evaluation_mode(model):
        model.hidden(tokens)
    for handle in handles:
        handle.remove()
    return shares
