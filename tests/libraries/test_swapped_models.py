"""swap_norms on the models of transformers and timm, small and with random weights."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import normtutor
from normtutor import layers

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries' own

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 50,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

# model class, configuration class, its arguments; how many norms; what each becomes; whether the
# logits in bfloat16 agree in every bit
TEXT: dict[str, tuple[str, str, dict[str, Any], int, str]] = {
    "Llama": ("LlamaForCausalLM", "LlamaConfig", SMALL, 5, "cast_before_weight=True"),
    "Qwen 3": (
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {**SMALL, "head_dim": 8},
        9,
        "cast_before_weight=True",
    ),
    "OLMo 2": ("Olmo2ForCausalLM", "Olmo2Config", SMALL, 9, "RMSNorm"),
    "OLMo": ("OlmoForCausalLM", "OlmoConfig", SMALL, 5, "LayerNorm"),
    "Gemma 2": (
        "Gemma2ForCausalLM",
        "Gemma2Config",
        {**SMALL, "head_dim": 8},
        9,
        "add_unit_offset=True",
    ),
    "Gemma 3": (
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        {**SMALL, "head_dim": 8},
        13,
        "add_unit_offset=True",
    ),
    "GPT-2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"n_embd": 32, "n_head": 4, "n_layer": 2, "vocab_size": 50, "n_positions": 16}
        | {n: SMALL[n] for n in ("bos_token_id", "eos_token_id", "pad_token_id")},
        5,
        "LayerNorm",
    ),
}
ROUNDS_ALIKE = ("Llama", "Qwen 3", "OLMo 2", "Gemma 2", "Gemma 3")


def text_model(name: str) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    model, configuration, arguments, _, _ = TEXT[name]
    torch.manual_seed(0)
    built = getattr(transformers, model)(getattr(transformers, configuration)(**arguments))
    return perturbed(built.eval())


def perturbed(model: nn.Module) -> nn.Module:
    """Move the parameters of the norms away from where they start."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def step(model: nn.Module, call: Callable[[nn.Module], Tensor]) -> list[Tensor]:
    """The output and the gradients of all parameters."""
    model.zero_grad()
    y = call(model)
    y.float().square().mean().backward()
    return [y.detach(), *[p.grad for p in model.parameters() if p.grad is not None]]


def agree(model: nn.Module, call: Callable[[nn.Module], Tensor], number: int, says: str) -> None:
    """Swap, compare outputs and gradients in float32, and swap back."""
    twin = copy.deepcopy(model)
    keys, classes = list(model.state_dict()), [type(m) for m in model.modules()]
    report = normtutor.swap_norms(model)
    assert len(report.changed) == number
    assert not report.refused
    assert says in str(report)
    assert all(type(c.after).__module__.startswith("normtutor.") for c in report.changed)
    assert list(model.state_dict()) == keys
    for training in (False, True):
        torch.manual_seed(1)
        expected = step(twin.train(training), call)
        torch.manual_seed(1)
        found = step(model.train(training), call)
        # A bias before a norm has a gradient of rounding errors alone.
        largest = max(float(theirs.abs().max()) for theirs in expected[1:])
        for mine, theirs in zip(found, expected, strict=True):
            limit = 1e-3 * float(theirs.abs().max()) + 1e-5 * largest
            assert float((mine - theirs).abs().max()) <= limit
    report.undo()
    assert [type(m) for m in model.modules()] == classes
    with torch.no_grad():
        torch.testing.assert_close(call(model.eval()), call(twin.eval()), rtol=1e-3, atol=1e-4)


IDS = torch.randint(3, 50, (2, 7), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", TEXT)
def test_language_models(name):
    *_, number, says = TEXT[name]
    agree(text_model(name), lambda model: model(IDS).logits, number, says)


@pytest.mark.parametrize("name", ROUNDS_ALIKE)
def test_in_bfloat16_the_logits_agree_in_every_bit(name):
    model = text_model(name).bfloat16()
    with torch.no_grad():
        expected = model(IDS).logits
        with normtutor.swap_norms(model) as report:
            assert model(IDS).logits.equal(expected)
            for _, _, after in report.changed:
                after.cast_before_weight = not after.cast_before_weight
            assert not model(IDS).logits.equal(expected)
        assert model(IDS).logits.equal(expected)


def test_a_swapped_language_model_generates_and_is_saved(tmp_path):
    model = text_model("Llama")
    expected = model.generate(IDS, max_new_tokens=4, do_sample=False)
    normtutor.swap_norms(model)
    assert model.generate(IDS, max_new_tokens=4, do_sample=False).equal(expected)
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    assert type(again.model.norm).__name__ == "LlamaRMSNorm"
    with torch.no_grad():
        # On some processors torch.rsqrt, which Llama takes, is not 1 / torch.sqrt in every bit.
        torch.testing.assert_close(again(IDS).logits, model(IDS).logits)


# How to build it, the size of its images, how many norms.
IMAGES: dict[str, tuple[dict[str, Any], int, int, str]] = {
    "resnet18": ({}, 33, 20, "BatchNorm"),
    "vit_tiny_patch16_224": (
        {"img_size": 32, "embed_dim": 32, "depth": 2, "num_heads": 2},
        32,
        5,
        "LayerNorm",
    ),
    "convnext_atto": ({"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32)}, 64, 9, "feature_axis=1"),
    "efficientnet_b0": ({}, 33, 49, "ActivatedBatchNorm"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_image_models(name):
    timm = pytest.importorskip("timm")
    options, size, number, says = IMAGES[name]
    torch.manual_seed(0)
    model = perturbed(timm.create_model(name, num_classes=5, **options))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.weight.data.abs_()
    x = torch.randn(4, 3, size, size, generator=torch.Generator().manual_seed(0))
    agree(model, lambda model: model(x), number, says)


def test_the_activation_inside_a_norm_of_timm_stays():
    """Without it the outputs would be larger by orders of magnitude."""
    timm = pytest.importorskip("timm")
    model = timm.create_model("efficientnet_b0").eval()
    normtutor.swap_norms(model)
    x = torch.randn(2, model.bn1.num_features, 3, 3)
    assert isinstance(model.bn1, layers.BatchNorm)
    plain = layers.BatchNorm.forward(model.bn1, x)
    assert model.bn1(x).equal(nn.functional.silu(plain))


def test_features_of_a_swapped_model_are_extracted():
    timm = pytest.importorskip("timm")
    feature_extraction = pytest.importorskip("torchvision.models.feature_extraction")
    model = timm.create_model("resnet18").eval()
    x = torch.randn(2, 3, 33, 33)
    expected = model.layer2(model.layer1(model.maxpool(model.act1(model.bn1(model.conv1(x))))))
    normtutor.swap_norms(model)
    extractor = feature_extraction.create_feature_extractor(model, ["bn1", "layer2"])
    with torch.no_grad():
        found = extractor(x)
    assert found["bn1"].shape == (2, 64, 17, 17)
    torch.testing.assert_close(found["layer2"], expected, rtol=1e-4, atol=1e-5)


def test_what_transformers_has_and_we_do_not_is_refused():
    modeling = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    model = nn.Sequential(nn.LayerNorm(8), modeling.Qwen3NextRMSNormGated(8))
    with pytest.raises(ValueError, match=r"(?s)refused 1: .*gate"):
        normtutor.swap_norms(model)
