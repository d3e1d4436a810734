"""The experiments and the table of the chapter on current language models."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from bs4 import BeautifulSoup
from normtutor_studies import current_models, experiments
from normtutor_studies.experiments import (
    package_chunks,
    qk_norm,
    records,
    tanh_starts,
    variance_growth,
)
from normtutor_studies.experiments.rates import best_rates
from torch.testing import assert_close

SIZE = package_chunks.Size(width=16, heads=2, length=8, batch_size=4, held_out_chunks=64)


@pytest.fixture(scope="module")
def tokens():
    return variance_growth.some_tokens(SIZE)[:4]


def small(wiring="pre", **settings):
    model, _ = package_chunks.build(SIZE, 0, wiring=wiring, depth=3, norm="rms", **settings)
    return model


# --- what is measured -----------------------------------------------------------------------------


@pytest.mark.parametrize("wiring", ["pre", "peri", "ln-scaling", "post"])
def test_streams_end_in_the_hidden_states(wiring, tokens):
    model = small(wiring)
    found = variance_growth.streams(model, tokens)
    assert len(found) == 4
    assert_close(model.final_norm(found[-1]), model.hidden(tokens))


def test_profile_adds_up(tokens):
    found = {key: np.array(v) for key, v in variance_growth.profile(small(), tokens).items()}
    after = found["stream"][:-1] + found["branch"] + found["cross"]
    np.testing.assert_allclose(after, found["stream"][1:], rtol=2e-3)  # four digits are kept
    assert (
        np.sqrt(found["stream"][1:])
        <= np.sqrt(found["stream"][:-1]) + np.sqrt(found["branch"]) + 0.01
    ).all()


def test_logits_are_those_of_the_attention(tokens):
    model = small(qk_norm="rms").eval()
    layer = model.layers[0]
    h = layer.attention_step.norm_in(model.embed(tokens))
    _, _, value = layer.attention.split(h)
    weights = qk_norm.logits(model, tokens)[0].softmax(-1)
    mixed = (weights @ value).transpose(1, 2).reshape(h.shape)
    assert_close(layer.attention.project_out(mixed), layer.attention(h))


def test_no_logit_exceeds_the_bound_whatever_the_weights(tokens):
    model = small(qk_norm="rms")
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=3.0)
    largest = qk_norm.measure(model, tokens)
    assert largest["largest"] <= largest["bound"] * 1.001
    # Without the norms the same weights break every such bound.
    free = small()
    with torch.no_grad():
        for parameter in free.parameters():
            parameter.normal_(std=3.0)
    measured = qk_norm.measure(free, tokens)
    assert measured["largest"] > largest["bound"]
    assert math.isinf(measured["bound"])


def test_entropy_is_a_share(tokens):
    model = small()
    assert 0.5 < qk_norm.measure(model, tokens)["entropy"] < 1.0
    with torch.no_grad():
        for layer in model.layers:
            layer.attention.project_in.weight.zero_()  # every logit 0: all tokens weigh the same
    assert qk_norm.measure(model, tokens)["entropy"] == pytest.approx(1.0, abs=1e-3)


def test_saturated_counts_entries_beyond_two(tokens):
    model, _ = package_chunks.build(SIZE, 0, wiring="pre", depth=1, norm="tanh")
    assert len(tanh_starts.tanh_layers(model)) == 3
    first = variance_growth.streams(model, tokens)[0]
    share = (first.abs() > 4).float().mean().item()  # α = 0.5
    assert tanh_starts.saturated(model, tokens)[0] == pytest.approx(share, rel=1e-3)


# --- training and choosing ------------------------------------------------------------------------


def test_models_of_one_seed_start_equal():
    size = dataclasses.replace(SIZE, steps=1, warmup=1)
    trained = package_chunks.train_models(
        size, [(0, 0.0), (0, 0.0), (1, 0.0)], wiring="pre", depth=1, norm="rms"
    )
    first, second, other = ([*model.parameters()] for model, _ in trained)
    for a, b in zip(first, second, strict=True):
        assert_close(a, b, rtol=0, atol=0)
    assert any((a != c).any() for a, c in zip(first, other, strict=True))


def test_the_rate_with_the_smallest_loss_is_chosen():
    conditions = [{"norm": "a", "learning_rate": rate} for rate in (1.0, 2.0, 3.0)]
    losses = {1.0: 3.0, 2.0: 1.0, 3.0: float("nan")}
    records = [{**c, "loss": losses[c["learning_rate"]]} for c in conditions]
    saved = experiments.Saved("x", {"conditions": conditions}, ({"seed": 0, "records": records},))
    assert best_rates(saved) == {("a",): 2.0}


# --- the saved runs -------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "key"), [("variance_growth", "test"), ("qk_norm", "loss")])
def test_saved_runs_are_complete_and_small(name, key):
    saved = experiments.load(name)
    assert len(saved.seeds) >= 5
    assert (records.results_directory() / f"{name}.json").stat().st_size < 300_000
    for condition in saved.config["conditions"]:
        assert saved.values(key, **condition).shape == (len(saved.seeds),)


def test_saved_logits_stay_below_their_bound():
    saved = experiments.load("qk_norm")
    for condition in saved.config["conditions"]:
        if condition["qk_norm"] == "rms":
            largest, bound = (saved.values(key, **condition) for key in ("largest", "bound"))
            assert (largest <= bound * 1.001).all()


def test_saved_sizes_of_the_stream_add_up():
    saved = experiments.load("variance_growth")
    for condition in saved.config["conditions"]:
        v, b, c = (saved.values(key, **condition) for key in ("stream", "branch", "cross"))
        np.testing.assert_allclose(v[..., :-1] + b + c, v[..., 1:], rtol=5e-3)


# --- the census and the chapter's table -----------------------------------------------------------

MODELS, DECODERS = current_models.published(), current_models.decoders()
BY_NAME = {model.name: model for model in MODELS}


def test_every_row_of_the_table_is_complete():
    assert len({model.name for model in MODELS}) == len(MODELS) >= 60
    assert [model.year for model in MODELS] == sorted(model.year for model in MODELS)
    for model in (*MODELS, *DECODERS):
        assert 2018 <= model.year <= 2026
        assert model.kind in ("dense", "MoE", "hybrid", "hybrid MoE", "recurrent")
        assert model.norm.startswith(("LayerNorm", "RMSNorm"))
        assert model.placement in ("pre", "parallel", "peri", "out", "stream", "streams")
        assert model.qk_norm in ("", "head", "all", "latent")
        assert 1e-12 <= model.eps_class <= 1e-5
        assert model.read.split(";")[0] in current_models.census()["decoders"]
        # What a published model sets was read somewhere, and the row says where.
        assert (model.basis == "config") == (";" in model.read)
        if model.eps_published is not None:
            assert model.basis == "config" and 1e-8 < model.eps_published < 1e-4


def test_what_readers_may_know_of_single_models():
    """Said by the papers and the authors' code, which the census was not made from."""
    assert BY_NAME["MiniMax-Text-01"].placement == "stream"
    assert {BY_NAME[n].norm for n in ("Jais 2", "GPT-2")} == {"LayerNorm"}
    assert {BY_NAME[n].norm for n in ("Command R", "Command R7B")} == {"LayerNorm, no β"}
    assert BY_NAME["Gemma 3n"].placement == "streams"
    assert current_models.norms_from_census("gemma3n_text").streams == 4
    assert current_models.norms_from_census("gemma3n_text", {"altup_num_inputs": 2}).streams == 2
    assert BY_NAME["OLMo 2 7B"].placement == "out" and BY_NAME["OLMo 2 7B"].qk_norm == "all"
    assert BY_NAME["Gemma 3"].placement == "peri" and "1+γ" in BY_NAME["Gemma 3"].norm
    assert BY_NAME["DeepSeek-V3"].qk_norm == "latent"
    assert (BY_NAME["Mistral 7B"].eps_class, BY_NAME["Mistral 7B"].eps_published) == (1e-6, 1e-5)
    spark = current_models.norms_from_census("muse_spark_text")
    assert {norm.eps for _, norm in spark.rows()} == {1e-5, 1e-8}


