"""Look into a model while it trains: what flows through it, and the loss around it.

:func:`record_statistics` attaches hooks to any model, ours or not, and removes them at the end. It
records mean, variance and quantiles of what enters or leaves a module, on the training batches as
they come or on one fixed batch.

Five functions examine the loss around a model's present parameters and leave the model unchanged:
:func:`gradients`, :func:`gradient_shift`, :func:`look_along`, :func:`largest_curvature` and
:func:`hessian_trace`. Their ``loss`` is a function of the model alone, ``lambda model:
cross_entropy(model(images), labels)``, so it fixes the batch too.

Everything recorded is copied to NumPy and keeps no graph alive.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

LossOfModel = Callable[[nn.Module], Tensor]
Vectors = dict[str, Tensor]  # one tensor a parameter, by its name

# Hooks keep quiet while one of the functions below runs the model for its own ends.
_looking = 0


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Run or even train the model inside, and restore it at the end.

    Modes, parameters, their ``grad``, buffers and torch's random state are restored, and the hooks
    of this module record nothing inside. An optimizer's own state is not the
    model's, so make a new optimizer to train inside.
    """
    global _looking
    modes = [(module, module.training) for module in model.modules()]
    values = [(p, p.data, p.grad) for p in model.parameters()]
    buffers = [
        (module, name, buffer)
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
    ]
    devices = sorted({p.device.index for p, _, _ in values if p.device.type == "cuda"})
    _looking += 1
    try:
        with torch.random.fork_rng(devices=devices):
            # The model works on copies. Writing back into the originals would count as a change
            # to autograd, and spoil a backward pass that is under way.
            for p, data, _ in values:
                p.data, p.grad = data.clone(), None
            for module, name, buffer in buffers:
                setattr(module, name, buffer.clone())
            yield
    finally:
        _looking -= 1
        for p, data, grad in values:
            p.data, p.grad = data, grad
        for module, name, buffer in buffers:
            setattr(module, name, buffer)
        for module, mode in modes:
            module.training = mode


# --- what flows through ---------------------------------------------------------------------------


class Statistics(NamedTuple):
    """The statistics of one module, one row per recorded step."""

    steps: np.ndarray  # (rows,): how many training steps the module had seen before
    mean: np.ndarray  # (rows, features)
    variance: np.ndarray  # (rows, features), biased
    quantiles: np.ndarray  # (rows, levels, features)


class StatisticsRecord:
    """Fills while a model trains: ``record[name]`` gives the :class:`Statistics` so far."""

    def __init__(
        self, names: Sequence[str], quantiles: Sequence[float], measure: Callable[[], None]
    ) -> None:
        self.names = tuple(names)
        self.quantiles = tuple(quantiles)
        self._measure = measure
        self._rows: dict[str, list[tuple]] = {name: [] for name in names}

    def __getitem__(self, name: str) -> Statistics:
        if name not in self._rows:
            raise KeyError(f"{name!r} was not recorded; recorded are {', '.join(self.names)}.")
        rows = self._rows[name]
        if not rows:
            raise ValueError(
                f"nothing was recorded of {name!r}: the model made no step in training mode "
                "inside the with block."
            )
        return Statistics(*(np.array(column) for column in zip(*rows, strict=True)))

    def measure(self) -> None:
        """Record one more row from the fixed batch now, for instance after the last step."""
        self._measure()


