"""The formulas against torch, autograd, finite differences and each other."""

import numpy as np
import pytest
import torch
from norm_cases import CASES, draw
from numpy.testing import assert_allclose, assert_array_equal

from normtutor import norms
from normtutor.gradcheck import gradient_errors

every_case = pytest.mark.parametrize("case", CASES, ids=str)
torch_cases = pytest.mark.parametrize(
    "case", [c for c in CASES if c.torch_function is not None], ids=str
)


def jax_numpy():
    """jax.numpy in float64, or a skip where JAX is not installed."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return jax.numpy


@torch_cases
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
def test_forward_agrees_with_torch(case, affine):
    x, weight, bias, _ = (torch.asarray(a) for a in draw(case))
    parameters = (weight, bias) if affine else (None, None)
    y = case.forward(x, *parameters)[0]
    torch.testing.assert_close(y, case.torch_function(x, *parameters), rtol=1e-12, atol=1e-12)


@every_case
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
def test_backward_agrees_with_autograd(case, affine):
    x, weight, bias, grad_y = (torch.asarray(a) for a in draw(case))
    parameters = (weight, bias) if affine else (None, None)
    inputs = [t.requires_grad_() for t in (x, *parameters) if t is not None]
    y = case.forward(x, *parameters)[0]
    expected = torch.autograd.grad(y, inputs, grad_y)
    with torch.no_grad():
        grads = case.backward(grad_y, case.forward(x, *parameters)[1])
    got = [g for g in (grads.x, grads.weight, grads.bias) if g is not None]
    assert len(got) == len(expected)
    for mine, theirs in zip(got, expected, strict=True):
        assert mine.shape == theirs.shape
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-11)


@every_case
def test_backward_agrees_with_finite_differences(case):
    x, weight, bias, grad_y = draw(case)
    _, cache, *_ = case.forward(x, weight, bias)
    grads = case.backward(grad_y, cache)
    errors = gradient_errors(
        lambda *a: case.forward(*a)[0],
        [x, weight, bias],
        [grads.x, grads.weight, grads.bias],
        grad_y,
    )
    assert max(errors) < 1e-6, errors


@every_case
def test_the_finite_differences_reject_a_wrong_backward(case):
    """Each norm's gradient without its statistics' part, or scaled where it has none, fails."""
    x, weight, bias, grad_y = draw(case)
    _, cache, *_ = case.forward(x, weight, bias)
    grads = case.backward(grad_y, cache)
    errors = gradient_errors(
        lambda *a: case.forward(*a)[0], [x], [grads.x * 1.01], grad_y
    ) + gradient_errors(lambda x: case.forward(x, weight, bias)[0], [x], [grads.x + 0.01], grad_y)
    assert min(errors) > 1e-6, errors


@every_case
def test_gradgradcheck_of_the_forward(case):
    x, weight, bias, _ = (torch.asarray(a).requires_grad_() for a in draw(case))

    def forward(*a):
        return case.forward(*a)[0]

    assert torch.autograd.gradcheck(forward, (x, weight, bias), fast_mode=True)
    assert torch.autograd.gradgradcheck(forward, (x, weight, bias), fast_mode=True)


@every_case
def test_numpy_and_torch_and_jax_agree(case):
    arrays = draw(case)
    y, cache, *_ = case.forward(*arrays[:3])
    grads = case.backward(arrays[3], cache)
    for convert in (torch.asarray, jax_numpy().asarray):
        others = [convert(a) for a in arrays]
        other_y, other_cache, *_ = case.forward(*others[:3])
        assert type(other_y) is type(others[0])
        assert_allclose(np.asarray(other_y), y, rtol=1e-11, atol=1e-12)
        other_grads = case.backward(others[3], other_cache)
        for mine, other in zip(grads, other_grads, strict=True):
            assert_allclose(np.asarray(other), mine, rtol=1e-10, atol=1e-11)


@every_case
def test_numpy_and_torch_agree_where_jax_is_missing(case):
    arrays = draw(case)
    y, cache, *_ = case.forward(*arrays[:3])
    others = [torch.asarray(a) for a in arrays]
    other_y, other_cache, *_ = case.forward(*others[:3])
    assert_allclose(other_y.numpy(), y, rtol=1e-11, atol=1e-12)
    grads, other_grads = case.backward(arrays[3], cache), case.backward(others[3], other_cache)
    for mine, other in zip(grads, other_grads, strict=True):
        assert_allclose(other.numpy(), mine, rtol=1e-10, atol=1e-11)


@every_case
def test_inputs_are_left_alone(case):
    arrays = draw(case)
    copies = [a.copy() for a in arrays]
    _, cache, *_ = case.forward(*arrays[:3])
    case.backward(arrays[3], cache)
    for array, copy in zip(arrays, copies, strict=True):
        assert np.array_equal(array, copy)


# --- dtypes ---------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("parameters_too", [True, False], ids=["all", "x only"])
def test_low_precision_has_wide_statistics_and_its_own_dtype(case, dtype, parameters_too):
    x, weight, bias, grad_y = (torch.asarray(a) for a in draw(case))
    x, grad_y = x.to(dtype), grad_y.to(dtype)
    weight, bias = (p.to(dtype if parameters_too else torch.float32) for p in (weight, bias))
    y, cache, *_ = case.forward(x, weight, bias)
    assert y.dtype == dtype
    grads = case.backward(grad_y, cache)
    assert grads.x.dtype == dtype
    assert grads.weight.dtype == grads.bias.dtype == weight.dtype
    # The wide result of the same rounded numbers, rounded once more at the end.
    eps = {"eps": float(torch.finfo(torch.float32).eps)} if "rms_norm" == case.name else {}
    exact = case.forward(*(t.double() for t in (x, weight, bias)), **eps)[0]
    unit = torch.finfo(dtype).eps
    assert_allclose(y.double(), exact, rtol=2 * unit, atol=2 * unit)


def test_numpy_half_precision():
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float16)
    y, cache = norms.layer_norm(x, np.ones(8, np.float32))
    assert y.dtype == np.float16
    assert cache.x_hat.dtype == np.float32
    assert norms.layer_norm_backward(y, cache).x.dtype == np.float16


def test_default_eps_of_rms_norm_is_that_of_the_accumulation():
    for dtype, eps in ((np.float16, 2.0**-23), (np.float32, 2.0**-23), (np.float64, 2.0**-52)):
        tiny = np.full((1, 4), 2.0**-11, dtype)
        y, _ = norms.rms_norm(tiny)
        expected = 2.0**-11 / np.sqrt(2.0**-22 + eps)
        assert_allclose(y.astype(float), expected, rtol=1e-3)


# --- shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 3, 6)])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_any_trailing_shape(shape, name):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn((4, 2, 3, 6), generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    y, cache = getattr(norms, name)(x, weight, normalized_shape=shape)
    expected = getattr(torch.nn.functional, name)(x, shape, weight)
    torch.testing.assert_close(y, expected)
    grad_y = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    theirs = torch.autograd.grad(expected, (x, weight), grad_y)
    grads = getattr(norms, f"{name}_backward")(grad_y, cache)
    torch.testing.assert_close(grads.x, theirs[0])
    torch.testing.assert_close(grads.weight, theirs[1])


def test_the_normalized_shape_comes_from_the_weight_or_the_last_axis():
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    by_weight, _ = norms.layer_norm(x, np.ones((3, 4)))
    by_argument, _ = norms.layer_norm(x, normalized_shape=(3, 4))
    by_default, _ = norms.layer_norm(x)
    by_number, _ = norms.layer_norm(x, normalized_shape=4)
    assert_allclose(by_weight, by_argument)
    assert_allclose(by_default, by_number)
    assert not np.allclose(by_default, by_argument)


PER_FEATURE = [
    (norms.batch_norm, norms.batch_norm_backward, {}),
    (norms.instance_norm, norms.instance_norm_backward, {}),
    (norms.group_norm, norms.group_norm_backward, {"num_groups": 2}),
    (norms.power_norm_v, norms.power_norm_v_backward, {}),
]


@pytest.mark.parametrize("forward, backward, options", PER_FEATURE)
@pytest.mark.parametrize("axis", [1, 2, 3, -1, -2, -3])
def test_any_feature_axis(forward, backward, options, axis):
    generator = np.random.default_rng(0)
    x = generator.standard_normal((2, 6, 6, 6))
    x[:, 0] += 3  # the axes differ
    weight, bias = generator.standard_normal((2, 6))
    grad_y = generator.standard_normal(x.shape)
    y, cache, *_ = forward(x, weight, bias, feature_axis=axis, **options)
    moved, moved_cache, *_ = forward(
        np.moveaxis(x, axis, 1), weight, bias, feature_axis=1, **options
    )
    assert_allclose(y, np.moveaxis(moved, 1, axis), rtol=1e-12, atol=1e-13)
    grads = backward(grad_y, cache)
    moved_grads = backward(np.moveaxis(grad_y, axis, 1), moved_cache)
    assert_allclose(grads.x, np.moveaxis(moved_grads.x, 1, axis), rtol=1e-11, atol=1e-12)
    assert_allclose(grads.weight, moved_grads.weight, rtol=1e-11, atol=1e-12)


# --- running statistics ---------------------------------------------------------------------------


def test_running_statistics_of_batch_norm_agree_with_torch():
    generator = torch.Generator().manual_seed(0)
    mean, var = torch.zeros(6, dtype=torch.float64), torch.ones(6, dtype=torch.float64)
    torch_mean, torch_var = mean.clone(), var.clone()
    for _ in range(3):
        x = torch.randn((4, 6, 5), generator=generator, dtype=torch.float64) * 3 + 1
        _, _, (mean, var) = norms.batch_norm(x, None, None, mean, var, momentum=0.3)
        torch.nn.functional.batch_norm(x, torch_mean, torch_var, training=True, momentum=0.3)
        torch.testing.assert_close(mean, torch_mean)
        torch.testing.assert_close(var, torch_var)


def test_running_statistics_of_instance_norm_agree_with_torch():
    generator = torch.Generator().manual_seed(0)
    mean, var = torch.zeros(6, dtype=torch.float64), torch.ones(6, dtype=torch.float64)
    torch_mean, torch_var = mean.clone(), var.clone()
    for _ in range(3):
        x = torch.randn((4, 6, 5), generator=generator, dtype=torch.float64) * 3 + 1
        _, _, (mean, var) = norms.instance_norm(x, None, None, mean, var, momentum=0.3)
        torch.nn.functional.instance_norm(x, torch_mean, torch_var, momentum=0.3)
        torch.testing.assert_close(mean, torch_mean)
        torch.testing.assert_close(var, torch_var)
    y, cache, _ = norms.instance_norm(x, None, None, mean, var, training=False)
    expected = torch.nn.functional.instance_norm(x, torch_mean, torch_var, use_input_stats=False)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(
        norms.instance_norm_backward(torch.ones_like(y), cache).x,
        (1 / torch.sqrt(var + 1e-5))[None, :, None].expand_as(y),
    )


def test_evaluation_returns_the_running_statistics_unchanged():
    x = np.random.default_rng(0).standard_normal((4, 3))
    mean, var = np.ones(3), np.full(3, 2.0)
    _, _, running = norms.batch_norm(x, None, None, mean, var, training=False)
    assert running.mean is mean and running.var is var


def test_batch_norm_without_running_statistics_returns_none():
    _, _, running = norms.batch_norm(np.random.default_rng(0).standard_normal((4, 3)))
    assert running == (None, None)


def test_momentum_may_be_an_array():
    x = np.random.default_rng(0).standard_normal((4, 3))
    zeros, ones = np.zeros(3), np.ones(3)
    _, _, by_array = norms.batch_norm(x, None, None, zeros, ones, momentum=np.asarray(0.5))
    _, _, by_number = norms.batch_norm(x, None, None, zeros, ones, momentum=0.5)
    assert_allclose(by_array.mean, by_number.mean)


# --- relations between the norms ------------------------------------------------------------------


def test_relations_between_the_norms():
    x = np.random.default_rng(0).standard_normal((3, 6, 5)) * 2 + 1
    instance, _, _ = norms.instance_norm(x)
    groups_of_one, _ = norms.group_norm(x, num_groups=6)
    assert_allclose(instance, groups_of_one)
    one_group, _ = norms.group_norm(x, num_groups=1)
    everything, _ = norms.layer_norm(x, normalized_shape=(6, 5))
    assert_allclose(one_group, everything)
    per_position, _ = norms.layer_norm(np.moveaxis(x, 1, -1))
    assert not np.allclose(one_group, np.moveaxis(per_position, -1, 1))
    centred = x - x.mean(-1, keepdims=True)
    assert_allclose(norms.layer_norm(x, eps=1e-5)[0], norms.rms_norm(centred, eps=1e-5)[0])
    whole, _ = norms.partial_rms_norm(x, p=1.0, eps=0.0)
    assert_allclose(whole, norms.rms_norm(x, eps=0.0)[0])


# --- WeightNorm -----------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("shape", [(4, 6), (4, 3, 2, 2)])
def test_weight_norm(axis, shape):
    generator = np.random.default_rng(0)
    v = generator.standard_normal(shape)
    kept = None if axis is None else axis % len(shape)
    g = generator.standard_normal([n if a == kept else 1 for a, n in enumerate(shape)])
    w, cache = norms.weight_norm(v, g, axis=axis)
    if axis is not None:
        expected = torch._weight_norm(torch.asarray(v), torch.asarray(g), kept)
        assert_allclose(w, expected.numpy(), rtol=1e-12)
    axes = tuple(a for a in range(len(shape)) if a != kept)
    lengths = np.sqrt(np.sum(w**2, axis=axes, keepdims=True))
    assert_allclose(lengths, np.abs(g), rtol=1e-12)
    grad_w = generator.standard_normal(shape)
    grads = norms.weight_norm_backward(grad_w, cache)
    errors = gradient_errors(
        lambda v, g: norms.weight_norm(v, g, axis=axis)[0], [v, g], [grads.v, grads.g], grad_w
    )
    assert max(errors) < 1e-7
    # Rescaling v changes nothing, so the gradient is orthogonal to it.
    assert_allclose(np.sum(grads.v * v, axis=axes), 0, atol=1e-12)


def test_weight_norm_without_g_has_length_one():
    v = np.random.default_rng(0).standard_normal((4, 6))
    w, cache = norms.weight_norm(v)
    assert_allclose(np.sum(w**2, axis=1), 1)
    grads = norms.weight_norm_backward(np.ones_like(v), cache)
    assert grads.g is None
    errors = gradient_errors(lambda v: norms.weight_norm(v)[0], [v], [grads.v], np.ones_like(v))
    assert errors[0] < 1e-7


def test_weight_norm_in_half_precision():
    v = torch.randn(4, 6, dtype=torch.float16)
    w, cache = norms.weight_norm(v, torch.ones(4, 1, dtype=torch.float16))
    assert w.dtype == torch.float16 and cache.norm.dtype == torch.float32
    assert norms.weight_norm_backward(w, cache).g.dtype == torch.float16


def test_every_public_forward_has_its_backward():
    public = [n for n in norms.__all__ if n.endswith("_backward")]
    assert len(public) == 15
    for name in public:
        assert callable(getattr(norms, name.removesuffix("_backward")))


@pytest.mark.parametrize("eps", [0.0, 1e-3])
def test_rms_norm_with_a_unit_offset_multiplies_by_one_plus_the_weight(eps):
    """As Gemma stores it."""
    rng = np.random.default_rng(0)
    x, weight, grad_y = rng.standard_normal((3, 4, 5)), rng.standard_normal(5), np.ones((3, 4, 5))
    y, cache = norms.rms_norm(x, weight, eps=eps, add_unit_offset=True)
    expected, plain = norms.rms_norm(x, 1 + weight, eps=eps)
    assert_allclose(y, expected)
    for given, own in zip(
        norms.rms_norm_backward(grad_y, cache), norms.rms_norm_backward(grad_y, plain), strict=True
    ):
        assert (given is None) == (own is None)
        if own is not None:
            assert_allclose(given, own)
    without, _ = norms.rms_norm(x, eps=eps, add_unit_offset=True)
    assert_allclose(without, norms.rms_norm(x, eps=eps)[0])


def test_rms_norm_may_round_before_it_multiplies():
    """As Llama does: x̂ in the dtype of x, then the weight."""
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float16)
    weight = np.linspace(0.5, 3.0, 8).astype(np.float16)
    y, _ = norms.rms_norm(x, weight, eps=1e-5, cast_before_weight=True)
    wide = x.astype(np.float32)
    x_hat = wide / np.sqrt(np.square(wide).mean(-1, keepdims=True) + np.float32(1e-5))
    assert y.dtype == np.float16
    assert_array_equal(y, (x_hat.astype(np.float16).astype(np.float32) * weight).astype(np.float16))
    late, _ = norms.rms_norm(x, weight, eps=1e-5)
    assert (y != late).any()


def test_the_gradient_of_the_weight_has_the_rounded_values_too():
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float16)
    weight = np.linspace(0.5, 3.0, 8, dtype=np.float32)
    grad_y = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float16)
    _, cache = norms.rms_norm(x, weight, eps=1e-5, cast_before_weight=True)
    grads = norms.rms_norm_backward(grad_y, cache)
    rounded = cache.x_hat.astype(np.float16).astype(np.float32)
    assert_array_equal(grads.weight, (grad_y.astype(np.float32) * rounded).sum(0))
    assert grads.weight.dtype == np.float32 and grads.x.dtype == np.float16
    _, late = norms.rms_norm(x, weight, eps=1e-5)
    assert (grads.weight != norms.rms_norm_backward(grad_y, late).weight).any()
