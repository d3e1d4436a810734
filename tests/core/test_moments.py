"""The statistics on which every norm stands."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from normtutor.moments import count, mean, mean_square, moments, unbiased, widen

x = np.random.default_rng(0).standard_normal((3, 4, 5)) + 2


def test_against_numpy():
    mu, variance = moments(x, (0, 2))
    assert_allclose(mu, x.mean(axis=(0, 2), keepdims=True))
    assert_allclose(variance, x.var(axis=(0, 2), keepdims=True))
    assert_allclose(mean_square(x, (1,)), (x**2).mean(axis=1, keepdims=True))
    assert_allclose(unbiased(variance, 15), x.var(axis=(0, 2), keepdims=True, ddof=1))
    assert_array_equal(mean(x[:0], (0,)), np.zeros((1, 4, 5)))
    mask = np.asarray([True, False, True]).reshape(3, 1, 1)  # it counts for every value
    assert_array_equal(count(x, (0, 1, 2), mask), 2 * 4 * 5)
    assert_allclose(mean(x, (0, 1, 2), mask)[0, 0, 0], x[[0, 2]].mean())


@settings(max_examples=40)
@given(st.lists(st.booleans(), min_size=12, max_size=12))
def test_masked_statistics_are_those_of_the_chosen(flags):
    mask = np.asarray(flags).reshape(3, 4, 1)
    chosen = x[mask[..., 0]] if any(flags) else np.zeros((1, 5))
    mu, variance = moments(x, (0, 1), mask)
    assert_array_equal(count(x, (0, 1), mask), mask.sum())
    assert_allclose(mu[0, 0], chosen.mean(0))
    assert_allclose(variance[0, 0], chosen.var(0), atol=1e-15)


def test_half_precision_would_overflow_without_widening():
    large = np.full((1, 4), 300.0, np.float16)  # 300² is beyond float16
    assert_array_equal(mean_square(widen(large), (1,)), 90000)
    for narrow in (torch.float16, torch.bfloat16):
        assert widen(torch.ones(2, dtype=narrow)).dtype == torch.float32
