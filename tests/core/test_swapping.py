"""swap_norms on models of torch, and on norms as other libraries write them."""

import copy

import pytest
import torch
from layer_checks import assert_same, randn, randomize, results
from torch import Tensor, nn

import normtutor
from normtutor import layers, models
from normtutor.layers.weight import WeightNorm


class LlamaNorm(nn.Module):
    """Root mean square, rounded before the weight; named as in many published models."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(width)), eps

    def forward(self, hidden_states: Tensor) -> Tensor:
        wide = hidden_states.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * (wide * scale).to(hidden_states.dtype)


class GemmaNorm(nn.Module):
    """The weight is an offset from one, and the product is rounded once."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(width)), 1e-6

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * (1.0 + self.weight.float())).type_as(x)


class FunctionalLayerNorm(nn.Module):
    """With a bias that may be missing and an ε that stands nowhere but in the call."""

    def __init__(self, width: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class BareLayerNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.normalized_shape = (width,)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x.float(), self.normalized_shape, eps=1e-5).to(x.dtype)


class ChannelLayerNorm(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        return super().forward(x).permute(0, 3, 1, 2)


class NormWithActivation(nn.BatchNorm2d):
    """BatchNorm, dropout and activation in one module."""

    def __init__(self, width: int, act: nn.Module) -> None:
        super().__init__(width)
        self.drop, self.act = nn.Identity(), act

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.drop(super().forward(x)))


def images(*norms: nn.Module) -> tuple[nn.Module, Tensor]:
    return nn.Sequential(nn.Conv2d(3, 8, 3), *norms), randn(4, 3, 7, 6).float()


def tokens(*norms: nn.Module) -> tuple[nn.Module, Tensor]:
    return nn.Sequential(nn.Linear(3, 8), *norms), randn(4, 5, 3).float()


# A model, its input, and what stands in the place of the norm afterwards.
MODELS = {
    "BatchNorm2d": (lambda: images(nn.BatchNorm2d(8, eps=1e-3, momentum=0.3)), "BatchNorm"),
    "BatchNorm2d, plain average": (lambda: images(nn.BatchNorm2d(8, momentum=None)), "BatchNorm"),
    "InstanceNorm2d": (lambda: images(nn.InstanceNorm2d(8, affine=True)), "InstanceNorm2d"),
    "GroupNorm": (lambda: images(nn.GroupNorm(2, 8, eps=1e-3)), "GroupNorm"),
    "LayerNorm": (lambda: tokens(nn.LayerNorm(8, eps=1e-6)), "LayerNorm"),
    "LayerNorm of two axes": (lambda: tokens(nn.LayerNorm((5, 8), bias=False)), "LayerNorm"),
    "RMSNorm": (lambda: tokens(nn.RMSNorm(8)), "RMSNorm"),
    "as in Llama": (lambda: tokens(LlamaNorm(8)), "RMSNorm"),
    "as in Gemma": (lambda: tokens(GemmaNorm(8)), "RMSNorm"),
    "as in nanoGPT, no bias": (lambda: tokens(FunctionalLayerNorm(8, False)), "LayerNorm"),
    "as in OLMo": (lambda: tokens(BareLayerNorm(8)), "LayerNorm"),
    "as in ConvNeXt": (lambda: images(ChannelLayerNorm(8)), "LayerNorm"),
    "with an activation": (
        lambda: images(NormWithActivation(8, nn.SiLU())),
        "ActivatedBatchNorm",
    ),
}


