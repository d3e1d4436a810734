"""Clipping, an output matrix of its own, the final norm and the scale of the embeddings."""

import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from normtutor.models import TransformerLM
from normtutor.training import train, train_together

# --- clipping -------------------------------------------------------------------------------------


def linear_loss(model, batch):
    return (model(batch) - 3.0).square().mean()


def models_and_batches():
    torch.manual_seed(0)
    models = [nn.Linear(4, 2) for _ in range(3)]
    return models, [list(torch.randn(5, 8, 4)) for _ in models]


@pytest.mark.parametrize("clip", [0.7, 100.0])
def test_clipping_together_is_clipping_one_by_one(clip):
    together, batches = models_and_batches()
    alone, _ = models_and_batches()
    rates = [0.01, 0.02, 0.03]
    settings = {"steps": 5, "optimizer": "sgd", "clip": clip}
    stacked = train_together(together, batches, linear_loss, learning_rate=rates, **settings)
    for model, other, batch, rate, history in zip(
        together, alone, batches, rates, stacked, strict=True
    ):
        single = train(other, batch, linear_loss, learning_rate=rate, **settings)
        assert_allclose(history.gradient_norm, single.gradient_norm, rtol=1e-5)
        # Every step was clipped, or none.
        assert min(single.gradient_norm) > 0.7 and max(single.gradient_norm) < 100
        for mine, its in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-6)


def test_clipping_bounds_the_step():
    """One step of SGD without momentum's history moves by the rate times the clipped gradient."""
    (model, *_), (batch, *_) = models_and_batches()
    before = [p.detach().clone() for p in model.parameters()]
    train(model, batch, linear_loss, steps=1, learning_rate=0.1, optimizer="sgd", clip=1e-3)
    after = [p.detach() for p in model.parameters()]
    moved = sum((p - b).square().sum().item() for p, b in zip(after, before, strict=True))
    assert moved**0.5 == pytest.approx(0.1 * 1e-3, rel=1e-2)


# --- the model's new settings ---------------------------------------------------------------------


def build(**settings):
    torch.manual_seed(0)
    return TransformerLM(50, width=16, depth=2, dropout=0.0, wiring="pre", **settings)


def test_a_head_of_its_own_changes_the_output_matrix_alone():
    tied, untied = build(), build(tied=False)
    untied.load_state_dict(tied.state_dict(), strict=False)
    tokens = torch.arange(10).reshape(2, 5)
    torch.testing.assert_close(tied.hidden(tokens), untied.hidden(tokens))
    hidden = tied.hidden(tokens)
    torch.testing.assert_close(untied.scores(hidden), hidden @ untied.head.weight.T)
    assert not torch.allclose(tied.scores(hidden), untied.scores(hidden))


def test_the_final_norm_can_be_switched():
    assert isinstance(build(final_norm=False).final_norm, nn.Identity)
    assert not isinstance(build().final_norm, nn.Identity)
    post = TransformerLM(50, width=16, depth=1, wiring="post", final_norm=True)
    assert not isinstance(post.final_norm, nn.Identity)


def test_models_of_two_embedding_scales_are_not_trained_together():
    models = [build(), build(embedding_scale=4.0)]
    tokens = torch.arange(5)[None]
    torch.testing.assert_close(models[1].embed(tokens), 4 * models[0].embed(tokens))
    with pytest.raises(ValueError, match="built alike"):
        train_together(models, [[], []], linear_loss, steps=1, learning_rate=0.1)
