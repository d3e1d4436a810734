"""The size of the update: the first step over depth, and what the first forty steps do.

Two parts. "first step": how far the output of an untrained model moves in one step of Adam, for
each unit of learning rate, over depth, together with the gradient's norm. The step is taken at a
rate so small that the output moves in proportion. "trace": models of twelve layers in their first
steps, at rates that matter: loss, gradient at the bottom and at the top layer, how far the output
has moved, and how alike the tokens have become.

Control: a large first update could simply reflect a large gradient, so the gradient's norm is
recorded too. Post-LN with small initial weights is the control: its norms stand where Post-LN's do,
its top gradient is large and its update small. The traces differ from one another in the wiring,
the rate or the warm-up alone. At larger rates the output no longer moves in proportion. Not
checked: plain SGD, and other tasks than sorting.
"""

from typing import Any

import numpy as np
import torch

from normtutor.models import TransformerLM
from normtutor.training import language_model_loss, warmup_cosine
from normtutor_studies.engine import grid
from normtutor_studies.experiments.records import Config, Record, Saved, short
from normtutor_studies.experiments.wired_sorting import (
    Task,
    batch_of,
    gradient_norms,
    model_of,
    stream_of,
    test_batch,
)

CHAPTER = "07_pre_ln_and_post_ln"
SEEDS = tuple(range(10, 15))


CONFIG = Config(
    wirings=("post", "pre", "post-small", "deepnorm", "peri"),
    depths=(4, 8, 16, 32),
    small_rate=1e-6,
    traces=[
        {"wiring": wiring, "warmup": warmup, "learning_rate": rate}
        for wiring, warmup, rate in (
            ("post", 0, 1e-3),
            ("post", 0, 4e-3),
            ("post", 60, 4e-3),
            ("post-small", 0, 4e-3),
            ("pre", 0, 4e-3),
            ("pre", 0, 16e-3),
        )
    ],
    trace_depth=12,
    trace_steps=40,
    trace_every=2,
    schedule_steps=200,  # the schedule is that of a whole run in warmup_map
    task=Task(),
)


def adam(model: TransformerLM, learning_rate: float) -> torch.optim.Optimizer:
    """The optimizer of :func:`normtutor.training.train`."""
    return torch.optim.AdamW(
        model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0
    )


def first_step(
    task: Task, wiring: str, depth: int, seed: int, *, learning_rate: float
) -> dict[str, float]:
    """Gradient norms of an untrained model, and the relative change of its output in one step.

    "gradient" is the norm over all parameters, "top" that of the last feed-forward matrix;
    "change" is divided by the learning rate. Float64, because the step is small.
    """
    model = model_of(task, wiring, depth, seed).double()
    batch = batch_of(task, task.batch_size, np.random.default_rng(seed))
    probe = test_batch(task, seed).inputs[: task.batch_size]
    with torch.no_grad():
        before = model.hidden(probe)
    language_model_loss(model, batch).backward()
    squares = [p.grad.square().sum() for p in model.parameters() if p.grad is not None]
    top = model.layers[-1].feed_forward[2].weight.grad.norm().item()  # type: ignore[union-attr,index]
    adam(model, learning_rate).step()
    with torch.no_grad():
        moved = (model.hidden(probe) - before).norm() / before.norm()
    return {
        "gradient": torch.stack(squares).sum().sqrt().item(),
        "top": top,
        "change": moved.item() / learning_rate,
    }


def likeness(model: TransformerLM, batch: Any) -> float:
    """Mean cosine between the last hidden states of all pairs of tokens."""
    with torch.no_grad():
        hidden = model.hidden(batch.inputs)[batch.mask]
        directions = hidden / hidden.norm(dim=-1, keepdim=True)
        return directions.mean(0).square().sum().item()


def follow(
    config: Config, wiring: str, warmup: int, learning_rate: float, seed: int
) -> dict[str, list[Any]]:
    """Train one model for its first steps; every list has one entry a look, the first at step 0."""
    task = config.task
    model = model_of(task, wiring, config.trace_depth, seed)
    probe = batch_of(task, 32, np.random.default_rng(1000 + seed))
    stream = stream_of(task, np.random.default_rng(seed))
    with torch.no_grad():
        at_start = model.hidden(probe.inputs)
    optimizer = adam(model, learning_rate)
    found: dict[str, list[Any]] = {
        name: [] for name in ("step", "loss", "bottom", "top", "change", "likeness")
    }
    for step in range(config.trace_steps + 1):
        if step % config.trace_every == 0:
            with torch.no_grad():
                moved = (model.hidden(probe.inputs) - at_start).norm() / at_start.norm()
                loss = language_model_loss(model, probe).item()
            gradients = gradient_norms(model, probe)
            values = (step, loss, gradients[0], gradients[-1], moved.item())
            for name, value in zip(found, (*values, likeness(model, probe)), strict=True):
                found[name].append(short(value, 5))
        factor = warmup_cosine(step, steps=config.schedule_steps, warmup=warmup)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * factor
        optimizer.zero_grad()
        language_model_loss(model, next(stream)).backward()
        optimizer.step()
    return found


def likeness_after(
    steps: int, wiring: str, *, optimizer: str, learning_rate: float, factor: float, seed: int
) -> float:
    """How alike the tokens are after some steps on ``factor`` times the loss, without warm-up.

    ``optimizer`` is "adam" or "sgd". The factor multiplies every gradient.
    """
    task = CONFIG.task
    model = model_of(task, wiring, CONFIG.trace_depth, seed)
    batches = stream_of(task, np.random.default_rng(seed))
    update = (
        adam(model, learning_rate)
        if optimizer == "adam"
        else torch.optim.SGD(model.parameters(), lr=learning_rate)
    )
    for _ in range(steps):
        update.zero_grad()
        (factor * language_model_loss(model, next(batches))).backward()
        update.step()
    return likeness(model, batch_of(task, 32, np.random.default_rng(1000 + seed)))


def run(config: Config, seed: int) -> list[Record]:
    """Take the first step at every depth, then follow the traces, with this seed."""
    records: list[Record] = []
    for cell in grid(wiring=[*config.wirings], depth=[*config.depths]):
        found = first_step(config.task, **cell, seed=seed, learning_rate=config.small_rate)
        shortened = {name: short(value, 5) for name, value in found.items()}
        records.append({"part": "first step", **cell, **shortened})
    for trace in config.traces:
        records.append({"part": "trace", **trace, **follow(config, **trace, seed=seed)})
    return records


def exponents(saved: Saved, wiring: str, key: str) -> np.ndarray:
    """The power of depth with which "gradient", "top" or "change" grows, one per seed."""
    depths = saved.config["depths"]
    values = [saved.values(key, part="first step", wiring=wiring, depth=n) for n in depths]
    return np.polyfit(np.log(depths), np.log(np.stack(values)), 1)[0]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """The exponent of the first update's size, by wiring."""
    return {wiring: exponents(saved, wiring, "change") for wiring in saved.config["wirings"]}
