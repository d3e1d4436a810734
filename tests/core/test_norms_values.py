"""The formulas against torch, autograd and each other."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from norm_cases import EVERY, MASK, MASKED, SHAPE, H, draw
from numpy.testing import assert_allclose, assert_array_equal

from normtutor import norms
from normtutor.gradcheck import gradient_errors

every_case = pytest.mark.parametrize("case", EVERY, ids=str)


def test_no_formula_is_left_out():
    backwards = {n.removesuffix("_backward") for n in norms.__all__ if n.endswith("_backward")}
    assert backwards == {case.formula for case in EVERY} | {"normalize"}


@pytest.mark.parametrize("case", [c for c in EVERY if c.expected], ids=str)
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
def test_values_and_gradients_are_torchs(case, affine):
    *arrays, grad_y = (torch.asarray(a) for a in draw(case))
    names = ["x", *case.parameters]
    if not affine:
        arrays = [
            None if n in ("weight", "bias") else a for n, a in zip(names, arrays, strict=True)
        ]
    leaves = [a.requires_grad_() for a in arrays if a is not None]
    y, cache, *_ = case.forward(*arrays)
    expected = case.expected(*arrays)
    torch.testing.assert_close(y, expected, rtol=1e-11, atol=1e-12)
    theirs = torch.autograd.grad(expected, leaves, grad_y)
    by_autograd = torch.autograd.grad(y, leaves, grad_y, retain_graph=True)
    by_hand = case.backward(grad_y, cache)
    torch.testing.assert_close(by_autograd, theirs, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close([g for g in by_hand if g is not None], list(theirs))


@every_case
def test_numpy_and_torch_agree(case):
    """And what is passed in stays as it was."""
    *arrays, grad_y = draw(case)
    others = [torch.asarray(a.copy()) for a in (*arrays, grad_y)]
    y, cache, *_ = case.forward(*arrays)
    other_y, other_cache, *_ = case.forward(*others[:-1])
    assert type(other_y) is type(others[0])
    assert_allclose(np.asarray(other_y), y, rtol=1e-11, atol=1e-12)
    for grad, other in zip(
        case.backward(grad_y, cache), case.backward(others[-1], other_cache), strict=True
    ):
        assert (grad is None) == (other is None)
        if grad is not None:
            assert_allclose(np.asarray(other), grad, rtol=1e-10, atol=1e-11)
    for before, array, other in zip(draw(case), (*arrays, grad_y), others, strict=True):
        assert_array_equal(array, before)
        assert_array_equal(np.asarray(other), before)


# --- dtypes ---------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize(
    "dtype, parameters_too",
    [(torch.float16, True), (torch.bfloat16, False)],
    ids=["all float16", "x alone bfloat16"],
)
def test_low_precision_has_wide_statistics_and_its_own_dtype(case, dtype, parameters_too):
    *arrays, grad_y = (torch.asarray(a).to(dtype) for a in draw(case))
    if not parameters_too:  # a branch is no parameter
        arrays[1:] = [a if a.shape == arrays[0].shape else a.float() for a in arrays[1:]]
    y, cache, *_ = case.forward(*arrays)
    grads = [g for g in case.backward(grad_y, cache) if g is not None]
    assert y.dtype == grads[0].dtype == dtype
    assert [g.dtype for g in grads[1:]] == [a.dtype for a in arrays[1:]]
    # The wide result of the same rounded numbers, rounded once more at the end.
    exact, exact_cache, *_ = case.forward(*(a.double() for a in arrays))
    unit = torch.finfo(dtype).eps
    assert_allclose(y.double(), exact, rtol=2 * unit, atol=2 * unit)
    exact_grads = [g for g in case.backward(grad_y.double(), exact_cache) if g is not None]
    for grad, expected in zip(grads, exact_grads, strict=True):
        assert_allclose(
            grad.double(), expected, rtol=2 * unit, atol=2 * unit * expected.abs().max()
        )


def test_default_eps_of_rms_norm_is_that_of_the_accumulation():
    for dtype, eps in ((np.float16, 2.0**-23), (np.float32, 2.0**-23), (np.float64, 2.0**-52)):
        y, _ = norms.rms_norm(np.full((1, 4), 2.0**-11, dtype))
        assert_allclose(y.astype(float), 2.0**-11 / np.sqrt(2.0**-22 + eps), rtol=1e-3)


def test_rms_norm_may_round_before_it_multiplies():
    """As Llama does: x̂ in the dtype of x, then the weight; and so in the weight's gradient."""
    x, grad_y = np.random.default_rng(0).standard_normal((2, 3, 8)).astype(np.float16)
    weight = np.linspace(0.5, 3.0, 8, dtype=np.float32)
    y, cache = norms.rms_norm(x, weight, eps=1e-5, cast_before_weight=True)
    wide = x.astype(np.float32)
    x_hat = wide / np.sqrt(np.square(wide).mean(-1, keepdims=True) + np.float32(1e-5))
    rounded = x_hat.astype(np.float16).astype(np.float32)
    assert_array_equal(y, (rounded * weight).astype(np.float16))
    once = norms.rms_norm(x, weight, eps=1e-5)[0]  # by default it does not
    assert_array_equal(once, (x_hat * weight).astype(np.float16))
    assert (once != y).any()
    found = norms.rms_norm_backward(grad_y, cache).weight
    assert_array_equal(found, (grad_y.astype(np.float32) * rounded).sum(0))


