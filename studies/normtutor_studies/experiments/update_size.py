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

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from normtutor.models import TransformerLM
from normtutor.training import language_model_loss, warmup_cosine
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.wired_sorting import (
    Task,
    batch_of,
    gradient_norms,
    model_of,
    short,
    stream_of,
    test_batch,
)

CHAPTER = "07_pre_ln_and_post_ln"
FIGURE = "fig-wiring-trace"
FINDING = (
    "in the Post-LN run that fails, all tokens become alike and stay so, and the lowest gradient "
    "vanishes"
)
XLABEL = "exponent of depth in the size of the first update"
SEEDS = tuple(range(10, 15))


@dataclass(frozen=True)
class Trace:
    """One model that is followed for its first steps."""

    wiring: str
    warmup: int
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    wirings: tuple[str, ...] = ("post", "pre", "post-small", "deepnorm", "peri")
    depths: tuple[int, ...] = (4, 8, 16, 32)
    small_rate: float = 1e-6
    traces: tuple[Trace, ...] = (
        Trace("post", 0, 1e-3),
        Trace("post", 0, 4e-3),
        Trace("post", 60, 4e-3),
        Trace("post-small", 0, 4e-3),
        Trace("pre", 0, 4e-3),
        Trace("pre", 0, 16e-3),
    )
    trace_depth: int = 12
    trace_steps: int = 40
    trace_every: int = 2
    schedule_steps: int = 200  # the schedule is that of a whole run in warmup_map
    task: Task = field(default_factory=Task)


CONFIG = Config()


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


def follow(config: Config, trace: Trace, seed: int, *, steps: int | None = None) -> dict[str, Any]:
    """Train one model for its first steps; every list has one entry a look, the first at step 0."""
    task = config.task
    model = model_of(task, trace.wiring, config.trace_depth, seed)
    probe = batch_of(task, 32, np.random.default_rng(1000 + seed))
    stream = stream_of(task, np.random.default_rng(seed))
    with torch.no_grad():
        at_start = model.hidden(probe.inputs)
    optimizer = adam(model, trace.learning_rate)
    found: dict[str, list[Any]] = {
        name: [] for name in ("step", "loss", "bottom", "top", "change", "likeness")
    }
    steps = config.trace_steps if steps is None else steps
    for step in range(steps + 1):
        if step % config.trace_every == 0:
            with torch.no_grad():
                moved = (model.hidden(probe.inputs) - at_start).norm() / at_start.norm()
                loss = language_model_loss(model, probe).item()
            gradients = gradient_norms(model, probe)
            values = (step, loss, gradients[0], gradients[-1], moved.item())
            for name, value in zip(found, (*values, likeness(model, probe)), strict=True):
                found[name].append(short(value))
        factor = warmup_cosine(step, steps=config.schedule_steps, warmup=trace.warmup)
        for group in optimizer.param_groups:
            group["lr"] = trace.learning_rate * factor
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


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Take the first step at every depth, then follow the traces, with this seed."""
    records: list[dict[str, Any]] = []
    for wiring in config.wirings:
        for depth in config.depths:
            found = first_step(config.task, wiring, depth, seed, learning_rate=config.small_rate)
            records.append(
                {
                    "part": "first step",
                    "wiring": wiring,
                    "depth": depth,
                    **{name: short(value) for name, value in found.items()},
                }
            )
    for trace in config.traces:
        records.append(
            {
                "part": "trace",
                "wiring": trace.wiring,
                "warmup": trace.warmup,
                "learning_rate": trace.learning_rate,
                **follow(config, trace, seed),
            }
        )
    return records


def exponents(saved: Saved, wiring: str, key: str) -> np.ndarray:
    """The power of depth with which "gradient", "top" or "change" grows, one per seed."""
    depths = saved.config["depths"]
    values = [saved.values(key, part="first step", wiring=wiring, depth=n) for n in depths]
    return np.polyfit(np.log(depths), np.log(np.stack(values)), 1)[0]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """The exponent of the first update's size, by wiring."""
    return {wiring: exponents(saved, wiring, "change") for wiring in saved.config["wirings"]}
