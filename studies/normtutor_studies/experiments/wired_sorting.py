"""What the experiments on residual wiring share: Transformers that learn to sort.

The task is that of :mod:`normtutor_studies.experiments.detach_norm`: ten digits, sequences of eight, the
loss counted on the sorted part. A deep and narrow model learns it in seconds, and fails to learn it
when its wiring is wrong.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normtutor.data import TokenBatch
from normtutor.models import TransformerLM, admin_initialise
from normtutor.training import History, language_model_loss, start, train
from normtutor.wiring import WIRINGS, Wiring
from normtutor_studies.experiments import detach_norm
from normtutor_studies.experiments.records import short as rounded

# The counterexample of Wang et al. (2022): Post-LN whose lower layers start with smaller weights,
# the layer l divided by L − l + 1, the top layer as it is.
POST_SMALL = Wiring(
    ("stream",),
    weights=lambda layer, depth: (1.0, 1 / (depth - layer + 1), 1 / (depth - layer + 1)),
)
PRE_SMALL = replace(WIRINGS["pre"], weights=POST_SMALL.weights)  # the same weights in Pre-LN
# Takase et al. (2023) as their code has it: the initial weights of a layer divided by √depth too.
B2T_SMALL = replace(WIRINGS["b2t"], weights=lambda layer, depth: (depth**-0.5,) * 3)
EXTRA = {"post-small": POST_SMALL, "pre-small": PRE_SMALL, "b2t-small": B2T_SMALL}


EVERY = 10  # steps between two points of a curve
PROBED = 16  # sequences on which the change of the output is measured


@dataclass(frozen=True)
class Task:
    """The model and the data, apart from what an experiment varies."""

    symbols: int = 10
    length: int = 8
    width: int = 32
    heads: int = 4
    batch_size: int = 16
    test_sequences: int = 512


def batch_of(task: Task, size: int, rng: np.random.Generator) -> TokenBatch:
    """``size`` new sequences with their sorted copies."""
    config = detach_norm.Config((), symbols=task.symbols, length=task.length)
    return detach_norm.sorting_batch(config, size, rng)


def stream_of(task: Task, rng: np.random.Generator) -> Iterator[TokenBatch]:
    """New sequences for ever."""
    while True:
        yield batch_of(task, task.batch_size, rng)


def test_batch(task: Task, seed: int) -> TokenBatch:
    """The sequences on which every model of this seed is measured."""
    return batch_of(task, task.test_sequences, np.random.default_rng(1000 + seed))


def model_of(task: Task, wiring: str, depth: int, seed: int, norm: str = "layer") -> TransformerLM:
    """An untrained model; "admin" is profiled on a batch of its own."""
    start(seed)
    model = TransformerLM(
        task.symbols + 1,
        width=task.width,
        depth=depth,
        heads=task.heads,
        max_length=2 * task.length,
        norm=norm,
        wiring=EXTRA.get(wiring, wiring),
        dropout=0.0,
    )
    if wiring == "admin":
        rng = np.random.default_rng(2000 + seed)
        admin_initialise(model, batch_of(task, task.test_sequences, rng).inputs)
    return model


def train_rates(
    task: Task,
    models: Sequence[TransformerLM],
    rates: Sequence[float],
    seed: int,
    *,
    steps: int,
    warmup: int,
) -> list[History]:
    """Train one model a learning rate, all on the same sequences in the same order.

    Every ``EVERY`` steps: how far the last hidden state has moved since the start, relative to its
    size, on sequences that are not trained on.
    """
    probe = test_batch(task, seed).inputs[:PROBED]
    with torch.no_grad():
        at_start = {id(model): model.hidden(probe) for model in models}

    def change(model: nn.Module) -> dict[str, float]:
        before = at_start[id(model)]
        with torch.no_grad():
            now = model.hidden(probe)  # type: ignore[operator]
        return {"change": ((now - before).norm() / before.norm()).item()}

    return [
        train(
            model,
            stream_of(task, np.random.default_rng(seed)),
            language_model_loss,
            steps=steps,
            learning_rate=rate,
            warmup=warmup,
            evaluate=change,
            evaluate_every=EVERY,
        )
        for model, rate in zip(models, rates, strict=True)
    ]


def gradient_norms(model: TransformerLM, batch: TokenBatch) -> list[float]:
    """The gradient's norm at the last feed-forward matrix of each layer, the first layer first."""
    matrices = [layer.feed_forward[2].weight for layer in model.layers]  # type: ignore[index,union-attr]
    loss = language_model_loss(model, batch)
    return [gradient.norm().item() for gradient in torch.autograd.grad(loss, matrices)]


def short(value: float | None) -> float | None:
    """Five significant digits are enough for a saved file; None where there is no number."""
    return None if value is None else rounded(value, 5)


def run_rates(
    task: Task,
    rates: Sequence[float],
    seed: int,
    *,
    wiring: str,
    depth: int,
    steps: int,
    warmup: int,
) -> list[dict[str, Any]]:
    """Train a wiring with each learning rate; return one record a rate.

    "gradients" are the norms before training, "loss" and "accuracy" those on new sequences after
    it; "curve" and "change" have one entry every ``EVERY`` steps.
    """
    models = [model_of(task, wiring, depth, seed) for _ in rates]
    test = test_batch(task, seed)
    gradients = [short(norm) for norm in gradient_norms(models[0], test)]
    histories = train_rates(task, models, rates, seed, steps=steps, warmup=warmup)
    records = []
    for model, rate, history in zip(models, rates, histories, strict=True):
        found = score(model, test)
        points = range(0, len(history.loss) - EVERY + 1, EVERY)
        records.append(
            {
                "wiring": wiring,
                "depth": depth,
                "warmup": warmup,
                "learning_rate": rate,
                "loss": short(found["loss"]),
                "accuracy": short(found["accuracy"]),
                "diverged": history.diverged or found["loss"] is None,
                "gradients": gradients,
                "curve": [short(float(np.mean(history.loss[i : i + EVERY]))) for i in points],
                "change": [short(numbers["change"]) for numbers in history.evaluations],
            }
        )
    return records


def score(model: nn.Module, batch: TokenBatch) -> dict[str, float | None]:
    """Mean loss in nats a digit, and the share of digits that are right; None if not finite."""
    with torch.no_grad():
        scores = model(batch.inputs)[batch.mask]
        loss = nn.functional.cross_entropy(scores, batch.targets[batch.mask]).item()
        right = (scores.argmax(-1) == batch.targets[batch.mask]).float().mean().item()
    finite = math.isfinite(loss)
    return {"loss": loss if finite else None, "accuracy": right if finite else None}


def states(model: TransformerLM, tokens: Tensor) -> list[Tensor]:
    """The residual stream: after the embedding, and after each layer."""
    with torch.no_grad():
        stream = [model.embed(tokens)]
        for layer in model.layers:
            stream.append(layer(stream[-1]))
    return stream