@contextmanager
def record_statistics(
    model: nn.Module,
    modules: Sequence[str],
    *,
    of: str = "input",
    fixed: Callable[[nn.Module], Any] | None = None,
    every: int = 1,
    quantiles: Sequence[float] = (0.15, 0.5, 0.85),
    feature_axis: int = 1,
) -> Iterator[StatisticsRecord]:
    """Record statistics of modules, feature by feature, while the model trains.

    Parameters
    ----------
    modules : sequence of str
        Names as in ``model.named_modules()``, for example ``"linears.2"``.
    of : "input" or "output"
        The first tensor that enters the module, or the first that it returns.
    fixed : function, optional
        ``fixed(model)`` runs the model on a batch of your choice, always the same. Before a step
        the statistics are taken there, in the mode the model is in, and the model is restored.
        What changes from row to row is then due to the parameters. Without it each row comes
        from the batch of its step, and changes with the data too.
    every : int
        Record one in so many training steps. Calls in evaluation mode do not count.
    quantiles : sequence of float
    feature_axis : int
        1 for (B, H) and (B, C, H, W), −1 for (B, L, H). All other axes are pooled.

    Yields
    ------
    StatisticsRecord

    Raises
    ------
    ValueError
        If a module does not exist, or ``of`` or ``every`` is none of the above.

    Examples
    --------
    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> with record_statistics(model, ["1"]) as record:
    ...     _ = model(torch.zeros(4, 2)), model(torch.ones(4, 2))
    >>> record["1"].steps, record["1"].mean.shape
    (array([0, 1]), (2, 3))
    """
    if of not in ("input", "output"):
        raise ValueError(f'of must be "input" or "output"; got {of!r}.')
    chosen = _modules(model, modules)
    if every < 1:
        raise ValueError(f"every must be at least 1; got {every}.")
    seen = dict.fromkeys(chosen, 0)  # calls in training mode so far
    first = next(iter(chosen))
    measuring = False

    def keep(name: str, step: int, tensor: Tensor) -> None:
        row = _statistics(tensor.detach(), record.quantiles, feature_axis)
        record._rows[name].append((step, *row))

    def measure() -> None:
        nonlocal measuring
        if fixed is None:
            raise ValueError("measure() needs a fixed batch: pass fixed=lambda model: model(x).")
        measuring = True
        try:
            with undisturbed(model), torch.no_grad():
                fixed(model)
        finally:
            measuring = False

    record = StatisticsRecord(list(chosen), quantiles, measure)

    def before(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
            if measuring:
                if of == "input":
                    keep(name, seen[first], _first_tensor(name, (args, kwargs)))
            elif model.training and not _looking:
                due = seen[name] % every == 0
                if fixed is not None and name == first and due:
                    measure()
                elif fixed is None and of == "input" and due:
                    keep(name, seen[name], _first_tensor(name, (args, kwargs)))
                seen[name] += 1

        return hook

    def after(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple, output: Any) -> None:
            if of == "input":
                return
            if measuring:
                keep(name, seen[first], _first_tensor(name, output))
            elif fixed is None and model.training and not _looking:
                if (seen[name] - 1) % every == 0:
                    keep(name, seen[name] - 1, _first_tensor(name, output))

        return hook

    handles = []
    try:
        for name, module in chosen.items():
            handles.append(module.register_forward_pre_hook(before(name), with_kwargs=True))
            handles.append(module.register_forward_hook(after(name)))
        yield record
    finally:
        for handle in handles:
            handle.remove()
        # The record outlives the hooks; measuring without them would silently record nothing.
        record._measure = _closed


def _closed() -> None:
    raise ValueError("the probe is closed: call measure() inside the with block.")


def _modules(model: nn.Module, names: Sequence[str]) -> dict[str, nn.Module]:
    known = dict(model.named_modules())
    missing = [name for name in names if name not in known]
    if missing or not names or isinstance(names, str):
        raise ValueError(
            f"modules must be names of modules of the model; got {names!r}. "
            f"There are {', '.join(repr(name) for name in known)}."
        )
    return {name: known[name] for name in names}


def _first_tensor(name: str, values: Any) -> Tensor:
    """The first tensor in what a module got or gave: a tensor, or tensors in tuples and dicts."""
    if isinstance(values, Tensor):
        return values
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, list | tuple):
        for value in values:
            if isinstance(value, Tensor | dict | list | tuple):
                try:
                    return _first_tensor(name, value)
                except TypeError:
                    continue
    raise TypeError(f"no tensor enters or leaves the module {name!r}: there is nothing to record.")


def _statistics(x: Tensor, levels: Sequence[float], feature_axis: int) -> tuple[np.ndarray, ...]:
    flat = x.movedim(feature_axis, -1).flatten(0, -2).to(torch.float64)  # (n, features)
    variance, mean = torch.var_mean(flat, dim=0, correction=0)
    # NumPy's, because torch's quantile refuses more than 16 million values.
    quantiles = np.quantile(flat.cpu().numpy(), levels, axis=0)
    return mean.cpu().numpy(), variance.cpu().numpy(), quantiles


# --- around the place where the model stands ------------------------------------------------------


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def _gradients_here(model: nn.Module, loss: LossOfModel) -> tuple[float, Vectors]:
    parameters = _trained(model)
    value = loss(model)
    grads = torch.autograd.grad(value, list(parameters.values()), materialize_grads=True)
    return value.item(), dict(zip(parameters, grads, strict=True))


