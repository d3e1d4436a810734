"""Whether a token can read the end of its sentence off the other sentences of its batch.

A model is trained for a short time on batches of sentences of equal length. Then the same
sentences, of about 20 tokens, are put among others of about 20 tokens, or among others of about 10.
In the middle of the sentence, how likely does the model think that it ends here? It uses the
statistics of the batch, as in training.
"""

import itertools
from functools import partial
from typing import Any

import numpy as np

from normtutor.data import Sentence, epochs, pad, sentence_stream
from normtutor.models import TransformerLM
from normtutor.training import evaluation_mode, language_model_loss, mean_token_loss, start, train
from normtutor_studies.corpus import END, fingerprint, load_corpus
from normtutor_studies.store import Cell, Run, World

TEXT: dict[str, Any] = {"longest": 40}


def nearest(sentences: list[Sentence], length: int, number: int) -> list[Sentence]:
    """The sentences whose length comes closest."""
    return sorted(sentences, key=lambda sentence: abs(len(sentence) - 1 - length))[:number]


def end_probability(
    model: TransformerLM, sentence: Sentence, others: list[Sentence], asked: tuple[int, int]
) -> float:
    """Probability of the end mark in the middle of the first sentence of a batch."""
    batch = pad([sentence, *others])
    with evaluation_mode(model, batch_statistics=True):
        scores = model(batch.inputs, batch.mask)[0, slice(*asked)]
    return float(scores.softmax(dim=-1)[:, END].mean())


def measure(cell: Cell, rate: float, seed: int) -> Run:
    """Train one model and ask it about the end among sentences as long and half as long."""
    corpus, size = load_corpus(**TEXT), cell["batch_size"]
    held_out = [s for document in (*corpus.validation, *corpus.test) for s in document]
    stream = sentence_stream(corpus.test, size, "length", np.random.default_rng(seed))
    tested = [*itertools.islice(stream, cell["test_batches"])]
    asked = nearest(held_out, cell["lengths"][0], cell["sentences"])
    order = start(seed)
    model = TransformerLM(
        len(corpus.vocabulary), max_length=cell["longest"] + 1, norm=cell["norm"], dropout=0.0
    )
    sentences = epochs(partial(sentence_stream, corpus.train, size, "length", order))
    schedule = {"steps": cell["steps"], "warmup": cell["warmup"], "learning_rate": rate}
    train(model, sentences, language_model_loss, **schedule)
    record: Run = {
        "loss_by_batch": mean_token_loss(model, tested, batch_statistics=True),
        "loss": mean_token_loss(model, tested),
    }
    for name, length in zip(("equal", "short"), cell["lengths"], strict=True):
        near = nearest(held_out, length, cell["sentences"])
        chances = []
        for sentence in asked:
            others = [one for one in near if one is not sentence][: size - 1]
            chances.append(end_probability(model, sentence, others, tuple(cell["asked"])))
        record[f"end_among_{name}"] = float(np.mean(chances))
    return record


WORLD = World(
    "sentence_end",
    measure,
    {
        "norm": "layer",
        "lengths": [20, 10],  # of the sentences asked about, and of the short ones beside them
        "asked": [9, 15],  # from the 10th to the 15th token
        "sentences": 31,
        "batch_size": 16,
        "longest": 40,
        "test_batches": 64,
        "steps": 200,
        "warmup": 30,
    },
    fingerprint=partial(fingerprint, **TEXT),
    unit="nats per token",
    title="Docstrings",
    small={"steps": 2, "warmup": 1, "test_batches": 2},
)
