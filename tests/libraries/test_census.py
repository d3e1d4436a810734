"""The census and the drawings made from it say of ten classes what their modules say."""

import re

import pytest
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
