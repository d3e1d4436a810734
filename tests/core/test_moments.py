"""The statistics on which every norm stands."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from normtutor.moments import count, mean, mean_square, moments, unbiased, unless_empty, widen
from normtutor.tracing import known_value, spare_gradient

x = np.random.default_rng(0).standard_normal((3, 4, 5)) + 2


def test_against_numpy():
    mu, variance = moments(x, (0, 2))
    assert_allclose(mu, x.mean(axis=(0, 2), keepdims=True))
    assert_allclose(variance, x.var(axis=(0, 2), keepdims=True))
    assert_allclose(mean_square(x, (1,)), (x**2).mean(axis=1, keepdims=True))
    assert_allclose(unbiased(variance, 15), x.var(axis=(0, 2), keepdims=True, ddof=1))


@settings(max_examples=40)
@given(st.lists(st.booleans(), min_size=12, max_size=12))
def test_masked_statistics_are_those_of_the_chosen(flags):
    mask = np.asarray(flags).reshape(3, 4, 1)
    chosen = x[mask[..., 0]]
    mu, variance = moments(x, (0, 1), mask)
    n = count(x, (0, 1), mask)
    assert_array_equal(n, mask.sum())
    if len(chosen):
        assert_allclose(mu[0, 0], chosen.mean(0))
        assert_allclose(variance[0, 0], chosen.var(0), atol=1e-15)
    else:
        assert_array_equal(mu, 0)
        assert_array_equal(variance, 0)


def test_a_mask_that_only_broadcasts_counts_every_value():
    mask = np.asarray([True, False, True]).reshape(3, 1, 1)
    assert_array_equal(count(x, (0, 1, 2), mask), 2 * 4 * 5)
    assert_allclose(mean(x, (0, 1, 2), mask)[0, 0, 0], x[[0, 2]].mean())


def test_without_values_the_mean_is_zero():
    assert_array_equal(mean(np.zeros((0, 3)), (0,)), np.zeros((1, 3)))
    assert count(np.zeros((0, 3)), (0,)) == 0


def test_unless_empty():
    new, old = np.ones(2), np.zeros(2)
    assert unless_empty(new, old, 3) is new
    assert unless_empty(new, old, 0) is old
    assert_array_equal(unless_empty(new, old, np.asarray([1.0, 0.0])), [1, 0])


@pytest.mark.parametrize(
    "given_dtype, wide",
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_widen(given_dtype, wide):
    assert widen(torch.ones(2, dtype=given_dtype)).dtype == wide


def test_half_precision_would_overflow_without_widening():
    large = np.full((1, 4), 300.0, np.float16)  # 300² is beyond float16
    assert_array_equal(mean_square(widen(large), (1,)), 90000)
    with np.errstate(over="ignore"):
        assert np.isinf(mean_square(large, (1,))).all()


def test_known_value():
    assert known_value(3) == 3.0
    assert known_value(np.asarray(2.0)) == known_value(np.asarray([[2.0]])) == 2.0
    assert known_value(torch.ones(1, 1)) == 1.0
    assert torch.func.vmap(lambda t: t * (known_value(t) is None))(torch.ones(2)).tolist() == [1, 1]


def test_a_jitted_value_is_not_known():
    jax = pytest.importorskip("jax")
    seen = []
    jax.jit(lambda t: seen.append(known_value(t)) or t)(1.0)
    assert seen == [None]


def test_jit_of_a_masked_norm():
    jax = pytest.importorskip("jax")
    from normtutor import norms

    mask = np.arange(4) < np.asarray([4, 2, 1])[:, None]

    def masked(x):
        return norms.batch_norm(x, mask=jax.numpy.asarray(mask), feature_axis=-1)[0]

    assert_allclose(
        jax.jit(masked)(x), norms.batch_norm(x, mask=mask, feature_axis=-1)[0], atol=1e-5
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_code_spares_the_gradient_of_the_mean_and_nothing_else():
    """The variance does not change with the mean, so first and second derivatives are the same."""
    torch._dynamo.reset()

    def squared(x: torch.Tensor) -> torch.Tensor:
        return moments(x, (-1,)).variance.square().sum()

    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(squared(x), x)
    (found,) = torch.autograd.grad(torch.compile(squared, backend="aot_eager")(x), x)
    torch.testing.assert_close(found, expected)
    assert spare_gradient(x) is x
    assert spare_gradient(np.ones(3)) is not None
