"""What keeps attention logits small: the cap, and how logits and entropy are measured."""

import dataclasses

import pytest
import torch
from normtutor_studies import experiments
from normtutor_studies.experiments import logit_remedies

from normtutor.models import TransformerLM


def test_the_cap_leaves_small_logits_and_bounds_large_ones():
    small = torch.linspace(-1, 1, 5)
    torch.testing.assert_close(logit_remedies.capped(small), small, rtol=2e-4, atol=0)
    large = torch.tensor([-1e4, 1e4])
    torch.testing.assert_close(logit_remedies.capped(large), torch.tensor([-50.0, 50.0]))


@pytest.fixture
def models():
    """A model, and the same with a cap."""
    found = []
    for _ in range(2):
        torch.manual_seed(0)
        found.append(TransformerLM(20, width=8, heads=2, depth=2, max_length=6, dropout=0.0))
    logit_remedies.cap(found[1])
    return found


def enlarge(models, factor):
    with torch.no_grad():
        for model in models:
            for layer in model.layers:
                layer.attention.project_in.weight[:16].mul_(factor)  # queries and keys


def test_a_capped_model_is_the_model_where_no_logit_is_large(models):
    tokens = torch.arange(12).reshape(2, 6)
    torch.testing.assert_close(models[1](tokens), models[0](tokens), rtol=0, atol=2e-3)
    enlarge(models, 30)
    assert not torch.allclose(models[1](tokens), models[0](tokens), rtol=1e-2)


def test_the_logits_are_those_that_attention_uses(models):
    tokens = torch.arange(12).reshape(2, 6)
    enlarge(models, 30)
    plain, capped = (logit_remedies.logits(model, tokens) for model in models)
    assert (
        torch.isneginf(plain[0][..., 0, 1:]).all() and torch.isneginf(capped[0][..., 0, 1:]).all()
    )
    assert logit_remedies.measure(models[0], tokens)["largest"] > 60
    assert logit_remedies.measure(models[1], tokens)["largest"] <= 50
    # The first layer sees the same in both: its capped logits are the caps of the plain ones.
    allowed = torch.isfinite(plain[0])
    torch.testing.assert_close(capped[0][allowed], logit_remedies.capped(plain[0][allowed]))
    # And the weights that follow from them mix the values into what attention gives.
    attention, step = models[1].layers[0].attention, models[1].layers[0].attention_step
    x = models[1].embed(tokens)
    h = x if step.norm_in is None else step.norm_in(x)
    value = attention.split(h)[2]
    mixed = (torch.softmax(capped[0], dim=-1) @ value).transpose(1, 2).reshape(x.shape)
    torch.testing.assert_close(attention.project_out(mixed), attention(h))


def test_equal_logits_have_the_largest_entropy(models):
    enlarge(models, 0)
    with torch.no_grad():
        for layer in models[0].layers:
            layer.attention.project_in.bias.zero_()
    found = logit_remedies.measure(models[0], torch.arange(12).reshape(2, 6))
    assert found == {"largest": 0, "entropy": pytest.approx(1, abs=1e-4)}


def test_the_remedies_act():
    """What bounds the logits bounds them in every seed; a remedy that acts has left a trace."""
    saved = experiments.load("logit_remedies")
    rates = sorted({c["learning_rate"] for c in saved.config["conditions"]})

    def peak(remedy):
        return saved.values("largest", remedy=remedy, learning_rate=rates[-1]).max(axis=1)

    assert (peak("none") > 50).all()
    assert (peak("cap") <= 50).all()
    assert (peak("qk-norm") < peak("none")).all()
    assert (saved.values("clipped", remedy="clip", learning_rate=rates[-1]) > 0).all()


def test_the_finding_holds_in_the_record():
    saved = experiments.load("logit_remedies")
    rate = max(c["learning_rate"] for c in saved.config["conditions"])

    def at_large_rate(key, remedy):
        return saved.values(key, remedy=remedy, learning_rate=rate)

    ends = {remedy: at_large_rate("largest", remedy)[:, -1] for remedy in logit_remedies.REMEDIES}
    for remedy in ("qk-norm", "decay", "cap"):
        assert (ends[remedy] <= 50).all() and (ends[remedy] < ends["none"]).all()
    assert (ends["clip"] > 50).all()
    losses = {remedy: at_large_rate("loss", remedy).mean() for remedy in logit_remedies.REMEDIES}
    assert min(losses, key=losses.get) == "decay"


def test_a_remedy_is_trained_as_it_says(monkeypatch):
    seen = []

    def fake(size, runs, *, adjust, training, **settings):
        seen.append((settings["qk_norm"], training["weight_decay"], training["clip"]))
        raise StopIteration

    monkeypatch.setattr(logit_remedies, "train_models", fake)
    config = dataclasses.replace(logit_remedies.CONFIG, **logit_remedies.REDUCED)
    for remedy in logit_remedies.REMEDIES:
        with pytest.raises(StopIteration):
            logit_remedies._run_remedy(config, remedy, 0)
    assert seen == [
        ("none", 0.0, None),
        ("rms", 0.0, None),
        ("none", 0.0, 1.0),
        ("none", 0.1, None),
        ("none", 0.0, None),
    ]


def test_what_the_page_says_of_the_largest_logits():
    saved = experiments.load("logit_remedies")
    peaks = {
        remedy: saved.values("largest", remedy=remedy, learning_rate=128e-3).max(axis=1)
        for remedy in logit_remedies.REMEDIES
    }
    assert max(peaks[kept].max() for kept in ("qk-norm", "decay", "cap")) < 55
    assert min(peaks["none"].min(), peaks["clip"].min()) > 60
