"""One short training loop, and the few things that make two runs of it equal.

A run is described by two seeds: one draws the initial weights and the dropout, the other the order
of the data. :func:`start` sets both and returns the generator for the order. :func:`train` trains
one model; :func:`train_together` trains several that are built alike: faster, with the same result.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from normtutor import layers
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


def masked_language_model_loss(model: TransformerLM, batch: TokenBatch) -> Tensor:
    """The same mean with padding weighted by 0 instead of left out, as :func:`train_together`
    needs.

    It spends time on the scores of padding; without padding it costs what the other does.
    """
    hidden = model.hidden(batch.inputs, batch.mask).flatten(0, 1)  # (B·L, H)
    losses = F.cross_entropy(model.scores(hidden), batch.targets.flatten(), reduction="none")
    return losses.where(batch.mask.flatten(), 0.0).sum() / batch.mask.sum()


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
    optimizer: str = "adamw",
    weight_decay: float = 0.0,
    evaluate: Callable[[nn.Module], dict[str, float]] | None = None,
    evaluate_every: int | None = None,
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
    optimizer : "adamw" or "sgd"
        AdamW; or SGD with momentum 0.9.
    evaluate : function, optional
        Called after the last step and after every ``evaluate_every`` steps; its numbers go into
        ``History.evaluations``.
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
    optimizer: str,
    learning_rate: float,
    weight_decay: float,
    betas: tuple[float, float] = (0.9, 0.98),  # as Transformers use
) -> torch.optim.Optimizer:
    if optimizer == "adamw":
        return torch.optim.AdamW(
            parameters, lr=learning_rate, betas=betas, weight_decay=weight_decay
        )
    if optimizer == "sgd":
        return torch.optim.SGD(
            parameters, lr=learning_rate, momentum=0.9, weight_decay=weight_decay
        )
    raise ValueError(f'optimizer must be "adamw" or "sgd"; got {optimizer!r}.')


def _due(step: int, steps: int, every: int | None) -> bool:
    return step + 1 == steps or (every is not None and (step + 1) % every == 0)


# --- several models at once -----------------------------------------------------------------------


class _Losses(nn.Module):
    """A model and its loss as one module, so that the loss may call any method of the model."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch: Any) -> Tensor:
        return self.loss(self.model, batch)


