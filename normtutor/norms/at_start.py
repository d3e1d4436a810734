"""The formula of each row of the table, with all parameters as they are at the start."""

from collections.abc import Callable
from typing import Any

from normtutor.norms.batch_norm import batch_norm
from normtutor.norms.choices import Choices, Source
from normtutor.norms.conditional import adaptive_layer_norm, film
from normtutor.norms.dynamic_tanh import dynamic_tanh
from normtutor.norms.group_norm import group_norm, instance_norm
from normtutor.norms.layer_norm import layer_norm
from normtutor.norms.power_norm import power_norm, power_norm_v
from normtutor.norms.rms_norm import partial_rms_norm, rms_norm
from normtutor.norms.scale_norm import scale_norm
from normtutor.norms.weight_norm import weight_norm

Array = Any
_FORMULAS: list[Callable[..., Any]] = [
    *(batch_norm, layer_norm, instance_norm, group_norm, rms_norm, partial_rms_norm),
    *(power_norm_v, power_norm, weight_norm, scale_norm, adaptive_layer_norm, film, dynamic_tanh),
]
_BY_NAME = {formula.__name__: formula for formula in _FORMULAS}


def formula_of(row: Choices) -> Callable[[Array, float], Array]:
    """Return the function from x and ε to y, in training and with all parameters at the start.

    For a norm of the weights, x and y are the weights, of shape (H, d).
    """
    formula, without_eps = _BY_NAME[row.function], row.source in (Source.WEIGHTS, Source.NOWHERE)

    def of(x: Array, eps: float) -> Array:
        return formula(x, **row.start(x), **({} if without_eps else {"eps": eps}))[0]

    return of
