"""What the worlds with Transformers share: how a model is built, trained and measured."""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from normtutor import layers
from normtutor.models import TransformerLM, make_norm
from normtutor.probes import largest_curvature
from normtutor.training import History, evaluation_mode, start, train
from normtutor.wiring import WIRINGS, NormFactory, apply_norm

POINTS = 8  # at which the test loss is measured
SHARE = 64  # test sequences that pass at once

#: What a cell may say about the model and how it is trained, with the usual values.
SETTINGS: dict[str, Any] = {
    "norm": "layer",
    "wiring": "pre",
    "depth": 6,
    "width": 64,
    "heads": 4,
    "qk_norm": "none",
    "tied": False,
    "final_norm": None,  # or whether there is one; "shared": one scale for all tokens
    "embedding_scale": 1.0,
    "learned_scale": False,  # of the embeddings
    "alpha": 0.5,  # where dynamic tanh starts
    "power_warmup": 0,  # share of the steps in which PowerNorm uses its own batch
    "mask": True,  # whether norms are told what is padding
    "steps": 1000,
    "batch_size": 32,
    "warmup": 0.1,  # share of the steps
    "clip": 1.0,
    "decay": 0.1,  # on matrices
    "beta2": 0.98,
    "optimizer": "adamw",  # or "sgd", "moments first", "both moments first"; see `optimizer_of`
    "rearranged": False,  # whether it is tested in other arrangements, at half and full length
    "early": False,  # whether curvature and the size of the first updates are recorded
    "then": "",  # what happens to the trained model, which is then trained on; see `changed`
    "first_rate": 8e-3,  # of the training before, if there is a second one
}
MOMENTS = 100  # batches that "moments first" sees before it steps
REARRANGED = 4096  # tokens on which arrangements are tested
EARLY = 64  # steps of which the size is recorded
LATER = 4  # the second training has a fourth of the steps


class Batch(NamedTuple):
    """Inputs and targets, (B, L) each; real tokens; and those whose target counts."""

    inputs: Tensor
    targets: Tensor
    real: Tensor
    counted: Tensor


def norm_of(cell: Mapping[str, Any]) -> NormFactory:
    """From a cell to a function that makes its norms."""
    norm = cell["norm"]

    def make(features: int) -> nn.Module:
        if norm == "tanh":
            return layers.DynamicTanh(features, alpha_init_value=cell["alpha"])
        if norm == "power":
            warm = round(cell["power_warmup"] * cell["steps"])
            return layers.PowerNorm(features, warmup_steps=warm)
        return make_norm(norm, features)

    return make


class SharedNorm(nn.Module):
    """RMSNorm with one statistic for all tokens of a batch: it keeps which of them are longer."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x / x.square().mean().sqrt() + self.bias


def model_of(cell: Mapping[str, Any], vocabulary: int, max_length: int) -> TransformerLM:
    """An untrained model."""
    model = TransformerLM(
        vocabulary,
        width=cell["width"],
        depth=cell["depth"],
        heads=cell["heads"],
        max_length=max_length,
        norm=norm_of(cell),
        wiring=WIRINGS["pre" if cell["depth"] == 0 else cell["wiring"]],
        dropout=0.0,
        mask_norms=cell["mask"],
        qk_norm=cell["qk_norm"],
        tied=cell["tied"],
        final_norm=None if isinstance(cell["final_norm"], str) else cell["final_norm"],
        embedding_scale=cell["embedding_scale"],
    )
    if cell["final_norm"] == "shared":
        model.final_norm = SharedNorm(cell["width"])
    if cell["learned_scale"]:
        del model.embedding_scale
        scale = nn.Parameter(torch.tensor(cell["embedding_scale"]))
        model.register_parameter("embedding_scale", scale)
    return model


def parameter_groups(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Matrices decay; gains, biases and other vectors do not."""
    every = list(model.parameters())
    return [
        {"params": [p for p in every if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in every if p.ndim <= 1], "weight_decay": 0.0},
    ]


