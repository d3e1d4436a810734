"""The experiments of the chapter on PowerNorm: what they measure, and that pairs are pairs."""

import numpy as np
import pytest
import torch
from normtutor_studies import experiments
from normtutor_studies.experiments import (
    batch_composition,
    power_statistics,
    topic_rates,
    topic_share,
    topic_share_pre,
    topic_share_pre_rates,
)
from numpy.testing import assert_allclose

from normtutor import data, layers, models, norms, training

# --- what the book reports ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["power_statistics", "topic_share", "topic_share_pre"])
def test_results_rest_on_enough_fresh_seeds(name):
    assert len(experiments.load(name).seeds) >= 5
    assert not set(topic_rates.SEEDS) & set(experiments.module_of(name).SEEDS)


def test_learning_rates_are_those_that_tuning_chose():
    best = topic_rates.best_rates(experiments.load("topic_rates"))
    used = {(c.norm, c.share): c.learning_rate for c in topic_share.CONFIG.conditions}
    assert used == best


def test_rates_with_pre_ln_are_those_that_tuning_chose_with_a_worse_one_on_either_side():
    grids = topic_share_pre_rates.grids()
    best = topic_share_pre_rates.best_rates(grids)
    used = {(c.norm, c.share): c.learning_rate for c in topic_share_pre.CONFIG.conditions}
    assert used == best
    tried: dict = {}
    for record in (record for run in grids.runs for record in run["records"]):
        tried.setdefault((record["norm"], record["share"]), set()).add(record["learning_rate"])
    assert all(min(tried[cell]) < rate < max(tried[cell]) for cell, rate in best.items())


def test_the_models_of_topics_differ_in_wiring_and_output_alone(monkeypatch):
    built = []
    monkeypatch.setattr(
        topic_share, "TransformerLM", lambda *args, **options: built.append((args, options))
    )
    monkeypatch.setattr(topic_share, "train", lambda *args, **options: training.History([0.0]))
    for config in (topic_share.CONFIG, topic_share_pre.CONFIG):
        topic_share.train_condition(config, topic_share.Condition("layer", 0.0, 1e-3), 0)
    (post_sizes, post), (pre_sizes, pre) = built
    assert post_sizes == pre_sizes
    assert pre == post | {"wiring": "pre", "tied": False}


def test_a_diverged_rate_cannot_be_chosen():
    condition = {"norm": "none", "share": 1.0}
    conditions = [{**condition, "learning_rate": rate} for rate in (0.1, 1.0)]
    outcomes = [{**conditions[0], "loss": 2.0}, {**conditions[1], "loss": None}]
    saved = experiments.Saved("x", {"conditions": conditions}, ({"seed": 0, "records": outcomes},))
    assert topic_rates.best_rates(saved) == {("none", 1.0): 0.1}


# --- text: all norms see the same -----------------------------------------------------------------


def test_norms_share_the_initial_weights():
    embeddings = []
    for norm in batch_composition.NORMS:
        training.start(3)
        model = batch_composition.build(batch_composition.CONFIG, norm)
        embeddings.append(model.token_embedding.weight.detach().clone())
    assert all(torch.equal(embeddings[0], other) for other in embeddings)


# --- the four quantities --------------------------------------------------------------------------


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
    mask = torch.rand(3, 6, generator=generator) < 0.7
    with power_statistics.watch(model) as records:
        for x in xs:
            norm = model[1]
            before = norm.running_mean.clone(), norm.running_var.clone()
            h = model[0](x)
            y = norm(h, mask)
            upstream = torch.randn(y.shape, generator=generator, dtype=torch.float64)
            y.backward(upstream)
            tokens = h.detach()[mask]
    watched = records["1"]
    assert watched.count == [mask.sum(), mask.sum()]
    spread, mean = torch.var_mean(tokens, dim=0)
    raw, free = power_statistics.forward_distances(mean, spread, *before)
    assert_allclose(watched.raw[1][:2], raw)
    assert_allclose(watched.free[1][:2], free)
    g = upstream[mask]
    x_hat = (tokens - mean) / torch.sqrt(tokens.var(dim=0, correction=0) + 1e-5)
    assert_allclose(watched.raw[1][2:], power_statistics.backward_parts(g, x_hat)[0])


