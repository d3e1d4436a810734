"""The layers under torch's tools: copies, pickles, functional calls, the compiler."""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from functools import partial

import array_api_compat
import pytest
import torch
from layer_checks import (
    APPROXIMATE,
    assert_equal,
    assert_same,
    buffers,
    randn,
    random_mask,
    randomize,
    results,
)
from layer_checks import LAYERS as PLAIN
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from normtutor import layers, norms

# The compiler makes an empty autograd.Function while it traces one, and warns itself of it.
# Inductor's own import uses a deprecated part of torch.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),
]

LAYERS: dict[str, Callable[[], nn.Module]] = PLAIN | {
    "BatchNorm, plain average": lambda: layers.BatchNorm(5, momentum=None),
    "BatchNorm, no statistics kept": lambda: layers.BatchNorm(5, track_running_stats=False),
    "InstanceNorm, statistics kept": lambda: layers.InstanceNorm(5, track_running_stats=True),
    "weight_norm": lambda: layers.weight_norm(nn.Linear(4, 3), dim=1),
    "weight_norm, one length": lambda: layers.weight_norm(nn.Linear(4, 3), dim=None),
}
POWER_NORMS = [n for n in LAYERS if n.startswith("PowerNorm")]
EVERY = pytest.mark.parametrize("name", LAYERS)


