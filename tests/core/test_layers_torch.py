"""The layers against torch.nn: what torch has, ours must give, gradients and buffers included."""

import copy
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch
from layer_checks import assert_same, buffers, randn, randomize, results
from torch import nn

from normtutor import layers

HALVES = [torch.float16, torch.bfloat16]


class Pair(NamedTuple):
    """A layer of torch.nn and ours of that name, a shape of input, and their arguments."""

    name: str
    shape: tuple[int, ...]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = MappingProxyType({})

    @property
    def theirs(self) -> Callable[..., nn.Module]:
        if self.name in ("BatchNorm", "InstanceNorm"):
            return getattr(nn, f"{self.name}{max(1, len(self.shape) - 2)}d")
        return getattr(nn, self.name)

    @property
    def ours(self) -> Callable[..., nn.Module]:
        return getattr(layers, self.name)

    def __str__(self) -> str:
        options = "".join(f" {k}={v}" for k, v in self.options.items())
        return f"{self.name}{list(self.arguments)}{options} {list(self.shape)}"

    def build(self, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, nn.Module]:
        """The two layers with the same random parameters, which ours has loaded from theirs."""
        theirs = self.theirs(*self.arguments, **self.options).to(dtype)
        ours = self.ours(*self.arguments, **self.options).to(dtype)
        randomize(theirs)
        ours.load_state_dict(theirs.state_dict())
        return theirs, ours


# Every shape without options, and every option with the second shape.
SHAPES: dict[str, list[tuple[Any, ...]]] = {
    "BatchNorm": [(x, (6,)) for x in ((8, 6), (4, 6, 5), (3, 6, 4, 5), (2, 6, 2, 3, 2))],
    "InstanceNorm": [(x, (6,)) for x in ((6, 5), (4, 6, 5), (3, 6, 4, 5), (2, 6, 2, 3, 2))],
    "GroupNorm": [((4, 6), (1, 6)), ((4, 6, 5), (3, 6)), ((3, 6, 4, 5), (6, 6))],
    "LayerNorm": [((6,), (6,)), ((3, 5, 6), (6,)), ((2, 3, 5, 6), ([3, 5, 6],))],
    "RMSNorm": [((6,), (6,)), ((3, 5, 6), (6,)), ((2, 3, 5, 6), ((5, 6),))],
}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "BatchNorm": [
        {"affine": False},
        {"bias": False},
        {"track_running_stats": False},
        {"momentum": None},
        {"momentum": 0.0},
        {"momentum": 1.0, "eps": 0.1},
    ],
    "InstanceNorm": [
        {"affine": True, "bias": False, "track_running_stats": True},
        {"affine": True, "track_running_stats": True, "momentum": None},
        {"track_running_stats": True, "momentum": 1.0, "eps": 0.1},
    ],
    "GroupNorm": [{"affine": False}, {"bias": False}, {"eps": 0.1}],
    "LayerNorm": [{"elementwise_affine": False}, {"bias": False}, {"eps": 0.1}],
    "RMSNorm": [{"elementwise_affine": False}, {"eps": 0.1}],
}
PAIRS = [Pair(name, *row) for name, rows in SHAPES.items() for row in rows]
PAIRS += [Pair(name, *SHAPES[name][1], one) for name in OPTIONS for one in OPTIONS[name]]
# torch's own norms over the batch take bias=False from some version on; ours hand it to them.
if "bias" not in inspect.signature(nn.BatchNorm1d).parameters:
    PAIRS = [pair for pair in PAIRS if pair.name == "LayerNorm" or "bias" not in pair.options]