def every_result(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Two steps of training and one evaluation."""
    found = {}
    for step, training in enumerate((True, True, False)):
        some = results(model.train(training), x + step, second=False)
        found |= {f"{name}, step {step}": value for name, value in some.items()}
    return found


@pytest.mark.parametrize("name", MODELS)
def test_a_swapped_model_does_the_same_and_comes_back(name):
    make, becomes = MODELS[name]
    model, x = make()
    randomize(model)
    twin = copy.deepcopy(model)
    norm, parameters = model[1], list(model.parameters())
    keys, random = list(model.state_dict()), torch.random.get_rng_state()
    report = normtutor.swap_norms(model)
    assert torch.random.get_rng_state().equal(random)
    assert type(model[1]).__name__ == becomes
    assert [c.name for c in report.changed] == ["1"]
    assert "norms changed: 1, refused: 0" in str(report)
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    assert list(model.state_dict()) == keys
    assert_same(every_result(model, x), every_result(twin, x), factor=5)
    report.undo()
    assert model[1] is norm
    assert_same(every_result(model, x), every_result(twin, x), factor=5)


@pytest.mark.parametrize("name", ["as in Llama", "as in Gemma"])
def test_in_half_precision_the_outputs_agree_bit_for_bit(name):
    model, x = MODELS[name][0]()
    randomize(model)
    model, x = model.bfloat16(), 3 * x.bfloat16()
    expected = model(x)
    with normtutor.swap_norms(model):
        assert isinstance(model[1], layers.RMSNorm)
        assert model(x).equal(expected)
        model[1].cast_before_weight = not model[1].cast_before_weight
        assert not model(x).equal(expected)  # so the option was read rightly
    assert not isinstance(model[1], layers.RMSNorm)


def test_what_a_norm_carries_goes_with_it_there_and_back():
    model, x = images(nn.BatchNorm2d(8, dtype=torch.float64))
    model, x = model.double(), x.double()
    model[1].weight.requires_grad_(False)
    model[1].note = "kept"
    seen = []
    model[1].register_forward_hook(lambda module, *_: seen.append(type(module)))
    report = normtutor.swap_norms(model)
    model(x)
    assert seen == [layers.BatchNorm]
    assert not model[1].weight.requires_grad
    assert model[1].running_mean.dtype == torch.float64
    assert model[1].note == "kept"
    report.undo()
    assert model[1].num_batches_tracked == 1
    for training in (True, False):
        report = normtutor.swap_norms(model.train(training))
        assert model[1].training == training
        model.train(not training)
        report.undo()
        assert model[1].training != training


def test_a_norm_with_two_names_stays_one():
    norm = nn.LayerNorm(8)
    model, x = tokens(norm, nn.Linear(8, 8), norm)
    report = normtutor.swap_norms(model)
    assert model[1] is model[3]
    assert [c.name for c in report.changed] == ["1", "3"]
    model(x)
    report.undo()
    assert model[1] is model[3] is norm


def test_meta_devices():
    with torch.device("meta"):
        model, _ = tokens(LlamaNorm(8))
        report = normtutor.swap_norms(model)
    assert isinstance(model[1], layers.RMSNorm)
    assert model[1].cast_before_weight and not model[1].add_unit_offset
    assert model[1].weight.device.type == "meta"
    report.undo()


def test_another_norm_in_its_place():
    model, x = images(nn.BatchNorm2d(8), nn.ReLU())
    before = model.double()[1].eval()
    report = normtutor.swap_norms(model, lambda norm: layers.GroupNorm(4, norm.num_features))
    assert isinstance(model[1], layers.GroupNorm) and not model[1].training
    assert model(x.double()).dtype == torch.float64
    again = normtutor.swap_norms(model, lambda norm: nn.Identity())  # ours can be replaced too
    assert type(model[1]) is nn.Identity
    again.undo()
    report.undo()
    assert model[1] is before
    with pytest.raises(TypeError, match="got str"):
        normtutor.swap_norms(model, lambda norm: "GroupNorm")


def test_only_some():
    model, _ = images(nn.BatchNorm2d(8), nn.GroupNorm(2, 8), nn.BatchNorm2d(8))
    report = normtutor.swap_norms(model, only=nn.GroupNorm)
    assert [c.name for c in report.changed] == ["2"]
    report = normtutor.swap_norms(model, only=lambda name, module: name == "3")
    assert [c.name for c in report.changed] == ["3"]
    with pytest.raises(ValueError, match=r"found no norm to change in .*only="):
        normtutor.swap_norms(model, only=nn.LayerNorm)


class MaskedBatchNorm(nn.BatchNorm1d):
    """Its mask is True on padding; that of ours on real tokens."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x if mask is None else x.masked_fill(mask[:, None], 0))


class FlatNorm(LlamaNorm):
    """Takes inputs of two axes alone."""

    def forward(self, x: Tensor) -> Tensor:
        rows, _ = x.shape
        return super().forward(x.reshape(rows, -1))


class DetachedNorm(LlamaNorm):
    """Gives the same output, but no gradient flows through the statistic."""

    def forward(self, x: Tensor) -> Tensor:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * x * scale.detach()


class FourAxesNorm(LlamaNorm):
    """Has the features last, but on axis 1 where the input has four axes."""

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 4:
            return super().forward(x.movedim(1, -1)).movedim(-1, 1)
        return super().forward(x)


class TwoAxesNorm(LlamaNorm):
    """Subtracts a mean where the input has two axes."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(-1, keepdim=True) if x.ndim == 2 else x)


class ClampedNorm(LlamaNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.clamp(-50, 50))


class LengthNorm(LlamaNorm):
    """Doubles what long sequences get."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1 if x.shape[1] < 32 else 2)


class RenamedNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))


