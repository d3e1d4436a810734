"""Checks of arguments. Each error states the rule, what was passed, and the likely fix."""

import inspect
import math
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from array_api_compat import is_array_api_obj

from normtutor.tracing import array_namespace, is_tensor, know_caches, known_value

Array = Any


def is_array(value: Any) -> bool:
    """Whether ``value`` is an array of NumPy, torch, JAX or another library of the standard."""
    return is_tensor(value) or bool(is_array_api_obj(value))


def _elsewhere(x: Array) -> bool:
    """Whether a look at the values of x would wait for another device."""
    return is_tensor(x) and x.device.type != "cpu"


def check_floating(x: Array, name: str = "x") -> None:
    """Raise TypeError unless ``x`` is an array of real floating-point numbers."""
    if not is_array(x):
        raise TypeError(
            f"{name} must be an array: NumPy's, torch's or JAX's; got {_named(x)}. Convert it "
            f"first, for example with np.asarray({name}, dtype=float)."
        )
    xp = array_namespace(x)
    know_caches(xp)
    if not xp.isdtype(x.dtype, "real floating"):
        raise TypeError(
            f"{name} must hold real floating-point numbers, because its statistics are fractions; "
            f"got dtype {x.dtype}. Convert it first, for example to float32."
        )


def check_feature_axis(x: Array, feature_axis: int, *, smallest_ndim: int = 2) -> int:
    """Return ``feature_axis`` counted from the front; raise ValueError if x has no such axis."""
    if x.ndim < smallest_ndim:
        raise ValueError(
            f"x must have at least {smallest_ndim} axes, a batch axis among them; "
            f"got shape {tuple(x.shape)}. A single example needs a batch axis of length 1."
        )
    if not -x.ndim <= feature_axis < x.ndim:
        raise ValueError(
            f"feature_axis={feature_axis} does not exist in x of shape {tuple(x.shape)}. "
            "Use 1 for (B, C, ...) and -1 for (B, L, H)."
        )
    axis = feature_axis % x.ndim
    if axis == 0:
        raise ValueError(
            f"feature_axis={feature_axis} is the batch axis of x of shape {tuple(x.shape)}. "
            "Use 1 for (B, C, ...) and -1 for (B, L, H)."
        )
    return axis


def _named(value: Any) -> str:
    """The type of something that a caller passed, as the error names it."""
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def check_library(value: Array, name: str, x: Array, what: str = "x") -> None:
    """Raise TypeError unless ``value``, an array, belongs to the library of x."""
    if array_namespace(value) is not array_namespace(x):
        raise TypeError(
            f"{name} must come from the same library as {what}; got {_named(value)} beside {what} "
            f"of {_named(x)}. Convert one of them, for example with torch.from_numpy or np.asarray."
        )


def check_parameter(parameter: Array | None, name: str, shape: tuple[int, ...], x: Array) -> None:
    """Raise an error unless ``parameter`` is None or a floating-point array of ``shape`` like x.

    TypeError if it is not an array or belongs to another library than x, ValueError for a wrong
    shape.
    """
    if parameter is None:
        return
    if not is_array(parameter):
        hint = f"Convert it first, for example with np.asarray({name}, dtype=float)."
        if isinstance(parameter, tuple | list | int):
            hint = (
                "torch.nn.functional takes the normalized shape second; here it is the keyword "
                f"normalized_shape={parameter!r}, and {name} is an array or None."
            )
        raise TypeError(f"{name} must be an array like x, or None; got {_named(parameter)}. {hint}")
    check_library(parameter, name, x)
    check_floating(parameter, name)
    if tuple(parameter.shape) != shape:
        raise ValueError(
            f"{name} must have shape {shape}, one value for each entry that it scales, shifts or "
            f"tracks; got {tuple(parameter.shape)}. Check the number of features and feature_axis."
        )


