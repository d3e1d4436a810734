"""The experiments on residual wiring: their instruments, their figures, and what they found."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from normtutor_studies import experiments, plotting
from normtutor_studies.experiments import (
    remedies,
    update_size,
    wide_and_shallow,
    wired_sorting,
)
from normtutor_studies.experiments.wired_sorting import Task

from normtutor.training import masked_language_model_loss
from normtutor.wiring import WIRINGS

TASK = Task(width=8, heads=2, batch_size=4, test_sequences=8)


@pytest.fixture(autouse=True)
def one_thread():
    """The experiments change torch's settings for their whole process; put them back."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    plt.close("all")


# --- the task and the models ----------------------------------------------------------------------


def test_the_task_asks_for_the_sorted_digits():
    batch = wired_sorting.batch_of(TASK, 5, np.random.default_rng(0))
    asked = batch.targets[batch.mask].reshape(5, TASK.length)
    torch.testing.assert_close(asked, batch.inputs[:, : TASK.length].sort(dim=1).values)


def test_small_below_leaves_the_top_layer_as_it_is():
    plain, small = (wired_sorting.model_of(TASK, name, 4, 0) for name in ("post", "post-small"))
    for layer, (old, new) in enumerate(zip(plain.layers, small.layers, strict=True), start=1):
        for old_weight, new_weight in (
            (old.feed_forward[2].weight, new.feed_forward[2].weight),
            (old.attention.project_out.weight, new.attention.project_out.weight),
        ):
            torch.testing.assert_close(new_weight * (4 - layer + 1), old_weight)


def test_admin_is_profiled():
    model = wired_sorting.model_of(TASK, "admin", 4, 0)
    skips = [step.skip.mean().item() for layer in model.layers for step, _ in layer.steps()]
    assert skips[0] == 1 and skips == sorted(skips) and skips[-1] > 1.2


def test_a_score_that_is_not_finite_is_none():
    model = wired_sorting.model_of(TASK, "pre", 1, 0)
    batch = wired_sorting.test_batch(TASK, 0)
    assert wired_sorting.score(model, batch)["loss"] == pytest.approx(
        masked_language_model_loss(model, batch).item(), rel=1e-5
    )
    with torch.no_grad():
        model.final_norm.weight.fill_(math.nan)
    assert wired_sorting.score(model, batch) == {"loss": None, "accuracy": None}


def test_rates_are_trained_on_the_same_sequences_and_the_change_starts_small():
    records = wired_sorting.run_rates(
        TASK, (1e-7, 1e-7, 1e-2), 0, wiring="pre", depth=2, steps=20, warmup=0
    )
    assert records[0] == records[1]
    assert records[0]["change"][0] < 1e-3 < 1e-1 < records[2]["change"][-1]
    assert len(records[0]["curve"]) == len(records[0]["change"]) == 2
    assert len(records[0]["gradients"]) == 2


# --- the size of the update -----------------------------------------------------------------------


def test_a_factor_on_the_loss_matters_to_sgd_alone():
    def alike(optimizer, rate, factor):
        return update_size.likeness_after(
            6, "post", optimizer=optimizer, learning_rate=rate, factor=factor, seed=10
        )

    assert alike("adam", 4e-3, 0.01) == pytest.approx(alike("adam", 4e-3, 1.0), abs=2e-3)
    assert alike("sgd", 0.1, 0.01) < 0.9 < alike("sgd", 0.1, 1.0)


def test_the_first_step_is_measured_where_it_is_proportional_to_the_rate():
    changes = [
        update_size.first_step(TASK, "post", 2, 0, learning_rate=rate)["change"]
        for rate in (1e-6, 2e-6)
    ]
    assert changes[0] == pytest.approx(changes[1], rel=1e-2)


def test_likeness_is_the_mean_cosine_of_all_pairs():
    model = wired_sorting.model_of(TASK, "post", 2, 0)
    batch = wired_sorting.test_batch(TASK, 0)
    with torch.no_grad():
        hidden = model.hidden(batch.inputs)[batch.mask]
    cosines = torch.nn.functional.cosine_similarity(hidden[:, None], hidden[None], dim=-1)
    assert update_size.likeness(model, batch) == pytest.approx(cosines.mean().item(), rel=1e-4)
    with torch.no_grad():  # every token becomes the final norm's bias
        for name, parameter in model.layers[-1].named_parameters():
            if "norm_stream" in name:
                parameter.fill_(float("bias" in name))
    assert update_size.likeness(model, batch) == pytest.approx(1.0, abs=1e-5)


def test_a_trace_starts_at_the_untrained_model():
    config = update_size.Config(trace_depth=2, task=TASK)
    found = update_size.follow(config, update_size.Trace("pre", 0, 1e-3), 0, steps=4)
    assert found["step"] == [0, 2, 4]
    assert found["change"][0] == 0 < found["change"][1]
    assert all(len(values) == 3 for values in found.values())


