"""The one formula against autograd, over any axes, and what a norm forgets."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from normtutor import norms
from normtutor.moments import count, mean, mean_square, unbiased

AXES = [-1, 1, (0, 1), (-2, -1), (0, 1, 2)]
MASK = torch.arange(5)[:, None] < torch.tensor([5, 2, 3])[:, None, None]
MEMORY = (torch.linspace(-1, 1, 6).double(), torch.linspace(0.5, 2, 6).double())
every_group = pytest.mark.parametrize("axes", AXES, ids=str)
centred_or_not = pytest.mark.parametrize("centred", [True, False], ids=["centred", "as it is"])


def draw() -> tuple[torch.Tensor, torch.Tensor]:
    x, g = torch.randn(2, 3, 5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x.add(0.7).requires_grad_(), g


@every_group
@centred_or_not
@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "masked"])
@pytest.mark.parametrize("memory", [None, MEMORY], ids=["own", "remembered"])
def test_the_way_back_is_autograds_at_any_eps(axes, centred, mask, memory):
    x, g = draw()
    x_hat, cache = norms.normalize(x, axes, centred=centred, eps=0.3, mask=mask, memory=memory)
    (expected,) = torch.autograd.grad(x_hat, x, g)
    assert_allclose(norms.normalize_backward(g, cache).detach(), expected, rtol=0, atol=1e-14)
    assert expected.any()


@every_group
@centred_or_not
def test_with_sums_it_divides_by_the_length(axes, centred):
    x, g = draw()
    x_hat, cache = norms.normalize(x, axes, centred=centred, sums=True, eps=0.3, mask=MASK)
    c = torch.where(MASK, x - (cache.mean if centred else 0.0), 0.0)
    length = (c.square().sum(axes, keepdim=True) + 0.3).sqrt()
    assert_allclose(x_hat.detach(), (c / length).detach(), rtol=1e-13)
    if centred:
        assert_allclose(x_hat.detach().sum(axes), 0, atol=1e-13)
    (expected,) = torch.autograd.grad(x_hat, x, g)
    assert_allclose(norms.normalize_backward(g, cache).detach(), expected, rtol=0, atol=1e-14)


def test_it_is_layer_norm_with_torchs_numbers_and_takes_half_precision():
    x, g = draw()
    expected = torch.nn.functional.layer_norm(x, (6,))
    assert_allclose(norms.normalize(x, -1)[0].detach(), expected.detach(), atol=1e-14)
    x_hat, cache = norms.normalize(x.detach().half(), -1)
    back = norms.normalize_backward(g.half(), cache)
    assert x_hat.dtype == back.dtype == torch.float32
    assert torch.equal(back, norms.normalize_backward(g.half().float(), cache))


# --- the statistics -------------------------------------------------------------------------------

X = np.random.default_rng(0).standard_normal((3, 4, 5)) + 2


def test_against_numpy():
    _, cache = norms.normalize(X, (0, 2))
    mu, variance = cache.mean, cache.square
    assert_allclose(mu, X.mean(axis=(0, 2), keepdims=True))
    assert_allclose(variance, X.var(axis=(0, 2), keepdims=True))
    assert_allclose(mean_square(X, (1,)), (X**2).mean(axis=1, keepdims=True))
    assert_allclose(unbiased(variance, 15), X.var(axis=(0, 2), keepdims=True, ddof=1))
    assert_array_equal(mean(X[:0], (0,)), np.zeros((1, 4, 5)))
    mask = np.asarray([True, False, True]).reshape(3, 1, 1)  # it counts for every value
    assert_array_equal(count(X, (0, 1, 2), mask), 2 * 4 * 5)
    assert_allclose(mean(X, (0, 1, 2), mask)[0, 0, 0], X[[0, 2]].mean())
    _, cache = norms.normalize(X, (0, 1, 2), mask=mask)
    assert_allclose(cache.square[0, 0, 0], X[[0, 2]].var())
