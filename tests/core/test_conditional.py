"""ScaleNorm and the conditional norms: gradients, oracles, layers, rows of the tables."""

import numpy as np
import pytest
import torch
from layer_checks import randn
from numpy.testing import assert_allclose
from torch import Tensor, nn

from normtutor import layers, norms
from normtutor.gradcheck import gradient_errors
from normtutor.norms import RELATIVES, TABLE, sharing_cells

RNG = np.random.default_rng(0)
X, GRAD_Y = RNG.standard_normal((2, 3, 5, 4)) + 0.5
SCALE, SHIFT, GATE = RNG.standard_normal((3, 3, 4))
BRANCH = RNG.standard_normal((3, 5, 4))

CASES = {
    "scale_norm": (norms.scale_norm, norms.scale_norm_backward, (X, np.asarray([1.7]))),
    "film": (norms.film, norms.film_backward, (X, SCALE, SHIFT)),
    "adaptive_layer_norm": (
        norms.adaptive_layer_norm,
        norms.adaptive_layer_norm_backward,
        (X, SCALE, SHIFT),
    ),
    "gated_residual": (norms.gated_residual, norms.gated_residual_backward, (X, BRANCH, GATE)),
}
EVERY = pytest.mark.parametrize("name", CASES)


@EVERY
def test_gradients_against_finite_differences_and_autograd(name):
    forward, backward, arguments = CASES[name]
    _, cache = forward(*arguments)
    grads = backward(GRAD_Y, cache)
    errors = gradient_errors(lambda *a: forward(*a)[0], arguments, grads, GRAD_Y)
    assert max(errors) < 1e-7
    leaves = [torch.as_tensor(a).requires_grad_() for a in arguments]
    y, _ = forward(*leaves)
    for found, expected in zip(
        grads, torch.autograd.grad(y, leaves, torch.as_tensor(GRAD_Y)), strict=True
    ):
        assert_allclose(found, expected.numpy(), rtol=1e-10, atol=1e-12)
    wrong = [2 * g for g in grads]
    assert min(gradient_errors(lambda *a: forward(*a)[0], arguments, wrong, GRAD_Y)) > 0.1


@EVERY
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision(name, dtype):
    forward, backward, arguments = CASES[name]
    halves = [torch.as_tensor(a).to(dtype) for a in arguments]
    y, cache = forward(*halves)
    exact, exact_cache = forward(*[h.double() for h in halves])
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), exact, rtol=2**-7, atol=2**-7)
    grad_y = torch.as_tensor(GRAD_Y).to(dtype)
    for grad, expected, like in zip(
        backward(grad_y, cache), backward(grad_y.double(), exact_cache), halves, strict=True
    ):
        assert grad.dtype == like.dtype and grad.shape == like.shape
        torch.testing.assert_close(grad.double(), expected, rtol=2**-6, atol=2**-6)


def test_scale_norm_is_rms_norm_with_one_number():
    d, eps = X.shape[-1], 1e-3
    y, _ = norms.scale_norm(X, np.asarray([1.5]), eps=eps * d)
    expected, _ = norms.rms_norm(X, np.full(d, 1.5 / np.sqrt(d)), eps=eps)
    assert_allclose(y, expected)
    assert_allclose(np.linalg.norm(norms.scale_norm(X, np.asarray([3.0]), eps=0.0)[0], axis=-1), 3)


def test_adaptive_layer_norm_is_torchs_layer_norm_modulated():
    x = torch.as_tensor(X)
    expected = nn.functional.layer_norm(x, (4,)) * (1 + torch.as_tensor(SCALE)[:, None])
    expected = expected + torch.as_tensor(SHIFT)[:, None]
    torch.testing.assert_close(
        norms.adaptive_layer_norm(x, torch.as_tensor(SCALE), torch.as_tensor(SHIFT))[0], expected
    )


