"""PowerNorm's formulas over several steps, against straight-line restatements."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from normtutor import norms

STEPS, N, H = 6, 12, 4


def stream(seed: int = 0):
    generator = np.random.default_rng(seed)
    weight, bias = generator.standard_normal((2, H))
    batches = generator.standard_normal((STEPS, N, H)) * 2 + 0.5
    return weight, bias, batches, generator.standard_normal((STEPS, N, H))


def test_the_paper_step_by_step():
    """Algorithm 2 feature by feature, with plain Python numbers."""
    weight, bias, batches, upstream = stream()
    alpha_f, alpha_b, eps = 0.9, 0.8, 1e-5
    psi_squared, nu = np.ones(H), np.zeros(H)
    for x, g_y in zip(batches, upstream, strict=True):
        y, cache, new_psi_squared = norms.power_norm(
            x, weight, bias, psi_squared, alpha=alpha_f, eps=eps
        )
        grads, new_nu = norms.power_norm_backward(g_y, cache, nu, alpha=alpha_b)
        for j in range(H):
            psi = (psi_squared[j] + eps) ** 0.5
            hat = [x[i, j] / psi for i in range(N)]
            g = [weight[j] * g_y[i, j] for i in range(N)]
            gamma = sum(h * h for h in hat) / N
            lam = sum(a * h for a, h in zip(g, hat, strict=True)) / N
            batch = sum(v * v for v in x[:, j]) / N
            assert_allclose(y[:, j], [weight[j] * h + bias[j] for h in hat], rtol=1e-12)
            expected = [(a - nu[j] * h) / psi for a, h in zip(g, hat, strict=True)]
            assert_allclose(grads.x[:, j], expected, rtol=1e-11)
            assert_allclose(new_psi_squared[j], alpha_f * psi_squared[j] + (1 - alpha_f) * batch)
            assert_allclose(
                new_nu[j], nu[j] * (1 - (1 - alpha_b) * gamma) + (1 - alpha_b) * lam, rtol=1e-11
            )
            assert_allclose(grads.weight[j], sum(g_y[i, j] * hat[i] for i in range(N)))
        psi_squared, nu = new_psi_squared, new_nu


def test_the_warm_up_is_pn_v_and_a_plain_average():
    weight, bias, batches, upstream = stream()
    psi_squared, nu = np.ones(H), np.zeros(H)
    for t, (x, g_y) in enumerate(zip(batches, upstream, strict=True), start=1):
        y, cache, psi_squared = norms.power_norm(
            x, weight, bias, psi_squared, step=t, warmup_steps=4
        )
        grads, nu = norms.power_norm_backward(g_y, cache, nu)
        exact_y, exact_cache = norms.power_norm_v(x, weight, bias)
        exact = norms.power_norm_v_backward(g_y, exact_cache)
        if t <= 4:
            assert_allclose(y, exact_y)
            assert_allclose(grads.x, exact.x)
            assert_allclose(psi_squared, (batches[:t] ** 2).mean(axis=(0, 1)))
        else:
            assert not np.allclose(y, exact_y)
            assert not np.allclose(grads.x, exact.x)
    assert (nu != 0).all()


def test_pn_v_is_exact():
    weight, bias, batches, upstream = stream()
    leaves = [torch.asarray(a).requires_grad_() for a in (batches[0], weight, bias)]
    y, _ = norms.power_norm_v(*leaves)
    expected = torch.autograd.grad(y, leaves, torch.asarray(upstream[0]))
    grads = norms.power_norm_v_backward(
        upstream[0], norms.power_norm_v(batches[0], weight, bias)[1]
    )
    for mine, theirs in zip(grads, expected, strict=True):
        assert_allclose(mine, theirs.numpy(), rtol=1e-10, atol=1e-12)


def authors_step(x, gamma, beta, grad_y, phi, z, t, *, warmup, groups, alpha, eps=1e-5):
    """One training step of the published code, restated: returns y, dx and the new φ and z."""
    h = x.shape[1]
    s = np.empty_like(x)
    for group in np.split(np.arange(h), groups):
        s[:, group] = x[:, group] / np.sqrt((x[:, group] ** 2).mean(1, keepdims=True) + eps)
    q = (s**2).mean(0)
    hat = s / np.sqrt((q if t <= warmup else phi) + eps)
    if t < warmup:
        phi = phi * (t - 1) / t + q / t
    phi = alpha * phi + (1 - alpha) * q
    g = gamma * grad_y
    e = g - (1 - alpha) * z * hat
    z = z + (e * hat).mean(0)
    ds = e / np.sqrt(q + eps)
    dx = np.empty_like(x)
    for group in np.split(np.arange(h), groups):
        rms = np.sqrt((x[:, group] ** 2).mean(1, keepdims=True) + eps)
        unit = x[:, group] / rms
        dx[:, group] = (ds[:, group] - unit * (ds[:, group] * unit).mean(1, keepdims=True)) / rms
    return gamma * hat + beta, dx, phi, z


@pytest.mark.parametrize("warmup", [0, 1, 3, 100])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("alpha", [0.9, 0.6])
def test_the_published_code_step_by_step(warmup, groups, alpha):
    weight, bias, batches, upstream = stream()
    psi_squared, nu = np.ones(H), np.zeros(H)
    phi, z = np.ones(H), np.zeros(H)
    for t, (x, g_y) in enumerate(zip(batches, upstream, strict=True), start=1):
        expected_y, expected_dx, phi, z = authors_step(
            x, weight, bias, g_y, phi, z, t, warmup=warmup, groups=groups, alpha=alpha
        )
        y, cache, psi_squared = norms.power_norm_authors_code(
            x, weight, bias, psi_squared, alpha=alpha, step=t, warmup_steps=warmup, groups=groups
        )
        grads, nu = norms.power_norm_authors_code_backward(g_y, cache, nu, alpha=alpha)
        assert_allclose(y, expected_y, rtol=1e-11)
        assert_allclose(grads.x, expected_dx, rtol=1e-9, atol=1e-11)
        assert_allclose(psi_squared, phi, rtol=1e-11)
        assert_allclose(nu, (1 - alpha) * z, rtol=1e-9, atol=1e-12)


def test_the_published_code_in_evaluation_scales_each_token():
    weight, bias, batches, upstream = stream()
    ramp = np.linspace(1, 2, H)
    y, cache, after = norms.power_norm_authors_code(
        batches[0], weight, bias, ramp, training=False, groups=2
    )
    again, _, _ = norms.power_norm_authors_code(
        batches[0] * 7, weight, bias, ramp, training=False, groups=2
    )
    assert_allclose(y, again, rtol=1e-4)
    assert_array_equal(after, ramp)
    leaf = torch.asarray(batches[0]).requires_grad_()
    out, _, _ = norms.power_norm_authors_code(
        leaf,
        torch.asarray(weight),
        torch.asarray(bias),
        torch.asarray(ramp),
        training=False,
        groups=2,
    )
    (expected,) = torch.autograd.grad(out, leaf, torch.asarray(upstream[0]))
    nu = np.full(H, 5.0)
    grads, new_nu = norms.power_norm_authors_code_backward(upstream[0], cache, nu)
    assert_allclose(grads.x, expected.numpy(), rtol=1e-9, atol=1e-12)
    assert_array_equal(new_nu, nu)


def test_in_the_published_code_padding_reaches_nu_alone():
    """It averages over padding too; what is not finite there counts as 0."""
    weight, bias, batches, upstream = stream()
    x, g_y = batches[0].reshape(3, 4, H), upstream[0].reshape(3, 4, H)
    mask = np.arange(4) < np.asarray([4, 2, 1])[:, None]
    spoilt = np.where(mask[..., None], x, np.nan)
    y, cache, after = norms.power_norm_authors_code(
        spoilt, weight, bias, np.ones(H), mask=mask, groups=2
    )
    grads, nu = norms.power_norm_authors_code_backward(g_y, cache, np.zeros(H))
    alone, alone_cache, alone_after = norms.power_norm_authors_code(
        x[mask], weight, bias, np.ones(H), groups=2
    )
    alone_grads, alone_nu = norms.power_norm_authors_code_backward(
        g_y[mask], alone_cache, np.zeros(H)
    )
    assert_allclose(y[mask], alone)
    assert_array_equal(y[~mask], 0)
    assert_allclose(grads.x[mask], alone_grads.x)
    assert_array_equal(grads.x[~mask], 0)
    assert_allclose(after, alone_after)
    assert_allclose(nu, alone_nu * mask.mean())

    y, cache, _ = norms.power_norm_authors_code(x, weight, bias, np.ones(H), mask=mask, groups=2)
    start = np.full(H, 0.3)
    grads, nu = norms.power_norm_authors_code_backward(g_y, cache, start)
    g_y = np.where(mask[..., None], g_y, 0.0)
    split = x.reshape(3, 4, 2, H // 2)
    s = split / np.sqrt((split**2).mean(-1, keepdims=True) + 1e-5)
    x_hat = s.reshape(x.shape) / np.sqrt(1 + 1e-5)
    e = weight * g_y - start * x_hat
    assert_allclose(nu, start + 0.1 * (e * x_hat).mean((0, 1)))
    assert_allclose(
        grads.x[mask], norms.power_norm_authors_code_backward(g_y[mask], alone_cache, start)[0].x
    )


def test_the_published_code_on_another_axis_and_in_half_precision():
    weight, bias, batches, upstream = stream()
    x, g_y = batches[0].reshape(3, 4, H), upstream[0].reshape(3, 4, H)
    y, cache, _ = norms.power_norm_authors_code(x, weight, bias, np.ones(H), groups=2)
    grads, _ = norms.power_norm_authors_code_backward(g_y, cache, np.zeros(H))
    moved, moved_cache, _ = norms.power_norm_authors_code(
        np.moveaxis(x, -1, 1), weight, bias, np.ones(H), groups=2, feature_axis=1
    )
    moved_grads, _ = norms.power_norm_authors_code_backward(
        np.moveaxis(g_y, -1, 1), moved_cache, np.zeros(H)
    )
    assert_allclose(np.moveaxis(moved, 1, -1), y)
    assert_allclose(np.moveaxis(moved_grads.x, 1, -1), grads.x)
    half, half_cache, _ = norms.power_norm_authors_code(
        x.astype(np.float16), weight, bias, np.ones(H), groups=2
    )
    assert half.dtype == np.float16
    half_grads, _ = norms.power_norm_authors_code_backward(
        g_y.astype(np.float16), half_cache, np.zeros(H)
    )
    assert half_grads.x.dtype == np.float16


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_non_finite_gradient_does_not_enter_nu(bad):
    weight, bias, batches, upstream = stream()
    _, cache, _ = norms.power_norm(batches[0], weight, bias, np.ones(H))
    upstream[0][0, 1] = bad
    nu = np.full(H, 0.5)
    with np.errstate(invalid="ignore"):
        _, new_nu = norms.power_norm_backward(upstream[0], cache, nu)
    assert new_nu[1] == 0.5
    assert (new_nu[[0, 2, 3]] != 0.5).all()


def test_evaluation_is_linear_and_changes_nothing():
    _, _, batches, upstream = stream()
    ramp, nu = np.linspace(1, 2, H), np.ones(H)
    f = lambda x: norms.power_norm(x, None, None, ramp, training=False)  # noqa: E731
    a, b = batches[:2]
    assert_allclose(f(2 * a - 3 * b)[0], 2 * f(a)[0] - 3 * f(b)[0])
    _, cache, after = f(a)
    assert_array_equal(after, ramp)
    grads, new_nu = norms.power_norm_backward(upstream[0], cache, nu)
    assert_array_equal(new_nu, nu)
    assert_allclose(grads.x, upstream[0] / np.sqrt(ramp + 1e-5))


@pytest.mark.parametrize(
    "norm", [norms.power_norm, norms.power_norm_authors_code], ids=["pn", "authors"]
)
def test_an_overflowing_batch_does_not_enter_psi(norm):
    ones = np.ones(H, np.float32)
    x = stream()[2][0].astype(np.float32)
    x[0, 1] = np.inf if norm is norms.power_norm_authors_code else 1e30
    with np.errstate(over="ignore", invalid="ignore"):
        _, _, psi_squared = norm(x, None, None, ones)
    assert psi_squared[1] == 1.0
    assert np.isfinite(psi_squared).all()


@pytest.mark.parametrize("step", [2, 3, 4])
def test_the_step_of_the_warm_up_may_be_an_array(step):
    """As under jax.jit, where no branch can be taken."""
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    running = np.linspace(0.5, 2.0, 5)
    found = [
        norms.power_norm(x, None, None, running, step=one, warmup_steps=3)
        for one in (step, np.asarray(step))
    ]
    (y, cache, updated), (other, as_array, moved) = found
    np.testing.assert_allclose(other, y)
    np.testing.assert_allclose(moved, updated)
    batch = np.square(x).mean(axis=(0, 1))
    if step <= 3:
        np.testing.assert_allclose(updated, running + (batch - running) / step)
    else:
        np.testing.assert_allclose(updated, 0.9 * running + 0.1 * batch)
    grads = [
        norms.power_norm_backward(np.ones_like(x), one, np.full(5, 0.1))[0].x
        for one in (cache, as_array)
    ]
    np.testing.assert_allclose(*grads)


def test_padding_that_cannot_be_divided_does_not_enter_nu():
    """ψ itself is not finite, and nothing but padding is there that ν could average over."""
    x, nu = np.ones((2, 3, 4)), np.arange(1.0, 5.0)
    _, cache, _ = norms.power_norm_authors_code(
        x, None, None, np.full(4, np.nan), mask=np.zeros((2, 3), dtype=bool)
    )
    _, new_nu = norms.power_norm_authors_code_backward(np.ones_like(x), cache, nu)
    assert_array_equal(new_nu, nu)
