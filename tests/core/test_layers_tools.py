"""The layers under torch's tools: copies, pickles, dtypes, functional calls, the compiler."""

import copy
import io
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch._inductor.config
from layer_checks import assert_equal, assert_same, randn, random_mask, randomize, results
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.utils.checkpoint import checkpoint

from normtutor import layers, tracing

# The compiler makes an empty autograd.Function while it traces one, and warns itself of it.
# Inductor's own import uses a deprecated part of torch.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),
]

# Each takes x of shape (3, 5, 4).
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "BatchNorm": lambda: layers.BatchNorm(5),
    "BatchNorm, plain average": lambda: layers.BatchNorm(5, momentum=None),
    "BatchNorm, no statistics kept": lambda: layers.BatchNorm(5, track_running_stats=False),
    "InstanceNorm": lambda: layers.InstanceNorm(5, affine=True),
    "InstanceNorm, statistics kept": lambda: layers.InstanceNorm(5, track_running_stats=True),
    "GroupNorm": lambda: layers.GroupNorm(1, 5),
    "LayerNorm": lambda: layers.LayerNorm(4),
    "RMSNorm": lambda: layers.RMSNorm((5, 4)),
    "PartialRMSNorm": lambda: layers.PartialRMSNorm(4, 0.5),
    "PowerNorm": lambda: layers.PowerNorm(4, warmup_steps=2),
    "PowerNorm-V": lambda: layers.PowerNorm(4, variant="pn-v"),
    "PowerNorm, authors' code": lambda: layers.PowerNorm(
        4, variant="authors-code", groups=2, warmup_steps=2
    ),
    "weight_norm": lambda: layers.weight_norm(nn.Linear(4, 3), dim=1),
    "weight_norm, one length": lambda: layers.weight_norm(nn.Linear(4, 3), dim=None),
}
APPROXIMATE = ["PowerNorm", "PowerNorm, authors' code"]
EVERY = pytest.mark.parametrize("name", LAYERS)


