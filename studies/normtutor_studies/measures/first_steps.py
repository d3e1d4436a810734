"""The size of the update: the first step over depth, and what the first forty steps do.

The models learn to sort. "first update" is how far the output of an untrained model moves in one
step of Adam, for each unit of learning rate; the step is taken at a rate so small that the output
moves in proportion. A trace follows a model of twelve layers in its first steps, at a rate that
matters: loss, gradient at the bottom and at the top layer, how far the output has moved, and how
alike the tokens have become.
"""

from typing import Any

import numpy as np
import torch

from normtutor.data import TokenBatch
from normtutor.models import TransformerLM
from normtutor.training import language_model_loss, warmup_cosine
from normtutor_studies.engine import Study
from normtutor_studies.measures.sorting import (
    SETTINGS,
    SMALL,
    batch_of,
    gradient_norms,
    model_of,
    stream_of,
    test_batch,
)
from normtutor_studies.store import Cell, Run, World


def adam(model: TransformerLM, learning_rate: float) -> torch.optim.Optimizer:
    """The optimizer of :func:`normtutor.training.train`."""
    return torch.optim.AdamW(
        model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0
    )


def first_update(cell: Cell, rate: float, seed: int) -> Run:
    """Gradient norms of an untrained model, and the relative change of its output in one step.

    "gradient" is the norm over all parameters, "top" that of the last feed-forward matrix;
    "change" is divided by the learning rate. Float64, because the step is small.
    """
    model = model_of(cell, seed).double()
    batch = batch_of(cell, cell["batch_size"], np.random.default_rng(seed))
    probe = test_batch(cell, seed).inputs[: cell["batch_size"]]
    with torch.no_grad():
        before = model.hidden(probe)
    language_model_loss(model, batch).backward()
    squares = [p.grad.square().sum() for p in model.parameters() if p.grad is not None]
    top = model.layers[-1].feed_forward[2].weight.grad.norm().item()  # type: ignore[union-attr,index]
    adam(model, rate).step()
    with torch.no_grad():
        moved = (model.hidden(probe) - before).norm() / before.norm()
    return {
        "gradient": torch.stack(squares).sum().sqrt().item(),
        "top": top,
        "change": moved.item() / rate,
    }


def exponents(study: Study, wiring: str, key: str) -> np.ndarray:
    """The power of depth with which "gradient", "top" or "change" grows, one per seed."""
    depths = study.choices("depth", wiring=wiring)
    values = study.across("depth", key, wiring=wiring)
    return np.polyfit(np.log(depths), np.log(values.T), 1)[0]


FIRST_UPDATE = World("first_update", first_update, SETTINGS, title="Sorting", small=SMALL)


def likeness(model: TransformerLM, batch: TokenBatch) -> float:
    """Mean cosine between the last hidden states of all pairs of tokens."""
    with torch.no_grad():
        hidden = model.hidden(batch.inputs)[batch.mask]
        directions = hidden / hidden.norm(dim=-1, keepdim=True)
        return directions.mean(0).square().sum().item()


def follow(cell: Cell, rate: float, seed: int) -> Run:
    """Train one model for its first steps; every list has one entry a look, the first at step 0."""
    model = model_of(cell, seed)
    probe = batch_of(cell, 32, np.random.default_rng(1000 + seed))
    stream = stream_of(cell, np.random.default_rng(seed))
    with torch.no_grad():
        at_start = model.hidden(probe.inputs)
    optimizer = adam(model, rate)
    traces: dict[str, list[Any]] = {
        name: [] for name in ("step", "loss", "bottom", "top", "change", "likeness")
    }
    for step in range(cell["followed"] + 1):
        if step % cell["every"] == 0:
            with torch.no_grad():
                moved = (model.hidden(probe.inputs) - at_start).norm() / at_start.norm()
                loss = language_model_loss(model, probe).item()
            gradients = gradient_norms(model, probe)
            values = (step, loss, gradients[0], gradients[-1], moved.item())
            for name, value in zip(traces, (*values, likeness(model, probe)), strict=True):
                traces[name].append(value)
        factor = warmup_cosine(step, steps=cell["steps"], warmup=cell["warmup"])
        for group in optimizer.param_groups:
            group["lr"] = rate * factor
        optimizer.zero_grad()
        language_model_loss(model, next(stream)).backward()
        optimizer.step()
    return traces


FIRST_STEPS = World(
    "first_steps",
    follow,
    SETTINGS | {"followed": 40, "every": 2},  # "steps" are those of the schedule
    title="Sorting",
    small=SMALL | {"followed": 4},
)
