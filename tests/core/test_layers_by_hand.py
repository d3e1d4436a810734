"""Layers that run eagerly take the backward pass of the book, and nobody can tell from outside."""

import importlib
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from layer_checks import (
    Conditioned,
    assert_equal,
    assert_same,
    randn,
    random_mask,
    randomize,
    results,
)
from normtutor_studies import benchmark
from torch import Tensor, nn
from torch.func import functional_call, grad, hessian, jacrev, jvp, vjp, vmap
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from normtutor import layers
from normtutor.layers import by_hand

# Each takes x of shape (3, 6, 4); its statistics are of x alone, and no buffer is moved.
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "LayerNorm": lambda: layers.LayerNorm(4),
    "LayerNorm of two axes, no β": lambda: layers.LayerNorm((6, 4), bias=False),
    "LayerNorm over channels": lambda: layers.LayerNorm(6, feature_axis=1),
    "LayerNorm, no affine": lambda: layers.LayerNorm(4, elementwise_affine=False),
    "RMSNorm": lambda: layers.RMSNorm(4, eps=1e-3),
    "RMSNorm, as in Gemma": lambda: layers.RMSNorm(4, add_unit_offset=True),
    "ScaleNorm": lambda: layers.ScaleNorm(4),
    "AdaLN": lambda: Conditioned(layers.AdaptiveLayerNorm(4, 2)),
    "GroupNorm": lambda: layers.GroupNorm(2, 6),
    "GroupNorm, features last": lambda: layers.GroupNorm(2, 4, feature_axis=-1),
    "InstanceNorm": lambda: layers.InstanceNorm(6, affine=True),
    "BatchNorm": lambda: layers.BatchNorm(6, track_running_stats=False),
    "BatchNorm, features last": lambda: layers.BatchNorm(
        4, track_running_stats=False, feature_axis=-1
    ),
}
EVERY = pytest.mark.parametrize("name", LAYERS)
PARTS = pytest.mark.parametrize("part", [by_hand.PART, 10], ids=["one part", "many parts"])
# Ways to lay numbers out in memory.
LAYOUTS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x,
    lambda x: x.mT.contiguous().mT,
    lambda x: x.movedim(1, -1).contiguous().movedim(-1, 1),
    lambda x: torch.stack([x, -x], dim=-1)[..., 0],  # every second of a larger array
    lambda x: nn.functional.pad(x, (3, 2), value=7.0)[..., 3:-2],  # within a larger array
    lambda x: x[:1].expand(x.shape),
]