def trained(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A layer whose parameters and buffers have left their initial values."""
    torch.manual_seed(0)
    layer = LAYERS[name]().to(dtype)
    randomize(layer)
    results(layer, randn(3, 5, 4, dtype=dtype), second=False)
    return layer


def from_bytes(layer: nn.Module) -> nn.Module:
    stream = io.BytesIO()
    torch.save(layer, stream)
    stream.seek(0)
    return torch.load(stream, weights_only=False)


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda layer: pickle.loads(pickle.dumps(layer)),
    "torch.save": from_bytes,
    "deepcopy of a pickle": lambda layer: copy.deepcopy(pickle.loads(pickle.dumps(layer))),
    "pickle of a deepcopy": lambda layer: pickle.loads(pickle.dumps(copy.deepcopy(layer))),
}


@EVERY
@pytest.mark.parametrize("how", COPIES)
def test_a_copy_goes_on_in_the_same_way_and_on_its_own(name, how):
    layer = trained(name)
    twin = COPIES[how](layer)
    assert type(twin).__name__ == type(layer).__name__
    assert repr(twin) == repr(layer)
    assert list(twin.state_dict()) == list(layer.state_dict())
    before = {n: v.clone() for n, v in layer.state_dict().items()}
    first = results(twin, randn(3, 5, 4, seed=1), second=False)
    for key, value in layer.state_dict().items():
        assert value.equal(before[key]), key
    assert_equal(first, results(layer, randn(3, 5, 4, seed=1), second=False))
    layer.load_state_dict(twin.state_dict())
    twin.eval()
    assert layer.training


def test_pickles_open_in_another_process(tmp_path):
    x = randn(3, 5, 4, seed=1)
    found = [trained(name).eval() for name in LAYERS]
    model = nn.Sequential(nn.Conv1d(5, 5, 1), nn.ReLU(), nn.Flatten(), nn.Linear(20, 2)).double()
    layers.weight_norm(model[0])
    layers.weight_norm(model[3]).load_state_dict(model[3].state_dict())
    found.append(model)
    (tmp_path / "layers.pickle").write_bytes(pickle.dumps((found, x, [f(x) for f in found])))
    code = (
        "import pickle, sys, torch\n"
        "found, x, expected = pickle.load(open(sys.argv[1], 'rb'))\n"
        "for layer, y in zip(found, expected, strict=True):\n"
        "    torch.testing.assert_close(layer(x), y, rtol=0, atol=0)\n"
        "    layer.load_state_dict(layer.state_dict())\n"
        "    layer.train()(x.requires_grad_()).sum().backward()\n"
        "    pickle.loads(pickle.dumps(layer))\n"
        "print(len(found))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "layers.pickle")],
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{len(LAYERS) + 1}\n"


@EVERY
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_to_another_dtype(name, dtype):
    layer = trained(name).to(dtype)
    for key, value in layer.state_dict().items():
        integer = key.endswith("num_batches_tracked")
        assert value.dtype == (torch.int64 if integer else dtype), key
    found = results(layer, randn(3, 5, 4).to(dtype), second=False)
    assert found["y"].dtype == dtype
    back = layer.double()
    assert results(back, randn(3, 5, 4), second=False)["y"].dtype == torch.float64


@EVERY
def test_to_another_device(name):
    layer = trained(name).to("meta")
    assert {v.device.type for v in layer.state_dict().values()} == {"meta"}
    layer = layer.to_empty(device="cpu")
    if not name.startswith("weight_norm"):
        layer.reset_parameters()
        fresh = LAYERS[name]().double()
        assert_equal(dict(layer.state_dict()), dict(fresh.state_dict()))


@EVERY
def test_functional_call(name):
    """The parameters and buffers that are passed in are used and moved; the layer's are not."""
    layer, twin = trained(name), trained(name)
    randomize(twin, seed=5)
    state = {n: v.detach().clone() for n, v in layer.state_dict().items()}
    given = {n: v.detach().clone() for n, v in twin.state_dict().items()}
    parameters = [n for n, _ in twin.named_parameters()]
    for n in parameters:
        given[n].requires_grad_()
    x, c = randn(3, 5, 4, seed=1).requires_grad_(), randn(3, 5, layer(randn(3, 5, 4)).shape[-1])
    state = {n: v.detach().clone() for n, v in layer.state_dict().items()}
    y = torch.func.functional_call(layer, given, (x,))
    grads = torch.autograd.grad((y * c).sum(), [x, *[given[n] for n in parameters]])
    expected = results(twin, x, second=False, cotangent=c)
    names = ["grad of x", *[f"grad of {n}" for n in parameters]]
    found = dict(zip(["y", *names], [y, *grads], strict=True))
    found |= {f"buffer {n}": given[n] for n, _ in twin.named_buffers()}
    assert_same({n: v.detach() for n, v in found.items()}, expected)
    for key, value in layer.state_dict().items():
        assert value.equal(state[key]), key


TORCHS: list[tuple[Callable[[], nn.Module], Callable[[], nn.Module]]] = [
    (lambda: nn.LayerNorm(4), lambda: layers.LayerNorm(4)),
    (lambda: nn.RMSNorm(4), lambda: layers.RMSNorm(4)),
    (lambda: nn.GroupNorm(1, 5), lambda: layers.GroupNorm(1, 5)),
    (lambda: nn.InstanceNorm1d(5, affine=True), lambda: layers.InstanceNorm(5, affine=True)),
    (
        lambda: nn.BatchNorm1d(5, track_running_stats=False),
        lambda: layers.BatchNorm(5, track_running_stats=False),
    ),
    (lambda: nn.BatchNorm1d(5).eval(), lambda: layers.BatchNorm(5).eval()),
]


@pytest.mark.parametrize("theirs, ours", TORCHS, ids=lambda make: type(make()).__name__)
def test_function_transforms(theirs, ours):
    """Gradients of each example, and directional derivatives of a gradient, as torch's layer.

    They also show that nothing asks for a value that a transform does not have.
    """
    theirs, ours = theirs().double(), ours().double()
    randomize(theirs)
    ours.load_state_dict(theirs.state_dict())
    x, v = randn(3, 2, 5, 4), randn(2, 5, 4, seed=1)
    found = []
    for layer in (ours, theirs):
        buffers = dict(layer.named_buffers())

        def loss(
            parameters: dict[str, Tensor],
            x: Tensor,
            layer: nn.Module = layer,
            buffers: dict[str, Tensor] = buffers,
        ) -> Tensor:
            return (torch.func.functional_call(layer, (parameters, buffers), (x,)) ** 3).sum()

        parameters = {n: p.detach() for n, p in layer.named_parameters()}
        of_each = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, x)
        grad_x = torch.func.grad(loss, argnums=1)
        of_each["of x"] = torch.func.vmap(grad_x, (None, 0))(parameters, x)
        along = torch.func.vjp(partial(grad_x, parameters), x[0])[1](v)[0]
        of_each["second, of x"] = along
        found.append(of_each)
    assert_same(*found, factor=10)


