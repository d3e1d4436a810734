"""What the chapter on RMSNorm adds to the package: its experiments in the small, its figures."""

import dataclasses
import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from normtutor_studies import experiments, plotting
from normtutor_studies.experiments import (
    detach_norm,
    gru_rates,
    gru_statistics,
    norm_speed,
)
from torch.nn import functional as F


@pytest.fixture(autouse=True)
def one_thread():
    """The experiments change torch's settings for their whole process; put them back."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    plt.close("all")


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
        norm = detach_norm.DetachedNorm(8, centre=centre, scale="on").double()
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

    whole = detach_norm.DetachedNorm(8, centre=centre, scale=scale).double()
    cut = detach_norm.DetachedNorm(8, centre=detached(centre), scale=detached(scale)).double()
    y, grad = gradient(whole, x, grad_y)
    y_cut, grad_cut = gradient(cut, x, grad_y)
    torch.testing.assert_close(y_cut, y)
    same = torch.allclose(grad_cut, grad)
    assert same == (centre == scale == "off")


def test_an_unknown_part_is_refused():
    with pytest.raises(ValueError, match="centre='half'"):
        detach_norm.DetachedNorm(8, centre="half", scale="on")


def test_the_sorting_task_asks_for_the_sorted_digits():
    batch = detach_norm.sorting_batch(detach_norm.CONFIG, 5, np.random.default_rng(0))
    length = detach_norm.CONFIG.length
    assert batch.mask.sum(dim=1).tolist() == [length] * 5
    asked = batch.targets[batch.mask].reshape(5, length)
    given = batch.inputs[:, :length]
    torch.testing.assert_close(asked, given.sort(dim=1).values)
    assert (batch.inputs[:, length] == detach_norm.CONFIG.symbols).all()


def test_the_detach_experiment_runs_in_the_small_and_repeats():
    config = dataclasses.replace(
        detach_norm.CONFIG,
        conditions=(detach_norm.Condition("on", "detached", 1e-3),),
        depth=1,
        steps=20,
        warmup=2,
        test_sequences=8,
    )
    first, second = detach_norm.run(config, 0), detach_norm.run(config, 0)
    assert first == second
    assert json.loads(json.dumps(first, allow_nan=False)) == first
    assert np.isfinite(first[0]["loss"]) and len(first[0]["curve"]) == 1


# --- the GRU --------------------------------------------------------------------------------------


def test_the_statistics_of_a_gru_say_what_layer_norm_guarantees():
    config = gru_statistics.Config(
        conditions=tuple(gru_statistics.Condition(norm, 1e-2) for norm in ("layer", "none")),
        width=8,
        length=6,
        batch_size=4,
        steps=1,
        held_out_chunks=64,
    )
    layer, none = gru_statistics.run(config, 0)
    # With γ and β nearly as at the start, LayerNorm's output has mean 0 and spread 1.
    assert np.abs(layer["after_mean"]).max() < 0.1
    assert np.abs(np.array(layer["after_spread"][1:]) - 1).max() < 0.2
    assert layer["after_spread"][0] < 0.1  # the first state is zero
    assert none["before_mean"] == none["after_mean"]
    assert len(none["after_mean_varies"]) == config.length


def test_the_rates_of_the_grus_have_worse_ones_on_both_sides():
    saved = experiments.load("gru_rates")
    losses = {
        norm: np.array([saved.values("loss", norm=norm, learning_rate=r) for r in gru_rates.RATES])
        for norm in gru_statistics.NORMS
    }  # (rates, seeds)
    for values in losses.values():
        assert 0 < values.mean(axis=1).argmin() < len(gru_rates.RATES) - 1
    # Whatever the rate, from 0.03 on, and on both seeds.
    assert (losses["rms"] < losses["layer"])[1:].all()


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
    record = norm_speed.summary(times)[1]
    assert (record["way"], record["norm"]) == ("torch", "rms")
    assert record["to_layer"] == record["to_torch_layer"] == [2.0, 2.0, 2.0]


def test_every_kind_of_work_runs():
    config = norm_speed.Config(model_width=16, model_depth=1, model_batch=2, model_length=3)
    function = norm_speed.formula_rms
    assert norm_speed.norm_work(function, (3, 4), backward=False)().shape == (3, 4)
    grad_x, grad_weight, grad_bias = norm_speed.norm_work(function, (3, 4), backward=True)()
    assert grad_x.shape == (3, 4) and grad_weight.shape == (4,) and grad_bias is None
    for model in ("transformer", "gru"):
        for norm in norm_speed.model_norms(config).values():
            norm_speed.model_work(config, model, norm)()


# --- figures --------------------------------------------------------------------------------------


def test_the_half_plane_shows_where_the_norms_move_a_token():
    mu, sigma = np.array([0.3, -2.0]), np.array([0.4, 1.0])
    figure = plotting.half_plane_figure(mu, sigma)
    points = {c.get_label(): np.asarray(c.get_offsets()) for c in figure.axes[0].collections}
    np.testing.assert_allclose(points["token"], np.stack([mu, sigma], axis=1))
    rms = points["after RMSNorm"]
    np.testing.assert_allclose(np.linalg.norm(rms, axis=1), 1)
    np.testing.assert_allclose(rms[:, 0] / rms[:, 1], mu / sigma)
    np.testing.assert_allclose(points["after LayerNorm"], [[0, 1]])


def test_the_half_plane_needs_positive_deviations():
    with pytest.raises(ValueError, match="above 0"):
        plotting.half_plane_figure([1.0], [0.0])


def test_repeats_are_drawn_from_quartile_to_quartile():
    ax = plotting.repeats({"a": [[1.0, 2.0, 4.0], [1.5, 2.5, 3.0]]}, xlabel="ratio")
    (container,) = ax.containers
    line, _, (bars,) = container.lines
    np.testing.assert_allclose(line.get_xdata(), [2.0, 2.5])
    np.testing.assert_allclose([s[:, 0] for s in bars.get_segments()], [[1.0, 4.0], [1.5, 3.0]])
    assert container.get_label() == "a"


def test_repeats_need_three_numbers_each():
    with pytest.raises(ValueError, match=r"\(n_repeats, 3\)"):
        plotting.repeats({"a": [1.0, 2.0, 3.0]}, xlabel="ratio")
