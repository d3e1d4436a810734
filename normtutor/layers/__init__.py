"""The norms as ``torch.nn`` modules over the formulas of :mod:`normtutor.norms`.

Each layer that torch.nn also has is a subclass of it: constructor, parameters, buffers,
``state_dict`` and ``repr`` are torch's own, and only ``forward`` is ours. So a layer of this module
can replace torch's in any model, and loads its weights. The layers whose statistics
cross tokens take a mask as well.

Run eagerly, a layer with a statistic of x alone takes the backward pass that the book derives, and
keeps x and the statistic (``by_hand.py``). Where a compiler reads the code, with a
mask, and in BatchNorm's evaluation it is the formula, whose backward pass the compiler or autograd
derives.
"""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "normtutor.layers needs torch, which is not here; install it, for example with "
        'pip install "normtutor[torch]". The formulas in normtutor.norms run without it.',
        name="torch",
    ) from error

from normtutor.layers import batch, common, conditional, example, power, token, weight
from normtutor.layers.batch import *  # noqa: F403
from normtutor.layers.common import *  # noqa: F403
from normtutor.layers.common import _as_under_autocast, _one_node  # noqa: F401
from normtutor.layers.conditional import *  # noqa: F403
from normtutor.layers.example import *  # noqa: F403
from normtutor.layers.power import *  # noqa: F403
from normtutor.layers.power import _NoSecondDerivative  # noqa: F401
from normtutor.layers.token import *  # noqa: F403
from normtutor.layers.weight import *  # noqa: F403
from normtutor.layers.weight import _WeightNorm  # noqa: F401
from normtutor.tracing import find_torch

_MODULES = (batch, common, conditional, example, power, token, weight)
__all__ = sorted(name for module in _MODULES for name in module.__all__)

find_torch()  # before a compiler follows the search
for _name in __all__:  # where they are found, in pickles and in the reference
    globals()[_name].__module__ = __name__