# One of each kind, for what does not depend on the options.
TYPICAL = [
    Pair("BatchNorm", (8, 6), (6,)),
    Pair("BatchNorm", (3, 6, 4, 5), (6,)),
    Pair("InstanceNorm", (3, 6, 4, 5), (6,), {"affine": True, "track_running_stats": True}),
    Pair("GroupNorm", (3, 6, 4, 5), (2, 6)),
    Pair("LayerNorm", (3, 5, 6), (6,)),
    Pair("RMSNorm", (3, 5, 6), (6,)),
]
typical_pairs = pytest.mark.parametrize("pair", TYPICAL, ids=str)


@pytest.mark.parametrize(
    "pair, dtype",
    [(pair, torch.float64) for pair in PAIRS] + [(pair, torch.float32) for pair in TYPICAL],
    ids=str,
)
def test_values_gradients_and_buffers_over_several_steps(pair, dtype):
    theirs, ours = pair.build(dtype)
    for step, training in enumerate([True, True, True, False, True, False]):
        x = 1.5 * randn(*pair.shape, seed=10 + step, dtype=dtype) + 0.5 * step
        theirs.train(training)
        ours.train(training)
        assert_same(results(ours, x), results(theirs, x))


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_state_dicts_initial_values_attributes_and_repr(pair):
    theirs = pair.theirs(*pair.arguments, **pair.options)
    ours = pair.ours(*pair.arguments, **pair.options)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.state_dict()._metadata == theirs.state_dict()._metadata
    for expected in (dict(theirs.state_dict()), dict(ours.state_dict())):
        torch.testing.assert_close(dict(ours.state_dict()), expected, rtol=0, atol=0)
        randomize(ours)
        ours.reset_parameters()
    assert repr(ours).partition("(")[2] == repr(theirs).partition("(")[2]
    for name, value in vars(theirs).items():
        if not name.startswith("_"):
            assert getattr(ours, name) == value, name
    for source, target in [(theirs, ours), (ours, theirs)]:
        randomize(source, seed=3)
        assert str(target.load_state_dict(source.state_dict())) == "<All keys matched successfully>"
        for name, value in source.state_dict().items():
            assert target.state_dict()[name].equal(value)


@typical_pairs
def test_arguments_have_torchs_names_order_and_defaults(pair):
    theirs = inspect.signature(pair.theirs).parameters
    ours = inspect.signature(pair.ours).parameters
    beyond = [n for n in ours if n not in theirs]
    assert [n for n in ours if n not in beyond] == list(theirs)
    assert all(ours[name].kind is inspect.Parameter.KEYWORD_ONLY for name in beyond)
    for name, parameter in theirs.items():
        assert (ours[name].default, ours[name].kind) == (parameter.default, parameter.kind)


@pytest.mark.parametrize("kind", [layers.LayerNorm, layers.RMSNorm], ids=lambda k: k.__name__)
def test_the_feature_axis_of_a_norm_of_tokens(kind):
    x = randn(2, 4, 3).float()
    for axis in (1, -2):
        layer = kind(4, feature_axis=axis)
        torch.testing.assert_close(layer(x), kind(4)(x.mT).mT)
        assert f"feature_axis={axis}" in repr(layer)
    with pytest.raises(ValueError, match="feature_axis=3 does not exist"):
        kind(4, feature_axis=3)(x)
    with pytest.raises(ValueError, match="needs one number as normalized_shape"):
        kind((4, 3), feature_axis=1)


def test_the_unit_offset_starts_where_1_plus_gamma_is_1():
    layer = layers.RMSNorm(4, add_unit_offset=True)
    assert "add_unit_offset=True" in repr(layer) and not layer.weight.any()
    layers.RMSNorm(4, elementwise_affine=False, add_unit_offset=True).reset_parameters()


