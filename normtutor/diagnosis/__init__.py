"""Why does a model compute something different in evaluation than in training?

Every cause is judged by an experiment on a copy of the model: take the cause away, and see how far
the outputs move. The unit is the same for all models and losses: the root mean square of the
change, divided by the spread of the outputs over the examples.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from normtutor.diagnosis.averages import (
    dropout_before,
    moving_though_frozen,
    shared_layers,
    wrong_averages,
)
from normtutor.diagnosis.batches import (
    composed_differently,
    dead_network,
    features_elsewhere,
    no_statistics,
    small_batches,
    small_last_batch,
    two_domains,
)
from normtutor.diagnosis.bench import (
    Batch,
    Bench,
    Forward,
    Loss,
    State,
    left_over,
    outputs_of,
    pooled_batches,
    take,
)
from normtutor.diagnosis.report import CAUSES, Diagnosis, Finding

__all__ = ["CAUSES", "Diagnosis", "Finding", "diagnose"]


def diagnose(
    model: nn.Module,
    train_loader: Iterable[Any],
    eval_loader: Iterable[Any],
    *,
    forward: Forward | None = None,
    loss: Loss | None = None,
    max_batches: int = 64,
    device: Any = None,
) -> Diagnosis:
    """Say which cause makes training and evaluation of ``model`` disagree.

    Pass the model in the state in which your training loop uses it: after ``model.train()`` and
    after any freezing. The model is not changed: all runs are made on a copy in float32.

    Parameters
    ----------
    model : torch.nn.Module
        With the norms of torch.nn or of :mod:`normtutor.layers`.
    train_loader, eval_loader : iterable
        Of batches x, or of tuples or lists (x, target, ...), x a tensor with the examples on its
        first axis. Not a generator that runs out: each is iterated over once.
    forward : callable, optional
        ``forward(model, x)`` returns the outputs, (B, ...). By default ``model(x)``, its
        ``logits`` or its first entry.
    loss : callable, optional
        ``loss(outputs, target)``. By default cross entropy for whole-numbered targets, and mean
        squared error for others.
    max_batches : int
        How many batches of each loader are used.
    device : torch.device, optional
        Where to run; by default where the model is.

    Returns
    -------
    Diagnosis
        ``causes`` names them; printed, it says what shows each and what to do.

    Raises
    ------
    ValueError
        If a loader has no batch.
    TypeError
        If a batch does not begin with a tensor of floating-point numbers or of token numbers.

    Examples
    --------
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    >>> data = TensorDataset(5 + torch.randn(640, 4), torch.zeros(640, dtype=torch.long))
    >>> loader = DataLoader(data, batch_size=32)
    >>> for x, _ in list(loader)[:3]:
    ...     _ = model(x)
    >>> diagnose(model, loader, loader).causes
    ['not converged']
    """
    devices = sorted({p.device.index for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        torch.manual_seed(0)
        train, more = take(train_loader, max_batches, "train_loader")
        held_out, _ = take(eval_loader, max_batches, "eval_loader")
        bench = Bench(model, train, forward or outputs_of, device)
        result = _examine(bench, model, train_loader, held_out, loss)
    if more and left_over(train_loader) is None:
        result.notes.append(
            f"of train_loader only the first {max_batches} batches were looked at; a small last "
            "batch after them is not seen"
        )
    return result


def _examine(
    bench: Bench,
    model: nn.Module,
    train_loader: Iterable[Any],
    held_out: list[Batch],
    loss: Loss | None,
) -> Diagnosis:
    result = Diagnosis(findings=list(dead_network(bench)))
    if result.findings:
        return result
    if not bench.all_norms:
        others = sorted(
            {type(m).__name__ for m in model.modules() if isinstance(m, _DropoutNd) and m.p}
        )
        result.notes.append(
            "no BatchNorm and no PowerNorm: the model's norms do the same in both modes"
            + (f"; {', '.join(others)} does not" if others else "")
        )
        return result
    result.findings += [*features_elsewhere(bench, result.notes), *no_statistics(bench, held_out)]
    if bench.norms:
        result.findings += _with_statistics(bench, model, train_loader, held_out, loss, result)
    result.findings.sort(key=lambda finding: -finding.effect)
    return result


def _with_statistics(
    bench: Bench,
    model: nn.Module,
    train_loader: Iterable[Any],
    held_out: list[Batch],
    loss: Loss | None,
    result: Diagnosis,
) -> Iterator[Finding]:
    size = max(len(x) for x in bench.train)
    same_shape = len({x.shape[1:] for x in bench.train}) == 1
    if not same_shape:
        result.notes.append("batches of several shapes were not shuffled")
    shuffled = pooled_batches(bench.train, size)
    as_is, fresh = bench.state(), bench.recomputed(bench.train)
    drops = any(isinstance(m, _DropoutNd) and m.p > 0 for m in bench.model.modules())
    still = bench.recomputed(bench.train, dropout=False) if drops else fresh
    pooled = bench.recomputed(shuffled, dropout=False) if same_shape else still
    result.losses = _losses(bench, held_out, fresh, loss)

    findings = [*shared_layers(bench, still)]
    shared = {name for finding in findings for name in finding.where}
    findings += [
        *wrong_averages(bench, model, as_is, fresh, shared, result),
        *moving_though_frozen(bench, model),
        *small_last_batch(bench, train_loader, still),
        *dropout_before(bench, fresh, still),
        *two_domains(bench, held_out, shuffled),
    ]
    composed = list(composed_differently(bench, shuffled, still, pooled))
    if not composed and not shared:
        composed = list(small_batches(bench, shuffled, pooled, size))
    findings += composed
    strongest: dict[str, Finding] = {}
    for finding in sorted(findings, key=lambda f: f.effect):
        strongest[finding.cause] = finding
    if strongest.keys() & {"small last batch", "frozen incorrectly", "small batches"}:
        strongest.pop("other statistics", None)  # these say why the averages are off
    yield from strongest.values()
    if not model.training:
        result.notes.append(
            "the model is in evaluation mode, so it cannot be seen what is frozen in training"
        )


def _losses(
    bench: Bench, held_out: list[Batch], fresh: State, loss: Loss | None
) -> dict[str, float]:
    pairs = [(x, t) for x, t in zip(bench.train, bench.targets, strict=True) if t is not None]
    others = [(bench.cast(b.x), b.target) for b in held_out if b.target is not None]
    if not pairs or not others:
        return {}

    def mean(batches: list[tuple[Tensor, Tensor]], batch_statistics: bool = False) -> float:
        function = loss or _default_loss
        total = count = 0.0
        with bench.unchanged():
            for norm in bench.all_norms.values():
                norm.train(batch_statistics)
            for x, target in batches:
                y = bench.forward(bench.model, x)
                total += float(function(y, target.to(y.device))) * len(x)
                count += len(x)
            bench.model.eval()
        return total / count

    try:
        losses = {
            "training data, statistics of the batch": mean(pairs, True),
            "training data, running statistics": mean(pairs),
        }
        held = mean(others)
        with bench.unchanged():
            bench.load(fresh)
            losses["training data, statistics recomputed"] = mean(pairs)
            losses["evaluation data, running statistics"] = held
            losses["evaluation data, statistics recomputed"] = mean(others)
    except (RuntimeError, ValueError, TypeError, IndexError):
        if loss is not None:
            raise
        return {}
    return losses


def _default_loss(outputs: Tensor, target: Tensor) -> Tensor:
    if target.is_floating_point():
        return nn.functional.mse_loss(outputs, target)
    if outputs.ndim > 2 and outputs.shape[:-1] == target.shape:  # tokens: the classes come last
        outputs, target = outputs.flatten(0, -2), target.flatten()
    return nn.functional.cross_entropy(outputs, target)