def loss_of(model: TransformerLM, batch: Batch) -> Tensor:
    """Mean cross entropy of the targets that count, in nats."""
    hidden = model.hidden(batch.inputs, batch.real)[batch.counted]
    return F.cross_entropy(model.scores(hidden), batch.targets[batch.counted])


def run(
    cell: Mapping[str, Any],
    rate: float,
    seed: int,
    *,
    vocabulary: int,
    batches: Callable[[np.random.Generator], Iterator[Batch]],
    test: Batch,
) -> dict[str, Any]:
    """Train one model; record its test loss at eight points, and what goes on inside.

    With ``then`` the model is trained at ``first_rate``, changed, and trained on at ``rate``, which
    is what is recorded.
    """
    rng = start(seed)
    model = model_of(cell, vocabulary, test.inputs.shape[1])
    stream = batches(rng)
    found: dict[str, Any] = {}
    steps = cell["steps"]
    if cell["then"]:
        model.load_state_dict(trained(cell, seed, vocabulary, batches, test))
        found["trained"] = score(model, test)
        stream, steps = batches(start(seed, order_seed=seed + 1000)), steps // LATER
        stream = changed(model, cell, stream, steps)
    found["before"] = inside(model, test)
    changes: list[float] = []
    if cell["early"]:
        found["before"]["curvature"] = curvature(model, test)
        stream = _watched(model, stream, test, changes)

    points = itertools.count(1)
    otherwise: list[dict[str, Any]] = []

    def evaluate(model: nn.Module) -> dict[str, Any]:
        if next(points) in (POINTS // 2, POINTS) and cell["rearranged"]:
            otherwise.append(rearranged(model, test))
        return {"loss": score(model, test)} | _modes(model, test) | inside(model, test, brief=True)

    history = fit(model, cell, rate, stream, steps, evaluate)
    found["diverged"] = history.diverged
    found["training"] = averages(history.loss, steps)
    found["gradient"] = averages(history.gradient_norm, steps)
    found |= columns(history.evaluations)
    if not history.diverged:
        found["after"] = inside(model, test)
    if otherwise:
        found |= {key: [at[key] for at in otherwise] for key in otherwise[0]}
    if cell["early"]:
        found["changes"] = changes
    return found


def fit(
    model: nn.Module,
    cell: Mapping[str, Any],
    rate: float,
    stream: Iterator[Batch],
    steps: int,
    evaluate: Callable[[nn.Module], dict[str, Any]] | None = None,
) -> History:
    """Train a model as its cell says, with AdamW, warm-up, a cosine and clipping."""
    return train(
        model,
        stream,
        loss_of,
        steps=steps,
        learning_rate=rate,
        warmup=round(cell["warmup"] * steps),
        clip=cell["clip"],
        optimizer=optimizer_of(cell, rate, model, stream),
        parameters=parameter_groups(model, cell["decay"]),
        betas=(0.9, cell["beta2"]),
        evaluate=evaluate,
        evaluate_every=steps / POINTS,
    )


def optimizer_of(
    cell: Mapping[str, Any], rate: float, model: nn.Module, stream: Iterator[Batch]
) -> str | Callable[[Any], torch.optim.Optimizer]:
    """The optimizer of a cell, as :func:`normtutor.training.train` takes it.

    "moments first" is AdamW whose average squares have seen :data:`MOMENTS` batches before the
    first step, as in the control of Liu et al. (2019): they are not uncertain any more. Its average
    gradients start at zero and are taken for old, so that its first ten steps are short; in "both
    moments first" they have seen these batches, too.
    """
    name, betas = cell["optimizer"], (0.9, cell["beta2"])
    if name in ("adamw", "sgd"):
        return str(name)
    if name not in ("moments first", "both moments first"):
        raise ValueError(f"there is no optimizer {name!r}.")

    def prepared(groups: Any) -> torch.optim.Optimizer:
        update = torch.optim.AdamW(groups, lr=rate, betas=betas)
        parameters = [p for group in update.param_groups for p in group["params"]]
        squares = [torch.zeros_like(p) for p in parameters]
        means = [torch.zeros_like(p) for p in parameters]
        for _ in range(MOMENTS):
            gradients = torch.autograd.grad(loss_of(model, next(stream)), parameters)  # type: ignore[arg-type]
            for square, mean, gradient in zip(squares, means, gradients, strict=True):
                square.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
                if name == "both moments first":
                    mean.mul_(betas[0]).add_(gradient, alpha=1 - betas[0])
        for p, square, mean in zip(parameters, squares, means, strict=True):
            update.state[p] = {
                "step": torch.tensor(float(MOMENTS)),
                "exp_avg": mean,
                "exp_avg_sq": square,
            }
        return update

    return prepared


# --- a second training ----------------------------------------------------------------------------

_TRAINED: dict[str, dict[str, Tensor]] = {}


def trained(
    cell: Mapping[str, Any],
    seed: int,
    vocabulary: int,
    batches: Callable[[np.random.Generator], Iterator[Batch]],
    test: Batch,
) -> dict[str, Tensor]:
    """The state after the first training, which arms that differ in the second share."""
    first = {key: value for key, value in cell.items() if key != "then"}
    key = json.dumps([first, seed, vocabulary], sort_keys=True)
    if key not in _TRAINED:
        rng = start(seed)
        model = model_of(cell, vocabulary, test.inputs.shape[1])
        fit(model, cell, cell["first_rate"], batches(rng), cell["steps"])
        _TRAINED[key] = {name: value.clone() for name, value in model.state_dict().items()}
    return _TRAINED[key]


class FixedNorm(nn.Module):
    """LayerNorm whose standard deviation is a constant: it stays linear in the centred token."""

    def __init__(self, norm: nn.LayerNorm, deviation: float) -> None:
        super().__init__()
        self.weight, self.bias, self.deviation = norm.weight, norm.bias, deviation

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x - x.mean(-1, keepdim=True)) / self.deviation + self.bias


