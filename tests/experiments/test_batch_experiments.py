"""Gradients of an encoder and a decoder."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from normtutor_studies.experiments import encoder_decoder


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
