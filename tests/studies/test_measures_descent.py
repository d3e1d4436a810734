"""What is measured while networks on digits descend: the instruments and the initial weights."""

import itertools
import math

import numpy as np
import pytest
import torch
from normtutor_studies.measures import (
    descent,
    gradient_parts,
    gradient_shift,
    input_drift,
    scale_and_rate,
)
from torch import nn

from normtutor.data import image_batches, load_digits
from normtutor.models import MLP


def test_descent_is_torchs_sgd():
    digits = load_digits()
    torch.manual_seed(0)
    ours, theirs = MLP((64, 8, 10)), MLP((64, 8, 10))
    theirs.load_state_dict(ours.state_dict())
    batches = [*itertools.islice(image_batches(digits.train, 20, np.random.default_rng(0)), 5)]
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


def test_a_run_that_diverges_is_filled_up():
    digits = load_digits()
    model = descent.xavier(MLP((64, 8, 10)))
    stream = image_batches(digits.train, 20, np.random.default_rng(0))
    losses = descent.descend(model, stream, steps=6, rate=1e30)
    assert len(losses) == 6 and losses[-1] == math.inf


def test_drift_of_a_path_that_is_known():
    mean = np.array([[0.0], [1.0], [0.0], [2.0]])
    variance = np.array([[0.25], [1.0], [1.0], [4.0]])
    found = input_drift.drift(mean, variance)
    assert found == {"path": 2 + 1 + 2, "path_end": 2.0, "spread": 4.0}


def test_the_layers_of_a_network_own_all_its_parameters():
    model = gradient_shift.build({**gradient_shift.WORLD.settings, "task": "relu", "norm": "batch"})
    names = [name for layer in gradient_shift.layer_names(model) for name in layer]
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())


# --- initial weights ------------------------------------------------------------------------------


def variances(model):
    return [layer.weight.var().item() * layer.in_features for layer in model.linears]


def test_relu_gets_hes_weights_and_other_activations_xaviers():
    torch.manual_seed(0)
    widths = (400, 400, 400)
    he = descent.initialise(MLP(widths), "relu")
    xavier = descent.initialise(MLP(widths), "sigmoid")
    scaled = descent.initialise(MLP(widths), "sigmoid", scale=4.0)
    assert variances(he) == pytest.approx([2, 2], rel=0.05)
    assert variances(xavier) == pytest.approx([1, 1], rel=0.05)
    assert variances(scaled) == pytest.approx([16, 16], rel=0.05)
    assert all(layer.bias.abs().max() == 0 for layer in he.linears)


def test_the_smallest_scale_is_the_spread_of_torchs_own_layer():
    torch.manual_seed(0)
    model = scale_and_rate.build({**scale_and_rate.WORLD.settings, "scale": 0.4082})
    ours = model.linears[3].weight
    own = torch.stack([nn.Linear(64, 64).weight for _ in range(8)])
    assert ours.std().item() == pytest.approx(own.std().item(), rel=0.05)


# --- what is measured -----------------------------------------------------------------------------


def test_the_parts_of_the_gradient_are_those_of_the_theorem():
    torch.manual_seed(0)
    model = descent.he(MLP((64, 12, 12, 10), norm="batch")).double()
    images, labels = torch.randn(40, 64, dtype=torch.float64), torch.arange(40) % 10
    looks = gradient_parts.around_norms(model, images, labels)
    assert len(looks) == 2
    for (x, below, above), norm in zip(looks, model.norms, strict=True):
        shares = gradient_parts.parts(x, below, above, norm.eps)
        inverse = torch.rsqrt(x.var(dim=0, correction=0) + norm.eps)
        x_hat = (x - x.mean(dim=0)) * inverse
        length = above.square().sum(dim=0)
        kept = 1 - above.sum(dim=0) ** 2 / 40 / length
        along = (above * x_hat).sum(dim=0) ** 2 / x_hat.square().sum(dim=0) / length
        ratio = inverse**2 * (kept - along)
        assert shares["ratio"] == pytest.approx(ratio.median().item(), rel=1e-3)
        assert shares["along_mean"] == pytest.approx((1 - kept).mean().item())
