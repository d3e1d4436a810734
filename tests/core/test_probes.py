"""Probes: what they record is right, and the model does not notice them."""

import copy
import gc
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normtutor import probes
from normtutor.models import MLP


def network(dropout: float = 0.0) -> nn.Sequential:
    """A network of torch's own layers, with state, randomness and an in-place activation."""
    return nn.Sequential(
        nn.Linear(4, 6),
        nn.BatchNorm1d(6),
        nn.ReLU(inplace=True),
        nn.Dropout(dropout),
        nn.Linear(6, 3),
    )


def batches(count: int, size: int = 8):
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(size, 4, generator=generator), torch.randint(3, (size,), generator=generator))
        for _ in range(count)
    ]


def train(model, data, rate=0.1):
    for x, labels in data:
        model.train()
        loss = F.cross_entropy(model(x), labels)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= rate * p.grad
    return model


def state_of(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_same_state(model, state):
    torch.testing.assert_close(dict(model.state_dict()), state, rtol=0, atol=0)


def hooks_of(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()) + sum(
        len(p._backward_hooks or ()) for p in model.parameters()
    )


# --- statistics -----------------------------------------------------------------------------------


def test_statistics_are_numpys_at_every_other_step_of_training():
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh())
    data = batches(5)
    with probes.record_statistics(model, ["1"], quantiles=(0.1, 0.9), every=2) as record:
        for x, _ in data:
            model.train()(x)
            model.eval()(x)
    seen = record["1"]
    np.testing.assert_array_equal(seen.steps, [0, 2, 4])
    for row, (x, _) in enumerate(data[::2]):
        z = model[0](x).detach().double().numpy()
        np.testing.assert_allclose(seen.mean[row], z.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(seen.variance[row], z.var(axis=0), rtol=1e-12)
        np.testing.assert_allclose(seen.quantiles[row], np.quantile(z, (0.1, 0.9), axis=0))


@pytest.mark.parametrize(
    ("shape", "feature_axis"), [((5, 3, 2, 2), 1), ((5, 7, 3), -1), ((5, 3), 1)]
)
def test_every_axis_but_the_features_is_pooled(shape, feature_axis):
    model, x = nn.Sequential(nn.Identity()), torch.randn(shape)
    with probes.record_statistics(model, ["0"], of="output", feature_axis=feature_axis) as record:
        model(x)
    axes = tuple(i for i in range(len(shape)) if i != feature_axis % len(shape))
    np.testing.assert_allclose(record["0"].mean[0], x.double().numpy().mean(axis=axes))


def test_one_fixed_batch_sees_the_parameters_move_and_nothing_else():
    x, model = batches(1)[0][0], network()
    with probes.record_statistics(model, ["1"], fixed=lambda m: m(x)) as record:
        for y, _ in batches(2):
            model(y)
        train(model, batches(3))
        record.measure()
    np.testing.assert_array_equal(record["1"].steps, range(6))
    moved = np.abs(np.diff(record["1"].mean, axis=0)).max(axis=1) > 0
    assert moved.tolist() == [False, False, True, True, True]
    np.testing.assert_allclose(record["1"].mean[-1], model[0](x).detach().double().mean(dim=0))
    with pytest.raises(ValueError, match="closed"):
        record.measure()


@pytest.mark.parametrize("of, fixed", [("input", lambda m: m(batches(1)[0][0])), ("output", None)])
def test_a_probed_run_is_bit_for_bit_the_run_without(of, fixed):
    model = network(dropout=0.5)
    plain, random = copy.deepcopy(model), torch.get_rng_state()
    train(plain, batches(6))
    torch.set_rng_state(random)
    with probes.record_statistics(model, ["1", "4"], of=of, fixed=fixed) as record:
        train(model, batches(6))
    assert len(record["1"].steps) == len(record["4"].steps) == 6
    assert_same_state(model, state_of(plain))
    assert hooks_of(model) == 0


def test_modules_that_take_keywords_or_return_tuples():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.recurrent = nn.LSTM(3, 4, batch_first=True)
            self.inner = nn.Identity()

        def forward(self, x):
            return self.inner(input=self.recurrent(x)[0])

    model = Holder()
    with (
        probes.record_statistics(model, ["recurrent"], of="output", feature_axis=-1) as out,
        probes.record_statistics(model, ["inner"], feature_axis=-1) as into,
    ):
        model(torch.randn(2, 5, 3))
    np.testing.assert_array_equal(out["recurrent"].mean, into["inner"].mean)
    assert out["recurrent"].mean.shape == (1, 4)


def test_no_graph_is_kept():
    model = network()
    alive = []
    with probes.record_statistics(model, ["4"]) as record:
        for x, labels in batches(2):
            out = model(x)
            loss = F.cross_entropy(out, labels)
            loss.backward()
            alive += [weakref.ref(out), weakref.ref(loss)]
            del out, loss
    gc.collect()
    assert all(ref() is None for ref in alive)
    assert isinstance(record["4"].mean, np.ndarray)


def test_hooks_come_off_after_an_error():
    model = network()
    with (
        pytest.raises(RuntimeError, match="stop"),
        probes.record_statistics(model, ["1"]),
    ):
        assert hooks_of(model) > 0
        raise RuntimeError("stop")
    assert hooks_of(model) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"modules": ["7"]}, "There are"),
        ({"modules": "1"}, "must be names"),
        ({"modules": ["1"], "of": "inside"}, "inside"),
        ({"modules": ["1"], "every": 0}, "at least 1"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    model = network()
    with pytest.raises(ValueError, match=message), probes.record_statistics(model, **arguments):
        pass
    assert hooks_of(model) == 0


def test_scales_name_trained_parameters_and_are_not_zero():
    model, loss, _ = quadratic(np.eye(2))
    for scales, message in (({"nothing": 1.0}, "nothing"), ({"weight": 0.0}, "not 0")):
        with pytest.raises(ValueError, match=message):
            probes.largest_curvature(model, loss, scales=scales)
        with pytest.raises(ValueError, match=message):
            probes.look_along(model, loss, [1.0], scales=scales)


def test_what_was_not_recorded_is_not_there():
    model = network()
    with probes.record_statistics(model, ["1"]) as record:
        with pytest.raises(ValueError, match="nothing was recorded"):
            record["1"]
        with pytest.raises(KeyError, match="not recorded"):
            record["2"]
        with pytest.raises(ValueError, match="fixed"):
            record.measure()
    model = nn.Sequential(nn.Identity())
    with probes.record_statistics(model, ["0"]), pytest.raises(TypeError, match="no tensor"):
        model("words")


# --- gradients ------------------------------------------------------------------------------------


def test_looking_between_forward_and_backward_leaves_model_and_gradients_alone():
    model, (x, labels) = network(dropout=0.5), batches(1)[0]
    model[3].eval()

    def loss_of(m):
        return F.cross_entropy(m(x), labels)

    twin, modes = copy.deepcopy(model), [m.training for m in model.modules()]
    random = torch.get_rng_state()
    with probes.undisturbed(model):
        train(model, batches(3))
        assert not torch.equal(model[0].weight, twin[0].weight)
        model.eval()
    assert_same_state(model, state_of(twin))
    assert [m.training for m in model.modules()] == modes
    loss, expected = loss_of(model), loss_of(twin)
    with probes.record_statistics(model, ["1"]) as record:
        found = probes.gradients(model, loss_of)
        probes.look_along(model, loss_of, [0.5, 1.0])
        with pytest.raises(ValueError, match="nothing was recorded"):
            record["1"]
    assert_same_state(model, state_of(twin))
    assert torch.equal(random, torch.get_rng_state())
    assert all(p.grad is None for p in model.parameters())
    loss.backward()
    expected.backward()
    for name, p in twin.named_parameters():
        for grad in (found[name], model.get_parameter(name).grad):
            torch.testing.assert_close(grad, p.grad, rtol=0, atol=0)


# --- around ---------------------------------------------------------------------------------------


def quadratic(matrix):
    """A model whose loss is half of wᵀAw, so that everything around it is known."""
    model = nn.Linear(len(matrix), 1, bias=False).double()
    A = torch.as_tensor(matrix, dtype=torch.float64)
    return model, lambda m: 0.5 * (m.weight @ A @ m.weight.T).sum(), A


def test_the_shift_of_a_gradient_is_known_for_two_linear_layers():
    # L = (w2 w1 x − t)² / 2 with numbers: dL/dw2 = (w2 w1 x − t) w1 x.
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)).double()
    with torch.no_grad():
        model[0].weight.fill_(2.0)
        model[1].weight.fill_(3.0)

    def loss(m):
        return 0.5 * (m(torch.ones(1, 1, dtype=torch.float64)) - 1).square().sum()

    moved = {"0.weight": torch.tensor([[1.0]], dtype=torch.float64)}
    shift = probes.gradient_shift(model, loss, moved, ["1.weight"])
    assert shift.distance == pytest.approx((6 - 1) * 2 - (3 - 1) * 1)
    assert shift.relative == pytest.approx(8 / 10)
    assert shift.cosine == pytest.approx(1)
    assert model[0].weight.item() == 2.0
    flipped = {"0.weight": torch.tensor([[0.1]], dtype=torch.float64)}
    assert probes.gradient_shift(model, loss, flipped, ["1.weight"]).cosine == pytest.approx(-1)


