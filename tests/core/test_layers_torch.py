"""The layers against torch.nn: what torch has, ours must give, gradients and buffers included."""

import copy
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_checks import (
    LAYOUTS,
    TOLERANCE,
    assert_same,
    randn,
    randomize,
    results,
    strip_class_names,
)
from torch import Tensor, nn

from normtutor import layers

HALVES = [torch.float16, torch.bfloat16]


class Pair(NamedTuple):
    """A layer of torch.nn, ours in its place, their arguments, and a shape of input."""

    theirs: Callable[..., nn.Module]
    ours: Callable[..., nn.Module]
    shape: tuple[int, ...]
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def __str__(self) -> str:
        options = "".join(f" {k}={v}" for k, v in self.options.items())
        return f"{self.theirs.__name__}{list(self.arguments)}{options} {list(self.shape)}"

    def build(self, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, nn.Module]:
        """The two layers with the same random parameters, which ours has loaded from theirs."""
        theirs = self.theirs(*self.arguments, **self.options).to(dtype)
        ours = self.ours(*self.arguments, **self.options).to(dtype)
        randomize(theirs)
        ours.load_state_dict(theirs.state_dict())
        return theirs, ours


BATCH_NORM = [
    (nn.BatchNorm1d, layers.BatchNorm, (8, 6)),
    (nn.BatchNorm1d, layers.BatchNorm, (4, 6, 5)),
    (nn.BatchNorm2d, layers.BatchNorm, (3, 6, 4, 5)),
    (nn.BatchNorm3d, layers.BatchNorm, (2, 6, 2, 3, 2)),
]
INSTANCE_NORM = [
    (nn.InstanceNorm1d, layers.InstanceNorm, (6, 5)),
    (nn.InstanceNorm1d, layers.InstanceNorm, (4, 6, 5)),
    (nn.InstanceNorm2d, layers.InstanceNorm, (3, 6, 4, 5)),
    (nn.InstanceNorm3d, layers.InstanceNorm, (2, 6, 2, 3, 2)),
]
BATCH_NORM_OPTIONS: list[dict[str, Any]] = [
    {},
    {"affine": False},
    {"bias": False},
    {"track_running_stats": False},
    {"momentum": None},
    {"momentum": 0.0},
    {"momentum": 1.0},
    {"eps": 0.1},
]
INSTANCE_NORM_OPTIONS: list[dict[str, Any]] = [
    {},
    {"affine": True},
    {"affine": True, "bias": False, "track_running_stats": True},
    {"track_running_stats": True, "momentum": None},
    {"track_running_stats": True, "momentum": 1.0, "eps": 0.1},
]
GROUP_NORM = [
    Pair(nn.GroupNorm, layers.GroupNorm, shape, (groups, 6), options)
    for groups, options in [
        (1, {}),
        (2, {}),
        (3, {"affine": False}),
        (3, {"bias": False}),
        (6, {"eps": 0.1}),
    ]
    for shape in [(4, 6), (4, 6, 5), (3, 6, 4, 5), (2, 6, 2, 3, 2)]
    if not (groups > 2 and len(shape) == 2)  # one or two values: a difference of almost nothing
]
LAYER_NORM = [
    Pair(nn.LayerNorm, layers.LayerNorm, shape, (normalized,), options)
    for shape, normalized in [
        ((6,), 6),
        ((4, 6), 6),
        ((3, 5, 6), 6),
        ((3, 5, 6), (5, 6)),
        ((2, 3, 5, 6), [3, 5, 6]),
    ]
    for options in [{}, {"elementwise_affine": False}, {"bias": False}, {"eps": 0.1}]
]
RMS_NORM = [
    Pair(nn.RMSNorm, layers.RMSNorm, shape, (normalized,), options)
    for shape, normalized in [((6,), 6), ((3, 5, 6), 6), ((2, 3, 5, 6), (5, 6))]
    for options in [{}, {"elementwise_affine": False}, {"eps": 0.1}]
]
PAIRS = [
    *[Pair(*norm, (6,), options) for norm in BATCH_NORM for options in BATCH_NORM_OPTIONS],
    *[Pair(*norm, (6,), options) for norm in INSTANCE_NORM for options in INSTANCE_NORM_OPTIONS],
    *GROUP_NORM,
    *LAYER_NORM,
    *RMS_NORM,
]
# One of each kind, for what does not depend on the options.
TYPICAL = [
    Pair(*BATCH_NORM[0], (6,), {}),
    Pair(*BATCH_NORM[2], (6,), {}),
    Pair(*INSTANCE_NORM[2], (6,), {"affine": True, "track_running_stats": True}),
    Pair(nn.GroupNorm, layers.GroupNorm, (3, 6, 4, 5), (2, 6), {}),
    Pair(nn.LayerNorm, layers.LayerNorm, (3, 5, 6), (6,), {}),
    Pair(nn.RMSNorm, layers.RMSNorm, (3, 5, 6), (6,), {}),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_values_gradients_and_buffers_over_several_steps(pair, dtype):
    theirs, ours = pair.build(dtype)
    for step, training in enumerate([True, True, True, False, True, False]):
        x = 1.5 * randn(*pair.shape, seed=10 + step, dtype=dtype) + 0.5 * step
        theirs.train(training)
        ours.train(training)
        assert_same(results(ours, x), results(theirs, x))


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_state_dicts_load_both_ways(pair):
    theirs = pair.theirs(*pair.arguments, **pair.options)
    ours = pair.ours(*pair.arguments, **pair.options)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.state_dict()._metadata == theirs.state_dict()._metadata
    for source, target in [(theirs, ours), (ours, theirs)]:
        randomize(source, seed=3)
        assert str(target.load_state_dict(source.state_dict())) == "<All keys matched successfully>"
        for name, value in source.state_dict().items():
            torch.testing.assert_close(target.state_dict()[name], value, rtol=0, atol=0)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_initial_values_attributes_and_repr(pair):
    theirs = pair.theirs(*pair.arguments, **pair.options)
    ours = pair.ours(*pair.arguments, **pair.options)
    for fresh in (ours, copy.deepcopy(ours)):
        randomize(fresh)
        fresh.reset_parameters()
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, rtol=0, atol=0)
        assert ours.state_dict()[name].dtype == value.dtype
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert [n for n, _ in ours.named_buffers()] == [n for n, _ in theirs.named_buffers()]
    names = (type(ours).__name__, type(theirs).__name__)
    assert repr(theirs).startswith(names[1])
    assert strip_class_names(repr(ours), names) == strip_class_names(repr(theirs), names)
    for name, value in vars(theirs).items():
        if not name.startswith("_"):
            assert getattr(ours, name) == value, name


