"""The layers of single tokens that torch lacks, and those with a condition."""

import pytest
import torch
from layer_checks import CONDITIONAL, randn, randomize
from torch import nn

from normtutor import layers, norms

# The layer, its formula, and where its parameters start.
PLAIN = [
    (
        layers.PartialRMSNorm(8, 0.3),
        lambda m, x: norms.partial_rms_norm(x, m.weight, p=0.3),
        {"weight": torch.ones(8)},
    ),
    (
        layers.ScaleNorm(8, eps=0.1),
        lambda m, x: norms.scale_norm(x, m.g, eps=0.1),
        {"g": torch.tensor([8**0.5])},
    ),
    (
        layers.DynamicTanh(8, alpha_init_value=0.8),
        lambda m, x: norms.dynamic_tanh(x, m.alpha, m.weight, m.bias),
        {"alpha": torch.tensor([0.8]), "weight": torch.ones(8), "bias": torch.zeros(8)},
    ),
]


@pytest.mark.parametrize("layer, formula, start", PLAIN, ids=lambda v: type(v).__name__)
def test_a_layer_that_torch_lacks_is_its_formula(layer, formula, start):
    torch.testing.assert_close(dict(layer.state_dict()), start)
    randomize(layer)
    x = randn(3, 8).float()
    torch.testing.assert_close(layer(x), formula(layer, x)[0])
    layer.reset_parameters()
    torch.testing.assert_close(dict(layer.state_dict()), start)


def test_the_conditional_layers_start_as_what_they_condition():
    x, condition = randn(3, 5, 4), randn(3, 2, seed=1)
    assert layers.FiLM(4, 2).double()(x, condition).equal(x)
    expected = nn.functional.layer_norm(x, (4,), eps=0.5)
    adaptive = layers.AdaptiveLayerNorm(4, 2, eps=0.5).double()
    torch.testing.assert_close(adaptive(x, condition), expected)
    block = layers.AdaptiveLayerNormZero(nn.Linear(4, 4), 4, 2).double()
    assert block(x, condition).equal(x)
    block(x, condition).square().sum().backward()  # and only the gate has a gradient then
    assert not block.branch.weight.grad.any()
    scale, shift, gate = block.projection.weight.grad.chunk(3)
    assert not scale.any() and not shift.any() and gate.abs().min() > 0


@pytest.mark.parametrize("name", CONDITIONAL)
def test_a_condition_gives_scale_shift_and_gate(name):
    layer, (x, condition) = CONDITIONAL[name]().double(), (randn(3, 5, 4), randn(3, 2, seed=1))
    randomize(layer)
    scale, shift, *gate = layer.projection(condition)[:, None].chunk(layer.parts, dim=-1)
    expected = (x if name == "FiLM" else nn.functional.layer_norm(x, (4,))) * (1 + scale) + shift
    if gate:
        expected = x + gate[0] * layer.branch(expected)
    torch.testing.assert_close(layer(x, condition), expected)
    assert torch.autograd.gradcheck(layer, (x.requires_grad_(), condition.requires_grad_()))
    assert "(\n  4, 2" in repr(layer)
