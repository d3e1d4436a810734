"""What is measured around RMSNorm: nine norms, a GRU, speed."""

import numpy as np
import pytest
import torch
from normtutor_studies.measures import gru_statistics, norm_speed, sorting
from torch.nn import functional as F

# --- the nine norms -------------------------------------------------------------------------------


def gradient(norm, x, grad_y):
    leaf = x.clone().requires_grad_()
    y = norm(leaf)
    return y.detach(), torch.autograd.grad(y, leaf, grad_y)[0]


def test_both_parts_on_is_layer_norm_and_the_scale_alone_is_rms_norm():
    x, grad_y = torch.randn(2, 3, 4, 8, dtype=torch.float64)
    for centre, expected in (
        ("on", lambda x: F.layer_norm(x, (8,))),
        ("off", lambda x: F.rms_norm(x, (8,), eps=1e-5)),
    ):
        norm = sorting.DetachedNorm(8, centre=centre, scale="on").double()
        for found, wanted in zip(
            gradient(norm, x, grad_y), gradient(expected, x, grad_y), strict=True
        ):
            torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("centre", ["off", "on"])
@pytest.mark.parametrize("scale", ["off", "on"])
def test_detaching_changes_the_gradient_alone(centre, scale):
    x, grad_y = torch.randn(2, 3, 4, 8, dtype=torch.float64)

    def detached(part):
        return "detached" if part == "on" else part

    whole = sorting.DetachedNorm(8, centre=centre, scale=scale).double()
    cut = sorting.DetachedNorm(8, centre=detached(centre), scale=detached(scale)).double()
    y, grad = gradient(whole, x, grad_y)
    y_cut, grad_cut = gradient(cut, x, grad_y)
    torch.testing.assert_close(y_cut, y)
    same = torch.allclose(grad_cut, grad)
    assert same == (centre == scale == "off")


# --- the GRU --------------------------------------------------------------------------------------


def test_the_statistics_of_a_gru_say_what_layer_norm_guarantees():
    small = {"width": 8, "length": 6, "batch_size": 4, "steps": 1, "held_out_chunks": 64}
    cell = {**gru_statistics.WORLD.settings, **small}
    none, layer = (gru_statistics.measure({**cell, "norm": n}, 0.06, 10) for n in ("none", "layer"))
    # With γ and β nearly as at the start, LayerNorm's output has mean 0 and spread 1.
    assert np.abs(layer["after_mean"]).max() < 0.1
    assert np.abs(np.array(layer["after_spread"][1:]) - 1).max() < 0.2
    assert layer["after_spread"][0] < 0.1  # the first state is zero
    assert len(none["after_mean_varies"]) == 6


# --- speed ----------------------------------------------------------------------------------------


def test_contestants_compute_what_they_should():
    x, weight, bias = torch.randn(5, 32), torch.randn(32), torch.randn(32)
    functions = norm_speed.contestants(compiled=False)
    layer, rms = F.layer_norm(x, (32,), weight, bias), F.rms_norm(x, (32,), weight)
    torch.testing.assert_close(functions["formula layer"](x, weight, bias), layer)
    torch.testing.assert_close(functions["torch layer"](x, weight, bias), layer)
    torch.testing.assert_close(functions["formula rms"](x, weight, bias), rms)
    torch.testing.assert_close(functions["torch rms"](x, weight, bias), rms)


def test_without_a_compiler_nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(norm_speed.shutil, "which", lambda name: None)
    assert not any(name.startswith("compiled") for name in norm_speed.contestants(compiled=True))


def test_a_race_lets_everybody_run_in_every_round():
    calls = []
    work = {"way layer": lambda: calls.append("layer"), "way rms": lambda: calls.append("rms")}
    times = norm_speed.race(work, rounds=3, slice_seconds=0.0, seed=0)
    # Three calls before the race, then one a round.
    assert calls.count("layer") == calls.count("rms") == 6
    assert all(len(seconds) == 3 for seconds in times.values())


def test_ratios_are_taken_within_a_round():
    times = {"torch layer": np.array([1.0, 10.0, 2.0]), "torch rms": np.array([2.0, 20.0, 4.0])}
    summary = norm_speed.summary(times)
    for key in ("to layer", "to torch layer"):
        assert summary[f"{key}, torch rms"] == [2.0, 2.0, 2.0]


def test_a_formula_in_a_model_is_run_as_a_formula(monkeypatch):
    """When our layers learned to run torch's kernels, the formulas raced as kernels."""
    ran = []
    kernel = torch.nn.functional.layer_norm
    monkeypatch.setattr(torch.nn.functional, "layer_norm", lambda *a: ran.append(1) or kernel(*a))
    cell = {**norm_speed.WORLD.settings, "model_depth": 1}
    norm_speed.model_work(cell, "transformer", norm_speed.MODEL_NORMS["formula layer"])()
    assert not ran
    norm_speed.model_work(cell, "transformer", norm_speed.MODEL_NORMS["torch layer"])()
    assert ran
