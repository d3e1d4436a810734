"""Hard numbers, hard layouts, and what must be refused."""

import warnings
from functools import partial

import array_api_compat.numpy
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from norm_cases import CASES, FEATURES, draw
from numpy.testing import assert_allclose, assert_array_equal

from normtutor import moments, norms

every_case = pytest.mark.parametrize("case", CASES, ids=str)
token_cases = pytest.mark.parametrize("case", [c for c in CASES if c.token_only], ids=str)


def in_float64(case, x):
    return case.forward(x.astype(np.float64))[0]


# --- precision ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["layer_norm", "batch_norm", "group_norm_1", "instance_norm"])
def test_a_large_mean_costs_only_the_digits_that_the_input_lacks(name):
    """Mean 1e4, variance 1, float32: the input itself is rounded to about 1e-3 of its deviation,
    which the wide result of the same rounded input shares."""
    case = next(c for c in CASES if c.name == name and len(c.shape) == 3)
    x = (np.random.default_rng(0).standard_normal(case.shape) + 1e4).astype(np.float32)
    assert_allclose(case.forward(x)[0], in_float64(case, x), atol=2e-3)


def test_the_one_pass_variance_would_fail_where_ours_does_not():
    x = (np.random.default_rng(0).standard_normal((1, 512)) + 1e4).astype(np.float32)
    one_pass = np.mean(x * x, dtype=np.float32) - np.mean(x, dtype=np.float32) ** 2
    exact = np.var(x.astype(np.float64))
    two_pass = float(moments.moments(x, (-1,)).variance[0, 0])
    assert abs(two_pass / exact - 1) < 1e-4
    assert abs(one_pass / exact - 1) > 1


@pytest.mark.parametrize("name", ["layer_norm", "batch_norm", "group_norm_1", "instance_norm"])
def test_a_tiny_variance_follows_the_formula(name):
    case = next(c for c in CASES if c.name == name and len(c.shape) == 3)
    x = np.random.default_rng(0).standard_normal(case.shape).astype(np.float32) * 1e-6
    y = case.forward(x)[0]
    assert_allclose(y, in_float64(case, x), rtol=1e-5, atol=1e-9)
    assert np.abs(y).max() < 1e-2  # ε = 1e-5 is far more than the variance


@every_case
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_and_zero_rows_stay_finite(case, value):
    x = np.full(case.shape, value)
    y, cache, *_ = case.forward(x)
    assert np.isfinite(y).all()
    if case.name in ("layer_norm", "batch_norm", "group_norm_1", "group_norm_3", "instance_norm"):
        assert_array_equal(y, 0)
    assert np.isfinite(case.backward(np.ones_like(x), cache).x).all()
    leaf = torch.asarray(x).requires_grad_()
    case.forward(leaf)[0].sum().backward()
    assert torch.isfinite(leaf.grad).all()


