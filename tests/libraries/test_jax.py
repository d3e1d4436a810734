"""The formulas under JAX: compiled, with a cache that goes in and out."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from normtutor import norms

jax = pytest.importorskip("jax")
RNG = np.random.default_rng(0)
X, GRAD_Y = RNG.standard_normal((2, 3, 5, 4)).astype(np.float32)
ONES, ZEROS = np.ones(4, np.float32), np.zeros(4, np.float32)
CONDITION = RNG.standard_normal((3, 4)).astype(np.float32)
MASK = np.arange(5) < np.asarray([[5], [3], [2]])

CASES = {
    "layer_norm": (lambda x, m: norms.layer_norm(x, m(ONES), m(ZEROS)), norms.layer_norm_backward),
    "rms_norm": (
        lambda x, m: norms.rms_norm(x, m(ZEROS), add_unit_offset=True),
        norms.rms_norm_backward,
    ),
    "partial_rms_norm": (
        lambda x, m: norms.partial_rms_norm(x, p=0.5),
        norms.partial_rms_norm_backward,
    ),
    "scale_norm": (lambda x, m: norms.scale_norm(x, m(ONES[:1])), norms.scale_norm_backward),
    "batch_norm": (
        lambda x, m: norms.batch_norm(x, m(ONES), mask=m(MASK), feature_axis=-1)[:2],
        norms.batch_norm_backward,
    ),
    "batch_norm in evaluation": (
        lambda x, m: norms.batch_norm(
            x, None, None, m(ZEROS), m(ONES), training=False, feature_axis=-1
        )[:2],
        norms.batch_norm_backward,
    ),
    "group_norm": (
        lambda x, m: norms.group_norm(x, num_groups=2, feature_axis=-1),
        norms.group_norm_backward,
    ),
    "instance_norm": (
        lambda x, m: norms.instance_norm(x, feature_axis=-1)[:2],
        norms.instance_norm_backward,
    ),
    "power_norm_v": (lambda x, m: norms.power_norm_v(x), norms.power_norm_v_backward),
    "power_norm": (
        lambda x, m: norms.power_norm(x, None, None, m(ONES))[:2],
        lambda g, cache: norms.power_norm_backward(g, cache, cache.inverse_psi[0, 0] * 0.1)[0],
    ),
    "power_norm_authors_code": (
        lambda x, m: norms.power_norm_authors_code(x, None, None, m(ONES), mask=m(MASK))[:2],
        lambda g, cache: norms.power_norm_authors_code_backward(
            g, cache, cache.power.inverse_psi[0, 0] * 0.1
        )[0],
    ),
    "weight_norm": (lambda x, m: norms.weight_norm(x), norms.weight_norm_backward),
    "dynamic_tanh": (lambda x, m: norms.dynamic_tanh(x, m(ONES[:1])), norms.dynamic_tanh_backward),
    "film": (lambda x, m: norms.film(x, m(CONDITION), m(CONDITION)), norms.film_backward),
    "adaptive_layer_norm": (
        lambda x, m: norms.adaptive_layer_norm(x, m(CONDITION), m(CONDITION)),
        norms.adaptive_layer_norm_backward,
    ),
    "gated_residual": (
        lambda x, m: norms.gated_residual(x, 2 * x, m(CONDITION)),
        norms.gated_residual_backward,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_cache_goes_through_jit(name):
    """Out of a compiled forward pass, and as an argument into a compiled backward pass."""
    forward, backward = CASES[name]
    y, cache = jax.jit(lambda x: forward(x, jax.numpy.asarray))(jax.numpy.asarray(X))
    grads = jax.jit(backward)(jax.numpy.asarray(GRAD_Y), cache)
    expected_y, expected_cache = forward(X, np.asarray)
    assert_allclose(y, expected_y, rtol=1e-4, atol=1e-5)
    assert type(cache) is type(expected_cache)
    for grad, expected in zip(grads, backward(GRAD_Y, expected_cache), strict=True):
        assert (grad is None) == (expected is None)
        if grad is not None:
            assert_allclose(grad, expected, rtol=1e-4, atol=1e-5)
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
