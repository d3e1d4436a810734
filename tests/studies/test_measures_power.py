"""What is measured of batch statistics that fluctuate."""

import contextlib

import numpy as np
import pytest
import torch
from normtutor_studies.measures import power_statistics
from numpy.testing import assert_allclose

from normtutor import data, layers, models, norms, training


def batch_norm_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 4), layers.BatchNorm(4, feature_axis=-1)).double()


def test_distances_of_a_batch_from_the_running_averages():
    mean, square = torch.tensor([1.0, 0.0]), torch.tensor([4.0, 1.0])
    raw, free = power_statistics.forward_distances(
        torch.tensor([4.0, 4.0]), torch.tensor([8.0, 4.0]), mean, square
    )
    assert_allclose(raw, [5 / 2, 5 / 2])  # (3, 4) and (4, 3), divided by two features
    assert_allclose(free, [(9 / 4 + 16) / 2, (1 + 9) / 2])


@pytest.mark.parametrize("centred", [True, False])
def test_shares_of_the_gradient_are_what_the_norm_takes_away(centred):
    generator = torch.Generator().manual_seed(0)
    x = 2 + torch.randn(30, 1, generator=generator, dtype=torch.float64)
    g = torch.randn(30, 1, generator=generator, dtype=torch.float64)
    if centred:
        _, cache, _ = norms.batch_norm(x, eps=1e-12)
        grad, scale = norms.batch_norm_backward(g, cache).x, x.std(correction=0)
    else:
        _, cache = norms.power_norm_v(x, eps=1e-12)
        grad, scale = norms.power_norm_v_backward(g, cache).x, x.square().mean().sqrt()
    raw, free = power_statistics.backward_parts(g, cache.x_hat, centred=centred)
    left = (scale * grad).square().sum() / g.square().sum()
    assert_allclose(1 - sum(free), left.item(), rtol=1e-9)
    assert (raw[0] == 0) != centred


def test_watch_records_the_running_averages_before_the_step():
    model = batch_norm_model()
    generator = torch.Generator().manual_seed(1)
    xs = torch.randn(2, 3, 6, 5, generator=generator, dtype=torch.float64)
    with power_statistics.watch(model) as records:
        for x in xs:
            norm = model[1]
            before = norm.running_mean.clone(), norm.running_var.clone()
            h = model[0](x)
            y = norm(h)
            upstream = torch.randn(y.shape, generator=generator, dtype=torch.float64)
            y.backward(upstream)
            tokens = h.detach().flatten(0, 1)
    watched = records["1"]
    assert watched.count == [18, 18]
    spread, mean = torch.var_mean(tokens, dim=0)
    raw, free = power_statistics.forward_distances(mean, spread, *before)
    assert_allclose(watched.raw[1][:2], raw)
    assert_allclose(watched.free[1][:2], free)
    g = upstream.flatten(0, 1)
    x_hat = (tokens - mean) / torch.sqrt(tokens.var(dim=0, correction=0) + 1e-5)
    assert_allclose(watched.raw[1][2:], power_statistics.backward_parts(g, x_hat)[0])


def test_watch_leaves_the_training_as_it_is_and_the_model_without_hooks():
    losses = []
    for watched in (False, True):
        model, batches, loss = power_statistics.setting(power_statistics.WORLD.settings, 0)
        with power_statistics.watch(model) if watched else contextlib.nullcontext():
            history = training.train(model, batches, loss, steps=3, learning_rate=0.01)
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
        losses.append(history.loss)
    assert losses[0] == losses[1]
    with pytest.raises(ValueError, match="a BatchNorm or a PowerNorm"):
        with power_statistics.watch(models.MLP((4, 3, 2))):
            pass


def test_independent_tokens_fluctuate_once():
    """n times the squared distance is 1 for the mean and 2 for a Gaussian's variance."""
    norm = layers.BatchNorm(64, feature_axis=-1, momentum=0.0)  # the averages stay at 0 and 1
    generator = torch.Generator().manual_seed(0)
    with power_statistics.watch(norm) as records:
        for _ in range(100):
            norm(torch.randn(100, 64, generator=generator).requires_grad_()).sum().backward()
    watched = next(iter(records.values()))
    effect = np.array(watched.count)[:, None] * np.array(watched.free)
    assert_allclose(effect[:, :2].mean(axis=0), [1, 2], rtol=0.06)


def test_digits_as_texts():
    batch = next(power_statistics.pixel_batches(4, np.random.default_rng(0)))
    assert batch.inputs.shape == batch.targets.shape == (4, 64)
    assert (batch.inputs[:, 0] == 0).all()
    assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])
    images = data.load_digits().train.images.flatten(1)
    levels = torch.unique(images)
    assert batch.targets.min() >= 1
    assert batch.targets.max() <= 17
    assert any(torch.equal(levels[batch.targets[0] - 1], image) for image in images)
