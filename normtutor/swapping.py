"""Replace a model's own norms with the layers of :mod:`normtutor.layers`, and undo it.

The norms of ``torch.nn`` are recognized by their class. All others, such as those of Hugging Face
and timm, are recognized by their behavior: the parameters and attributes of a module leave only a
few of our layers that it could be, and each of these is compared with a copy of the module, forward
and backward, on random numbers with random parameters. The one that agrees replaces the module; if
none does, the module is refused.
"""

import copy
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _LazyNormBase, _NormBase
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.utils import parametrizations

from normtutor import layers
from normtutor.layers.common import one_node
from normtutor.layers.weight import WeightNorm

__all__ = ["Change", "Swapped", "swap_norms"]

TORCHS: tuple[type[nn.Module], ...] = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, _NormBase)
# Where a module says its ε, and what it may be where it says none.
EPS_NAMES = ("eps", "variance_epsilon", "epsilon", "norm_eps")
EPS_VALUES = (1e-5, 1e-6, 1e-8, 1e-12, 1e-3)
SHAPE_NAMES = ("normalized_shape", "num_features", "num_channels", "hidden_size", "dim")
HOOKS = [name for name in vars(nn.Module()) if "hooks" in name]


class Change(NamedTuple):
    """One module of a model, by its name, before and after."""

    name: str
    before: nn.Module
    after: nn.Module


