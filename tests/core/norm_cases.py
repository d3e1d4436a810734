"""The norms as rows of one table, so that each test runs over all of them.

A row says how to call the formula, its backward pass, and torch's function for the same thing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from normtutor import norms

FEATURES = 6


@dataclass(frozen=True)
class Case:
    """A norm whose formula maps (x, weight, bias) to (y, cache, ...)."""

    name: str
    shape: tuple[int, ...]
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    torch_function: Callable[..., torch.Tensor] | None = None
    token_only: bool = False  # no statistic crosses tokens

    @property
    def parameter_shape(self) -> tuple[int, ...]:
        return (FEATURES,)

    def __str__(self) -> str:
        return f"{self.name}-{len(self.shape)}d"


def power_norm_frozen(x, weight=None, bias=None, **options):
    """PowerNorm in evaluation, with a running mean square that differs by feature."""
    like = weight if weight is not None else x
    ramp = norms_ramp(like)
    return norms.power_norm(x, weight, bias, ramp, training=False, **options)


def norms_ramp(like):
    from array_api_compat import array_namespace

    xp = array_namespace(like)
    return xp.asarray(np.linspace(0.5, 3.0, FEATURES), dtype=like.dtype)


def power_norm_frozen_backward(grad_y, cache):
    grads, _ = norms.power_norm_backward(grad_y, cache, norms_ramp(grad_y))
    return grads


def batch_norm_frozen(x, weight=None, bias=None, **options):
    ramp = norms_ramp(x)
    return norms.batch_norm(x, weight, bias, ramp - 1, ramp, training=False, **options)


def layer_norm_torch(x, weight, bias, eps=1e-5):
    return F.layer_norm(x, (FEATURES,), weight, bias, eps)


def rms_norm_torch(x, weight, bias, eps=None):
    y = F.rms_norm(x, (FEATURES,), weight, eps)
    return y if bias is None else y + bias


def batch_norm_torch(x, weight, bias, eps=1e-5):
    return F.batch_norm(x, None, None, weight, bias, True, 0.1, eps)


def batch_norm_frozen_torch(x, weight, bias, eps=1e-5):
    ramp = norms_ramp(x)
    return F.batch_norm(x, ramp - 1, ramp, weight, bias, False, 0.1, eps)


def group_norm_torch(groups, x, weight, bias, eps=1e-5):
    return F.group_norm(x, groups, weight, bias, eps)


def instance_norm_torch(x, weight, bias, eps=1e-5):
    return F.instance_norm(x, None, None, weight, bias, True, 0.1, eps)


LAYER_LIKE = [(5, FEATURES), (2, 3, FEATURES)]
IMAGE_LIKE = [(5, FEATURES), (3, FEATURES, 4), (2, FEATURES, 3, 2)]

CASES = (
    [
        Case("layer_norm", s, norms.layer_norm, norms.layer_norm_backward, layer_norm_torch, True)
        for s in LAYER_LIKE
    ]
    + [
        Case("rms_norm", s, norms.rms_norm, norms.rms_norm_backward, rms_norm_torch, True)
        for s in LAYER_LIKE
    ]
    + [
        Case(
            "partial_rms_norm",
            s,
            partial(norms.partial_rms_norm, p=0.5),
            norms.partial_rms_norm_backward,
            None,
            True,
        )
        for s in LAYER_LIKE
    ]
    + [
        Case("batch_norm", s, norms.batch_norm, norms.batch_norm_backward, batch_norm_torch)
        for s in IMAGE_LIKE
    ]
    + [
        Case(
            "batch_norm_evaluation",
            s,
            batch_norm_frozen,
            norms.batch_norm_backward,
            batch_norm_frozen_torch,
            True,
        )
        for s in IMAGE_LIKE
    ]
    + [
        Case(
            f"group_norm_{g}",
            s,
            partial(norms.group_norm, num_groups=g),
            norms.group_norm_backward,
            partial(group_norm_torch, g),
        )
        for g in (1, 3)
        for s in IMAGE_LIKE
    ]
    + [
        Case(
            "instance_norm",
            s,
            norms.instance_norm,
            norms.instance_norm_backward,
            instance_norm_torch,
        )
        for s in IMAGE_LIKE[1:]
    ]
    + [
        Case(
            "power_norm_v",
            s,
            partial(norms.power_norm_v, feature_axis=1),
            norms.power_norm_v_backward,
        )
        for s in IMAGE_LIKE
    ]
    + [
        Case(
            "power_norm_evaluation",
            s,
            partial(power_norm_frozen, feature_axis=1),
            power_norm_frozen_backward,
            None,
            True,
        )
        for s in IMAGE_LIKE
    ]
)

# Norms that take a mask, called on (B, L, H).
MASKED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "batch_norm": (norms.batch_norm, norms.batch_norm_backward),
    "batch_norm_evaluation": (batch_norm_frozen, norms.batch_norm_backward),
    "group_norm": (partial(norms.group_norm, num_groups=2), norms.group_norm_backward),
    "instance_norm": (norms.instance_norm, norms.instance_norm_backward),
    "power_norm_v": (norms.power_norm_v, norms.power_norm_v_backward),
    "power_norm_evaluation": (power_norm_frozen, power_norm_frozen_backward),
}


def draw(case: Case, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, weight, bias and an upstream gradient for ``case``, in float64."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal(case.shape) * 2 + 0.7
    weight = generator.standard_normal(case.parameter_shape)
    bias = generator.standard_normal(case.parameter_shape)
    return x, weight, bias, generator.standard_normal(case.shape)