# --- dtypes ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Mismatch dtype:UserWarning")  # a slow path of torch's
@pytest.mark.parametrize("parameters", ["half", "float32"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@typical_pairs
def test_half_precision(pair, dtype, parameters):
    """Close to the exact result, no further from it than torch, and of torch's dtypes."""
    theirs, ours = pair.build(torch.float32)
    if parameters == "half":
        theirs, ours = theirs.to(dtype), ours.to(dtype)
    exact = copy.deepcopy(theirs).double()
    x = (2 * randn(*pair.shape, seed=4) + 3).to(dtype)
    c = randn(*pair.shape, seed=5).to(dtype)
    found, torchs, exact = (
        results(layer, x.to(kind), second=False, cotangent=c.to(kind))
        for layer, kind in [(ours, dtype), (theirs, dtype), (exact, torch.float64)]
    )
    for name, value in exact.items():
        assert found[name].dtype == torchs[name].dtype, name
        if not value.is_floating_point():
            continue
        scale = value.abs().max()
        # Three roundings of the type at most, and torch's own error with two roundings of slack.
        step = torch.finfo(found[name].dtype).eps * scale
        error = (found[name].double() - value).abs().max()
        assert error <= 3 * torch.finfo(dtype).eps * scale, name
        assert error <= (torchs[name].double() - value).abs().max() + 2 * step, name
    assert found["y"].dtype == dtype


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32, torch.float64])
@typical_pairs
def test_mixed_dtypes_give_torchs_dtype_or_raise_where_torch_raises(pair, dtype):
    x = randn(*pair.shape).to(dtype)
    for parameters in (*HALVES, torch.float32, torch.float64):
        theirs, ours = pair.build(parameters)
        if pair.name == "RMSNorm" and dtype != parameters:
            assert ours(x).dtype == dtype  # torch warns here of a slow path
            continue
        try:
            expected = theirs(x).dtype
        except RuntimeError:
            with pytest.raises(TypeError, match=r"the parameters and buffers must have x's dtype"):
                ours(x)
        else:
            assert ours(x).dtype == expected


@pytest.mark.parametrize("pair", TYPICAL[:-1], ids=str)  # RMSNorm takes them, as torch's does
def test_one_parameter_of_another_dtype_is_enough_to_be_refused(pair):
    for name in set(pair.build()[1].state_dict()) - {"num_batches_tracked"}:
        ours = pair.build(torch.float32)[1]
        getattr(ours, name).data = getattr(ours, name).data.double()
        with pytest.raises(TypeError, match=r"got torch\.float64 beside x of torch\.float32"):
            ours(torch.ones(pair.shape))


@typical_pairs
def test_only_real_floating_point_numbers_are_taken(pair):
    for dtype in (torch.int64, torch.complex64):
        with pytest.raises(TypeError, match=f"got dtype {dtype}"):
            pair.build(torch.float32)[1](torch.ones(pair.shape).to(dtype))


# --- hard and wrong input -------------------------------------------------------------------------

EMPTY = [
    *[Pair("BatchNorm", shape, (6,)) for shape in [(0, 6), (3, 6, 0)]],
    Pair("BatchNorm", (0, 6, 2, 2), (6,), {"momentum": None}),
    *[Pair("GroupNorm", shape, (2, 6)) for shape in [(0, 6), (3, 6, 0)]],
    *[Pair("InstanceNorm", shape, (6,)) for shape in [(0, 6, 3), (3, 6, 0)]],
    *[Pair("LayerNorm", shape, (6,)) for shape in [(0, 6), (2, 0, 6)]],
    *[Pair("RMSNorm", shape, (6,)) for shape in [(0, 6), (2, 0, 6)]],
]


@pytest.mark.parametrize("pair", EMPTY, ids=str)
def test_an_empty_batch(pair):
    theirs, ours = pair.build()
    x = torch.empty(pair.shape, dtype=torch.float64)
    for training in (True, False):
        found = results(ours.train(training), x, second=False)
        assert found["y"].shape == pair.shape
        assert not any(value.any() for name, value in found.items() if name.startswith("grad"))
        if buffers(theirs):  # torch's GroupNorm refuses images without pixels since 2.15
            results(theirs.train(training), x, second=False)
    torch.testing.assert_close(buffers(ours), buffers(theirs), rtol=0, atol=0)