def train_together(
    models: Sequence[nn.Module],
    batches: Sequence[Iterable[Any]],
    loss: Loss,
    *,
    steps: int,
    learning_rate: float | Sequence[float],
    warmup: int = 0,
    optimizer: str = "adamw",
    weight_decay: float = 0.0,
    evaluate: Callable[[nn.Module], dict[str, float]] | None = None,
    evaluate_every: int | None = None,
    clip: float | None = None,
) -> list[History]:
    """Train several models of one build at once, in place; return a :class:`History` for each.

    Every model ends as :func:`train` would have left it, except for rounding: ``torch.func``
    stacks the parameters of the models along a new first axis, ``vmap`` runs the loss over that
    axis, and one optimizer steps the stack, each entry by itself. Small models gain most, because
    the time of a small model goes into starting operations, and there are now as many as for one.

    Parameters
    ----------
    models : sequence of torch.nn.Module
        Equal except for their weights and buffers; usually one per seed.
    batches : sequence of iterables
        One stream of batches per model. The batches of one step must have equal shapes: images,
        :func:`normtutor.data.chunk_batches`, or sentences padded to a fixed length.
    loss : function
        As for :func:`train`, but without shapes that depend on values: for language models,
        :func:`masked_language_model_loss`.
    learning_rate : float, or a sequence with one per model
    steps, warmup, optimizer, weight_decay, evaluate, evaluate_every, clip
        As for :func:`train`.

    Notes
    -----
    A model whose loss is no longer finite is not changed any more, as with :func:`train`; the
    others continue. Running statistics of BatchNorm move as they should. PowerNorm is refused in
    training: a buffer of it moves in the backward pass, where vmap cannot follow. Dropout draws
    other masks for each model, but not those that :func:`train` would draw: such runs agree only as
    two seeds do. Hooks would see the values of all models at once.
    """
    rates = _rates(learning_rate, len(models))
    _check_alike(models, batches)
    parameters, buffers = torch.func.stack_module_state(list(models))
    update = _make_optimizer(parameters.values(), optimizer, max(rates), weight_decay)
    template = _Losses(models[0], loss)

    def losses_of(parameters: Any, buffers: Any, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        state = {f"model.{name}": value for name, value in (parameters | buffers).items()}
        value = torch.func.functional_call(template, state, (batch,))
        return value, {name: state[f"model.{name}"] for name in buffers}

    together = torch.func.vmap(losses_of, randomness="different")
    histories = [History() for _ in models]
    streams = [iter(stream) for stream in batches]

    def write_back(index: int) -> None:
        model, stack = models[index], parameters | buffers
        with torch.no_grad():
            for name, own in (*model.named_parameters(), *model.named_buffers()):
                own.copy_(stack[name][index])

    for step in range(steps):
        for model in models:
            model.train()
        factor = warmup_cosine(step, steps=steps, warmup=warmup)
        batch = _stack([next(stream) for stream in streams])
        # vmap knows attention as single operations, not yet as torch's fused kernel.
        with sdpa_kernel(SDPBackend.MATH), _vmap_explained():
            losses, buffers = together(parameters, buffers, batch)
        for index, value in enumerate(losses.tolist()):
            history = histories[index]
            if not history.diverged:
                history.loss.append(value)
                history.learning_rate.append(rates[index] * factor)
                history.diverged = not math.isfinite(value)
                if history.diverged:
                    write_back(index)
        running = [index for index, history in enumerate(histories) if not history.diverged]
        if not running:
            break
        update.zero_grad()
        losses.sum().backward()
        if clip is not None:
            lengths = _clip(parameters, clip)
            for index in running:
                histories[index].gradient_norm.append(lengths[index])
        _step(update, parameters, rates, factor)
        if _due(step, steps, evaluate_every):
            for index in running:
                write_back(index)
                if evaluate is not None:
                    numbers = evaluate(models[index])
                    histories[index].evaluations.append({"step": step + 1, **numbers})
    return histories


@contextmanager
def _vmap_explained() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if "vmap" not in str(error):
            raise
        raise ValueError(
            "these models or this loss cannot run under torch.func.vmap, which needs shapes and "
            "decisions that do not depend on values. For language models, use "
            "masked_language_model_loss; else train the models one by one."
        ) from error


@torch.no_grad()
def _clip(parameters: dict[str, Tensor], longest: float) -> list[float]:
    """Shorten the gradient of each model of a stack; return the lengths before."""
    gradients = [p.grad for p in parameters.values() if p.grad is not None]
    squares = torch.stack([g.reshape(len(g), -1).square().sum(dim=1) for g in gradients])
    lengths = squares.sum(dim=0).sqrt()
    # As torch.nn.utils.clip_grad_norm_ does it, with its 1e-6.
    factor = (longest / (lengths + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.reshape(-1, *[1] * (gradient.ndim - 1)))
    return lengths.tolist()


def _step(
    update: torch.optim.Optimizer,
    parameters: dict[str, Tensor],
    rates: Sequence[float],
    factor: float,
) -> None:
    """One step of the stack, in which model i has the learning rate ``rates[i] * factor``."""
    for group in update.param_groups:
        group["lr"] = max(rates) * factor
    if min(rates) == max(rates):
        update.step()
        return
    # An optimizer has one rate, but the steps of both are proportional to it.
    shares = torch.tensor([rate / max(rates) for rate in rates], dtype=torch.float64)
    before = [parameter.detach().clone() for parameter in parameters.values()]
    update.step()
    with torch.no_grad():
        for old, new in zip(before, parameters.values(), strict=True):
            share = shares.to(new).reshape(-1, *[1] * (new.ndim - 1))
            new.copy_(old + share * (new - old))


def _stack(batches: Sequence[Any]) -> Any:
    """Batches, tensors or (named) tuples of them, as one whose tensors have a first axis more."""
    if isinstance(batches[0], Tensor):
        shapes = {tuple(batch.shape) for batch in batches}
        if len(shapes) > 1:
            raise ValueError(
                "the batches of one step must have equal shapes for all models; got "
                f"{sorted(shapes)}. Use chunk_batches, pad sentences to a fixed length, or train "
                "the models one by one."
            )
        return torch.stack(list(batches))
    parts = [_stack(part) for part in zip(*batches, strict=True)]
    make = getattr(type(batches[0]), "_make", tuple)
    return make(parts)


def _check_alike(models: Sequence[nn.Module], batches: Sequence[Any]) -> None:
    if not models or len(models) != len(batches):
        raise ValueError(
            "there must be at least one model, and one stream of batches for each; got "
            f"{len(models)} models and {len(batches)} streams."
        )
    for model in models:
        if repr(model) != repr(models[0]):
            raise ValueError(
                "all models must be built alike, because one pass of the code runs them all; "
                f"got\n{models[0]}\nand\n{model}\nTrain the groups that are alike together."
            )
    for name, module in models[0].named_modules():
        if isinstance(module, layers.PowerNorm):
            raise ValueError(
                f"PowerNorm ({name!r}) cannot train under vmap: its buffer ν moves in the backward "
                "pass. Train such models one by one with train."
            )


def _rates(learning_rate: float | Sequence[float], count: int) -> list[float]:
    rates = list(learning_rate) if isinstance(learning_rate, Sequence) else [learning_rate] * count
    if len(rates) != count:
        raise ValueError(
            f"learning_rate must be one number or one for each of the {count} models; "
            f"got {len(rates)} of them."
        )
    return rates
