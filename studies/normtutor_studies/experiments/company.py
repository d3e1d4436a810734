"""What a token reads off the company it keeps: the end of its sentence, from a batch statistic.

Two models are trained for a short time on batches of sentences of equal length, one with BatchNorm
and one with LayerNorm. Then the same sentences, of about 20 tokens, are put among others of about
20 tokens, or among others of about 10. In the middle of the sentence, how likely does the model
think that it ends here? Both use the statistics of the batch, as in training.

Control: the sentences, their tokens and their positions are the same in both batches. LayerNorm
cannot see the company and must give the same probability twice. Not checked: longer training.
"""

import itertools
from functools import partial
from typing import Any

import numpy as np

from normtutor.data import Sentence, epochs, pad, sentence_stream
from normtutor.models import TransformerLM
from normtutor.training import evaluation_mode, language_model_loss, mean_token_loss, start, train
from normtutor_studies.corpus import END, load_corpus
from normtutor_studies.experiments.records import Config, Record, Saved, schedule

CHAPTER = "03_batch_norm_vs_layer_norm"
SEEDS = tuple(range(10, 15))
TEXT: dict[str, Any] = {"longest": 40}
CONFIG = Config(
    norms=("layer", "batch"),
    lengths=(20, 10),  # of the sentences asked about, and of short company
    asked=(9, 15),  # from the 10th to the 15th token
    sentences=31,
    batch_size=16,
    longest=40,
    test_batches=64,
    steps=200,
    learning_rate=4e-3,
    warmup=30,
)


def nearest(sentences: list[Sentence], length: int, number: int) -> list[Sentence]:
    """The sentences whose length comes closest."""
    return sorted(sentences, key=lambda sentence: abs(len(sentence) - 1 - length))[:number]


def end_probability(
    model: TransformerLM, sentence: Sentence, company: list[Sentence], asked: tuple[int, int]
) -> float:
    """Probability of the end mark in the middle of the first sentence of a batch."""
    batch = pad([sentence, *company])
    with evaluation_mode(model, batch_statistics=True):
        scores = model(batch.inputs, batch.mask)[0, slice(*asked)]
    return float(scores.softmax(dim=-1)[:, END].mean())


def run(config: Config, seed: int) -> list[Record]:
    """Train one model for each norm and ask it in both kinds of company."""
    corpus, size = load_corpus(**TEXT), config.batch_size
    held_out = [s for document in (*corpus.validation, *corpus.test) for s in document]
    stream = sentence_stream(corpus.test, size, "length", np.random.default_rng(seed))
    tested = [*itertools.islice(stream, config.test_batches)]
    asked = nearest(held_out, config.lengths[0], config.sentences)
    records = []
    for norm in config.norms:
        order = start(seed)
        model = TransformerLM(
            len(corpus.vocabulary), max_length=config.longest + 1, norm=norm, dropout=0.0
        )
        sentences = epochs(partial(sentence_stream, corpus.train, size, "length", order))
        train(model, sentences, language_model_loss, **schedule(config))
        record: Record = {
            "norm": norm,
            "loss_by_batch": mean_token_loss(model, tested, batch_statistics=True),
            "loss_in_evaluation": mean_token_loss(model, tested),
        }
        for name, length in zip(("equal", "short"), config.lengths, strict=True):
            company = nearest(held_out, length, config.sentences)
            chances = []
            for sentence in asked:
                others = [one for one in company if one is not sentence][: size - 1]
                chances.append(end_probability(model, sentence, others, config.asked))
            record[f"end_among_{name}"] = float(np.mean(chances))
        records.append(record)
    return records


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """How many times as likely the end is among short sentences, by norm."""
    return {
        title: saved.values("end_among_short", norm=norm)
        / saved.values("end_among_equal", norm=norm)
        for norm, title in {"layer": "LayerNorm", "batch": "BatchNorm"}.items()
    }
