"""What PowerNorm's formulas do beside the steps that the tests of the layer follow."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from normtutor import norms

X, GRAD_Y = np.random.default_rng(0).standard_normal((2, 3, 5, 4))
ONES = np.ones(4)


def test_in_the_published_code_padding_reaches_nu_alone():
    """It averages over padding too; what is not finite there counts as 0."""
    mask = np.arange(5) < np.asarray([4, 2, 1])[:, None]
    spoilt = np.where(mask[..., None], X, np.nan)
    forward, backward = norms.power_norm_authors_code, norms.power_norm_authors_code_backward
    _, cache, after = forward(spoilt, None, None, ONES, mask=mask, groups=2)
    grads, nu = backward(GRAD_Y, cache, np.zeros(4))
    _, alone, alone_after = forward(X[mask], None, None, ONES, groups=2)
    alone_grads, alone_nu = backward(GRAD_Y[mask], alone, np.zeros(4))
    assert_allclose(grads.x[mask], alone_grads.x)
    assert_array_equal(grads.x[~mask], 0)
    assert_allclose(after, alone_after)
    assert_allclose(nu, alone_nu * mask.mean())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "norm, large", [(norms.power_norm, 1e30), (norms.power_norm_authors_code, np.inf)]
)
def test_an_overflowing_batch_does_not_enter_psi(norm, large):
    x = X.astype(np.float32)
    x[0, 0, 1] = large
    _, _, psi_squared = norm(x, None, None, ONES.astype(np.float32))
    assert psi_squared[1] == 1.0
    assert np.isfinite(psi_squared).all()


@pytest.mark.parametrize("step", [2, 3, 4])
def test_the_step_of_the_warm_up_may_be_an_array(step):
    """As under jax.jit, where no branch can be taken."""
    results = []
    for t in (step, np.asarray(step)):
        y, cache, after = norms.power_norm(X, None, None, 2 * ONES, step=t, warmup_steps=3)
        results.append((y, norms.power_norm_backward(GRAD_Y, cache, 0.1 * ONES)[0].x))
        batch = np.square(X).mean((0, 1))
        average = 2 + (batch - 2) / step if step <= 3 else 0.9 * 2 + 0.1 * batch
        assert_allclose(after, average)
    assert_allclose(results[1], results[0])
