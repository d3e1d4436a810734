"""Checks of arguments. Each error states the rule, what was passed, and the likely fix."""

import warnings
from typing import Any, NoReturn

from array_api_compat import is_array_api_obj

from normtutor.tracing import array_namespace, is_tensor, know_caches, known_value

Array = Any
AXES = "Use 1 for (B, C, ...) and -1 for (B, L, H)."


def refuse(error: type[Exception], rule: str, got: Any, fix: str = "") -> NoReturn:
    """Raise ``error`` with the rule, what was passed, and the likely fix."""
    raise error(f"{rule}; got {got}. {fix}".rstrip())


def name_of(value: Any) -> str:
    """The type of something that a caller passed, as an error names it."""
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def is_array(value: Any) -> bool:
    """Whether ``value`` is an array of NumPy, torch, JAX or another library of the standard."""
    return is_tensor(value) or bool(is_array_api_obj(value))


def check_floating(x: Array, name: str = "x") -> None:
    """Raise TypeError unless ``x`` is an array of real floating-point numbers."""
    if not is_array(x):
        rule = f"{name} must be an array: NumPy's, torch's or JAX's"
        fix = f"Convert it first, for example with np.asarray({name}, dtype=float)."
        refuse(TypeError, rule, name_of(x), fix)
    xp = array_namespace(x)
    know_caches(xp)
    if not xp.isdtype(x.dtype, "real floating"):
        rule = f"{name} must hold real floating-point numbers, because its statistics are fractions"
        refuse(TypeError, rule, f"dtype {x.dtype}", "Convert it first, for example to float32.")


def check_library(value: Array, name: str, x: Array, what: str = "x") -> None:
    """Raise TypeError unless ``value``, an array, belongs to the library of x."""
    if array_namespace(value) is not array_namespace(x):
        rule, got = f"{name} must come from the same library as {what}", name_of(value)
        fix = "Convert one of them, for example with torch.from_numpy or np.asarray."
        refuse(TypeError, rule, f"{got} beside {what} of {name_of(x)}", fix)


def check_parameters(x: Array, shape: tuple[int, ...], **parameters: Array | None) -> None:
    """Raise an error unless each is None or a floating-point array of ``shape`` like x."""
    for name, parameter in parameters.items():
        if parameter is None:
            continue
        if not is_array(parameter):
            fix = f"Convert it first, for example with np.asarray({name}, dtype=float)."
            if isinstance(parameter, tuple | list | int):
                fix = "torch.nn.functional takes the normalized shape second; here it is the "
                fix += f"keyword normalized_shape={parameter!r}, and {name} is an array or None."
            refuse(TypeError, f"{name} must be an array like x, or None", name_of(parameter), fix)
        check_library(parameter, name, x)
        check_floating(parameter, name)
        if tuple(parameter.shape) != shape:
            rule = f"{name} must have shape {shape}, one value for each entry that it scales, "
            fix = "Check the number of features and feature_axis."
            refuse(ValueError, rule + "shifts or tracks", tuple(parameter.shape), fix)


def check_feature_axis(x: Array, feature_axis: int, *, smallest_ndim: int = 2) -> int:
    """Return ``feature_axis`` counted from the front; raise ValueError if x has no such axis."""
    shape = tuple(x.shape)
    if x.ndim < smallest_ndim:
        rule = f"x must have at least {smallest_ndim} axes, a batch axis among them"
        fix = "A single example needs a batch axis of length 1."
        refuse(ValueError, rule, f"shape {shape}", fix)
    if not -x.ndim <= feature_axis < x.ndim:
        raise ValueError(
            f"feature_axis={feature_axis} does not exist in x of shape {shape}. {AXES}"
        )
    if feature_axis % x.ndim == 0:
        rule = f"feature_axis={feature_axis} is the batch axis of x of shape {shape}"
        raise ValueError(f"{rule}. {AXES}")
    return feature_axis % x.ndim


def check_normalized_shape(
    x: Array, normalized_shape: int | tuple[int, ...] | None, weight: Array | None = None
) -> tuple[int, ...]:
    """Return the trailing shape that a norm over trailing axes covers.

    ``normalized_shape`` None means the shape of ``weight`` or, without one, x's last axis.
    """
    fix = "For x of shape (B, L, H), use H to normalize each token."
    if normalized_shape is None:
        shape = tuple(x.shape[-1:])
        if weight is not None and is_array(weight):
            shape = tuple(weight.shape)
            if not shape or tuple(x.shape[-len(shape) :]) != shape:
                got = f"{shape} beside x of shape {tuple(x.shape)}"
                rule = "weight must have the shape of the trailing axes of x"
                refuse(ValueError, rule, got, "For x of shape (B, L, H), it has H entries.")
    else:
        one = isinstance(normalized_shape, int)
        shape = (normalized_shape,) if one else tuple(normalized_shape)  # type: ignore
    if not shape:
        refuse(ValueError, "normalized_shape must name at least one axis", "()", fix)
    if tuple(x.shape[-len(shape) :]) != shape:
        rule = f"normalized_shape={shape} must equal the trailing axes of x"
        refuse(ValueError, rule, f"x of shape {tuple(x.shape)}", fix)
    return shape


def check_trailing(
    x: Array, normalized_shape: Any, weight: Array | None, bias: Array | None
) -> tuple[int, ...]:
    """Check the arguments of a norm over trailing axes; return those axes, counted from the end."""
    check_floating(x)
    shape = check_normalized_shape(x, normalized_shape, weight)
    check_parameters(x, shape, weight=weight, bias=bias)
    return tuple(range(-len(shape), 0))