@pytest.mark.parametrize("name", [n for n in LAYERS if n.startswith("PowerNorm")])
def test_power_norm_under_function_transforms(name):
    """In evaluation everywhere; in training where the buffers are arguments, as for BatchNorm."""
    x = randn(3, 5, 4)
    layer = trained(name)
    state = {n: v.detach().clone() for n, v in layer.state_dict().items()}
    with pytest.raises(RuntimeError, match="captured Tensor"):
        torch.func.grad(lambda x: layer(x).pow(2).sum())(x)
    for training in (True, False):
        layer.load_state_dict(state)
        layer.train(training)
        given = {n: v.clone() for n, v in state.items()}
        grad = torch.func.grad(
            lambda x, given: torch.func.functional_call(layer, given, (x,)).pow(2).sum()
        )(x, given)
        source = x.clone().requires_grad_()
        layer(source).pow(2).sum().backward()
        torch.testing.assert_close(grad, source.grad)
        torch.testing.assert_close(given, dict(layer.state_dict()))
    layer.eval()
    each = torch.func.vmap(layer)(torch.stack([x, 2 * x]))
    torch.testing.assert_close(each, torch.stack([layer(x), layer(2 * x)]))


@pytest.mark.parametrize("mask", [False, True], ids=["dense", "masked"])
@pytest.mark.parametrize("shared", [False, True], ids=["own weights", "one weight for all"])
@pytest.mark.parametrize("name", [n for n in LAYERS if n.startswith("PowerNorm")])
def test_an_ensemble_of_power_norms_trains_under_vmap(name, shared, mask):
    """Members whose parameters and statistics are stacked do what each does alone."""
    members = [trained(name) for _ in range(3)]
    for seed, member in enumerate(members):
        randomize(member, 0 if shared else seed)
        results(member, randn(3, 5, 4, seed=40 + seed), second=False)
    parameters, buffers = torch.func.stack_module_state(members)
    parameters = {n: p.detach() for n, p in parameters.items()}
    if shared:
        parameters = {n: p[0] for n, p in parameters.items()}
    x = randn(3, 3, 5, 4, seed=9)
    masks = torch.stack([random_mask(3, 5, seed=s) for s in range(3)])
    base = copy.deepcopy(members[0])

    def loss(
        parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor, real: Tensor
    ) -> Tensor:
        arguments = (x, real) if mask else (x,)
        return torch.func.functional_call(base, (parameters, buffers), arguments).pow(3).sum()

    grads = torch.func.vmap(
        torch.func.grad(loss, argnums=(0, 2)), (None if shared else 0, 0, 0, 0)
    )(parameters, buffers, x, masks)
    for i, member in enumerate(members):
        found = {f"grad of {n}": g[i] for n, g in grads[0].items()} | {"grad of x": grads[1][i]}
        source = x[i].clone().requires_grad_()
        member.zero_grad()
        member(source, *([masks[i]] if mask else [])).pow(3).sum().backward()
        expected = {f"grad of {n}": p.grad for n, p in member.named_parameters()}
        assert_same(found, expected | {"grad of x": source.grad})
        assert_same({n: b[i] for n, b in buffers.items()}, dict(member.named_buffers()))

    # And the other way round: vmap within, the gradient of the sum outside.
    leaf = x.clone().requires_grad_()
    weights = {n: p.clone().requires_grad_() for n, p in parameters.items()}
    state = {n: b.clone() for n, b in buffers.items()}
    total = torch.func.vmap(loss, (None if shared else 0, 0, 0, 0))(weights, state, leaf, masks)
    total.sum().backward()
    for i, member in enumerate(members):
        source = x[i].clone().requires_grad_()
        member.zero_grad()
        member(source, *([masks[i]] if mask else [])).pow(3).sum().backward()
        torch.testing.assert_close(leaf.grad[i], source.grad)
        assert_same({n: b[i] for n, b in state.items()}, dict(member.named_buffers()))
    for n, weight in weights.items():
        each = [dict(member.named_parameters())[n].grad for member in members]
        torch.testing.assert_close(weight.grad, sum(each) if shared else torch.stack(each))