class FrozenBatchNorm2d(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.register_buffer(name, torch.ones(width))


def replaced() -> nn.Module:
    norm = nn.LayerNorm(8)
    norm.forward = lambda x: x
    return norm


REFUSED = [
    (MaskedBatchNorm(8), r"its forward takes \(.*mask.* = None\)"),
    (FlatNorm(8), r"on a trial input of shape \(3, 5, 8\) it raises ValueError"),
    (DetachedNorm(8), "none of our layers computes the same"),
    (FourAxesNorm(8), "by the number of axes"),
    (TwoAxesNorm(8), "none of our layers computes the same"),
    (ClampedNorm(8), "none of our layers computes the same"),
    (LengthNorm(8), "none of our layers computes the same"),
    (RenamedNorm(8), "its parameters are gamma"),
    (FrozenBatchNorm2d(8), "perhaps frozen"),
    (nn.SyncBatchNorm(8), "several processes"),
    (nn.LazyBatchNorm2d(), "lazy"),
    (nn.LocalResponseNorm(2), "no local response norm"),
    (nn.BatchNorm1d(8, momentum=1.5), r"momentum is 1\.5"),
    (replaced(), "replaced on the instance"),
]


@pytest.mark.parametrize("norm, reason", REFUSED, ids=lambda v: type(v).__name__)
def test_what_is_not_understood_is_refused_by_name_and_nothing_changes(norm, reason):
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Sequential(norm))
    kept = model[1]
    with pytest.raises(ValueError, match=rf"(?s)nothing was changed.*refused 2\.0: .*{reason}"):
        normtutor.swap_norms(model)
    assert model[1] is kept and model[2][0] is norm
    report = normtutor.swap_norms(model, strict=False)
    assert isinstance(model[1], layers.LayerNorm) and model[2][0] is norm
    assert list(report.refused) == ["2.0"]
    with pytest.raises(ValueError, match="not understood"):  # nothing at all was changed
        normtutor.swap_norms(nn.Sequential(norm), strict=False)


def test_what_cannot_be_swapped_or_undone_is_an_error():
    with pytest.raises(ValueError, match="the model itself is a norm"):
        normtutor.swap_norms(nn.LayerNorm(4))
    model, _ = tokens(nn.LayerNorm(8))
    report = normtutor.swap_norms(model)
    model[1] = nn.Identity()
    with pytest.raises(ValueError, match="Somebody else has replaced it"):
        report.undo()
    with pytest.raises(ValueError, match=r"found no norm to change in torch\.nn\.Sequential"):
        normtutor.swap_norms(model)


def test_weight_norm_of_torch():
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), nn.ReLU())
    x, keys = randn(2, 4).float(), list(model.state_dict())
    expected = model(x)
    report = normtutor.swap_norms(model)
    assert isinstance(model[0].parametrizations.weight[0], WeightNorm)
    torch.testing.assert_close(model(x), expected)
    assert list(model.state_dict()) == keys
    report.undo()
    torch.testing.assert_close(model(x), expected, rtol=0, atol=0)


