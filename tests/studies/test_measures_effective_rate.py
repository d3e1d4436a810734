"""How the length of weights sets their rate: gradients, theorems, predictions of angles."""

import numpy as np
import pytest
import torch
from normtutor_studies import Study
from normtutor_studies.engine import STUDIES
from normtutor_studies.measures import effective_rate
from normtutor_studies.measures.effective_rate import EXACT, gradients, optimizer_of, train
from normtutor_studies.store import World

NORMS = ("BatchNorm", "LayerNorm", "RMSNorm")


def a_network(rng):
    weights = [rng.normal(size=shape) for shape in ((6, 5), (4, 6))]
    return weights, rng.normal(size=(10, 4)), rng.normal(size=(8, 5)), rng.integers(10, size=8)


@pytest.mark.parametrize("norm", NORMS)
def test_the_gradients_are_those_of_automatic_differentiation(norm):
    weights, output, images, labels = a_network(np.random.default_rng(0))
    loss, found, of_output = gradients(EXACT[norm], weights, output, images, labels)
    tensors = [torch.from_numpy(w).requires_grad_() for w in (*weights, output)]
    h = torch.from_numpy(images)
    for w in tensors[:-1]:
        z = h @ w.T
        if norm == "BatchNorm":
            y = (z - z.mean(0)) / z.std(0, correction=0)
        elif norm == "LayerNorm":
            y = (z - z.mean(1, keepdim=True)) / z.std(1, correction=0, keepdim=True)
        else:
            y = z / z.square().mean(1, keepdim=True).sqrt()
        h = torch.relu(y)
    expected = torch.nn.functional.cross_entropy(h @ tensors[-1].T, torch.from_numpy(labels))
    expected.backward()
    np.testing.assert_allclose(loss, expected.item())
    for tensor, gradient in zip(tensors, (*found, of_output), strict=True):
        np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_ten_times_the_weights_at_a_hundred_times_the_rate_is_the_same_run(norm):
    reference = train(norm, 0, steps=20, rate=0.3)
    matched = train(norm, 0, steps=20, rate=30.0, times=10.0)
    np.testing.assert_allclose(matched["loss"], reference["loss"], rtol=1e-9)
    np.testing.assert_allclose(matched["w2"], 100 * reference["w2"], rtol=1e-9)
    other = train(norm, 0, steps=20, rate=0.3, times=10.0)
    assert np.abs(other["loss"] - reference["loss"]).max() > 0.1


def settled(optimizer, rate, decay):
    """Root mean square angle per step and length at equilibrium, for independent gradients."""
    rng = np.random.default_rng(0)
    weights = torch.from_numpy(0.05 * rng.normal(size=2000))  # not far from where it settles
    step = optimizer_of(optimizer, [weights], rate, decay)
    angles, lengths = [], []
    for index in range(1200):
        before = weights.numpy().copy()
        noise = rng.normal(size=2000)
        noise -= before * (noise @ before) / (before @ before)
        weights.grad = torch.from_numpy(noise / np.linalg.norm(before))
        step.step()
        if index >= 600:
            after = weights.numpy()
            cosine = before @ after / np.linalg.norm(before) / np.linalg.norm(after)
            angles.append(np.arccos(cosine))
            lengths.append(np.linalg.norm(before))
    return np.sqrt(np.mean(np.square(angles))), np.mean(np.power(lengths, 4)) ** 0.25


@pytest.mark.parametrize(
    ("optimizer", "rate", "decay"),
    [("sgd", 0.5, 0.01), ("momentum", 0.1, 0.05), ("adamw", 0.005, 1.0)],
)
def test_the_predictions_are_those_of_independent_gradients(optimizer, rate, decay, tmp_path):
    predicted = effective_rate.predicted_angle(optimizer, rate, decay)
    found, length = settled(optimizer, rate, decay)
    settings = {**effective_rate.WORLD.settings, "width": 2000 / 64}
    world = World("effective_rate", lambda cell, rate, seed: {"late_gradient": 2000**0.5}, settings)
    study = Study(
        name=f"random, {tmp_path}",
        chapter=4,
        question="",
        arms={"random": {"rate": rate, "decay": decay, "optimizer": optimizer}},
        worlds=[world],
        control="",
        folder=tmp_path,
    )
    list(study.run())
    del STUDIES[study.name]
    saved, condition = study, "random"
    assert abs(length / effective_rate.predicted_length(saved, condition)[0] - 1) < 0.025
    assert abs(found / predicted - 1) < 0.01
    for other in {"sgd", "momentum", "adamw"} - {optimizer}:
        assert abs(found / effective_rate.predicted_angle(other, rate, decay) - 1) > 0.2
