"""The table of the chapter on current language models."""

import pytest
from bs4 import BeautifulSoup
from normtutor_studies import current_models

MODELS, DECODERS = current_models.published(), current_models.decoders()
BY_NAME = {model.name: model for model in MODELS}


def test_every_row_of_the_table_is_complete():
    assert len({model.name for model in MODELS}) == len(MODELS) >= 60
    assert [model.year for model in MODELS] == sorted(model.year for model in MODELS)
    for model in (*MODELS, *DECODERS):
        assert 2018 <= model.year <= 2026
        assert model.kind in ("dense", "MoE", "hybrid", "hybrid MoE", "recurrent")
        assert model.norm.startswith(("LayerNorm", "RMSNorm"))
        assert model.placement in ("pre", "parallel", "peri", "out", "stream", "several")
        assert model.qk_norm in ("", "head", "all", "latent")
        assert 1e-12 <= model.eps_class <= 1e-5
        assert model.read.split(";")[0] in current_models.census()["decoders"]
        # What a published model sets was read somewhere, and the row says where.
        assert (model.basis == "config") == (";" in model.read)
        if model.eps_published is not None:
            assert model.basis == "config" and 1e-8 < model.eps_published < 1e-4


# Said by the papers and the authors' code, which the census was not made from.
KNOWN = {
    "MiniMax-Text-01": {"placement": "stream"},
    "GPT-2": {"norm": "LayerNorm"},
    "Command R": {"norm": "LayerNorm, no β"},
    "Gemma 3n": {"placement": "several"},
    "OLMo 2 7B": {"placement": "out", "qk_norm": "all"},
    "Gemma 3": {"placement": "peri"},
    "DeepSeek-V3": {"qk_norm": "latent"},
    "Mistral 7B": {"eps_class": 1e-6, "eps_published": 1e-5},
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_readers_may_know_of_single_models(name):
    assert BY_NAME[name]._asdict().items() >= KNOWN[name].items()


def test_attention_of_its_own_kind_is_not_taken_for_recurrence():
    """XLNet, ProphetNet and Reformer attend, with terms that the census does not recognize."""
    recurrent = {model.name for model in DECODERS if model.kind == "recurrent"}
    assert {"MambaForCausalLM", "RwkvForCausalLM", "xLSTMForCausalLM"} <= recurrent
    assert not recurrent & {"XLNetLMHeadModel", "ProphetNetForCausalLM", "ReformerModelWithLMHead"}


def test_the_chapter_shows_fifteen_models_of_the_table():
    shown = repr(current_models.known_models())
    assert len(shown.splitlines()) == 16 and all(n in shown for n in current_models.WELL_KNOWN)


def test_settings_are_looked_up_and_never_guessed():
    look_up = current_models.norms_from_census
    assert look_up("gemma3n_text").streams == 4
    assert look_up("gemma3n_text", {"altup_num_inputs": 2}).streams == 2
    assert {norm.eps for _, norm in look_up("muse_spark_text").rows()} == {1e-5, 1e-8}
    assert look_up("chameleon", {"swin_norm": True}) != look_up("chameleon")
    with pytest.raises(KeyError):
        look_up("no-such-type")
    with pytest.raises(ValueError):
        look_up("chameleon", {"swin_norm": "perhaps"})


def test_the_table_reads_the_same_as_text_and_as_a_page():
    table = current_models.ModelTable(MODELS[1:4])
    assert "GPT-NeoX-20B" in repr(table) and "1e−5" in repr(table)
    soup = BeautifulSoup(table._repr_html_(), "html.parser")
    assert [cell.text for cell in soup.select("thead th")] == [
        head for head, _ in current_models.COLUMNS.values()
    ]
    shown = [row.find("th").text for row in soup.select("tbody tr")]
    assert shown == ["OPT", "GPT-NeoX-20B", "GPT-2"]  # the newest first