# --- shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_several_trailing_axes(name):
    norm, theirs = getattr(norms, name), getattr(torch.nn.functional, name)
    generator = torch.Generator().manual_seed(0)
    x, grad_y = torch.randn((2, 4, 2, 3, 6), generator=generator, dtype=torch.float64)
    weight = torch.randn((3, 6), generator=generator, dtype=torch.float64)
    leaves = (x.requires_grad_(), weight.requires_grad_())
    y, cache = norm(*leaves)  # the weight says which axes
    expected = theirs(x, (3, 6), weight)
    torch.testing.assert_close(y, expected)
    grads = getattr(norms, f"{name}_backward")(grad_y, cache)
    torch.testing.assert_close(grads[:2], torch.autograd.grad(expected, leaves, grad_y))
    torch.testing.assert_close(norm(x, normalized_shape=(3, 6))[0], theirs(x, (3, 6)))
    torch.testing.assert_close(norm(x)[0], norm(x, normalized_shape=6)[0])


@pytest.mark.parametrize("axis", [1, -2])
@pytest.mark.parametrize("case", [c for c in EVERY if c.takes_mask or c.formula == "film"], ids=str)
def test_any_feature_axis(case, axis):
    x, grad_y = np.random.default_rng(0).standard_normal((2, 3, 4, 2, H))
    _, *parameters, _ = draw(case)
    y, cache, *running = case.forward(x, *parameters)
    grads = case.backward(grad_y, cache)
    moved = replace(case, options=case.options | {"feature_axis": axis})
    there = np.moveaxis(x, -1, axis)
    moved_y, moved_cache, *moved_running = moved.forward(there, *parameters)
    moved_grads = moved.backward(np.moveaxis(grad_y, -1, axis), moved_cache)
    assert_allclose(np.moveaxis(moved_y, axis, -1), y, rtol=1e-12, atol=1e-13)
    assert_allclose(np.moveaxis(moved_grads[0], axis, -1), grads[0], rtol=1e-11, atol=1e-12)
    for grad, other in zip(grads[1:], moved_grads[1:], strict=True):
        assert_allclose(other, grad, rtol=1e-11, atol=1e-12)
    assert_allclose(moved_running, running)


@pytest.mark.parametrize("name", ["batch_norm", "instance_norm"])
def test_running_statistics_agree_with_torch(name):
    norm, theirs = getattr(norms, name), getattr(torch.nn.functional, name)
    mean, var = torch.zeros(5, dtype=torch.float64), torch.ones(5, dtype=torch.float64)
    torch_mean, torch_var = mean.clone(), var.clone()
    x = torch.asarray(draw(EVERY[0])[0])
    for momentum in (0.3, torch.asarray(0.3)):  # an array where a compiler must follow it
        _, _, (mean, var) = norm(x, running_mean=mean, running_var=var, momentum=momentum)
        option = {"training": True} if name == "batch_norm" else {}
        theirs(x, torch_mean, torch_var, momentum=0.3, **option)
        torch.testing.assert_close((mean, var), (torch_mean, torch_var))
    _, _, running = norm(x, running_mean=mean, running_var=var, training=False)
    assert running.mean is mean and running.var is var and norm(x)[2] == (None, None)


# --- WeightNorm -----------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_weight_norm(axis):
    generator, shape = np.random.default_rng(0), (4, 3, 2, 2)
    v, grad_w = generator.standard_normal((2, *shape))
    kept = None if axis is None else axis % len(shape)
    g = generator.standard_normal([n if a == kept else 1 for a, n in enumerate(shape)])
    axes = tuple(a for a in range(len(shape)) if a != kept)
    for length, parameters in ((g, (v, g)), (1, (v,))):  # without g the length is 1
        w, cache = norms.weight_norm(*parameters, axis=axis)
        assert_allclose(w, length * v / np.sqrt(np.sum(v**2, axis=axes, keepdims=True)))
        grads = [grad for grad in norms.weight_norm_backward(grad_w, cache) if grad is not None]
        errors = gradient_errors(
            lambda *a: norms.weight_norm(*a, axis=axis)[0], parameters, grads, grad_w
        )
        assert max(errors) < 1e-7