def gradients(model: nn.Module, loss: LossOfModel) -> Vectors:
    """Gradient of ``loss(model)`` with respect to each parameter; ``.grad`` does not change."""
    with undisturbed(model):
        return _gradients_here(model, loss)[1]


class Shift(NamedTuple):
    """How the gradient of some parameters changes when others have moved."""

    distance: float  # ‖G' − G‖
    relative: float  # ‖G' − G‖ / ‖G‖
    cosine: float  # of the angle between G and G'


def gradient_shift(
    model: nn.Module,
    loss: LossOfModel,
    moved: Mapping[str, Tensor],
    watched: Sequence[str],
    before: Vectors | None = None,
) -> Shift:
    """Compare the gradient of the watched parameters before and after others have moved.

    This is the internal covariate shift of :cite:t:`santurkar2018` when
    ``watched`` is a layer, ``moved`` holds the layers below it after their update, and ``loss``
    stays on the batch of that update.

    Parameters
    ----------
    moved : mapping of parameter name -> Tensor
        New values. The model keeps its own.
    watched : sequence of str
        Parameters whose gradient is compared, as one vector.
    before : dict, optional
        :func:`gradients` of the model as it is, if you have them already.
    """
    if before is None:
        before = gradients(model, loss)
    with undisturbed(model):
        parameters = _trained(model)
        for name, value in moved.items():
            parameters[name].data.copy_(value)
        after = _gradients_here(model, loss)[1]
    old, new = (
        torch.cat([grad[n].flatten() for n in watched]).double() for grad in (before, after)
    )
    distance = (new - old).norm().item()
    norms = old.norm().item(), new.norm().item()
    cosine = (old @ new).item() / (norms[0] * norms[1]) if min(norms) > 0 else float("nan")
    return Shift(distance, distance / norms[0] if norms[0] > 0 else float("nan"), cosine)


class Along(NamedTuple):
    """The loss and its gradient on a straight line from the model's parameters."""

    lengths: np.ndarray  # (points,): multiples of the gradient that were subtracted
    loss: np.ndarray  # (points,)
    gradient_change: np.ndarray  # (points,): ‖∇L there − ∇L here‖
    smoothness: np.ndarray  # (points,): that change divided by the distance


def look_along(
    model: nn.Module,
    loss: LossOfModel,
    lengths: Sequence[float],
    *,
    scales: Mapping[str, float] | None = None,
) -> Along:
    """Walk from the model's parameters θ to θ − length · gradient, and look at each stop.

    Parameters
    ----------
    lengths : sequence of float
        Learning rates.
    scales : mapping of parameter name -> float, optional
        Move the named parameters alone, and measure in units of their scales: a distance divided
        by the scale, a gradient multiplied by it. With the length ‖W‖ of each matrix as its scale
        this is the smoothness for *relative* changes: β‖W‖² for a single matrix. It stays the same
        when a matrix whose length does not matter, because a norm follows it, is multiplied by a
        number and its learning rate by the square of that number.

    Returns
    -------
    Along
        The largest entry of ``smoothness`` is the effective β-smoothness along the line.
    """
    with undisturbed(model):
        parameters = _trained(model)
        if scales is not None:
            _check_scales(scales, parameters)
            parameters = {name: p for name, p in parameters.items() if scales.get(name)}
        unit = {name: 1.0 if scales is None else scales[name] for name in parameters}
        here = _gradients_here(model, loss)[1]
        start = {name: p.detach().clone() for name, p in parameters.items()}
        step = _norm({name: here[name] / unit[name] for name in parameters})
        losses, changes, smoothness = [], [], []
        for length in lengths:
            for name, p in parameters.items():
                p.data.copy_(start[name] - length * here[name])
            value, there = _gradients_here(model, loss)
            change = _norm({n: unit[n] * (there[n] - here[n]) for n in parameters})
            losses.append(value)
            changes.append(change)
            smoothness.append(change / (abs(length) * step) if length and step else float("nan"))
    return Along(np.array(lengths), np.array(losses), np.array(changes), np.array(smoothness))


def _check_scales(scales: Mapping[str, float], trained: Mapping[str, Any]) -> None:
    if any(name not in trained for name in scales) or not any(scales.values()):
        raise ValueError(
            "scales needs names of trained parameters, one scale at least not 0; got "
            f"{dict(scales)!r}."
        )


def _norm(vectors: Vectors) -> float:
    return sum(float(v.double().square().sum()) for v in vectors.values()) ** 0.5


