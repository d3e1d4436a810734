"""Models: they are what they say, and padding, the future and neighbours reach what they may."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from normtutor import data, layers, models, norms
from normtutor.norms import choices

SENTENCES = [np.array([2, 5, 6, 7, 8, 2]), np.array([2, 8, 9, 2]), np.array([2, 9, 5, 2])]


def language_model(norm="layer", **settings):
    torch.manual_seed(0)
    return models.TransformerLM(
        12, width=8, heads=2, max_length=16, norm=norm, dropout=0.0, **settings
    )


@pytest.mark.parametrize("called", models.NORM_LAYERS)
def test_a_layer_starts_with_the_formula_of_its_row(called):
    row = next(r for r in (norms.TABLE | norms.RELATIVES).values() if r.layer.called == called)
    layer = models.make_norm(called, 8).double()
    if called == "group":
        layer = layers.GroupNorm(choices.GROUPS, 8, feature_axis=-1).double()
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    eps = getattr(layer, "eps", None) or torch.finfo(x.dtype).eps
    torch.testing.assert_close(
        layer(x).detach(), torch.asarray(norms.formula_of(row)(x.numpy(), eps))
    )


def test_layer_norm_of_images_a_factory_and_an_unknown_name():
    assert type(models.make_norm("layer", 8)) is layers.LayerNorm
    for called in ("layer", "rms", "batch", "group", "instance", "power", "power-v"):
        norm = models.make_norm(called, 8, feature_axis=1)
        assert norm(torch.randn(2, 8, 4, 4)).shape == (2, 8, 4, 4)
        assert (type(norm) is layers.GroupNorm) == (called in ("layer", "group"))
    assert isinstance(models.make_norm(lambda n: nn.Tanh(), 8), nn.Tanh)
    with pytest.raises(ValueError, match="'scale' for feature_axis=1"):
        models.make_norm("scale", 8, feature_axis=1)
    with pytest.raises(ValueError, match="norm must be"):
        models.make_norm("lawyer", 8)


@pytest.mark.parametrize("norm", ["none", "layer", "rms", "batch", "instance", "power", "power-v"])
def test_language_model_learns_with_every_norm(norm):
    model = language_model(norm, wiring="pre")
    batch = data.pad(SENTENCES)
    scores = model(batch.inputs, batch.mask)
    assert scores.shape == (3, 5, 12)
    torch.nn.functional.cross_entropy(scores[batch.mask], batch.targets[batch.mask]).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_a_token_does_not_see_the_future():
    model = language_model().eval()
    tokens = torch.tensor([[2, 5, 6, 7]])
    changed = torch.tensor([[2, 5, 6, 9]])
    torch.testing.assert_close(model(tokens)[:, :3], model(changed)[:, :3], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("norm", "mask_norms", "reached"),
    [
        ("layer", True, False),
        ("batch", True, False),
        ("power", True, False),
        ("batch", False, True),
    ],
)
def test_padding_reaches_real_tokens_through_unmasked_batch_norm_alone(norm, mask_norms, reached):
    model = language_model(norm, mask_norms=mask_norms)
    tight, wide = (
        copy.deepcopy(model)(batch.inputs, batch.mask)[batch.mask].detach()
        for batch in (data.pad(SENTENCES), data.pad(SENTENCES, length=12))
    )
    if reached:
        assert (tight - wide).abs().max() > 0.01
    else:
        torch.testing.assert_close(tight, wide, rtol=1e-5, atol=1e-5)


def test_the_output_matrix_the_final_norm_and_the_scale_of_the_embeddings_are_settings():
    tokens, tied, untied = (
        torch.arange(10).reshape(2, 5),
        language_model(),
        language_model(tied=False),
    )
    untied.load_state_dict(tied.state_dict(), strict=False)
    hidden = tied.hidden(tokens)
    torch.testing.assert_close(untied.hidden(tokens), hidden)
    torch.testing.assert_close(untied.scores(hidden), hidden @ untied.head.weight.T)
    assert not torch.allclose(tied.scores(hidden), untied.scores(hidden))
    for settings in ({"wiring": "post"}, {"wiring": "pre", "final_norm": False}):
        assert isinstance(language_model(**settings).final_norm, nn.Identity)
    for settings in ({"wiring": "pre"}, {"wiring": "post", "final_norm": True}):
        assert not isinstance(language_model(**settings).final_norm, nn.Identity)
    scaled = language_model(embedding_scale=4.0).embed(tokens)
    torch.testing.assert_close(scaled, 4 * language_model().embed(tokens))


def test_impossible_language_models_are_refused():
    with pytest.raises(ValueError, match="wiring must be"):
        language_model(wiring="sandwich")
    with pytest.raises(ValueError, match="heads must divide"):
        models.TransformerLM(12, width=9, heads=2)


@pytest.mark.parametrize("norm", ["batch", "group", "layer", "none"])
def test_resnet(norm):
    model = models.ResNet(norm=norm, widths=(8, 16))
    images = torch.randn(4, 1, 8, 8)
    scores = model(images)
    assert scores.shape == (4, 10)
    # Only BatchNorm lets one image reach the scores of another.
    other = torch.cat([images[:1] + 1, images[1:]])
    moved = (model(other)[1:] - scores[1:]).abs().max()
    assert (moved > 1e-4) == (norm == "batch")


@pytest.mark.parametrize("norm", ["none", "batch", "layer"])
def test_mlp(norm):
    model = models.MLP((64, 16, 16, 10), norm=norm, activation=torch.sigmoid)
    assert model(torch.randn(5, 1, 8, 8)).shape == (5, 10)
    assert len(model.norms) == 2


def test_gru_without_norm_is_torchs_gru():
    ours, theirs = models.GRU(3, 5), nn.GRU(3, 5, batch_first=True)
    # torch orders the gates the same way and has one bias more, here zero.
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.from_input.weight)
        theirs.bias_ih_l0.copy_(ours.from_input.bias)
        theirs.weight_hh_l0.copy_(ours.from_state.weight)
        theirs.bias_hh_l0.zero_()
    x = torch.randn(2, 7, 3)
    torch.testing.assert_close(ours(x), theirs(x)[0])
    state = torch.randn(2, 5)
    torch.testing.assert_close(ours(x, state), theirs(x, state[None])[0])
    assert models.GRU(3, 5, norm="layer")(x).shape == (2, 7, 5)