def test_along_a_line_of_a_quadratic():
    model, loss, A = quadratic(np.diag([1.0, 4.0]))
    w = model.weight.detach().clone()
    found = probes.look_along(model, loss, [0.0, 0.1, 0.5])
    g = w @ A
    for row, length in enumerate([0.0, 0.1, 0.5]):
        there = w - length * g
        assert found.loss[row] == pytest.approx(float(0.5 * there @ A @ there.T))
        change = float((there @ A - g).norm())
        assert found.gradient_change[row] == pytest.approx(change, abs=1e-12)
    assert np.isnan(found.smoothness[0])
    np.testing.assert_allclose(found.smoothness[1:], float((g @ A).norm() / g.norm()))
    torch.testing.assert_close(model.weight.detach(), w, rtol=0, atol=0)
    scaled = probes.look_along(model, loss, [0.1, 0.5], scales={"weight": 3.0})
    np.testing.assert_allclose(scaled.smoothness, 9 * found.smoothness[1:])
    # Along an eigenvector the smoothness is its eigenvalue.
    model.weight.data = torch.tensor([[0.0, 2.0]], dtype=torch.float64)
    np.testing.assert_allclose(probes.look_along(model, loss, [0.3]).smoothness, 4.0)


@pytest.mark.parametrize("eigenvalues", [(5.0, 2.0, -1.0), (3.0, 1.0, -9.0)])
def test_the_largest_eigenvalue_not_the_largest_absolute_one(eigenvalues):
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    model, loss, _ = quadratic(Q @ np.diag(eigenvalues) @ Q.T)
    found = probes.largest_curvature(model, loss, iterations=200, tolerance=1e-6)
    assert found.value == pytest.approx(max(eigenvalues), rel=1e-6)
    assert found.residual < 1e-5
    assert found.products <= 400