def test_film_on_another_axis():
    y, cache = norms.film(X, SCALE, SHIFT)
    moved, moved_cache = norms.film(np.moveaxis(X, -1, 1), SCALE, SHIFT, feature_axis=1)
    assert_allclose(np.moveaxis(moved, 1, -1), y)
    grads = norms.film_backward(np.moveaxis(GRAD_Y, -1, 1), moved_cache)
    assert_allclose(grads.scale, norms.film_backward(GRAD_Y, cache).scale)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: norms.film(X, SCALE[:2], SHIFT), r"scale must have shape \(3, 4\)"),
        (lambda: norms.film(X, SCALE, SHIFT[:, :2]), r"shift must have shape \(3, 4\)"),
        (lambda: norms.scale_norm(X, np.ones(4)), r"g must have shape \(1,\)"),
        (lambda: norms.gated_residual(X, BRANCH[:2], GATE), "branch must have shape"),
        (lambda: layers.FiLM(4, 2)(randn(3, 5, 4), randn(2, 2)), r"condition must have shape \(3"),
        (
            lambda: layers.AdaptiveLayerNorm(4, 2).double()(randn(3, 5, 6), randn(3, 2)),
            "4 features",
        ),
    ],
)
def test_bad_input(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_the_layers_start_as_what_they_condition():
    x, condition = randn(3, 5, 4), randn(3, 2, seed=1)
    assert layers.FiLM(4, 2).double()(x, condition).equal(x)
    torch.testing.assert_close(
        layers.AdaptiveLayerNorm(4, 2).double()(x, condition), nn.functional.layer_norm(x, (4,))
    )
    block = layers.AdaptiveLayerNormZero(nn.Linear(4, 4), 4, 2).double()
    assert block(x, condition).equal(x)
    torch.testing.assert_close(
        layers.ScaleNorm(4).double()(x), nn.functional.rms_norm(x, (4,), eps=1e-5 / 4)
    )


def test_in_the_first_step_of_adaln_zero_only_the_gate_has_a_gradient():
    block = layers.AdaptiveLayerNormZero(nn.Linear(4, 4), 4, 2).double()
    block(randn(3, 5, 4), randn(3, 2, seed=1)).square().sum().backward()
    assert not block.branch.weight.grad.any()
    scale, shift, gate = block.projection.weight.grad.chunk(3)
    assert not scale.any() and not shift.any() and gate.abs().min() > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.FiLM(4, 2),
        lambda: layers.AdaptiveLayerNorm(4, 2),
        lambda: layers.AdaptiveLayerNormZero(nn.Tanh(), 4, 2),
    ],
)
def test_the_conditional_layers_learn_and_their_gradients_are_right(make):
    layer = make().double()
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(randn(*parameter.shape, seed=5 + i))
    x, condition = randn(3, 5, 4).requires_grad_(), randn(3, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(layer, (x, condition))
    assert torch.autograd.gradgradcheck(layer, (x, condition))
    restored = make().double()
    restored.load_state_dict(layer.state_dict())
    assert restored(x, condition).equal(layer(x, condition))
    meta = make().to("meta")
    assert meta(x.to("meta"), condition.to("meta")).shape == x.shape
    assert "4, 2" in repr(layer)


def test_adaptive_layer_norm_adds_its_epsilon_to_the_variance():
    y, _ = norms.adaptive_layer_norm(X, SCALE, SHIFT, eps=0.5)
    x_hat, _ = norms.layer_norm(X, eps=0.5)
    assert_allclose(y, x_hat * (1 + SCALE[:, None]) + SHIFT[:, None], rtol=1e-12, atol=1e-12)
    layer = layers.AdaptiveLayerNorm(4, 2, eps=0.5).double()
    found = layer(torch.as_tensor(X), randn(3, 2))
    assert_allclose(found.detach().numpy(), x_hat, rtol=1e-12, atol=1e-12)


def test_conditional_batch_norm_is_made_of_two_layers():
    """Two classes of one distribution, told to have other means: the condition must do it."""
    torch.manual_seed(0)

    class Conditional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = layers.BatchNorm(4, affine=False, feature_axis=-1)
            self.film = layers.FiLM(4, 2)

        def forward(self, x: Tensor, condition: Tensor) -> Tensor:
            return self.film(self.norm(x), condition)

    model = Conditional()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    labels = torch.arange(8) % 2
    condition = nn.functional.one_hot(labels, 2).float()
    for step in range(100):
        y = model(randn(8, 5, 4, seed=step).float(), condition)
        target = torch.where(labels == 1, 3.0, -3.0)
        loss = (y.mean((1, 2)) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.5


def test_rows_of_the_table():
    assert not set(RELATIVES) & set(TABLE)
    shape, cell = (2, 3, 4), (0, 1, 2)
    for name in ("ScaleNorm", "AdaLN", "AdaLN-Zero"):
        assert (sharing_cells(name, shape, cell) == sharing_cells("LayerNorm", shape, cell)).all()
    assert not sharing_cells("FiLM", shape, cell).any()
