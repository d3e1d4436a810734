"""norms_of: what it reads of small models that were built to have it."""

import re

import pytest
import torch
from bs4 import BeautifulSoup
from torch import nn

import normtutor
from normtutor import anatomy, layers
from normtutor.models import CausalAttention, FeedForward
from normtutor.wiring import ResidualStep

WIDTH, HEADS, LENGTH = 16, 2, 5
X = torch.zeros(1, LENGTH, WIDTH)


class Layer(nn.Module):
    """Attention and a feed-forward network in one of the wirings."""

    def __init__(self, wiring, norm, qk_norm="none"):
        super().__init__()
        self.first, self.second = (ResidualStep(wiring, WIDTH, norm) for _ in range(2))
        self.attention = CausalAttention(WIDTH, HEADS, qk_norm=qk_norm)
        self.network = FeedForward(WIDTH, 24)

    def forward(self, x):
        return self.second(self.first(x, self.attention), self.network)


class Stack(nn.Module):
    def __init__(self, *members, final=None):
        super().__init__()
        self.layers, self.final = nn.ModuleList(members), final or nn.Identity()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.final(x)


def rms(width):
    return layers.RMSNorm(width, eps=3e-7)


def places(found):
    return [norm.place for block in found.blocks for step in block.steps for norm in step.norms]


@pytest.mark.parametrize(
    ("wiring", "expected"),
    [
        ("pre", ["in", "in"]),
        ("out", ["out", "out"]),
        ("peri", ["in", "out", "in", "out"]),
        ("post", ["stream", "stream"]),
        ("deepnorm", ["stream", "stream"]),
        ("ln-scaling", ["in", "in"]),
    ],
)
def test_places_of_the_wirings(wiring, expected):
    model = Stack(Layer(wiring, rms), Layer(wiring, rms), final=nn.LayerNorm(WIDTH))
    found = anatomy.norms_of(model, X)
    assert places(found) == expected
    assert [(n.name, n.place, n.kind) for n in found.ends] == [("final", "final", "LayerNorm")]
    (block,) = found.blocks  # both layers are alike
    assert (block.where, block.layers) == ("layers", (0, 1))
    kinds = [kind for step in block.steps for _, kind, _ in step.branches]
    assert kinds == ["attention", "feed-forward"]
    assert all(norm.eps == 3e-7 for step in block.steps for norm in step.norms)


class AllHeads(nn.Module):
    """Attention with one norm over all heads' queries, one for each head's keys, and values."""

    def __init__(self):
        super().__init__()
        self.read, self.write = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.a, self.b, self.c = nn.RMSNorm(WIDTH), nn.RMSNorm(8), nn.RMSNorm(8)
        self.squeeze, self.d, self.widen = nn.Linear(WIDTH, 4), nn.RMSNorm(4), nn.Linear(4, WIDTH)
        self.e, self.before = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH, bias=False)
        self.spare = nn.LayerNorm(WIDTH)

    def forward(self, x):
        h = self.before(x)
        q, k, v = (self.read(h) + self.widen(self.d(self.squeeze(h))).repeat(1, 1, 3)).chunk(3, -1)
        q, k, v = (t.view(1, LENGTH, HEADS, 8).transpose(1, 2) for t in (self.a(q), k, v))
        k, v = self.b(k), self.c(v)
        y = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        y = self.e(y.transpose(1, 2).reshape(1, LENGTH, WIDTH))
        chosen = self.spare(x.detach()).topk(1).indices[0, 0, 0]
        return x + self.write(y) * (chosen >= 0)


def test_norms_inside_attention():
    found = anatomy.norms_of(Stack(AllHeads(), AllHeads()), X)
    (block,) = found.blocks
    read = {n.name: (n.place, n.over) for step in block.steps for n in step.norms}
    assert read == {
        "before": ("in", "token"),
        "d": ("latent", "token"),
        "a": ("q", "heads"),
        "b": ("k", "head"),
        "c": ("v", "head"),
        "e": ("inner", "token"),
        "spare": ("beside", "token"),  # it chooses, and has no gradient
    }
    assert block.steps[0].branches[0][1] == "attention"


class WrittenInParts(nn.Module):
    """Attention that writes the two halves of its queries into a tensor that was empty before."""

    def __init__(self):
        super().__init__()
        self.before, self.a = nn.RMSNorm(WIDTH), nn.RMSNorm(8)
        self.read, self.write = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (
            t.view(1, LENGTH, HEADS, 8).transpose(1, 2)
            for t in self.read(self.before(x)).chunk(3, -1)
        )
        whole = x.new_empty(q.shape)
        whole[..., :4], whole[..., 4:] = self.a(q)[..., 4:], q[..., :4]
        y = (whole @ k.transpose(-1, -2)).softmax(-1) @ v
        return x + self.write(y.transpose(1, 2).reshape(1, LENGTH, WIDTH))


