"""Gradients of an encoder and a decoder."""

import math

import numpy as np
import pytest
import torch
from normtutor_studies.experiments import encoder_decoder

CONFIG = encoder_decoder.Config(heads=2, symbols=10, length=6)


def test_cross_attention_predicts_the_decoder_gradient_of_post_ln():
    ends, predicted = [], []
    for seed in range(3):
        torch.manual_seed(seed)
        model = encoder_decoder.Sorter(CONFIG, "post", 12, 32)
        batch = encoder_decoder.batch_of(CONFIG, 64, np.random.default_rng(seed))
        found = encoder_decoder.profile(model, batch)
        assert {len(values) for values in found.values()} == {12}
        output = found["decoder output"]
        ends.append(math.log2(output[0] / output[-1]))
        predicted.append(-0.5 * np.log2(1 + np.array(found["cross"][1:])).sum())
    assert np.mean(ends) < -2
    assert np.mean(ends) == pytest.approx(np.mean(predicted), abs=1)


def test_the_decoder_does_not_see_what_it_should_write():
    model = encoder_decoder.Sorter(CONFIG, "pre", 2, 32)
    batch = encoder_decoder.batch_of(CONFIG, 4, np.random.default_rng(0))
    torch.testing.assert_close(batch.targets, batch.source.sort(dim=1).values)
    torch.testing.assert_close(batch.inputs[:, 1:], batch.targets[:, :-1])
    later = batch.inputs.clone()
    later[:, 3:] = 0
    with torch.no_grad():
        before, after = model(batch), model(batch._replace(inputs=later))
    torch.testing.assert_close(after[:, :3], before[:, :3])
    assert not torch.allclose(after[:, 3:], before[:, 3:])
