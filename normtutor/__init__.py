"""normtutor: reference implementations of the normalization layers of deep networks.

- :mod:`normtutor.norms`: the formulas, forward and backward, for NumPy, torch and JAX arrays.
- :mod:`normtutor.layers`: the same formulas as ``torch.nn`` modules.
- :func:`normtutor.swap_norms`: those modules in place of a model's own.
- :func:`normtutor.diagnose`: why a model does something else in evaluation than in training.
- :func:`normtutor.norms_of`: which norms a model has, and where they stand.

``import normtutor`` needs neither torch nor matplotlib.
"""

import importlib
from typing import Any

__version__ = "0.2.0"

HOMES = {"swap_norms": "swapping", "diagnose": "diagnosis", "norms_of": "anatomy"}


def __getattr__(name: str) -> Any:
    """Find what needs torch only when it is asked for."""
    if name in HOMES:
        return getattr(importlib.import_module(f"normtutor.{HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
