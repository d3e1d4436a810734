"""The formulas on arrays that have what the array API standard has, and nothing else."""

import numpy as np
import pytest
from norm_cases import CASES, draw
from numpy.testing import assert_allclose

strict = pytest.importorskip("array_api_strict")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_formulas_use_nothing_beyond_the_standard(case):
    drawn = draw(case)
    x, weight, bias, grad_y = (strict.asarray(a) for a in drawn)
    y, cache, *_ = case.forward(x, weight, bias)
    expected, expected_cache, *_ = case.forward(*drawn[:3])
    assert_allclose(np.asarray(y), expected)
    grads, wanted = case.backward(grad_y, cache), case.backward(drawn[3], expected_cache)
    for grad, other in zip(grads, wanted, strict=True):
        assert_allclose(np.asarray(grad), other, rtol=1e-9, atol=1e-12)
