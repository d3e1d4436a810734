"""Masks from what other libraries pass around."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from normtutor import norms
from normtutor.masks import real_tokens

LENGTHS = [3, 1, 4]
MASK = np.arange(4) < np.asarray(LENGTHS)[:, None]
OF_EACH_LIBRARY = pytest.mark.parametrize("asarray", [np.asarray, torch.as_tensor])


@OF_EACH_LIBRARY
def test_every_form_gives_the_same_mask(asarray):
    padding = np.where(MASK, 0.0, -np.inf)
    forms = [
        {"lengths": asarray(LENGTHS)},
        {"lengths": asarray(LENGTHS), "length": 4},
        {"cu_seqlens": asarray([0, 3, 4, 8])},
        {"attention_mask": asarray(MASK)},
        {"attention_mask": asarray(MASK.astype(np.int64))},
        {"attention_mask": asarray(MASK.astype(np.float32))},
        {"key_padding_mask": asarray(~MASK)},
        {"key_padding_mask": asarray(padding)},
        {"key_padding_mask": asarray(np.where(MASK, 0, np.finfo(np.float32).min))},
    ]
    for form in forms:
        mask = real_tokens(**form)
        assert type(mask) is type(asarray(MASK))
        assert_array_equal(np.asarray(mask), MASK)


def test_a_longer_row_and_no_row():
    assert real_tokens(lengths=np.asarray([2]), length=4).tolist() == [[True, True, False, False]]
    assert real_tokens(lengths=np.zeros(0, dtype=int)).shape == (0, 0)


def test_torchs_own_attention_hides_what_the_mask_hides():
    attention = torch.nn.MultiheadAttention(4, 1, batch_first=True)
    key_padding_mask = ~torch.as_tensor(MASK)
    x = torch.randn(3, 4, 4)
    _, weights = attention(x, x, x, key_padding_mask=key_padding_mask)
    mask = real_tokens(key_padding_mask=key_padding_mask)
    assert ((weights > 0).any(1) == mask).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"attention_mask": ~MASK},
        {"key_padding_mask": MASK},
        {"attention_mask": (~MASK).astype(int)},
    ],
    ids=str,
)
def test_an_inverted_mask_is_warned_of(wrong):
    with pytest.warns(UserWarning, match=r"probably inverted.*real_tokens"):
        real_tokens(**wrong)


def test_a_formula_warns_too_and_padding_on_the_left_does_not():
    x = np.random.default_rng(0).standard_normal((3, 4, 2))
    norms.batch_norm(x, mask=MASK, feature_axis=-1)
    norms.batch_norm(x, mask=MASK[:, ::-1], feature_axis=-1)
    with pytest.warns(UserWarning, match="hides the first position of 100% of the sequences"):
        norms.batch_norm(x, mask=~MASK, feature_axis=-1)


@pytest.mark.parametrize(
    "arguments, error, says",
    [
        ({}, ValueError, "exactly one of attention_mask.*got none"),
        (
            {"lengths": np.asarray([1]), "attention_mask": MASK},
            ValueError,
            "got attention_mask and lengths",
        ),
        ({"lengths": [1, 2]}, TypeError, "must be an array; got list"),
        ({"lengths": np.asarray([1.0])}, ValueError, "must be integers"),
        ({"lengths": np.asarray([-1])}, ValueError, "must not be negative; got -1"),
        ({"lengths": np.asarray([5]), "length": 4}, ValueError, "longest sequence has 5"),
        ({"cu_seqlens": np.asarray([3, 4])}, ValueError, "must start with 0"),
        ({"attention_mask": MASK[None, None]}, ValueError, r"must have shape \(B, L\)"),
        (
            {"attention_mask": np.where(MASK, 0.0, -np.inf)},
            ValueError,
            "goes in as key_padding_mask",
        ),
        ({"key_padding_mask": MASK.astype(int)}, ValueError, "goes in as attention_mask"),
    ],
)
def test_wrong_arguments(arguments, error, says):
    with pytest.raises(error, match=says):
        real_tokens(**arguments)