def build(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    layer = LAYERS[name]().to(dtype)
    randomize(layer)
    return layer


@pytest.fixture
def formula(monkeypatch):
    """A function that computes something with the formulas alone, and autograd's gradients."""

    def computed(work: Callable[[], Any]) -> Any:
        with monkeypatch.context() as patch:
            for kind in (layers.batch, layers.example, layers.token, layers.conditional):
                patch.setattr(kind, "by_hand", lambda *_, **__: None)
            return work()

    return computed


@pytest.fixture
def calls(monkeypatch):
    """What was normalized by hand."""
    found = []
    original = by_hand._ByHand.apply
    monkeypatch.setattr(by_hand._ByHand, "apply", lambda *a: found.append(a) or original(*a))
    return found


@PARTS
@EVERY
def test_it_is_the_formula_with_all_its_derivatives(name, part, formula, calls, monkeypatch):
    monkeypatch.setattr(by_hand, "PART", part)
    layer = build(name)
    for layout in LAYOUTS:
        x = layout(randn(3, 6, 4))
        calls.clear()
        found = results(layer, x)
        assert calls
        assert_same(found, formula(lambda x=x: results(layer, x)))


@PARTS
@pytest.mark.parametrize("wide", [True, False], ids=["float32 beside it", "alone"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@EVERY
def test_half_precision_is_as_good_as_the_formulas(name, wide, dtype, part, formula, monkeypatch):
    monkeypatch.setattr(by_hand, "PART", part)
    x, c = randn(3, 6, 4).to(dtype), randn(3, 6, 4, seed=1).to(dtype)
    layer = build(name, torch.float32 if wide and name != "AdaLN" else dtype)
    measure = partial(results, layer, x, second=False, cotangent=c)
    found, expected = measure(), formula(measure)
    for key, value in expected.items():
        assert found[key].dtype == value.dtype, key
        unit = torch.finfo(value.dtype if value.dtype == dtype else torch.float32).eps
        limit = 9 * unit * value.double().abs().max()
        assert (found[key].double() - value.double()).abs().max() <= limit, key


def test_g_of_scale_norm_is_divided_before_it_is_rounded_to_half_precision():
    layer, x = layers.ScaleNorm(6).bfloat16(), randn(20, 6).bfloat16()
    y = layer(x).detach().double()
    exact = layer.double()(x.double()).detach()
    assert float((y / exact - 1).abs().max()) <= torch.finfo(torch.bfloat16).eps / 2


def ways(layer: nn.Module, x: Tensor) -> dict[str, Callable[[], Any]]:
    """Ways to differentiate and to map a layer, by torch.func and by autograd."""
    v, xs = randn(*x.shape, seed=5), torch.stack([x, 2 * x, x + 1])
    given = {n: p.detach() for n, p in layer.named_parameters()}
    tangents = {n: randn(*p.shape, seed=6) for n, p in given.items()}
    stacked = {n: torch.stack([p, 2 * p]) for n, p in given.items()}
    cotangents = torch.stack([v, 2 * v, v + 1])

    def f(given: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(layer, given, (x,))

    def loss(given: dict[str, Tensor], x: Tensor) -> Tensor:
        return f(given, x).sin().sum()

    def push(given: dict[str, Tensor], x: Tensor) -> Tensor:
        return jvp(f, (given, x), (tangents, v))[1]

    def each_gradient() -> Any:
        parameters = {n: p.clone().requires_grad_() for n, p in given.items()}
        leaf = x.clone().requires_grad_()
        sources = [leaf, *parameters.values()]
        return torch.autograd.grad(f(parameters, leaf), sources, cotangents, is_grads_batched=True)

    def dual() -> Any:
        with forward_ad.dual_level():
            leaf = forward_ad.make_dual(x.clone().requires_grad_(), v)
            y = f({n: forward_ad.make_dual(p, tangents[n]) for n, p in given.items()}, leaf)
            return forward_ad.unpack_dual(torch.autograd.grad(y.sin().sum(), leaf)[0]).tangent

    both = grad(loss, argnums=(0, 1))
    return {
        "jvp": lambda: push(given, x),
        "jvp of grad": lambda: jvp(both, (given, x), (tangents, v))[1],
        "grad of jvp": lambda: grad(lambda g, x: push(g, x).sin().sum(), (0, 1))(given, x),
        "grad of grad": lambda: grad(lambda x: both(given, x)[1].sin().sum())(x),
        "vjp without gradients": lambda: torch.no_grad()(vjp(f, given, x)[1])(v),
        "hessian": lambda: hessian(loss, 1)(given, x),
        "vmap": lambda: vmap(partial(f, given), 1, 1)(xs.movedim(0, 1)),
        "vmap of jvp": lambda: vmap(partial(push, given))(xs),
        "vmap of grad": lambda: vmap(both, (None, 0))(given, xs),
        "vmap over parameters": lambda: vmap(both, (0, None))(stacked, x),
        "gradients of a batch": each_gradient,
        "dual numbers, then backward": dual,
        "functionalize": lambda: torch.func.functionalize(partial(f, given))(x),
    }


@pytest.mark.filterwarnings("ignore::UserWarning")  # of the slow paths of vmap
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # is_grads_batched imports torch.jit
@PARTS
@EVERY
def test_every_transform_gives_what_it_gives_of_the_formula(name, part, formula, monkeypatch):
    monkeypatch.setattr(by_hand, "PART", part)
    layer, x = build(name), randn(2, 6, 4)
    if name == "LayerNorm, no affine":  # something must have a parameter
        layer = nn.Sequential(layer, nn.Linear(4, 4).double())
    for way, work in ways(layer, x).items():
        found, expected = (_pytree.tree_leaves(result) for result in (work(), formula(work)))
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9, msg=way)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # jvp imports torch.jit
@pytest.mark.parametrize(
    "layer",
    [
        layers.BatchNorm(6),
        layers.InstanceNorm(6, track_running_stats=True),
        *(layers.PowerNorm(4, variant=variant) for variant in ("pn", "pn-v", "authors-code")),
    ],
    ids=repr,
)
def test_forward_mode_in_evaluation(layer):
    layer, x, v = layer.double().eval(), randn(3, 6, 4), randn(3, 6, 4, seed=5)
    expected = jacrev(layer)(x).flatten(3) @ v.flatten()
    torch.testing.assert_close(jvp(layer, (x,), (v,))[1], expected)


@EVERY
def test_it_keeps_x_and_one_number_for_each_statistic(name):
    layer, kept = build(name), []
    x = randn(3, 6, 4).requires_grad_()
    own = {x.data_ptr(), *(p.data_ptr() for p in layer.parameters())}
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        layer(x)
    others = [t for t in kept if t.data_ptr() not in own]
    assert others
    assert sum(t.numel() for t in others) < x.numel()


@pytest.mark.parametrize(
    "layer", [layers.BatchNorm(64), layers.GroupNorm(8, 64), layers.LayerNorm(1024)], ids=str
)
def test_a_step_holds_at_most_three_times_the_memory_of_x(layer):
    runner = benchmark.Runner(layer, *torch.randn(2, 16, 64, 1024), compiled=False)
    runner.step()
    assert runner.memory() < 3.01


class _Other(Tensor):
    """A tensor of somebody else's."""


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        return function(*arguments, **(options or {}))


@pytest.mark.filterwarnings("ignore")  # of torch.jit
def test_the_formula_is_for_what_is_not_plain(calls):
    layer, x = layers.BatchNorm(4, feature_axis=-1), torch.randn(3, 5, 4)
    layer(x)
    assert len(calls) == 1
    layer(x, random_mask(3, 5))
    layer(x.as_subclass(_Other))
    layer(x[:0])
    with _Mode():
        layer(x)
    torch.jit.trace(layer, x, check_trace=False)
    torch.compile(layer, backend="eager", fullgraph=True)(x)
    layer.eval()(x)
    assert len(calls) == 1


def test_numbers_whose_squares_overflow_give_0_and_no_gradient():
    """There the layer gives β, and all that belongs to other tokens stays right. torch's kernels
    give β or NaN, by the number of features; one NaN would reach every gradient of γ."""
    x = randn(2, 6, 4).float()
    large = x.clone()
    large[1] *= 1e20
    for layer in (layers.LayerNorm(4), layers.GroupNorm(2, 6), layers.RMSNorm(4)):
        found, expected = (results(layer, t, second=False) for t in (large, x))
        assert not found["y"][1].any() and not found["grad of x"][1].any()
        assert found["y"][0].equal(expected["y"][0])
        assert all(value.isfinite().all() for value in found.values())


# --- torch's own kernels --------------------------------------------------------------------------


@pytest.fixture
def fused():
    layers.set_fused(True)
    yield
    layers.set_fused(False)


FUSED = {"LayerNorm": (4,), "RMSNorm": (4,), "GroupNorm": (2, 6)}


@pytest.mark.parametrize("name", FUSED)
def test_with_torchs_kernel_the_output_is_torchs_in_every_bit(name, fused, calls):
    layer, theirs = getattr(layers, name)(*FUSED[name]), getattr(nn, name)(*FUSED[name])
    randomize(layer)
    theirs.load_state_dict(layer.state_dict())
    x = randn(3, 6, 4).float()
    assert_equal(*(results(m, x, second=False) for m in (layer, theirs)))
    assert not calls


def test_torchs_kernel_is_for_exactly_torchs_layers(fused, formula, calls):
    x, mask = randn(3, 6, 4).float(), random_mask(3, 4)
    for layer, inputs in (
        (layers.LayerNorm(6, feature_axis=1), ()),
        (layers.RMSNorm(4, add_unit_offset=True), ()),
        (layers.RMSNorm(4, cast_before_weight=True), ()),
        (layers.GroupNorm(2, 4, feature_axis=-1), ()),
        (layers.GroupNorm(2, 6), (mask,)),
        (layers.BatchNorm(6), ()),
    ):
        randomize(layer)
        torch.testing.assert_close(layer(x, *inputs), formula(lambda m=layer, i=inputs: m(x, *i)))
    assert len(calls) == 5


def test_torchs_kernel_is_only_on_request(calls):
    layers.LayerNorm(4)(torch.randn(3, 4))
    assert calls


# --- what takes layers apart or puts others in their place ----------------------------------------


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.LayerNorm(4),
        lambda: layers.GroupNorm(2, 6),
        lambda: layers.BatchNorm(6, momentum=None),
        lambda: layers.InstanceNorm(6, track_running_stats=True),
        lambda: layers.PowerNorm(4),
        lambda: layers.PowerNorm(4, variant="pn-v"),
        lambda: layers.PowerNorm(4, variant="authors-code", warmup_steps=2),
    ],
)
def test_a_training_layer_is_exported_for_batches_of_any_size(make, strict):
    sizes, x = ({0: torch.export.Dim("batch", min=2)},), torch.randn(3, 6, 4)
    program = torch.export.export(make(), (x,), dynamic_shapes=sizes, strict=strict)
    exported, layer = program.module(), make()
    for batch in (3, 7):
        x = torch.randn(batch, 6, 4)
        torch.testing.assert_close(exported(x), layer(x))
    for name, buffer in exported.named_buffers():
        torch.testing.assert_close(buffer, layer.get_buffer(name))


@pytest.mark.parametrize(
    "where, fuse",
    [
        ("torch.fx.experimental.optimization", "fuse"),
        ("torch.ao.quantization.quantize_fx", "fuse_fx"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fuser_of_fx_does_not_leave_our_batch_norm_without_a_word(where, fuse):
    fuse = getattr(importlib.import_module(where), fuse)
    model = nn.Sequential(nn.Conv1d(6, 6, 1), layers.BatchNorm(6)).eval()
    x = torch.randn(3, 6, 4)
    with pytest.warns(UserWarning, match="this BatchNorm stays as it is.*load its state dict"):
        fused = fuse(model)
    torch.testing.assert_close(fused(x), model(x))
    torch.fx.symbolic_trace(model)  # no word where nobody fuses


def test_a_conversion_that_would_forget_the_feature_axis_raises():
    convert = nn.SyncBatchNorm.convert_sync_batchnorm
    converted = convert(nn.Sequential(layers.BatchNorm(6)))
    assert isinstance(converted[0], nn.SyncBatchNorm)
    model = nn.Sequential(layers.BatchNorm(4, feature_axis=-1))
    with pytest.raises(ValueError, match=r"features on axis 1.*got .* with feature_axis=-1"):
        convert(model)
    assert list(model[0].named_children()) == []


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_torchs_table_of_fusers_changes_only_on_request():
    out = run("""
from torch.ao.quantization import fuser_method_mappings as m
table = m._DEFAULT_OP_LIST_TO_FUSER_METHOD
before = len(table)
import normtutor.layers, normtutor.swapping
print(len(table) - before)
import normtutor.layers.fusing
print(len(table) - before)""")
    assert out == "0\n8\n"


def test_without_torch_the_error_says_what_to_install():
    out = run("""
import sys
sys.modules['torch'] = None
try:
    from normtutor import layers
except ModuleNotFoundError as error:
    print(error)""")
    assert 'pip install "normtutor[torch]"' in out
