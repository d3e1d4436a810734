"""Dynamic tanh: the formula, its gradients, and the layer over it."""

import numpy as np
import pytest
import torch

from normtutor import layers, norms
from normtutor.gradcheck import gradient_errors


def arguments():
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal((2, 3, 5)),
        np.array([0.7]),
        rng.standard_normal(5),
        rng.standard_normal(5),
    ]


def test_values():
    x, alpha, weight, bias = arguments()
    y, _ = norms.dynamic_tanh(x, alpha, weight, bias)
    np.testing.assert_allclose(y, weight * np.tanh(0.7 * x) + bias, rtol=1e-15)


def test_gradients_agree_with_finite_differences_and_autograd():
    given = arguments()
    grad_y = np.random.default_rng(1).standard_normal((2, 3, 5))
    _, cache = norms.dynamic_tanh(*given)
    grads = norms.dynamic_tanh_backward(grad_y, cache)
    errors = gradient_errors(lambda *a: norms.dynamic_tanh(*a)[0], given, list(grads), grad_y)
    assert max(errors) < 1e-8
    tensors = [torch.asarray(a, requires_grad=True) for a in given]
    expected = torch.autograd.grad(norms.dynamic_tanh(*tensors)[0], tensors, torch.asarray(grad_y))
    for mine, theirs in zip(grads, expected, strict=True):
        torch.testing.assert_close(torch.asarray(mine), theirs)


def test_half_precision_is_widened():
    x, alpha, weight, bias = (torch.asarray(a).half() for a in arguments())
    y, cache = norms.dynamic_tanh(x, alpha, weight, bias)
    assert y.dtype == torch.float16
    assert cache.tanh.dtype == torch.float32
    grads = norms.dynamic_tanh_backward(torch.ones_like(y), cache)
    assert {g.dtype for g in grads} == {torch.float16}


def test_refused():
    x, alpha, weight, _ = arguments()
    with pytest.raises(ValueError, match=r"alpha must have shape \(1,\)"):
        norms.dynamic_tanh(x, np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="weight must have shape"):
        norms.dynamic_tanh(x, alpha, weight[:3])
    with pytest.raises(TypeError, match="floating"):
        norms.dynamic_tanh(x.astype(int), alpha)


def test_the_layer():
    layer = layers.DynamicTanh(5, alpha_init_value=0.8)
    x = torch.randn(2, 3, 5)
    torch.testing.assert_close(layer(x), torch.tanh(0.8 * x))
    assert list(layer.state_dict()) == ["alpha", "weight", "bias"]
    assert repr(layer) == "DynamicTanh(5, alpha_init_value=0.8)"
    with torch.no_grad():
        layer.alpha.fill_(3)
    layer.reset_parameters()
    assert layer.alpha.item() == pytest.approx(0.8)
