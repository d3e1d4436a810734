"""Is Pre-LN wide and shallow? Increments, similarity, and layers removed or swapped after training.

Models of eight layers learn to sort, in four wirings. Of each the residual stream is measured
before and after training: the length of every state, of every increment, and the cosine of
neighbouring states. Then layers are taken out or exchanged, without any further training.

Control: layers might be expendable because the model has not learned, so the loss of the whole
model is recorded; or because the task needs few layers, for which the other wirings, trained on the
same task, are the control. All of them share one rate. Not checked: a rate tuned for each wiring,
and models of half the depth trained from the start.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from normtutor.data import TokenBatch
from normtutor.models import TransformerLM
from normtutor.training import language_model_loss, train
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.wired_sorting import (
    Task,
    model_of,
    score,
    short,
    states,
    stream_of,
    test_batch,
)

CHAPTER = "07_pre_ln_and_post_ln"
FIGURE = "fig-wiring-surgery"
FINDING = "upper Pre-LN layers can be removed or swapped at less cost than upper Post-LN layers"
XLABEL = "accuracy with layers reversed in the upper half"
REFERENCE = None
SEEDS = tuple(range(10, 15))


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    wirings: tuple[str, ...] = ("post", "pre", "peri", "deepnorm")
    depth: int = 8
    steps: int = 400
    warmup: int = 100
    learning_rate: float = 2e-3
    task: Task = field(default_factory=Task)


CONFIG = Config()


def fingerprint(config: Config) -> dict[str, str]:
    """The data are generated."""
    return {}


def along_the_stream(stream: Sequence[Tensor]) -> dict[str, list[float]]:
    """What each layer does to the residual stream, as means over tokens.

    "squares": mean square of each state, the embedding first; "increments": length of each change
    over the length of what is changed; "cosines": of each state with the next.
    """
    pairs = list(pairwise(stream))
    return {
        "squares": [x.square().mean().item() for x in stream],
        "increments": [((y - x).norm(dim=-1) / x.norm(dim=-1)).mean().item() for x, y in pairs],
        "cosines": [F.cosine_similarity(x, y, dim=-1).mean().item() for x, y in pairs],
    }


def rearranged(model: TransformerLM, order: Sequence[int]) -> TransformerLM:
    """The same model with its layers, counted from 0, in this order; what is not named is left out.

    The weights are shared with ``model``, not copied.
    """
    other = object.__new__(type(model))
    torch.nn.Module.__init__(other)
    other.__dict__.update({k: v for k, v in model.__dict__.items() if k != "_modules"})
    other._modules = dict(model._modules)
    other.layers = torch.nn.ModuleList(model.layers[i] for i in order)
    return other


def surgeries(depth: int) -> dict[str, list[list[int]]]:
    """The orders of layers that are tried, by kind."""
    whole = list(range(depth))
    swapped = []
    for i in range(depth - 1):
        order = whole.copy()
        order[i], order[i + 1] = order[i + 1], order[i]
        swapped.append(order)
    half = depth // 2
    return {
        "whole": [whole],
        "without": [whole[:i] + whole[i + 1 :] for i in whole],
        "swapped": swapped,
        "reversed": [whole[:half] + whole[half:][::-1]],
    }


def operate(model: TransformerLM, batch: TokenBatch) -> dict[str, list[float | None]]:
    """Loss and accuracy after each surgery: "without" and "swapped" have one entry per layer."""
    found: dict[str, list[float | None]] = {}
    for kind, orders in surgeries(len(model.layers)).items():
        scores = [score(rearranged(model, order), batch) for order in orders]
        for key in ("loss", "accuracy"):
            found[f"{kind}_{key}"] = [short(entry[key]) for entry in scores]
    return found


def run_wiring(config: Config, wiring: str, seed: int) -> dict[str, Any]:
    """Train one model, and measure it before and after."""
    task = config.task
    model = model_of(task, wiring, config.depth, seed)
    test = test_batch(task, seed)
    before = along_the_stream(states(model, test.inputs))
    history = train(
        model,
        stream_of(task, np.random.default_rng(seed)),
        language_model_loss,
        steps=config.steps,
        learning_rate=config.learning_rate,
        warmup=config.warmup,
    )
    after = along_the_stream(states(model, test.inputs))
    return {
        "wiring": wiring,
        "diverged": history.diverged,
        **{f"start_{key}": [short(v) for v in values] for key, values in before.items()},
        **{f"end_{key}": [short(v) for v in values] for key, values in after.items()},
        **operate(model, test),
    }


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every wiring with this seed."""
    return [run_wiring(config, wiring, seed) for wiring in config.wirings]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Accuracy when the upper half of the layers runs in reverse order."""
    return {
        wiring: saved.values("reversed_accuracy", wiring=wiring)[:, 0]
        for wiring in saved.config["wirings"]
    }
