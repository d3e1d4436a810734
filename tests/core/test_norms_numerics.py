"""Numbers that are hard for a formula, and what one bad number reaches."""

import numpy as np
import pytest
import torch
from norm_cases import EVERY, SHAPE, draw
from numpy.testing import assert_allclose, assert_array_equal

from normtutor import norms

every_case = pytest.mark.parametrize("case", EVERY, ids=str)


@every_case
@pytest.mark.parametrize("mean, scale", [(0, 1e-10), (0, 1e10), (1e4, 1)])
def test_float32_agrees_with_float64(case, mean, scale):
    """The mean of 1e4 rounds x itself to about 1e-3 of its deviation, which both results share."""
    normal, *parameters, _ = draw(case)
    arrays = [a.astype(np.float32) for a in (normal * scale + mean, *parameters)]
    expected = case.forward(*(a.astype(np.float64) for a in arrays))[0]
    found = case.forward(*arrays)[0]
    limit = 2e-3 if mean else 1e-5 * np.abs(expected).max()
    assert_allclose(found, expected, rtol=1e-4, atol=limit)


@every_case
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_and_zero_rows_stay_finite(case, value):
    if case.formula == "weight_norm" and value == 0.0:
        return  # a unit of length 0 has no direction
    _, *parameters, grad_y = (torch.asarray(a) for a in draw(case))
    x = torch.full(SHAPE, value, dtype=torch.float64, requires_grad=True)
    y, cache, *_ = case.forward(x, *parameters)
    assert y.isfinite().all()
    assert torch.autograd.grad(y.sum(), x)[0].isfinite().all()
    assert case.backward(grad_y, cache)[0].isfinite().all()


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_squares_that_overflow_give_zero_not_nan():
    x = np.random.default_rng(0).standard_normal((2, 8)) * 1e20
    for norm in (norms.rms_norm, norms.layer_norm):
        assert_array_equal(norm(x.astype(np.float32))[0], 0)
        assert_allclose(np.square(norm(x)[0]).mean(-1), 1, rtol=0.2)  # float64 holds the squares


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("case", [c for c in EVERY if c.reaches != "batch"], ids=str)
def test_a_bad_number_reaches_nothing_with_a_statistic_of_its_own(case):
    x, *parameters, grad_y = draw(case)
    spoilt = x.copy()
    spoilt[0, 0, 0] = np.inf
    others = np.ones(SHAPE[:2], dtype=bool)
    others[0, 0 if case.reaches == "token" else slice(None)] = False
    results = []
    for given_x in (x, spoilt):
        y, cache, *_ = case.forward(given_x, *parameters)
        results.append((y[others], case.backward(grad_y, cache)[0][others]))
    assert_array_equal(results[1], results[0])