class Swapped:
    """What :func:`swap_norms` did. It prints as a report; :meth:`undo` puts the old norms back.

    In a ``with`` statement the model has our norms inside and its own afterwards.

    Attributes
    ----------
    changed : list of Change
        A module that the model uses under several names is listed once for each name.
    refused : dict
        The name of a module that looks like a norm and was left alone, and the reason.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.changed: list[Change] = []
        self.refused: dict[str, str] = {}
        self._fast_paths: list[tuple[nn.Module, str, Any]] = []

    def undo(self) -> None:
        """Put the model's own norms back, with the parameters and buffers as they are now.

        Where another norm was made of one, the old norm comes back as it was.
        """
        for name, _, after in self.changed:
            if self.model.get_submodule(name) is not after:
                raise ValueError(
                    f"{name} must still be the module that swap_norms put there; it is not. "
                    "Somebody else has replaced it: undo that first."
                )
        for name, before, after in self.changed:
            for kind in ("_parameters", "_buffers"):
                old, new = getattr(before, kind), getattr(after, kind)
                if {k: _shape(v) for k, v in old.items()} == {k: _shape(v) for k, v in new.items()}:
                    old.update(new)
            before.train(after.training)
            _put(self.model, name, before)
        for layer, condition, value in self._fast_paths:
            setattr(layer, condition, value)
        self.changed, self._fast_paths = [], []

    def __enter__(self) -> "Swapped":
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def __str__(self) -> str:
        kinds: dict[tuple[str, str], list[str]] = {}
        for name, before, after in self.changed:
            new = f"{type(after).__name__}({after.extra_repr()})"
            kinds.setdefault((_class_of(before), new), []).append(name)
        lines = [f"norms changed: {len(self.changed)}, refused: {len(self.refused)}"]
        for (old, new), names in kinds.items():
            shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            lines.append(f"  {len(names)} x {old} -> {new}: {shown}")
        lines += [f"  refused {name}: {reason}" for name, reason in self.refused.items()]
        return "\n".join(lines)

    __repr__ = __str__


def swap_norms(
    model: nn.Module,
    make: type[nn.Module] | Callable[[nn.Module], nn.Module] | None = None,
    *,
    only: type | tuple[type, ...] | Callable[[str, nn.Module], bool] | None = None,
    strict: bool = True,
) -> Swapped:
    """Replace the norms of ``model`` by those of :mod:`normtutor.layers`, in place.

    Our layers share the old ones' parameters and buffers, and keep hooks and training flag, so that
    an existing optimizer still works and the keys of the ``state_dict`` do not change. The outputs
    are the same up to rounding. With ``make`` you choose the layers, and their parameters are new:
    build the optimizer afterwards.

    Parameters
    ----------
    model : torch.nn.Module
        Of torch, transformers, timm or your own.
    make : class or callable, optional
        A class of :mod:`normtutor.layers` with a ``feature_axis``, such as ``layers.RMSNorm``: it
        is built with the number of features, the feature axis and the ε of each norm. Or a function
        that is called with our equivalent of each norm and returns the layer to use instead, for
        example ``lambda norm: layers.GroupNorm(8, norm.num_features)``. The new layer gets the old
        norm's training flag, device and dtype.
    only : class, tuple of classes, or callable, optional
        Which norms to look at: by the class of the model's own module, or ``only(name, module)``.
    strict : bool
        Raise ValueError, with nothing changed, if a module that looks like a norm is not
        understood. If False the module stays and is listed in the report.

    Returns
    -------
    Swapped
        What was changed and what refused, and ``undo()``.

    Raises
    ------
    ValueError
        If there is no norm to change, if the model itself is one, or as ``strict`` says.

    Notes
    -----
    Recognized by class: the norms of torch.nn and its weight_norm. By behavior: the RMSNorm
    of Llama, Mistral, Qwen, T5, OLMo 2 and Gemma, LayerNorm without parameters as in OLMo, the
    LayerNorm of nanoGPT, LayerNorm over the channels as in ConvNeXt, and timm's norms with an
    activation inside, which stays. ``torch.nn.TransformerEncoderLayer`` has a fast path in
    evaluation that calls no norm but computes torch's own; it is switched off in the layers whose
    norms change. Refused: SyncBatchNorm, frozen and lazy norms, and norms whose forward takes more
    than x, such as a mask or a gate, even if it may be left out.

    A norm of another kind that takes over γ and β computes another function, and a trained model
    loses by it. BatchNorm in the place of LayerNorm loses less with γ and β fitted: the standard
    deviation and the mean, per feature, of what LayerNorm put out on a few batches.

    Examples
    --------
    >>> model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    >>> print(swap_norms(model))
    norms changed: 1, refused: 0
      1 x torch.nn.LayerNorm -> LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True): 1
    >>> type(model[1])
    <class 'normtutor.layers.LayerNorm'>

    Another kind of norm, with γ and β as they begin:

    >>> swap_norms(model, layers.RMSNorm).changed[0].after
    RMSNorm((4,), eps=1e-05, elementwise_affine=True)

    PowerNorm in the place of BatchNorm, which takes over γ and β:

    >>> def power_norm(norm):
    ...     layer = layers.PowerNorm(norm.num_features, norm.eps, feature_axis=1)
    ...     layer.load_state_dict({"weight": norm.weight, "bias": norm.bias}, strict=False)
    ...     return layer
    >>> network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    >>> len(swap_norms(network, power_norm).changed)
    1
    >>> network(torch.randn(2, 3, 5, 5)).shape
    torch.Size([2, 8, 3, 3])
    """
    report = Swapped(model)
    replacements: dict[nn.Module, nn.Module] = {}
    proved: dict[Any, int] = {}
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if not _chosen(only, name, module) or not _looks_like_a_norm(module, make is not None):
            continue
        try:
            if not name:
                raise _Refusal(
                    "the model itself is a norm, which nothing holds in which it could be "
                    "replaced: build the layer of normtutor.layers instead"
                )
            if module not in replacements:
                ours = _equal(module, proved)
                replacements[module] = ours if make is None else _made(make, ours, module)
            report.changed.append(Change(name, module, replacements[module]))
        except _Refusal as refusal:
            report.refused[name] = str(refusal)
    if report.refused and (strict or not report.changed):
        raise ValueError(
            f"{len(report.refused)} modules look like norms but are not understood; nothing was "
            "changed. Pass strict=False to leave them as they are, or name with only= what is to "
            f"change.\n{report}"
        )
    if not report.changed:
        raise ValueError(
            f"found no norm to change in {_class_of(model)}"
            + (" among those that only= names." if only is not None else ".")
            + " A norm is a norm of torch.nn, or a module whose class has Norm in its name."
        )
    for name, _, after in report.changed:
        _put(model, name, after)
    _leave_fast_paths(model, report)
    return report


def _leave_fast_paths(model: nn.Module, report: Swapped) -> None:
    """Make torch's encoders call the new norms in evaluation, too, and give them no nested tensor.

    Each of the two attributes is a condition for one of the fast paths, and is used nowhere else
    in evaluation.
    """
    new = {change.after for change in report.changed}
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder):
            condition, inside = "use_nested_tensor", module.layers.modules()
        elif isinstance(module, nn.TransformerEncoderLayer):
            condition, inside = "activation_relu_or_gelu", module.modules()
        else:
            continue
        if not new.isdisjoint(inside):
            report._fast_paths.append((module, condition, getattr(module, condition)))
            setattr(module, condition, 0)


class _Refusal(Exception):
    """Why a module is left alone."""


def _shape(value: Tensor | None) -> Any:
    return None if value is None else value.shape


def _class_of(module: nn.Module) -> str:
    kind = type(module)
    home = "torch.nn" if kind.__module__.startswith("torch.nn.modules.") else kind.__module__
    return f"{home}.{kind.__qualname__}"


def _put(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, module)


def _chosen(only: Any, name: str, module: nn.Module) -> bool:
    if only is None:
        return True
    if isinstance(only, type | tuple):
        return isinstance(module, only)
    return bool(only(name, module))


def _is_ours(module: nn.Module) -> bool:
    return type(module).__module__.partition(".")[0] == "normtutor"


def _looks_like_a_norm(module: nn.Module, ours_too: bool) -> bool:
    """By class or by name; what merely holds norms is none."""
    if _is_ours(module):
        return ours_too and re.search("norm", type(module).__name__, re.I) is not None
    if isinstance(module, (*TORCHS, nn.LocalResponseNorm, parametrizations._WeightNorm)):
        return True
    return re.search("norm", type(module).__name__, re.I) is not None and not any(
        _looks_like_a_norm(child, True) or isinstance(child, nn.Linear | nn.Conv2d)
        for child in module.modules()
        if child is not module
    )


def _made(make: Callable[..., Any], ours: nn.Module, old: nn.Module) -> nn.Module:
    """What the caller makes of a norm, where and how the old one was."""
    new = _of_class(make, ours) if isinstance(make, type) else make(ours)
    if not isinstance(new, nn.Module):
        raise TypeError(f"make must return a torch.nn.Module; got {type(new).__name__}.")
    for tensor in [*old.parameters(), *old.buffers()]:
        if tensor.is_floating_point():
            new.to(device=tensor.device, dtype=tensor.dtype)
            break
    return new.train(old.training)


def _of_class(kind: type[nn.Module], ours: Any) -> nn.Module:
    """A layer of another kind for the same features, on the same axis, with the same ε."""
    settings = inspect.signature(kind).parameters
    features = next((getattr(ours, name) for name in SHAPE_NAMES if hasattr(ours, name)), None)
    several = isinstance(features, tuple) and len(features) > 1
    if (
        "feature_axis" not in settings
        or "num_groups" in settings
        or features is None
        or (several and "normalized_shape" not in settings)
    ):
        raise TypeError(
            f"{kind.__name__} cannot be built from a {type(ours).__name__} of {features} features "
            "alone. Pass a function that builds it, such as lambda norm: "
            "layers.GroupNorm(8, norm.num_features)."
        )
    if isinstance(features, tuple) and not several:
        (features,) = features
    options = {"feature_axis": getattr(ours, "feature_axis", -1)}
    if getattr(ours, "eps", None) is not None:
        options["eps"] = ours.eps
    return kind(features, **options)


def _equal(module: nn.Module, proved: dict[Any, int]) -> nn.Module:
    """Our layer that does the same as ``module`` and holds the same tensors.

    ``proved`` remembers which candidate was right for modules of the same class and settings.
    """
    if _is_ours(module):
        return module
    if "forward" in vars(module):
        raise _Refusal("its forward was replaced on the instance, as accelerate's hooks do")
    if isinstance(module, parametrizations._WeightNorm):
        return WeightNorm(module.dim).train(module.training)
    if isinstance(module, nn.SyncBatchNorm):
        raise _Refusal("its statistics are those of several processes, which ours do not exchange")
    if isinstance(module, _LazyNormBase):
        raise _Refusal("it is lazy and has no shape yet: run the model once first")
    if isinstance(module, nn.LocalResponseNorm):
        raise _Refusal("the package has no local response norm")
    names = {n for n, p in module.named_parameters()}
    if not names <= {"weight", "bias"}:
        raise _Refusal(
            f"its parameters are {', '.join(sorted(names))}; ours are called weight and bias, and "
            "the keys of the state dict are to stay"
        )
    candidates = list(_candidates(module))
    takes = list(inspect.signature(module.forward).parameters.values())
    if len(takes) != 1 or takes[0].kind in (takes[0].VAR_POSITIONAL, takes[0].VAR_KEYWORD):
        raise _Refusal(
            f"its forward takes ({', '.join(map(str, takes))}); only a forward of x alone is "
            "understood"
        )
    settings = {n: v for n, v in vars(module).items() if isinstance(v, int | float | str | tuple)}
    shapes = [(n, tuple(p.shape)) for n, p in module.named_parameters()]
    key = repr((type(module), settings, shapes, [type(c) for c in module.children()]))
    if type(module).__module__.startswith("torch.nn.modules."):
        proved[key] = 0
    if key not in proved:
        proved[key] = _agreeing(module, candidates)
    ours = candidates[proved[key]]
    _take_over(ours, module)
    return ours


def _agreeing(module: nn.Module, candidates: list[Any]) -> int:
    """Which candidate does what ``module`` does; of several the one that rounds as it does."""
    agree: dict[int, int] = {}
    errors: dict[tuple[int, ...], str] = {}
    for i, ours in enumerate(candidates):
        axes = {candidates[j].feature_axis for j, unequal in agree.items() if unequal == 0}
        if ours.feature_axis in axes:
            continue
        try:
            unequal = _compare(module, ours)
        except Exception as error:  # whatever the module raises on a plain call is a reason
            message = (str(error).splitlines() or [""])[0][:120]
            errors[_shapes(module, ours)[0]] = f"{type(error).__name__}: {message}"
            continue
        if unequal is not None:
            agree[i] = unequal
    if not agree:
        reason = "none of our layers computes the same"
        if len(errors) == len({_shapes(module, ours)[0] for ours in candidates}):
            tried = "; ".join(
                f"on a trial input of shape {x} it raises {e}" for x, e in errors.items()
            )
            reason = f"its forward cannot be compared with ours: {tried}"
        raise _Refusal(reason)
    if len({candidates[i].feature_axis for i in agree}) > 1:
        raise _Refusal("it has the features last or on axis 1, by the number of axes; ours do not")
    return min(agree, key=lambda i: agree[i])


def _take_over(new: nn.Module, old: nn.Module) -> None:
    """Give ``new`` the tensors, hooks, flag and further attributes of ``old``."""
    for kind in ("_parameters", "_buffers"):
        kept, tensors = getattr(new, kind), getattr(old, kind)
        for name in kept:
            kept[name] = tensors.get(name)
    if list(new.state_dict()) != list(old.state_dict()):
        raise _Refusal(f"its state dict has the keys {', '.join(old.state_dict()) or 'none'}")
    for name in HOOKS:
        if name in vars(old):
            setattr(new, name, getattr(old, name))
    for name, value in vars(old).items():
        if not hasattr(new, name):
            setattr(new, name, value)
    new.train(old.training)


def _candidates(module: nn.Module) -> Iterator[nn.Module]:
    """The layers of ours that ``module`` may be, without its tensors, the likeliest first."""
    weight: Any = getattr(module, "weight", None)
    bias: Any = getattr(module, "bias", None)
    affine = weight is not None
    with_bias = {"bias": bias is not None or not affine}
    activated = [name for name, _ in module.named_children()]
    if activated and not set(activated) <= {"drop", "act"}:
        raise _Refusal(f"it holds further modules: {', '.join(activated)}")

    def build(kind: type[nn.Module], *arguments: Any, **options: Any) -> nn.Module:
        if not activated:
            return kind(*arguments, **options, device="meta")
        new = _ACTIVATED[kind](*arguments, **options, device="meta")
        new.drop = getattr(module, "drop", nn.Identity())
        new.act = getattr(module, "act", nn.Identity())
        return new

    if isinstance(module, _NormBase):
        kind = layers.InstanceNorm if isinstance(module, _InstanceNorm) else layers.BatchNorm
        if isinstance(module, nn.InstanceNorm2d | nn.InstanceNorm3d):
            kind = InstanceNorm2d if isinstance(module, nn.InstanceNorm2d) else InstanceNorm3d
        momentum = module.momentum
        if momentum is not None and not 0 <= momentum <= 1:
            raise _Refusal(f"its momentum is {momentum}, outside [0, 1]")
        track = module.track_running_stats
        yield build(kind, module.num_features, module.eps, momentum, affine, track, **with_bias)
        return
    if isinstance(module, nn.GroupNorm):
        yield build(
            layers.GroupNorm,
            module.num_groups,
            module.num_channels,
            module.eps,
            affine,
            **with_bias,
        )
        return
    if "running_mean" in dict(module.named_buffers()):
        raise _Refusal("it has running statistics and is no BatchNorm of torch.nn, perhaps frozen")
    shape = next((getattr(module, n) for n in SHAPE_NAMES if hasattr(module, n)), None)
    if affine:
        shape = tuple(weight.shape)
    if shape is None:
        raise _Refusal("it has no weight and no normalized_shape, so its width is not known")
    if isinstance(shape, int):
        shape = (shape,)
    stated = [getattr(module, n) for n in EPS_NAMES if hasattr(module, n)]
    known = [e for e in stated if isinstance(e, float | int) and not isinstance(e, bool)]
    # torch's RMSNorm says None, and so may others.
    for eps in known[:1] or ((None,) if None in stated else EPS_VALUES):
        # One that is not torch's own may put the features anywhere.
        axes = (-1, 1) if len(shape) == 1 else (-1,)
        for axis in axes:
            if not isinstance(module, nn.RMSNorm) and eps is not None:
                yield build(
                    layers.LayerNorm, shape, eps, affine, bias is not None, feature_axis=axis
                )
            if bias is None and not isinstance(module, nn.LayerNorm):
                for offset in (False, True):
                    for cast in (False, True):
                        yield build(
                            layers.RMSNorm,
                            shape,
                            eps,
                            affine,
                            add_unit_offset=offset,
                            cast_before_weight=cast,
                            feature_axis=axis,
                        )


def _compare(module: nn.Module, ours: nn.Module) -> int | None:
    """Run copies of both; None if they differ, or how many bfloat16 numbers are not equal."""
    first, *others = _shapes(module, ours)
    # The small numbers tell how large ε is, the large ones whether something is cut off.
    trials = [
        (first, scale, dtype, training)
        for dtype in (torch.float32, torch.bfloat16)
        for training in (True, False)
        for scale in (1.5, 2e-3, 1e5)
    ]
    unequal = 0
    for trial in [*trials, *((shape, 1.5, torch.float32, True) for shape in others)]:
        dtype = trial[2]
        try:
            expected = _run(module, *trial)
        except Exception:
            if trial[0] == first:
                raise
            continue  # what it does not take, it cannot do otherwise
        results = _run(ours, *trial)
        if list(expected) != list(results):
            return None
        tolerance = 1e-4 if dtype == torch.float32 else 4 * torch.finfo(dtype).eps
        for name, value in expected.items():
            if value.dtype != results[name].dtype or value.shape != results[name].shape:
                return None
            value, other = value.double(), results[name].double()
            limit = tolerance * float(value.abs().max()) + 1e-12
            if not float((value - other).abs().max()) <= limit:
                return None
            if dtype == torch.bfloat16 and name == "y":
                unequal += int((value != other).sum())
    return unequal


def _shapes(module: nn.Module, ours: Any) -> list[tuple[int, ...]]:
    """Shapes of input on which the two are compared; the first must be taken by both."""
    if isinstance(ours, layers.BatchNorm | layers.InstanceNorm | layers.GroupNorm):
        width: Any = getattr(ours, "num_features", None) or ours.num_channels
        positions: tuple[int, ...] = (5, 4)
        for dimensions, kinds in enumerate(
            ((nn.BatchNorm1d, nn.InstanceNorm1d), (), (nn.BatchNorm3d, nn.InstanceNorm3d)), 1
        ):
            if isinstance(module, kinds):
                positions = (5, 4, 3)[:dimensions]
        return [(3, width, *positions)]
    shape = tuple(ours.normalized_shape)
    if ours.feature_axis == 1:
        return [(3, *shape, 5, 4), (3, *shape, 7), (1, *shape, 9, 8), (2, *shape, 2, 3, 4)]
    return [(3, 5, *shape), (4, *shape), (1, 64, *shape), (2, 3, 7, *shape)]


def _run(
    module: nn.Module, shape: tuple[int, ...], scale: float, dtype: torch.dtype, training: bool
) -> dict[str, Tensor]:
    """Output, gradients and buffers of a copy with random parameters, on the CPU."""
    generator = torch.Generator().manual_seed(0)

    def randn(shape: Any) -> Tensor:
        return torch.randn(tuple(shape), generator=generator, device="cpu")

    twin = copy.copy(module)
    twin._modules = {n: nn.Identity() for n in module._modules}
    twin._parameters = {
        n: None if p is None else nn.Parameter((0.5 + 0.3 * randn(p.shape)).to(dtype))
        for n, p in module._parameters.items()
    }
    # In float32 as a half-precision model would keep them, and such that nothing is negative.
    twin._buffers = {
        n: None
        if b is None
        else (1 + randn(b.shape).abs()).to(dtype if b.is_floating_point() else b.dtype)
        for n, b in module._buffers.items()
    }
    for name in HOOKS:
        if name in vars(twin):
            setattr(twin, name, type(getattr(module, name))())
    twin.training = training
    x = (scale * (randn(shape) + 0.5)).to(dtype).requires_grad_()
    with torch.enable_grad(), torch.device("cpu"), torch.random.fork_rng(devices=[]):
        y = twin(x)
        leaves = {"x": x, **dict(twin.named_parameters())}
        grads = torch.autograd.grad((y * randn(y.shape).to(dtype)).sum(), list(leaves.values()))
        results = {"y": y} | {f"grad of {n}": g for n, g in zip(leaves, grads, strict=True)}
        results |= dict(twin.named_buffers())
        if module._modules:  # without a gradient, which jumps where an activation has a kink
            twin._modules = module._modules
            torch.manual_seed(0)  # for a dropout
            results["y, activated"] = twin(x.detach().clone())
    return {n: v.detach() for n, v in results.items()}


class InstanceNorm2d(layers.InstanceNorm):
    """InstanceNorm that takes (C, H, W) as one example, as torch's InstanceNorm2d does."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if x.ndim != 3:
            return super().forward(x, mask)
        return super().forward(x[None], None if mask is None else mask[None])[0]


