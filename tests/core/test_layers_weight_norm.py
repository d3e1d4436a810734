"""weight_norm against torch's parametrization of the same name."""

import copy
import warnings
from collections.abc import Callable

import pytest
import torch
from layer_checks import assert_same, randn, randomize, results
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from normtutor import layers

CASES: list[tuple[Callable[[], nn.Module], tuple[int, ...], str, int | None]] = [
    (lambda: nn.Linear(3, 5), (4, 3), "weight", 0),
    (lambda: nn.Linear(3, 5), (4, 3), "weight", None),
    (lambda: nn.Linear(3, 5), (4, 3), "weight", -1),  # in torch too the same as None
    (lambda: nn.Linear(3, 5), (4, 3), "bias", 0),
    (lambda: nn.Conv2d(2, 4, 3), (2, 2, 5, 5), "weight", 2),
    (lambda: nn.ConvTranspose2d(2, 4, 3), (2, 2, 5, 5), "weight", 1),
    (lambda: nn.Embedding(7, 3), (), "weight", 0),
]
EVERY = pytest.mark.parametrize(
    "make, shape, name, dim",
    CASES,
    ids=[f"{c[0]().__class__.__name__} {c[2]} {c[3]}" for c in CASES],
)


def pair(make, name="weight", dim=0, dtype=torch.float64):
    """A module without weight norm, one with torch's, and one with ours."""
    module = make().to(dtype)
    randomize(module)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.sub_(0.7)
    theirs = parametrizations.weight_norm(copy.deepcopy(module), name, dim)
    return module, theirs, layers.weight_norm(copy.deepcopy(module), name, dim)


@EVERY
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_it_is_torchs(make, shape, name, dim, dtype):
    module, theirs, ours = pair(make, name, dim, dtype)
    torch.testing.assert_close(getattr(ours, name), getattr(module, name))
    torch.testing.assert_close(dict(ours.state_dict()), dict(theirs.state_dict()))
    for source, target in [(ours, theirs), (theirs, ours)]:
        randomize(source, seed=4)  # away from the start, where g = ‖v‖
        target.load_state_dict(source.state_dict())
    found, expected = getattr(ours, name), getattr(theirs, name)
    torch.testing.assert_close(found, expected)
    assert found.is_contiguous() == expected.is_contiguous()
    if shape:
        x = randn(*shape, dtype=dtype)
        assert_same(results(ours, x, second=False), results(theirs, x, second=False))


@pytest.mark.parametrize("dim", [0, None])
def test_second_derivatives(dim):
    """By finite differences: those of torch 2.13's fused operator fail this very check."""
    _, _, ours = pair(lambda: nn.Linear(3, 5), dim=dim)
    g, v = (p.detach().requires_grad_() for p in ours.parametrizations.weight.parameters())
    assert torch.autograd.gradgradcheck(ours.parametrizations.weight[0], (1.3 * g, v))


@pytest.mark.parametrize("dim", [0, 1, None])
def test_the_keys_of_torchs_older_weight_norm_load(dim):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        old = torch.nn.utils.weight_norm(nn.Linear(3, 5), dim=dim)
    randomize(old)
    state = nn.Sequential(nn.ReLU(), old).state_dict()
    model = nn.Sequential(nn.ReLU(), layers.weight_norm(nn.Linear(3, 5), dim=dim))
    model.load_state_dict(state)
    x = randn(4, 3).float()
    torch.testing.assert_close(model[1](x), old(x))
    copy.deepcopy(model).load_state_dict(state)
    assert "1.weight_g" in state  # what the caller passed in is not changed


def test_an_assignment_sets_g_and_v():
    _, theirs, ours = pair(lambda: nn.Linear(3, 5))
    for module in (ours, theirs):
        with torch.no_grad():
            module.weight = randn(5, 3, seed=9)
    torch.testing.assert_close(ours.weight, randn(5, 3, seed=9))
    torch.testing.assert_close(dict(ours.state_dict()), dict(theirs.state_dict()))


def test_it_can_be_taken_off_again():
    ours = layers.weight_norm(nn.Linear(3, 5))
    weight = ours.weight.detach().clone()
    parametrize.remove_parametrizations(ours, "weight")
    torch.testing.assert_close(ours.weight.detach(), weight)
    assert type(ours) is nn.Linear
    assert sorted(ours.state_dict()) == ["bias", "weight"]
    copy.deepcopy(ours).load_state_dict(ours.state_dict())
    layers.weight_norm(layers.weight_norm(ours), "bias")  # and on again, to both
    torch.testing.assert_close(ours.weight.detach(), weight)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_weights_have_float32_norms(dtype):
    module = nn.Linear(4000, 2)
    with torch.no_grad():
        module.weight.fill_(8.0)  # 4000 · 64 is infinite in float16
    ours = layers.weight_norm(module.to(dtype))
    assert ours.weight.dtype == dtype
    torch.testing.assert_close(ours.weight.float(), torch.full((2, 4000), 8.0), rtol=8e-3, atol=0)


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"no parameter 'kernel'.*Choose one of: weight, bias"):
        layers.weight_norm(nn.Linear(3, 5), "kernel")
    with pytest.raises(ValueError, match="none there"):
        layers.weight_norm(nn.ReLU())
    for dim in (2, -3):
        module = nn.Linear(3, 5)
        with pytest.raises(ValueError, match=f"axis={dim} does not exist"):
            layers.weight_norm(module, dim=dim)
        assert not parametrize.is_parametrized(module)
