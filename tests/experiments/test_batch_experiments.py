"""Who shares a batch; gradients of an encoder and a decoder."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from normtutor_studies import experiments
from normtutor_studies.experiments import (
    batch_composition,
    batch_rates,
    encoder_decoder,
)
from normtutor_studies.experiments.records import Saved

# --- who shares a batch ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("best", "tried"),
    [
        (8e-3, {4e-3, 8e-3, 16e-3}),
        (4e-3, {2e-3, 4e-3, 8e-3, 16e-3}),
        (32e-3, {4e-3, 8e-3, 16e-3, 32e-3, 64e-3}),
    ],
)
def test_the_search_for_a_rate_goes_on_until_the_best_is_no_end(best, tried):
    found = batch_rates.climb(lambda rate: abs(math.log(rate / best)), (4e-3, 8e-3, 16e-3), 6)
    assert set(found) == tried
    assert min(found, key=found.get) == best


def test_the_search_for_a_rate_ends():
    found = batch_rates.climb(lambda rate: -rate, (4e-3, 8e-3, 16e-3), 5)
    assert max(found) == 64e-3


def test_the_best_rate_is_one_that_every_seed_tried():
    def run(seed, losses):
        where = {"norm": "layer", "kind": "topic"}
        records = [{**where, "learning_rate": r, "loss": loss} for r, loss in losses.items()]
        return {"seed": seed, "records": records}

    runs = (run(0, {1: 3.0, 2: 2.0, 4: 2.5}), run(1, {1: 3.0, 2: 2.2, 4: 2.1, 8: 1.0}))
    assert batch_rates.best_rates(Saved("batch_rates", {}, runs)) == {("layer", "topic"): 2}
    diverged = (run(0, {1: 3.0, 2: None}),)
    assert batch_rates.best_rates(Saved("batch_rates", {}, diverged)) == {("layer", "topic"): 1}


def test_the_controls_differ_in_the_last_norm_and_in_nothing_else():
    config = batch_composition.CONFIG
    torch.manual_seed(0)
    whole = batch_composition.build(config, "layer")
    torch.manual_seed(0)
    without = batch_composition.build(config, "layer, no final")
    kept = dict(without.named_parameters())
    missing = {name for name, _ in whole.named_parameters()} - kept.keys()
    assert missing == {"final_norm.weight", "final_norm.bias"}
    for name, parameter in whole.named_parameters():
        if name in kept:
            torch.testing.assert_close(kept[name], parameter, rtol=0, atol=0)


def test_every_kind_of_batches_has_layer_norm_to_compare_with():
    cells = batch_composition.cells()
    assert len(set(cells)) == len(cells)
    assert {kind for _, kind in cells} == {kind for norm, kind in cells if norm == "layer"}


def test_mixed_batches_take_the_rate_of_those_of_which_half_are_of_one_topic():
    rates = {(c.norm, c.kind): c.learning_rate for c in batch_composition.CONFIG.conditions}
    mixed = [(norm, kind) for norm, kind in rates if kind in batch_composition.UNTUNED]
    assert mixed
    for norm, kind in mixed:
        assert rates[norm, kind] == rates[norm, "topic 1/2"]


def test_the_large_size_takes_the_rates_that_its_own_search_chose(monkeypatch):
    def run(cell):
        # A rate of its own for each cell, and beside it one that is worse.
        rates = {2e-3 + 1e-5 * len("".join(cell)): 1.0, 4e-3: 2.0}
        where = dict(zip(("norm", "kind"), cell, strict=True))
        return [{**where, "learning_rate": rate, "loss": loss} for rate, loss in rates.items()]

    records = [record for cell in batch_rates.LARGE_CONFIG.cells for record in run(cell)]
    found = Saved("batch_rates", {}, ({"seed": 0, "records": records},))
    monkeypatch.setattr(batch_composition, "load", lambda name, scale: found)
    large = batch_composition.LARGE_CONFIG()
    assert [(c.norm, c.kind) for c in large.conditions] == list(batch_composition.cells())
    for norm, kind, rate in map(dataclasses.astuple, large.conditions):
        tuned = "topic 1/2" if kind in batch_composition.UNTUNED else kind
        assert rate == 2e-3 + 1e-5 * len(norm + tuned)
    for field in set(batch_composition.LARGE):
        assert getattr(large, field) == getattr(batch_rates.LARGE_CONFIG, field)


def test_the_dose_runs_from_no_batch_of_one_topic_to_all():
    for norm in ("masked batch", "power"):
        doses = batch_composition.dose(experiments.load("batch_composition"), norm)
        assert list(doses) == [0, 0.25, 0.5, 0.75, 1]


# --- encoder and decoder --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    return dataclasses.replace(encoder_decoder.CONFIG, heads=2, length=6)


def test_cross_attention_predicts_the_decoder_gradient_of_post_ln(small):
    ends, predicted = [], []
    for seed in range(3):
        model = encoder_decoder.build(small, "post", 12, 32, seed)
        batch = encoder_decoder.batch_of(small, 64, np.random.default_rng(seed))
        found = encoder_decoder.profile(model, batch)
        assert [len(found[part]) for part in encoder_decoder.PARTS] == [12, 12]
        output = found["decoder output"]
        ends.append(math.log2(output[0] / output[-1]))
        predicted.append(-0.5 * np.log2(1 + np.array(found["cross"][1:])).sum())
    assert np.mean(ends) < -2
    assert np.mean(ends) == pytest.approx(np.mean(predicted), abs=1)


def test_the_decoder_does_not_see_what_it_should_write(small):
    model = encoder_decoder.build(small, "pre", 2, 32, 0)
    batch = encoder_decoder.batch_of(small, 4, np.random.default_rng(0))
    torch.testing.assert_close(batch.targets, batch.source.sort(dim=1).values)
    torch.testing.assert_close(batch.inputs[:, 1:], batch.targets[:, :-1])
    later = batch.inputs.clone()
    later[:, 3:] = 0
    with torch.no_grad():
        before, after = model(batch), model(batch._replace(inputs=later))
    torch.testing.assert_close(after[:, :3], before[:, :3])
    assert not torch.allclose(after[:, 3:], before[:, 3:])


def test_likeness_is_one_for_equal_tokens_and_less_for_others():
    same = torch.ones(2, 5, 8)
    assert encoder_decoder.likeness(same) == pytest.approx(1, abs=1e-6)
    assert encoder_decoder.likeness(torch.eye(8)[None]) == pytest.approx(0, abs=1e-6)
