"""Import this to let ``torch.ao.quantization.fuse_modules`` fold our BatchNorm.

torch looks layers up by class in a table of its own, and the import adds our BatchNorm behind
convolutions and linear layers. Nothing else in the package does that.
"""

from typing import Any

from torch import nn
from torch.ao.quantization import fuser_method_mappings

from normtutor.layers.batch import BatchNorm


def _fuse(is_qat: bool, *modules: Any) -> nn.Module:
    """Fold a BatchNorm of ours into the layer before it, as torch folds its own."""
    *others, norm = [m for m in modules if not isinstance(m, nn.ReLU)]
    if norm.training or norm.feature_axis != 1:
        raise ValueError(
            "a BatchNorm can be folded into the layer before it only in evaluation and with "
            f"feature_axis=1; got training={norm.training}, feature_axis={norm.feature_axis}. "
            "Call model.eval() first; for training with quantization undo swap_norms first."
        )
    kinds: dict[Any, Any] = {nn.Conv2d: nn.BatchNorm2d, nn.Conv3d: nn.BatchNorm3d}
    kind = kinds.get(type(others[0]), nn.BatchNorm1d)
    twin = kind(norm.num_features, norm.eps, device="meta")
    twin._parameters, twin._buffers = norm._parameters, norm._buffers
    twin.eval()
    theirs = [twin if m is norm else m for m in modules]
    method = fuser_method_mappings.get_fuser_method(tuple(type(m) for m in theirs))
    return method(is_qat, *theirs)


# torch.ao.quantization.fuse_modules looks classes up by name, so a subclass must be listed.
for _before in (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear):
    for _after in ((BatchNorm,), (BatchNorm, nn.ReLU)):
        fuser_method_mappings._DEFAULT_OP_LIST_TO_FUSER_METHOD[(_before, *_after)] = _fuse
