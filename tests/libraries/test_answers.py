"""What the answers say of Keras, Flax, Transformers and ONNX, against these libraries."""

import re
from importlib import import_module
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries' own

ANSWERS = Path(__file__).parents[2] / "book" / "answers"
RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 6, 3)).astype(np.float32)
IMAGES = RNG.standard_normal((2, 5, 5, 3)).astype(np.float32)


@pytest.fixture
def keras():
    keras = pytest.importorskip("keras")
    yield keras
    keras.mixed_precision.set_global_policy("float32")


def test_batch_normalization_respects_the_mask(keras):
    mask = np.arange(6) < np.array([[6], [4], [2], [6]])
    padded = np.where(mask[..., None], X, 100).astype(np.float32)
    y, of_padded = (
        np.asarray(keras.layers.BatchNormalization()(x, training=True, mask=mask))[mask]
        for x in (X, padded)
    )
    np.testing.assert_allclose(y, of_padded, atol=1e-5)


def test_a_plain_call_is_evaluation_and_gives_the_input_back(keras):
    y = np.asarray(keras.layers.BatchNormalization()(X))
    np.testing.assert_allclose(y, X / 1.001**0.5, rtol=1e-5)


def test_axis_means_the_axes_averaged_over_in_layer_normalization(keras):
    cases = {
        keras.layers.LayerNormalization(): ((3,), -1),
        keras.layers.LayerNormalization(axis=[1, 2, 3]): ((5, 5, 3), (1, 2, 3)),
        keras.layers.GroupNormalization(groups=1): ((3,), (1, 2, 3)),
    }
    for layer, (shape, axes) in cases.items():
        assert abs(np.asarray(layer(IMAGES)).mean(axes)).max() < 1e-5
        assert layer.gamma.shape == shape


def moved(keras, frozen: bool, functional: bool, training: bool | None) -> tuple[bool, bool]:
    """Whether the averages and whether γ move in an epoch of fit."""
    inputs = keras.Input((3,))
    norm = keras.layers.BatchNormalization(trainable=not frozen)
    base = keras.Model(inputs, norm(keras.layers.Dense(4)(inputs)))
    last = keras.layers.Dense(1)

    class Wrapped(keras.Model):
        def __init__(self):
            super().__init__()
            self.base, self.last = base, last

        def call(self, x):
            return self.last(self.base(x, training=training))

    given = keras.Input((3,))
    model = keras.Model(given, last(base(given, training=training))) if functional else Wrapped()
    model.compile("sgd", "mse")
    x = X.reshape(-1, 3) + 5
    before = [np.asarray(value) for value in (norm.moving_mean, norm.gamma)]
    model.fit(x, x[:, :1], verbose=0)
    after = [np.asarray(value) for value in (norm.moving_mean, norm.gamma)]
    return tuple(not np.allclose(*pair) for pair in zip(before, after, strict=True))


def test_what_freezes_batch_normalization(keras):
    assert moved(keras, frozen=False, functional=True, training=None) == (True, True)
    assert moved(keras, frozen=True, functional=True, training=None) == (False, False)
    assert moved(keras, frozen=False, functional=False, training=False) == (False, True)
    # Here fit replaces the argument: the answer warns of that.
    assert moved(keras, frozen=False, functional=True, training=False) == (True, True)


def test_the_fold_into_a_convolution(keras):
    for conv in (keras.layers.Conv2D(8, 3), keras.layers.DepthwiseConv2D(3, depth_multiplier=2)):
        norm = keras.layers.BatchNormalization()
        norm.build(conv(IMAGES).shape)
        norm.set_weights([RNG.uniform(0.5, 2, value.shape) for value in norm.get_weights()])
        expected = np.asarray(norm(conv(IMAGES)))
        gamma, beta, mean, variance = norm.get_weights()
        scale = gamma / np.sqrt(variance + norm.epsilon)
        kernel, bias = conv.get_weights()
        depthwise = isinstance(conv, keras.layers.DepthwiseConv2D)
        kernel = kernel * (scale.reshape(kernel.shape[2:]) if depthwise else scale)
        conv.set_weights([kernel, (bias - mean) * scale + beta])
        np.testing.assert_allclose(np.asarray(conv(IMAGES)), expected, atol=1e-5)


def test_the_recurrent_cell_with_a_norm(keras):
    text = (ANSWERS / "sequences.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```text\n(@keras.*?)```", text, re.DOTALL)
    names = {"keras": keras}
    exec(compile(code, "an answer", "exec"), names)
    layer = keras.layers.RNN(names["NormCell"](16))
    assert keras.layers.Bidirectional(layer)(X).shape == (4, 32)


def test_half_precision_is_widened(keras):
    keras.mixed_precision.set_global_policy("mixed_float16")
    large = np.full((1, 512), 300, np.float16)  # its square overflows
    y = np.asarray(keras.layers.RMSNormalization()(large))
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, 1, rtol=1e-2)
    flax = pytest.importorskip("flax.linen")
    jax = pytest.importorskip("jax")
    norm = flax.RMSNorm(dtype=jax.numpy.float16)
    y = norm.apply(norm.init(jax.random.key(0), large), large)
    assert y.dtype == np.float16
    np.testing.assert_allclose(np.asarray(y), 1, rtol=1e-2)


