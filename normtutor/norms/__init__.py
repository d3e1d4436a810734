"""The formulas of the norms, forward and backward, for NumPy, torch and JAX arrays.

Every norm follows one pattern: ``y, cache = norm(x, weight, bias)`` and
``grads = norm_backward(grad_y, cache)``. Running statistics, where a norm has them, are
passed as arguments and returned as a third result. BatchNorm, InstanceNorm and GroupNorm have the
features on axis 1, as in torch, and all others last; ``feature_axis`` says otherwise.

``grad_y`` has y's shape. The gradient of x has grad_y's dtype and is 0 at masked positions; those
of other arguments have their shapes and dtypes. A shape that does not fit raises ValueError; what
holds no real floating-point numbers, and a mask that is not boolean, raise TypeError.
"""

from collections.abc import Callable
from typing import Any

from normtutor.norms.batch_norm import RunningStats, batch_norm, batch_norm_backward
from normtutor.norms.choices import (
    RELATIVES,
    TABLE,
    Choices,
    Layer,
    Source,
    Statistic,
    sharing_cells,
)
from normtutor.norms.conditional import (
    adaptive_layer_norm,
    adaptive_layer_norm_backward,
    film,
    film_backward,
)
from normtutor.norms.dynamic_tanh import dynamic_tanh, dynamic_tanh_backward
from normtutor.norms.group_norm import group_norm, group_norm_backward
from normtutor.norms.instance_norm import instance_norm, instance_norm_backward
from normtutor.norms.layer_norm import layer_norm, layer_norm_backward
from normtutor.norms.normalize import normalize, normalize_backward
from normtutor.norms.power_norm import (
    power_norm,
    power_norm_backward,
    power_norm_v,
    power_norm_v_backward,
)
from normtutor.norms.power_norm_authors_code import (
    power_norm_authors_code,
    power_norm_authors_code_backward,
)
from normtutor.norms.rms_norm import (
    partial_rms_norm,
    partial_rms_norm_backward,
    rms_norm,
    rms_norm_backward,
)
from normtutor.norms.scale_norm import scale_norm, scale_norm_backward
from normtutor.norms.weight_norm import weight_norm, weight_norm_backward

__all__ = [
    "RELATIVES",
    "TABLE",
    "Choices",
    "Layer",
    "RunningStats",
    "Source",
    "Statistic",
    "adaptive_layer_norm",
    "adaptive_layer_norm_backward",
    "batch_norm",
    "batch_norm_backward",
    "dynamic_tanh",
    "dynamic_tanh_backward",
    "film",
    "film_backward",
    "formula_of",
    "group_norm",
    "group_norm_backward",
    "instance_norm",
    "instance_norm_backward",
    "layer_norm",
    "layer_norm_backward",
    "normalize",
    "normalize_backward",
    "partial_rms_norm",
    "partial_rms_norm_backward",
    "power_norm",
    "power_norm_authors_code",
    "power_norm_authors_code_backward",
    "power_norm_backward",
    "power_norm_v",
    "power_norm_v_backward",
    "rms_norm",
    "rms_norm_backward",
    "scale_norm",
    "scale_norm_backward",
    "sharing_cells",
    "weight_norm",
    "weight_norm_backward",
]


def formula_of(row: Choices) -> Callable[[Any, float], Any]:
    """Return the function from x and ε to y, in training and with all parameters at the start.

    For a norm of the weights, x and y are the weights, of shape (H, d).
    """
    formula, without_eps = globals()[row.function], row.source in (Source.WEIGHTS, Source.NOWHERE)

    def of(x: Any, eps: float) -> Any:
        return formula(x, **row.start(x), **({} if without_eps else {"eps": eps}))[0]

    return of
