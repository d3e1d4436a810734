"""Mistakes that no other test would notice: a false sentence, a flipped sign, a leak, a silence."""

import numpy as np
import pytest

from normtutor import experiments
from normtutor.experiments import package_chunks, rms_against_layer, variance_growth
from normtutor.experiments.records import Saved

# Each sentence that a saved run reports, and what must hold of its rows for the sentence to be
# true. Who writes another sentence says here what it comes to.
FINDINGS = {
    "covariate_shift_gradients": (
        "less shift does not go with a smaller loss: BatchNorm has either without the other",
        # A smaller cosine is a larger shift; the claims' tests hold the losses.
        lambda rows: rows["linear"] < -0.2 and rows["relu"] > 0.2,
    ),
    "depth_profiles": (
        "after training the gradient falls towards the top in all four wirings",
        lambda rows: min(rows.values()) > 0,
    ),
    "detach_norm": (
        "without the scale's gradient training stalls; the mean, in either pass, matters little",
        lambda rows: (
            min(value for name, value in rows.items() if "scale detached" in name) > 0.5
            and abs(rows["centre off, scale on"]) < 0.05
            and abs(rows["centre detached, scale on"]) < 0.05
        ),
    ),
    "digit_batches": (
        "after three epochs BatchNorm leads with 2 images or more, and not with 1",
        lambda rows: all((v > 0) != ("batch of 1," in name) for name, v in rows.items()),
    ),
    "input_drift": (
        "the sigmoids' inputs move far less with BatchNorm; the input of BatchNorm itself drifts",
        lambda rows: (
            rows["BatchNorm, at the sigmoid"] < 0.2
            and rows["BatchNorm, before the norm"] > 1
            and rows["no norm, at the sigmoid"] > 2
        ),
    ),
    "noisy_batch_norm": (
        "with noise behind BatchNorm inputs shift more than without a norm, and it is still fast",
        lambda rows: rows["noisy batch"] < rows["none"] / 5,
    ),
    "qk_norm": (
        "logits grow with the learning rate, and QK-norm bounds them",
        lambda rows: rows["rate 0.128"] < rows["rate 0.064"] < 0,
    ),
    "rms_against_layer": (
        "LayerNorm and RMSNorm are equivalent within 2 % of perplexity",
        lambda rows: abs(rows["RMSNorm"]) < np.log(1.02),
    ),
    "batch_composition": (
        "BatchNorm keeps up unless batches are of equal length; then its two modes part",
        lambda rows: all(
            value > 0.1 if "equal length" in name else abs(value) < 0.1
            for name, value in rows.items()
            if "BatchNorm, masked" in name
        ),
    ),
    "topic_share": (
        "one-topic batches set BatchNorm back, and PowerNorm about half as far in five seeds, as "
        "far in a sixth",
        lambda rows: (
            rows["share 0, BatchNorm"] < rows["share 0.5, BatchNorm"] < rows["share 1, BatchNorm"]
            and 0.3 < rows["share 1, PN"] / rows["share 1, BatchNorm"] < 0.6
        ),
    ),
}


def means(name: str) -> dict[str, float]:
    rows = experiments.module_of(name).rows(experiments.load(name))
    return {key: float(np.mean(values)) for key, values in rows.items()}


@pytest.mark.parametrize("name", FINDINGS)
def test_what_a_run_is_said_to_find_is_what_its_rows_show(name):
    sentence, holds = FINDINGS[name]
    assert experiments.module_of(name).FINDING == sentence, "say in FINDINGS what the words mean"
    assert holds(means(name))


@pytest.mark.parametrize("name", FINDINGS)
def test_the_opposite_would_be_noticed(name):
    opposite = {key: -value for key, value in means(name).items()}
    if name != "rms_against_layer":  # which says that something is small, whatever its sign
        assert not FINDINGS[name][1](opposite)
    else:
        assert not FINDINGS[name][1]({"RMSNorm": 0.05})


def test_rows_are_differences_from_layer_norm_with_the_sign_that_they_say():
    records = [
        {"norm": "layer", "loss": 1.0},
        {"norm": "rms", "loss": 1.5},
        {"norm": "none", "loss": 4.0},
    ]
    saved = Saved("rms_against_layer", {}, ({"seed": 0, "records": records},))
    rows = rms_against_layer.rows(saved)
    assert {name: float(values[0]) for name, values in rows.items()} == {
        "RMSNorm": 0.5,
        "no norm": 3.0,
    }


# --- held-out parts -------------------------------------------------------------------------------


SIZE = package_chunks.Size(width=8, heads=2, length=8, batch_size=4, steps=4, warmup=1)


def sentences_of(part: str) -> set[tuple[int, ...]]:
    documents = getattr(package_chunks.corpus_of(SIZE), part)
    return {tuple(np.asarray(sentence).tolist()) for doc in documents for sentence in doc}


def test_each_part_is_measured_on_its_own_sentences():
    for part in ("validation", "test"):
        documents = getattr(package_chunks.corpus_of(SIZE), part)
        stream = np.concatenate([sentence[:-1] for doc in documents for sentence in doc])
        text = f" {' '.join(map(str, stream.tolist()))} "
        for batch in package_chunks.held_out(SIZE, part):
            for chunk in batch.inputs[:4]:
                assert f" {' '.join(map(str, chunk.tolist()))} " in text


def test_no_test_sentence_is_in_another_part():
    test = sentences_of("test")
    assert len(test) > 1000
    # Up to the letters that no piece holds, which are all one token.
    for part in ("train", "validation"):
        assert len(test & sentences_of(part)) / len(test) < 0.001


def test_the_growth_of_the_stream_is_recorded_while_the_model_trains():
    config = variance_growth.Config(
        conditions=variance_growth.CONFIG.conditions[:1], size=SIZE, evaluate_every=2, kept=(2, 4)
    )
    (record,) = variance_growth.run(config, 0)
    assert record["steps"] == [0, 2, 4]
    assert len(record["stream"]) == len(record["last_over_middle"]) == 3
    assert record["stream"][0] != record["stream"][-1]