class InstanceNorm3d(layers.InstanceNorm):
    """InstanceNorm that takes (C, D, H, W) as one example, as torch's InstanceNorm3d does."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if x.ndim != 4:
            return super().forward(x, mask)
        return super().forward(x[None], None if mask is None else mask[None])[0]


class _Activated(nn.Module):
    """A norm with a dropout and an activation behind it, as one module, as timm has it."""

    drop: nn.Module
    act: nn.Module

    @one_node
    def forward(self, x: Tensor, *mask: Tensor) -> Tensor:
        return self.act(self.drop(super().forward(x, *mask)))


class ActivatedBatchNorm(_Activated, layers.BatchNorm):
    """BatchNorm followed by an activation."""


class ActivatedGroupNorm(_Activated, layers.GroupNorm):
    """GroupNorm followed by an activation."""


class ActivatedLayerNorm(_Activated, layers.LayerNorm):
    """LayerNorm followed by an activation."""


class ActivatedRMSNorm(_Activated, layers.RMSNorm):
    """RMSNorm followed by an activation."""


_ACTIVATED: dict[type[nn.Module], type[nn.Module]] = {
    layers.BatchNorm: ActivatedBatchNorm,
    layers.GroupNorm: ActivatedGroupNorm,
    layers.LayerNorm: ActivatedLayerNorm,
    layers.RMSNorm: ActivatedRMSNorm,
}
