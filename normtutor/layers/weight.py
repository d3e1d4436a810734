"""WeightNorm as a parametrization of a module's weight."""

from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn.utils import parametrize

from normtutor import norms
from normtutor.validation import refuse

__all__ = ["weight_norm"]


class WeightNorm(nn.Module):
    """The parametrization (g, v) -> w, for ``torch.nn.utils.parametrize``."""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = None if dim == -1 else dim  # in torch too -1 is one length for all

    def forward(self, g: Tensor, v: Tensor) -> Tensor:
        if self.dim is None:
            g = g.reshape((1,) * v.ndim)
        return norms.weight_norm(v, g, axis=self.dim)[0]

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return g = ‖v‖ and v = weight."""
        _, cache = norms.weight_norm(weight, axis=self.dim)
        g = (1 / cache.r).to(weight.dtype)
        return (g.reshape(()) if self.dim is None else g), weight


def _rename_old_keys(
    module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any, name: str
) -> None:
    """Let the state dict of torch's older weight_norm load, with its keys *_g and *_v."""
    for old, new in (("g", "original0"), ("v", "original1")):
        if f"{prefix}{name}_{old}" in state_dict:
            value = state_dict.pop(f"{prefix}{name}_{old}")
            state_dict[f"{prefix}parametrizations.{name}.{new}"] = value


def weight_norm(module: nn.Module, name: str = "weight", dim: int | None = 0) -> nn.Module:
    r"""Split a parameter of ``module`` into a length g and a direction v, in place.

    Parameters
    ----------
    module : torch.nn.Module
        For example ``torch.nn.Linear`` or ``torch.nn.Conv2d``.
    name : str
        The parameter's name.
    dim : int or None
        The axis along which each index has a length of its own; None is one length for all.

    Returns
    -------
    torch.nn.Module
        ``module``, whose parameter is now computed by :func:`normtutor.norms.weight_norm` from
        ``parametrizations.<name>.original0`` (g, at first ‖v‖) and ``original1`` (v, at first the
        weight), as with ``torch.nn.utils.parametrizations.weight_norm``, whose state dicts it
        loads. As with torch's, save the state dict: the module cannot be pickled.

    Raises
    ------
    ValueError
        If ``module`` has no parameter of that name, or one that a parametrization computes.

    Notes
    -----
    Source: :cite:t:`salimans2016`.
    """
    if not isinstance(getattr(module, name, None), Tensor):
        there = ", ".join(n for n, _ in module.named_parameters()) or "none there"
        rule, got = f"module has no parameter {name!r}", type(module).__name__
        refuse(ValueError, rule, got, f"Choose one of: {there}.")
    plain = name in module._parameters or name in module._buffers
    if not plain and not parametrize.is_parametrized(module, name):
        got = "an attribute that something sets anew before each call, as torch's older "
        got += "weight_norm and spectral_norm do"
        fix = "Undo that first, for example with "
        fix += f"torch.nn.utils.remove_weight_norm(module, {name!r})."
        refuse(ValueError, f"{name} must be a plain parameter", got, fix)
    if parametrize.is_parametrized(module, name):
        first = type(module.parametrizations[name][0]).__name__  # type: ignore
        fix = "Splitting it twice would leave a length that does nothing. Undo the first with "
        fix += f"torch.nn.utils.parametrize.remove_parametrizations(module, {name!r})."
        got = f"one that is computed already, by {first}"
        refuse(ValueError, f"{name} must be a plain parameter", got, fix)
    parametrize.register_parametrization(module, name, WeightNorm(dim), unsafe=True)
    module.register_load_state_dict_pre_hook(partial(_rename_old_keys, name=name))
    return module