def check_running_stats(
    mean: Array | None, variance: Array | None, weight: Array | None, bias: Array | None
) -> None:
    """Raise ValueError where γ and β were clearly passed as the running statistics.

    torch.nn.functional has the statistics before the parameters. Two signs reveal this: parameters
    require a gradient and statistics do not, and a variance is not negative. The values are checked
    only where that does not have to wait for another device.
    """
    order = (
        "torch.nn.functional's order is (x, running_mean, running_var, weight, bias); here it is "
        "(x, weight, bias, running_mean, running_var). Pass them by name."
    )

    def trained(*arrays: Array | None) -> bool:
        return any(getattr(a, "requires_grad", False) for a in arrays)

    if trained(mean, variance) and (weight is not None) and not trained(weight, bias):
        raise ValueError(
            "running_mean and running_var must be averages, not parameters; got an array that "
            f"requires a gradient, beside a weight that does not. {order}"
        )
    if variance is None or math.prod(variance.shape) == 0:
        return
    if _elsewhere(variance):
        return
    smallest = known_value(array_namespace(variance).min(variance))
    if smallest is not None and smallest < 0:
        raise ValueError(
            f"running_var must not be negative, being an average of variances; got {smallest:.3g}. "
            f"{order}"
        )


Formula = TypeVar("Formula", bound=Callable[..., Any])


def in_torchs_order(theirs: str, instead: str) -> Callable[[Formula], Formula]:
    """Name torch's order of arguments in the error of a formula that is called with it.

    Python's own error would only count the arguments.

    Parameters
    ----------
    theirs : str
        The call in torch.
    instead : str
        The same call here.
    """

    def named_in_errors(formula: Formula) -> Formula:
        parameters = inspect.signature(formula).parameters.values()
        by_position = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        needed = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]

        @wraps(formula)
        def checked(*arguments: Any, **named: Any) -> Any:
            missing = [name for name in needed if name not in named]
            if len(arguments) > len(by_position) or (missing and len(arguments) > 1):
                raise TypeError(
                    f"{formula.__name__} takes {', '.join(by_position)} by position and the rest "
                    f"by name; got ({', '.join(map(_named, arguments))}) by position. If that was "
                    f"torch's order, {theirs}, write {instead}."
                )
            return formula(*arguments, **named)

        return checked  # type: ignore[return-value]

    return named_in_errors


def check_momentum(momentum: Any) -> None:
    """Raise ValueError unless ``momentum`` is an array, None or a number in [0, 1]."""
    if isinstance(momentum, int | float) and not 0 <= momentum <= 1:
        raise ValueError(
            "momentum must lie in [0, 1], the weight of the new value in the running statistics; "
            f"got {momentum}. torch's usual value is 0.1, which Keras and Flax write as 0.9."
        )


def check_cache(cache: Any, kind: type | tuple[type, ...], forward: str) -> None:
    """Raise TypeError unless ``cache`` is what the forward pass called ``forward`` returned."""
    if isinstance(cache, kind):
        return
    hint = f"Pass the second result: y, cache = {forward}(...)."
    if is_array(cache):
        hint = "That is an array, perhaps y. " + hint
    elif isinstance(cache, tuple) and any(isinstance(part, kind) for part in cache):
        hint = "That is all that the forward pass returned. " + hint
    elif type(cache).__name__.endswith("Cache"):
        hint = "That is the cache of another norm. " + hint
    raise TypeError(f"{forward}_backward needs the cache of {forward}; got {_named(cache)}. {hint}")


def check_grad_y(grad_y: Array, y: Array) -> None:
    """Raise an error unless ``grad_y`` is a floating-point array like y, and of its shape."""
    check_floating(grad_y, "grad_y")
    check_library(grad_y, "grad_y", y, "y")
    if tuple(grad_y.shape) != tuple(y.shape):
        raise ValueError(
            f"grad_y must have y's shape {tuple(y.shape)}, one number for each of y; got "
            f"{tuple(grad_y.shape)}. It is the gradient of the loss with respect to y."
        )


def check_normalized_shape(
    x: Array, normalized_shape: int | tuple[int, ...] | None, weight: Array | None
) -> tuple[int, ...]:
    """Return the trailing shape that a norm over trailing axes covers.

    ``normalized_shape`` None means the shape of ``weight`` or, without one, x's last axis.
    """
    if normalized_shape is None:
        shape = tuple(x.shape[-1:])
        if weight is not None and is_array(weight):
            shape = tuple(weight.shape)
            if not shape or tuple(x.shape[-len(shape) :]) != shape:
                raise ValueError(
                    f"weight must have the shape of the trailing axes of x; got {shape} beside x "
                    f"of shape {tuple(x.shape)}. For x of shape (B, L, H), it has H entries."
                )
    elif isinstance(normalized_shape, int):
        shape = (normalized_shape,)
    else:
        shape = tuple(normalized_shape)
    if not shape:
        raise ValueError(
            "normalized_shape must name at least one axis; got (). "
            "For x of shape (B, L, H), use H to normalize each token."
        )
    if tuple(x.shape[-len(shape) :]) != shape:
        raise ValueError(
            f"normalized_shape={shape} must equal the trailing axes of x; got x of shape "
            f"{tuple(x.shape)}. For x of shape (B, L, H), use H to normalize each token."
        )
    return shape


