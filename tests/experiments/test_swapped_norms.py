"""A trained model gets other norms: what it takes over, on which text, and what is left alone."""

import dataclasses

import numpy as np
import pytest
import torch
from normtutor_studies.experiments import swapped_norms, swapped_norms_fitted
from normtutor_studies.experiments.package_chunks import corpus_of
from numpy.testing import assert_allclose

from normtutor import layers
from normtutor.models import TransformerLM
from normtutor.training import evaluation_mode

CONFIG = dataclasses.replace(swapped_norms.CONFIG, **swapped_norms.REDUCED)


@pytest.fixture
def model():
    """A model whose norms have gains and shifts of their own."""
    torch.manual_seed(0)
    vocabulary = len(corpus_of(CONFIG.size).vocabulary)
    model = TransformerLM(
        vocabulary, width=8, heads=2, depth=1, max_length=32, norm="layer", wiring="pre"
    )
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            torch.nn.init.normal_(module.weight, 1.0, 0.3)
            torch.nn.init.normal_(module.bias, 0.0, 0.3)
    return model


@pytest.mark.parametrize(
    ("norm", "kind"), [("batch", layers.BatchNorm), ("power", layers.PowerNorm)]
)
def test_the_new_norm_takes_over_gain_and_shift_and_gets_statistics(model, norm, kind):
    new = swapped_norms.swapped(CONFIG, model, norm, 0)
    assert not any(isinstance(module, torch.nn.LayerNorm) for module in new.modules())
    found = [module for module in new.modules() if isinstance(module, kind)]
    assert len(found) == 3
    assert_allclose(found[-1].weight.detach(), model.final_norm.weight.detach())
    assert_allclose(found[-1].bias.detach(), model.final_norm.bias.detach())
    assert all(module.num_batches_tracked == CONFIG.statistics_batches for module in found)
    assert isinstance(model.final_norm, torch.nn.LayerNorm)


@pytest.mark.parametrize(
    ("norm", "kind"), [("batch", layers.BatchNorm), ("power", layers.PowerNorm)]
)
def test_a_fitted_norm_puts_out_what_layer_norm_did(model, norm, kind):
    config = dataclasses.replace(CONFIG, statistics_batches=50)
    wanted = swapped_norms_fitted.outputs(config, model, layers.LayerNorm, 0)
    found, copied = (
        swapped_norms_fitted.outputs(config, swap(config, model, norm, 0), kind, 0)
        for swap in (swapped_norms_fitted.fitted, swapped_norms.swapped)
    )
    assert found.keys() == wanted.keys() == copied.keys()
    assert len(wanted) == 3
    for name, (mean, spread) in wanted.items():
        assert_allclose(found[name][0], mean, atol=0.05)
        assert_allclose(found[name][1], spread, rtol=0.08)  # dropout adds to what is measured
        assert abs(copied[name][1] / spread - 1).max() > 0.1


def test_rms_norm_differs_by_the_centring_alone(model):
    new = swapped_norms.swapped(CONFIG, model, "rms", 0)
    x = torch.randn(5, 8)
    assert not torch.allclose(new.final_norm(x), model.final_norm(x), atol=1e-3)
    x -= x.mean(-1, keepdim=True)
    assert_allclose(new.final_norm(x).detach(), model.final_norm(x).detach(), atol=1e-6)


def test_the_kept_model_is_a_copy(model):
    kept = swapped_norms.swapped(CONFIG, model, "layer", 0)
    tokens = torch.arange(32)[None]
    with evaluation_mode(model), evaluation_mode(kept):
        assert_allclose(kept.hidden(tokens), model.hidden(tokens))
    assert kept.final_norm.weight is not model.final_norm.weight


def test_the_first_training_does_not_see_the_package():
    corpus = corpus_of(CONFIG.size)
    for part in ("train", "validation", "test"):
        tokens = sum(len(s) - 1 for document in getattr(corpus, part) for s in document)
        own, others = (
            swapped_norms.chunks_of(CONFIG, part, of_it=of_it)[0].size for of_it in (True, False)
        )
        assert 0.2 < own / tokens < 0.5
        assert tokens - 64 <= own + others <= tokens


def test_statistics_and_steps_see_the_text_in_two_orders():
    orders = [next(swapped_norms.text_of(CONFIG, 0, first=first)) for first in (0, 1)]
    assert not np.array_equal(orders[0].inputs, orders[1].inputs)
    again = next(swapped_norms.text_of(CONFIG, 0))
    assert np.array_equal(again.inputs, orders[0].inputs)