@pytest.mark.parametrize("kind", [layers.LayerNorm, layers.RMSNorm], ids=lambda k: k.__name__)
def test_a_feature_axis_counted_from_the_end_is_the_one_counted_from_the_front(kind):
    x = randn(2, 4, 3).float()
    expected = kind(4)(x.mT).mT
    for axis in (1, -2):
        torch.testing.assert_close(kind(4, feature_axis=axis)(x), expected)


def test_repr_names_a_feature_axis_that_is_not_torchs():
    assert "feature_axis=-1" in repr(layers.BatchNorm(4, feature_axis=-1))
    assert "feature_axis=-1" in repr(layers.InstanceNorm(4, feature_axis=-1))
    assert "feature_axis=-1" in repr(layers.GroupNorm(2, 4, feature_axis=-1))
    assert "feature_axis" not in repr(layers.BatchNorm(4))
    assert "feature_axis=1" in repr(layers.LayerNorm(4, feature_axis=1))
    assert repr(layers.FiLM(4, 2, feature_axis=1)).startswith("FiLM(\n  4, 2, feature_axis=1\n")
    assert "feature_axis" not in repr(layers.FiLM(4, 2))


@pytest.mark.parametrize("pair", TYPICAL, ids=str)
def test_arguments_have_torchs_names_order_and_defaults(pair):
    theirs = inspect.signature(pair.theirs).parameters
    ours = inspect.signature(pair.ours).parameters
    assert [n for n in ours if ours[n].kind != inspect.Parameter.KEYWORD_ONLY or n == "bias"] == (
        list(theirs)
    )
    for name, parameter in theirs.items():
        assert ours[name].default == parameter.default
        assert ours[name].kind == parameter.kind
    assert issubclass(pair.ours, pair.theirs.__mro__[1] if "Norm1d" in str(pair) else nn.Module)


