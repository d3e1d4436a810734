"""One short training loop, and the few things that make two runs of it equal.

A run is described by two seeds: one draws the initial weights and the dropout, the other the order
of the data. :func:`start` sets both and returns the generator for the order.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor.data import TokenBatch
from normtutor.models import TransformerLM

Loss = Callable[[Any, Any], Tensor]  # loss(model, batch): the mean loss of the batch


def start(seed: int, *, order_seed: int | None = None) -> np.random.Generator:
    """Seed torch with ``seed``; return a generator for the data order (default: the same seed).

    torch gets one thread. Small tensors gain nothing from two, and the sums of a run would depend
    on how many there are. On a GPU an operation without a deterministic form is a warning.
    """
    torch.set_num_threads(1)
    on_cpu = torch.get_default_device().type == "cpu"
    torch.use_deterministic_algorithms(True, warn_only=not on_cpu)
    torch.manual_seed(seed)
    return np.random.default_rng(seed if order_seed is None else order_seed)


def warmup_cosine(step: int, *, steps: int, warmup: int) -> float:
    """Factor on the learning rate at ``step`` (from 0): a linear rise, then half a cosine to 0."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


# --- losses: a model and a batch in, a mean over the batch out ------------------------------------


def token_losses(model: TransformerLM, batch: TokenBatch) -> Tensor:
    """Cross entropy of every real token's successor, in nats, shape (number of real tokens,)."""
    # Scores are the costliest step, and padding needs none.
    hidden = model.hidden(batch.inputs, batch.mask)[batch.mask]
    return F.cross_entropy(model.scores(hidden), batch.targets[batch.mask], reduction="none")


def language_model_loss(model: TransformerLM, batch: TokenBatch) -> Tensor:
    """Mean cross entropy per real token, in nats."""
    return token_losses(model, batch).mean()


def classification_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean cross entropy per image, in nats."""
    images, labels = batch
    return F.cross_entropy(model(images), labels)


# --- evaluation -----------------------------------------------------------------------------------


@contextmanager
def evaluation_mode(model: nn.Module, *, batch_statistics: bool = False) -> Iterator[None]:
    """Put ``model`` in evaluation mode; restore its modes and buffers afterwards.

    With ``batch_statistics=True`` the norms that keep running statistics use those of the batch
    instead, as in training. Dropout stays off and the running statistics come out unchanged, so
    that the two modes differ in the source of the statistics and in nothing else.
    """
    modes = {module: module.training for module in model.modules()}
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    model.eval()
    if batch_statistics:
        for module in model.modules():
            if any(True for _ in module.buffers(recurse=False)):
                module.train()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])


def mean_token_loss(
    model: TransformerLM, batches: Iterable[TokenBatch], *, batch_statistics: bool = False
) -> float:
    """Cross entropy per real token over all ``batches``: each token weighs the same."""
    total, count = 0.0, 0
    with evaluation_mode(model, batch_statistics=batch_statistics):
        for batch in batches:
            losses = token_losses(model, batch)
            total += float(losses.sum())
            count += len(losses)
    return total / count


def image_scores(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], *, batch_statistics: bool = False
) -> dict[str, float]:
    """Mean cross entropy ("loss") and share of wrong answers ("error") over all images."""
    loss, wrong, count = 0.0, 0, 0
    with evaluation_mode(model, batch_statistics=batch_statistics):
        for images, labels in batches:
            scores = model(images)
            loss += float(F.cross_entropy(scores, labels, reduction="sum"))
            wrong += int((scores.argmax(dim=1) != labels).sum())
            count += len(labels)
    return {"loss": loss / count, "error": wrong / count}


# --- the loop -------------------------------------------------------------------------------------


@dataclass
class History:
    """What a run leaves behind, besides the trained model."""

    loss: list[float] = field(default_factory=list)  # of each step's batch, in train mode
    learning_rate: list[float] = field(default_factory=list)  # of each step
    evaluations: list[dict[str, float]] = field(default_factory=list)  # with the key "step"
    diverged: bool = False  # the loss stopped being finite, and the run ended there
    gradient_norm: list[float] = field(default_factory=list)  # before clipping, if there is any


def train(
    model: nn.Module,
    batches: Iterable[Any],
    loss: Loss,
    *,
    steps: int,
    learning_rate: float,
    warmup: int = 0,
    optimizer: str | Callable[[Any], torch.optim.Optimizer] = "adamw",
    weight_decay: float = 0.0,
    evaluate: Callable[[nn.Module], dict[str, float]] | None = None,
    evaluate_every: float | None = None,
    clip: float | None = None,
    parameters: Iterable[Any] | None = None,
    betas: tuple[float, float] = (0.9, 0.98),
) -> History:
    """Train ``model`` in place and return its :class:`History`.

    Parameters
    ----------
    batches : iterable
        At least ``steps`` batches, in whatever form ``loss`` takes.
    loss : function
        ``loss(model, batch)`` returns the mean loss of the batch.
    optimizer : "adamw", "sgd" or function
        AdamW; SGD with momentum 0.9; or a function from the parameters to an optimizer.
    evaluate : function, optional
        Called after the last step and after every ``evaluate_every`` steps, which need no whole
        number: ``steps / 8`` is eight times. Its numbers go into ``History.evaluations``.
    clip : float, optional
        The longest gradient, over all parameters together; a longer one is shortened to it.
        ``History.gradient_norm`` then holds its length before, step by step.
    parameters : iterable, optional
        What is trained, as an optimizer of torch takes it: tensors, or groups of them with a
        ``weight_decay`` of their own. By default all of the model's.
    betas : pair of float
        Of AdamW: how much of the average gradient, and of the average square, is kept.
    """
    chosen = model.parameters() if parameters is None else parameters
    update = _make_optimizer(chosen, optimizer, learning_rate, weight_decay, betas)
    history = History()
    stream = iter(batches)
    for step in range(steps):
        model.train()
        rate = learning_rate * warmup_cosine(step, steps=steps, warmup=warmup)
        for group in update.param_groups:
            group["lr"] = rate
        batch_loss = loss(model, next(stream))
        history.loss.append(batch_loss.item())
        history.learning_rate.append(rate)
        if not math.isfinite(history.loss[-1]):
            history.diverged = True
            break
        update.zero_grad()
        batch_loss.backward()
        if clip is not None:
            norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
            history.gradient_norm.append(norm.item())
        update.step()
        if evaluate is not None and _due(step, steps, evaluate_every):
            history.evaluations.append({"step": step + 1, **evaluate(model)})
    return history


def _make_optimizer(
    parameters: Iterable[Any],
    optimizer: str | Callable[[Any], torch.optim.Optimizer],
    learning_rate: float,
    weight_decay: float,
    betas: tuple[float, float] = (0.9, 0.98),  # as Transformers use
) -> torch.optim.Optimizer:
    if callable(optimizer):
        return optimizer(parameters)
    if optimizer == "adamw":
        return torch.optim.AdamW(
            parameters, lr=learning_rate, betas=betas, weight_decay=weight_decay
        )
    if optimizer == "sgd":
        return torch.optim.SGD(
            parameters, lr=learning_rate, momentum=0.9, weight_decay=weight_decay
        )
    raise ValueError(f'optimizer must be "adamw" or "sgd"; got {optimizer!r}.')


def _due(step: int, steps: int, every: float | None) -> bool:
    return step + 1 == steps or (every is not None and (step + 1) // every > step // every)
