"""PowerNorm against two straight-line restatements: of the paper, and of its authors' code."""

import copy
import gc
import math
import pickle
import weakref
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_checks import assert_equal, randn, random_mask, randomize, results
from torch import Tensor, nn

from normtutor import layers

APPROXIMATE = ["pn", "authors-code"]
VARIANTS = [*APPROXIMATE, "pn-v"]


class Paper:
    """Algorithm 2, one number at a time, for a list of tokens of which some are real.

    The warm-up is ours: this batch divides, the gradient through it is exact, ψ² is the plain
    average of the batches so far.
    """

    def __init__(self, layer: layers.PowerNorm) -> None:
        self.layer = layer
        self.psi_squared = [1.0] * layer.num_features
        self.nu = [0.0] * layer.num_features
        self.t = 0

    def step(self, x: list, gamma: list, beta: list, grad_y: list, real: list) -> tuple:
        self.t += 1
        warm = self.t <= self.layer.warmup_steps
        tokens = [i for i, r in enumerate(real) if r]
        y = [[0.0] * len(row) for row in x]
        grad_x = [[0.0] * len(row) for row in x]
        grad_gamma, grad_beta = [0.0] * len(gamma), [0.0] * len(gamma)
        for h in range(len(gamma)):
            batch = sum(x[i][h] ** 2 for i in tokens) / len(tokens)
            old = self.psi_squared[h]
            psi = math.sqrt((batch if warm else old) + self.layer.eps)
            a = self.layer.alpha_forward
            if warm:
                self.psi_squared[h] = (old * (self.t - 1) + batch) / self.t
            else:
                self.psi_squared[h] = a * old + (1 - a) * batch
            x_hat = {i: x[i][h] / psi for i in tokens}
            g = {i: gamma[h] * grad_y[i][h] for i in tokens}
            big_gamma = sum(x_hat[i] ** 2 for i in tokens) / len(tokens)
            big_lambda = sum(g[i] * x_hat[i] for i in tokens) / len(tokens)
            used = big_lambda if warm else self.nu[h]
            for i in tokens:
                y[i][h] = gamma[h] * x_hat[i] + beta[h]
                grad_x[i][h] = (g[i] - used * x_hat[i]) / psi
                grad_gamma[h] += grad_y[i][h] * x_hat[i]
                grad_beta[h] += grad_y[i][h]
            a = self.layer.alpha_backward
            self.nu[h] = self.nu[h] * (1 - (1 - a) * big_gamma) + (1 - a) * big_lambda
        return y, grad_x, grad_gamma, grad_beta


