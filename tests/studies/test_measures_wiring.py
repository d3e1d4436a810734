"""What is measured in models that learn to sort: the task, the wirings, the first steps."""

import math

import numpy as np
import pytest
import torch
from normtutor_studies.measures import encoder_decoder, first_steps, sorting
from normtutor_studies.worlds.sorting import LENGTH, SYMBOLS

TASK = {**sorting.SETTINGS, "width": 8, "heads": 2, "batch_size": 4, "test_sequences": 8}
SORTER = {**encoder_decoder.WORLD.settings, "width": 32, "heads": 2, "length": 6}

# --- the task and the models ----------------------------------------------------------------------


def test_the_task_asks_for_the_sorted_digits():
    batch, length = sorting.batch_of(TASK, 5, np.random.default_rng(0)), LENGTH
    assert batch.mask.sum(dim=1).tolist() == [length] * 5
    assert (batch.inputs[:, length] == SYMBOLS).all()
    asked = batch.targets[batch.mask].reshape(5, length)
    torch.testing.assert_close(asked, batch.inputs[:, :length].sort(dim=1).values)


def test_small_below_leaves_the_top_layer_as_it_is():
    plain, small = (
        sorting.model_of({**TASK, "wiring": name, "depth": 4}, 0) for name in ("post", "post-small")
    )
    for layer, (old, new) in enumerate(zip(plain.layers, small.layers, strict=True), start=1):
        for old_weight, new_weight in (
            (old.feed_forward[2].weight, new.feed_forward[2].weight),
            (old.attention.project_out.weight, new.attention.project_out.weight),
        ):
            torch.testing.assert_close(new_weight * (4 - layer + 1), old_weight)


def test_admin_is_profiled():
    model = sorting.model_of({**TASK, "wiring": "admin", "depth": 4}, 0)
    skips = [step.skip.mean().item() for layer in model.layers for step, _ in layer.steps()]
    assert skips[0] == 1 and skips == sorted(skips) and skips[-1] > 1.2


# --- the size of the update -----------------------------------------------------------------------


def test_the_first_step_is_measured_where_it_is_proportional_to_the_rate():
    changes = [
        first_steps.first_update({**TASK, "depth": 2}, rate, 0)["change"] for rate in (1e-6, 2e-6)
    ]
    assert changes[0] == pytest.approx(changes[1], rel=1e-2)


def test_likeness_is_the_mean_cosine_of_all_pairs():
    model = sorting.model_of({**TASK, "wiring": "post", "depth": 2}, 0)
    batch = sorting.test_batch(TASK, 0)
    with torch.no_grad():
        hidden = model.hidden(batch.inputs)[batch.mask]
    cosines = torch.nn.functional.cosine_similarity(hidden[:, None], hidden[None], dim=-1)
    assert first_steps.likeness(model, batch) == pytest.approx(cosines.mean().item(), rel=1e-4)
    with torch.no_grad():  # every token becomes the final norm's bias
        for name, parameter in model.layers[-1].named_parameters():
            if "norm_stream" in name:
                parameter.fill_(float("bias" in name))
    assert first_steps.likeness(model, batch) == pytest.approx(1.0, abs=1e-5)


def test_a_trace_starts_at_the_untrained_model():
    cell = {**first_steps.FIRST_STEPS.settings, **TASK, "wiring": "pre", "depth": 2, "followed": 4}
    found = first_steps.follow(cell, 1e-3, 0)
    assert found["step"] == [0, 2, 4]
    assert found["change"][0] == 0 < found["change"][1]
    assert all(len(values) == 3 for values in found.values())


# --- an encoder and a decoder ---------------------------------------------------------------------


def test_cross_attention_predicts_the_decoder_gradient_of_post_ln():
    ends, predicted = [], []
    for seed in range(3):
        torch.manual_seed(seed)
        model = encoder_decoder.Sorter({**SORTER, "depth": 12})
        batch = encoder_decoder.batch_of(SORTER, 64, np.random.default_rng(seed))
        found = encoder_decoder.profile(model, batch)
        assert {len(values) for values in found.values()} == {12}
        output = found["decoder output"]
        ends.append(math.log2(output[0] / output[-1]))
        predicted.append(-0.5 * np.log2(1 + np.array(found["cross"][1:])).sum())
    assert np.mean(ends) < -2
    assert np.mean(ends) == pytest.approx(np.mean(predicted), abs=1)


def test_the_decoder_does_not_see_what_it_should_write():
    model = encoder_decoder.Sorter({**SORTER, "wiring": "pre", "depth": 2})
    batch = encoder_decoder.batch_of(SORTER, 4, np.random.default_rng(0))
    torch.testing.assert_close(batch.targets, batch.source.sort(dim=1).values)
    torch.testing.assert_close(batch.inputs[:, 1:], batch.targets[:, :-1])
    later = batch.inputs.clone()
    later[:, 3:] = 0
    with torch.no_grad():
        before, after = model(batch), model(batch._replace(inputs=later))
    torch.testing.assert_close(after[:, :3], before[:, :3])
    assert not torch.allclose(after[:, 3:], before[:, 3:])
