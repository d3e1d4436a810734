"""Masks from what other libraries pass around."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from normtutor import norms
from normtutor.masks import real_tokens

LENGTHS = [3, 1, 4]
MASK = np.arange(4) < np.asarray(LENGTHS)[:, None]
ADDED = np.where(MASK, 0.0, -np.inf)  # to the scores of attention


@pytest.mark.parametrize("asarray", [np.asarray, torch.as_tensor])
def test_every_form_gives_the_same_mask(asarray):
    forms = [
        {"lengths": LENGTHS},
        {"lengths": LENGTHS, "length": 4},
        {"cu_seqlens": [0, 3, 4, 8]},
        {"attention_mask": MASK},
        {"attention_mask": MASK.astype(np.int64)},
        {"attention_mask": MASK.astype(np.float32)},
        {"key_padding_mask": ~MASK},
        {"key_padding_mask": ADDED},
        {"key_padding_mask": np.where(MASK, 0, np.finfo(np.float32).min)},
    ]
    for form in forms:
        name, value = next(iter(form.items()))
        mask = real_tokens(**form | {name: asarray(value)})
        assert type(mask) is type(asarray(MASK))
        assert_array_equal(np.asarray(mask), MASK)


def test_a_longer_row_no_row_and_another_device():
    assert real_tokens(lengths=np.asarray([2]), length=4).tolist() == [[True, True, False, False]]
    assert real_tokens(lengths=np.zeros(0, dtype=int)).shape == (0, 0)
    # On another device no value is looked at, which would have to wait for it.
    assert real_tokens(key_padding_mask=torch.ones(2, 3, dtype=torch.bool, device="meta")).is_meta


def test_an_inverted_mask_is_warned_of_and_padding_on_the_left_is_not():
    x = np.random.default_rng(0).standard_normal((3, 4, 2))
    for right in (MASK, MASK[:, ::-1], np.arange(4) >= np.asarray([1, 1, 2])[:, None]):
        norms.batch_norm(x, mask=right, feature_axis=-1)
    for call in (
        lambda: real_tokens(attention_mask=~MASK),
        lambda: real_tokens(attention_mask=(~MASK).astype(int)),
        lambda: real_tokens(key_padding_mask=MASK),
        lambda: norms.batch_norm(x, mask=~MASK, feature_axis=-1),
        lambda: norms.batch_norm(torch.as_tensor(x), mask=torch.as_tensor(~MASK), feature_axis=-1),
    ):
        with pytest.warns(UserWarning, match=r"hides the first position of 100%.*real_tokens"):
            call()


@pytest.mark.parametrize(
    "arguments, error, says",
    [
        ({}, ValueError, "exactly one of attention_mask.*got none"),
        ({"lengths": LENGTHS, "cu_seqlens": LENGTHS}, ValueError, "got lengths and cu_seqlens"),
        ({"lengths": LENGTHS}, TypeError, "must be an array; got list"),
        ({"lengths": np.asarray([1.0])}, ValueError, "must be integers"),
        ({"lengths": np.asarray([-1])}, ValueError, "must not be negative; got -1"),
        ({"lengths": np.asarray([1]), "length": -1}, ValueError, "must not be negative; got -1"),
        ({"lengths": np.asarray([5]), "length": 4}, ValueError, "longest sequence has 5"),
        ({"cu_seqlens": np.asarray([3, 4])}, ValueError, "must start with 0"),
        ({"attention_mask": MASK[None, None]}, ValueError, r"must have shape \(B, L\)"),
        ({"attention_mask": ADDED}, ValueError, "goes in as key_padding_mask"),
        ({"key_padding_mask": MASK.astype(int)}, ValueError, "goes in as attention_mask"),
    ],
)
def test_wrong_arguments(arguments, error, says):
    with pytest.raises(error, match=says):
        real_tokens(**arguments)