REFUSED = [
    Pair("BatchNorm", (1, 6), (6,)),
    Pair("BatchNorm", (1, 6, 1), (6,)),
    Pair("BatchNorm", (6,), (6,)),
    Pair("BatchNorm", (4, 5, 2, 2), (6,), {"affine": False}),
    Pair("InstanceNorm", (4, 6, 1), (6,)),
    Pair("InstanceNorm", (4, 6, 1, 1), (6,), {"affine": True}),
    Pair("InstanceNorm", (4, 5, 3), (6,), {"affine": True}),
    Pair("InstanceNorm", (6,), (6,)),
    Pair("GroupNorm", (1, 6), (6, 6)),
    Pair("GroupNorm", (6,), (2, 6)),
    Pair("GroupNorm", (4, 8, 2), (2, 6)),
    Pair("LayerNorm", (4, 5), (6,)),
    Pair("LayerNorm", (5, 6), ((5, 6, 1),)),
    Pair("RMSNorm", (4, 1), (6,), {"elementwise_affine": False}),
]


@pytest.mark.parametrize("pair", REFUSED, ids=str)
def test_what_torch_refuses_is_refused(pair):
    theirs, ours = pair.build()
    x = randn(*pair.shape)
    with pytest.raises((ValueError, RuntimeError)):
        theirs(x)
    # An error repeats the shape that came.
    with pytest.raises(ValueError, match=rf"\({', '.join(map(str, pair.shape))},?\)"):
        ours(x)


def test_one_example_is_enough_in_evaluation_if_there_are_running_statistics():
    theirs, ours = (layer.eval() for layer in TYPICAL[0].build())
    x = randn(1, 6)
    torch.testing.assert_close(ours(x), theirs(x))
    without = layers.BatchNorm(6, track_running_stats=False).double().eval()
    with pytest.raises(ValueError, match="more than one value per feature"):
        without(x)


def test_a_wrong_number_of_features_without_an_affine_is_a_warning_as_in_torch():
    x = randn(4, 5, 3)
    found = []
    for kind in (layers.InstanceNorm, nn.InstanceNorm1d):
        with pytest.warns(UserWarning, match="features"):
            found.append(kind(6)(x))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("kind", ["BatchNorm", "InstanceNorm", "GroupNorm", "PowerNorm"])
def test_a_feature_axis_that_is_not_there_raises(kind):
    features = (2, 4) if kind == "GroupNorm" else (4,)
    for axis in (0, 3, -4):
        layer = getattr(layers, kind)(*features, feature_axis=axis)
        with pytest.raises(ValueError, match=f"feature_axis={axis}"):
            layer(torch.randn(4, 4, 4))


@typical_pairs
def test_hard_numbers(pair):
    """The formula, against torch's layer in float64: large offset, small variance, large and tiny
    scale. torch's kernels are up to three times further off where all numbers are equal."""
    normal = randn(*pair.shape)
    cases = {
        "offset": (1e4 + normal, 3e-3, 0.0),  # float32 numbers near 1e4 lie 1e-3 apart
        "constant": (torch.full_like(normal, 3.0), 1e-5, 1e-10),  # some gradients are 0
        "large": (1e18 * normal, 1e-5, 0.0),
        "subnormal": (1e-42 * normal, 1e-5, 1e-40),  # numbers 1e-45 apart, divided by √ε
    }
    for name, (x, rtol, atol) in cases.items():
        theirs, ours = pair.build(torch.float64)
        theirs.eps = theirs.eps or torch.finfo(torch.float32).eps
        expected = results(theirs, x.float().double(), second=False)
        with layers.formulas():
            found = results(ours.float(), x.float(), second=False)
        for key, value in expected.items():
            error = (found[key].double() - value).abs().max()
            limit = rtol * value.abs().max() + atol
            assert error <= limit, f"{name}: {key} is off by {error}, more than {limit}"