@pytest.fixture
def normed():
    """A network with BatchNorm, its loss on one batch, and the batch."""
    model = MLP((4, 5, 3), norm="batch", activation=torch.tanh).double()
    model.norms[0].eps = 1e-14
    x, labels = batches(1, size=16)[0]
    x = x.double()
    return model, lambda m: F.cross_entropy(m(x), labels), (x, labels)


def test_the_curvature_of_a_network_is_that_of_its_full_hessian(normed):
    model, loss, (x, labels) = normed
    named = dict(model.named_parameters())
    sizes = [p.numel() for p in named.values()]

    def of_vector(vector):
        parts = zip(named.items(), vector.split(sizes), strict=True)
        shaped = {name: part.view_as(p) for (name, p), part in parts}
        return F.cross_entropy(torch.func.functional_call(model, shaped, x), labels)

    flat = torch.cat([p.detach().flatten() for p in named.values()])
    hessian = torch.autograd.functional.hessian(of_vector, flat)
    scales = {name: 0.5 + i for i, name in enumerate(list(named)[:2])}
    stretch = torch.cat(
        [torch.full_like(p, scales.get(name, 0.0)).flatten() for name, p in named.items()]
    )
    for some, matrix in ((None, hessian), (scales, stretch[:, None] * hessian * stretch)):
        found = probes.largest_curvature(model, loss, iterations=2000, tolerance=1e-6, scales=some)
        largest = torch.linalg.eigvalsh(matrix)[-1].item()
        assert found.value == pytest.approx(largest, rel=1e-4)
    trace = probes.hessian_trace(model, loss, samples=2000)
    assert trace == pytest.approx(torch.trace(hessian).item(), rel=0.1)


def test_flat_ground():
    model, loss, _ = quadratic(np.zeros((2, 2)))
    assert probes.largest_curvature(model, loss) == probes.Curvature(0.0, 0.0, 1)
    assert np.isnan(probes.look_along(model, loss, [1.0]).smoothness[0])
    shift = probes.gradient_shift(model, loss, {}, ["weight"])
    assert shift.distance == 0 and np.isnan(shift.relative) and np.isnan(shift.cosine)
