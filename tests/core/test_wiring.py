"""Residual wiring: each named variant is the formula that its paper writes, spelled out here."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normtutor import layers, models, wiring

WIDTH, LAYER, DEPTH = 8, 3, 8


def norm(x):
    return F.layer_norm(x, x.shape[-1:])


def transformer(wiring, depth=4, **settings):
    """A small model without dropout; the weights are drawn from the same seed each time."""
    torch.manual_seed(0)
    return models.TransformerLM(
        20, width=16, depth=depth, wiring=wiring, **{"dropout": 0.0} | settings
    )


# x, the sublayer F and the learned factor in; the paper's formula for layer 3 of 8.
PUBLISHED = {
    "none": lambda x, f, learned: x + f(x),
    "post": lambda x, f, learned: norm(x + f(x)),
    "pre": lambda x, f, learned: x + f(norm(x)),
    "out": lambda x, f, learned: x + norm(f(x)),
    "peri": lambda x, f, learned: x + norm(f(norm(x))),
    "ln-scaling": lambda x, f, learned: x + f(norm(x) / math.sqrt(3)),
    "gpt-2": lambda x, f, learned: x + f(norm(x)),
    "deepnorm": lambda x, f, learned: norm(2.0 * x + f(x)),  # (2·8)^¼ = 2
    "ds-init": lambda x, f, learned: norm(x + f(x)),
    "admin": lambda x, f, learned: norm(learned * x + f(x)),
    "b2t": lambda x, f, learned: norm(x + f(x)),
    "rezero": lambda x, f, learned: x + learned * f(x),
    "fixup": lambda x, f, learned: x + learned * f(x),
}


@pytest.mark.parametrize("name", wiring.WIRINGS)
def test_a_step_is_the_published_formula(name):
    step = wiring.ResidualStep(name, WIDTH, layer=LAYER, depth=DEPTH)
    sublayer = nn.Linear(WIDTH, WIDTH)
    learned = {"skip": step.skip, "branch": step.branch}.get(step.wiring.learned)
    if learned is not None:
        with torch.no_grad():
            learned.copy_(torch.rand_like(learned) + 1)
    x = torch.randn(2, 5, WIDTH)
    torch.testing.assert_close(step(x, sublayer), PUBLISHED[name](x, sublayer, learned))
    names = {name for name, _ in step.named_parameters() if not name.startswith("norm")}
    assert names == ({step.wiring.learned} if step.wiring.learned else set())


def test_b2t_adds_the_bottom_of_the_layer_before_its_last_norm():
    model = transformer("b2t", depth=2)
    layer, x = model.layers[1], torch.randn(2, 5, 16)
    middle = norm(x + layer.attention(x))
    torch.testing.assert_close(layer(x), norm(x + middle + layer.feed_forward(middle)))


def test_the_mask_reaches_every_norm():
    x, mask = torch.randn(2, 5, WIDTH), torch.ones(2, 5, dtype=torch.bool)
    mask[1, 3:] = False
    for name in ("post", "pre", "out", "peri"):
        step = wiring.ResidualStep(name, WIDTH, lambda n: layers.BatchNorm(n, feature_axis=-1))
        other = x.masked_fill(~mask[..., None], 9.0)
        a, b = (step(value, torch.tanh, mask)[mask] for value in (x, other))
        torch.testing.assert_close(a, b, rtol=0, atol=0)


# The factors of queries and keys, of values or the first matrix, of the output, in layer l of 4.
START = {
    "post": lambda layer: (1, 1, 1),
    "deepnorm": lambda layer: (1, 32**-0.25, 32**-0.25),
    "ds-init": lambda layer: (layer**-0.5,) * 3,
    "fixup": lambda layer: (8**-0.5, 8**-0.5, 0),
    "gpt-2": lambda layer: (1, 1, 8**-0.5),
}


@pytest.mark.parametrize("name", START)
def test_initial_weights_carry_the_factors_of_the_wiring(name):
    built = zip(transformer("pre").layers, transformer(name).layers, strict=True)
    for number, (plain, scaled) in enumerate(built, start=1):
        look, middle, last = START[name](number)
        before, after = (each.attention.project_in.weight.detach() for each in (plain, scaled))
        torch.testing.assert_close(after[:32], look * before[:32])
        torch.testing.assert_close(after[32:], middle * before[32:])
        for (_, a), (_, b) in zip(plain.steps(), scaled.steps(), strict=True):
            for factor, old, new in zip(
                (look, middle, last), a.weight_groups(), b.weight_groups(), strict=True
            ):
                for w, v in zip(old, new, strict=True):
                    torch.testing.assert_close(v, factor * w)


@pytest.mark.parametrize("name", ["rezero", "fixup", "admin"])
def test_where_learned_factors_start(name):
    """A branch that starts at zero is the identity."""
    step = wiring.ResidualStep(name, WIDTH, layer=LAYER, depth=DEPTH)
    starts = {"admin": [1.0] * WIDTH, "rezero": 0.0, "fixup": 1.0}
    assert getattr(step, step.wiring.learned).tolist() == starts[name]
    if name != "admin":
        model, tokens = transformer(name), torch.randint(20, (2, 6))
        torch.testing.assert_close(model.hidden(tokens), model.embed(tokens), rtol=0, atol=0)


def test_each_layer_may_have_its_own_wiring():
    model = transformer(wiring.mix_ln(4))
    stream = [layer.attention_step.norm_stream is not None for layer in model.layers]
    assert stream == [True, False, False, False]
    assert isinstance(model.final_norm, layers.LayerNorm)
    hybrid = transformer([("none", "post")] * 2, depth=2, qk_norm="rms", value_norm=True)
    assert hybrid.layers[0].attention_step.norm_stream is None
    assert hybrid.layers[0].feed_forward_step.norm_stream is not None
    assert isinstance(hybrid.layers[1].attention.value_norm, layers.RMSNorm)
    assert isinstance(hybrid.final_norm, nn.Identity)
    assert isinstance(transformer([("pre", "post")], depth=1).final_norm, nn.Identity)
    assert hybrid(torch.randint(20, (2, 6))).shape == (2, 6, 20)


def test_a_wiring_of_ones_own():
    mine = wiring.Wiring(("in",), branch=lambda layer, depth: 1 / depth)
    step = wiring.ResidualStep(mine, WIDTH, layer=2, depth=4)
    x = torch.randn(3, WIDTH)
    torch.testing.assert_close(step(x, torch.tanh), x + torch.tanh(norm(x)) / 4)
    assert transformer(mine, depth=2)


def test_what_is_refused():
    with pytest.raises(ValueError, match="wiring must be one of none, post"):
        wiring.ResidualStep("sandwiched", WIDTH)
    with pytest.raises(ValueError, match="layer=3 and depth=2"):
        wiring.ResidualStep("post", WIDTH, layer=3, depth=2)
    with pytest.raises(ValueError, match="got 3 for depth=4"):
        transformer(["pre"] * 3)
    with pytest.raises(ValueError, match="learned skip"):
        models.admin_initialise(transformer("post"), torch.zeros(1, 2, dtype=int))


def test_admin_weighs_the_skip_by_the_variance_before_it():
    model = transformer("admin", depth=3, dropout=0.5)
    tokens = torch.randint(20, (4, 6))
    models.admin_initialise(model, tokens)
    assert model.training
    model.eval()
    x, total = model.embed(tokens), 1.0
    for layer in model.layers:
        for step, sublayer in layer.steps():
            torch.testing.assert_close(step.skip.detach(), torch.full((16,), total**0.5))
            branch = sublayer(x)
            total += ((branch - branch.mean()) ** 2).mean().item()
            x = norm(step.skip * x + branch)
    assert total > 2


@pytest.mark.parametrize("kind", ["rms", "none"])
def test_normalized_queries_and_keys_bound_the_scores(kind):
    attention = models.CausalAttention(32, 4, qk_norm=kind)
    with torch.no_grad():
        attention.project_in.weight.mul_(100)
    query, key, value = attention.split(torch.randn(2, 6, 32))
    # Cauchy and Schwarz: both have norm at most √8, and the score is divided by √8.
    scores = query @ key.transpose(-1, -2) / math.sqrt(8)
    bounded = scores.abs().max() <= math.sqrt(8) * (1 + 1e-6)
    assert bounded == (kind != "none")
    assert value.abs().max() > 100  # the values are left as they are
