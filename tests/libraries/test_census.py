"""The census and the drawings made from it say of ten classes what their modules say."""

import copy
import re

import pytest
import torch
from bs4 import BeautifulSoup
from normtutor_studies import current_models
from torch import nn

from normtutor import anatomy
from normtutor.anatomy.parts import number

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries' own

#: Ten classes of ten designs, some with settings that change their norms.
TEN = {
    "bert": {},
    "gpt_neox": {"use_parallel_residual": False},
    "gemma3_text": {"rms_norm_eps": 3e-6},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"] * 16},
    "jais2": {},
    "minimax": {},
    "gemma3n_text": {},
    "stablelm": {"use_parallel_residual": True, "qk_layernorm": True},
    "muse_spark_text": {},
    "qwen3_next": {},
}


@pytest.fixture(scope="module", params=TEN)
def ten(request):
    """A class's type, its settings, and its model without numbers."""
    kind, settings = request.param, TEN[request.param]
    config = transformers.AutoConfig.for_model(kind, **settings)
    return kind, settings, anatomy.model_of(config)


def test_it_is_of_this_release():
    assert current_models.census()["release"] == transformers.__version__


def test_it_says_what_is_read_of_the_modules(ten):
    kind, settings, model = ten
    assert anatomy.norms_of(model) == current_models.norms_from_census(kind, settings)


def test_the_drawing_has_every_norm_of_the_modules_with_its_epsilon(ten):
    """Here nothing is run: names and attributes of the modules are compared with the boxes."""
    kind, settings, model = ten
    found = current_models.norms_from_census(kind, settings)
    lists = {f"{block.where}." for block in found.blocks}
    there = {}

    def of_norms(module):
        return "norm" in type(module).__name__.lower() and not isinstance(module, nn.Embedding)

    for name, module in model.named_modules():
        # StableLM's module of queries holds one norm per head.
        if not of_norms(module) or any(map(of_norms, list(module.modules())[1:])):
            continue
        inside = next((where for where in lists if name.startswith(where)), None)
        short = re.sub(r"^\d+\.", "", name.removeprefix(inside)) if inside else name
        eps = getattr(module, "eps", getattr(module, "variance_epsilon", None))
        there.setdefault(re.sub(r"\.\d+(?=\.|$)", ".*", short), set()).add(eps)
    drawn = {}
    for box in BeautifulSoup(found._repr_html_(), "html.parser").select(".norm"):
        if not box["data-name"].endswith("()"):
            said = re.search(r"ε ([\d.e−]+)", box.text)
            name = re.sub(r"\.\d+(?=\.|$)", ".*", box["data-name"])
            drawn.setdefault(name, set()).add(said and said[1])
    assert {name: {number(eps) for eps in all_eps} for name, all_eps in there.items()} == drawn


def test_every_decoder_is_in_it_or_it_says_why_not():
    from transformers.models.auto import modeling_auto as auto

    census = current_models.census()
    read = {entry["class"] for entry in census["decoders"].values()}
    for name in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        assert name in read or len(census["left_out"][name].split()) > 3


def test_a_configuration_becomes_a_table_without_a_model():
    found = anatomy.norms_of({"model_type": "llama", "rms_norm_eps": 2e-5, "num_hidden_layers": 3})
    assert {norm.eps for _, norm in found.rows()} == {2e-5}
    assert found.blocks[0].layers == (0, 1, 2)
    assert found == anatomy.norms_of(
        transformers.LlamaConfig(rms_norm_eps=2e-5, num_hidden_layers=3)
    )
    with pytest.raises(ValueError, match="must have a model_type"):
        anatomy.norms_of({"rms_norm_eps": 2e-5})


SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 50,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
IDS = torch.randint(3, 50, (2, 7), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", ["bert", "electra", "llama"])
def test_a_live_models_configuration_stays_as_it_is(kind, tmp_path):
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(kind, **SMALL))
    config, kept = copy.deepcopy(model.config), vars(copy.deepcopy(model.config))
    expected = model.eval()(IDS)[0]
    anatomy.norms_of(model.config)
    anatomy.norms_of(model)
    assert vars(model.config) == kept
    assert model(IDS)[0].equal(expected)
    for name, one in (("before", config), ("after", model.config)):
        one.save_pretrained(tmp_path / name)
    texts = [(tmp_path / name / "config.json").read_text() for name in ("before", "after")]
    assert texts[0] == texts[1]


MIXTURES = {
    "mixtral": {"num_local_experts": 4},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
    "granitemoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "phimoe": {"num_local_experts": 4},
}


@pytest.mark.parametrize("kind", MIXTURES)
def test_a_mixture_of_experts_is_read_in_float32_as_its_configuration_is(kind):
    settings = {**SMALL, "num_key_value_heads": 2, **MIXTURES[kind]}
    config = transformers.AutoConfig.for_model(kind, **settings)
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    found = anatomy.norms_of(model)
    assert found == anatomy.norms_of(model.config)
    assert [norm.place for norm in found.ends] == ["final"]


ENCODERS_AND_DECODERS = {
    "t5": (
        {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
        [("encoder.final_layer_norm", "final"), ("decoder.final_layer_norm", "final")],
    ),
    "bart": (
        {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 48}
        | {"decoder_ffn_dim": 48, "encoder_attention_heads": 4, "decoder_attention_heads": 4},
        [
            ("model.encoder.layernorm_embedding", "embedding"),
            ("model.decoder.layernorm_embedding", "embedding"),
        ],
    ),
}


@pytest.mark.parametrize("kind", ENCODERS_AND_DECODERS)
def test_the_norms_at_the_ends_of_an_encoder_and_a_decoder(kind):
    settings, ends = ENCODERS_AND_DECODERS[kind]
    config = transformers.AutoConfig.for_model(kind, vocab_size=50, **settings)
    model = transformers.AutoModelForSeq2SeqLM.from_config(config)
    assert [(norm.name, norm.place) for norm in anatomy.norms_of(model).ends] == ends
