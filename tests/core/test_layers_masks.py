"""Masks: a masked batch gives what its real tokens alone would give, whatever stands elsewhere."""

import copy
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from layer_checks import assert_equal, assert_same, buffers, randn, random_mask, randomize, results
from torch import Tensor, nn

from normtutor import layers

AUTHORS = {"variant": "authors-code", "groups": 2, "warmup_steps": 2}
# How to build each with four features; the statistics of the last two belong to one example.
LAYERS: dict[str, Callable[..., nn.Module]] = {
    "BatchNorm": partial(layers.BatchNorm, 4),
    "BatchNorm, plain average": partial(layers.BatchNorm, 4, momentum=None),
    "BatchNorm, no statistics kept": partial(layers.BatchNorm, 4, track_running_stats=False),
    "PowerNorm": partial(layers.PowerNorm, 4),
    "PowerNorm, warm-up": partial(layers.PowerNorm, 4, warmup_steps=2),
    "PowerNorm-V": partial(layers.PowerNorm, 4, variant="pn-v"),
    "PowerNorm, authors' code": partial(layers.PowerNorm, 4, **AUTHORS, nu_counts_padding=False),
    "InstanceNorm": partial(layers.InstanceNorm, 4, affine=True),
    "GroupNorm": partial(layers.GroupNorm, 2, 4),
}
EVERY = pytest.mark.parametrize("name", LAYERS)


def build(name: str, dtype: torch.dtype = torch.float64, feature_axis: int = -1) -> nn.Module:
    layer = LAYERS[name](feature_axis=feature_axis).to(dtype)
    randomize(layer)
    return layer


def has_second_gradient(layer: nn.Module) -> bool:
    return not isinstance(layer, layers.PowerNorm) or layer.variant == "pn-v"


class Gathered:
    """The same layer without a mask, on the real tokens alone, gathered into one dense array."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer
        self.one_by_one = isinstance(layer, layers.InstanceNorm | layers.GroupNorm)

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return self.layer.named_parameters()

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        return self.layer.named_buffers()

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        if self.one_by_one:
            tokens = [self.layer(one[real][None])[0] for one, real in zip(x, mask, strict=True)]
            y = torch.cat(tokens)
        else:
            y = self.layer(x[mask])
        return torch.zeros_like(x).masked_scatter(mask[..., None], y)


@EVERY
@pytest.mark.parametrize("batch, length", [(3, 5), (1, 4)])
def test_the_masked_layer_is_the_layer_on_the_real_tokens(name, batch, length):
    layer = build(name)
    plain = Gathered(copy.deepcopy(layer))
    for step in range(3):
        mask = random_mask(batch, length, seed=step)
        x = 2 * randn(batch, length, 4, seed=step) + step
        # Statistics of two tokens are sensitive: compare at a tolerance that allows for it.
        second = has_second_gradient(layer)
        found, expected = (results(each, x, mask, second=second) for each in (layer, plain))
        assert_same(found, expected, factor=1e3 if second else 10)
        assert not found["y"][~mask].any()
        assert not found["grad of x"][~mask].any()


@EVERY
@pytest.mark.parametrize("junk, training", [(float("nan"), True), (1e30, False)])
def test_what_stands_at_masked_positions_never_matters(name, junk, training):
    """Not in x, and not in the gradient that arrives from above: bit for bit the same."""
    layer = build(name).train(training)
    other = copy.deepcopy(layer)
    mask = random_mask(3, 5, seed=2)
    for step in range(3):
        x, c = randn(3, 5, 4, seed=step), randn(3, 5, 4, seed=7 + step)
        spoiled, above = x.clone(), c.clone()
        spoiled[~mask] = above[~mask] = junk
        second = not training or has_second_gradient(layer)
        found = results(other, spoiled, mask, second=second, cotangent=above)
        assert_equal(found, results(layer, x, mask, second=second, cotangent=c))
        assert all(value.isfinite().all() for value in found.values())


@EVERY
def test_a_batch_without_a_real_token_counts_and_changes_nothing_else(name):
    layer = build(name)
    for shape, masked in (((3, 5, 4), True), ((0, 5, 4), True), ((0, 5, 4), False)):
        x = torch.full(shape, torch.nan).double()
        mask = [torch.zeros(shape[:2], dtype=torch.bool)] if masked else []
        before = buffers(layer)
        found = results(layer, x, *mask, second=False)
        assert found["y"].shape == x.shape
        for key, value in found.items():
            if key == "buffer num_batches_tracked":
                assert value == before[key] + 1
            else:
                assert value.equal(before.get(key, torch.zeros_like(value))), key


def test_two_axes_are_tokens_for_batch_norm_and_positions_for_instance_norm():
    x, mask = randn(6, 4), torch.tensor([True, True, False, True, False, True])
    batch, instance = build("BatchNorm"), build("InstanceNorm")
    torch.testing.assert_close(batch(x, mask)[mask], build("BatchNorm")(x[mask]))
    torch.testing.assert_close(instance(x, mask)[mask], instance(x[mask]))
    other = build("InstanceNorm", feature_axis=1)  # (C, L), as torch has it
    torch.testing.assert_close(other(x.T, mask).T, instance(x, mask))


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


@pytest.mark.parametrize("name", ["BatchNorm", "InstanceNorm", "GroupNorm", "PowerNorm"])
def test_a_mask_of_the_wrong_kind_raises(name):
    layer, x = build(name), randn(3, 5, 4)
    before = buffers(layer)
    with pytest.raises(TypeError, match=r"mask must be boolean.*got dtype torch\.int64"):
        layer(x, torch.ones(3, 5, dtype=torch.int64))
    with pytest.raises(TypeError, match="mask"):
        layer(x, torch.ones(3, 5, dtype=torch.bool).numpy())
    for shape in [(5, 3), (3, 5, 1), (1, 5), ()]:
        with pytest.raises(ValueError, match=r"mask must have x's shape without its feature axis"):
            layer(x, torch.ones(shape, dtype=torch.bool))
    if isinstance(layer, layers.PowerNorm):
        assert_equal(buffers(layer), before)  # a call that raises is no batch