def test_squares_that_overflow_give_zero_not_nan():
    """Above 1.8e19 a square is infinite in float32, and 1/∞ is 0: torch's RMSNorm says the same."""
    x = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32) * np.float32(1e20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for y in (norms.rms_norm(x)[0], norms.layer_norm(x)[0]):
            assert_array_equal(y, 0)
    ours = norms.rms_norm(torch.asarray(x))[0]
    torch.testing.assert_close(ours, torch.nn.functional.rms_norm(torch.asarray(x), (8,)))
    assert_allclose(
        norms.layer_norm(x.astype(np.float64))[0].std(axis=-1), 1.0
    )  # float64 holds the squares


@every_case
def test_scales_from_tiny_to_large_agree_with_float64(case):
    for scale in (1e-10, 1e-3, 1e3, 1e10):
        x = (np.random.default_rng(0).standard_normal(case.shape) * scale).astype(np.float32)
        eps = {} if case.name != "rms_norm" else {"eps": 1e-7}
        got = case.forward(x, **eps)[0]
        expected = case.forward(x.astype(np.float64), **eps)[0]
        assert_allclose(got, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_odd_eps_follows_the_formula_as_in_torch():
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    ours = norms.layer_norm(x, eps=-0.1)[0]
    torch.testing.assert_close(ours, torch.nn.functional.layer_norm(x, (8,), eps=-0.1))
    ours = norms.batch_norm(x, None, None, torch.zeros(8), torch.ones(8), training=False, eps=0.0)
    theirs = torch.nn.functional.batch_norm(x, torch.zeros(8), torch.ones(8), eps=0.0)
    torch.testing.assert_close(ours[0], theirs)


# --- NaN and infinity stay where they are ---------------------------------------------------------


@token_cases
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_token_does_not_reach_another_token(case, bad):
    x, weight, bias, grad_y = draw(case)
    expected = case.forward(x, weight, bias)
    spoilt = x.copy()
    spoilt[0, ..., 0] = bad
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        y, cache, *_ = case.forward(spoilt, weight, bias)
        grad_x = case.backward(grad_y, cache).x
    assert_array_equal(y[1:], expected[0][1:])
    assert_array_equal(grad_x[1:], case.backward(grad_y, expected[1]).x[1:])


@pytest.mark.parametrize("name", ["instance_norm", "group_norm_1", "group_norm_3"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_example_does_not_reach_another_example(name, bad):
    case = next(c for c in CASES if c.name == name and len(c.shape) == 3)
    x, weight, bias, _ = draw(case)
    expected, _, *_ = case.forward(x, weight, bias)
    x[0, 0, 0] = bad
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        y = case.forward(x, weight, bias)[0]
    assert_array_equal(y[1:], expected[1:])
    assert np.isnan(y[0]).any()


# --- layouts --------------------------------------------------------------------------------------


@every_case
def test_strided_and_transposed_input(case):
    x, weight, bias, grad_y = draw(case)
    expected, cache, *_ = case.forward(x, weight, bias)
    strided = np.repeat(x, 2, axis=0)[::2]
    reversed_twice = x[::-1].copy()[::-1]
    fortran = np.asfortranarray(x)
    for other in (strided, reversed_twice, fortran):
        assert_allclose(case.forward(other, weight, bias)[0], expected, rtol=1e-12, atol=1e-13)
    t = torch.asarray(x.copy()).movedim(0, -1).contiguous().movedim(-1, 0)
    assert not t.is_contiguous()
    y, cache, *_ = case.forward(t, torch.asarray(weight), torch.asarray(bias))
    assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-13)
    case.backward(torch.asarray(grad_y), cache)


@settings(max_examples=40)
@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    features=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_layer_norm_and_rms_norm_on_any_shape(shape, features, seed):
    x = np.random.default_rng(seed).standard_normal((*shape, features))
    for name, epsilon in (("layer_norm", 1e-5), ("rms_norm", 1e-6)):
        y, _ = getattr(norms, name)(x, eps=epsilon)
        theirs = getattr(torch.nn.functional, name)(torch.asarray(x), (features,), eps=epsilon)
        assert_allclose(y, theirs.numpy(), rtol=1e-10, atol=1e-10)


@settings(max_examples=40)
@given(
    batch=st.integers(1, 4),
    groups=st.integers(1, 4),
    width=st.integers(1, 3),
    spatial=st.lists(st.integers(1, 4), max_size=3),
    seed=st.integers(0, 99),
)
def test_batch_and_group_norm_on_any_shape(batch, groups, width, spatial, seed):
    x = np.random.default_rng(seed).standard_normal((batch, groups * width, *spatial))
    values = batch * int(np.prod(spatial))
    if values > 1:
        y, _, _ = norms.batch_norm(x)
        theirs = torch.nn.functional.batch_norm(torch.asarray(x), None, None, training=True)
        assert_allclose(y, theirs.numpy(), rtol=1e-9, atol=1e-9)
    else:
        with pytest.raises(ValueError, match="more than one value"):
            norms.batch_norm(x)
    if values * width > 1:
        y, _ = norms.group_norm(x, num_groups=groups)
        theirs = torch.nn.functional.group_norm(torch.asarray(x), groups)
        assert_allclose(y, theirs.numpy(), rtol=1e-9, atol=1e-9)


@settings(max_examples=25)
@given(scale=st.floats(0.1, 100), shift=st.floats(-10, 10), seed=st.integers(0, 99))
def test_invariances(scale, shift, seed):
    """Each norm forgets what it removes. ε = 1e-12 stands for 0."""
    x = np.random.default_rng(seed).standard_normal((4, 5, 6))
    close = {"rtol": 1e-6, "atol": 1e-6}
    moved = scale * x + shift
    assert_allclose(
        norms.layer_norm(moved, eps=1e-12)[0], norms.layer_norm(x, eps=1e-12)[0], **close
    )
    assert_allclose(
        norms.batch_norm(moved, eps=1e-12)[0], norms.batch_norm(x, eps=1e-12)[0], **close
    )
    rescaled = norms.rms_norm(scale * x, eps=1e-12)[0]
    assert_allclose(rescaled, norms.rms_norm(x, eps=1e-12)[0], **close)
    flipped = norms.layer_norm(-scale * x, eps=1e-12)[0]
    assert_allclose(flipped, -norms.layer_norm(x, eps=1e-12)[0], **close)


# --- copies ---------------------------------------------------------------------------------------

ones, zeros = np.ones(FEATURES), np.zeros(FEATURES)
per_example = np.ones((4, FEATURES))
last, masked = {"feature_axis": -1}, {"mask": np.ones((4, 5), dtype=bool)}
# name: (call with all that the formula takes, backward, further arguments of the backward pass)
WHOLE = {
    "batch_norm": (
        partial(norms.batch_norm, running_mean=zeros, running_var=ones, **last, **masked),
        norms.batch_norm_backward,
        (),
    ),
    "layer_norm": (norms.layer_norm, norms.layer_norm_backward, ()),
    "rms_norm": (
        partial(norms.rms_norm, add_unit_offset=True, cast_before_weight=True),
        norms.rms_norm_backward,
        (),
    ),
    "partial_rms_norm": (
        partial(norms.partial_rms_norm, p=0.5),
        norms.partial_rms_norm_backward,
        (),
    ),
    "group_norm": (
        partial(norms.group_norm, num_groups=2, **last, **masked),
        norms.group_norm_backward,
        (),
    ),
    "instance_norm": (
        partial(norms.instance_norm, running_mean=zeros, running_var=ones, **last, **masked),
        norms.instance_norm_backward,
        (),
    ),
    "power_norm_v": (partial(norms.power_norm_v, **masked), norms.power_norm_v_backward, ()),
    "power_norm": (
        partial(norms.power_norm, running_mean_square=ones, step=1, warmup_steps=2, **masked),
        norms.power_norm_backward,
        (zeros,),
    ),
    "power_norm_authors_code": (
        partial(norms.power_norm_authors_code, running_mean_square=ones, groups=2, **masked),
        norms.power_norm_authors_code_backward,
        (zeros,),
    ),
    "dynamic_tanh": (
        lambda x, weight, bias: norms.dynamic_tanh(x, np.ones(1), weight, bias),
        norms.dynamic_tanh_backward,
        (),
    ),
    "weight_norm": (
        lambda x, *_: norms.weight_norm(x, np.ones((4, 1, 1))),
        norms.weight_norm_backward,
        (),
    ),
    "scale_norm": (
        lambda x, *_: norms.scale_norm(x, np.ones(1)),
        norms.scale_norm_backward,
        (),
    ),
    "film": (
        lambda x, *_: norms.film(x, per_example, per_example),
        norms.film_backward,
        (),
    ),
    "adaptive_layer_norm": (
        lambda x, *_: norms.adaptive_layer_norm(x, per_example, per_example),
        norms.adaptive_layer_norm_backward,
        (),
    ),
    "gated_residual": (
        lambda x, *_: norms.gated_residual(x, x, per_example),
        norms.gated_residual_backward,
        (),
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_has_its_dtype_already_is_not_copied(name, monkeypatch):
    """A copy of the activations would change no number, only the memory that a layer needs."""
    original, asked = array_api_compat.numpy.astype, []

    def watched(x, dtype, /, *, copy=True):
        result = original(x, dtype, copy=copy)
        assert result is x or x.dtype != dtype
        assert isinstance(copy, bool)  # the standard has no other, and torch refuses None
        asked.append(dtype)
        return result

    monkeypatch.setattr(array_api_compat.numpy, "astype", watched)
    forward, backward, rest = WHOLE[name]
    x = np.random.default_rng(0).standard_normal((4, 5, FEATURES))
    y, cache, *_ = forward(x, ones, zeros)
    backward(np.ones_like(y), cache, *rest)
    assert len(asked) > 2


def test_every_formula_is_watched_for_copies():
    backwards = {name.removesuffix("_backward") for name in dir(norms) if "_backward" in name}
    assert backwards == set(WHOLE)


# --- bad input ------------------------------------------------------------------------------------

x = np.random.default_rng(0).standard_normal((4, FEATURES, 3))
wrong = np.ones(FEATURES + 1)


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: norms.layer_norm(x.astype(int)), TypeError, "floating"),
        (lambda: norms.rms_norm(x > 0), TypeError, "floating"),
        (lambda: norms.batch_norm(x.astype(np.int32)), TypeError, "int32"),
        (lambda: norms.layer_norm([1.0, 2.0]), TypeError, "array"),
        (lambda: norms.layer_norm(x, wrong), ValueError, "trailing axes"),
        (lambda: norms.layer_norm(x, np.ones(3), wrong), ValueError, "bias"),
        (lambda: norms.layer_norm(x, normalized_shape=7), ValueError, "(7,)"),
        (lambda: norms.layer_norm(x, normalized_shape=()), ValueError, "at least one axis"),
        (lambda: norms.layer_norm(x, np.ones(3, int)), TypeError, "weight"),
        (lambda: norms.rms_norm(x, wrong), ValueError, "trailing axes"),
        (lambda: norms.batch_norm(x, wrong), ValueError, "weight must have shape (6,)"),
        (lambda: norms.batch_norm(x, None, None, wrong), ValueError, "running_mean"),
        (lambda: norms.batch_norm(x, training=False), ValueError, "running_mean"),
        (lambda: norms.batch_norm(x[:1, :, :1]), ValueError, "more than one value"),
        (lambda: norms.batch_norm(x[0, 0]), ValueError, "at least 2 axes"),
        (lambda: norms.batch_norm(x, feature_axis=3), ValueError, "feature_axis=3"),
        (lambda: norms.batch_norm(x, feature_axis=0), ValueError, "batch axis"),
        (lambda: norms.batch_norm(x, eps=0.0), ValueError, "eps must be positive"),
        (lambda: norms.batch_norm(x, eps=-1e-5), ValueError, "-1e-05"),
        (lambda: norms.group_norm(x, num_groups=4), ValueError, "divide"),
        (lambda: norms.group_norm(x, num_groups=0), ValueError, "divide"),
        (lambda: norms.instance_norm(x[:, :, :1]), ValueError, "more than one position"),
        (lambda: norms.instance_norm(x[:, :, 0]), ValueError, "at least 3 axes"),
        (lambda: norms.instance_norm(x, None, None, np.ones(6)), ValueError, "together"),
        (lambda: norms.partial_rms_norm(x[0, 0, 0], p=0.5), ValueError, "at least one axis"),
        (lambda: norms.partial_rms_norm(x, p=0.0), ValueError, "(0, 1]"),
        (lambda: norms.partial_rms_norm(x, p=1.5), ValueError, "1.5"),
        (lambda: norms.partial_rms_norm(x, p=0.1), ValueError, "at least 1"),
        (lambda: norms.weight_norm(x, axis=3), ValueError, "axis=3"),
        (lambda: norms.weight_norm(x, np.ones(4)), ValueError, "(4, 1, 1)"),
        (lambda: norms.power_norm(x), ValueError, "Start with ones"),
        (lambda: norms.power_norm(x, None, None, wrong), ValueError, "running_mean_square"),
        (
            lambda: norms.power_norm(x, None, None, np.ones(3), warmup_steps=5),
            ValueError,
            "step=None",
        ),
        (
            lambda: norms.power_norm_authors_code(x, None, None, np.ones(3), groups=2),
            ValueError,
            "divide",
        ),
    ],
)
def test_bad_input_is_refused_with_the_rule(call, error, says):
    with pytest.raises(error) as caught:
        call()
    assert says in str(caught.value)