# --- layers removed and swapped -------------------------------------------------------------------


def test_a_rearranged_model_shares_its_weights():
    model = wired_sorting.model_of(TASK, "post", 3, 0)
    tokens = wired_sorting.test_batch(TASK, 0).inputs
    with torch.no_grad():
        torch.testing.assert_close(
            wide_and_shallow.rearranged(model, [0, 1, 2])(tokens), model(tokens)
        )
        without = wide_and_shallow.rearranged(model, [0, 2])
        x = model.embed(tokens)
        for layer in (model.layers[0], model.layers[2]):
            x = layer(x)
        torch.testing.assert_close(without.hidden(tokens), x)
        assert len(model.layers) == 3
        model.token_embedding.weight.mul_(2)
        assert without.token_embedding.weight is model.token_embedding.weight


def test_the_surgeries_are_all_there():
    found = wide_and_shallow.surgeries(4)
    assert found["without"] == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]
    assert found["swapped"] == [[1, 0, 2, 3], [0, 2, 1, 3], [0, 1, 3, 2]]
    assert found["reversed"] == [[0, 1, 3, 2]]


def test_increments_of_a_known_stream():
    x = torch.tensor([[3.0, 4.0]])
    found = wide_and_shallow.along_the_stream([x, 2 * x, torch.tensor([[-8.0, 6.0]])])
    assert found["squares"] == [12.5, 50.0, 50.0]
    assert found["increments"] == pytest.approx([1.0, math.sqrt(2)])
    assert found["cosines"] == pytest.approx([1.0, 0.0], abs=1e-6)


# --- rates ----------------------------------------------------------------------------------------


def test_a_seed_gets_the_rate_that_is_best_on_the_others():
    losses = np.array([[0.1, 0.5], [0.9, 0.4], [0.9, 0.3], [np.nan, 0.2]])
    found, chosen = remedies.at_best_rate(losses)
    # Seed 0 would like the first rate, but the others speak against it.
    assert chosen.tolist() == [1, 1, 1, 1]
    assert found.tolist() == [0.5, 0.4, 0.3, 0.2]
    found, chosen = remedies.at_best_rate(np.array([[0.1, 0.2], [0.1, 0.2], [np.nan, 0.2]]))
    assert chosen.tolist() == [1, 1, 0] and np.isinf(found[2])


# --- figures --------------------------------------------------------------------------------------


def test_the_drawing_has_the_norms_of_the_table():
    figure = plotting.wirings_figure(WIRINGS)
    assert [ax.get_title() for ax in figure.axes[len(WIRINGS) :] if ax.get_title()] == []
    for ax, (name, row) in zip(figure.axes, WIRINGS.items(), strict=False):
        assert ax.get_title() == name
        drawn = {text.get_gid() for text in ax.texts if text.get_text() == "norm"}
        assert drawn == set(row.norms) | ({"final"} if row.final_norm else set())


def test_the_drawing_says_the_factors():
    labels = {name: plotting.wiring_labels(row, layer=4, depth=8) for name, row in WIRINGS.items()}
    assert labels["post"] == labels["pre"] == labels["none"] == {}
    assert labels["deepnorm"] == {"skip": "×2", "weights": "W ×0.35"}
    assert labels["ln-scaling"] == {"inside": "×0.5"}
    assert labels["rezero"] == {"branch": "×0*"}
    assert labels["gpt-2"] == {"weights": "W ×1, 0.25"}


def test_a_map_shows_its_texts_and_checks_its_shape():
    _, ax = plt.subplots()
    options = {"rows": ["a"], "columns": ["x", "y"], "low": 0, "high": 1, "ax": ax}
    plotting.grid_map([[0.1, 0.9]], texts=[["0.1", "0.9"]], **options)
    assert [text.get_text() for text in ax.texts] == ["0.1", "0.9"]
    with pytest.raises(ValueError, match=r"\(1, 2\)"):
        plotting.grid_map([[0.1], [0.9]], texts=[["0.1"], ["0.9"]], **options)


# --- findings: the sentences of chapter 7, as inequalities on what is saved -----------------------

CHANCE = math.log(10)


def interval(values):
    """The lower and upper end of a 95% t-interval over five seeds; 2.776 is t.ppf(0.975, 4)."""
    assert len(values) == 5
    half = 2.776 * values.std(ddof=1) / np.sqrt(5)
    return values.mean() - half, values.mean() + half


