"""PowerNorm against two straight-line restatements: of the paper, and of its authors' code."""

import copy
from typing import Any

import pytest
import torch
from layer_checks import assert_equal, buffers, randn, random_mask, randomize, results
from torch import Tensor

from normtutor import layers

APPROXIMATE = pytest.mark.parametrize("variant", ["pn", "authors-code"])
EVERY = pytest.mark.parametrize("variant", ["pn", "authors-code", "pn-v"])
MASK = pytest.mark.parametrize("mask", [False, True], ids=["dense", "masked"])


class Paper:
    """Algorithm 2, for tokens of shape (n, H) of which some are real.

    The warm-up is ours: this batch divides, the gradient through it is exact, ψ² is the plain
    average of the batches so far.
    """

    def __init__(self, layer: layers.PowerNorm) -> None:
        self.layer, self.t = layer, 0
        self.psi_squared = torch.ones(layer.num_features, dtype=torch.float64)
        self.nu = torch.zeros_like(self.psi_squared)

    def step(self, x: Tensor, grad_y: Tensor, real: Tensor) -> tuple[Tensor, ...]:
        """y and the gradients of x, γ and β."""
        layer, gamma, beta = self.layer, *parameters(self.layer)
        self.t += 1
        warm = self.t <= layer.warmup_steps
        batch = x[real].square().mean(0)
        psi = ((batch if warm else self.psi_squared) + layer.eps).sqrt()
        if warm:
            self.psi_squared = (self.psi_squared * (self.t - 1) + batch) / self.t
        else:
            past = layer.alpha_forward
            self.psi_squared = past * self.psi_squared + (1 - past) * batch
        shown = real[:, None]
        x_hat, grad_y = shown * x / psi, shown * grad_y
        g = gamma * grad_y
        big_gamma, big_lambda = x_hat[real].square().mean(0), (g * x_hat)[real].mean(0)
        grad_x = (g - (big_lambda if warm else self.nu) * x_hat) / psi
        past = layer.alpha_backward
        self.nu = self.nu * (1 - (1 - past) * big_gamma) + (1 - past) * big_lambda
        return shown * (gamma * x_hat + beta), grad_x, (grad_y * x_hat).sum(0), grad_y.sum(0)


