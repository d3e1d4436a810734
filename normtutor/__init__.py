"""normtutor: reference implementations of the normalization layers of deep networks.

- :mod:`normtutor.norms`: the formulas, forward and backward, for NumPy, torch and JAX arrays.
- :mod:`normtutor.layers`: the same formulas as ``torch.nn`` modules.
- :func:`normtutor.swap_norms`: those modules in place of a model's own.
- :func:`normtutor.diagnose`: why a model does something else in evaluation than in training.
- :func:`normtutor.norms_of`: which norms a model has, and where they stand.

``import normtutor`` needs neither torch nor matplotlib: what needs them is imported where it is
first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from normtutor import (
        anatomy,
        data,
        diagnosis,
        gradcheck,
        grading,
        invariance,
        layers,
        models,
        moments,
        norms,
        probes,
        swapping,
        training,
        wiring,
    )
    from normtutor.anatomy import norms_of
    from normtutor.diagnosis import diagnose
    from normtutor.swapping import swap_norms

__version__ = "0.4.0"

__all__ = [
    "anatomy",
    "data",
    "diagnose",
    "diagnosis",
    "gradcheck",
    "grading",
    "invariance",
    "layers",
    "models",
    "moments",
    "norms",
    "norms_of",
    "probes",
    "swap_norms",
    "swapping",
    "training",
    "wiring",
]

_HOMES = {"swap_norms": "swapping", "diagnose": "diagnosis", "norms_of": "anatomy"}


def __getattr__(name: str) -> Any:
    """Import a module, or a function with its module, where it is first asked for."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"normtutor.{_HOMES[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"normtutor.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
