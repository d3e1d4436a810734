"""Data: the parts do not mix, the batches hold what they promise, what is impossible is refused."""

from collections import Counter

import numpy as np
import pytest
import torch
from normtutor_studies import corpus

from normtutor import data


@pytest.fixture(scope="module")
def documents():
    """Some 3,000 sentences of many lengths, in documents of seven."""
    rng = np.random.default_rng(0)
    sentences = [
        np.array([2, *rng.integers(3, 99, rng.geometric(0.06) + 3), 2]) for _ in range(3000)
    ]
    return [sentences[i : i + 7] for i in range(0, len(sentences), 7)]


@pytest.fixture(scope="module")
def digits():
    return data.load_digits()


# --- digits ---------------------------------------------------------------------------------------


def test_digits_are_split_and_standardised_by_the_training_part(digits):
    assert [part.images.shape for part in digits] == [(n, 1, 8, 8) for n in (1197, 300, 300)]
    assert digits.train.images.mean().item() == pytest.approx(0, abs=1e-6)
    assert digits.train.images.std(correction=0).item() == pytest.approx(1, abs=1e-5)
    for part in digits:
        assert sorted(part.labels.unique().tolist()) == list(range(10))


def test_image_batches_visit_every_image_once_an_epoch(digits):
    stream = data.image_batches(digits.train, 399, np.random.default_rng(0))
    for _ in range(2):
        epoch = torch.cat([next(stream)[0] for _ in range(3)])
        torch.testing.assert_close(epoch.sort(0).values, digits.train.images.sort(0).values)
        assert not torch.equal(epoch, digits.train.images)
    for size in (0, 1198):
        with pytest.raises(ValueError, match=f"got {size}"):
            next(data.image_batches(digits.train, size, np.random.default_rng(0)))


# --- batches --------------------------------------------------------------------------------------


def test_padding_stands_on_the_right_and_targets_follow_inputs():
    batch = data.pad([np.array([2, 5, 6, 7, 2]), np.array([2, 8, 2])], length=5)
    assert batch.inputs.tolist() == [[2, 5, 6, 7, 0], [2, 8, 0, 0, 0]]
    assert batch.targets.tolist() == [[5, 6, 7, 2, 0], [8, 2, 0, 0, 0]]
    assert batch.mask.tolist() == [[True] * 4 + [False], [True] * 2 + [False] * 3]
    with pytest.raises(ValueError, match="at least 4"):
        data.pad([np.array([2, 5, 6, 7, 2])], length=3)


def stream(documents, order):
    return list(data.sentence_stream(documents, 16, order, np.random.default_rng(0)))


def sentences_of(*batches):
    return [
        tuple(row[keep].tolist())
        for b in batches
        for row, keep in zip(b.inputs, b.mask, strict=True)
    ]


@pytest.mark.parametrize("order", ["shuffled", "document", "length"])
def test_an_epoch_holds_each_sentence_at_most_once(documents, order):
    everything = [tuple(s[:-1].tolist()) for document in documents for s in document]
    seen = sentences_of(*stream(documents, order))
    assert len(everything) - len(seen) < 16
    assert Counter(seen) <= Counter(everything)
    assert seen == sentences_of(*stream(documents, order))
    start = everything.index(seen[0])
    assert ((everything * 2)[start : start + 16] == seen[:16]) == (order == "document")


def test_equal_lengths_meet_in_length_order(documents):
    shares = {
        order: np.mean([batch.mask.float().mean().item() for batch in stream(documents, order)])
        for order in ("length", "shuffled")
    }
    assert shares["length"] > 0.98 and shares["shuffled"] < 0.6


def test_chunks_follow_the_text_and_impossible_batches_are_refused(documents):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="order must be"):
        data.sentence_stream(documents, 16, "random", rng)
    with pytest.raises(ValueError, match="batch_size must lie"):
        data.sentence_stream(documents, 10**6, "shuffled", rng)
    with pytest.raises(ValueError, match="equally long"):
        corpus.chunk_batches(documents, 8, 32, "length", rng)
    for order in ("shuffled", "document"):
        batch = corpus.chunk_batches(documents, 8, 32, order, rng)[0]
        assert batch.mask.all() and batch.inputs.shape == (8, 32)
        assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])
        joined = (batch.targets[:-1, -1] == batch.inputs[1:, 0]).sum()
        assert (joined >= 6) == (order == "document")  # one seam, where the text starts again


# --- synthetic ------------------------------------------------------------------------------------


def test_correlated_tokens_have_the_correlation_they_promise():
    x = data.correlated_tokens(np.random.default_rng(0), 40_000, 2, 3, correlation=0.3)
    assert x.shape == (40_000, 2, 3)
    assert x.mean() == pytest.approx(0, abs=0.02)
    assert x.var() == pytest.approx(1, abs=0.02)
    within = [np.corrcoef(x[:, 0, feature], x[:, 1, feature])[0, 1] for feature in range(3)]
    assert within == pytest.approx([0.3] * 3, abs=0.02)
    assert np.corrcoef(x[:-1, 0, 0], x[1:, 0, 0])[0, 1] == pytest.approx(0, abs=0.02)
    with pytest.raises(ValueError, match="between 0 and 1"):
        data.correlated_tokens(np.random.default_rng(0), 1, 1, 1, correlation=2.0)
