"""Clipping, an output matrix of its own, the final norm and the scale of the embeddings."""

import pytest
import torch
from torch import nn

from normtutor.models import TransformerLM
from normtutor.training import train

# --- clipping -------------------------------------------------------------------------------------


def linear_loss(model, batch):
    return (model(batch) - 3.0).square().mean()


def test_clipping_bounds_the_step():
    """One step of SGD without momentum's history moves by the rate times the clipped gradient."""
    torch.manual_seed(0)
    model, batches = nn.Linear(4, 2), [torch.randn(8, 4)]
    before = [p.detach().clone() for p in model.parameters()]
    train(model, batches, linear_loss, steps=1, learning_rate=0.1, optimizer="sgd", clip=1e-3)
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


def test_embeddings_may_be_scaled():
    tokens = torch.arange(5)[None]
    torch.testing.assert_close(build(embedding_scale=4.0).embed(tokens), 4 * build().embed(tokens))
