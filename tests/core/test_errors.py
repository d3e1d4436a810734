"""What people really pass by mistake: each error says the rule, what came, and the likely fix."""

import re
import warnings

import numpy as np
import pytest
import torch
from layer_checks import CONDITIONAL, LAYERS, randn
from norm_cases import EVERY, MASK, RAMP, draw
from torch import nn

from normtutor import layers, norms
from normtutor.norms import sharing_cells

X = np.random.default_rng(0).standard_normal((3, 5, 6))
T = torch.as_tensor(X)
W, B = np.ones(6), np.zeros(6)
FORMULAS = {case.formula: case for case in reversed(EVERY)}  # the first case of each
every_formula = pytest.mark.parametrize("formula", FORMULAS)


def forward(formula):
    *arrays, _ = draw(FORMULAS[formula])
    return FORMULAS[formula].forward(*arrays)


def backward(formula, grad_y, cache):
    nu = [RAMP] if FORMULAS[formula].takes_nu else []
    return getattr(norms, f"{formula}_backward")(grad_y, cache, *nu)


@every_formula
def test_only_its_own_cache_and_a_gradient_like_y_are_taken(formula):
    y, cache, *more = forward(formula)
    for other in FORMULAS:
        if other == formula:
            backward(formula, X, forward(other)[1])
        else:
            with pytest.raises((TypeError, ValueError), match=f"needs the cache of {formula}"):
                backward(formula, X, forward(other)[1])
    for wrong, says in (
        (y, "an array, perhaps y"),
        ((y, cache, *more), "all that the forward pass returned"),
        (None, "got NoneType"),
    ):
        with pytest.raises(TypeError, match=says):
            backward(formula, X, wrong)
    for wrong, says in (
        (np.ones((3, 5, 1)), r"grad_y must have y's shape \(3, 5, 6\)"),
        (np.ones(X.shape, dtype=int), "grad_y must hold real floating-point numbers"),
        (1.0, "grad_y must be an array"),
        (torch.ones(3, 5, 6), "grad_y must come from the same library as y"),
    ):
        with pytest.raises((TypeError, ValueError), match=says):
            backward(formula, wrong, cache)


@every_formula
def test_x_must_be_an_array_of_floating_point_numbers(formula):
    case = FORMULAS[formula]
    x, *parameters, _ = draw(case)
    for wrong, says in (
        (x.tolist(), "must be an array.*got list. Convert it first"),
        (x.astype(np.int32), "must hold real floating-point numbers.*int32"),
    ):
        with pytest.raises(TypeError, match=says):
            getattr(norms, formula)(wrong, *parameters, **case.options)


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_an_array_of_numpy_beside_a_torch_x_is_refused(case):
    *arrays, _ = draw(case)
    tensors = [torch.as_tensor(a) for a in arrays]
    beside = dict(zip(case.parameters, arrays[1:], strict=True)) | case.running
    if case.takes_mask:
        beside["mask"] = MASK
        with pytest.raises(TypeError, match=r"mask must be a boolean array.*got list.*np.asarray"):
            case.forward(*tensors, mask=MASK.tolist())
    for name, array in beside.items():
        says = f"{name} must come from the same library as [xv]; got numpy.ndarray beside"
        with pytest.raises(TypeError, match=says):
            case.forward(*tensors, **{name: array})


