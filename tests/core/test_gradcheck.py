"""The gradient check accepts a right gradient and rejects wrong ones."""

import numpy as np
import pytest
import torch
from torch import nn

from normtutor import layers, norms
from normtutor.gradcheck import gradient_errors

x = np.random.default_rng(0).standard_normal((3, 4))
g = np.random.default_rng(1).standard_normal((3, 4))


def cube(x: np.ndarray) -> np.ndarray:
    return x**3


RIGHT = 3 * x**2 * g
WRONG = [RIGHT * 1.001, 3 * x**2, RIGHT + 1e-3, np.where(x == x[1, 1], 0.0, RIGHT)]


@pytest.mark.parametrize("wrong", WRONG, ids=["scaled", "no chain rule", "shifted", "a hole"])
def test_a_right_gradient_passes_and_a_wrong_one_fails(wrong):
    for unit in (1.0, 1e6):  # the error is relative
        right, error = (
            gradient_errors(cube, [x], [unit * grad], unit * g)[0] for grad in (RIGHT, wrong)
        )
        assert right < 1e-8 and error > 1e-5


def test_each_argument_has_an_error_of_its_own():
    right, wrong = gradient_errors(np.multiply, [x, g], [g, 2 * x], np.ones_like(x))
    assert right < 1e-8 < 0.1 < wrong


def test_float32_and_other_shapes_are_refused():
    with pytest.raises(ValueError, match="float64"):
        gradient_errors(cube, [x.astype(np.float32)], [x], g)
    with pytest.raises(ValueError, match="shape"):
        gradient_errors(cube, [x], [x[:1]], g)
    for wrong in (g[:1], g[..., :1], np.ones(())):  # which would broadcast
        with pytest.raises(ValueError, match=r"grad_y must have the shape of y, \(3, 4\)"):
            gradient_errors(cube, [x], [RIGHT], wrong)


def test_a_gradient_that_vanishes_along_the_argument_is_no_trouble():
    """Along x itself a norm's gradient is 0, and both numbers are rounding."""

    def length(x):
        return np.sqrt(np.sum(x * x, axis=-1, keepdims=True))

    radial = np.sum(g * x, axis=-1, keepdims=True) / length(x) ** 2
    right = (g - x * radial) / length(x)
    assert gradient_errors(lambda x: x / length(x), [x], [right], g)[0] < 1e-8
    # x comes from seed 0, the direction does not: along x a gradient of 0 would be right.
    assert gradient_errors(lambda x: x / length(x), [x], [0 * x], g, directions=1)[0] > 0.1


def test_the_formulas_of_the_package_and_modules_are_checked_as_they_are():
    weight = np.asarray([0.5, -1.0, 2.0, 1.5])
    grads = norms.layer_norm_backward(g, norms.layer_norm(x, weight)[1])
    assert max(gradient_errors(norms.layer_norm, [x, weight], grads[:2], g)) < 1e-8
    for module in (nn.LayerNorm(4).double(), layers.LayerNorm(4).double()):
        theirs = torch.from_numpy(x).requires_grad_()
        grad_y = torch.from_numpy(g)
        (module(theirs) * grad_y).sum().backward()
        assert gradient_errors(module, [theirs], [theirs.grad], grad_y)[0] < 1e-8
        assert gradient_errors(module, [theirs], [2 * theirs.grad], grad_y)[0] > 0.1
