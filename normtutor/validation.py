"""Checks of what a caller passes in. Each error says the rule, what came, and the likely fix."""

from typing import Any

from array_api_compat import array_namespace

Array = Any


def check_floating(x: Array, name: str = "x") -> None:
    """Raise TypeError unless ``x`` is an array of real floating-point numbers."""
    xp = array_namespace(x)
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


def check_parameter(parameter: Array | None, name: str, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless ``parameter`` is None or a floating-point array of ``shape``."""
    if parameter is None:
        return
    check_floating(parameter, name)
    if tuple(parameter.shape) != shape:
        raise ValueError(
            f"{name} must have shape {shape}, one value for each entry that it scales, shifts or "
            f"tracks; got {tuple(parameter.shape)}. Check the number of features and feature_axis."
        )


def check_normalized_shape(
    x: Array, normalized_shape: int | tuple[int, ...] | None, weight: Array | None
) -> tuple[int, ...]:
    """Return the trailing shape that a norm over trailing axes covers.

    ``normalized_shape`` None means the shape of ``weight`` or, without one, x's last axis.
    """
    if normalized_shape is None:
        shape = tuple(weight.shape) if weight is not None else tuple(x.shape[-1:])
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
    xp = array_namespace(x, mask)
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
    return xp.expand_dims(mask, axis=feature_axis)


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
