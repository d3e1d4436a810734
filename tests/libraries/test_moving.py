"""The table "Moving a model" of chapter 9's depth page, against Keras, Flax and ONNX themselves."""

from pathlib import Path

import nbformat
import numpy as np
import pytest
from numpy.testing import assert_allclose
from torch import nn

from normtutor import norms

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries' own

PAGE = Path(__file__).parents[2] / "book" / "in_depth" / "09_norms_at_work.ipynb"
RNG = np.random.default_rng(0)
X = (RNG.standard_normal((6, 5, 4)) * 2 + 1).astype(np.float32)  # features on the last axis
WEIGHT, BIAS, MEAN = RNG.standard_normal((3, 4)).astype(np.float32)
VARIANCE = RNG.uniform(0.5, 2, 4).astype(np.float32)
EPS, NEW = 1e-2, 0.3  # ε, and the weight of the new value in the running statistics
N = 30  # values per feature in X
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def table() -> dict[str, list[str]]:
    """Rows of the page's table: their head, and the cells for torch, Keras, Flax and ONNX."""
    cells = nbformat.read(PAGE, as_version=4).cells
    (text,) = [cell.source for cell in cells if "## Moving a model" in cell.source]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {head: rest for head, *rest in rows}


def test_the_defaults_of_the_table_are_those_of_the_libraries():
    keras, flax = pytest.importorskip("keras"), pytest.importorskip("flax.linen")
    onnx = pytest.importorskip("onnx")
    rows = table()
    theirs = keras.layers.BatchNormalization(), flax.BatchNorm()
    schema = onnx.defs.get_schema("BatchNormalization").attributes
    layer_schema = onnx.defs.get_schema("LayerNormalization").attributes

    def close(shown: list[str], values: list[float]) -> None:
        assert [float(cell.split("(")[-1].rstrip(")")) for cell in shown] == pytest.approx(values)

    eps = [theirs[0].epsilon, theirs[1].epsilon, schema["epsilon"].default_value.f]
    close(rows[r"$\varepsilon$, BatchNorm"], [nn.BatchNorm1d(1).eps, *eps])
    eps = [keras.layers.LayerNormalization().epsilon, flax.LayerNorm().epsilon]
    eps.append(layer_schema["epsilon"].default_value.f)
    close(rows[r"$\varepsilon$, LayerNorm"], [nn.LayerNorm(1).eps, *eps])
    momentum = [theirs[0].momentum, theirs[1].momentum, schema["momentum"].default_value.f]
    close(rows["momentum: weight of"], [nn.BatchNorm1d(1).momentum, *momentum])
    assert rows["feature axis"] == ["1", "last", "last", "1"]
    assert theirs[0].axis == theirs[1].axis == -1


def formula(training: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y, and the running mean and variance afterwards, which torch counts by n − 1."""
    y, _, running = norms.batch_norm(
        X,
        WEIGHT,
        BIAS,
        running_mean=MEAN,
        running_var=VARIANCE * N / (N - 1) if training else VARIANCE,
        training=training,
        momentum=NEW,
        eps=EPS,
        feature_axis=-1,
    )
    return y, running.mean, running.var


@pytest.mark.parametrize("training", [False, True])
def test_keras_counts_the_old_value_and_divides_by_n(training):
    keras = pytest.importorskip("keras")
    layer = keras.layers.BatchNormalization(epsilon=EPS, momentum=1 - NEW)
    layer.build(X.shape)
    layer.set_weights([WEIGHT, BIAS, MEAN, VARIANCE])  # in the order of the table
    y, mean, variance = formula(training)
    assert_allclose(np.asarray(layer(X, training=training)), y, **TOLERANCE)
    _, _, new_mean, new_variance = map(np.asarray, layer.get_weights())
    assert_allclose(new_mean, mean, **TOLERANCE)
    assert_allclose(new_variance * (N / (N - 1) if training else 1), variance, **TOLERANCE)


@pytest.mark.parametrize("training", [False, True])
def test_flax_counts_the_old_value_and_divides_by_n(training):
    flax = pytest.importorskip("flax.linen")
    layer = flax.BatchNorm(use_running_average=not training, epsilon=EPS, momentum=1 - NEW)
    variables = {
        "params": {"scale": WEIGHT, "bias": BIAS},
        "batch_stats": {"mean": MEAN, "var": VARIANCE},
    }
    y, updated = layer.apply(variables, X, mutable=["batch_stats"])
    expected, mean, variance = formula(training)
    assert_allclose(np.asarray(y), expected, **TOLERANCE)
    stats = updated["batch_stats"]
    assert_allclose(np.asarray(stats["mean"]), mean, **TOLERANCE)
    factor = N / (N - 1) if training else 1
    assert_allclose(np.asarray(stats["var"]) * factor, variance, **TOLERANCE)


def test_onnx_takes_scale_bias_mean_and_variance_and_the_features_on_axis_1():
    onnx = pytest.importorskip("onnx")
    evaluator = pytest.importorskip("onnx.reference")
    names, x = ["scale", "B", "input_mean", "input_var"], X.swapaxes(1, 2)
    node = onnx.helper.make_node("BatchNormalization", ["X", *names], ["Y"], epsilon=EPS)
    value = onnx.helper.make_tensor_value_info
    inputs = [value("X", 1, x.shape)] + [value(name, 1, (4,)) for name in names]
    graph = onnx.helper.make_graph([node], "norm", inputs, [value("Y", 1, x.shape)])
    arrays = dict(zip(names, (WEIGHT, BIAS, MEAN, VARIANCE), strict=True))
    run = evaluator.ReferenceEvaluator(onnx.helper.make_model(graph)).run
    assert_allclose(run(None, {"X": x, **arrays})[0].swapaxes(1, 2), formula(False)[0], **TOLERANCE)