def test_what_is_written_into_a_part_is_in_the_whole():
    found = anatomy.norms_of(Stack(WrittenInParts(), WrittenInParts()), X)
    (block,) = found.blocks
    read = {n.name: n.place for step in block.steps for n in step.norms}
    assert read == {"before": "in", "a": "q"}


class LedNowhere(nn.Module):
    """Of one norm only the shape is used, of the other the numbers without their gradient."""

    def __init__(self):
        super().__init__()
        self.before, self.shape, self.numbers = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.network = FeedForward(WIDTH, 24)

    def forward(self, x):
        others = torch.ones_like(self.shape(x)) + self.numbers(x).detach()
        return x + self.network(self.before(x) * others)


def test_a_norm_through_which_no_gradient_passes_stands_beside():
    found = anatomy.norms_of(Stack(LedNowhere(), LedNowhere()), X)
    read = {n.name: n.place for step in found.blocks[0].steps for n in step.norms}
    assert read == {"before": "in", "shape": "beside", "numbers": "beside"}


def test_with_torchs_attention_too():
    """scaled_dot_product_attention is one operation, in which no softmax is seen."""
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 24, batch_first=True)
    found = anatomy.norms_of(nn.TransformerEncoder(layer, 2), X)
    assert places(found) == ["stream", "stream"]
    assert found.blocks[0].steps[0].branches == (("self_attn", "attention", ()),)


def test_an_encoder_and_a_decoder_have_ends_of_their_own():
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 2, "dim_feedforward": 24}
    model = nn.Transformer(WIDTH, HEADS, **sizes, batch_first=True)
    found = anatomy.norms_of(model, (X, X))
    assert [(norm.name, norm.place) for norm in found.ends] == [
        ("encoder.norm", "final"),
        ("decoder.norm", "final"),
    ]
    assert [(block.where, len(block.steps)) for block in found.blocks] == [
        ("encoder.layers", 4),
        ("decoder.layers", 6),
    ]


class Parallel(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(1 if shared else 2))
        self.attention, self.network = CausalAttention(WIDTH, HEADS), FeedForward(WIDTH, 24)

    def forward(self, x):
        read = [norm(x) for norm in self.norms]
        return x + self.attention(read[0]) + self.network(read[-1])


@pytest.mark.parametrize("shared", [True, False])
def test_parallel_branches(shared):
    (block,) = anatomy.norms_of(Stack(Parallel(shared), Parallel(shared)), X).blocks
    (step,) = block.steps
    assert step.parallel
    assert [b for b, _, _ in step.branches] == ["attention", "network"]
    branches = [norm.branch for norm in step.norms]
    assert branches == (["attention, network"] if shared else ["attention", "network"])


def test_a_network_for_images_has_one_stream():
    images = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, eps=1e-3), nn.GroupNorm(2, 8))
    found = anatomy.norms_of(images, torch.zeros(2, 3, 6, 6))
    assert found.streams == 1
    read = [n for block in found.blocks for step in block.steps for n in step.norms]
    assert [(n.kind, n.eps, n.over) for n in read] == [
        ("BatchNorm", 1e-3, "tokens"),
        ("GroupNorm", 1e-5, "tokens"),
    ]


class OddNorm(nn.Module):
    """x / √(mean + ε), as its arguments say."""

    def __init__(self, where="γ", eps=2e-9, half=False, power=2, total=False):
        super().__init__()
        start = torch.zeros if where.startswith("1+") else torch.ones
        self.weight = nn.Parameter(start(WIDTH)) if where else None
        self.where, self.tiny, self.half, self.power, self.total = where, eps, half, power, total

    def forward(self, x, gate=None):
        scale = 1 if self.weight is None else self.weight + self.where.startswith("1+")
        x = x if self.half else x.float()
        if gate is not None:
            x = x * nn.functional.silu(gate)
        if self.where.endswith("first"):
            x, scale = scale * x, 1
        squares = x.pow(self.power)
        mean = squares.sum(-1, keepdim=True) if self.total else squares.mean(-1, keepdim=True)
        return scale * x * torch.rsqrt(mean + self.tiny)


def read_alone(norm):
    """What is read of a norm in front of a linear layer."""
    layer = nn.Sequential(norm, nn.Linear(WIDTH, WIDTH))
    (block,) = anatomy.norms_of(nn.Sequential(layer), X).blocks
    return block.steps[0].norms[0]