class AuthorsCode:
    """What the authors published. It keeps z = ν / (1 − α), and padding enters z.

    No gradient arrives at padding, as where the loss reads none of it.
    """

    def __init__(self, layer: layers.PowerNorm) -> None:
        self.layer = layer
        self.phi = [1.0] * layer.num_features
        self.z = [0.0] * layer.num_features
        self.t = 0

    @property
    def psi_squared(self) -> list[float]:
        return self.phi

    @property
    def nu(self) -> list[float]:
        return [(1 - self.layer.alpha_backward) * z for z in self.z]

    def step(self, x: list, gamma: list, beta: list, grad_y: list, real: list) -> tuple:
        layer = self.layer
        self.t += 1
        tokens = [i for i, r in enumerate(real) if r]
        width = len(gamma) // layer.groups
        groups = [range(k * width, (k + 1) * width) for k in range(layer.groups)]
        r = [[math.sqrt(sum(row[h] ** 2 for h in g) / width + 1e-5) for g in groups] for row in x]
        s = [[row[h] / r[i][h // width] for h in range(len(row))] for i, row in enumerate(x)]
        y = [[0.0] * len(row) for row in x]
        ds = [[0.0] * len(row) for row in x]
        grad_gamma, grad_beta = [0.0] * len(gamma), [0.0] * len(gamma)
        for h in range(len(gamma)):
            q = sum(s[i][h] ** 2 for i in tokens) / len(tokens)
            divisor = math.sqrt((q if self.t <= layer.warmup_steps else self.phi[h]) + layer.eps)
            if self.t < layer.warmup_steps:
                self.phi[h] = self.phi[h] * (self.t - 1) / self.t + q / self.t
            self.phi[h] = layer.alpha_forward * self.phi[h] + (1 - layer.alpha_forward) * q
            z, total = self.z[h], 0.0
            for i in range(len(x)):
                x_hat = s[i][h] / divisor
                arrives = gamma[h] * grad_y[i][h] if i in tokens else 0.0
                e = arrives - (1 - layer.alpha_backward) * z * x_hat
                total += e * x_hat
                if i not in tokens:
                    continue
                y[i][h] = gamma[h] * x_hat + beta[h]
                ds[i][h] = e / math.sqrt(q + layer.eps)
                grad_gamma[h] += grad_y[i][h] * x_hat
                grad_beta[h] += grad_y[i][h]
            self.z[h] = z + total / len(x)
        grad_x = [[0.0] * len(row) for row in x]
        for i in tokens:
            for k, group in enumerate(groups):
                along = sum(ds[i][h] * x[i][h] for h in group)
                for h in group:
                    grad_x[i][h] = ds[i][h] / r[i][k] - x[i][h] * along / (width * r[i][k] ** 3)
        return y, grad_x, grad_gamma, grad_beta


def compare(layer: layers.PowerNorm, reference: Any, steps: int, mask: bool, seed: int = 0) -> None:
    """Train both for some steps; raise AssertionError where any number disagrees."""
    randomize(layer, seed)
    width = layer.num_features
    for step in range(steps):
        x = ((1 + step / 3) * randn(2, 3, width, seed=seed + step) + 0.5).requires_grad_()
        c = randn(2, 3, width, seed=100 + seed + step)
        real = random_mask(2, 3, seed=seed + step) if mask else torch.ones(2, 3).bool()
        y = layer(x, real if mask else None)
        parameters = [layer.weight, layer.bias] if layer.affine else []
        grads = torch.autograd.grad((y * c).sum(), [x, *parameters])
        gamma = layer.weight.tolist() if layer.affine else [1.0] * width
        beta = layer.bias.tolist() if layer.affine else [0.0] * width
        rows = [t.reshape(6, width).tolist() for t in (x, c)]
        expected = reference.step(rows[0], gamma, beta, rows[1], real.flatten().tolist())
        found = [y, *grads, layer.running_mean_square, layer.nu]
        named = [*expected[: 2 + len(parameters)], reference.psi_squared, reference.nu]
        for mine, other in zip(found, named, strict=True):
            other = torch.tensor(other, dtype=torch.float64).reshape(mine.shape)
            torch.testing.assert_close(mine.detach(), other, rtol=1e-9, atol=1e-11)
        assert layer.num_batches_tracked == step + 1


SETTINGS: list[dict[str, Any]] = [
    {},
    {"alpha_forward": 0.5, "alpha_backward": 0.8, "eps": 0.1},
    {"warmup_steps": 1},
    {"warmup_steps": 3, "alpha_backward": 0.7},
    {"warmup_steps": 20},
    {"affine": False},
]


@pytest.mark.parametrize("mask", [False, True], ids=["dense", "masked"])
@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_pn_is_algorithm_2_step_by_step(options, mask):
    layer = layers.PowerNorm(4, **options).double()
    compare(layer, Paper(layer), 6, mask)


@pytest.mark.parametrize("mask", [False, True], ids=["dense", "masked"])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_the_authors_code_step_by_step(options, groups, mask):
    layer = layers.PowerNorm(4, variant="authors-code", groups=groups, **options).double()
    compare(layer, AuthorsCode(layer), 6, mask)


@settings(max_examples=25)
@given(
    variant=st.sampled_from(APPROXIMATE),
    forward=st.floats(0.0, 1.0),
    backward=st.floats(0.0, 0.99),
    warmup=st.integers(0, 4),
    width=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_any_setting_step_by_step(variant, forward, backward, warmup, width, seed):
    layer = layers.PowerNorm(
        width, 1e-3, forward, backward, warmup_steps=warmup, variant=variant, groups=width
    ).double()
    reference = Paper(layer) if variant == "pn" else AuthorsCode(layer)
    compare(layer, reference, 4, mask=seed % 2 == 0, seed=seed)


@pytest.mark.parametrize("options", SETTINGS[:-1], ids=str)
def test_the_comparison_tells_the_variants_apart(options):
    layer = layers.PowerNorm(4, **options).double()
    with pytest.raises(AssertionError):
        compare(layer, AuthorsCode(layer), 4, mask=False)
    layer = layers.PowerNorm(4, variant="authors-code", **options).double()
    with pytest.raises(AssertionError):
        compare(layer, Paper(layer), 4, mask=False)


@pytest.mark.parametrize(
    "options",
    [
        {"warmup_steps": 1},
        {"alpha_forward": 0.91},
        {"alpha_backward": 0.91},
        {"eps": 1.1e-5},
        {"variant": "pn-v"},
    ],
    ids=str,
)
def test_the_comparison_notices_a_layer_that_differs_in_one_point(options):
    layer = layers.PowerNorm(4, **options).double()
    with pytest.raises(AssertionError):
        compare(layer, Paper(layers.PowerNorm(4)), 4, mask=False)


@pytest.mark.parametrize("mask", [False, True], ids=["dense", "masked"])
@pytest.mark.parametrize("feature_axis", [-1, 1])
def test_pn_v_is_the_quadratic_mean_with_autograds_gradient(feature_axis, mask):
    layer = layers.PowerNorm(4, variant="pn-v", feature_axis=feature_axis).double()
    randomize(layer)
    real = random_mask(3, 5, seed=1) if mask else None

    def by_hand(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        rows = x.movedim(feature_axis, -1)
        kept = rows[real] if mask else rows.flatten(0, 1)
        y = weight * rows / ((kept**2).mean(0) + layer.eps).sqrt() + bias
        y = y * real[..., None] if mask else y
        return y.movedim(-1, feature_axis)

    x = randn(3, 5, 4).movedim(-1, feature_axis).requires_grad_()
    leaves = (x, layer.weight, layer.bias)
    y, expected = layer(x, real), by_hand(*leaves)
    torch.testing.assert_close(y, expected)
    c = randn(*y.shape, seed=3)
    firsts = [torch.autograd.grad((z * c).sum(), leaves, create_graph=True) for z in (y, expected)]
    torch.testing.assert_close(*firsts)
    seconds = [torch.autograd.grad((g[0] ** 2).sum(), leaves[:2]) for g in firsts]
    torch.testing.assert_close(*seconds)
    assert torch.autograd.gradcheck(lambda x: layer(x, real), (x,))
    assert torch.autograd.gradgradcheck(lambda x: layer(x, real), (x,))
    assert layer.nu.equal(torch.zeros(4).double())


def test_pn_v_keeps_a_running_mean_square_for_its_evaluation():
    layer = layers.PowerNorm(4, variant="pn-v", alpha_forward=0.7, warmup_steps=2).double()
    squares = []
    for step in range(4):
        x = randn(3, 5, 4, seed=step)
        squares.append((x**2).mean((0, 1)))
        layer(x)
    expected = (squares[0] + squares[1]) / 2
    for square in squares[2:]:
        expected = 0.7 * expected + 0.3 * square
    torch.testing.assert_close(layer.running_mean_square, expected)
    torch.testing.assert_close(layer.eval()(x), x / (expected + layer.eps).sqrt())


def test_in_the_warm_up_pn_is_pn_v():
    x = randn(3, 5, 4)
    pn = layers.PowerNorm(4, warmup_steps=1).double()
    pn_v = layers.PowerNorm(4, variant="pn-v", warmup_steps=1).double()
    found, expected = (results(layer, x, second=False) for layer in (pn, pn_v))
    for name in ("y", "grad of x", "grad of weight", "grad of bias", "buffer running_mean_square"):
        torch.testing.assert_close(found[name], expected[name])


@pytest.mark.parametrize("variant", APPROXIMATE)
def test_nu_moves_in_the_backward_pass_only_and_after_use(variant):
    layer = layers.PowerNorm(4, variant=variant).double()
    layer.nu.fill_(0.25)
    x, c = randn(3, 5, 4).requires_grad_(), randn(3, 5, 4, seed=1)
    psi_squared = layer.running_mean_square.clone()
    y = layer(x)
    assert layer.nu.equal(torch.full((4,), 0.25).double())
    assert not layer.running_mean_square.equal(psi_squared)
    layer.nu.fill_(0.75)  # the value at the time of the backward pass is what counts
    twin = copy.deepcopy(layer)
    twin.running_mean_square.copy_(psi_squared)
    twin.num_batches_tracked.zero_()
    y.backward(c, retain_graph=True)
    expected = torch.autograd.grad(twin(x), x, c)[0]
    torch.testing.assert_close(x.grad, expected)
    torch.testing.assert_close(layer.nu, twin.nu)
    assert not layer.nu.equal(torch.full((4,), 0.75).double())
    moved = layer.nu.clone()
    y.backward(c)  # a second backward pass is a second gradient to average
    assert not layer.nu.equal(moved)


@pytest.mark.parametrize("variant", APPROXIMATE)
def test_two_forwards_before_a_backward(variant):
    """Each backward pass uses its own x̂ and ψ; ν follows the order of the backward passes."""
    for order in ([0, 1], [1, 0]):
        layer = layers.PowerNorm(4, variant=variant, warmup_steps=1).double()
        twin = copy.deepcopy(layer)
        xs = [randn(3, 5, 4, seed=s).requires_grad_() for s in (0, 1)]
        cs = [randn(3, 5, 4, seed=s) for s in (2, 3)]
        ys = [layer(x) for x in xs]
        grads = {i: torch.autograd.grad(ys[i], xs[i], cs[i])[0] for i in order}
        if order == [0, 1] and variant == "pn":
            again = [torch.autograd.grad(twin(x), x, c)[0] for x, c in zip(xs, cs, strict=True)]
            torch.testing.assert_close([grads[0], grads[1]], again)
            torch.testing.assert_close(layer.nu, twin.nu)
            torch.testing.assert_close(layer.running_mean_square, twin.running_mean_square)
        assert all(g.isfinite().all() for g in grads.values())
        assert layer.num_batches_tracked == 2


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("variant", APPROXIMATE)
def test_a_gradient_that_is_not_finite_does_not_enter_nu(variant, bad):
    layer = layers.PowerNorm(4, variant=variant).double()
    layer.nu.copy_(torch.tensor([0.125, 0.25, 0.375, 0.5]))
    twin = copy.deepcopy(layer)
    x, c = randn(3, 5, 4).requires_grad_(), randn(3, 5, 4, seed=1)
    twin(x).backward(c)
    c[1, 2, 0] = bad
    layer(x).backward(c)
    assert layer.nu[0] == 0.125  # the feature that it hit stays, the others move as they would
    assert layer.nu[1:].equal(twin.nu[1:])
    x.grad = None
    layer(x).backward(randn(3, 5, 4, seed=2))
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_evaluation_changes_nothing(variant):
    layer = layers.PowerNorm(4, variant=variant, warmup_steps=3).double()
    results(layer, randn(3, 5, 4), second=False)
    layer.eval()
    before = {n: b.clone() for n, b in layer.named_buffers()}
    for seed in range(3):
        found = results(layer, randn(3, 5, 4, seed=seed))  # with an exact second derivative
        assert found["y"].isfinite().all()
    for name, value in before.items():
        assert dict(layer.named_buffers())[name].equal(value)


@pytest.mark.parametrize("variant", ["pn", "pn-v"])
def test_evaluation_is_linear_and_the_gradient_is_its_transpose(variant):
    layer = layers.PowerNorm(4, variant=variant).double()
    randomize(layer)
    results(layer, randn(3, 5, 4), second=False)
    layer.eval()
    with torch.no_grad():
        layer.bias.zero_()
    a, b = randn(3, 5, 4, seed=1), randn(3, 5, 4, seed=2)
    torch.testing.assert_close(layer(2 * a - 3 * b), 2 * layer(a) - 3 * layer(b))
    torch.testing.assert_close(layer(a[1:2, 2:3]), layer(a)[1:2, 2:3])  # each token by itself
    divisor = (layer.running_mean_square + layer.eps).sqrt()
    torch.testing.assert_close(layer(a), layer.weight * a / divisor)
    assert torch.autograd.gradcheck(layer, (a.requires_grad_(),))


def test_in_evaluation_the_authors_code_scales_each_token_and_is_then_linear():
    layer = layers.PowerNorm(4, variant="authors-code", groups=2).double().eval()
    layer.running_mean_square.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    x = randn(3, 5, 4)
    pairs = x.unflatten(-1, (2, 2))
    s = (pairs / ((pairs**2).mean(-1, keepdim=True) + 1e-5).sqrt()).flatten(-2)
    torch.testing.assert_close(layer(x), s / (layer.running_mean_square + layer.eps).sqrt())
    assert torch.autograd.gradcheck(layer, (x.requires_grad_(),))


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_buffer_keeps_a_graph_or_a_past_batch(variant):
    layer = layers.PowerNorm(4, variant=variant)
    seen = []
    for step in range(3):
        x = randn(3, 5, 4, seed=step).float()
        source = x.requires_grad_()
        hidden = source * 2
        seen.append(weakref.ref(hidden))
        layer(hidden).sum().backward()
        del hidden, source, x
    gc.collect()
    assert [reference() for reference in seen] == [None] * 3
    for buffer in layer.buffers():
        assert not buffer.requires_grad
        assert buffer.grad_fn is None


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_state_dict_round_trips_exactly(variant):
    """A layer restored in the middle of a training goes on as if it had never stopped."""
    layer = layers.PowerNorm(4, variant=variant, warmup_steps=3)
    for step in range(2):
        results(layer, randn(3, 5, 4, seed=step).float(), second=False)
    assert list(layer.state_dict()) == [
        "weight",
        "bias",
        "running_mean_square",
        "nu",
        "num_batches_tracked",
    ]
    restored = layers.PowerNorm(4, variant=variant, warmup_steps=3)
    restored.load_state_dict(pickle.loads(pickle.dumps(layer.state_dict())))
    for step in range(3):
        x = randn(3, 5, 4, seed=10 + step).float()
        assert_equal(results(restored, x, second=False), results(layer, x, second=False))


def test_initial_values_names_and_repr():
    layer = layers.PowerNorm(3)
    assert layer.running_mean_square.equal(torch.ones(3))
    assert layer.nu.equal(torch.zeros(3))
    assert layer.num_batches_tracked.equal(torch.tensor(0))
    assert layer.weight.equal(torch.ones(3))
    assert layer.bias.equal(torch.zeros(3))
    assert repr(layer) == (
        "PowerNorm(3, eps=1e-05, alpha_forward=0.9, alpha_backward=0.9, affine=True, "
        "warmup_steps=0, variant='pn')"
    )
    other = layers.PowerNorm(4, variant="authors-code", groups=2, feature_axis=1)
    assert "variant='authors-code', groups=2, feature_axis=1)" in repr(other)
    results(layer, randn(4, 3).float(), second=False)
    layer.reset_parameters()
    assert layer.running_mean_square.equal(torch.ones(3))
    assert not layer.nu.any()
    assert layer.num_batches_tracked == 0
    without = layers.PowerNorm(3, affine=False)
    assert list(without.state_dict()) == ["running_mean_square", "nu", "num_batches_tracked"]
    assert without.weight is without.bias is None
    results(without, randn(4, 3).float(), second=False)
    without.reset_parameters()


# Ways from x to a loss: through the layer alone, past it too, with a constant gradient arriving.
PATHS = {
    "a residual, squared": lambda x, y: (x + y).square().sum(),
    "a sum": lambda x, y: (x**3 + x + y).sum(),
    "the layer, squared": lambda x, y: y.square().sum(),
    "the layer, summed": lambda x, y: y.sum(),
    "a product": lambda x, y: (x * y).sum(),
}


def trained(variant: str, warmup_steps: int, feature_axis: int = -1) -> layers.PowerNorm:
    layer = layers.PowerNorm(
        4, variant=variant, warmup_steps=warmup_steps, groups=2, feature_axis=feature_axis
    ).double()
    randomize(layer)
    for step in range(2):
        results(layer, randn(3, 4, 4, seed=20 + step), second=False)
    return layer


def grad_and_leaves(layer: layers.PowerNorm, path: str, mask: bool) -> tuple[tuple, list]:
    """The first derivative, recorded, and what a second one may be taken by."""
    x = randn(3, 5, 4).requires_grad_()
    y = layer(x, random_mask(3, 5, seed=1) if mask else None)
    grads = torch.autograd.grad(PATHS[path](x, y), (x, layer.weight), create_graph=True)
    return grads, [x, layer.weight]


@pytest.mark.parametrize("mask", [False, True], ids=["dense", "masked"])
@pytest.mark.parametrize("warmup_steps", [0, 9], ids=["after the warm-up", "in the warm-up"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("variant", APPROXIMATE)
def test_a_second_derivative_of_the_approximate_gradient_raises_on_every_path(
    variant, path, warmup_steps, mask
):
    for leaf in (0, 1):
        for grad in (0, 1):
            grads, leaves = grad_and_leaves(trained(variant, warmup_steps), path, mask)
            with pytest.raises(RuntimeError, match='variant="pn-v"'):
                torch.autograd.grad(grads[grad].square().sum(), leaves[leaf])
            with pytest.raises(RuntimeError, match='variant="pn-v"'):
                grads[grad].sum().backward(retain_graph=True)


@pytest.mark.parametrize("path", PATHS)
def test_the_exact_gradient_of_pn_v_has_a_second_derivative_on_every_path(path):
    layer = trained("pn-v", 0)

    def penalty(x: Tensor, weight: Tensor) -> Tensor:
        state = dict(layer.named_buffers()) | {"weight": weight, "bias": layer.bias}
        y = torch.func.functional_call(layer, state, (x,))
        grads = torch.autograd.grad(PATHS[path](x, y), (x, weight), create_graph=True)
        return sum(g.square().sum() for g in grads)

    leaves = (randn(3, 5, 4).requires_grad_(), layer.weight)
    assert torch.autograd.gradcheck(penalty, leaves)


@pytest.mark.parametrize("variant", APPROXIMATE)
def test_a_derivative_that_is_not_recorded_is_not_guarded(variant, monkeypatch):
    """The guard against a second derivative keeps the loss's gradient alive: needed only there."""
    guarded = []
    original = layers._NoSecondDerivative.apply
    monkeypatch.setattr(
        layers._NoSecondDerivative, "apply", lambda *a: guarded.append(a) or original(*a)
    )
    layer, x = trained(variant, 0), randn(3, 5, 4).requires_grad_()
    layer(x).square().sum().backward()
    assert not guarded
    torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    assert len(guarded) == 1


@pytest.mark.parametrize("variant", APPROXIMATE)
def test_a_recorded_first_derivative_is_the_same_and_may_be_used(variant):
    """What does not differentiate the approximate gradient does not raise."""
    first, second = (trained(variant, 0) for _ in range(2))
    x = randn(3, 5, 4).requires_grad_()
    (plain,) = torch.autograd.grad(first(x).square().sum(), x)
    (recorded,) = torch.autograd.grad(second(x).square().sum(), x, create_graph=True)
    assert recorded.detach().equal(plain)
    assert first.nu.equal(second.nu)
    scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad((recorded.detach() * scale).sum(), scale)
    torch.testing.assert_close(grad, plain.sum())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
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
            if name == "buffer nu" or name == "grad of weight":
                tight = tight and dtype == torch.float16
            tolerance = 1e-4 if tight else 3 * torch.finfo(dtype).eps
            torch.testing.assert_close(
                found[name].to(value.dtype), value, rtol=tolerance, atol=tolerance
            )
    whole = layers.PowerNorm(4, variant=variant).to(dtype)
    assert results(whole, x, second=False)["buffer nu"].dtype == dtype


def test_no_gradient_is_needed():
    for variant in VARIANTS:
        layer = layers.PowerNorm(4, variant=variant)
        twin = copy.deepcopy(layer)
        with torch.no_grad():
            y = layer(randn(3, 4).float())
        torch.testing.assert_close(y, twin(randn(3, 4).float()).detach())
        assert layer.running_mean_square.equal(twin.running_mean_square)
        for parameter in twin.parameters():
            parameter.requires_grad_(False)
        assert not twin(randn(3, 4).float()).requires_grad


def test_frozen_parameters_and_constant_inputs():
    layer = layers.PowerNorm(4)
    layer.weight.requires_grad_(False)
    x = randn(3, 4).float().requires_grad_()
    layer(x).sum().backward()
    assert x.grad is not None and layer.bias.grad is not None and layer.weight.grad is None
    other = layers.PowerNorm(4)
    other(randn(3, 4).float()).sum().backward()
    assert other.weight.grad is not None
    assert other.nu.any()


@pytest.mark.parametrize("variant", APPROXIMATE)
def test_a_parameter_changed_between_forward_and_backward_raises(variant):
    layer = layers.PowerNorm(4, variant=variant)
    y = layer(randn(3, 4).float())
    with torch.no_grad():
        layer.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("variant", VARIANTS)
def test_x_changed_in_place_after_the_call_does_not_reach_the_gradient(variant):
    """Either the gradient is that of the x that was, or autograd raises."""
    layer = layers.PowerNorm(4, variant=variant)
    twin = copy.deepcopy(layer)
    source = randn(3, 4).float().requires_grad_()
    x = source * 1
    expected = torch.autograd.grad(twin(source).pow(2).sum(), source)[0]
    y = layer(x)
    loss = y.pow(2).sum()
    with torch.no_grad():
        x.mul_(3)
    try:
        grad = torch.autograd.grad(loss, source)[0]
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        torch.testing.assert_close(grad, expected)


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r'unknown variant \'pnv\'.*"pn-v"'):
        layers.PowerNorm(4, variant="pnv")
    with pytest.raises(ValueError, match="got 3 groups for 4 features"):
        layers.PowerNorm(4, variant="authors-code", groups=3)
    for variant in VARIANTS:
        layer = layers.PowerNorm(4, variant=variant)
        with pytest.raises(ValueError, match="x must have 4 features along axis -1; got 5"):
            layer(torch.randn(3, 5))
        with pytest.raises(ValueError, match="at least 2 axes"):
            layer(torch.randn(4))
        with pytest.raises(TypeError, match=r"got dtype torch\.int64"):
            layer(torch.ones(3, 4, dtype=torch.int64))
        with pytest.raises(TypeError, match=r"got torch\.float32 beside x of torch\.float64"):
            layer(torch.randn(3, 4).double())
        assert layer.num_batches_tracked == 0  # a call that raises is no batch
        assert layer.running_mean_square.equal(torch.ones(4))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_wrong_mask_leaves_no_trace(variant):
    layer = layers.PowerNorm(4, variant=variant)
    with pytest.raises(TypeError, match="mask must be boolean"):
        layer(torch.randn(3, 5, 4), torch.ones(3, 5))
    assert layer.running_mean_square.equal(torch.ones(4))


@pytest.mark.parametrize("variant", VARIANTS)
def test_hard_numbers(variant):
    for x in (torch.zeros(3, 5, 4), torch.full((3, 5, 4), 1e-15), 1e18 * randn(3, 5, 4).float()):
        layer = layers.PowerNorm(4, variant=variant, warmup_steps=1)
        exact = copy.deepcopy(layer).double()
        for _ in range(3):
            found = results(layer, x, second=False)
            expected = results(exact, x.double(), second=False)
            for name, value in expected.items():
                assert found[name].isfinite().all(), name
                limit = 1e-4 * value.abs().max()
                assert (found[name].double() - value).abs().max() <= limit, name


def test_one_layer_used_twice_in_a_model_counts_twice():
    model = nn.Sequential(layers.PowerNorm(4), nn.Linear(4, 4))
    model = nn.Sequential(model, model)
    results(model, randn(3, 4).float(), second=False)
    assert model[0][0].num_batches_tracked == 2


@pytest.mark.parametrize(
    "arguments, says",
    [
        ({"alpha_forward": 1.5}, "alpha_forward must lie in"),
        ({"alpha_backward": -0.1}, "alpha_backward must lie in"),
        ({"warmup_steps": -1}, "must not be negative"),
    ],
)
def test_an_argument_out_of_range_is_refused(arguments, says):
    with pytest.raises(ValueError, match=says):
        layers.PowerNorm(4, **arguments)
