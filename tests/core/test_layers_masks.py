"""Masks: a masked batch gives what its real tokens alone would give, whatever stands elsewhere."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_checks import assert_equal, assert_same, randn, random_mask, randomize, results
from torch import Tensor, nn

from normtutor import layers

# How to build each with four features, and whether its statistics belong to one example.
LAYERS: dict[str, tuple[Any, bool]] = {
    "BatchNorm": (lambda **k: layers.BatchNorm(4, **k), False),
    "BatchNorm, plain average": (lambda **k: layers.BatchNorm(4, momentum=None, **k), False),
    "BatchNorm, no statistics kept": (
        lambda **k: layers.BatchNorm(4, track_running_stats=False, **k),
        False,
    ),
    "InstanceNorm": (lambda **k: layers.InstanceNorm(4, affine=True, **k), True),
    "GroupNorm": (lambda **k: layers.GroupNorm(2, 4, **k), True),
    "PowerNorm": (lambda **k: layers.PowerNorm(4, **k), False),
    "PowerNorm, warm-up": (lambda **k: layers.PowerNorm(4, warmup_steps=2, **k), False),
    "PowerNorm-V": (lambda **k: layers.PowerNorm(4, variant="pn-v", **k), False),
    "PowerNorm, authors' code": (
        lambda **k: layers.PowerNorm(
            4, variant="authors-code", groups=2, warmup_steps=2, nu_counts_padding=False, **k
        ),
        False,
    ),
}
EVERY = pytest.mark.parametrize("name", LAYERS)


def build(name: str, dtype: torch.dtype = torch.float64, feature_axis: int = -1) -> nn.Module:
    layer = LAYERS[name][0](feature_axis=feature_axis).to(dtype)
    randomize(layer)
    return layer


def has_second_gradient(layer: nn.Module) -> bool:
    return not isinstance(layer, layers.PowerNorm) or layer.variant == "pn-v"


class Gathered:
    """The same layer without a mask, on the real tokens alone, gathered into one dense array."""

    def __init__(self, layer: nn.Module, *, one_by_one: bool) -> None:
        self.layer, self.one_by_one = layer, one_by_one

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return self.layer.named_parameters()

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        return self.layer.named_buffers()

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        if not self.one_by_one:
            return y.masked_scatter(mask[..., None], self.layer(x[mask]))
        rows = []
        for example, real in zip(x, mask, strict=True):
            one = self.layer(example[real][None])[0]
            rows.append(torch.zeros_like(example).masked_scatter(real[:, None], one))
        return torch.stack(rows)


@EVERY
@settings(max_examples=12)
@given(data=st.data())
def test_the_masked_layer_is_the_layer_on_the_real_tokens(name, data):
    batch, length = data.draw(st.integers(1, 3)), data.draw(st.integers(2, 5))
    layer = build(name)
    plain = Gathered(copy.deepcopy(layer), one_by_one=LAYERS[name][1])
    for step in range(3):
        bits = data.draw(st.lists(st.booleans(), min_size=batch * length, max_size=batch * length))
        mask = torch.tensor(bits).reshape(batch, length)
        mask[:, :2] = True
        x = 2 * randn(batch, length, 4, seed=step) + step
        # Statistics of two tokens are sensitive: compare at a tolerance that allows for it.
        second = has_second_gradient(layer)
        found = results(layer, x, mask, second=second)
        expected = results(plain, x, mask, second=second)
        assert_same(found, expected, factor=1e3 if second else 10)
        assert not found["y"][~mask].any()
        assert not found["grad of x"][~mask].any()


@EVERY
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("junk", [float("nan"), float("inf"), -float("inf"), 1e30, 0.0])
def test_what_stands_at_masked_positions_never_matters(name, junk, training):
    """Not in x, and not in the gradient that arrives from above: bit for bit the same."""
    layer = build(name).train(training)
    other = copy.deepcopy(layer)
    mask = random_mask(3, 5, seed=2)
    for step in range(3):
        x, c = randn(3, 5, 4, seed=step), randn(3, 5, 4, seed=7 + step)
        spoiled, above = x.clone(), c.clone()
        spoiled[~mask] = junk
        above[~mask] = junk
        second = not training or has_second_gradient(layer)
        found = results(other, spoiled, mask, second=second, cotangent=above)
        assert_equal(found, results(layer, x, mask, second=second, cotangent=c))
        for key in found:
            assert found[key].isfinite().all(), key
        assert not found["y"][~mask].any()
        assert not found["grad of x"][~mask].any()


@EVERY
def test_the_junk_would_be_noticed(name):
    """The test above can fail: without the mask, one NaN spoils more than its own token."""
    layer = build(name)
    x = randn(3, 5, 4)
    x[0, 1] = float("nan")
    found = results(layer, x, second=False)
    assert not all(value.isfinite().all() for key, value in found.items() if key != "y")


@EVERY
@pytest.mark.parametrize("training", [True, False])
def test_a_mask_that_is_true_everywhere_changes_nothing(name, training):
    layer = build(name).train(training)
    other = copy.deepcopy(layer)
    x = randn(3, 5, 4)
    mask = torch.ones(3, 5, dtype=torch.bool)
    assert_same(results(layer, x, mask, second=False), results(other, x, second=False))


@EVERY
def test_a_batch_without_a_real_token_counts_and_changes_nothing_else(name):
    layer = build(name)
    for x, mask in [
        (randn(3, 5, 4), torch.zeros(3, 5, dtype=torch.bool)),
        (torch.full((3, 5, 4), torch.nan).double(), torch.zeros(3, 5, dtype=torch.bool)),
        (torch.empty(0, 5, 4).double(), torch.empty(0, 5, dtype=torch.bool)),
        (torch.empty(3, 0, 4).double(), torch.empty(3, 0, dtype=torch.bool)),
        (torch.empty(0, 5, 4).double(), None),
    ]:
        before = {n: b.clone() for n, b in layer.named_buffers()}
        found = results(layer, x, mask, second=False)
        assert found["y"].shape == x.shape
        assert not found["y"].any()
        assert not any(value.any() for key, value in found.items() if key.startswith("grad"))
        if "num_batches_tracked" in before:
            assert layer.num_batches_tracked == before.pop("num_batches_tracked") + 1
        for key, value in before.items():
            assert dict(layer.named_buffers())[key].equal(value), key


@EVERY
@pytest.mark.parametrize("shape", [(3, 5, 4), (2, 3, 5, 4)], ids=["sequences", "images"])
def test_the_feature_axis_is_a_transposition(name, shape):
    last, first = build(name), build(name, feature_axis=1)
    for step in range(3):
        x, mask = randn(*shape, seed=step), random_mask(*shape[:-1], seed=step)
        c = randn(*shape, seed=step + 50)
        found = results(first, x.movedim(-1, 1), mask, second=False, cotangent=c.movedim(-1, 1))
        expected = results(last, x, mask, second=False, cotangent=c)
        for key in ("y", "grad of x"):
            found[key] = found[key].movedim(1, -1)
        assert_same(found, expected)


@EVERY
def test_half_precision_with_a_mask(name):
    layer = build(name, torch.float32)
    exact = copy.deepcopy(layer).double()
    x, mask = randn(3, 5, 4).half(), random_mask(3, 5, seed=1)
    x[~mask] = torch.inf
    y = layer(x, mask)
    assert y.dtype == torch.float16
    torch.testing.assert_close(y.double(), exact(x.double(), mask), rtol=2e-3, atol=2e-3)
    for key, value in exact.named_buffers():
        found = dict(layer.named_buffers())[key]
        torch.testing.assert_close(found.to(value.dtype), value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("training", [True, False])
def test_two_axes_are_tokens_for_batch_norm_and_positions_for_instance_norm(training):
    x, mask = randn(6, 4), torch.tensor([True, True, False, True, False, True])
    batch = build("BatchNorm").train(training)
    lone = copy.deepcopy(batch)
    torch.testing.assert_close(batch(x, mask)[mask], lone(x[mask]))
    instance = build("InstanceNorm").train(training)
    torch.testing.assert_close(instance(x, mask)[mask], instance(x[mask]))
    other = build("InstanceNorm", feature_axis=1).train(training)  # (C, L), as torch has it
    torch.testing.assert_close(other(x.T, mask).T, instance(x, mask))


def test_batch_norms_running_variance_is_unbiased_over_the_real_tokens():
    x, mask = randn(3, 5, 4), random_mask(3, 5, seed=3)
    layer = layers.BatchNorm(4, momentum=1.0, feature_axis=-1).double()
    layer(x, mask)
    torch.testing.assert_close(layer.running_mean, x[mask].mean(0))
    torch.testing.assert_close(layer.running_var, x[mask].var(0))


def test_instance_norms_running_statistics_average_over_the_examples_that_have_tokens():
    x = randn(4, 5, 4)
    mask = random_mask(4, 5, seed=3)
    mask[2] = False
    layer = layers.InstanceNorm(4, momentum=0.3, track_running_stats=True, feature_axis=-1).double()
    layer(x, mask)
    real = [example[m] for example, m in zip(x, mask, strict=True) if m.any()]
    mean = torch.stack([example.mean(0) for example in real]).mean(0)
    variance = torch.stack([example.var(0) for example in real]).mean(0)
    torch.testing.assert_close(layer.running_mean, 0.3 * mean)
    torch.testing.assert_close(layer.running_var, 0.7 + 0.3 * variance)


def test_padding_moves_batch_norm_as_the_closed_form_says_and_the_mask_undoes_it():
    """A share p of zeros: mean (1 − p)μ, variance (1 − p)σ² + p(1 − p)μ²."""
    x = 2 * randn(4, 5, 4) + 3
    padded = torch.cat([x, torch.zeros(4, 3, 4).double()], dim=1)
    mask = torch.cat([torch.ones(4, 5), torch.zeros(4, 3)], dim=1).bool()
    p, mean, variance = 3 / 8, x.mean((0, 1)), x.var((0, 1), correction=0)
    layer = layers.BatchNorm(4, momentum=1.0, feature_axis=-1).double()
    layer(padded)
    torch.testing.assert_close(layer.running_mean, (1 - p) * mean)
    biased = layer.running_var * 31 / 32
    torch.testing.assert_close(biased, (1 - p) * variance + p * (1 - p) * mean**2)
    layer(padded, mask)
    torch.testing.assert_close(layer.running_mean, mean)


@pytest.mark.filterwarnings("ignore:the mask hides:UserWarning")
def test_one_real_token_has_no_variance():
    x, mask = randn(3, 5, 4), torch.zeros(3, 5, dtype=torch.bool)
    mask[1, 2] = True
    layer = build("BatchNorm")
    with pytest.raises(ValueError, match="with one real token"):
        layer(x, mask)
    assert layer.eval()(x, mask).shape == x.shape
    with pytest.raises(ValueError, match="with one real token"):
        build("BatchNorm, no statistics kept").eval()(x, mask)


@EVERY
def test_a_mask_of_the_wrong_kind_raises(name):
    layer, x = build(name), randn(3, 5, 4)
    for dtype in (torch.float32, torch.int64, torch.uint8):
        with pytest.raises(TypeError, match=f"mask must be boolean.*got dtype {dtype}"):
            layer(x, torch.ones(3, 5, dtype=dtype))
    for shape in [(5, 3), (3,), (3, 5, 4), (3, 5, 1), (1, 5), (15,), ()]:
        with pytest.raises(ValueError, match=r"mask must have x's shape without its feature axis"):
            layer(x, torch.ones(shape, dtype=torch.bool))
    images = build(name, feature_axis=1)
    with pytest.raises(ValueError, match=r"\(2, 3, 5\) for x of shape \(2, 4, 3, 5\)"):
        images(randn(2, 4, 3, 5), torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(TypeError):
        layer(x, torch.ones(3, 5, dtype=torch.bool).numpy())
    with pytest.raises(RuntimeError):
        layer(x, torch.ones(3, 5, dtype=torch.bool, device="meta"))


@EVERY
def test_x_and_mask_stay_as_they_were(name):
    layer, x, mask = build(name), randn(3, 5, 4), random_mask(3, 5)
    x[~mask] = torch.nan
    before = x.clone(), mask.clone()
    results(layer, x, mask, second=False)
    torch.testing.assert_close(x, before[0], rtol=0, atol=0, equal_nan=True)
    assert mask.equal(before[1])


@EVERY
def test_a_mask_changed_between_forward_and_backward_raises(name):
    layer, mask = build(name), random_mask(3, 5)
    x = randn(3, 5, 4).requires_grad_()
    y = layer(x, mask)
    mask.logical_not_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_the_bitwise_comparison_notices_one_bit():
    x = torch.tensor([1.0, torch.nan])
    assert_equal({"y": x}, {"y": x.clone()})
    nearly = x.clone()
    nearly[0] = torch.nextafter(x[0], torch.tensor(2.0))
    for other in ({"y": nearly}, {"y": x.double()}, {"z": x}, {}):
        with pytest.raises(AssertionError):
            assert_equal({"y": x}, other)


def test_padding_reaches_nu_of_the_published_code_and_nothing_else_at_once():
    """Its ν averages over padding too: the one difference that nu_counts_padding makes."""
    counted, left_out = (
        layers.PowerNorm(4, variant="authors-code", nu_counts_padding=counts).double()
        for counts in (True, False)
    )
    mask = random_mask(3, 5, seed=2)
    for layer in (counted, left_out):
        randomize(layer)
        layer.nu.fill_(0.3)
    found, expected = (
        results(layer, randn(3, 5, 4), mask, second=False) for layer in (counted, left_out)
    )
    assert not torch.allclose(found.pop("buffer nu"), expected.pop("buffer nu"))
    assert_same(found, expected)
    assert "nu_counts_padding=False" in repr(left_out)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_an_inverted_mask_is_warned_of(dtype):
    mask = torch.arange(5) < torch.tensor([5, 3, 1])[:, None]
    layer, x = layers.BatchNorm(4, feature_axis=-1, dtype=dtype), randn(3, 5, 4, dtype=dtype)
    layer(x, mask)
    layer(x, mask.flip(1))  # padded on the left
    layer(x, torch.arange(5) >= torch.tensor([1, 1, 2])[:, None])  # and by more than is needed
    with pytest.warns(UserWarning, match=r"probably inverted.*~mask"):
        layer(x, ~mask)