class Curvature(NamedTuple):
    """An eigenvalue of the Hessian, and how accurately it is known."""

    value: float
    residual: float  # ‖Hv − λv‖ for the unit vector v found: 0 for an exact eigenvector
    products: int  # products of the Hessian with a vector that it took


def largest_curvature(
    model: nn.Module,
    loss: LossOfModel,
    *,
    iterations: int = 100,
    tolerance: float = 1e-3,
    seed: int = 0,
    scales: Mapping[str, float] | None = None,
) -> Curvature:
    """Largest eigenvalue of the Hessian of the loss, by power iteration.

    A product of the Hessian H with a vector v is the gradient of ⟨∇L, v⟩, so H is never formed.
    The iteration finds the eigenvalue of largest absolute value. If that is negative, a second one
    on H shifted by it finds the largest eigenvalue.

    Parameters
    ----------
    iterations : int
        At most so many products in each of the two iterations.
    tolerance : float
        Stop when the residual ‖Hv − λv‖ falls below this share of ``|λ|``.
    seed : int
        Of the random vector at the start. The model's own random state is left alone.
    scales : mapping of parameter name -> float, optional
        The eigenvalue of SHS instead of H, where the diagonal matrix S holds each parameter's
        scale; 0 leaves a parameter out, and so does leaving out its name. With the length ‖W‖ of
        each matrix as its scale this is the curvature for *relative* changes of the matrices.
        Unlike that of H it stays the same when a matrix whose length does not matter, because a
        norm follows it, is multiplied by a number.
    """
    with undisturbed(model):
        trained = _trained(model)
        if scales is not None:
            _check_scales(scales, trained)
            trained = {name: p for name, p in trained.items() if scales.get(name)}
        parameters = list(trained.values())
        first = torch.autograd.grad(
            loss(model), parameters, create_graph=True, materialize_grads=True
        )
        flat = torch.cat([grad.flatten() for grad in first])
        generator = torch.Generator().manual_seed(seed)
        start = torch.randn(len(flat), generator=generator, dtype=torch.float64)
        start = start.to(flat.device, flat.dtype)
        stretch = torch.ones_like(flat)
        if scales is not None:
            stretch = torch.cat(
                [torch.full_like(p, scales[n]).flatten() for n, p in trained.items()]
            )
            stretch = stretch.detach()

        def product(v: Tensor) -> Tensor:
            parts = torch.autograd.grad(
                flat, parameters, stretch * v, retain_graph=True, materialize_grads=True
            )
            return stretch * torch.cat([part.flatten() for part in parts])

        curvature = _power_iteration(product, start, 0.0, iterations, tolerance)
        if curvature.value < 0:
            shift = curvature.value
            again = _power_iteration(product, start, shift, iterations, tolerance)
            curvature = again._replace(products=curvature.products + again.products)
        return curvature


def hessian_trace(
    model: nn.Module, loss: LossOfModel, *, samples: int = 10, seed: int = 0
) -> float:
    """Sum of the Hessian's eigenvalues, estimated with Hutchinson's random signs.

    For a vector v of random signs the mean of ⟨v, Hv⟩ is the trace; ``samples`` such vectors are
    averaged.
    """
    with undisturbed(model):
        parameters = list(_trained(model).values())
        first = torch.autograd.grad(
            loss(model), parameters, create_graph=True, materialize_grads=True
        )
        flat = torch.cat([grad.flatten() for grad in first])
        generator = torch.Generator().manual_seed(seed)
        total = 0.0
        for _ in range(samples):
            signs = torch.randint(0, 2, (len(flat),), generator=generator) * 2.0 - 1
            signs = signs.to(flat.device, flat.dtype)
            parts = torch.autograd.grad(
                flat, parameters, signs, retain_graph=True, materialize_grads=True
            )
            total += float(signs @ torch.cat([part.flatten() for part in parts]))
        return total / samples


def _power_iteration(
    product: Callable[[Tensor], Tensor],
    start: Tensor,
    shift: float,
    iterations: int,
    tolerance: float,
) -> Curvature:
    """Eigenvalue of H for which H − shift has the largest absolute value."""
    v = start / start.norm()
    value, residual, products = 0.0, float("inf"), 0
    for _ in range(iterations):
        image = product(v)
        products += 1
        value = float(v @ image)
        residual = float((image - value * v).norm())
        if residual <= tolerance * abs(value):
            break
        v = image - shift * v
        length = v.norm()
        if length == 0:  # the start lies in the kernel: the loss is flat
            break
        v = v / length
    return Curvature(value, residual, products)
