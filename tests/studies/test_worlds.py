"""The worlds: what is asked, and that every arm of every study trains."""

import numpy as np
import pytest
import torch
from normtutor_studies import STUDIES, Study, figures
from normtutor_studies.engine import without_rate
from normtutor_studies.store import Store
from normtutor_studies.worlds import WORLDS, code, formulas, signals, sorting, transformers
from torch import nn

from normtutor import data, training

pytestmark = pytest.mark.slow

TINY = {"steps": 8, "batch_size": 4, "examples": 32, "depth": 2, "width": 8, "heads": 2}


def value(tokens):
    """A formula in postfix order, evaluated with a stack, the operators by their names."""
    stack = []
    for token in tokens:
        if token < 5:
            stack.append(int(token))
            continue
        b, a = stack.pop(), stack.pop()
        stack.append([(a + b) % 5, (a - b) % 5, max(a, b), min(a, b)][token - 5])
    (result,) = stack
    return result


def test_the_value_of_a_formula_is_what_a_stack_finds():
    batch = formulas.batch_of(50, np.full(50, 3), np.random.default_rng(0))
    assert batch.inputs.shape == (50, 15)
    for tokens, values in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        assert values[-1] == value(tokens)
        assert values[6] == value(tokens[:7])
    assert batch.counted.sum(1).tolist() == [7] * 50


def test_shorter_formulas_are_padded_and_their_padding_does_not_count():
    batch = formulas.batch_of(3, np.array([1, 2, 3]), np.random.default_rng(0))
    assert batch.real.sum(1).tolist() == [3, 7, 15]
    assert (batch.inputs[~batch.real] == formulas.PAD).all()
    assert not batch.counted[~batch.real].any()


def test_formulas_of_one_operator_share_it():
    batch = formulas.batch_of(8, np.full(8, 2), np.random.default_rng(0), one_operator=True)
    assert len(batch.inputs[batch.counted].unique()) == 1


@pytest.mark.parametrize("lengths", ["one", "varied", "equal"])
def test_the_next_character_is_the_target(lengths):
    training, tests = code.readers()
    batch = tests.draw(8, np.random.default_rng(0), lengths=lengths, package=2)
    for inputs, targets, real in zip(*batch[:3], strict=True):
        count = int(real.sum())
        assert inputs[1:count].tolist() == targets[: count - 1].tolist()
    sizes = batch.real.sum(1).unique()
    assert len(sizes) == 1 or lengths == "varied"
    assert len(tests.joined) < len(training.joined) / 10


def test_a_sequence_of_one_package_is_from_it():
    reader = code.readers()[1]
    low, high = reader.bounds[3:5]
    batch = reader.draw(4, np.random.default_rng(0), package=3)
    inside = reader.joined[low:high].tobytes()
    for sequence in batch.inputs.numpy():
        assert sequence.astype(np.int64).tobytes() in inside


def test_signals_are_the_same_each_time_and_the_classes_are_balanced():
    data = signals.signals()
    assert data.train.images.shape == (8_000, 1, 40)
    assert data.test.labels.bincount().min() > 150


ARMS = {
    (world.name, world.key(without_rate(cell), 0, 0)): (world, without_rate(cell))
    for study in STUDIES.values()
    for world in study.worlds
    for cell in study.arms.values()
}


@pytest.mark.parametrize("name", WORLDS)
def test_every_arm_trains(name, monkeypatch):
    world = WORLDS[name]
    if name in ("code", "formulas", "sorting"):
        module = {"code": code, "formulas": formulas, "sorting": sorting}[name]
        tests = "TEST_FORMULAS" if name == "formulas" else "TEST_SEQUENCES"
        monkeypatch.setattr(module, tests, 8)
        monkeypatch.setattr(transformers, "MOMENTS", 2)
    else:
        few = signals.signals()
        few = few._replace(test=type(few.test)(*(part[:40] for part in few.test)))
        monkeypatch.setattr(signals, "signals", lambda: few)
    tiny = {key: value for key, value in TINY.items() if key in world.settings}
    seen = set()
    for cell in [cell for of_world, cell in ARMS.values() if of_world is world]:
        small = {**world.full(cell), **tiny}
        if "then" in cell:
            small["steps"] = 32
        if (key := str(small)) not in seen:
            seen.add(key)
            run = world.train(small, 1e-4, 0)
            assert len(run["loss"]) == 8 and not run["diverged"], cell