@pytest.mark.parametrize("pair", TYPICAL, ids=str)
def test_device_and_dtype_are_arguments(pair):
    ours = pair.ours(*pair.arguments, **pair.options, device="meta", dtype=torch.float64)
    theirs = pair.theirs(*pair.arguments, **pair.options, device="meta", dtype=torch.float64)
    x = torch.empty(pair.shape, device="meta", dtype=torch.float64)
    assert ours(x).device == theirs(x).device
    assert {n: (v.device, v.dtype) for n, v in ours.state_dict().items()} == {
        n: (v.device, v.dtype) for n, v in theirs.state_dict().items()
    }


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((layers.PowerNorm, {"variant": name}) for name in ("pn", "pn-v", "authors-code")),
        (layers.ScaleNorm, {}),
        (layers.DynamicTanh, {}),
        (layers.PartialRMSNorm, {"p": 0.5}),
    ],
)
def test_a_layer_that_torch_lacks_takes_device_and_dtype_too(kind, options):
    layer = kind(4, **options, device="meta", dtype=torch.float64)
    for name, value in layer.state_dict().items():
        assert value.device.type == "meta", name
        assert value.dtype == (torch.float64 if value.is_floating_point() else torch.int64)


@pytest.mark.parametrize(
    "layer",
    [
        layers.BatchNorm(4),
        layers.InstanceNorm(4, affine=True, track_running_stats=True),
        layers.GroupNorm(2, 4),
        layers.LayerNorm(4),
        layers.PowerNorm(4),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_one_parameter_of_another_dtype_is_enough_to_be_refused(layer):
    x = torch.ones(3, 4, 4)
    checked = {"weight", "bias", "running_mean", "running_var", "running_mean_square"}
    names = checked & set(layer.state_dict())
    assert len(names) >= 2
    for name in names:
        other = copy.deepcopy(layer)
        value = getattr(other, name)
        value.data = value.data.double()
        with pytest.raises(TypeError, match=r"got torch\.float64 beside x of torch\.float32"):
            other(x)


def test_an_option_that_torch_lacks_is_shown():
    assert "cast_before_weight=True" in repr(layers.RMSNorm(4, cast_before_weight=True))
    assert "cast_before_weight" not in repr(layers.RMSNorm(4))
    assert "eps=None, elementwise_affine=True, add_unit_offset=True, cast" in repr(
        layers.RMSNorm(4, add_unit_offset=True, cast_before_weight=True)
    )


def test_a_batch_norm_state_dict_of_version_1_loads():
    theirs, ours = nn.BatchNorm1d(4), layers.BatchNorm(4)
    old = {n: v + 0.5 for n, v in theirs.state_dict().items() if n != "num_batches_tracked"}
    for layer in (theirs, ours):
        layer.num_batches_tracked.fill_(7)
        layer.load_state_dict(dict(old))  # no version at all, as the oldest have it
        assert layer.num_batches_tracked == 7
        torch.testing.assert_close(layer.running_var, old["running_var"])
    current = theirs.state_dict()
    del current["num_batches_tracked"]  # but version 2 must have it
    for layer in (theirs, ours):
        with pytest.raises(RuntimeError, match="num_batches_tracked"):
            layer.load_state_dict(current)


def test_an_instance_norm_state_dict_with_statistics_nobody_tracks_is_refused_as_in_torch():
    old = {"running_mean": torch.zeros(4), "running_var": torch.ones(4)}
    for layer in (nn.InstanceNorm1d(4), layers.InstanceNorm(4)):
        with pytest.raises(RuntimeError, match="track_running_stats"):
            layer.load_state_dict(dict(old))


@pytest.mark.parametrize("pair", TYPICAL[:3], ids=str)
def test_attributes_changed_after_the_construction_act_as_in_torch(pair):
    theirs, ours = pair.build()
    for change in ({"track_running_stats": False}, {"momentum": 0.5}, {"eps": 0.5}):
        for name, value in change.items():
            setattr(theirs, name, value)
            setattr(ours, name, value)
        for training in (True, False):
            if isinstance(theirs, nn.InstanceNorm2d) and not theirs.track_running_stats:
                continue  # torch then ignores its own buffers in evaluation and updates them still
            x = randn(*pair.shape, seed=5)
            assert_same(results(ours.train(training), x), results(theirs.train(training), x))


@pytest.mark.filterwarnings("ignore:Mismatch dtype:UserWarning")  # a slow path of torch's
@pytest.mark.parametrize("parameters", ["half", "float32"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("pair", TYPICAL, ids=str)
def test_half_precision(pair, dtype, parameters):
    """Close to the exact result, no further from it than torch, and of torch's dtypes."""
    theirs, ours = pair.build(torch.float32)
    if parameters == "half":
        theirs, ours = theirs.to(dtype), ours.to(dtype)
    exact = copy.deepcopy(theirs).double()
    x = (2 * randn(*pair.shape, seed=4) + 3).to(dtype)
    c = randn(*pair.shape, seed=5).to(dtype)
    found = {
        name: results(layer, x.to(kind), second=False, cotangent=c.to(kind))
        for name, layer, kind in [
            ("theirs", theirs, dtype),
            ("ours", ours, dtype),
            ("exact", exact, torch.float64),
        ]
    }
    for name, value in found["exact"].items():
        mine, torchs = found["ours"][name], found["theirs"][name]
        assert mine.dtype == torchs.dtype, name
        if not value.is_floating_point():
            continue
        scale = value.abs().max()
        # Three roundings of the type at most, and torch's own error with two roundings of slack.
        step = torch.finfo(mine.dtype).eps * scale
        error = (mine.double() - value).abs().max()
        assert error <= 3 * torch.finfo(dtype).eps * scale, name
        assert error <= (torchs.double() - value).abs().max() + 2 * step, name
    assert found["ours"]["y"].dtype == dtype


def test_half_precision_statistics_are_of_float32():
    """A mean of 4000 values near 64 in float16: half-precision sums would be off or infinite."""
    x = (64 + randn(4000, 2, seed=1)).half()
    layer = layers.BatchNorm(2, momentum=1.0)
    y = layer(x)
    assert y.dtype == torch.float16
    torch.testing.assert_close(layer.running_mean.double(), x.double().mean(0), rtol=1e-6, atol=0)
    torch.testing.assert_close(layer.running_var.double(), x.double().var(0), rtol=1e-4, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("pair", TYPICAL, ids=str)
def test_mixed_dtypes_give_torchs_dtype_or_raise_where_torch_raises(pair, dtype):
    x = randn(*pair.shape).to(dtype)
    for parameters in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        theirs, ours = pair.build(parameters)
        if pair.theirs is nn.RMSNorm and dtype != parameters:
            assert ours(x).dtype == dtype  # torch warns here of a slow path
            continue
        try:
            expected = theirs(x).dtype
        except RuntimeError:
            with pytest.raises(TypeError, match=r"the parameters and buffers must have x's dtype"):
                ours(x)
        else:
            assert ours(x).dtype == expected


@pytest.mark.parametrize("pair", TYPICAL, ids=str)
def test_autocast_gives_torchs_dtype(pair):
    theirs, ours = pair.build(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        for x in (randn(*pair.shape).float(), randn(*pair.shape).bfloat16()):
            y, expected = ours(x), theirs(x)
            assert y.dtype == expected.dtype
            torch.testing.assert_close(y, expected, rtol=2e-2, atol=2e-2)


def test_torch_is_asked_for_its_dtype_only_under_autocast_and_with_two_numbers():
    shapes = []

    def theirs(two):
        shapes.append(tuple(two.shape))
        return two.float()

    x = torch.ones(3, 4, dtype=torch.bfloat16)
    assert layers._as_under_autocast(theirs, x) is x
    assert layers._as_under_autocast(theirs, x.to("meta")).dtype == torch.bfloat16
    assert shapes == []
    with torch.autocast("cpu", torch.bfloat16):
        assert layers._as_under_autocast(theirs, x).dtype == torch.float32
    assert shapes == [(1, 2)]


@pytest.mark.parametrize(
    "pair", [p for p in TYPICAL if p.theirs is not nn.BatchNorm1d], ids=lambda p: str(p)
)
@settings(max_examples=15)
@given(data=st.data())
def test_layout_in_memory_does_not_matter(pair, data):
    shape = data.draw(st.tuples(*[st.integers(1, 4) if n != 6 else st.just(6) for n in pair.shape]))
    layout = data.draw(st.sampled_from(sorted(LAYOUTS)))
    x = randn(*shape, seed=data.draw(st.integers(0, 99)))
    if x.numel() <= 6 * x.shape[0] and x.ndim == 4:
        return  # one value per feature, which BatchNorm and InstanceNorm refuse
    theirs, ours = pair.build()
    assert_same(results(ours, LAYOUTS[layout](x)), results(theirs, x))


def test_channels_last_expanded_and_overlapping_inputs():
    x = randn(3, 6, 4, 5)
    for pair in TYPICAL[1:4]:
        theirs, ours = pair.build()
        assert_same(
            results(ours, x.contiguous(memory_format=torch.channels_last)), results(theirs, x)
        )
        spread = x[:, :, :1].expand(3, 6, 4, 5)
        assert_same(results(ours, spread), results(theirs, spread.contiguous()))


EMPTY = [
    (nn.BatchNorm1d, layers.BatchNorm, [(0, 6), (0, 6, 3), (3, 6, 0)], (6,), {}),
    (nn.BatchNorm2d, layers.BatchNorm, [(0, 6, 2, 2)], (6,), {"momentum": None}),
    (nn.GroupNorm, layers.GroupNorm, [(0, 6), (0, 6, 3), (3, 6, 0)], (2, 6), {}),
    (nn.InstanceNorm1d, layers.InstanceNorm, [(0, 6, 3), (3, 6, 0)], (6,), {}),
    (nn.LayerNorm, layers.LayerNorm, [(0, 6), (2, 0, 6)], (6,), {}),
    (nn.RMSNorm, layers.RMSNorm, [(0, 6), (2, 0, 6)], (6,), {}),
]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "pair",
    [Pair(t, o, shape, a, k) for t, o, shapes, a, k in EMPTY for shape in shapes],
    ids=str,
)
def test_an_empty_batch(pair, training):
    theirs, ours = pair.build()
    x = torch.empty(pair.shape, dtype=torch.float64)
    before = {n: b.clone() for n, b in ours.named_buffers()}
    found = results(ours.train(training), x, second=False)
    expected = results(theirs.train(training), x, second=False)
    assert found["y"].shape == expected["y"].shape == pair.shape
    for name, value in found.items():
        if name.startswith("grad"):
            assert not value.any(), name  # torch's GroupNorm has NaN for no positions
        elif name.startswith("buffer"):
            assert value.equal(expected[name])
    if training and "num_batches_tracked" in before:
        assert ours.num_batches_tracked == before.pop("num_batches_tracked") + 1
        before["num_batches_tracked"] = ours.num_batches_tracked
    for name, value in before.items():
        assert value.equal(dict(ours.named_buffers())[name])


def test_an_empty_batch_leaves_instance_norms_statistics_where_torch_has_nan_or_raises():
    layer = layers.InstanceNorm(4, affine=True, track_running_stats=True)
    x = torch.empty(0, 4, 3, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.shape == x.shape
    assert not layer.weight.grad.any()
    assert layer.running_mean.equal(torch.zeros(4))
    assert layer.running_var.equal(torch.ones(4))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("eps", [0.0, -0.5, 1e30, float("inf"), float("nan")])
@pytest.mark.parametrize("pair", TYPICAL, ids=str)
def test_odd_values_of_eps_are_taken_or_refused_as_in_torch(pair, eps, training):
    theirs, ours = pair.build(torch.float32)
    theirs.eps = ours.eps = eps
    theirs.train(training)
    ours.train(training)
    x = randn(*pair.shape).float()
    if isinstance(theirs, nn.modules.batchnorm._BatchNorm) and training and not eps > 0:
        with pytest.raises(ValueError, match="eps must be positive in training"):
            ours(x)  # torch lets NaN pass here
        return
    try:
        expected = theirs(x)
    except (ValueError, RuntimeError):
        with pytest.raises(ValueError, match="eps must"):
            ours(x)
    else:
        torch.testing.assert_close(ours(x), expected, rtol=1e-4, atol=1e-5, equal_nan=True)


REFUSED = [
    (nn.BatchNorm1d, layers.BatchNorm, (1, 6), (6,), {}),
    (nn.BatchNorm1d, layers.BatchNorm, (1, 6, 1), (6,), {}),
    (nn.BatchNorm2d, layers.BatchNorm, (1, 6, 1, 1), (6,), {}),
    (nn.BatchNorm1d, layers.BatchNorm, (6,), (6,), {}),
    (nn.BatchNorm1d, layers.BatchNorm, (4, 5), (6,), {}),
    (nn.BatchNorm2d, layers.BatchNorm, (4, 5, 2, 2), (6,), {"affine": False}),
    (nn.InstanceNorm1d, layers.InstanceNorm, (4, 6, 1), (6,), {}),
    (nn.InstanceNorm2d, layers.InstanceNorm, (4, 6, 1, 1), (6,), {"affine": True}),
    (nn.InstanceNorm1d, layers.InstanceNorm, (4, 5, 3), (6,), {"affine": True}),
    (nn.InstanceNorm1d, layers.InstanceNorm, (6,), (6,), {}),
    (nn.GroupNorm, layers.GroupNorm, (1, 6), (6, 6), {}),
    (nn.GroupNorm, layers.GroupNorm, (6,), (2, 6), {}),
    (nn.GroupNorm, layers.GroupNorm, (4, 5), (2, 6), {}),
    (nn.GroupNorm, layers.GroupNorm, (4, 8, 2), (2, 6), {}),
    (nn.LayerNorm, layers.LayerNorm, (4, 5), (6,), {}),
    (nn.LayerNorm, layers.LayerNorm, (5, 6), ((5, 6, 1),), {}),
    (nn.LayerNorm, layers.LayerNorm, (4, 1), (6,), {"elementwise_affine": False}),
    (nn.RMSNorm, layers.RMSNorm, (4, 5), (6,), {}),
    (nn.RMSNorm, layers.RMSNorm, (4, 1), (6,), {"elementwise_affine": False}),
]


@pytest.mark.parametrize("pair", [Pair(*row) for row in REFUSED], ids=str)
def test_what_torch_refuses_is_refused(pair):
    theirs, ours = pair.build()
    x = randn(*pair.shape)
    with pytest.raises((ValueError, RuntimeError)):
        theirs(x)
    # An error repeats what came, so that one can see it: the shape, or the count in it.
    with pytest.raises(ValueError, match=rf"\({', '.join(map(str, pair.shape))},?\)"):
        ours(x)


def test_what_torch_accepts_in_evaluation_is_accepted():
    x = randn(1, 6)
    theirs, ours = TYPICAL[0].build()
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))
    without = layers.BatchNorm(6, track_running_stats=False).double().eval()
    with pytest.raises(ValueError, match="more than one value per feature"):
        without(x)  # it has nothing but this batch


def test_a_wrong_number_of_features_without_an_affine_is_a_warning_as_in_torch():
    x = randn(4, 5, 3)
    with pytest.warns(UserWarning, match="num_features"):
        expected = nn.InstanceNorm1d(6)(x)
    with pytest.warns(UserWarning, match="features"):
        y = layers.InstanceNorm(6)(x)
    torch.testing.assert_close(y, expected)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64], ids=str)
@pytest.mark.parametrize("pair", TYPICAL, ids=str)
def test_only_real_floating_point_numbers_are_taken(pair, dtype):
    with pytest.raises(TypeError, match=f"got dtype {dtype}"):
        pair.build(torch.float32)[1](torch.ones(pair.shape).to(dtype))


@pytest.mark.parametrize("axis", [0, 3, -4, 7])
@pytest.mark.parametrize(
    "make",
    [
        lambda axis: layers.BatchNorm(4, feature_axis=axis),
        lambda axis: layers.InstanceNorm(4, feature_axis=axis),
        lambda axis: layers.GroupNorm(2, 4, feature_axis=axis),
        lambda axis: layers.PowerNorm(4, feature_axis=axis),
    ],
)
def test_a_feature_axis_that_is_not_there_raises(make, axis):
    with pytest.raises(ValueError, match=f"feature_axis={axis}"):
        make(axis)(torch.randn(4, 4, 4))


def test_groups_that_do_not_divide_raise():
    for groups in (4, 0, -1):
        with pytest.raises(ValueError, match=f"got {groups} groups for 6 features"):
            layers.GroupNorm(groups, 6)


@pytest.mark.parametrize("pair", TYPICAL, ids=str)
def test_hard_numbers(pair):
    """Against torch's layer in float64: large offset, small variance, large and tiny scale."""
    normal = randn(*pair.shape)
    cases = {
        "offset": (1e4 + normal, 3e-3, 0.0),  # float32 numbers near 1e4 lie 1e-3 apart
        "small variance": (1e-6 * normal, 1e-5, 0.0),
        "constant": (torch.full_like(normal, 3.0), 1e-5, 1e-10),  # some gradients are 0
        "zero": (torch.zeros_like(normal), 1e-5, 0.0),
        "large": (1e18 * normal, 1e-5, 0.0),
        "subnormal": (1e-42 * normal, 1e-5, 1e-40),  # numbers 1e-45 apart, divided by √ε
    }
    for name, (x, rtol, atol) in cases.items():
        theirs, ours = pair.build(torch.float64)
        theirs.eps = theirs.eps or torch.finfo(torch.float32).eps
        expected = results(theirs, x.float().double(), second=False)
        found = results(ours.float(), x.float(), second=False)
        for key, value in expected.items():
            error = (found[key].double() - value).abs().max()
            limit = rtol * value.abs().max() + atol
            assert error <= limit, f"{name}: {key} is off by {error}, more than {limit}"


def test_twenty_orders_of_magnitude_in_float64():
    for pair in TYPICAL:
        theirs, ours = pair.build()
        x = 1e20 * randn(*pair.shape)
        y = ours(x)
        torch.testing.assert_close(y, theirs(x))
        assert y.abs().max() > 0.5


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_bad_token_stays_alone(bad):
    """In the norms of one token, or of one example, nobody else notices."""
    x = randn(3, 6, 5)
    broken = x.clone()
    broken[1, 2, 3] = bad
    others = torch.tensor([True, False, True])
    for layer in (layers.GroupNorm(2, 6), layers.InstanceNorm(6, affine=True)):
        layer = layer.double()
        assert layer(broken)[others].equal(layer(x)[others])
        assert not layer(broken)[1].isfinite().all()
    features = torch.arange(6) != 2
    instance = layers.InstanceNorm(6).double()
    assert instance(broken)[:, features].equal(instance(x)[:, features])
    batch = layers.BatchNorm(6).double()
    assert batch(broken)[:, features].equal(batch(x)[:, features])
    tokens = torch.ones(3, 6, dtype=torch.bool)
    tokens[1, 2] = False
    for layer in (layers.LayerNorm(5), layers.RMSNorm(5), layers.PartialRMSNorm(5, 0.8)):
        layer = layer.double()
        assert layer(broken)[tokens].equal(layer(x)[tokens])
        assert not layer(broken)[1, 2].isfinite().all()


def test_partial_rms_norm_over_everything_is_rms_norm_without_eps():
    x = randn(3, 5, 6)
    ours, theirs = layers.PartialRMSNorm(6, 1.0, eps=0.0).double(), nn.RMSNorm(6, eps=0.0).double()
    randomize(ours)
    theirs.load_state_dict(ours.state_dict())
    assert_same(results(ours, x), results(theirs, x))


@settings(max_examples=20)
@given(d=st.integers(1, 12), p=st.floats(0.05, 1.0), eps=st.sampled_from([0.0, 1e-8, 0.3]))
def test_partial_rms_norm_is_its_definition(d, p, eps):
    k = int(d * p)
    if k == 0:
        with pytest.raises(ValueError, match=r"int\(d \* p\) must be at least 1"):
            layers.PartialRMSNorm(d, p)
        return
    x = randn(3, d, seed=d)
    layer = layers.PartialRMSNorm(d, p, eps).double()
    randomize(layer)
    for row, y in zip(x, layer(x), strict=True):
        root = (sum(float(v) ** 2 for v in row[:k]) / k) ** 0.5
        expected = torch.stack(
            [w * v / (root + eps) for w, v in zip(layer.weight, row, strict=True)]
        )
        torch.testing.assert_close(y, expected)


def test_partial_rms_norms_own_arguments():
    layer = layers.PartialRMSNorm(8, 0.25)
    assert layer.eps == 1e-8
    assert repr(layer) == "PartialRMSNorm(8, p=0.25, eps=1e-08)"
    assert list(layer.state_dict()) == ["weight"]
    randomize(layer)
    layer.reset_parameters()
    assert layer.weight.equal(torch.ones(8))
    for p in (0.0, -0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match=rf"p must lie in \(0, 1\].*got {p}"):
            layers.PartialRMSNorm(8, p)
    with pytest.raises(ValueError, match="weight must have shape"):
        layer(torch.randn(3, 7))
    zeros = torch.zeros(2, 8, requires_grad=True)
    layer(zeros).sum().backward()
    assert zeros.grad.isfinite().all()


def swapped(module: nn.Module) -> nn.Module:
    """Put ours in the place of every norm of torch's, and load the weights."""
    state = module.state_dict()
    for name, child in list(module.named_modules()):
        new: nn.Module
        if isinstance(child, nn.modules.batchnorm._BatchNorm):
            new = layers.BatchNorm(child.num_features, child.eps, child.momentum)
        elif isinstance(child, nn.modules.instancenorm._InstanceNorm):
            new = layers.InstanceNorm(
                child.num_features, affine=child.affine, track_running_stats=True
            )
        elif isinstance(child, nn.GroupNorm):
            new = layers.GroupNorm(child.num_groups, child.num_channels, child.eps)
        elif isinstance(child, nn.LayerNorm):
            new = layers.LayerNorm(child.normalized_shape, child.eps)
        else:
            continue
        parent, _, last = name.rpartition(".")
        setattr(module.get_submodule(parent), last, new)
    module = module.to(next(iter(state.values())).dtype)
    module.load_state_dict(state)
    return module


def encoder(norm_first: bool) -> nn.Module:
    return nn.TransformerEncoderLayer(
        8, 2, 16, dropout=0.0, batch_first=True, norm_first=norm_first, dtype=torch.float64
    )


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3),
        nn.GroupNorm(2, 6),
        nn.Conv2d(6, 4, 2),
        nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        nn.Flatten(),
        nn.Linear(4 * 9, 5),
        nn.BatchNorm1d(5),
    ).double()