def older_weight_norm(module: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(module)


VALUE_ERRORS = [
    # shapes
    (lambda: norms.rms_norm(X, np.ones(7)), "weight must have the shape of the trailing axes"),
    (lambda: norms.rms_norm(X, np.ones(())), "weight must have the shape of the trailing axes"),
    (lambda: norms.layer_norm(X, W, np.ones(7)), r"bias must have shape \(6,\)"),
    (lambda: norms.layer_norm(X, normalized_shape=7), r"normalized_shape=\(7,\) must equal"),
    (lambda: norms.layer_norm(X, normalized_shape=()), "at least one axis"),
    (lambda: norms.batch_norm(X, W), r"weight must have shape \(5,\)"),
    (lambda: norms.batch_norm(X, running_mean=W), r"running_mean must have shape \(5,\)"),
    (lambda: norms.batch_norm(X[0, 0]), "at least 2 axes"),
    (lambda: norms.batch_norm(X, feature_axis=3), "feature_axis=3 does not exist"),
    (lambda: norms.batch_norm(X, feature_axis=0), "batch axis"),
    (lambda: norms.instance_norm(X[:, :, 0]), "at least 3 axes"),
    (lambda: norms.weight_norm(X, axis=3), "axis=3"),
    (lambda: norms.weight_norm(X, np.ones(3)), r"\(3, 1, 1\)"),
    (lambda: norms.power_norm(X, W[:5], None, W), r"weight must have shape \(6,\)"),
    (lambda: norms.power_norm(X, None, None, W[:5]), "running_mean_square must have shape"),
    (lambda: norms.scale_norm(X, W), r"g must have shape \(1,\)"),
    (lambda: norms.dynamic_tanh(X, W), r"alpha must have shape \(1,\)"),
    (lambda: norms.film(X, X[:2, 0], X[:, 0]), r"scale must have shape \(3, 6\)"),
    (lambda: norms.film(X, X[:, 0], X[:, 0, :2]), r"shift must have shape \(3, 6\)"),
    (
        lambda: layers.AdaptiveLayerNormZero(nn.Linear(6, 1), 6, 2)(
            randn(3, 5, 6).float(), randn(3, 2).float()
        ),
        "branch must have shape",
    ),
    (lambda: layers.FiLM(4, 2)(randn(3, 5, 4), randn(2, 2)), r"condition must have shape \(3, 2"),
    (lambda: layers.AdaptiveLayerNorm(4, 2).double()(T, randn(3, 2)), "must have 4 features"),
    # statistics and settings
    (lambda: norms.batch_norm(X[:1, :, :1]), "more than one value"),
    (lambda: norms.batch_norm(X, eps=0.0), "eps must be positive"),
    (lambda: layers.BatchNorm(6, eps=-1.0).eval()(torch.ones(3, 6)), "eps must not be negative"),
    (lambda: norms.batch_norm(X, training=False), "running_mean and running_var"),
    (lambda: norms.instance_norm(X, running_mean=W[:5]), "together"),
    (lambda: norms.instance_norm(X[:, :, :1]), "more than one position"),
    (lambda: norms.group_norm(X, num_groups=4), "divide"),
    (lambda: layers.GroupNorm(0, 6), "got 0 groups for 6 features"),
    (lambda: norms.partial_rms_norm(X[0, 0, 0], p=0.5), "at least one axis"),
    (lambda: norms.partial_rms_norm(X, p=0.0), r"p must lie in \(0, 1\]"),
    (lambda: layers.PartialRMSNorm(8, 1.1), r"p must lie in \(0, 1\]"),
    (lambda: norms.partial_rms_norm(X, p=0.1), "at least 1"),
    (lambda: norms.power_norm(X), "Start with ones"),
    (lambda: norms.power_norm(X, None, None, W, warmup_steps=5), "step=None"),
    (lambda: norms.power_norm_authors_code(X, None, None, W, groups=4), "divide"),
    (
        lambda: norms.instance_norm(X, running_mean=B[:5], running_var=W[:5], momentum=1.5),
        r"momentum must lie in \[0, 1\].*got 1.5",
    ),
    (lambda: layers.BatchNorm(6, momentum=1.5), "momentum must lie in"),
    (lambda: layers.InstanceNorm(6, momentum=-0.1), "momentum must lie in"),
    (lambda: layers.PowerNorm(4, variant="pnv"), "unknown variant 'pnv'.*\"pn-v\""),
    (lambda: layers.PowerNorm(4, variant="authors-code", groups=3), "got 3 groups for 4 features"),
    (lambda: layers.PowerNorm(4, alpha_forward=1.5), "alpha_forward must lie in"),
    (lambda: layers.PowerNorm(4, alpha_backward=-0.1), "alpha_backward must lie in"),
    (lambda: layers.PowerNorm(4, warmup_steps=-1), "must not be negative"),
    # the table of the three choices
    (lambda: sharing_cells("Batchnorm", (2, 3, 8), (0, 0, 0)), "BatchNorm, LayerNorm"),
    (lambda: sharing_cells("LayerNorm", (2, 3, 8), (2, 0, 0)), "outside"),
    (lambda: sharing_cells("LayerNorm", (2, 3, 8), (-1, 0, 0)), "outside"),
    (lambda: sharing_cells("GroupNorm", (2, 3, 8), (0, 0, 0), num_groups=3), "divide"),
    (lambda: sharing_cells("pRMSNorm", (2, 3, 8), (0, 0, 0), p=0.1), "at least 1"),
    # WeightNorm
    (
        lambda: layers.weight_norm(older_weight_norm(nn.Linear(3, 3))),
        "sets anew before each call.*remove_weight_norm",
    ),
    (
        lambda: layers.weight_norm(layers.weight_norm(nn.Linear(3, 3))),
        "computed already, by WeightNorm.*remove_parametrizations",
    ),
]
TYPE_ERRORS = [
    (lambda: norms.layer_norm(X, (6,)), r"got tuple.*normalized_shape=\(6,\)"),
    (lambda: norms.rms_norm(X, 6), "got int.*normalized_shape=6"),
    # torch's order of arguments
    (lambda: norms.layer_norm(X, (6,), W, B), "positional arguments"),
    (lambda: norms.group_norm(X, 1), "num_groups"),
    (lambda: norms.batch_norm(X, B[:5], W[:5], W[:5], B[:5]), "positional arguments"),
    (lambda: norms.instance_norm(X, B[:5], W[:5], W[:5], B[:5]), "positional arguments"),
    (
        lambda: norms.power_norm_backward(
            T, norms.power_norm(T, None, None, T.new_ones(6))[1], np.zeros(6)
        ),
        "nu must come from the same library as y; got numpy.ndarray",
    ),
    (
        lambda: layers.FiLM(6, 2)(T, np.zeros((3, 2))),
        "condition must be a torch tensor; got numpy.ndarray.*torch.as_tensor",
    ),
]


@pytest.mark.parametrize(
    "call, says, error",
    [(*row, ValueError) for row in VALUE_ERRORS] + [(*row, TypeError) for row in TYPE_ERRORS],
)
def test_a_mistake_is_named_with_its_fix(call, says, error):
    with pytest.raises(error, match=re.compile(says, re.S)):
        call()


@pytest.mark.parametrize("name", LAYERS | CONDITIONAL)
def test_a_layer_refuses_what_is_no_tensor(name):
    condition = [torch.zeros(3, 2)] if name in CONDITIONAL else []
    for wrong in (X, X.tolist(), None):
        with pytest.raises(TypeError, match=r"x must be a torch tensor; got .*torch\.as_tensor"):
            (LAYERS | CONDITIONAL)[name]()(wrong, *condition)


@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm", "ScaleNorm"])
def test_a_layer_with_a_parameter_of_a_wrong_shape_says_which(name):
    layer, parameter = LAYERS[name](), "g" if name == "ScaleNorm" else "weight"
    for wrong in (1, 3):  # of which one would broadcast
        setattr(layer, parameter, nn.Parameter(torch.ones(wrong, wrong)))
        with pytest.raises(ValueError, match=rf"^{parameter} must have .*got \({wrong}, {wrong}\)"):
            layer(torch.randn(3, 5, 4))