def check_mask(mask: Array | None, x: Array, feature_axis: int) -> Array | None:
    """Return ``mask`` with a feature axis of length one, or None.

    The mask has x's shape without the feature axis: (B, L) for x of shape (B, L, H).
    """
    if mask is None:
        return None
    if not is_array(mask):
        raise TypeError(
            f"mask must be a boolean array, True on real tokens, or None; got {_named(mask)}. "
            "Convert it first, for example with np.asarray(mask, dtype=bool)."
        )
    check_library(mask, "mask", x)
    xp = array_namespace(x)
    if not xp.isdtype(mask.dtype, "bool"):
        raise TypeError(
            f"mask must be boolean, True on real tokens; got dtype {mask.dtype}. "
            "Convert it first, for example with mask != 0."
        )
    expected = tuple(x.shape[:feature_axis]) + tuple(x.shape[feature_axis + 1 :])
    if tuple(mask.shape) != expected:
        raise ValueError(
            f"mask must have x's shape without its feature axis, {expected} for x of shape "
            f"{tuple(x.shape)} with feature_axis={feature_axis}; got {tuple(mask.shape)}."
        )
    warn_if_inverted(mask)
    return xp.expand_dims(mask, axis=feature_axis)


def warn_if_inverted(mask: Array) -> None:
    """Warn where a mask of shape (B, L) seems to be True on padding.

    It hides the first position of most sequences, and either hides one sequence completely, as the
    inverse does with the longest, or hides more than it shows. A batch that is padded on the left
    does neither. Checked only where the values are in this machine's own memory.
    """
    if mask.ndim != 2 or 0 in mask.shape:
        return
    if _elsewhere(mask):
        return
    xp = array_namespace(mask)
    shown = xp.astype(mask, xp.float32)
    first = known_value(xp.mean(shown[:, 0]))
    if first is None or first >= 0.5:
        return
    shortest = known_value(xp.min(xp.max(shown, axis=1)))
    share = known_value(xp.mean(shown))
    if share == 0:
        return  # a batch without a real token, whose output of zeros nobody overlooks
    if shortest == 0 or (share is not None and share < 0.5):
        warnings.warn(
            f"the mask hides the first position of {1 - first:.0%} of the sequences, so it is "
            "probably inverted: here True marks real tokens. Invert it with ~mask, as torch's "
            "key_padding_mask needs, or build it with normtutor.masks.real_tokens.",
            stacklevel=4,
        )


def check_groups(num_groups: int, num_channels: int) -> None:
    """Raise ValueError unless ``num_groups`` divides ``num_channels``."""
    if num_groups < 1 or num_channels % num_groups:
        raise ValueError(
            f"the number of groups must divide the number of features; got {num_groups} groups "
            f"for {num_channels} features. Choose a divisor of {num_channels}."
        )


def check_positive_eps(eps: float) -> None:
    """Raise ValueError unless ``eps`` is positive."""
    if not eps > 0:
        raise ValueError(
            f"eps must be positive in training, because a feature that is constant over the batch "
            f"has variance 0; got {eps}. The usual value is 1e-5."
        )


def partial_count(d: int, p: float) -> int:
    """Number of leading entries, int(d·p), from which pRMSNorm estimates the root mean square."""
    if not 0 < p <= 1:
        raise ValueError(
            f"p must lie in (0, 1], the share of entries that the estimate uses; got {p}. "
            "p=1 uses them all, as RMSNorm does."
        )
    k = int(d * p)
    if k < 1:
        raise ValueError(
            f"int(d * p) must be at least 1, or no entry is left to estimate from; got d={d} and "
            f"p={p}. Use p of at least {1 / d:.3g}."
        )
    return k