@pytest.mark.parametrize(
    "make, shape",
    [
        (lambda: encoder(norm_first=True), (3, 5, 8)),
        (lambda: encoder(norm_first=False), (3, 5, 8)),
        (convolutions, (4, 2, 8, 8)),
    ],
    ids=["Pre-LN", "Post-LN", "convolutions"],
)
def test_swapped_into_a_model(make, shape):
    torch.manual_seed(0)
    theirs = make()
    randomize(theirs)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.sub_(0.9)
    ours = swapped(copy.deepcopy(theirs))
    assert any(type(m).__module__ == "normtutor.layers" for m in ours.modules())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for step, training in enumerate([True, True, False, True]):
        x = randn(*shape, seed=step)
        theirs.train(training)
        ours.train(training)
        second = training and len(shape) == 4  # the encoder's attention has no second derivative
        assert_same(results(ours, x, second=second), results(theirs, x, second=second), factor=10)
    with torch.no_grad():  # torch's encoder has a fast path here that never calls a norm's forward
        torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))
    theirs.load_state_dict(ours.state_dict())


# The checker's own tests: a layer that is wrong in one point must be told from torch's.


class UnbiasedVariance(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + self.eps).sqrt()
        return x * self.weight + self.bias


class EpsOutsideTheRoot(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        deviation = x - x.mean(-1, keepdim=True)
        return deviation / (x.var(-1, correction=0, keepdim=True).sqrt() + self.eps)


class WrongAxes(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(0, 1).contiguous().view_as(x))


class DetachedVariance(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        std = (x.var(-1, correction=0, keepdim=True) + self.eps).sqrt().detach()
        return (x - x.mean(-1, keepdim=True)) / std * self.weight + self.bias


class NoGradientOfTheGradient(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        if y.requires_grad:  # the same first gradient, and another second one
            y = y + (x - x.detach()) ** 2 / 2
        return y


class BiasedRunningVariance(nn.BatchNorm1d):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        self.running_var.sub_(self.momentum * (x.var(0) - x.var(0, correction=0)).detach())
        return y


@pytest.mark.parametrize(
    "theirs, wrong",
    [
        (nn.LayerNorm(6), UnbiasedVariance(6)),
        (nn.LayerNorm(6), EpsOutsideTheRoot(6, bias=True)),
        (nn.LayerNorm(6), WrongAxes(6)),
        (nn.LayerNorm(6), DetachedVariance(6)),
        (nn.LayerNorm(6), NoGradientOfTheGradient(6)),
        (nn.BatchNorm1d(6), BiasedRunningVariance(6)),
        (nn.LayerNorm(6), nn.LayerNorm(6, eps=1e-4)),
        (nn.LayerNorm(6), nn.RMSNorm(6)),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_the_comparison_notices_a_wrong_layer(theirs, wrong):
    x = randn(4, 6)
    with pytest.raises((AssertionError, RuntimeError)):
        assert_same(results(wrong.double(), x), results(theirs.double(), x))


def test_the_comparison_notices_what_is_missing():
    found = results(nn.LayerNorm(6).double(), randn(4, 6))
    assert_same(found, found)
    with pytest.raises(AssertionError):
        assert_same({n: v for n, v in found.items() if n != "grad of bias"}, found)
    with pytest.raises(AssertionError, match="grad of bias"):
        assert_same(found | {"grad of bias": found["grad of bias"] + 1e-6}, found)
    with pytest.raises(AssertionError):
        assert_same(found | {"y": found["y"].float()}, found)
    assert TOLERANCE[torch.float64] < TOLERANCE[torch.float32]