def norm_of(model: str, name: str) -> nn.Module:
    pytest.importorskip("transformers")
    return getattr(import_module(f"transformers.models.{model}.modeling_{model}"), name)(64)


STORED = {  # what a new layer stores for γ = 1
    "Gemma": 0,
    "Gemma2": 0,
    "Gemma3": 0,
    "Gemma3n": 1,
    "Gemma4": 1,
    "Qwen3_Next": 0,
    "Qwen3_5": 0,
    "Llama": 1,
}


@pytest.mark.parametrize("family", STORED)
def test_which_models_store_the_gain_less_one(family):
    norm = norm_of(family.lower(), family.replace("Qwen3_Next", "Qwen3Next") + "RMSNorm")
    x = torch.randn(3, 64)
    assert (norm.weight == STORED[family]).all()
    torch.testing.assert_close(norm(x), nn.functional.rms_norm(x, (64,), eps=1e-6))
    if family == "Qwen3_Next":  # whose gated norm stores the gain itself
        assert (norm_of("qwen3_next", "Qwen3NextRMSNormGated").weight == 1).all()


def test_where_the_normalized_value_is_rounded():
    x, gain = torch.randn(64, 64).bfloat16(), torch.rand(64).bfloat16() + 0.5
    x_hat = nn.functional.rms_norm(x.float(), (64,), eps=1e-6)
    before, after = gain * x_hat.bfloat16(), (gain.float() * x_hat).bfloat16()
    assert not torch.equal(before, after)
    for model, name, expected in (
        ("t5", "T5LayerNorm", before),
        ("llama", "LlamaRMSNorm", before),
        ("gemma", "GemmaRMSNorm", after),
    ):
        norm = norm_of(model, name)
        stored = gain.float() - 1 if model == "gemma" else gain
        norm.weight = nn.Parameter(stored)
        assert torch.equal(norm(x), expected)


def test_from_pretrained_renames_gamma_and_beta(tmp_path):
    transformers = pytest.importorskip("transformers")
    safetensors = pytest.importorskip("safetensors.torch")
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    model = transformers.BertModel(config)
    for name, value in model.named_parameters():
        if "LayerNorm" in name:
            nn.init.normal_(value)
    model.save_pretrained(tmp_path)
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}

    def renamed(key: str) -> str:
        return re.sub("|".join(old), lambda found: old[found[0]], key)

    weights = safetensors.load_file(tmp_path / "model.safetensors")
    weights = {renamed(key): value for key, value in weights.items()}
    safetensors.save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    loaded = transformers.BertModel.from_pretrained(tmp_path).state_dict()
    torch.testing.assert_close(loaded, model.state_dict(), rtol=0, atol=0)
    missing = transformers.BertModel(config).load_state_dict(weights, strict=False).missing_keys
    assert "embeddings.LayerNorm.weight" in missing


@pytest.mark.parametrize("track", [True, False])
def test_the_export_to_onnx_folds_a_batch_norm_that_has_averages(track):
    pytest.importorskip("onnxscript")
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=track)).eval()
    program = torch.onnx.export(model, (torch.randn(2, 3, 8, 8),), dynamo=True, verbose=False)
    operators = {node.op_type for node in program.model.graph}
    assert (operators == {"Conv"}) == track
    assert ("ReduceMean" in operators) != track  # statistics of the batch


def test_what_batch_normalization_counts_as_weights_and_in_which_order(keras):
    norm = keras.layers.BatchNormalization()
    norm.build(X.shape)
    assert norm.count_params() == 4 * 3
    assert [value.shape for value in norm.trainable_variables] == [(3,), (3,)]
    names = [value.name for value in norm.weights]
    assert names == ["gamma", "beta", "moving_mean", "moving_variance"]
    assert (norm.momentum, norm.epsilon) == (0.99, 0.001)


def test_minus_one_group_is_instance_norm(keras):
    y = np.asarray(keras.layers.GroupNormalization(groups=-1)(IMAGES))
    assert abs(y.mean((1, 2))).max() < 1e-5


def by_batch(call) -> bool:
    """Whether what a call makes of two examples depends on the others."""
    x = X.reshape(-1, 3) + 5
    return not np.allclose(np.asarray(call(x))[:2], np.asarray(call(x[:2])), atol=1e-3)


def test_what_training_true_in_a_call_does(keras):
    def predict(model):
        return lambda x: model.predict(x, verbose=0)

    inputs = keras.Input((3,))
    layer = keras.layers.BatchNormalization()
    functional = keras.Model(inputs, layer(inputs, training=True))
    assert by_batch(functional) and not by_batch(predict(functional))

    class Wrapped(keras.Model):
        def __init__(self):
            super().__init__()
            self.norm = keras.layers.BatchNormalization()

        def call(self, x, training=None):
            return self.norm(x, training=True)

    wrapped = Wrapped()
    assert by_batch(predict(wrapped)) and by_batch(lambda x: wrapped(x, training=False))
    plain = keras.Sequential([keras.layers.BatchNormalization()])
    assert not by_batch(plain) and not by_batch(predict(plain))
    assert by_batch(lambda x: plain(x, training=True))