def test_watch_leaves_the_training_as_it_is_and_the_model_without_hooks():
    losses = []
    for watched in (False, True):
        model, batches, loss = power_statistics.setting(power_statistics.CONFIG, "images", 0)
        if watched:
            with power_statistics.watch(model):
                history = training.train(model, batches, loss, steps=3, learning_rate=0.01)
            assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
        else:
            history = training.train(model, batches, loss, steps=3, learning_rate=0.01)
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


def test_a_distance_that_follows_the_padding_is_found():
    padding = np.random.default_rng(0).uniform(size=400)
    average, distance = padding[0], []
    for share in padding:
        distance.append(abs(share - average))
        average = 0.9 * average + 0.1 * share
    assert power_statistics.follows_padding(padding, np.array(distance)) > 0.999
    unrelated = np.random.default_rng(1).uniform(size=400)
    assert abs(power_statistics.follows_padding(padding, unrelated)) < 0.3


# --- topics ---------------------------------------------------------------------------------------


def test_the_chains_are_stationary_and_their_entropy_is_the_smallest_loss():
    text = topic_share.languages(topic_share.CONFIG)
    assert_allclose(text.transitions.sum(axis=-1), 1)
    assert_allclose(np.einsum("ks,kst->kt", text.first, text.transitions), text.first, atol=1e-9)
    rows = text.transitions
    by_hand = -(text.first[..., None] * rows * np.log(rows)).sum(axis=(1, 2)).mean()
    assert_allclose(text.entropy, by_hand)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_one_topic_batches_have_their_share_and_topics_stay_as_frequent(share):
    config = topic_share.CONFIG
    stream = topic_share.batches(config, share, np.random.default_rng(0))
    topics = np.array(
        [batch.inputs[:, 0].numpy() // config.symbols for batch in topic_share.take(800, stream)]
    )
    alike = (topics == topics[:, :1]).all(axis=1).mean()
    assert abs(alike - share) < 0.06
    assert_allclose(np.bincount(topics.ravel(), minlength=8) / topics.size, 1 / 8, atol=0.05)


def test_a_sequence_keeps_its_topic_and_follows_its_chain():
    config = topic_share.CONFIG
    text = topic_share.languages(config)
    counts = np.zeros_like(text.transitions)
    for batch in topic_share.take(400, topic_share.batches(config, 0.0, np.random.default_rng(0))):
        topic, symbol = np.divmod(batch.inputs.numpy(), config.symbols)
        after, following = np.divmod(batch.targets.numpy(), config.symbols)
        assert (topic == topic[:, :1]).all()
        assert (topic == after).all()
        np.add.at(counts, (topic, symbol, following), 1)
    seen = counts.sum(axis=-1)
    frequent = seen > 500
    found = counts[frequent] / seen[frequent][:, None]
    assert_allclose(found, text.transitions[frequent], atol=0.08)


def test_the_batch_mean_alone():
    norm = topic_share.BatchMeanThenRMS(4).double()
    x = 3 + torch.randn(2, 5, 4, dtype=torch.float64)
    centred = x - x.mean(dim=(0, 1))
    expected = centred / torch.sqrt(centred.square().mean(dim=-1, keepdim=True))
    torch.testing.assert_close(norm(x), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(norm.running_mean, 0.1 * x.mean(dim=(0, 1)))
    before = norm.running_mean.clone()
    shifted = x - before
    by_running = shifted / torch.sqrt(shifted.square().mean(dim=-1, keepdim=True))
    torch.testing.assert_close(norm.eval()(x), by_running, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(norm.running_mean, before)
