"""The experiments on residual wiring: their instruments and their figures."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from normtutor_studies import plotting
from normtutor_studies.experiments import update_size, wired_sorting
from normtutor_studies.experiments.wired_sorting import Task

from normtutor.wiring import WIRINGS

TASK = Task(width=8, heads=2, batch_size=4, test_sequences=8)


# --- the task and the models ----------------------------------------------------------------------


def test_the_task_asks_for_the_sorted_digits():
    batch = wired_sorting.batch_of(TASK, 5, np.random.default_rng(0))
    assert batch.mask.sum(dim=1).tolist() == [TASK.length] * 5
    assert (batch.inputs[:, TASK.length] == TASK.symbols).all()
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


# --- the size of the update -----------------------------------------------------------------------


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
    settings = vars(update_size.CONFIG) | {"trace_depth": 2, "trace_steps": 4, "task": TASK}
    found = update_size.follow(update_size.Config(**settings), "pre", 0, 1e-3, 0)
    assert found["step"] == [0, 2, 4]
    assert found["change"][0] == 0 < found["change"][1]
    assert all(len(values) == 3 for values in found.values())


# --- figures --------------------------------------------------------------------------------------


def test_the_drawing_has_the_norms_and_the_factors_of_the_table():
    figure = plotting.wirings_figure(WIRINGS)
    for ax, (name, row) in zip(figure.axes, WIRINGS.items(), strict=False):
        assert ax.get_title() == name
        drawn = {text.get_gid() for text in ax.texts if text.get_text() == "norm"}
        assert drawn == set(row.norms) | ({"final"} if row.final_norm else set())
    plt.close("all")
    labels = {name: plotting.wiring_labels(row, layer=4, depth=8) for name, row in WIRINGS.items()}
    assert labels["post"] == labels["pre"] == labels["none"] == {}
    assert labels["deepnorm"] == {"skip": "×2", "weights": "W ×0.35"}
    assert labels["ln-scaling"] == {"inside": "×0.5"}
    assert labels["rezero"] == {"branch": "×0*"}
    assert labels["gpt-2"] == {"weights": "W ×1, 0.25"}