def test_averages_for_a_test_without_noise_are_gathered_without_it():
    """With averages gathered behind noise a good network once looked worse than no norm."""
    torch.manual_seed(0)
    model = signals.Net({**signals.SETTINGS, "noise": 1.0, "depth": 1, "width": 8}).train()
    batches = torch.randn(4, 64, 1, signals.LENGTH)
    for _ in range(50):
        model(batches[0])
    before = {key: value.clone() for key, value in model.state_dict().items()}
    fitted = signals.without_noise(model, batches)
    seen = torch.cat([fitted.layers[0](batch.flatten(1)) for batch in batches])
    norm = fitted.norms[0][0]
    torch.testing.assert_close(norm.running_mean, seen.mean(0))
    assert not fitted.training
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])


def test_the_noise_has_the_means_and_deviations_of_its_source():
    torch.manual_seed(0)
    noise, x = signals.Noise(1.0), torch.randn(4000, 200, dtype=torch.float64)
    shaken = noise(x)
    means, deviations = shaken.mean(dim=0), shaken.std(dim=0)
    assert means.abs().max() < 0.56
    assert means.std().item() == pytest.approx(1 / 12**0.5, rel=0.1)
    # The scale of a unit lies between 1 and 1.25; that of each example adds a little.
    assert deviations.min() > 0.97
    assert deviations.max() < 1.31
    assert not torch.equal(noise(x), shaken)
    assert torch.equal(noise.eval()(x), x)


def test_a_run_whose_steps_are_no_multiple_of_eight_is_drawn_at_eight_points(tmp_path):
    """Twenty steps once gave ten points, and the second training's 250 gave nine."""
    arms = {"an arm": {"steps": 20, "depth": 1, "width": 8, "heads": 1, "rate": 1e-3}}
    asked = {"chapter": 0, "question": "Is it drawn?", "control": "-"}
    study = Study(
        name="twenty steps", arms=arms, worlds=[sorting.SORTING], folder=tmp_path, **asked
    )
    try:
        assert {len(run["loss"]) for run in study.run()} == {8}
        (line,) = figures.curves("twenty steps").axes[0].get_lines()
        np.testing.assert_allclose(line.get_xdata(), np.arange(1, 9) * 20 / 8)
    finally:
        del STUDIES["twenty steps"]


def test_every_curve_on_record_has_eight_points():
    for world in WORLDS.values():
        assert {len(run["loss"]) for run in Store(world).runs.values()} == {8}, world.name


# --- layers arranged otherwise, and how training begins -------------------------------------------


def small_model(wiring="pre", depth=6):
    torch.manual_seed(0)
    cell = {**sorting.SORTING.settings, "wiring": wiring, "depth": depth, "width": 16}
    model = transformers.model_of(cell, sorting.SYMBOLS + 1, 2 * sorting.LENGTH)
    return model.eval(), sorting.batch_of(4, np.random.default_rng(0))


def test_sequences_are_sorted_and_only_the_sorted_part_counts():
    batch = sorting.batch_of(20, np.random.default_rng(0))
    digits, ordered = batch.inputs[:, : sorting.LENGTH], batch.targets[:, sorting.LENGTH :]
    assert torch.equal(ordered, digits.sort(dim=1).values)
    assert torch.equal(batch.targets[batch.counted].view(20, -1), ordered)


@pytest.mark.parametrize("wiring", ["pre", "post"])
def test_layers_in_series_are_the_model_and_side_by_side_read_the_same(wiring):
    model, batch = small_model(wiring)
    series = transformers.arrangements(6)["in series"]
    torch.testing.assert_close(
        transformers.arranged(model, batch, series), model.hidden(batch.inputs)
    )
    x = model.embed(batch.inputs)
    three = [layer(x) - x for layer in model.layers[:3]]
    for how, expected in (("sum", x + sum(three)), ("mean", x + sum(three) / 3)):
        expected = model.final_norm(expected)
        torch.testing.assert_close(transformers.arranged(model, batch, [[0, 1, 2]], how), expected)


def test_arrangements_of_twelve_layers():
    found = transformers.arrangements(12)
    assert found["side by side"] == [[0], [1], [2], [3], [4, 5, 6, 7, 8, 9, 10, 11]]
    assert found["in pairs"][4:] == [[4, 5], [6, 7], [8, 9], [10, 11]]
    assert found["removed"] == [[0], [1], [2], [3]]
    assert found["half side by side"][-1] == [6, 7, 8, 9, 10, 11]