def test_the_fast_path_of_torchs_encoder_does_not_pass_the_new_norms_by():
    layer = nn.TransformerEncoderLayer(8, nhead=2, batch_first=True)
    model = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False).eval()
    x = randn(2, 5, 8).float()
    with torch.no_grad():
        expected = model(x)
        with normtutor.swap_norms(model, only=lambda name, _: name.startswith("layers.0")):
            torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-5)
        assert all(layer.activation_relu_or_gelu for layer in model.layers)
        normtutor.swap_norms(model, lambda norm: nn.Identity())
        without = model(x)
    assert (without - expected).abs().max() > 1
    torch.testing.assert_close(without, model(x).detach())


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # torch's own, before
def test_a_padded_batch_in_evaluation_takes_no_nested_tensor_through_the_new_norms():
    layer = nn.TransformerEncoderLayer(8, nhead=2, batch_first=True)
    model = nn.TransformerEncoder(layer, num_layers=2).eval()
    x, padding = randn(2, 5, 8).float(), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        expected = model(x, src_key_padding_mask=padding)
        report = normtutor.swap_norms(model)
        found = model(x, src_key_padding_mask=padding)
        torch.testing.assert_close(found[~padding], expected[~padding], rtol=1e-4, atol=1e-5)
        report.undo()
        assert model.use_nested_tensor
        assert model(x, src_key_padding_mask=padding).equal(expected)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_instance_norm_takes_one_example_without_a_batch_as_torchs_does(dimensions):
    kind = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[dimensions - 1]
    model = nn.Sequential(nn.Identity(), kind(3, affine=True, track_running_stats=True))
    for shape in ((3, *(4, 5, 6)[:dimensions]), (2, 3, *(4, 5, 6)[:dimensions])):
        x, twin = randn(*shape).float(), copy.deepcopy(model)
        normtutor.swap_norms(twin)
        assert_same(every_result(twin, x), every_result(copy.deepcopy(model), x), factor=5)


def test_a_class_is_built_with_the_features_the_axis_and_the_epsilon_of_each_norm():
    model, x = images(nn.BatchNorm2d(8, eps=3e-4), nn.GroupNorm(2, 8))
    normtutor.swap_norms(model, layers.RMSNorm)
    assert [type(m) for m in model[1:]] == [layers.RMSNorm] * 2
    assert model[1].eps == 3e-4 and model[1].normalized_shape == (8,)
    torch.testing.assert_close(
        model[:2](x).square().mean(1), torch.ones(4, 5, 4), rtol=1e-2, atol=1e-2
    )
    model, x = tokens(nn.LayerNorm(8), LlamaNorm(8))
    normtutor.swap_norms(model.eval(), layers.BatchNorm)
    assert [m.feature_axis for m in model[1:]] == [-1, -1] and not model[1].training
    assert model(x).shape == (4, 5, 8)
    for kind in (layers.GroupNorm, nn.BatchNorm1d):
        model, _ = tokens(nn.LayerNorm(8))
        with pytest.raises(TypeError, match=rf"{kind.__name__} cannot be built .*lambda norm"):
            normtutor.swap_norms(model, kind)
    model, _ = tokens(nn.LayerNorm((5, 8)))
    with pytest.raises(TypeError, match=r"BatchNorm cannot be built .*of \(5, 8\) features"):
        normtutor.swap_norms(model, layers.BatchNorm)


# nanoGPT has a LayerNorm of its own and a tied head; minGPT torch's LayerNorm, untied.
SMALL_GPTS = {
    "nanoGPT": {"norm": lambda width: FunctionalLayerNorm(width, True), "tied": True},
    "minGPT": {"norm": nn.LayerNorm, "tied": False},
}


@pytest.mark.parametrize("name", SMALL_GPTS)
def test_small_gpts_train_alike_swapped_and_come_back(name):
    shape = {"width": 8, "depth": 2, "heads": 2, "max_length": 6, "dropout": 0.0}
    model = models.TransformerLM(11, **shape, wiring="pre", **SMALL_GPTS[name])
    twin, classes = copy.deepcopy(model), [type(m) for m in model.modules()]
    keys = list(model.state_dict())
    optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (model, twin)]
    report = normtutor.swap_norms(model)  # the optimizer was there before
    assert [type(c.after) for c in report.changed] == [layers.LayerNorm] * 5
    ids = torch.randint(11, (3, 6))
    losses = []
    for m, optimizer in zip((model, twin), optimizers, strict=True):
        for _ in range(4):
            optimizer.zero_grad()
            logits = m(ids)
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[:4] == pytest.approx(losses[4:], rel=1e-4) and losses[3] < losses[0]
    report.undo()
    assert [type(m) for m in model.modules()] == classes
    assert list(model.state_dict()) == keys
    torch.testing.assert_close(model(ids), twin(ids), rtol=1e-3, atol=1e-3)
