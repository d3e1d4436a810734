"""What people really pass by mistake: each error says the rule, what came, and the likely fix."""

import re
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from normtutor import layers, norms

X = np.random.default_rng(0).standard_normal((4, 5, 6))
T = torch.as_tensor(X)
W, B = np.ones(6), np.zeros(6)
CONDITION = torch.zeros(4, 2)
MEAN, VARIANCE = np.zeros(6), np.ones(6)


def with_momentum(layer: nn.Module, momentum: float) -> nn.Module:
    layer.momentum = momentum
    return layer


def older_weight_norm(module: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(module)


# name: (call, backward, further arguments of the backward pass)
FORWARD = {
    "batch_norm": (lambda x: norms.batch_norm(x, feature_axis=-1), norms.batch_norm_backward, ()),
    "layer_norm": (norms.layer_norm, norms.layer_norm_backward, ()),
    "rms_norm": (norms.rms_norm, norms.rms_norm_backward, ()),
    "partial_rms_norm": (
        lambda x: norms.partial_rms_norm(x, p=0.5),
        norms.partial_rms_norm_backward,
        (),
    ),
    "group_norm": (lambda x: norms.group_norm(x, num_groups=1), norms.group_norm_backward, ()),
    "instance_norm": (norms.instance_norm, norms.instance_norm_backward, ()),
    "power_norm_v": (norms.power_norm_v, norms.power_norm_v_backward, ()),
    "power_norm": (
        lambda x: norms.power_norm(x, None, None, np.ones(6)),
        norms.power_norm_backward,
        (np.zeros(6),),
    ),
    "power_norm_authors_code": (
        lambda x: norms.power_norm_authors_code(x, None, None, np.ones(6)),
        norms.power_norm_authors_code_backward,
        (np.zeros(6),),
    ),
    "dynamic_tanh": (
        lambda x: norms.dynamic_tanh(x, np.ones(1)),
        norms.dynamic_tanh_backward,
        (),
    ),
    "weight_norm": (norms.weight_norm, norms.weight_norm_backward, ()),
    "scale_norm": (lambda x: norms.scale_norm(x, np.ones(1)), norms.scale_norm_backward, ()),
    "adaptive_layer_norm": (
        lambda x: norms.adaptive_layer_norm(x, np.zeros((4, 6)), np.zeros((4, 6))),
        norms.adaptive_layer_norm_backward,
        (),
    ),
    "gated_residual": (
        lambda x: norms.gated_residual(x, x, np.zeros((4, 6))),
        norms.gated_residual_backward,
        (),
    ),
    "film": (
        lambda x: norms.film(x, np.zeros((4, 6)), np.zeros((4, 6))),
        norms.film_backward,
        (),
    ),
}
# Caches that more than one backward pass may have.
FITS = {
    ("batch_norm", "instance_norm"),  # instance_norm in evaluation with running statistics
    ("group_norm", "instance_norm"),
    ("instance_norm", "group_norm"),
    ("power_norm_v", "power_norm"),  # exact, whatever ν is
}


@pytest.mark.parametrize("name", FORWARD)
def test_a_cache_of_another_norm_is_refused(name):
    _, backward, rest = FORWARD[name]
    for other, (forward, _, _) in FORWARD.items():
        _, cache, *_ = forward(X)
        if other == name or (other, name) in FITS:
            backward(np.ones_like(X), cache, *rest)
            continue
        with pytest.raises((TypeError, ValueError), match=f"needs the cache of {name}"):
            backward(np.ones_like(X), cache, *rest)


@pytest.mark.parametrize("name", FORWARD)
def test_what_is_no_cache_is_refused(name):
    forward, backward, rest = FORWARD[name]
    y, cache, *more = forward(X)
    with pytest.raises(
        TypeError, match=rf"got numpy\.ndarray. That is an array, perhaps y.*{name}"
    ):
        backward(np.ones_like(X), y, *rest)
    with pytest.raises(TypeError, match="all that the forward pass returned"):
        backward(np.ones_like(X), (y, cache, *more), *rest)
    with pytest.raises(TypeError, match="got NoneType"):
        backward(np.ones_like(X), None, *rest)


@pytest.mark.parametrize("name", FORWARD)
def test_a_gradient_of_another_shape_than_y_is_refused(name):
    forward, backward, rest = FORWARD[name]
    cache = forward(X)[1]
    for wrong in (np.ones(6), np.ones((1, 5, 6)), np.ones((4, 5, 1)), np.asarray(1.0)):
        with pytest.raises(ValueError, match=r"grad_y must have y's shape \(4, 5, 6\)"):
            backward(wrong, cache, *rest)
    with pytest.raises(TypeError, match="grad_y must hold real floating-point numbers"):
        backward(np.ones(X.shape, dtype=int), cache, *rest)
    with pytest.raises(TypeError, match="grad_y must be an array"):
        backward(1.0, cache, *rest)


@pytest.mark.parametrize("name", FORWARD)
def test_a_list_and_a_gradient_of_another_library_are_refused(name):
    forward, backward, rest = FORWARD[name]
    first = "v" if name == "weight_norm" else "x"
    says = rf"{first} must be an array.*got list. Convert it first.*np.asarray\({first}"
    with pytest.raises(TypeError, match=says):
        forward(X.tolist())
    cache = forward(X)[1]
    with pytest.raises(TypeError, match="grad_y must come from the same library as y; got torch"):
        backward(torch.ones(4, 5, 6), cache, *rest)


# Every array that goes with x, where x is torch's and the rest NumPy's.
MIXED = {
    "batch_norm": (norms.batch_norm, {"weight": W, "bias": B, "mask": (4, 5)}),
    "batch_norm in evaluation": (
        lambda x, **k: norms.batch_norm(
            x, training=False, **{"running_mean": T[0, 0], "running_var": T[0, 0] ** 2} | k
        ),
        {"running_mean": B, "running_var": W},
    ),
    "layer_norm": (norms.layer_norm, {"weight": W, "bias": B}),
    "rms_norm": (norms.rms_norm, {"weight": W, "bias": B}),
    "partial_rms_norm": (
        lambda x, **k: norms.partial_rms_norm(x, p=0.5, **k),
        {"weight": W, "bias": B},
    ),
    "group_norm": (
        lambda x, **k: norms.group_norm(x, num_groups=2, **k),
        {"weight": W, "bias": B, "mask": (4, 5)},
    ),
    "instance_norm": (norms.instance_norm, {"weight": W, "bias": B, "mask": (4, 5)}),
    "power_norm_v": (norms.power_norm_v, {"weight": W, "bias": B, "mask": (4, 5)}),
    "power_norm": (
        lambda x, **k: norms.power_norm(x, **{"running_mean_square": T[0, 0] ** 2} | k),
        {"weight": W, "bias": B, "running_mean_square": W, "mask": (4, 5)},
    ),
    "power_norm_authors_code": (
        lambda x, **k: norms.power_norm_authors_code(
            x, **{"running_mean_square": T[0, 0] ** 2} | k
        ),
        {"weight": W, "bias": B, "running_mean_square": W, "mask": (4, 5)},
    ),
    "dynamic_tanh": (
        lambda x, **k: norms.dynamic_tanh(x, **{"alpha": T[0, 0, :1]} | k),
        {"alpha": W[:1], "weight": W, "bias": B},
    ),
    "weight_norm": (norms.weight_norm, {"g": np.ones((4, 1, 1))}),
    "scale_norm": (norms.scale_norm, {"g": W[:1]}),
    "film": (
        lambda x, **k: norms.film(x, **{"scale": T[:, 0], "shift": T[:, 0]} | k),
        {"scale": X[:, 0], "shift": X[:, 0]},
    ),
    "adaptive_layer_norm": (
        lambda x, **k: norms.adaptive_layer_norm(x, **{"scale": T[:, 0], "shift": T[:, 0]} | k),
        {"scale": X[:, 0], "shift": X[:, 0]},
    ),
    "gated_residual": (
        lambda x, **k: norms.gated_residual(x, **{"branch": T, "gate": T[:, 0]} | k),
        {"branch": X, "gate": X[:, 0]},
    ),
}
PER_FEATURE = ("batch_norm", "batch_norm in evaluation", "group_norm", "instance_norm")


def test_arrays_of_all_formulas_are_tried():
    assert {name.partition(" ")[0] for name in MIXED} == set(FORWARD)


@pytest.mark.parametrize("name, argument", [(n, a) for n, (_, all_) in MIXED.items() for a in all_])
def test_an_array_of_numpy_beside_a_torch_x_is_refused(name, argument):
    forward, given = MIXED[name]
    value = given[argument]
    axis = {"feature_axis": -1} if name in PER_FEATURE else {}
    if argument == "mask":
        value = np.ones(value, dtype=bool)
        with pytest.raises(TypeError, match=r"mask must be a boolean array.*got list.*np.asarray"):
            forward(T, mask=value.tolist(), **axis)
    beside = "v" if name == "weight_norm" else "x"
    says = (
        f"{argument} must come from the same library as {beside}; got numpy.ndarray beside "
        f"{beside} of torch.Tensor. Convert one of them.*torch.from_numpy"
    )
    with pytest.raises(TypeError, match=says):
        forward(T, **{argument: value}, **axis)
    forward(T, **{argument: torch.as_tensor(value)}, **axis)  # and converted it is right


CALLS = {
    "a ν of NumPy beside a torch cache": (
        lambda: norms.power_norm_backward(
            T, norms.power_norm(T, None, None, T.new_ones(6))[1], np.zeros(6)
        ),
        TypeError,
        "nu must come from the same library as y; got numpy.ndarray",
    ),
    "a momentum above one, in instance_norm": (
        lambda: norms.instance_norm(X, None, None, MEAN[:5], VARIANCE[:5], momentum=1.5),
        ValueError,
        r"momentum must lie in \[0, 1\].*got 1.5",
    ),
    "a momentum above one, set afterwards": (
        lambda: with_momentum(layers.BatchNorm(6), 1.5)(torch.randn(3, 6)),
        ValueError,
        r"momentum must lie in \[0, 1\].*got 1.5",
    ),
    "a NumPy condition": (
        lambda: layers.FiLM(6, 2)(T, np.zeros((4, 2))),
        TypeError,
        "condition must be a torch tensor; got numpy.ndarray.*torch.as_tensor",
    ),
    "weight_norm after torch's older one": (
        lambda: layers.weight_norm(older_weight_norm(nn.Linear(3, 3))),
        ValueError,
        "sets anew before each call.*remove_weight_norm",
    ),
    "a weight of PowerNorm of another length": (
        lambda: norms.power_norm(X, np.ones(5), None, np.ones(6)),
        ValueError,
        r"weight must have shape \(6,\)",
    ),
    "a running mean square of another length": (
        lambda: norms.power_norm(X, None, None, np.ones(5)),
        ValueError,
        r"running_mean_square must have shape \(6,\)",
    ),
    "a list": (
        lambda: norms.layer_norm([1.0, 2.0]),
        TypeError,
        "x must be an array.*got list. Convert it first.*np.asarray",
    ),
    "a NumPy weight beside a torch x": (
        lambda: norms.rms_norm(T, W),
        TypeError,
        "weight must come from the same library as x; got numpy.ndarray beside x of torch.Tensor",
    ),
    "a torch bias beside a NumPy x": (
        lambda: norms.batch_norm(X, None, torch.zeros(6), feature_axis=-1),
        TypeError,
        "bias must come from the same library as x; got torch.Tensor",
    ),
    "torch's second argument": (
        lambda: norms.layer_norm(X, (6,)),
        TypeError,
        r"weight must be an array.*got tuple.*normalized_shape=\(6,\)",
    ),
    "torch's second argument, a number": (
        lambda: norms.rms_norm(X, 6),
        TypeError,
        "weight must be an array.*got int.*normalized_shape=6",
    ),
    "torch's order, layer_norm": (
        lambda: norms.layer_norm(X, (6,), W, B),
        TypeError,
        r"layer_norm takes x, weight, bias by position and the rest by name; got \(numpy.ndarray, "
        r"tuple, numpy.ndarray, numpy.ndarray\).*torch's order, layer_norm\(x, normalized_shape, "
        r"weight, bias, eps\), write layer_norm\(x, weight, bias, normalized_shape=\(8,\)",
    ),
    "torch's order, rms_norm": (
        lambda: norms.rms_norm(X, (6,), W, 1e-6),
        TypeError,
        r"rms_norm takes x, weight, bias by position.*write rms_norm\(x, weight, normalized_shape",
    ),
    "torch's order, group_norm": (
        lambda: norms.group_norm(X, 1, W, B),
        TypeError,
        r"group_norm takes x, weight, bias by position.*got \(numpy.ndarray, int, numpy.ndarray, "
        r"numpy.ndarray\).*write group_norm\(x, weight, bias, num_groups=2",
    ),
    "torch's order, group_norm without parameters": (
        lambda: norms.group_norm(X, 1),
        TypeError,
        r"got \(numpy.ndarray, int\).*write group_norm\(x, weight, bias, num_groups=2",
    ),
    "torch's order, batch_norm with training": (
        lambda: norms.batch_norm(X, MEAN, VARIANCE, W, B, True),
        TypeError,
        r"batch_norm takes x, weight, bias, running_mean, running_var by position.*training=True",
    ),
    "torch's order, instance_norm with use_input_stats": (
        lambda: norms.instance_norm(X, MEAN, VARIANCE, W, B, True),
        TypeError,
        r"instance_norm takes x, weight, bias, running_mean, running_var by pos.*training=True",
    ),
    "torch's order, in NumPy": (
        lambda: norms.batch_norm(X, MEAN, VARIANCE, W, B - 0.1, training=False, feature_axis=-1),
        ValueError,
        r"running_var must not be negative.*got -0.1.*\(x, running_mean, running_var, weight",
    ),
    "torch's order, of a layer": (
        lambda: norms.batch_norm(
            T.mT.float(),
            *[getattr(nn.BatchNorm1d(6), n) for n in ("running_mean", "running_var")],
            *[getattr(nn.BatchNorm1d(6), n) for n in ("weight", "bias")],
        ),
        ValueError,
        "must be averages, not parameters.*Pass them by name",
    ),
    "torch's order, InstanceNorm": (
        lambda: norms.instance_norm(X, MEAN, VARIANCE, W, B - 1, feature_axis=-1),
        ValueError,
        "running_var must not be negative",
    ),
    "the cache of power_norm": (
        lambda: norms.power_norm_v_backward(X, FORWARD["power_norm"][0](X)[1]),
        ValueError,
        "got one of power_norm, whose gradient also needs ν",
    ),
    "a momentum above one": (
        lambda: norms.batch_norm(X, None, None, MEAN, VARIANCE, momentum=1.5, feature_axis=-1),
        ValueError,
        r"momentum must lie in \[0, 1\].*got 1.5.*Keras and Flax write as 0.9",
    ),
    "a momentum above one, in a layer": (
        lambda: layers.BatchNorm(6, momentum=1.5),
        ValueError,
        "momentum must lie in",
    ),
    "a momentum below zero, in a layer": (
        lambda: layers.InstanceNorm(6, momentum=-0.1),
        ValueError,
        "momentum must lie in",
    ),
    "NumPy x to LayerNorm": (
        lambda: layers.LayerNorm(6)(X),
        TypeError,
        r"x must be a torch tensor; got numpy.ndarray.*torch.as_tensor.*normtutor.norms",
    ),
    "weight_norm twice": (
        lambda: layers.weight_norm(layers.weight_norm(nn.Linear(3, 3))),
        ValueError,
        "computed already, by WeightNorm.*remove_parametrizations",
    ),
    "weight_norm after spectral_norm": (
        lambda: layers.weight_norm(nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))),
        ValueError,
        "computed already, by SpectralNorm",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_mistake_is_named_with_its_fix(name):
    call, error, says = CALLS[name]
    with pytest.raises(error, match=re.compile(says, re.S)):
        call()


@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.BatchNorm(5),
        lambda: layers.InstanceNorm(5),
        lambda: layers.GroupNorm(1, 5),
        lambda: layers.RMSNorm(6),
        lambda: layers.PartialRMSNorm(6, 0.5),
        lambda: layers.DynamicTanh(6),
        lambda: layers.PowerNorm(6),
        lambda: layers.ScaleNorm(6),
        lambda: layers.LayerNorm(6),
        lambda: partial(layers.FiLM(6, 2), condition=CONDITION),
        lambda: partial(layers.AdaptiveLayerNorm(6, 2), condition=CONDITION),
        lambda: partial(layers.AdaptiveLayerNormZero(nn.Tanh(), 6, 2), condition=CONDITION),
    ],
)
def test_a_layer_refuses_what_is_no_tensor(make):
    for wrong in (X, X.tolist(), None):
        with pytest.raises(TypeError, match=r"x must be a torch tensor; got .*torch\.as_tensor"):
            make()(wrong)


def test_right_calls_are_not_refused():
    """Statistics may hold zeros, and parameters may be frozen."""
    norms.batch_norm(X, W, B, MEAN, np.zeros(6), training=False, feature_axis=-1)
    theirs = nn.BatchNorm1d(6).requires_grad_(False)
    norms.batch_norm(
        T.mT.float(), theirs.weight, theirs.bias, theirs.running_mean, theirs.running_var
    )
    norms.batch_norm(X, None, None, MEAN, VARIANCE, momentum=1.0, feature_axis=-1)
    layers.BatchNorm(3, momentum=None)
    statistics = torch.ones(6, dtype=torch.float64, requires_grad=True)
    norms.batch_norm(T, None, None, statistics, statistics, training=False, feature_axis=-1)
