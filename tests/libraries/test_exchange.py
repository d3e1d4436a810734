"""Parameters and settings carried to Keras, Flax and ONNX and back, against the libraries."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from normtutor import norms
from normtutor.exchange import EPS, FEATURE_AXIS, MOMENTUM, NAMES, NORMS, convert

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries' own

RNG = np.random.default_rng(0)
X = (RNG.standard_normal((6, 4, 5)) * 2 + 1).astype(np.float32)  # features on axis 1
WEIGHT, BIAS, MEAN = RNG.standard_normal((3, 4)).astype(np.float32)
VARIANCE = RNG.uniform(0.5, 2, 4).astype(np.float32)
STATE: dict[str, Any] = {
    "weight": WEIGHT,
    "bias": BIAS,
    "running_mean": MEAN,
    "running_var": VARIANCE,
    "eps": 1e-2,
    "momentum": 0.3,
    "num_batches_tracked": 7,
}
N = 30  # values of a feature in X
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def of(norm: str) -> dict[str, Any]:
    """What torch has for a norm."""
    if norm == "BatchNorm":
        return STATE
    return {n: STATE[n] for n in ("weight", "eps", *(() if norm == "RMSNorm" else ("bias",)))} | (
        {"num_groups": 2} if norm == "GroupNorm" else {}
    )


def ours(norm: str, training: bool = False) -> tuple[np.ndarray, Any]:
    """The same by the formulas, with the features of all but BatchNorm on the last axis."""
    if norm == "BatchNorm":
        y, _, running = norms.batch_norm(
            X, WEIGHT, BIAS, MEAN, VARIANCE, training=training, momentum=0.3, eps=1e-2
        )
        return y, running
    x = X.swapaxes(1, 2)
    if norm == "LayerNorm":
        return norms.layer_norm(x, WEIGHT, BIAS, eps=1e-2)[0], None
    if norm == "RMSNorm":
        return norms.rms_norm(x, WEIGHT, eps=1e-2)[0], None
    return norms.group_norm(x, WEIGHT, BIAS, num_groups=2, eps=1e-2, feature_axis=-1)[0], None


@pytest.mark.parametrize("target", [n for n in NAMES if n != "torch"])
@pytest.mark.parametrize("norm", NORMS)
def test_there_and_back_is_nothing(norm, target):
    there = convert(of(norm), norm, source="torch", target=target, values_per_feature=N)
    back = convert(there, norm, source=target, target="torch", values_per_feature=N)
    for name, value in of(norm).items():
        if name != "num_batches_tracked":
            assert_allclose(back[name], value, rtol=1e-6)


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_in_keras(training):
    keras = pytest.importorskip("keras")
    n = N if training else None  # in evaluation the variance is used as it is
    state = convert(STATE, "BatchNorm", source="torch", target="keras", values_per_feature=n)
    arrays = [state.pop(n) for n in ("gamma", "beta", "moving_mean", "moving_variance")]
    layer = keras.layers.BatchNormalization(**state)
    layer.build(X.shape)
    layer.set_weights(arrays)
    y, running = ours("BatchNorm", training)
    assert_allclose(np.asarray(layer(X, training=training)), y, **TOLERANCE)
    if training:
        names = ("gamma", "beta", "moving_mean", "moving_variance")
        after = dict(zip(names, map(np.asarray, layer.get_weights()), strict=True)) | state
        back = convert(after, "BatchNorm", source="keras", target="torch", values_per_feature=N)
        assert_allclose(back["running_mean"], running.mean, **TOLERANCE)
        assert_allclose(back["running_var"], running.var, **TOLERANCE)
        assert back["momentum"] == 0.3


@pytest.mark.parametrize("norm", ["LayerNorm", "RMSNorm", "GroupNorm"])
def test_the_others_in_keras(norm):
    keras = pytest.importorskip("keras")
    state = convert(of(norm), norm, source="torch", target="keras")
    kind = {
        "LayerNorm": keras.layers.LayerNormalization,
        "RMSNorm": keras.layers.RMSNormalization,
        "GroupNorm": keras.layers.GroupNormalization,
    }[norm]
    arrays = [state.pop(n) for n in ("gamma", "beta", "scale") if n in state]
    layer = kind(**state)
    x = X.swapaxes(1, 2)
    layer.build(x.shape)
    layer.set_weights(arrays)
    assert_allclose(np.asarray(layer(x)), ours(norm)[0], **TOLERANCE)


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_in_flax(training):
    flax = pytest.importorskip("flax.linen")
    state = convert(STATE, "BatchNorm", source="torch", target="flax")
    params = {n: state.pop(n) for n in ("scale", "bias")}
    stats = {n: state.pop(n) for n in ("mean", "var")}
    layer = flax.BatchNorm(use_running_average=not training, **state)
    y, updated = layer.apply({"params": params, "batch_stats": stats}, X, mutable=["batch_stats"])
    expected, running = ours("BatchNorm", training)
    assert_allclose(np.asarray(y), expected, **TOLERANCE)
    if training:
        biased = convert(
            {"running_var": VARIANCE},
            "BatchNorm",
            source="torch",
            target="flax",
            values_per_feature=N,
        )["var"]
        again = {"params": params, "batch_stats": {"mean": MEAN, "var": biased}}
        _, updated = layer.apply(again, X, mutable=["batch_stats"])
        after = {n: np.asarray(v) for n, v in updated["batch_stats"].items()} | state
        back = convert(after, "BatchNorm", source="flax", target="torch", values_per_feature=N)
        assert_allclose(back["running_mean"], running.mean, **TOLERANCE)
        assert_allclose(back["running_var"], running.var, **TOLERANCE)


@pytest.mark.parametrize("norm", ["LayerNorm", "RMSNorm", "GroupNorm"])
def test_the_others_in_flax(norm):
    flax = pytest.importorskip("flax.linen")
    state = convert(of(norm), norm, source="torch", target="flax")
    params = {n: state.pop(n) for n in ("scale", "bias") if n in state}
    layer = getattr(flax, norm)(**state)
    y = layer.apply({"params": params}, X.swapaxes(1, 2))
    assert_allclose(np.asarray(y), ours(norm)[0], **TOLERANCE)


def test_batch_norm_in_onnx():
    onnx = pytest.importorskip("onnx")
    evaluator = pytest.importorskip("onnx.reference")
    state = convert(STATE, "BatchNorm", source="torch", target="onnx")
    settings = {n: state.pop(n) for n in ("epsilon", "momentum")}
    node = onnx.helper.make_node("BatchNormalization", ["X", *state], ["Y"], **settings)
    value = onnx.helper.make_tensor_value_info
    inputs = [value("X", 1, X.shape)] + [value(n, 1, a.shape) for n, a in state.items()]
    graph = onnx.helper.make_graph([node], "norm", inputs, [value("Y", 1, X.shape)])
    model = onnx.helper.make_model(graph)
    (y,) = evaluator.ReferenceEvaluator(model).run(None, {"X": X, **state})
    assert_allclose(y, ours("BatchNorm")[0], **TOLERANCE)


def test_the_defaults_are_those_of_the_libraries():
    keras = pytest.importorskip("keras")
    flax = pytest.importorskip("flax.linen")
    kinds = {
        "BatchNorm": keras.layers.BatchNormalization,
        "LayerNorm": keras.layers.LayerNormalization,
        "RMSNorm": keras.layers.RMSNormalization,
        "GroupNorm": keras.layers.GroupNormalization,
    }
    for norm, kind in kinds.items():
        layer = kind(2) if norm == "GroupNorm" else kind()
        assert layer.epsilon == EPS["keras"][norm], norm
        assert getattr(flax, norm)().epsilon == EPS["flax"][norm], norm
    assert keras.layers.BatchNormalization().momentum == MOMENTUM["keras"]
    assert keras.layers.BatchNormalization().axis == FEATURE_AXIS["keras"]
    assert flax.BatchNorm().momentum == MOMENTUM["flax"]
    assert flax.BatchNorm().axis == FEATURE_AXIS["flax"]


@pytest.mark.parametrize(
    "arguments, says",
    [
        (({}, "BatchNorm", "torch", "caffe"), "unknown library 'caffe'. Choose one of: torch"),
        (({}, "Batchnorm", "torch", "keras"), "unknown norm 'Batchnorm'"),
        (({"gamma": 1}, "LayerNorm", "torch", "keras"), "gamma is not a name that torch uses"),
        (({"momentum": None}, "BatchNorm", "torch", "flax"), "which only torch has"),
        (({"axis": -1}, "BatchNorm", "keras", "onnx"), "features of BatchNorm on axis 1; got -1"),
    ],
)
def test_wrong_arguments(arguments, says):
    state, norm, source, target = arguments
    with pytest.raises(ValueError, match=says):
        convert(state, norm, source=source, target=target)


def test_what_is_not_said_is_the_default_of_the_source():
    assert convert({}, "BatchNorm", source="keras", target="torch") == {
        "eps": 1e-3,
        "momentum": 0.01,
        "feature_axis": -1,
    }
    assert convert({}, "RMSNorm", source="torch", target="flax") == {"epsilon": 2.0**-23}
