"""Masks as this package wants them, True on real tokens, from what other libraries pass around.

==================================  ========================================================
from                                there
==================================  ========================================================
``attention_mask`` of Hugging Face  1 on real tokens, 0 on padding
``key_padding_mask`` of torch       True on *padding*
lengths                             how many tokens of each sequence are real, from the left
``cu_seqlens`` of packed attention  where each sequence starts in the pack, and the end
==================================  ========================================================
"""

from typing import Any

from array_api_compat import device

from normtutor.tracing import array_namespace
from normtutor.validation import is_array, warn_if_inverted

Array = Any


def real_tokens(
    *,
    attention_mask: Array | None = None,
    key_padding_mask: Array | None = None,
    lengths: Array | None = None,
    cu_seqlens: Array | None = None,
    length: int | None = None,
) -> Array:
    """Return the mask that the norms take: boolean, of shape (B, L), True on real tokens.

    Parameters
    ----------
    attention_mask : array of shape (B, L), optional
        Boolean, integer or floating, 1 on real tokens and 0 on padding.
    key_padding_mask : array of shape (B, L), optional
        Boolean and True on padding, or floating and added to the scores: -inf on padding, else 0.
    lengths : integer array of shape (B,), optional
        How many tokens of each sequence are real. The padding is on the right.
    cu_seqlens : integer array of shape (B + 1,), optional
        Cumulative lengths from 0, as for packed attention. The mask is that of the sequences once
        they are padded; the pack itself has no padding and needs no mask.
    length : int, optional
        L, for ``lengths`` and ``cu_seqlens``. By default that of the longest sequence.

    Raises
    ------
    ValueError
        If not exactly one of the four is given, or one has another form than stated.

    Warns
    -----
    UserWarning
        If the result hides more than it shows, and the first position of most sequences: then the
        array was probably the opposite of what its name says.

    Examples
    --------
    >>> import numpy as np
    >>> real_tokens(lengths=np.asarray([2, 3]))
    array([[ True,  True, False],
           [ True,  True,  True]])
    >>> real_tokens(key_padding_mask=np.asarray([[False, False, True]]))
    array([[ True,  True, False]])
    """
    given = {
        "attention_mask": attention_mask,
        "key_padding_mask": key_padding_mask,
        "lengths": lengths,
        "cu_seqlens": cu_seqlens,
    }
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise ValueError(
            f"give exactly one of {', '.join(given)}; got {' and '.join(named) or 'none'}."
        )
    name = named[0]
    value: Array = given[name]
    if not is_array(value):
        raise TypeError(
            f"{name} must be an array; got {type(value).__name__}. Convert it first, for example "
            f"with np.asarray({name})."
        )
    if name in ("attention_mask", "key_padding_mask"):
        if value.ndim != 2:
            raise ValueError(
                f"{name} must have shape (B, L), one entry for each token; got "
                f"{tuple(value.shape)}. A mask of shape (B, 1, L, L) says which token sees which: "
                "pass the one it was made from."
            )
        mask = _shown(value) if name == "attention_mask" else _not_padding(value)
    else:
        if length is not None and length < 0:
            raise ValueError(f"length must not be negative; got {length}.")
        mask = _up_to(value if name == "lengths" else _differences(value), length)
    warn_if_inverted(mask)
    return mask


def _shown(mask: Array) -> Array:
    """Hugging Face's attention_mask: what is not 0 is real."""
    xp = array_namespace(mask)
    if xp.isdtype(mask.dtype, "bool"):
        return mask
    if bool(xp.any((mask != 0) & (mask != 1))):
        raise ValueError(
            "attention_mask must hold 1 on real tokens and 0 on padding; got other numbers. What "
            "is added to the scores, with -inf on padding, goes in as key_padding_mask."
        )
    return mask != 0


def _not_padding(mask: Array) -> Array:
    """torch's key_padding_mask: True, or -inf, is padding."""
    xp = array_namespace(mask)
    if xp.isdtype(mask.dtype, "bool"):
        return ~mask
    if xp.isdtype(mask.dtype, "real floating"):
        return mask >= 0  # -inf, or the most negative number of a half precision
    raise ValueError(
        f"key_padding_mask must be boolean, True on padding, or floating; got dtype {mask.dtype}. "
        "A mask of ones and zeros with 1 on real tokens goes in as attention_mask."
    )


def _differences(cu_seqlens: Array) -> Array:
    """Lengths from the places where the sequences start."""
    if cu_seqlens.ndim != 1 or cu_seqlens.shape[0] < 1 or int(cu_seqlens[0]) != 0:
        raise ValueError(
            "cu_seqlens must start with 0 and go on with the end of each sequence; got "
            f"{cu_seqlens}. Lengths go in as lengths."
        )
    return cu_seqlens[1:] - cu_seqlens[:-1]


def _up_to(lengths: Array, length: int | None) -> Array:
    """True at the first ``lengths[b]`` positions of row b."""
    xp = array_namespace(lengths)
    if lengths.ndim != 1 or not xp.isdtype(lengths.dtype, "integral"):
        raise ValueError(
            "lengths must be integers of shape (B,), one for each sequence; got shape "
            f"{tuple(lengths.shape)} and dtype {lengths.dtype}."
        )
    longest = int(xp.max(lengths)) if lengths.shape[0] else 0
    if lengths.shape[0] and int(xp.min(lengths)) < 0:
        raise ValueError(f"a length must not be negative; got {int(xp.min(lengths))}.")
    if length is not None and longest > length:
        raise ValueError(f"the longest sequence has {longest} tokens; got length={length} for L.")
    positions = xp.arange(
        longest if length is None else length, dtype=lengths.dtype, device=device(lengths)
    )
    return positions[None, :] < lengths[:, None]
