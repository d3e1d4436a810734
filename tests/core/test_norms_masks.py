"""What a mask promises: padding never matters, whatever it holds."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from norm_cases import FEATURES, MASKED
from numpy.testing import assert_allclose, assert_array_equal

from normtutor import norms
from normtutor.gradcheck import gradient_errors

each_norm = pytest.mark.parametrize("name", MASKED)
B, L, H = 3, 5, FEATURES


def draw(seed: int = 0):
    generator = np.random.default_rng(seed)
    x, grad_y = generator.standard_normal((2, B, L, H))
    weight, bias = generator.standard_normal((2, H))
    mask = np.arange(L) < np.asarray([5, 3, 2])[:, None]
    return x * 2 + 0.5, weight, bias, mask, grad_y


def run(name, x, weight, bias, mask, grad_y):
    forward, backward = (partial(MASKED[name][0], feature_axis=-1), MASKED[name][1])
    y, cache, *rest = forward(x, weight, bias, mask=mask)
    return y, backward(grad_y, cache), rest


@each_norm
def test_a_mask_without_padding_changes_nothing(name):
    x, weight, bias, _, grad_y = draw()
    y, grads, _ = run(name, x, weight, bias, np.ones((B, L), dtype=bool), grad_y)
    plain, plain_grads, _ = run(name, x, weight, bias, None, grad_y)
    assert_allclose(y, plain, rtol=1e-12, atol=1e-13)
    for mine, theirs in zip(grads, plain_grads, strict=True):
        assert_allclose(mine, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["batch_norm", "batch_norm_evaluation", "power_norm_v"])
def test_masked_equals_the_real_tokens_alone_over_the_batch(name):
    x, weight, bias, mask, grad_y = draw()
    y, grads, _ = run(name, x, weight, bias, mask, grad_y)
    alone, alone_grads, _ = run(name, x[mask], weight, bias, None, grad_y[mask])
    assert_allclose(y[mask], alone, rtol=1e-12, atol=1e-13)
    assert_allclose(grads.x[mask], alone_grads.x, rtol=1e-11, atol=1e-12)
    assert_allclose(grads.weight, alone_grads.weight, rtol=1e-11, atol=1e-12)
    assert_allclose(grads.bias, alone_grads.bias, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["group_norm", "instance_norm"])
def test_masked_equals_the_real_tokens_alone_in_each_sequence(name):
    x, weight, bias, mask, grad_y = draw()
    y, grads, _ = run(name, x, weight, bias, mask, grad_y)
    for b in range(B):
        n = mask[b].sum()
        alone, alone_grads, _ = run(
            name, x[b : b + 1, :n], weight, bias, None, grad_y[b : b + 1, :n]
        )
        assert_allclose(y[b, :n], alone[0], rtol=1e-12, atol=1e-13)
        assert_allclose(grads.x[b, :n], alone_grads.x[0], rtol=1e-11, atol=1e-12)


@each_norm
@pytest.mark.parametrize("junk", [0.0, 1e30, np.nan, np.inf])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_what_stands_at_masked_positions_never_matters(name, junk, library):
    x, weight, bias, mask, grad_y = draw()
    expected_y, expected_grads, _ = run(name, x, weight, bias, mask, grad_y)
    spoilt, spoilt_grad = x.copy(), grad_y.copy()
    spoilt[~mask] = junk
    spoilt_grad[~mask] = junk
    arrays = (spoilt, weight, bias, mask, spoilt_grad)
    if library == "torch":
        arrays = tuple(torch.asarray(a) for a in arrays)
    y, grads, _ = run(name, *arrays)
    assert_array_equal(np.asarray(y)[~mask], 0)
    assert_array_equal(np.asarray(grads.x)[~mask], 0)
    assert_allclose(np.asarray(y), expected_y, rtol=1e-12, atol=1e-13)
    for mine, theirs in zip(grads, expected_grads, strict=True):
        assert_allclose(np.asarray(mine), theirs, rtol=1e-11, atol=1e-12)


@each_norm
@pytest.mark.parametrize("junk", [1e30, np.nan])
def test_autograd_sends_nothing_to_or_through_masked_positions(name, junk):
    x, weight, bias, mask, grad_y = draw()
    _, expected, _ = run(name, x, weight, bias, mask, grad_y)
    x[~mask] = junk
    leaves = [torch.asarray(a).requires_grad_() for a in (x, weight, bias)]
    y, *_ = MASKED[name][0](*leaves, mask=torch.asarray(mask), feature_axis=-1)
    got = torch.autograd.grad(y, leaves, torch.asarray(grad_y))
    for mine, theirs in zip(got, expected, strict=True):
        assert_allclose(mine.numpy(), theirs, rtol=1e-10, atol=1e-11)
    assert_array_equal(got[0].numpy()[~mask], 0)


@each_norm
def test_masked_backward_agrees_with_finite_differences(name):
    x, weight, bias, mask, grad_y = draw()
    _, grads, _ = run(name, x, weight, bias, mask, grad_y)
    errors = gradient_errors(
        lambda *a: MASKED[name][0](*a, mask=mask, feature_axis=-1)[0],
        [x, weight, bias],
        [grads.x, grads.weight, grads.bias],
        grad_y,
    )
    assert max(errors) < 1e-7, errors


def test_images_take_a_mask_without_the_channel_axis():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((2, FEATURES, 3, 4))
    mask = generator.random((2, 3, 4)) < 0.6
    y, _, _ = norms.batch_norm(x, mask=mask)
    moved = np.moveaxis(x, 1, -1)
    alone, _, _ = norms.batch_norm(moved[mask])
    assert_allclose(np.moveaxis(y, 1, -1)[mask], alone, rtol=1e-12, atol=1e-13)


# --- running statistics ---------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the mask hides:UserWarning")
@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_running_statistics_count_real_tokens_only(lengths):
    if sum(lengths) == 1:
        return
    x = np.random.default_rng(0).standard_normal((len(lengths), 6, 3))
    mask = np.arange(6) < np.asarray(lengths)[:, None]
    mean, var = np.full(3, 0.3), np.full(3, 2.0)
    _, _, running = norms.batch_norm(
        x, None, None, mean, var, momentum=0.25, mask=mask, feature_axis=-1
    )
    if sum(lengths) == 0:
        assert_array_equal(running.mean, mean)
        assert_array_equal(running.var, var)
    else:
        assert_allclose(running.mean, 0.75 * mean + 0.25 * x[mask].mean(0))
        assert_allclose(running.var, 0.75 * var + 0.25 * x[mask].var(0, ddof=1))


@pytest.mark.filterwarnings("ignore:the mask hides:UserWarning")
def test_running_statistics_of_instance_norm_skip_empty_sequences():
    x = np.random.default_rng(0).standard_normal((3, 4, 2))
    mask = np.asarray([[1, 1, 1, 0], [0, 0, 0, 0], [1, 1, 0, 0]], dtype=bool)
    zeros, ones = np.zeros(2), np.ones(2)
    _, _, running = norms.instance_norm(
        x, None, None, zeros, ones, momentum=1.0, mask=mask, feature_axis=-1
    )
    assert_allclose(running.mean, (x[0, :3].mean(0) + x[2, :2].mean(0)) / 2)
    assert_allclose(running.var, (x[0, :3].var(0, ddof=1) + x[2, :2].var(0, ddof=1)) / 2)
    nothing = np.zeros((3, 4), dtype=bool)
    _, _, running = norms.instance_norm(x, None, None, zeros, ones, mask=nothing, feature_axis=-1)
    assert_array_equal(running.mean, zeros)
    assert_array_equal(running.var, ones)


@pytest.mark.filterwarnings("ignore:the mask hides:UserWarning")
def test_running_mean_square_counts_real_tokens_only():
    x, weight, bias, mask, _ = draw()
    ones = np.ones(H)
    _, _, psi_squared = norms.power_norm(x, weight, bias, ones, alpha=0.75, mask=mask)
    assert_allclose(psi_squared, 0.75 + 0.25 * (x[mask] ** 2).mean(0))
    _, _, untouched = norms.power_norm(x, weight, bias, ones, mask=np.zeros_like(mask))
    assert_array_equal(untouched, ones)


@each_norm
def test_a_batch_of_padding_gives_zeros(name):
    x, weight, bias, _, grad_y = draw()
    nothing = np.zeros((B, L), dtype=bool)
    y, grads, _ = run(name, x, weight, bias, nothing, grad_y)
    assert_array_equal(y, 0)
    for grad in grads:
        assert_array_equal(grad, 0)


@each_norm
def test_an_empty_batch(name):
    _, weight, bias, _, _ = draw()
    x = np.zeros((0, L, H))
    y, grads, _ = run(name, x, weight, bias, None, x)
    assert y.shape == x.shape == grads.x.shape
    assert_array_equal(grads.weight, 0)


def test_an_empty_batch_leaves_running_statistics():
    x, mean, var = np.zeros((0, 3)), np.ones(3), np.full(3, 2.0)
    _, _, running = norms.batch_norm(x, None, None, mean, var)
    assert_array_equal(running.mean, mean)
    assert_array_equal(running.var, var)
    _, _, psi_squared = norms.power_norm(x, None, None, var)
    assert_array_equal(psi_squared, var)


# --- errors ---------------------------------------------------------------------------------------


@each_norm
def test_a_mask_of_the_wrong_kind_is_refused(name):
    x, weight, bias, mask, _ = draw()
    forward = partial(MASKED[name][0], x, weight, bias, feature_axis=-1)
    with pytest.raises(TypeError, match="boolean"):
        forward(mask=mask.astype(float))
    for wrong in (mask[:, :-1], mask[:1], mask[..., None], mask.T):
        with pytest.raises(ValueError, match="mask must have x's shape"):
            forward(mask=wrong)


def test_one_real_token_is_refused_in_training():
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    mask = np.zeros((2, 3), dtype=bool)
    mask[0, 0] = True
    with pytest.raises(ValueError, match="one real token"):
        norms.batch_norm(x, mask=mask, feature_axis=-1)


def test_running_variance_of_instance_norm_counts_real_tokens_only():
    x = np.random.default_rng(0).standard_normal((3, 5, 2))
    mask = np.arange(5) < np.asarray([[3], [5], [2]])
    mean, var = np.asarray([1.0, 2.0]), np.asarray([3.0, 4.0])
    for filler in (0.0, 100.0):
        padded = np.where(mask[..., None], x, filler)
        _, _, running = norms.instance_norm(
            padded, None, None, mean, var, momentum=0.25, mask=mask, feature_axis=-1
        )
        own = [padded[i, : int(n)] for i, n in enumerate(mask.sum(1))]
        means = np.mean([tokens.mean(0) for tokens in own], axis=0)
        variances = np.mean([tokens.var(0, ddof=1) for tokens in own], axis=0)
        assert_allclose(running.mean, 0.75 * mean + 0.25 * means)
        assert_allclose(running.var, 0.75 * var + 0.25 * variances)


def test_a_batch_of_padding_leaves_the_running_statistics_alone():
    x, nothing = np.ones((2, 3, 4)), np.zeros((2, 3), dtype=bool)
    running = np.linspace(1.0, 2.0, 4)
    _, _, psi_squared = norms.power_norm(x, None, None, running, mask=nothing)
    assert_array_equal(psi_squared, running)
    _, _, stats = norms.instance_norm(
        x, None, None, running, running + 1, mask=nothing, feature_axis=-1
    )
    assert_array_equal(stats.mean, running)
    assert_array_equal(stats.var, running + 1)


def test_instance_norm_of_a_single_value_is_refused():
    with pytest.raises(ValueError, match="1"):
        norms.instance_norm(np.ones((1, 1, 1)), feature_axis=-1)
