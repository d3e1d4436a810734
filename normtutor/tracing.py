"""What compilers may know, and what not yet.

``torch.compile``, ``torch.func.vmap`` and ``jax.jit`` run the code with stand-ins for arrays. A
check that depends on a value, not on a shape, can only be made when the value is there. And JAX
must be told which fields of a cache are arrays, and which are settings that stay as they are.
"""

import sys
from typing import Any, TypeVar

import array_api_compat
import numpy as np
from array_api_compat import numpy as numpy_namespace

Cache = TypeVar("Cache", bound=type)

_torch: Any = None  # the module, once it has been found,
_namespace: Any = None  # and its functions as the standard has them


def find_torch() -> Any:
    """The module torch if somebody has imported it, else None.

    ``torch.compile`` follows every look-up, and one in ``sys.modules`` through all of its entries:
    a third of the time that it takes to compile a layer. So torch is looked for until it is there.
    """
    global _torch, _namespace
    torch = sys.modules.get("torch")
    if torch is not None and not torch.compiler.is_compiling():
        from array_api_compat import torch as namespace

        _torch, _namespace = torch, namespace
    return torch


find_torch()  # the compiler's own search would be found outdated at the next call


def known_value(n: Any) -> float | None:
    """Return the number ``n`` as a float, or None while it is only a stand-in.

    Parameters
    ----------
    n : number or array of one element
    """
    if isinstance(n, int | float):
        return float(n)
    torch = _torch or find_torch()
    if torch is not None and torch.compiler.is_compiling():
        return None
    try:
        return float(n.reshape(()))
    except Exception:  # each library has an error of its own for "not concrete"
        return None


def is_number(n: Any) -> bool:
    """Whether n is a whole number, perhaps one that ``torch.export`` leaves open, and no array."""
    if isinstance(n, int):
        return True
    torch = _torch or find_torch()
    return torch is not None and isinstance(n, torch.SymInt)


def is_tensor(x: Any) -> bool:
    """Whether x is a tensor of torch; where nobody has imported torch, nothing is."""
    torch = _torch or find_torch()
    return torch is not None and isinstance(x, torch.Tensor)


def array_namespace(x: Any, *others: Any) -> Any:
    """Return the namespace of array functions that belongs to x and ``others``.

    It is that of array_api_compat, which asks each library whether an array is its own. NumPy and
    torch are asked first: for small arrays the question takes as long as the answer.
    """
    if type(x) is np.ndarray and not others and x.dtype.kind != "V":  # JAX's empty gradients
        return numpy_namespace
    if _namespace is not None and not others and is_tensor(x):
        return _namespace
    return array_api_compat.array_namespace(x, *others)


_UNKNOWN_TO_JAX: list[type] = []


def passes_jit(kind: Cache) -> Cache:
    """Mark a NamedTuple as a cache, so that it may go into and out of ``jax.jit``.

    JAX would take every field for an array, the settings too. As soon as it is in use
    (:func:`know_caches`) it learns that the settings are part of the structure.
    """
    _UNKNOWN_TO_JAX.append(kind)
    return kind


def _is_setting(value: Any) -> bool:
    """Whether a field of a cache is a setting: a number, a name, or a tuple of such."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return all(map(_is_setting, value))
    return isinstance(value, bool | int | float | str)


def know_caches(xp: Any) -> None:
    """Register the caches with JAX if ``xp`` is JAX's namespace and they are not yet there."""
    if not _UNKNOWN_TO_JAX or xp.__name__ != "jax.numpy":
        return
    import jax

    def register(kind: Any) -> None:
        def flatten(cache: Any) -> tuple[list[Any], tuple[Any, ...]]:
            arrays = [None if _is_setting(value) else value for value in cache]
            return arrays, tuple(value if _is_setting(value) else None for value in cache)

        def unflatten(settings: tuple[Any, ...], arrays: Any) -> Any:
            pairs = zip(arrays, settings, strict=True)
            return kind(*[a if s is None else s for a, s in pairs])

        jax.tree_util.register_pytree_node(kind, flatten, unflatten)

    while _UNKNOWN_TO_JAX:
        register(_UNKNOWN_TO_JAX.pop())