@pytest.mark.parametrize("name", APPROXIMATE)
def test_vmap_with_one_statistic_for_all_is_refused(name):
    layer = trained(name)
    with pytest.raises(ValueError, match="stack_module_state"):
        torch.func.vmap(layer)(randn(2, 3, 5, 4))


@pytest.mark.parametrize("name", APPROXIMATE)
@pytest.mark.parametrize("loss", [lambda x, y: (x + y).square().sum(), lambda x, y: y.sum()])
def test_the_compiler_refuses_a_second_derivative(name, loss):
    torch._dynamo.reset()
    layer = torch.compile(trained(name), backend="aot_eager")
    x = randn(3, 5, 4).requires_grad_()
    with pytest.raises(RuntimeError, match="create_graph=True"):
        torch.autograd.grad(loss(x, layer(x)), x, create_graph=True)


@EVERY
def test_gradient_checkpointing(name):
    """The forward pass runs twice, and statistics may move twice, as with torch's BatchNorm."""
    layer = trained(name)
    twin = copy.deepcopy(layer)
    expected = results(twin, randn(3, 5, 4, seed=1), second=False)
    found = results(_Checkpointed(layer), randn(3, 5, 4, seed=1), second=False)
    assert list(found) == list(expected)
    for key, value in expected.items():
        if key == "y" or (key.startswith("grad") and name not in APPROXIMATE):
            torch.testing.assert_close(found[key], value)
    if name in APPROXIMATE:  # as its documentation says: the second pass divides by a later ψ
        assert not torch.allclose(found["grad of x"], expected["grad of x"])


class _Checkpointed:
    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer
        self.named_parameters, self.named_buffers = layer.named_parameters, layer.named_buffers

    def __call__(self, x: Tensor) -> Tensor:
        return checkpoint(self.layer, x, use_reentrant=False)


@EVERY
def test_what_changes_in_place_after_the_call_does_not_reach_the_gradient(name):
    """Either the gradient is that of the numbers that were there, or autograd raises."""
    for change in ("x", "parameters"):
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


@EVERY
def test_no_graph_is_kept_in_the_buffers(name):
    layer = trained(name)
    layer(randn(3, 5, 4).requires_grad_()).sum().backward()
    for buffer in layer.buffers():
        assert not buffer.requires_grad
        assert buffer.grad_fn is None


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


@EVERY
def test_inference_mode_and_no_grad(name):
    layer = trained(name)
    twin = copy.deepcopy(layer)
    x = randn(3, 5, 4, seed=1)
    with torch.inference_mode():
        y = layer(x)
    with torch.no_grad():
        expected = twin(x)
    assert not y.requires_grad and not expected.requires_grad
    assert y.equal(expected)
    for (key, buffer), other in zip(layer.named_buffers(), twin.buffers(), strict=True):
        assert buffer.equal(other), key
    layer(x.requires_grad_()).sum().backward()  # and training goes on


