"""torch's kernels, the formulas, the backward pass of the book: one cannot tell which one ran."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from layer_checks import (
    ALL,
    APPROXIMATE,
    Conditioned,
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

from normtutor import layers, norms
from normtutor.layers import common

# Each takes x of shape (3, 6, 4); its statistics are of x alone, and no buffer is moved.
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "LayerNorm": lambda: layers.LayerNorm(4),
    "LayerNorm of two axes, no β": lambda: layers.LayerNorm((6, 4), bias=False),
    "LayerNorm over channels": lambda: layers.LayerNorm(6, feature_axis=1),
    "RMSNorm, as in Gemma": lambda: layers.RMSNorm(4, add_unit_offset=True),
    "ScaleNorm": lambda: layers.ScaleNorm(4),
    "PartialRMSNorm": lambda: layers.PartialRMSNorm(4, 0.5),
    "AdaLN": lambda: Conditioned(layers.AdaptiveLayerNorm(4, 2)),
    "GroupNorm": lambda: layers.GroupNorm(2, 6),
    "InstanceNorm": lambda: layers.InstanceNorm(6, affine=True),
    "BatchNorm, features last": lambda: layers.BatchNorm(
        4, track_running_stats=False, feature_axis=-1
    ),
}
EVERY = pytest.mark.parametrize("name", LAYERS)
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


def by_formula(work: Callable[[], Any]) -> Any:
    """Compute something with the formulas alone, and autograd's gradients."""
    with layers.formulas():
        return work()


@pytest.fixture
def called(monkeypatch):
    """Which formulas run, and "by hand" for the backward pass of the book."""
    found: list[str] = []

    def watch(name: str) -> None:
        original = getattr(norms, name)
        monkeypatch.setattr(norms, name, lambda *a, **k: found.append(name) or original(*a, **k))

    for name in ("layer_norm", "rms_norm", "group_norm", "batch_norm", "instance_norm"):
        watch(name)
    original = common.ByHand.apply
    monkeypatch.setattr(common.ByHand, "apply", lambda *a: found.append("by hand") or original(*a))
    return found


@EVERY
def test_it_is_the_formula_with_all_its_derivatives(name, monkeypatch):
    layer = build(name)
    for layout in LAYOUTS:
        x = layout(randn(3, 6, 4))
        expected = by_formula(lambda x=x: results(layer, x))
        for part in (common.PART, 10):  # at once, and part by part
            monkeypatch.setattr(common, "PART", part)
            assert_same(results(layer, x), expected)


@pytest.mark.parametrize("masked", [False, True], ids=["all tokens", "masked"])
@pytest.mark.parametrize("name", ALL)
def test_values_gradients_and_dtypes_are_those_of_the_formula_with_and_without_a_mask(name, masked):
    axis = 1 if name.startswith(("Batch", "Instance", "Group")) or "channels" in name else -1
    x = randn(3, 5, 4, dtype=torch.float32)
    mask = [random_mask(*(3, 4) if axis == 1 else (3, 5))] if masked else []
    if masked:
        x.movedim(axis, -1)[~mask[0]] = torch.nan
    if masked and isinstance(ALL[name](), Conditioned):
        return  # its condition is taken from x
    found = []
    for work in (lambda run: run(), by_formula):
        layer = ALL[name]()
        randomize(layer)
        for training in (True, False):
            layer.train(training)
            second = training and name not in APPROXIMATE
            found.append(work(lambda m=layer, s=second: results(m, x, *mask, second=s)))
    for ours, expected in zip(found[:2], found[2:], strict=True):
        assert_same(ours, expected)
        if masked:
            hidden = ~mask[0]
            rows = ours["y"].movedim(axis, -1), ours["grad of x"].movedim(axis, -1)
            assert not any(row[hidden].any() for row in rows)


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
@EVERY
def test_every_transform_gives_what_it_gives_of_the_formula(name):
    """In forward-mode differentiation the formula itself runs: of torch 2.13's LayerNorm, BatchNorm
    and InstanceNorm the gradient of a forward derivative is wrong, without an error."""
    layer, x = build(name), randn(2, 6, 4)
    for way, work in ways(layer, x).items():
        found, expected = (_pytree.tree_leaves(result) for result in (work(), by_formula(work)))
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