def trained(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A layer whose parameters and buffers have left their initial values."""
    torch.manual_seed(0)
    layer = LAYERS[name]().to(dtype)
    randomize(layer)
    results(layer, randn(3, 5, 4, dtype=dtype), second=False)
    return layer


@EVERY
def test_a_copy_goes_on_in_the_same_way_and_on_its_own(name):
    layer = trained(name)
    twin = copy.deepcopy(layer)
    if not name.startswith("weight_norm"):  # which, as torch's, cannot be pickled
        twin = copy.deepcopy(pickle.loads(pickle.dumps(twin)))
    assert repr(twin) == repr(layer)
    before = {n: v.clone() for n, v in layer.state_dict().items()}
    first = results(twin, randn(3, 5, 4, seed=1), second=False)
    assert_equal(dict(layer.state_dict()), before)
    assert_equal(first, results(layer, randn(3, 5, 4, seed=1), second=False))
    layer.load_state_dict(twin.state_dict())


@EVERY
def test_functional_call(name):
    """The parameters and buffers that are passed in are used and moved; the layer's are not."""
    layer, twin = trained(name), trained(name)
    randomize(twin, seed=5)
    given = {n: v.detach().clone() for n, v in twin.state_dict().items()}
    before = {n: v.detach().clone() for n, v in layer.state_dict().items()}
    leaves = {"x": randn(3, 5, 4, seed=1).requires_grad_()}
    leaves |= {n: given[n].requires_grad_() for n, _ in twin.named_parameters()}
    y = torch.func.functional_call(layer, given, (leaves["x"],))
    c = randn(*y.shape)
    grads = torch.autograd.grad((y * c).sum(), list(leaves.values()))
    found = {"y": y.detach()} | {f"grad of {n}": g for n, g in zip(leaves, grads, strict=True)}
    found |= {f"buffer {n}": given[n] for n, _ in twin.named_buffers()}
    assert_same(found, results(twin, leaves["x"], second=False, cotangent=c))
    assert_equal(dict(layer.state_dict()), before)


@pytest.mark.parametrize("name", POWER_NORMS)
def test_in_training_the_buffers_of_power_norm_must_be_arguments(name):
    """As for BatchNorm, and as in the next test."""
    layer = trained(name)
    with pytest.raises(RuntimeError, match="captured Tensor"):
        torch.func.grad(lambda x: layer(x).pow(2).sum())(randn(3, 5, 4))


# So says torch 2.15 before our refusal is reached.
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("name", APPROXIMATE)
def test_vmap_of_a_power_norm_in_training_is_refused(name):
    layer = trained(name)
    parameters, state = torch.func.stack_module_state([layer, layer])

    def call(parameters: dict[str, Tensor], state: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(layer, (parameters, state), (x,))

    x, refused = randn(2, 3, 5, 4), r"does not run under vmap.*pn-v"
    with pytest.raises(NotImplementedError, match=refused):
        torch.func.vmap(layer)(x)
    with pytest.raises(NotImplementedError, match=refused):
        torch.func.vmap(call)(parameters, state, x)


@EVERY
def test_gradient_checkpointing(name):
    """The forward pass runs twice, and statistics may move twice, as with torch's BatchNorm."""
    layer = trained(name)
    twin = copy.deepcopy(layer)
    found, expected = [], []
    for each, results_of, call in (
        (layer, found, partial(checkpoint, layer, use_reentrant=False)),
        (twin, expected, twin),
    ):
        x = randn(3, 5, 4, seed=1).requires_grad_()
        y = call(x)
        y.square().sum().backward()
        results_of += [y, x.grad, *(p.grad for p in each.parameters())]
    torch.testing.assert_close(found[0], expected[0])
    if name in APPROXIMATE:  # as its documentation says: the second pass divides by a later ψ
        assert not torch.allclose(found[1], expected[1])
    else:
        torch.testing.assert_close(found, expected)


@EVERY
@pytest.mark.parametrize("change", ["x", "parameters"])
def test_what_changes_in_place_after_the_call_does_not_reach_the_gradient(name, change):
    """Either the gradient is that of the numbers that were there, or autograd raises."""
    layer = trained(name)
    twin = copy.deepcopy(layer)
    source = randn(3, 5, 4, seed=1).requires_grad_()
    x = source * 1
    expected = torch.autograd.grad(twin(source).square().sum(), source)[0]
    loss = layer(x).square().sum()
    with torch.no_grad():
        for tensor in [x] if change == "x" else layer.parameters():
            tensor.mul_(3)
    try:
        grad = torch.autograd.grad(loss, source)[0]
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        torch.testing.assert_close(grad, expected)


def test_nothing_keeps_a_graph_or_a_past_batch():
    all_layers, past = [trained(name) for name in LAYERS], []
    for layer in all_layers:
        hidden = randn(3, 5, 4).requires_grad_() * 2
        past.append(weakref.ref(hidden))
        layer(hidden).sum().backward()
        del hidden
        for buffer in layer.buffers():
            assert not buffer.requires_grad and buffer.grad_fn is None
    gc.collect()
    assert [name for name, of in zip(LAYERS, past, strict=True) if of() is not None] == []


@pytest.mark.parametrize("name", [n for n in LAYERS if not n.startswith("weight_norm")])
def test_training_under_autocast(name):
    layer, x = trained(name, torch.float32), randn(3, 5, 4).float()
    linear = nn.Linear(4, 4)
    with torch.autocast("cpu", torch.bfloat16):
        hidden = linear(x)
        y = layer(hidden)
    assert hidden.dtype == y.dtype == torch.bfloat16
    y.float().square().sum().backward()
    assert linear.weight.grad.dtype == torch.float32
    assert linear.weight.grad.isfinite().all()
    assert all(b.isfinite().all() for b in layer.buffers())


# --- torch.compile --------------------------------------------------------------------------------


def compiled_is_eager(
    model: nn.Module,
    *,
    mask: bool = False,
    shapes: tuple[tuple[int, ...], ...] = ((3, 5, 4),),
    backend: str = "aot_eager_decomp_partition",
) -> None:
    """Train a model and its compiled copy; raise AssertionError where any number differs.

    The backend parts forward and backward pass as Inductor does, and compiles no C++.
    """
    torch._dynamo.reset()
    model = model.double()
    copied = copy.deepcopy(model)
    compiled = torch.compile(copied, fullgraph=True, backend=backend)
    for step in range(4):
        shape = shapes[step % len(shapes)]
        masks = [random_mask(*shape[:-1], seed=step)] if mask else []
        found: list[dict[str, Tensor]] = []
        for original, used in ((model, model), (copied, compiled)):
            original.train(step != 3)
            x = randn(*shape, seed=step).requires_grad_()
            y = used(x, *masks)
            leaves = {"x": x, **dict(original.named_parameters())}
            grads = torch.autograd.grad((y * randn(*y.shape, seed=50)).sum(), list(leaves.values()))
            values = {"y": y.detach()} | buffers(original)
            found.append(values | {f"grad of {n}": g for n, g in zip(leaves, grads, strict=True)})
            with torch.no_grad():
                for parameter, gradient in zip(original.parameters(), grads[1:], strict=True):
                    parameter -= 0.05 * gradient
        assert_same(found[1], found[0])


def test_a_compiler_does_not_follow_the_look_up_through_every_library(monkeypatch):
    """It would need four times as long, for every reader who compiles a layer."""

    def asked(*arrays):
        raise AssertionError("array_api_compat was asked for the library of a tensor")

    monkeypatch.setattr(array_api_compat, "array_namespace", asked)
    y, _ = norms.layer_norm(torch.randn(3, 4), torch.ones(4), torch.zeros(4))
    assert y.shape == (3, 4)


class Each(nn.Module):
    """Layers one after the other, each on the features last and with the mask, if it takes one."""

    def __init__(self, *all_layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(all_layers)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x) if mask is None else layer(x, mask)
        return x


# To compile takes a second or two, so several formulas are compiled at once.
COMPILED: dict[str, Callable[[], nn.Module]] = {
    "masked": lambda: Each(
        layers.InstanceNorm(4, affine=True, track_running_stats=True, feature_axis=-1),
        layers.PowerNorm(4, warmup_steps=2),
        layers.PowerNorm(4, variant="authors-code", groups=2),
    ),
    "masked, lengths that change": lambda: layers.BatchNorm(4, feature_axis=-1),
    "not masked": lambda: Each(
        layers.BatchNorm(5, momentum=None),
        layers.GroupNorm(1, 5),
        layers.weight_norm(nn.Linear(4, 4), dim=1),
        layers.PowerNorm(4, variant="pn-v"),
        layers.PartialRMSNorm(4, 0.5),
        layers.RMSNorm(4),
        layers.LayerNorm(4),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_training(name):
    shapes = ((3, 5, 4), (3, 7, 4), (3, 6, 4))[: 3 if "change" in name else 1]
    compiled_is_eager(COMPILED[name](), mask=name.startswith("masked"), shapes=shapes)


@pytest.mark.slow
def test_half_precision_is_one_graph():
    torch._dynamo.reset()
    model = nn.Sequential(*(PLAIN[name]() for name in PLAIN)).bfloat16()
    randomize(model)
    twin = copy.deepcopy(model)
    compiled = torch.compile(twin, fullgraph=True, backend="eager")
    x = randn(3, 5, 4, dtype=torch.bfloat16)
    y = model(x)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(compiled(x), y, rtol=1e-2, atol=1e-2)
    assert_equal(buffers(twin), buffers(model))


@pytest.mark.slow
def test_the_compiler_refuses_a_second_derivative():
    torch._dynamo.reset()
    layer = torch.compile(trained("PowerNorm"), backend="aot_eager")
    x = randn(3, 5, 4).requires_grad_()
    with pytest.raises(RuntimeError, match="create_graph=True"):
        torch.autograd.grad(layer(x).sum(), x, create_graph=True)