def test_settings_are_looked_up_and_never_guessed():
    look_up = current_models.norms_from_census
    assert look_up("chameleon", {"swin_norm": True}) != look_up("chameleon")
    with pytest.raises(KeyError):
        look_up("no-such-type")
    with pytest.raises(ValueError):
        look_up("chameleon", {"swin_norm": "perhaps"})


def test_every_model_is_counted_once():
    for models in (MODELS, DECODERS):
        counted = current_models.counts(models)
        assert sum(group["models"] for group in counted.values()) == len(models)
        assert all(group[name] <= group["models"] for group in counted.values() for name in group)
    assert current_models.counts() == current_models.counts(DECODERS)


def test_the_census_says_why_a_class_is_left_out():
    left_out = current_models.census()["left_out"]
    read = set(current_models.census()["decoders"])
    for reason in left_out.values():
        language = reason.removeprefix("its language model is that of ")
        assert language in read or (language == reason and len(reason.split()) > 3)


def test_the_table_reads_the_same_as_text_and_as_a_page():
    table = current_models.ModelTable(MODELS[:3])
    assert "GPT-NeoX-20B" in repr(table) and "1e−5" in repr(table)
    soup = BeautifulSoup(table._repr_html_(), "html.parser")
    assert [cell.text for cell in soup.select("thead th")] == list(current_models.HEAD.values())
    shown = [row.find("th").text for row in soup.select("tbody tr")]
    assert shown == ["OPT", "GPT-NeoX-20B", "GPT-2"]  # the newest first
    (style,) = soup.select("style")  # words to the left, wherever the table is shown
    selector, rule = style.text.rstrip("} ").split("{")
    assert rule.strip() == "text-align: left;"
    assert soup.select(selector.strip()) == soup.select("th, td")
    whole = BeautifulSoup(current_models.ModelTable()._repr_html_(), "html.parser")
    basis = [row["data-basis"] for row in whole.select("tbody tr")]
    assert len(basis) == len(MODELS) + len(DECODERS)
    assert basis.count("class") == len(DECODERS)
