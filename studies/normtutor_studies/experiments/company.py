"""What a token reads off the company it keeps: the end of its sentence, from a batch statistic.

Two models are trained for a short time on batches of sentences of equal length, one with BatchNorm
and one with LayerNorm. Then the same sentences, of about 20 tokens, are put among others of about
20 tokens, or among others of about 10. In the middle of the sentence, how likely does the model
think that it ends here? Both use the statistics of the batch, as in training.

Control: the sentences, their tokens and their positions are the same in both batches. LayerNorm
cannot see the company and must give the same probability twice. Not checked: longer training.
"""

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from normtutor.data import Sentence, epochs, pad, sentence_stream
from normtutor.models import TransformerLM
from normtutor.training import (
    evaluation_mode,
    language_model_loss,
    mean_token_loss,
    start,
    train,
)
from normtutor_studies.corpus import END, load_corpus
from normtutor_studies.experiments.records import Saved

CHAPTER = "03_batch_norm_vs_layer_norm"
FIGURE = "fig-seq-company"
FINDING = (
    "among short sentences BatchNorm's model expects the end of a long one many times as often"
)
XLABEL = "end expected among short sentences, as a multiple of among equal ones"
REFERENCE = 1.0
SEEDS = tuple(range(10, 15))


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    norms: tuple[str, ...] = ("layer", "batch")
    lengths: tuple[int, int] = (20, 10)  # of the sentences asked about, and of short company
    asked: tuple[int, int] = (9, 15)  # from the 10th to the 15th token
    sentences: int = 31
    batch_size: int = 16
    longest: int = 40
    test_batches: int = 64
    steps: int = 200
    learning_rate: float = 4e-3
    warmup: int = 30


CONFIG = Config()


def fingerprint(config: Config) -> dict[str, str]:
    """The text differs between versions of the packages: its SHA-256."""
    return {"text_sha256": corpus_of(config).sha256}


def corpus_of(config: Config) -> Any:
    """The text."""
    return load_corpus(longest=config.longest)


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


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train one model for each norm and ask it in both kinds of company."""
    corpus = corpus_of(config)
    held_out = [s for document in (*corpus.validation, *corpus.test) for s in document]
    stream = sentence_stream(corpus.test, config.batch_size, "length", np.random.default_rng(seed))
    tested = [*itertools.islice(stream, config.test_batches)]
    records = []
    for norm in config.norms:
        order = start(seed)
        model = TransformerLM(
            len(corpus.vocabulary),
            max_length=config.longest + 1,
            norm=norm,
            dropout=0.0,
        )
        history = train(
            model,
            epochs(partial(sentence_stream, corpus.train, config.batch_size, "length", order)),
            language_model_loss,
            steps=config.steps,
            learning_rate=config.learning_rate,
            warmup=config.warmup,
        )
        asked = nearest(held_out, config.lengths[0], config.sentences)
        record: dict[str, Any] = {
            "norm": norm,
            "diverged": history.diverged,
            "loss_by_batch": mean_token_loss(model, tested, batch_statistics=True),
            "loss_in_evaluation": mean_token_loss(model, tested),
        }
        for name, length in zip(("equal", "short"), config.lengths, strict=True):
            company = nearest(held_out, length, config.sentences)
            chances = [
                end_probability(
                    model,
                    sentence,
                    [one for one in company if one is not sentence][: config.batch_size - 1],
                    config.asked,
                )
                for sentence in asked
            ]
            record[f"end_among_{name}"] = float(np.mean(chances))
        records.append(record)
    return records


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """How many times as likely the end is among short sentences, by norm."""
    names = {"layer": "LayerNorm", "batch": "BatchNorm"}
    return {
        names[norm]: saved.values("end_among_short", norm=norm)
        / saved.values("end_among_equal", norm=norm)
        for norm in saved.config["norms"]
    }