class Model(nn.Module):
    """A layer that is used twice, between others, in one compiled graph."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 4), layer, nn.Linear(4, 4)

    def forward(self, x: Tensor, *mask: Tensor) -> Tensor:
        return self.norm(self.last(torch.tanh(self.norm(self.first(x), *mask))), *mask)


def compiled_is_eager(
    model: nn.Module,
    *,
    mask: bool = False,
    backend: str = "aot_eager",
    dtype: torch.dtype = torch.float64,
    steps: int = 4,
    two_forwards: bool = False,
    shapes: tuple[tuple[int, ...], ...] = ((3, 5, 4),),
) -> None:
    """Train a model and its compiled copy; raise AssertionError where any number differs."""
    torch._dynamo.reset()
    model = model.to(dtype)
    copied = copy.deepcopy(model)
    pair = (model, torch.compile(copied, fullgraph=True, backend=backend))
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.05, foreach=False) for m in (model, copied)]
    for step in range(steps):
        training = step != steps - 1
        model.train(training)
        copied.train(training)
        shape = shapes[step % len(shapes)]
        found: list[dict[str, Tensor]] = []
        for original, used, optimizer in zip((model, copied), pair, optimizers, strict=True):
            optimizer.zero_grad()
            xs, ys, losses = [], [], []
            for i in range(1 + two_forwards):
                xs.append(randn(*shape, seed=2 * step + i, dtype=dtype).requires_grad_())
                inputs = (random_mask(*shape[:-1], seed=step + i),) if mask else ()
                ys.append(used(xs[-1], *inputs))
                losses.append((ys[-1] * randn(*ys[-1].shape, seed=50 + i, dtype=dtype)).sum())
            for loss in reversed(losses):
                loss.backward()
            values = {f"y {i}": y for i, y in enumerate(ys)}
            values |= {f"grad of x {i}": x.grad for i, x in enumerate(xs)}
            values |= {f"grad of {n}": p.grad for n, p in original.named_parameters()}
            values |= {f"buffer {n}": b for n, b in original.named_buffers()}
            found.append({n: v.detach().clone() for n, v in values.items()})
            optimizer.step()
        assert_same(found[1], found[0])


def test_the_compiler_does_not_recompute_a_buffer_that_has_moved(monkeypatch):
    """The comparison fails for the layer whose ψ is a plain clone of its buffer."""
    compiled_is_eager(layers.PowerNorm(4), steps=2)
    monkeypatch.setattr(layers.power, "_snapshot", lambda buffer: buffer.clone())
    with pytest.raises(AssertionError, match="grad of"):
        compiled_is_eager(layers.PowerNorm(4), steps=2)


# Compiling takes a second or two, so each formula is compiled once, the masked path if it has one.
WITHOUT_MASK = [
    "BatchNorm, plain average",
    "GroupNorm",
    "LayerNorm",
    "RMSNorm",
    "PartialRMSNorm",
    "PowerNorm-V",
    "weight_norm",
]
WITH_MASK: dict[str, Callable[[], nn.Module]] = {
    "BatchNorm": lambda: layers.BatchNorm(4, feature_axis=-1),
    "InstanceNorm": lambda: layers.InstanceNorm(
        4, affine=True, track_running_stats=True, feature_axis=-1
    ),
    "PowerNorm": lambda: layers.PowerNorm(4, warmup_steps=2),
    "PowerNorm, authors' code": lambda: layers.PowerNorm(4, variant="authors-code", groups=2),
}


@pytest.mark.parametrize("name", WITHOUT_MASK)
def test_compiled_training(name):
    compiled_is_eager(LAYERS[name]())


@pytest.mark.parametrize("name", WITH_MASK)
def test_compiled_training_with_a_mask(name):
    compiled_is_eager(WITH_MASK[name](), mask=True)


@EVERY
def test_half_precision_is_one_graph(name):
    torch._dynamo.reset()
    layer = LAYERS[name]().bfloat16()
    randomize(layer)
    twin = copy.deepcopy(layer)
    compiled = torch.compile(twin, fullgraph=True, backend="eager")
    x = randn(3, 5, 4, dtype=torch.bfloat16)
    torch.testing.assert_close(compiled(x), layer(x), rtol=1e-2, atol=1e-2)
    assert_equal(dict(twin.named_buffers()), dict(layer.named_buffers()))


def test_the_compiler_does_not_read_all_modules_to_find_torch(monkeypatch):
    """They are thousands, and took half of the time to compile a layer."""
    torch._dynamo.reset()
    monkeypatch.setattr(tracing, "sys", None)
    layer, x = layers.RMSNorm(4), torch.randn(3, 4)
    torch.compile(layer, fullgraph=True, backend="eager")(x)


def test_compiled_model_that_uses_a_layer_twice():
    compiled_is_eager(Model(layers.PowerNorm(4)), two_forwards=True)


def test_compiled_training_on_lengths_that_change():
    shapes = ((3, 5, 4), (3, 7, 4), (3, 6, 4))
    compiled_is_eager(WITH_MASK["BatchNorm"](), mask=True, shapes=shapes)


def test_compiled_layers_still_refuse_bad_input():
    torch._dynamo.reset()
    compiled = torch.compile(layers.BatchNorm(4), fullgraph=True, backend="aot_eager")
    for shape in [(1, 4), (3, 5)]:
        with pytest.raises(
            Exception, match=r"more than one value per feature|must have 4 features"
        ):
            compiled(torch.randn(shape))


def lengths_summed_in_the_backward_pass(layer: nn.Module, *shape: int) -> list[list[int]]:
    """The lengths of the axes over which compiled code sums what is as large as the input."""
    torch._dynamo.reset()
    graphs: list[torch.fx.GraphModule] = []

    def keep(graph, _):
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    compiled = torch.compile(layer, backend=aot_autograd(fw_compiler=keep, bw_compiler=keep))
    x = randn(*shape).requires_grad_()
    (compiled(x) * randn(*shape, seed=1)).sum().backward()
    found = []
    for node in graphs[-1].graph.nodes:
        if node.op == "call_function" and "sum" in str(node.target):
            summed = node.args[0].meta["val"].shape
            if summed.numel() == x.numel():
                found.append([summed[axis] for axis in node.args[1] if summed[axis] > 1])
    return found


@pytest.mark.parametrize("feature_axis", [1, -1])
@pytest.mark.parametrize(
    "make",
    [
        lambda **k: layers.InstanceNorm(6, affine=True, **k),
        lambda **k: layers.GroupNorm(2, 6, **k),
        lambda **k: layers.GroupNorm(2, 6, affine=False, **k),
    ],
    ids=["InstanceNorm", "two groups", "two groups, no affine"],
)
def test_compiled_statistics_of_examples_sum_over_the_positions_alone(make, feature_axis):
    """Sums over examples or features too would have to read input and gradient once more."""
    layer = make(feature_axis=feature_axis).double()
    shape = (3, 6, 4) if feature_axis == 1 else (3, 4, 6)
    found = lengths_summed_in_the_backward_pass(layer, *shape)
    assert found and all(lengths == [4] for lengths in found), found
    randomize(layer)
    model = nn.Sequential(layer, nn.Linear(shape[-1], 2))
    compiled_is_eager(model, shapes=(shape,))


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler")
def test_compiled_with_inductor():
    """Last, because it takes longest: two graphs of C++, forward and backward."""
    model = nn.Sequential(
        layers.BatchNorm(5), nn.Linear(4, 4), layers.PowerNorm(4, warmup_steps=2), nn.Tanh()
    )
    # To ask the compiler what this processor can do takes as long as to compile. Every PC's of
    # today has AVX2; on others the code is not vectorized.
    known = {"cpp.simdlen": 256, "cpp.vec_isa_ok": True, "compile_threads": 1}
    with torch._inductor.config.patch(known):
        compiled_is_eager(model, backend="inductor", two_forwards=True)