def test_batch_normalization_gives_beta_to_one_example(keras):
    norm = keras.layers.BatchNormalization()
    assert not np.asarray(norm(X[0, :1], training=True)).any()


def test_options_of_batch_normalization(keras):
    x = X.reshape(-1, 3)
    y = keras.layers.BatchNormalization(renorm=True)(x, training=True)
    np.testing.assert_allclose(np.asarray(y), x, atol=1e-2)  # as the averages 0 and 1 have it
    with pytest.raises(ValueError, match="virtual_batch_size"):
        keras.layers.BatchNormalization(virtual_batch_size=8)
    with pytest.raises(ValueError, match="only supported with the TensorFlow backend"):
        keras.layers.BatchNormalization(synchronized=True)


@pytest.mark.parametrize(
    "make, opset, one",
    [
        (lambda: nn.RMSNorm(8), 22, False),
        (lambda: nn.RMSNorm(8), 23, "RMSNormalization"),
        (lambda: nn.LayerNorm(8), 18, "LayerNormalization"),
        (lambda: nn.GroupNorm(2, 4), 20, False),
        (lambda: nn.GroupNorm(2, 4), 21, "GroupNormalization"),
    ],
)
def test_from_which_opset_a_norm_is_one_node(make, opset, one):
    pytest.importorskip("onnxscript")
    x, options = (torch.randn(2, 4, 8),), {"opset_version": opset, "verbose": False}
    program = torch.onnx.export(make().eval(), x, dynamo=True, **options)
    operators = [node.op_type for node in program.model.graph]
    assert operators == [one] if one else len(operators) > 1


def test_what_the_old_exporter_says_of_norms():
    onnx = pytest.importorskip("onnx")

    def operators(model: nn.Module, **options: object) -> list[str]:
        file = BytesIO()
        torch.onnx.export(model, (torch.randn(2, 3, 8, 8),), file, dynamo=False, **options)
        return [node.op_type for node in onnx.load_from_string(file.getvalue()).graph.node]

    def convolution(**options: object) -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, **options)).eval()

    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match=r"aten::rms_norm.* 20 is"):
        operators(nn.RMSNorm(8), opset_version=20)
    with pytest.warns(UserWarning, match="operator 'batch_norm' is set to train=True"):
        operators(convolution(track_running_stats=False))
    assert operators(convolution()) == operators(convolution().train()) == ["Conv"]
    assert "BatchNormalization" in operators(convolution(), do_constant_folding=False)
    training = {"training": torch.onnx.TrainingMode.TRAINING}
    assert operators(convolution(), **training) == ["Conv", "BatchNormalization"]


LAST_NORMS = {  # the last hidden state of transformers: whether it is the output, and its norm
    "GPT2": (True, None),
    "Llama": (True, None),
    "ViT": (False, "layernorm"),
    "Dinov2": (False, "layernorm"),
    "SiglipVision": (False, "post_layernorm"),
    "CLIPVision": (True, None),
}


@pytest.mark.parametrize("family", LAST_NORMS)
def test_whether_the_last_hidden_state_is_taken_before_the_last_norm(family):
    transformers = pytest.importorskip("transformers")
    sizes = {
        "num_hidden_layers": 2,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    if family in ("GPT2", "Llama"):
        ids = {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": 0}
        config, x = sizes | ids, torch.randint(0, 50, (1, 5))
    else:
        config, x = sizes | {"image_size": 16, "patch_size": 8}, torch.randn(1, 3, 16, 16)
    made = getattr(transformers, f"{family}Config")(**config)
    model = getattr(transformers, f"{family}Model")(made).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    out = model(x, output_hidden_states=True)
    same, name = LAST_NORMS[family]
    assert torch.equal(out.hidden_states[-1], out.last_hidden_state) == same
    if name:
        (norm,) = (m for at, m in model.named_modules() if at.split(".")[-1] == name)
        torch.testing.assert_close(norm(out.hidden_states[-1]), out.last_hidden_state)
    if family == "CLIPVision":
        (norm,) = (m for at, m in model.named_modules() if at.endswith("post_layernorm"))
        torch.testing.assert_close(out.pooler_output, norm(out.last_hidden_state[:, 0]))


@pytest.mark.parametrize("family", ["Cohere", "Mpt", "ModernBert"])
def test_models_with_a_layer_norm_without_bias_have_no_bias_at_all(family):
    transformers = pytest.importorskip("transformers")
    sizes = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 32, "vocab_size": 50}
    sizes |= {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0}
    if family == "Mpt":
        sizes = {"d_model": 16, "n_heads": 2, "n_layers": 1, "vocab_size": 50}
    model = getattr(transformers, f"{family}Model")(
        getattr(transformers, f"{family}Config")(**sizes)
    )
    names = [name for name, _ in model.named_parameters()]
    assert not [name for name in names if name.endswith("bias")]
    assert any("norm" in name for name in names)