def test_what_trains():
    saved = experiments.load("warmup_map")
    for condition in saved.config["conditions"]:
        losses = remedies.losses_by_rate(saved, **condition)
        assert np.isfinite(losses).all()  # to fail is to stall
        if condition["wiring"] == "pre":
            assert (losses < 0.5 * CHANCE).all()
    unwarmed = {"wiring": "post", "warmup": 0}
    six = remedies.losses_by_rate(saved, depth=6, **unwarmed)
    twelve = remedies.losses_by_rate(saved, depth=12, **unwarmed)
    assert (six[:, :3] < 0.5 * CHANCE).all() and (six[:, 4] > 0.95 * CHANCE).all()
    assert (twelve[:, 0] < 0.5 * CHANCE).all() and (twelve[:, 2:] > 0.95 * CHANCE).all()
    warmed = remedies.losses_by_rate(saved, depth=12, wiring="post", warmup=60)
    assert (warmed[:, :4] < 0.5 * CHANCE).all()
    assert (warmed[:, 4] > 0.5 * CHANCE).all()


def test_the_first_update_over_depth():
    saved = experiments.load("update_size")
    where = {"part": "first step", "depth": 32}
    change = {w: saved.values("change", wiring=w, **where) for w in saved.config["wirings"]}
    top = {w: saved.values("top", wiring=w, **where) for w in saved.config["wirings"]}
    assert change["post"].mean() > 3 * change["pre"].mean()
    assert (change["post-small"] < change["pre"]).all()
    assert (top["post-small"] > 2 * top["pre"]).all()
    for wiring in ("post-small", "deepnorm"):
        assert interval(update_size.exponents(saved, wiring, "change"))[1] < 1


def test_the_run_that_fails_makes_all_tokens_alike():
    saved = experiments.load("update_size")
    traces = {(t["wiring"], t["warmup"], t["learning_rate"]): t for t in saved.config["traces"]}
    for key, where in traces.items():
        likeness = saved.values("likeness", part="trace", **where)
        bottom = saved.values("bottom", part="trace", **where)
        fails = key == ("post", 0, 4e-3)
        assert ((likeness[:, 5:] > 0.999).all(1) == fails).all()
        assert (likeness.max() > 0.999) == fails
        assert ((bottom.min(1) < 1e-3 * bottom[:, 0]) == fails).all()
    # Warm-up changes neither the weights nor the gradient that the run starts with.
    first, second = (
        saved.values("top", part="trace", **traces["post", warmup, 4e-3])[:, 0]
        for warmup in (0, 60)
    )
    assert (first == second).all()


def test_pre_ln_layers_are_more_exchangeable_and_none_is_idle():
    saved = experiments.load("wide_and_shallow")
    for key in ("without_accuracy", "swapped_accuracy", "reversed_accuracy"):
        pre, post = (saved.values(key, wiring=wiring)[:, -4:].mean(1) for wiring in ("pre", "post"))
        assert interval(pre - post)[0] > 0
    whole = saved.values("whole_accuracy", wiring="pre")
    without = saved.values("without_accuracy", wiring="pre")
    assert (interval(whole[:, 0] - without[:, -4:].mean(1))[0]) > 0.02
    increments = saved.values("end_increments", wiring="pre").mean(0)
    before = saved.values("start_increments", wiring="pre").mean(0)
    assert increments[-1] / increments[0] > 0.75 > before[-1] / before[0]
    deepnorm = saved.values("swapped_accuracy", wiring="deepnorm")[:, 4:].mean(1)
    assert deepnorm.mean() > 0.98


def test_the_remedies_train_without_warmup():
    saved, plain = experiments.load("remedies"), experiments.load("warmup_map")
    where = {"depth": 12, "warmup": 0}
    pre = remedies.at_best_rate(remedies.losses_by_rate(plain, wiring="pre", **where))[0]
    for wiring in saved.config["wirings"]:
        losses = remedies.losses_by_rate(saved, wiring=wiring, **where)
        if wiring == "none":
            assert (losses > CHANCE).all()
        else:
            assert (losses[:, 1:4] < 0.5 * CHANCE).all()
            bears_the_largest = (losses[:, 4] < 0.5 * CHANCE).all()
            assert bears_the_largest == (wiring in ("deepnorm", "fixup", "rezero", "peri"))
    for wiring in ("post-small", "fixup", "deepnorm"):
        losses = remedies.losses_by_rate(saved, wiring=wiring, **where)
        assert interval(remedies.at_best_rate(losses)[0] - pre)[1] < 0


def test_in_sorting_the_depth_decides_which_wiring_ends_better():
    saved = experiments.load("warmup_map")
    differences = {}
    for depth in (6, 12):
        ends = []
        for wiring in ("post", "pre"):
            rows = [
                remedies.losses_by_rate(saved, **c)
                for c in saved.config["conditions"]
                if (c["depth"], c["wiring"]) == (depth, wiring)
            ]
            ends.append(remedies.at_best_rate(np.concatenate(rows, axis=1))[0])
        differences[depth] = interval(ends[0] - ends[1])
    assert differences[6][1] < 0 < differences[12][0]