# --- hard numbers ---------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("mean, scale", [(0, 1e-10), (0, 1e10), (1e4, 1)])
def test_float32_agrees_with_float64(case, mean, scale):
    """The mean of 1e4 rounds x itself to about 1e-3 of its deviation, which both results share."""
    normal, *parameters, _ = draw(case)
    arrays = [a.astype(np.float32) for a in (normal * scale + mean, *parameters)]
    expected = case.forward(*(a.astype(np.float64) for a in arrays))[0]
    found = case.forward(*arrays)[0]
    limit = 2e-3 if mean else 1e-5 * np.abs(expected).max()
    assert_allclose(found, expected, rtol=1e-4, atol=limit)


@every_case
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_and_zero_rows_stay_finite(case, value):
    if case.formula == "weight_norm" and value == 0.0:
        return  # a unit of length 0 has no direction
    _, *parameters, grad_y = (torch.asarray(a) for a in draw(case))
    x = torch.full(SHAPE, value, dtype=torch.float64, requires_grad=True)
    y, cache, *_ = case.forward(x, *parameters)
    assert y.isfinite().all()
    assert torch.autograd.grad(y.sum(), x)[0].isfinite().all()
    assert case.backward(grad_y, cache)[0].isfinite().all()


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("case", [c for c in EVERY if c.reaches != "batch"], ids=str)
def test_a_bad_number_reaches_nothing_with_a_statistic_of_its_own(case):
    x, *parameters, grad_y = draw(case)
    spoilt = x.copy()
    spoilt[0, 0, 0] = np.inf
    others = np.ones(SHAPE[:2], dtype=bool)
    others[0, 0 if case.reaches == "token" else slice(None)] = False
    results = []
    for given_x in (x, spoilt):
        y, cache, *_ = case.forward(given_x, *parameters)
        results.append((y[others], case.backward(grad_y, cache)[0][others]))
    assert_array_equal(results[1], results[0])


# --- masks; test_layers_masks.py has more, with buffers -------------------------------------------

# As published, the authors' ν averages over padding too.
WITHOUT = {"nu_counts_padding": False}
TO_MASK = [replace(c, options=c.options | WITHOUT) if "authors" in c.formula else c for c in MASKED]
CLOSE = {"rtol": 1e-10, "atol": 1e-11}


@pytest.mark.parametrize("case", TO_MASK, ids=str)
def test_the_masked_formula_is_the_formula_on_the_real_tokens(case):
    x, weight, bias, grad_y = draw(case)
    y, cache, *_ = case.forward(x, weight, bias, mask=MASK)
    grads = case.backward(grad_y, cache)
    parts = [MASK]
    if case.formula in ("group_norm", "instance_norm"):
        parts = [(slice(b, b + 1), slice(0, n)) for b, n in enumerate(MASK.sum(1))]
    sums = np.zeros((2, SHAPE[-1]))
    for part in parts:
        alone, cache, *_ = case.forward(x[part], weight, bias)
        alone_grads = case.backward(grad_y[part], cache)
        assert_allclose(y[part], alone, **CLOSE)
        assert_allclose(grads.x[part], alone_grads.x, **CLOSE)
        sums += (alone_grads.weight, alone_grads.bias)
    assert_allclose((grads.weight, grads.bias), sums, **CLOSE)


@pytest.mark.filterwarnings("ignore:the mask hides:UserWarning")
@pytest.mark.parametrize("lengths", [[3, 0, 2], [3, 5, 2]])
def test_running_statistics_of_instance_norm_are_of_the_real_tokens(lengths):
    x = np.random.default_rng(0).standard_normal((3, 5, 2))
    mask = np.arange(5) < np.asarray(lengths)[:, None]
    mean, var = np.asarray([1.0, 2.0]), np.asarray([3.0, 4.0])
    _, _, running = norms.instance_norm(
        x, running_mean=mean, running_var=var, momentum=0.25, mask=mask, feature_axis=-1
    )
    own = [example[:n] for example, n in zip(x, lengths, strict=True) if n]
    means = np.mean([tokens.mean(0) for tokens in own], axis=0)
    variances = np.mean([tokens.var(0, ddof=1) for tokens in own], axis=0)
    assert_allclose(running.mean, 0.75 * mean + 0.25 * means)
    assert_allclose(running.var, 0.75 * var + 0.25 * variances)


def test_an_inverted_mask_is_warned_of_and_padding_on_the_left_is_not():
    x = np.random.default_rng(0).standard_normal((3, 4, 2))
    right = np.arange(4) < np.asarray([4, 2, 3])[:, None]
    sparse = np.asarray([[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]], dtype=bool)
    left = np.arange(4) >= np.asarray([1, 1, 2])[:, None]
    for mask in (right, right[:, ::-1], left, sparse):
        norms.batch_norm(x, mask=mask, feature_axis=-1)
    for library in (np, torch):
        with pytest.warns(UserWarning, match="hides the first position of 100%.*~mask"):
            norms.batch_norm(library.asarray(x), mask=library.asarray(~right), feature_axis=-1)
