"""The norms as ``torch.nn`` modules over the formulas of :mod:`normtutor.norms`.

Each layer that torch.nn also has is a subclass of it: constructor, parameters, buffers,
``state_dict`` and ``repr`` are torch's own. So a layer of this module can replace torch's in any
model, and loads its weights. Every layer takes a mask as well: ``norm(x, mask)``.

Where torch has a kernel for exactly what a layer computes, the layer runs that: LayerNorm, with a
mask too, because its tokens do not see each other; GroupNorm, BatchNorm and InstanceNorm without a
mask; RMSNorm where torch fuses it, on a GPU and compiled, and where no gradient is needed. All else
runs the formula, with the gradient of autograd; but RMSNorm, ScaleNorm and pRMSNorm have the
backward pass that the book derives, and PowerNorm that of its paper. :func:`formulas` makes every
layer run the formula.

The files go by whose statistic it is: ``token`` has LayerNorm, RMSNorm and their kin, ``example``
InstanceNorm and GroupNorm, ``batch`` BatchNorm, ``power`` PowerNorm, ``weight`` WeightNorm.

BatchNorm, InstanceNorm and GroupNorm have the features on axis 1, as in torch; all other layers
have them last. So do their formulas. ``feature_axis`` says otherwise.
"""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "normtutor.layers needs torch, which is not here; install it, for example with "
        'pip install "normtutor[torch]". The formulas in normtutor.norms run without it.',
        name="torch",
    ) from error

from normtutor.layers.batch import BatchNorm, update_statistics
from normtutor.layers.common import formulas
from normtutor.layers.conditional import AdaptiveLayerNorm, AdaptiveLayerNormZero, FiLM
from normtutor.layers.example import GroupNorm, InstanceNorm
from normtutor.layers.power import PowerNorm
from normtutor.layers.token import DynamicTanh, LayerNorm, PartialRMSNorm, RMSNorm, ScaleNorm
from normtutor.layers.weight import weight_norm
from normtutor.tracing import find_torch

__all__ = [
    "AdaptiveLayerNorm",
    "AdaptiveLayerNormZero",
    "BatchNorm",
    "DynamicTanh",
    "FiLM",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
    "PartialRMSNorm",
    "PowerNorm",
    "RMSNorm",
    "ScaleNorm",
    "formulas",
    "update_statistics",
    "weight_norm",
]

find_torch()  # before a compiler follows the search
for _name in __all__:  # where they are found, in pickles and in the reference
    globals()[_name].__module__ = __name__