def check_features(
    x: Array,
    feature_axis: int,
    mask: Array | None,
    *,
    smallest_ndim: int = 2,
    **parameters: Array | None,
) -> tuple[int, Array | None]:
    """Check the arguments of a norm with a feature axis.

    Return that axis, counted from the front, and the mask with an axis of length one in its place.
    """
    check_floating(x)
    feature = check_feature_axis(x, feature_axis, smallest_ndim=smallest_ndim)
    check_parameters(x, (x.shape[feature],), **parameters)
    return feature, check_mask(mask, x, feature)


def check_mask(mask: Array | None, x: Array, feature_axis: int, features: int = 1) -> Array | None:
    """Return ``mask`` with axes of length one in the place of the features, or None.

    The mask has x's shape without its features: (B, L) for x of shape (B, L, H).
    """
    if mask is None:
        return None
    if not is_array(mask):
        rule = "mask must be a boolean array, True on real tokens, or None"
        fix = "Convert it first, for example with np.asarray(mask, dtype=bool)."
        refuse(TypeError, rule, name_of(mask), fix)
    check_library(mask, "mask", x)
    xp, shape = array_namespace(x), tuple(x.shape)
    if not xp.isdtype(mask.dtype, "bool"):
        fix = "Convert it first, for example with mask != 0."
        rule = "mask must be boolean, True on real tokens"
        refuse(TypeError, rule, f"dtype {mask.dtype}", fix)
    axis = feature_axis % x.ndim
    expected = shape[:axis] + shape[axis + features :]
    if tuple(mask.shape) != expected:
        rule = f"mask must have x's shape without its feature axis, {expected} for x of shape "
        rule += f"{shape} with feature_axis={feature_axis}"
        refuse(ValueError, rule, tuple(mask.shape))
    warn_if_inverted(mask)
    return xp.reshape(mask, shape[:axis] + (1,) * features + shape[axis + features :])


def warn_if_inverted(mask: Array) -> None:
    """Warn where a mask of shape (B, L) seems to be True on padding.

    It hides the first position of most sequences, and either hides one sequence completely, as the
    inverse does with the longest, or hides more than it shows. A batch that is padded on the left
    does neither. Checked only where the values are in this machine's own memory.
    """
    if mask.ndim != 2 or 0 in mask.shape or (is_tensor(mask) and mask.device.type != "cpu"):
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
            "key_padding_mask needs.",
            stacklevel=4,
        )


def check_cache(cache: Any, forward: str) -> None:
    """Raise TypeError unless ``cache`` comes from the function ``forward``."""

    def made(value: Any) -> bool:
        return getattr(value, "made_by", None) == forward

    if made(cache):
        return
    fix = f"Pass the second result: y, cache = {forward}(...)."
    if is_array(cache):
        fix = "That is an array, perhaps y. " + fix
    elif hasattr(cache, "made_by"):
        fix = "That is the cache of another norm. " + fix
    elif isinstance(cache, tuple) and any(map(made, cache)):
        fix = "That is all that the forward pass returned. " + fix
    refuse(TypeError, f"{forward}_backward needs the cache of {forward}", name_of(cache), fix)


def check_grad_y(grad_y: Array, y: Array, shape: tuple[int, ...] | None = None) -> None:
    """Raise an error unless ``grad_y`` is an array of floating-point numbers like y.

    ``shape`` is that of y, if not ``y.shape``.
    """
    check_floating(grad_y, "grad_y")
    check_library(grad_y, "grad_y", y, "y")
    shape = tuple(y.shape) if shape is None else shape
    if tuple(grad_y.shape) != shape:
        rule = f"grad_y must have y's shape {shape}, one number for each of y"
        fix = "It is the gradient of the loss with respect to y."
        refuse(ValueError, rule, tuple(grad_y.shape), fix)


def check_momentum(momentum: Any) -> None:
    """Raise ValueError unless ``momentum`` is an array, None or a number in [0, 1]."""
    if isinstance(momentum, int | float) and not 0 <= momentum <= 1:
        rule = "momentum must lie in [0, 1], the weight of the new value in the running statistics"
        fix = "torch's usual value is 0.1, which Keras and Flax write as 0.9."
        refuse(ValueError, rule, momentum, fix)


def check_groups(num_groups: int, num_channels: int) -> None:
    """Raise ValueError unless ``num_groups`` divides ``num_channels``."""
    if num_groups < 1 or num_channels % num_groups:
        got = f"{num_groups} groups for {num_channels} features"
        rule = "the number of groups must divide the number of features"
        refuse(ValueError, rule, got, f"Choose a divisor of {num_channels}.")


def check_positive_eps(eps: float) -> None:
    """Raise ValueError unless ``eps`` is positive."""
    if not eps > 0:
        rule = "eps must be positive in training, because a feature that is constant over the "
        refuse(ValueError, rule + "batch has variance 0", eps, "The usual value is 1e-5.")


def partial_count(d: int, p: float) -> int:
    """Number of leading entries, int(d·p), from which pRMSNorm estimates the root mean square."""
    if not 0 < p <= 1:
        rule = "p must lie in (0, 1], the share of entries that the estimate uses"
        refuse(ValueError, rule, p, "p=1 uses them all, as RMSNorm does.")
    k = int(d * p)
    if k < 1:
        rule = "int(d * p) must be at least 1, or no entry is left to estimate from"
        refuse(ValueError, rule, f"d={d} and p={p}", f"Use p of at least {1 / d:.3g}.")
    return k