def test_torchs_kernel_runs_exactly_where_it_computes_what_the_layer_does(called):
    x, tokens, mask = randn(3, 6, 4).float(), randn(3, 4).float(), random_mask(3, 4)
    for layer in (
        layers.LayerNorm(4),
        layers.LayerNorm(6, feature_axis=1),
        layers.GroupNorm(2, 6),
        layers.GroupNorm(2, 4, feature_axis=-1),
        layers.BatchNorm(6),
        layers.BatchNorm(6).eval(),
        layers.InstanceNorm(6),
    ):
        layer(x)
        assert called == []
        by_formula(lambda layer=layer: layer(x))
        assert len(called) == 1
        called.clear()
    for layer, name in (
        (layers.GroupNorm(2, 6), "group_norm"),
        (layers.BatchNorm(6), "batch_norm"),
        (layers.InstanceNorm(6), "instance_norm"),
        (layers.LayerNorm(6, feature_axis=1), None),  # whose mask changes no statistic
    ):
        layer(x, mask)
        assert called == ([name] if name else [])
        called.clear()
    rms = layers.RMSNorm(4)
    rms(tokens)
    assert called == ["by hand", "rms_norm"]
    called.clear()
    with torch.no_grad():
        rms(tokens)  # torch's function
    torch.compile(rms, backend="eager", fullgraph=True)(tokens)
    assert called == []


@pytest.mark.parametrize("name", ["LayerNorm", "GroupNorm", "BatchNorm", "InstanceNorm"])
def test_with_torchs_kernel_the_output_is_torchs_in_every_bit(name):
    arguments = {"LayerNorm": (4,), "GroupNorm": (2, 6)}.get(name, (6,))
    theirs = getattr(nn, name if name in ("LayerNorm", "GroupNorm") else f"{name}1d")(*arguments)
    layer = getattr(layers, name)(*arguments)
    x = randn(3, 6, 4).float()
    assert_same(results(layer, x), results(theirs, x), factor=0)


def test_the_context_ends_with_its_block_and_after_an_error():
    with pytest.raises(ZeroDivisionError), layers.formulas():
        with layers.formulas():
            pass
        assert common.only_formula()
        raise ZeroDivisionError
    assert not common.only_formula()


def test_the_backward_pass_of_the_book_holds_little():
    """Of RMSNorm at most four times the memory of x, in a step; autograd's gradient takes six."""
    layer = layers.RMSNorm(1024)
    x, grad_y = torch.randn(2, 16, 256, 1024)
    step = benchmark.training_step(layer, layer.parameters(), x, grad_y)
    step()
    assert benchmark.peak_bytes(step) < 4.1 * x.nbytes


def test_numbers_whose_squares_overflow_give_0_and_no_gradient_in_the_formulas():
    """There the formula gives β, and all that belongs to other tokens stays right. torch's kernels
    give β or NaN, by the number of features; one NaN would reach every gradient of γ."""
    x = randn(2, 6, 4).float()
    large = x.clone()
    large[1] *= 1e20
    for layer in (layers.LayerNorm(4), layers.GroupNorm(2, 6), layers.RMSNorm(4)):
        found, expected = (
            by_formula(lambda t=t, m=layer: results(m, t, second=False)) for t in (large, x)
        )
        assert not found["y"][1].any() and not found["grad of x"][1].any()
        assert found["y"][0].equal(expected["y"][0])
        assert all(value.isfinite().all() for value in found.values())


# --- what takes layers apart or puts others in their place ----------------------------------------


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize(
    "make, strict",
    [
        (lambda: layers.BatchNorm(6, momentum=None), False),
        (lambda: layers.PowerNorm(4), True),
        (lambda: layers.PowerNorm(4, variant="authors-code", warmup_steps=2), False),
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