def changed(
    model: TransformerLM, cell: Mapping[str, Any], stream: Iterator[Batch], steps: int
) -> Iterator[Batch]:
    """Change a trained model as ``then`` says, and pass its batches on.

    "keep": not at all. "rms", "batch": that norm in LayerNorm's place, with its γ and,
    where there is one, its β. "fix": each LayerNorm divides by the constant that its input's
    standard deviation is on average, all at once; "fix one by one": from the first to the last,
    over the first half of the steps.
    """
    places = [
        (module, name, child)
        for module in model.modules()
        for name, child in module.named_children()
        if isinstance(child, nn.LayerNorm)
    ]
    then = cell["then"]
    if then in ("keep", "fix one by one"):
        return _fixing(model, stream, places if then != "keep" else [], steps)
    if then == "fix":
        batch = next(stream)
        deviations = _deviations(model, batch, [norm for _, _, norm in places])
        for (module, name, norm), deviation in zip(places, deviations, strict=True):
            setattr(module, name, FixedNorm(norm, deviation))
        return stream
    for module, name, norm in places:
        own = norm_of({**cell, "norm": then})(norm.normalized_shape[0])
        kept = {k: v for k, v in norm.state_dict().items() if k in own.state_dict()}
        own.load_state_dict(own.state_dict() | kept)
        setattr(module, name, own)
    return stream


