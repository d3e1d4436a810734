"""The formulas under JAX: compiled, with a cache that goes in and out."""

import subprocess
import sys

import numpy as np
import pytest
from norm_cases import EVERY, MASK, draw
from numpy.testing import assert_allclose

jax = pytest.importorskip("jax")


@pytest.mark.parametrize(
    "case, masked", [*((c, False) for c in EVERY), *((c, True) for c in EVERY if c.takes_mask)]
)
def test_a_cache_goes_through_jit(case, masked):
    """Out of a compiled forward pass, and as an argument into a compiled backward pass."""
    *arrays, grad_y = (a.astype(np.float32) for a in draw(case))

    def forward(*arrays, convert=jax.numpy.asarray):
        return case.forward(*arrays, **({"mask": convert(MASK)} if masked else {}))[:2]

    y, cache = jax.jit(forward)(*map(jax.numpy.asarray, arrays))
    grads = jax.jit(case.backward)(jax.numpy.asarray(grad_y), cache)
    expected_y, expected_cache = forward(*arrays, convert=np.asarray)
    assert_allclose(y, expected_y, rtol=1e-4, atol=1e-5)
    assert type(cache) is type(expected_cache)
    for grad, expected in zip(grads, case.backward(grad_y, expected_cache), strict=True):
        assert (grad is None) == (expected is None)
        if grad is not None:
            assert_allclose(grad, expected, rtol=1e-4, atol=1e-4)
    mapped = jax.tree_util.tree_map(lambda leaf: leaf, cache)
    assert jax.tree_util.tree_structure(mapped) == jax.tree_util.tree_structure(cache)


def test_jax_may_be_imported_before_or_after():
    for imports in (
        "import jax; from normtutor import norms",
        "from normtutor import norms; import jax",
    ):
        code = (
            f"{imports}\n"
            "x = jax.numpy.ones((3, 4))\n"
            "_, cache = norms.layer_norm(x)\n"
            "print(jax.jit(norms.layer_norm_backward)(x, cache).x.shape)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout == "(3, 4)\n", done.stderr
