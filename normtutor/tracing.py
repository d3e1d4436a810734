"""Values that a compiler may not know yet.

``torch.compile``, ``torch.func.vmap`` and ``jax.jit`` run the code with stand-ins for arrays. A
check that depends on a value, not on a shape, can only be made when the value is there.
"""

import sys
from typing import Any


def known_value(n: Any) -> float | None:
    """Return the number ``n`` as a float, or None while it is only a stand-in.

    Parameters
    ----------
    n : number or array of one element
    """
    if isinstance(n, int | float):
        return float(n)
    torch = sys.modules.get("torch")
    if torch is not None and torch.compiler.is_compiling():
        return None
    try:
        return float(n.reshape(()))
    except Exception:  # each library has an error of its own for "not concrete"
        return None