def test_the_curvature_is_the_largest_eigenvalue_of_the_hessian():
    torch.manual_seed(0)
    cell = {**sorting.SORTING.settings, "depth": 1, "width": 4, "heads": 1}
    model = transformers.model_of(cell, sorting.SYMBOLS + 1, 2 * sorting.LENGTH)
    batch = sorting.batch_of(2, np.random.default_rng(0))
    names = dict(model.named_parameters())

    def loss(flat):
        parts = torch.split(flat, [p.numel() for p in names.values()])
        shaped = {n: part.view_as(p) for (n, p), part in zip(names.items(), parts, strict=True)}
        hidden = torch.func.functional_call(model, shaped, (batch.inputs,))
        return torch.nn.functional.cross_entropy(
            hidden[batch.counted], batch.targets[batch.counted]
        )

    flat = torch.cat([p.detach().flatten() for p in names.values()])
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        hessian = torch.autograd.functional.hessian(loss, flat)
    largest = torch.linalg.eigvalsh(hessian)[-1].item()
    assert transformers.curvature(model, batch) == pytest.approx(largest, rel=0.01)


def test_the_curvature_at_the_start_has_converged():
    """A few steps of the iteration found 57 where it is 143."""
    post = sorting.SORTING.settings | {"wiring": "post"}
    test = sorting.batch_of(sorting.TEST_SEQUENCES, np.random.default_rng(1_000_000))
    training.start(2)
    model = transformers.model_of(post, sorting.SYMBOLS + 1, test.inputs.shape[1])
    assert transformers.curvature(model, test) == pytest.approx(142.7, rel=0.01)


def test_scaled_gradients_are_a_scaled_rate_under_sgd():
    """So they are no arm of their own: the same run, step for step."""
    states = []
    for rate, factor in ((0.1, 0.01), (0.001, 1.0)):
        model, batch = small_model("post")
        model.train()
        history = training.train(
            model,
            [batch] * 5,
            lambda model, batch, factor=factor: factor * transformers.loss_of(model, batch),
            steps=5,
            learning_rate=rate,
            optimizer="sgd",
        )
        assert len(history.loss) == 5
        states.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    torch.testing.assert_close(*states)


@pytest.mark.parametrize(("name", "mean"), [("moments first", 0), ("both moments first", 1)])
def test_moments_are_gathered_before_the_first_step(name, mean):
    model, batch = small_model()
    before = [p.clone() for p in model.parameters()]
    stream = iter([batch] * 200)
    cell = {**sorting.SORTING.settings, "optimizer": name}
    update = transformers.optimizer_of(cell, 1e-3, model, stream)(model.parameters())
    for p, old in zip(model.parameters(), before, strict=True):
        assert torch.equal(p, old)
    loss = transformers.loss_of(model, batch)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    for p, gradient in zip(model.parameters(), gradients, strict=True):
        seen = update.state[p]["exp_avg_sq"] / (1 - 0.98**transformers.MOMENTS)
        torch.testing.assert_close(seen, gradient.square(), rtol=1e-3, atol=1e-9)
        torch.testing.assert_close(
            update.state[p]["exp_avg"], mean * gradient, rtol=1e-3, atol=1e-6
        )
    assert sum(1 for _ in stream) == 200 - transformers.MOMENTS


def test_a_shared_last_norm_keeps_which_tokens_are_longer():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8) * torch.tensor([1.0, 2.0, 4.0])[:, None]
    y = transformers.SharedNorm(8)(x)
    assert y.square().mean().item() == pytest.approx(1, rel=1e-5)
    torch.testing.assert_close(y / x, (y / x)[:1, :1, :1].expand_as(x))


@pytest.mark.parametrize("dose", [0.5, 1.0, 2.0, 4.0])
def test_the_next_batch_norm_takes_less_than_half_of_what_the_noise_changes(dose):
    """It would take all of a shift that the whole batch shares, were there no ReLU between."""
    digits = data.load_digits().train.images[:300].flatten(1)
    left = []
    for seed in range(3):
        training.start(seed)
        norms, linears = ([make(64) for _ in range(2)] for make in (nn.BatchNorm1d, square))
        behind = norms[0](linears[0](digits))
        shaken = [
            linears[1](torch.relu(behind * (1 + dose / 2 * torch.rand(64)) + shift))
            for shift in dose * (2 * torch.rand(20, 64) - 1)
        ]
        changes = [
            changed_by_noise([norm(x) for x in shaken]) for norm in (nn.Identity(), norms[1])
        ]
        left.append(changes[1] / changes[0])
    assert 0.5 < np.mean(left) < 0.8


def square(features):
    return nn.Linear(features, features)


def changed_by_noise(draws):
    """How much a draw of the noise moves a value, over the spread of values within a draw."""
    x = torch.stack(draws)  # (draws, examples, units)
    moved = (x - x.mean(0)).square().mean().sqrt()
    return (moved / x.std(1).square().mean().sqrt()).item()
