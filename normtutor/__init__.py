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

__version__ = "0.3.0"

HOMES = {"swap_norms": "swapping", "diagnose": "diagnosis", "norms_of": "anatomy"}
# What was here up to 0.2.0: code that imports it is told where it is.
MOVED = {
    *("experiments", "claims", "plotting", "current_models"),
    *("benchmark", "interactive", "tables"),
}


def __getattr__(name: str) -> Any:
    """Find what needs torch only when it is asked for."""
    if name in HOMES:
        return getattr(importlib.import_module(f"normtutor.{HOMES[name]}"), name)
    if name in MOVED:
        raise ImportError(f"normtutor.{name} is in normtutor_studies now: pip install ./studies")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
