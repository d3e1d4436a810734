"""The worlds: what is asked, and that every arm of every study trains."""

import numpy as np
import pytest
import torch
from normtutor_studies import STUDIES
from normtutor_studies.engine import without_rate
from normtutor_studies.worlds import WORLDS, code, formulas, signals

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
    batch = formulas.batch_of(8, np.full(8, 2), np.random.default_rng(0), company="operator")
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
    if name in ("code", "formulas"):
        module = {"code": code, "formulas": formulas}[name]
        tests = "TEST_SEQUENCES" if name == "code" else "TEST_FORMULAS"
        monkeypatch.setattr(module, tests, 8)
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
