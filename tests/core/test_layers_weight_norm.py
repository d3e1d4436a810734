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
    (lambda: nn.Linear(3, 5), (4, 3), "weight", 1),
    (lambda: nn.Linear(3, 5), (4, 3), "weight", None),
    (lambda: nn.Linear(3, 5), (4, 3), "weight", -1),  # in torch too the same as None
    (lambda: nn.Linear(3, 5, bias=False), (4, 3), "weight", -2),
    (lambda: nn.Linear(3, 5), (4, 3), "bias", 0),
    (lambda: nn.Conv1d(3, 5, 2), (2, 3, 6), "weight", 0),
    (lambda: nn.Conv2d(2, 4, 3), (2, 2, 5, 5), "weight", 0),
    (lambda: nn.Conv2d(2, 4, 3), (2, 2, 5, 5), "weight", 2),
    (lambda: nn.Conv2d(2, 4, 3), (2, 2, 5, 5), "weight", None),
    (lambda: nn.ConvTranspose2d(2, 4, 3), (2, 2, 5, 5), "weight", 1),
    (lambda: nn.Embedding(7, 3), (), "weight", 0),
    (lambda: layers.LayerNorm(4), (3, 4), "weight", 0),
]
EVERY = pytest.mark.parametrize(
    "make, shape, name, dim",
    CASES,
    ids=[f"{c[0]().__class__.__name__} {c[2]} {c[3]}" for c in CASES],
)


def pair(make, name, dim, dtype=torch.float64):
    torch.manual_seed(0)
    module = make().to(dtype)
    randomize(module)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.sub_(0.7)
    theirs = parametrizations.weight_norm(copy.deepcopy(module), name, dim)
    return module, theirs, layers.weight_norm(copy.deepcopy(module), name, dim)


@EVERY
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_values_and_gradients(make, shape, name, dim, dtype):
    _, theirs, ours = pair(make, name, dim, dtype)
    randomize(theirs, seed=1)  # away from the start, where g = ‖v‖
    ours.load_state_dict(theirs.state_dict())
    weights = [getattr(module, name) for module in (ours, theirs)]
    torch.testing.assert_close(*weights)
    assert weights[0].shape == weights[1].shape
    assert weights[0].is_contiguous() == weights[1].is_contiguous()
    if shape:
        x = randn(*shape, dtype=dtype)
        assert_same(results(ours, x, second=False), results(theirs, x, second=False))


@EVERY
def test_second_derivatives(make, shape, name, dim):
    """By finite differences: those of torch 2.13's fused operator fail this very check."""
    _, _, ours = pair(make, name, dim)
    g, v = (p.detach().requires_grad_() for p in getattr(ours.parametrizations, name).parameters())
    with torch.no_grad():
        g.mul_(1.3)
    formula = getattr(ours.parametrizations, name)[0]
    assert torch.autograd.gradcheck(formula, (g, v))
    assert torch.autograd.gradgradcheck(formula, (g, v))


@EVERY
def test_the_start_is_the_weight_itself(make, shape, name, dim):
    module, theirs, ours = pair(make, name, dim)
    before = getattr(module, name)
    parameters = getattr(ours.parametrizations, name)
    torch.testing.assert_close(getattr(ours, name), before)
    assert parameters.original1.equal(before)
    kept = () if dim in (None, -1) else (dim % before.ndim,)
    axes = [a for a in range(before.ndim) if a not in kept]
    expected = (before**2).sum(axes, keepdim=True).sqrt() if axes else before.abs()
    torch.testing.assert_close(parameters.original0.flatten(), expected.flatten())
    assert parameters.original0.shape == getattr(theirs.parametrizations, name).original0.shape


@EVERY
def test_state_dicts_load_both_ways(make, shape, name, dim):
    _, theirs, ours = pair(make, name, dim)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for source, target in [(theirs, ours), (ours, theirs)]:
        randomize(source, seed=4)
        target.load_state_dict(source.state_dict())
        torch.testing.assert_close(getattr(target, name), getattr(source, name))