@pytest.mark.parametrize(
    "where, eps", [("", 0.0), ("γ", 1e-3), ("1+γ", 2e-9), ("γ first", 2e-9), ("1+γ first", 1e-3)]
)
def test_gamma_and_eps_are_told_from_what_a_norm_does(where, eps):
    norm = read_alone(OddNorm(where, eps))
    assert (norm.kind, norm.gamma, norm.half, norm.bias) == ("RMSNorm", where, False, False)
    assert norm.eps == eps


def test_what_is_no_rms_norm_is_not_called_one():
    total, fourth = read_alone(OddNorm(total=True)), read_alone(OddNorm(power=4))
    assert (total.kind, total.eps) == ("L2 norm", 2e-9)
    assert (fourth.kind, fourth.eps) == ("other", None)
    assert read_alone(OddNorm(half=True)).half


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.write = nn.Linear(WIDTH, 64), nn.Linear(16, 16)
        self.norm = OddNorm(eps=1e-5)
        self.heads = nn.LayerNorm(8)

    def forward(self, x):
        h, gate, rest = self.read(x).split([16, 16, 32], -1)
        heads = self.heads(rest.view(1, LENGTH, 4, 8)).mean(-1)
        h = self.norm(h, gate=gate) + heads.repeat(1, 1, 4)
        root = rest.square().mean(-1, keepdim=True).rsqrt()
        return x + self.write(h * root)


def test_gates_heads_and_norms_without_a_module():
    (block,) = anatomy.norms_of(Stack(Gated()), X).blocks
    found = {n.name: n for n in block.steps[0].norms}
    assert (found["norm"].gate, found["norm"].eps, found["norm"].place) == (True, 1e-5, "inner")
    assert found["heads"].over == "head"
    assert [n.name for n in found.values() if n.kind == "function"] == ["itself()"]


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (layers.LayerNorm(WIDTH, eps=1e-4), ("LayerNorm", 1e-4, "γ", True)),
        (layers.RMSNorm(WIDTH, eps=1e-8, add_unit_offset=True), ("RMSNorm", 1e-8, "1+γ", False)),
        (nn.LayerNorm(WIDTH, elementwise_affine=False), ("LayerNorm", 1e-5, "", False)),
        (nn.RMSNorm(WIDTH), ("RMSNorm", torch.finfo(torch.float32).eps, "γ", False)),
    ],
)
def test_ours_and_torchs_layers(module, expected):
    norm = read_alone(module)
    assert (norm.kind, pytest.approx(norm.eps, rel=1e-2), norm.gamma, norm.bias) == expected


class Looks(nn.Module):
    """A model that looks at what it has computed."""

    def __init__(self):
        super().__init__()
        self.norm, self.write = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + self.write(self.norm(x)) * x.sum().item()


def test_a_model_that_looks_at_its_values_is_run_itself_and_left_as_it_was():
    model = Stack(Looks(), Looks())
    model.layers[0].requires_grad_(False)
    model.layers[1].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert places(anatomy.norms_of(model, X + 1)) == ["in"]
    assert [p.requires_grad for p in model.parameters()] == [False] * 4 + [True] * 4
    assert (model.layers[0].training, model.layers[1].training) == (True, False)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(p.grad is None for p in model.parameters())
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)
    with torch.device("meta"), pytest.raises(ValueError, match="must have numbers"):
        anatomy.norms_of(Stack(Looks()), X)


def test_without_inputs_it_says_what_is_missing():
    with pytest.raises(ValueError, match="inputs must say"):
        normtutor.norms_of(nn.Linear(2, 2))


def test_the_table_and_the_drawing_hold_every_norm():
    head = nn.Sequential(rms(WIDTH), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH))
    model = Stack(Layer("peri", rms, "rms"), Parallel(True), final=head)
    found = anatomy.norms_of(model, X)
    assert [(norm.name, norm.place) for norm in found.ends] == [
        ("final.0", "final"),
        ("final.2", "beside"),
    ]
    rows = found.rows()
    assert len(rows) == 6 + 1 + 2
    lines = str(found).splitlines()
    assert lines[0] == "Stack" and len(lines) == 2 + len(rows)
    assert re.search(r"\nlayers 0  start of the branch, attention +RMSNorm +3e−7", str(found))
    soup = BeautifulSoup(found._repr_html_(), "html.parser")
    drawn = [(box["data-place"], box["data-name"]) for box in soup.select(".norm")]
    assert sorted(drawn) == sorted((norm.place, norm.name) for _, norm in rows)
    assert len(soup.select("tbody tr")) == len(rows)