def _fixing(
    model: TransformerLM, stream: Iterator[Batch], places: list[Any], steps: int
) -> Iterator[Batch]:
    every = max(1, steps // 2 // max(1, len(places)))
    for step, batch in enumerate(stream):
        if step % every == 0 and step // every < len(places):
            module, name, norm = places[step // every]
            (deviation,) = _deviations(model, batch, [norm])
            setattr(module, name, FixedNorm(norm, deviation))
        yield batch


def _deviations(model: TransformerLM, batch: Batch, norms: list[nn.LayerNorm]) -> list[float]:
    """The mean standard deviation of what each norm receives."""
    found: dict[nn.Module, float] = {}

    def watch(norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        found[norm] = inputs[0][batch.real].std(-1, correction=0).mean().item()

    hooks = [norm.register_forward_pre_hook(watch) for norm in norms]
    with evaluation_mode(model):
        model.hidden(batch.inputs, batch.real)
    for hook in hooks:
        hook.remove()
    return [found[norm] for norm in norms]


# --- what is measured -----------------------------------------------------------------------------


def columns(evaluations: list[dict[str, float]]) -> dict[str, list[float | None]]:
    """What was measured, point by point; None after a run that diverged."""
    keys = [key for key in (evaluations or [{"loss": 0.0}])[0] if key != "step"]
    missing = [None] * (POINTS - len(evaluations))
    return {key: [point[key] for point in evaluations] + missing for key in keys}


def averages(values: list[float], steps: int) -> list[float | None]:
    """The mean of each eighth of a run; None where it did not get there."""
    ends = [at * steps // POINTS for at in range(POINTS + 1)]
    parts = [values[start:end] for start, end in itertools.pairwise(ends)]
    return [float(np.mean(part)) if part else None for part in parts]


def _parts(batch: Batch) -> Iterator[Batch]:
    for first in range(0, len(batch.inputs), SHARE):
        yield Batch(*(part[first : first + SHARE] for part in batch))


def score(model: nn.Module, test: Batch, *, batch_statistics: bool = False) -> float:
    """Mean test loss over the targets that count."""
    with evaluation_mode(model, batch_statistics=batch_statistics):
        counts = [int(part.counted.sum()) for part in _parts(test)]
        losses = [loss_of(model, part).item() for part in _parts(test)]  # type: ignore[arg-type]
    return float(np.average(losses, weights=counts))


def _modes(model: nn.Module, test: Batch) -> dict[str, float]:
    """The test loss with the statistics of the batch, where evaluation would use an average."""
    if not any(True for _ in model.buffers()):
        return {}
    return {"batch_loss": score(model, test, batch_statistics=True)}


def inside(model: nn.Module, test: Batch, *, brief: bool = False) -> dict[str, Any]:
    """What a few test sequences look like inside.

    ``alike``: mean cosine between the last hidden states of two tokens; ``logit``: the largest
    attention logit; and, unless ``brief``, ``stream``: root mean square after the embedding and
    after each layer; ``gradients``: of each layer's last matrix, its norm.
    """
    assert isinstance(model, TransformerLM)
    batch = Batch(*(part[:16] for part in test))
    largest: list[float] = []

    def watch(attention: Any, inputs: tuple[Tensor, ...]) -> None:
        query, key, _ = attention.split(inputs[0])
        logits = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        largest.append(logits.abs().max().item())

    hooks = [
        layer.attention.register_forward_pre_hook(watch)  # type: ignore[union-attr]
        for layer in model.layers
    ]
    mask = batch.real if model.mask_norms else None
    with evaluation_mode(model):
        x = model.embed(batch.inputs)
        stream = [x.square().mean().sqrt().item()]
        for layer in model.layers:
            x = layer(x, mask)
            stream.append(x[batch.real].square().mean().sqrt().item())
        states = F.normalize(model.hidden(batch.inputs, batch.real)[batch.real][:256], dim=-1)
        cosines = states @ states.T
        count = len(states)
        alike = ((cosines.sum() - count) / (count * (count - 1))).item()
    for hook in hooks:
        hook.remove()
    found: dict[str, Any] = {"alike": alike, "logit": max(largest, default=0.0)}
    if not brief:
        found["stream"] = stream
        found["gradients"] = gradients(model, batch)
    return found


def gradients(model: TransformerLM, batch: Batch) -> list[float]:
    """The norm of the gradient of each layer's last matrix, first to last."""
    last = [layer.feed_forward[2].weight for layer in model.layers]  # type: ignore[index, union-attr]
    if not last:
        return []
    with torch.enable_grad():
        return [g.norm().item() for g in torch.autograd.grad(loss_of(model, batch), last)]


# --- layers arranged otherwise --------------------------------------------------------------------


def arranged(
    model: TransformerLM, batch: Batch, groups: Sequence[Sequence[int]], how: str = "sum"
) -> Tensor:
    """The last hidden states with each group of layers side by side, (B, L) tokens -> (B, L, H).

    Each layer of a group reads what enters the group, and adds what it would add to that: the
    "sum". In Post-LN each layer ends in a norm, and the sum of several does not. So there are
    "normalized", the sum through the norm that ends the group's last layer, and "mean", the mean of
    what the layers put out. A layer that is in no group is left out.
    """
    mask = batch.real if model.mask_norms else None
    x = model.embed(batch.inputs)
    for group in groups:
        added = [model.layers[at](x, mask) - x for at in group]
        total = torch.stack(added).sum(0) / (len(group) if how == "mean" else 1)
        x = x + total
        norm = model.layers[group[-1]].feed_forward_step.norm_stream  # type: ignore[union-attr]
        if how == "normalized" and len(group) > 1 and norm is not None:
            x = apply_norm(norm, x, mask)  # type: ignore[arg-type]
    return apply_norm(model.final_norm, x, mask)


def arrangements(depth: int) -> dict[str, list[list[int]]]:
    """The arrangements that are tested: of all layers behind the first third, and behind the half.

    >>> arrangements(6)["in pairs"]
    [[0], [1], [2, 3], [4, 5]]
    """
    found = {"in series": [[at] for at in range(depth)]}
    third, half = depth // 3, depth // 2
    head = found["in series"][:third]
    found["in pairs"] = [*head, *([at, at + 1] for at in range(third, depth - 1, 2))]
    found["side by side"] = [*head, [*range(third, depth)]]
    found["removed"] = head
    found["half side by side"] = [*found["in series"][:half], [*range(half, depth)]]
    found["half removed"] = found["in series"][:half]
    return found


def rearranged(model: nn.Module, test: Batch) -> dict[str, Any]:
    """The test loss in each arrangement, and without each single layer in turn.

    Of the three ways to set layers side by side the best one counts; "each way" has all.
    """
    assert isinstance(model, TransformerLM)
    depth = len(model.layers)
    batch = Batch(*(part[: REARRANGED // test.inputs.shape[1]] for part in test))

    def loss(groups: Sequence[Sequence[int]], how: str = "sum") -> float:
        hidden = arranged(model, batch, groups, how)[batch.counted]
        return F.cross_entropy(model.scores(hidden), batch.targets[batch.counted]).item()

    found: dict[str, Any] = {}
    with evaluation_mode(model):
        for name, groups in arrangements(depth).items():
            several = any(len(group) > 1 for group in groups)
            ways = ["sum", "normalized", "mean"] if several else ["sum"]
            losses = [loss(groups, how) for how in ways]
            found[name] = min(losses)
            if several:
                found[f"{name}, each way"] = losses
        found["without one"] = [
            loss([[at] for at in range(depth) if at != gone]) for gone in range(depth)
        ]
    return found


# --- how training begins --------------------------------------------------------------------------


def curvature(model: TransformerLM, test: Batch) -> float:
    """The largest eigenvalue of the loss's Hessian on a few test sequences."""
    batch = Batch(*(part[:32] for part in test))
    # The fused attention has no second gradient.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        return largest_curvature(model, lambda _: loss_of(model, batch)).value


def _watched(
    model: nn.Module, stream: Iterator[Batch], test: Batch, changes: list[float]
) -> Iterator[Batch]:
    """Pass batches on, and note how far each of the first steps moves the last hidden states.

    What is noted is the length of the change over the length of the states before it.
    """
    assert isinstance(model, TransformerLM)
    batch = Batch(*(part[:32] for part in test))
    before: Tensor | None = None
    for one in stream:
        if len(changes) < EARLY:
            with evaluation_mode(model):
                hidden = model.hidden(batch.inputs, batch.real)
            if before is not None and (moved := (hidden - before).norm() / before.norm()):
                changes.append(moved.item())  # batches before the first step move nothing
            before = hidden
        yield one
