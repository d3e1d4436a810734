"""The failing Post-LN run of update_size with gradients of other sizes, and without Adam's memory.

A constant factor on the gradient changes nothing under Adam. But in the run that fails the gradient
shrinks from step to step, and Adam divides by its memory of the larger ones. Is that why tokens
that have become alike stay so?

Control: model, seeds, sequences and rate are those of the failing run; only what Adam sees
differs. A rule could rescue by shorter first steps, so their length is recorded: with length 1 they
are as long or longer, without memory longer, and under every rule the tokens are alike at step 10.
A rule could help any model, so Pre-LN is trained by both that rescue; it learns with and without.
Where the gradient falls that far Adam's ε could matter; a tiny one changes nothing. The rules could
free a model, or keep it from settling: from step 41 on the scaling frees one seed of five, so most
of what it does comes early. That it is the memory of squares, and not that of gradients, is not
shown: both are taken away at once, and steps become longer with it. Not checked: other rates and
depths, which layers must move, and what makes the tokens alike in the first place.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from normtutor.training import masked_language_model_loss, warmup_cosine
from normtutor_studies.experiments import update_size
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.update_size import adam, fingerprint, likeness
from normtutor_studies.experiments.wired_sorting import (
    Task,
    batch_of,
    gradient_norms,
    model_of,
    score,
    short,
    stream_of,
    test_batch,
)

__all__ = ["CONFIG", "SEEDS", "fingerprint", "rows", "run"]

CHAPTER = update_size.CHAPTER
FIGURE = "none: a control of update_size, which chapter 7 cites"
FINDING = (
    "at the rate 0.004 twelve layers of Post-LN stay at chance with gradients a hundredth as "
    "large; their tokens become alike but part again within 200 steps without Adam's memory, and "
    "on four of five seeds with each gradient rescaled to length 1 in every step, on one if that "
    "begins after 40"
)
XLABEL = "test loss after 200 steps (nats/digit)"
SEEDS = update_size.SEEDS
NO_EPSILON = 1e-20  # Adam's ε where the gradient may fall below the usual 1e-8


@dataclass(frozen=True)
class Condition:
    """A wiring and what is done to its gradients before Adam sees them."""

    wiring: str
    rule: str


@dataclass(frozen=True)
class Config:
    """All settings of this experiment.

    Rules: "as is"; "no epsilon", the same with a tiny ε; "length 1", the gradient of each matrix
    and vector is scaled to length 1 in each step; "joint length 1", all gradients together are;
    "no memory", both averages of Adam are over the last gradient alone, so every weight with a
    gradient moves by the rate; "hundredth", all gradients are divided by 100; "first hundredth",
    those of the first steps are; "late length 1", as length 1 after the early steps, as is in them.
    """

    conditions: tuple[Condition, ...] = (
        Condition("post", "as is"),
        Condition("post", "length 1"),
        Condition("post", "no memory"),
        Condition("post", "late length 1"),
        Condition("post", "hundredth"),
        Condition("post", "first hundredth"),
        Condition("post", "joint length 1"),
        Condition("post", "no epsilon"),
        Condition("pre", "as is"),
        Condition("pre", "length 1"),
        Condition("pre", "no memory"),
    )
    rate: float = 4e-3
    depth: int = 12
    first_steps: int = 10
    early_steps: int = 40
    looks: tuple[int, ...] = (1, 2, 5, 10, 20, 40, 100, 200)
    schedule_steps: int = 200
    task: Task = field(default_factory=Task)


CONFIG = Config()
REDUCED = {"depth": 2, "looks": (1, 3), "first_steps": 2, "early_steps": 2}


def optimizer_of(model: torch.nn.Module, rule: str, rate: float) -> torch.optim.Optimizer:
    """Adam as in :mod:`normtutor_studies.experiments.update_size`, for two rules with other settings."""
    optimizer = adam(model, rate)  # type: ignore[arg-type]
    for group in optimizer.param_groups:
        if rule == "no memory":
            group["betas"] = (0.0, 0.0)
        if rule in ("no memory", "no epsilon"):
            group["eps"] = NO_EPSILON
    return optimizer


def scale(gradients: Sequence[Tensor], rule: str, *, first: bool, early: bool) -> None:
    """Change the gradients in place, by a rule; ``first`` and ``early`` say which step it is."""
    if rule == "length 1" or (rule == "late length 1" and not early):
        for gradient in gradients:
            gradient /= gradient.norm() + 1e-30
    elif rule == "joint length 1":
        whole = torch.stack([gradient.norm() for gradient in gradients]).norm() + 1e-30
        for gradient in gradients:
            gradient /= whole
    elif rule == "hundredth" or (rule == "first hundredth" and first):
        for gradient in gradients:
            gradient /= 100


def follow(config: Config, condition: Condition, seed: int) -> dict[str, Any]:
    """Train one model by a rule; every list has one entry a look, after that many steps.

    "loss" is that of 512 new sequences, "bottom" and "top" the gradient's norm before it is scaled,
    over that at the start, at the lowest and at the highest layer's last matrix. "step" and "bottom
    step" say how long the last step was: the root mean square over all weights, or over those of
    the lowest layer's last matrix, over the learning rate at that step.
    """
    task = config.task
    model = model_of(task, condition.wiring, config.depth, seed)
    probe = batch_of(task, 32, np.random.default_rng(1000 + seed))
    test = test_batch(task, seed)
    stream = stream_of(task, np.random.default_rng(seed))
    start = gradient_norms(model, probe)
    optimizer = optimizer_of(model, condition.rule, config.rate)
    lowest = model.layers[0].feed_forward[2].weight  # type: ignore[index,union-attr]
    found: dict[str, list[Any]] = {
        name: [] for name in ("loss", "likeness", "bottom", "top", "step", "bottom step")
    }
    for step in range(1, max(config.looks) + 1):
        rate = config.rate * warmup_cosine(step - 1, steps=config.schedule_steps, warmup=0)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        masked_language_model_loss(model, next(stream)).backward()
        trained = [p for p in model.parameters() if p.grad is not None]
        scale(
            [p.grad for p in trained if p.grad is not None],
            condition.rule,
            first=step <= config.first_steps,
            early=step <= config.early_steps,
        )
        looking = step in config.looks
        before = [p.detach().clone() for p in trained] if looking else []
        lowest_before = lowest.detach().clone()
        optimizer.step()
        if not looking:
            continue
        moved = torch.cat([(p.detach() - b).ravel() for p, b in zip(trained, before, strict=True)])
        gradients = gradient_norms(model, probe)
        values = (
            score(model, test)["loss"],
            likeness(model, probe),
            gradients[0] / start[0],
            gradients[-1] / start[-1],
            moved.square().mean().sqrt().item() / rate,
            (lowest.detach() - lowest_before).square().mean().sqrt().item() / rate,
        )
        for name, value in zip(found, values, strict=True):
            found[name].append(short(value))
    return found


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Follow every condition with this seed."""
    return [
        {**dataclasses.asdict(condition), **follow(config, condition, seed)}
        for condition in config.conditions
    ]


def at(saved: Saved, key: str, steps: int, wiring: str, rule: str) -> np.ndarray:
    """A quantity after so many steps, one value per seed."""
    look = list(saved.config["looks"]).index(steps)
    return saved.values(key, wiring=wiring, rule=rule)[:, look]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss after all steps."""
    last = max(saved.config["looks"])
    return {
        f"{c['wiring']}, {c['rule']}": at(saved, "loss", last, c["wiring"], c["rule"])
        for c in saved.config["conditions"]
    }
