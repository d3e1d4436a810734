"""The statistics on which every norm stands."""

import numpy as np
import torch
from numpy.testing import assert_allclose, assert_array_equal

from normtutor import norms
from normtutor.moments import count, mean, mean_square, unbiased, widen

x = np.random.default_rng(0).standard_normal((3, 4, 5)) + 2


def test_against_numpy():
    _, cache = norms.normalize(x, (0, 2))
    mu, variance = cache.mean, cache.square
    assert_allclose(mu, x.mean(axis=(0, 2), keepdims=True))
    assert_allclose(variance, x.var(axis=(0, 2), keepdims=True))
    assert_allclose(mean_square(x, (1,)), (x**2).mean(axis=1, keepdims=True))
    assert_allclose(unbiased(variance, 15), x.var(axis=(0, 2), keepdims=True, ddof=1))
    assert_array_equal(mean(x[:0], (0,)), np.zeros((1, 4, 5)))
    mask = np.asarray([True, False, True]).reshape(3, 1, 1)  # it counts for every value
    assert_array_equal(count(x, (0, 1, 2), mask), 2 * 4 * 5)
    assert_allclose(mean(x, (0, 1, 2), mask)[0, 0, 0], x[[0, 2]].mean())
    _, cache = norms.normalize(x, (0, 1, 2), mask=mask)
    assert_allclose(cache.square[0, 0, 0], x[[0, 2]].var())


def test_half_precision_would_overflow_without_widening():
    large = np.full((1, 4), 300.0, np.float16)  # 300² is beyond float16
    assert_array_equal(mean_square(widen(large), (1,)), 90000)
    for narrow in (torch.float16, torch.bfloat16):
        assert widen(torch.ones(2, dtype=narrow)).dtype == torch.float32
