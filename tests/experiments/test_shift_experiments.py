"""The experiments on internal covariate shift: they run, and measure what they say."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from normtutor import experiments
from normtutor.data import image_batches, load_digits
from normtutor.experiments import (
    covariate_shift_gradients,
    descent,
    input_drift,
    loss_landscape,
    noisy_batch_norm,
)
from normtutor.experiments.records import Saved
from normtutor.models import MLP

NAMES = (
    "input_drift",
    "learning_rate_sweep",
    "noisy_batch_norm",
    "covariate_shift_gradients",
    "loss_landscape",
)


@pytest.mark.parametrize("name", NAMES)
def test_the_saved_run_belongs_to_the_code(name):
    module = experiments.module_of(name)
    saved = experiments.load(name)
    assert saved.seeds == sorted(module.SEEDS)
    assert len(set(module.SEEDS) - set(getattr(module, "TUNING", ()))) >= 5
    for run in saved.runs:
        assert len(run["records"]) == len(module.CONFIG.conditions)
    rows = module.rows(saved)
    assert all(len(values) >= 5 for values in rows.values())


def test_descent_is_torchs_sgd():
    digits = load_digits()
    torch.manual_seed(0)
    ours, theirs = MLP((64, 8, 10)), MLP((64, 8, 10))
    theirs.load_state_dict(ours.state_dict())
    batches = [
        batch
        for batch, _ in zip(
            image_batches(digits.train, 20, np.random.default_rng(0)), range(5), strict=False
        )
    ]
    seen = []
    losses = descent.descend(ours, batches, steps=5, rate=0.1, watch=seen.append)
    update = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for (images, labels), loss in zip(batches, losses, strict=True):
        theirs_loss = nn.functional.cross_entropy(theirs(images), labels)
        assert theirs_loss.item() == pytest.approx(loss)
        update.zero_grad()
        theirs_loss.backward()
        update.step()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q)
    assert seen == [0, 1, 2, 3, 4]


def test_a_run_that_diverges_is_filled_up_and_saved_as_none():
    digits = load_digits()
    model = descent.xavier(MLP((64, 8, 10)))
    stream = image_batches(digits.train, 20, np.random.default_rng(0))
    losses = descent.descend(model, stream, steps=6, rate=1e30)
    assert len(losses) == 6 and losses[-1] == math.inf
    assert [descent.finite(value) for value in (1.5, math.inf, math.nan)] == [1.5, None, None]


def test_a_rate_is_chosen_on_the_tuning_seeds_alone():
    def run(seed, small, large):
        records = [{"rate": 0.1, "loss": small}, {"rate": 1.0, "loss": large}]
        return {"seed": seed, "records": records}

    saved = Saved("example", {}, (run(0, 2.0, 1.0), run(1, 2.0, 1.0), run(2, 0.0, 9.0)))
    assert descent.best_rate(saved, (0, 1), (0.1, 1.0), "loss") == 1.0
    assert descent.best_rate(saved, (2,), (0.1, 1.0), "loss") == 0.1
    tuning, reported = descent.split(saved, (0, 1))
    assert tuning.seeds == [0, 1] and reported.seeds == [2]
    lost = Saved("example", {}, (run(0, 2.0, None),))
    assert descent.best_rate(lost, (0,), (0.1, 1.0), "loss") == 0.1


def test_drift_of_a_path_that_is_known():
    mean = np.array([[0.0], [1.0], [0.0], [2.0]])
    variance = np.array([[0.25], [1.0], [1.0], [4.0]])
    found = input_drift.drift(mean, variance)
    assert found == {"path": 2 + 1 + 2, "path_end": 2.0, "moved": 1.0, "spread": 4.0}
    found = noisy_batch_norm.shift_of_a_step(mean[:2], np.ones((2, 1)))
    assert found == 1.0


def test_the_noise_has_the_means_and_deviations_it_should():
    torch.manual_seed(0)
    noise = noisy_batch_norm.Noise()
    x = torch.randn(4000, 200, dtype=torch.float64)
    shaken = noise(x)
    means, deviations = shaken.mean(dim=0), shaken.std(dim=0)
    assert means.abs().max() < 0.56 and means.std().item() == pytest.approx(1 / 12**0.5, rel=0.1)
    # The scale of a unit lies between 1 and 1.25; the jitter adds a little to the variance.
    assert deviations.min() > 0.97 and deviations.max() < 1.31
    assert not torch.equal(noise(x), shaken)
    assert torch.equal(noise.eval()(x), x)


def test_the_same_noise_at_every_look():
    torch.manual_seed(0)
    model = noisy_batch_norm.build(loss_landscape.CONFIG, "noisy batch")
    digits = load_digits()
    loss = loss_landscape.loss_on((digits.train.images[:50], digits.train.labels[:50]))
    first = loss(model).item()
    torch.rand(3)
    assert loss(model).item() == first


def test_the_layers_of_a_network_own_all_its_parameters():
    model = covariate_shift_gradients.build(covariate_shift_gradients.CONFIG, "relu", "batch")
    names = [name for layer in covariate_shift_gradients.layer_names(model) for name in layer]
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())