@pytest.mark.parametrize("dim", [0, 1, None])
def test_the_keys_of_torchs_older_weight_norm_load(dim):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        old = torch.nn.utils.weight_norm(nn.Linear(3, 5), dim=dim)
    randomize(old)
    state = nn.Sequential(nn.ReLU(), old).state_dict()
    assert "1.weight_g" in state
    model = nn.Sequential(nn.ReLU(), layers.weight_norm(nn.Linear(3, 5), dim=dim))
    model.load_state_dict(state)
    x = randn(4, 3).float()
    torch.testing.assert_close(model[1](x), old(x))
    copy.deepcopy(model).load_state_dict(state)
    assert "1.weight_g" in state  # what the caller passed in is not changed


def test_a_training_goes_as_torchs_does():
    _, theirs, ours = pair(lambda: nn.Conv2d(2, 4, 3), "weight", 0)
    for module in (theirs, ours):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        for step in range(5):
            optimizer.zero_grad()
            module(randn(2, 2, 5, 5, seed=step)).square().mean().backward()
            optimizer.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other)


def test_the_gradient_of_v_is_orthogonal_to_v_and_training_lets_it_grow():
    ours = layers.weight_norm(nn.Linear(3, 5).double())
    g, v = ours.parametrizations.weight.original0, ours.parametrizations.weight.original1
    ours(randn(4, 3)).square().sum().backward()
    torch.testing.assert_close((v * v.grad).sum(1), torch.zeros(5).double(), rtol=0, atol=1e-12)
    radial = (ours.weight * ours.weight.detach()).sum()
    assert torch.autograd.grad(radial, v)[0].abs().max() < 1e-12
    assert torch.autograd.grad((ours.weight**2).sum(), g)[0].abs().min() > 0


def test_an_assignment_sets_g_and_v():
    _, theirs, ours = pair(lambda: nn.Linear(3, 5), "weight", 0)
    new = randn(5, 3, seed=9)
    with torch.no_grad():
        theirs.weight = new
        ours.weight = new
    torch.testing.assert_close(ours.weight, new)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other)


def test_it_can_be_taken_off_again():
    ours = layers.weight_norm(nn.Linear(3, 5))
    assert parametrize.is_parametrized(ours, "weight")
    weight = ours.weight.detach().clone()
    parametrize.remove_parametrizations(ours, "weight")
    torch.testing.assert_close(ours.weight.detach(), weight)
    assert type(ours) is nn.Linear
    assert sorted(dict(ours.named_parameters())) == ["bias", "weight"]
    copy.deepcopy(ours).load_state_dict(ours.state_dict())
    layers.weight_norm(ours)
    torch.testing.assert_close(ours.weight.detach(), weight)


def test_two_parameters_of_one_module():
    ours, theirs = nn.Linear(3, 5).double(), nn.Linear(3, 5).double()
    theirs.load_state_dict(ours.state_dict())
    for name in ("weight", "bias"):
        layers.weight_norm(ours, name)
        parametrizations.weight_norm(theirs, name)
    randomize(theirs)
    ours.load_state_dict(theirs.state_dict())
    found, expected = (results(m, randn(4, 3), second=False) for m in (ours, theirs))
    assert_same(found, expected)


def test_a_unit_of_length_zero_has_no_direction_as_in_torch():
    _, theirs, ours = pair(lambda: nn.Linear(3, 5), "weight", 0)
    for module in (theirs, ours):
        with torch.no_grad():
            module.parametrizations.weight.original1[2] = 0
        assert module.weight[2].isnan().all()
        assert module.weight[[0, 1, 3, 4]].isfinite().all()


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
        module(torch.randn(2, 3))


def test_a_weight_that_is_set_anew_is_refused_beside_a_parametrized_bias():
    module = nn.Linear(3, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        nn.utils.weight_norm(module)  # torch's older one
    layers.weight_norm(module, "bias")
    with pytest.raises(ValueError, match=r"sets anew.*remove_weight_norm\(module, 'weight'\)"):
        layers.weight_norm(module)


def test_the_comparison_notices_another_dim():
    _, theirs, _ = pair(lambda: nn.Linear(3, 3), "weight", 0)
    _, _, ours = pair(lambda: nn.Linear(3, 3), "weight", 1)
    x = randn(4, 3)
    torch.testing.assert_close(ours(x), theirs(x))  # at the start the two are one
    with pytest.raises(AssertionError):
        assert_same(results(ours, x, second=False), results(theirs, x, second=False))
