"""What a mask promises of a formula; test_layers_masks.py has more, with torch and its buffers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from norm_cases import MASK, MASKED, SHAPE, draw
from numpy.testing import assert_allclose

from normtutor import norms

# As published, the authors' ν averages over padding too.
WITHOUT = {"nu_counts_padding": False}
CASES = [replace(c, options=c.options | WITHOUT) if "authors" in c.formula else c for c in MASKED]
CLOSE = {"rtol": 1e-10, "atol": 1e-11}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_masked_formula_is_the_formula_on_the_real_tokens(case):
    x, weight, bias, grad_y = draw(case)
    y, cache, *_ = case.forward(x, weight, bias, mask=MASK)
    grads = case.backward(grad_y, cache)
    parts = [MASK]
    if case.formula in ("group_norm", "instance_norm"):
        parts = [(slice(b, b + 1), slice(0, n)) for b, n in enumerate(MASK.sum(1))]
    sums = np.zeros((2, SHAPE[-1]))
    for part in parts:
        alone, cache, *_ = case.forward(x[part], weight, bias)
        alone_grads = case.backward(grad_y[part], cache)
        assert_allclose(y[part], alone, **CLOSE)
        assert_allclose(grads.x[part], alone_grads.x, **CLOSE)
        sums += (alone_grads.weight, alone_grads.bias)
    assert_allclose((grads.weight, grads.bias), sums, **CLOSE)


@pytest.mark.filterwarnings("ignore:the mask hides:UserWarning")
@pytest.mark.parametrize("lengths", [[3, 0, 2], [3, 5, 2]])
def test_running_statistics_of_instance_norm_are_of_the_real_tokens(lengths):
    x = np.random.default_rng(0).standard_normal((3, 5, 2))
    mask = np.arange(5) < np.asarray(lengths)[:, None]
    mean, var = np.asarray([1.0, 2.0]), np.asarray([3.0, 4.0])
    _, _, running = norms.instance_norm(
        x, running_mean=mean, running_var=var, momentum=0.25, mask=mask, feature_axis=-1
    )
    own = [example[:n] for example, n in zip(x, lengths, strict=True) if n]
    means = np.mean([tokens.mean(0) for tokens in own], axis=0)
    variances = np.mean([tokens.var(0, ddof=1) for tokens in own], axis=0)
    assert_allclose(running.mean, 0.75 * mean + 0.25 * means)
    assert_allclose(running.var, 0.75 * var + 0.25 * variances)


def test_an_inverted_mask_is_warned_of_and_padding_on_the_left_is_not():
    x = np.random.default_rng(0).standard_normal((3, 4, 2))
    right = np.arange(4) < np.asarray([4, 2, 3])[:, None]
    for mask in (right, right[:, ::-1], np.arange(4) >= np.asarray([1, 1, 2])[:, None]):
        norms.batch_norm(x, mask=mask, feature_axis=-1)
    for library in (np, torch):
        with pytest.warns(UserWarning, match="hides the first position of 100%.*~mask"):
            norms.batch_norm(library.asarray(x), mask=library.asarray(~right), feature_axis=-1)
