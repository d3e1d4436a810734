"""Export to ONNX: every layer, its numbers in ONNX Runtime against those in torch."""

from pathlib import Path

import numpy as np
import pytest
import torch
from layer_checks import ALL, randn, random_mask, randomize, results
from torch import Tensor, nn

from normtutor import layers

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
runtime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries' own

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def exported(
    model: nn.Module, x: tuple[Tensor, ...], folder: Path, **options: object
) -> tuple[runtime.InferenceSession, set[str]]:
    """The exported model in ONNX Runtime, and the operators that it consists of."""
    program = torch.onnx.export(model, x, dynamo=True, verbose=False, **options)
    program.save(folder / "model.onnx")
    session = runtime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    return session, {node.op_type for node in program.model.graph}


def run(session: runtime.InferenceSession, *x: Tensor) -> np.ndarray:
    names = [given.name for given in session.get_inputs()]
    return session.run(None, dict(zip(names, map(Tensor.numpy, x), strict=True)))[0]


@pytest.mark.parametrize("name", ALL)
def test_every_layer_has_the_same_numbers_in_onnx_runtime(name, tmp_path):
    """For batches of any size."""
    model = ALL[name]()
    randomize(model)
    x = randn(3, 5, 4).float()
    results(model, x, second=False)  # running statistics move away from where they start
    shapes = ({0: torch.export.Dim("batch", min=2)},)
    session, _ = exported(model.eval(), (x,), tmp_path, dynamic_shapes=shapes)
    for batch in (x, randn(7, 5, 4, seed=1).float()):
        expected = model(batch).detach().numpy()
        np.testing.assert_allclose(run(session, batch), expected, **CLOSE)
    # The formula has elementary operators alone, which every runtime has.
    with layers.formulas():
        session, operators = exported(model, (x,), tmp_path)
    np.testing.assert_allclose(run(session, x), model(x).detach().numpy(), **CLOSE)
    assert not any("Normalization" in operator for operator in operators)


def test_a_mask_is_an_input(tmp_path):
    layer = layers.InstanceNorm(5, affine=True).eval()
    randomize(layer)
    x, mask = randn(3, 5, 4).float(), random_mask(3, 4)
    session, _ = exported(layer, (x, mask), tmp_path)
    for seed in (1, 2):
        mask = random_mask(3, 4, seed=seed)
        np.testing.assert_allclose(run(session, x, mask), layer(x, mask).detach().numpy(), **CLOSE)


def test_a_weight_that_weight_norm_computes(tmp_path):
    model = layers.weight_norm(nn.Linear(4, 3)).eval()
    randomize(model)
    x = randn(3, 5, 4).float()
    session, _ = exported(model, (x,), tmp_path)
    np.testing.assert_allclose(run(session, x), model(x).detach().numpy(), **CLOSE)