class AuthorsCode:
    """What the authors published. It keeps z = ν / (1 − α), and padding enters z.

    No gradient arrives at padding, as where the loss reads none of it.
    """

    def __init__(self, layer: layers.PowerNorm) -> None:
        self.layer, self.t = layer, 0
        self.psi_squared = torch.ones(layer.num_features, dtype=torch.float64)
        self.z = torch.zeros_like(self.psi_squared)

    @property
    def nu(self) -> Tensor:
        return (1 - self.layer.alpha_backward) * self.z

    def step(self, x: Tensor, grad_y: Tensor, real: Tensor) -> tuple[Tensor, ...]:
        """y and the gradients of x, γ and β."""
        layer, gamma, beta = self.layer, *parameters(self.layer)
        self.t += 1
        groups = x.unflatten(1, (layer.groups, -1))
        rms = (groups.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        unit = groups / rms
        s = unit.flatten(1)
        batch = s[real].square().mean(0)
        warm = self.t <= layer.warmup_steps
        x_hat = s / ((batch if warm else self.psi_squared) + layer.eps).sqrt()
        if self.t < layer.warmup_steps:
            self.psi_squared = (self.psi_squared * (self.t - 1) + batch) / self.t
        past = layer.alpha_forward
        self.psi_squared = past * self.psi_squared + (1 - past) * batch
        shown = real[:, None]
        grad_y = shown * grad_y
        e = gamma * grad_y - self.nu * x_hat
        self.z = self.z + (e * x_hat).mean(0)
        ds = (shown * e / (batch + layer.eps).sqrt()).unflatten(1, (layer.groups, -1))
        grad_x = ((ds - unit * (ds * unit).mean(-1, keepdim=True)) / rms).flatten(1)
        return shown * (gamma * x_hat + beta), grad_x, (grad_y * x_hat).sum(0), grad_y.sum(0)


def parameters(layer: layers.PowerNorm) -> tuple[Tensor, Tensor]:
    """γ and β, or the 1 and 0 in their place."""
    if layer.affine:
        return layer.weight.detach(), layer.bias.detach()
    return torch.tensor(1.0), torch.tensor(0.0)


def compare(layer: layers.PowerNorm, reference: Any, steps: int, mask: bool, seed: int = 0) -> None:
    """Train both for some steps; raise AssertionError where any number disagrees."""
    randomize(layer, seed)
    for step in range(steps):
        shape = (2, 3, layer.num_features)
        x = (1 + step / 3) * randn(*shape, seed=seed + step) + 0.5
        c = randn(*shape, seed=100 + seed + step)
        real = random_mask(2, 3, seed=seed + step) if mask else torch.ones(2, 3).bool()
        found = results(layer, x, *([real] if mask else []), second=False, cotangent=c)
        names = ["y", "grad of x", "grad of weight", "grad of bias"]
        values = reference.step(x.flatten(0, 1), c.flatten(0, 1), real.flatten())
        expected = dict(zip(names, values, strict=True))
        expected["buffer running_mean_square"] = reference.psi_squared
        expected["buffer nu"] = reference.nu
        expected["buffer num_batches_tracked"] = torch.tensor(step + 1)
        assert found.keys() == expected.keys() - (set() if layer.affine else set(names[2:]))
        for name, value in found.items():
            other = expected[name].reshape(value.shape)
            torch.testing.assert_close(value, other, rtol=1e-9, atol=1e-11)


SETTINGS: list[dict[str, Any]] = [
    {},
    {"alpha_forward": 0.5, "alpha_backward": 0.8, "eps": 0.1},
    {"warmup_steps": 3, "alpha_backward": 0.7},
    {"warmup_steps": 20},
    {"affine": False},
]


@MASK
@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_pn_is_algorithm_2_step_by_step(options, mask):
    layer = layers.PowerNorm(4, **options).double()
    compare(layer, Paper(layer), 6, mask)


@MASK
@pytest.mark.parametrize("options", [{"groups": 1}, {"groups": 4}, *SETTINGS], ids=str)
def test_the_authors_code_step_by_step(options, mask):
    layer = layers.PowerNorm(4, variant="authors-code", **{"groups": 2} | options).double()
    compare(layer, AuthorsCode(layer), 6, mask)


def test_pn_v_keeps_a_running_mean_square_for_its_evaluation():
    layer = layers.PowerNorm(4, variant="pn-v", alpha_forward=0.7, warmup_steps=2).double()
    squares = []
    for step in range(4):
        x = randn(3, 5, 4, seed=step)
        squares.append(x.square().mean((0, 1)))
        torch.testing.assert_close(layer(x), x / (squares[-1] + layer.eps).sqrt())
    assert torch.autograd.gradgradcheck(copy.deepcopy(layer), (x.clone().requires_grad_(),))
    expected = (squares[0] + squares[1]) / 2
    for square in squares[2:]:
        expected = 0.7 * expected + 0.3 * square
    torch.testing.assert_close(layer.running_mean_square, expected)
    torch.testing.assert_close(layer.eval()(x), x / (expected + layer.eps).sqrt())


@EVERY
def test_evaluation_divides_by_the_running_mean_square_and_changes_nothing(variant):
    layer = layers.PowerNorm(4, variant=variant, groups=2).double().eval()
    randomize(layer)
    layer.running_mean_square.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    before = buffers(layer)
    x = s = randn(3, 5, 4)
    if variant == "authors-code":  # which scales each token there too
        pairs = x.unflatten(-1, (2, 2))
        s = (pairs / (pairs.square().mean(-1, keepdim=True) + 1e-5).sqrt()).flatten(-2)
    found = results(layer, x)  # with an exact second derivative
    expected = layer.weight * s / (layer.running_mean_square + layer.eps).sqrt() + layer.bias
    torch.testing.assert_close(found["y"], expected.detach())
    assert torch.autograd.gradcheck(layer, (x.requires_grad_(),))
    assert_equal(buffers(layer), before)


@APPROXIMATE
def test_nu_moves_in_the_backward_pass_only_and_after_use(variant):
    layer = layers.PowerNorm(4, variant=variant).double()
    twin = copy.deepcopy(layer)
    xs = [randn(3, 5, 4, seed=s).requires_grad_() for s in (0, 1)]
    cs = [randn(3, 5, 4, seed=s) for s in (2, 3)]
    layer.nu.fill_(0.25)
    ys = [layer(x) for x in xs]  # two forward passes before a backward one
    assert (layer.nu == 0.25).all()
    for nu in (layer.nu, twin.nu):
        nu.fill_(0.75)  # the value at the time of the backward pass is what counts
    for x, c, y in zip(xs, cs, ys, strict=True):
        found = torch.autograd.grad(y, x, c, retain_graph=True)[0]
        torch.testing.assert_close(found, torch.autograd.grad(twin(x), x, c)[0])
        torch.testing.assert_close(layer.nu, twin.nu)
    assert_equal(buffers(layer), buffers(twin))
    y.backward(c)  # a second backward pass is a second gradient to average
    assert not layer.nu.equal(twin.nu)


@APPROXIMATE
def test_a_gradient_that_is_not_finite_does_not_enter_nu(variant):
    layer = layers.PowerNorm(4, variant=variant).double()
    layer.nu.copy_(torch.tensor([0.125, 0.25, 0.375, 0.5]))
    twin = copy.deepcopy(layer)
    x, c = randn(3, 5, 4), randn(3, 5, 4, seed=1)
    twin(x).backward(c)
    c[1, 2, 0] = torch.inf
    layer(x).backward(c)
    assert layer.nu[0] == 0.125  # the feature that it hit stays, the others move as they would
    assert layer.nu[1:].equal(twin.nu[1:])


def test_the_state_dict_holds_these_values_at_the_start():
    layer = layers.PowerNorm(3)
    start = {"weight": [1.0] * 3, "bias": [0.0] * 3}
    start |= {"running_mean_square": [1.0] * 3, "nu": [0.0] * 3, "num_batches_tracked": 0}
    for _ in range(2):
        assert {name: value.tolist() for name, value in layer.state_dict().items()} == start
        randomize(layer)
        results(layer, randn(4, 3).float(), second=False)
        layer.reset_parameters()
    other = layers.PowerNorm(4, variant="authors-code", groups=2, feature_axis=1)
    assert "variant='authors-code', groups=2, feature_axis=1)" in repr(other)
    other = layers.PowerNorm(4, variant="authors-code", nu_counts_padding=False)
    assert "nu_counts_padding=False" in repr(other)


# Ways from x to a loss: through the layer alone, past it too, with a constant gradient arriving.
PATHS = {
    "a residual, squared": lambda x, y: (x + y).square().sum(),
    "the layer, squared": lambda x, y: y.square().sum(),
    "the layer, summed": lambda x, y: y.sum(),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("variant, warmup_steps", [("pn", 0), ("authors-code", 9)])
def test_a_second_derivative_of_the_approximate_gradient_raises_on_every_path(
    variant, path, warmup_steps
):
    layer = layers.PowerNorm(4, variant=variant, warmup_steps=warmup_steps, groups=2).double()
    for leaf in (0, 1):
        for grad in (0, 1):
            leaves = (randn(3, 5, 4).requires_grad_(), layer.weight)
            loss = PATHS[path](leaves[0], layer(leaves[0]))
            grads = torch.autograd.grad(loss, leaves, create_graph=True)
            with pytest.raises(RuntimeError, match='variant="pn-v"'):
                torch.autograd.grad(grads[grad].square().sum(), leaves[leaf])
            with pytest.raises(RuntimeError, match='variant="pn-v"'):
                grads[grad].sum().backward(retain_graph=True)


@APPROXIMATE
def test_a_recorded_first_derivative_is_the_same_and_may_be_used(variant):
    """What does not differentiate the approximate gradient does not raise."""
    layer = layers.PowerNorm(4, variant=variant).double()
    x, twin = randn(3, 5, 4).requires_grad_(), copy.deepcopy(layer)
    (plain,) = torch.autograd.grad(layer(x).square().sum(), x)
    (recorded,) = torch.autograd.grad(twin(x).square().sum(), x, create_graph=True)
    assert recorded.detach().equal(plain)
    assert layer.nu.equal(twin.nu)
    scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    (recorded.detach() * scale).sum().backward()
    torch.testing.assert_close(scale.grad, plain.sum())


@pytest.mark.parametrize(
    "variant, dtype",
    [("pn", torch.float16), ("authors-code", torch.bfloat16), ("pn-v", torch.float16)],
    ids=str,
)
def test_half_precision_input_and_float32_statistics(variant, dtype):
    layer = layers.PowerNorm(4, variant=variant)
    exact = copy.deepcopy(layer).double()
    for step in range(3):
        x, c = randn(3, 5, 4, seed=step).to(dtype), randn(3, 5, 4, seed=9 + step).to(dtype)
        found = results(layer, x, second=False, cotangent=c)
        expected = results(exact, x.double(), second=False, cotangent=c.double())
        assert found["y"].dtype == found["grad of x"].dtype == dtype
        for name, value in expected.items():
            tight = found[name].dtype != dtype
            if name in ("buffer nu", "grad of weight"):
                tight = tight and dtype == torch.float16
            tolerance = 1e-4 if tight else 3 * torch.finfo(dtype).eps
            mine = found[name].to(value.dtype)
            torch.testing.assert_close(mine, value, rtol=tolerance, atol=tolerance)
    whole = layers.PowerNorm(4, variant=variant).to(dtype)
    assert results(whole, x, second=False)["buffer nu"].dtype == dtype


def test_nu_is_in_units_of_the_loss_and_follows_a_scaler_only_if_it_is_told():
    """A scaler that doubles its scale puts the gradient off; ν times two puts it right."""
    found = {}
    for how in ("without a scaler", "a constant scale", "a scale that doubles", "ν told"):
        layer = layers.PowerNorm(4).double()
        scale = 1.0 if how == "without a scaler" else 2.0**10
        for step in range(40):
            if step == 39 and how in ("a scale that doubles", "ν told"):
                scale *= 2
                layer.nu.mul_(2 if how == "ν told" else 1)
            x = (randn(8, 5, 4, seed=step) + 0.5).requires_grad_()
            loss = (layer(x) - 2.0).square().mean()
            (scale * loss).backward()
        found[how] = x.grad / scale
    right = found["without a scaler"]
    for how, tolerance in (("a constant scale", 1e-12), ("ν told", 1e-12)):
        torch.testing.assert_close(found[how], right, rtol=tolerance, atol=1e-15)
    off = (found["a scale that doubles"] - right).norm() / right.norm()
    assert 0.005 < off < 0.2
