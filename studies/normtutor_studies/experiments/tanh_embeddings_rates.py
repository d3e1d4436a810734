"""Dynamic tanh in three layers with larger embeddings: which rate, size and start of α are best.

The models are those of :mod:`normtutor_studies.experiments.final_norm`, where LayerNorm has embeddings up
to 64 times the usual size and dynamic tanh the usual ones alone. Here dynamic tanh gets the same
sizes. Larger embeddings feed tanh larger inputs, so α starts both where final_norm lets it start
and lower by as much as the embeddings grew. LayerNorm, whose best size and rate lay at the end of
those tried there, is tried beyond them.

With a tied output the usual embeddings, without the last place, stay best for dynamic tanh; with an
output of its own it gains 0.017 by the last place, embeddings four times as large and α starting
four times lower (the usual size is in :mod:`normtutor_studies.experiments.tanh_starts`, same seed).

Control: a size could look bad because of the rate, so each has four; the best lies between worse
ones except with a tied output and embeddings 16 and 64 times as large for dynamic tanh whose α
starts lower (the smallest rate), and 256 times for LayerNorm (the largest). Or because of where α
starts, so it starts at two places. Not checked: a second seed, starts in between, smaller
embeddings, and 64 times as large ones from the usual start.
"""

from typing import Any

from normtutor_studies.experiments import final_norm, tanh_starts
from normtutor_studies.experiments.final_norm import Cell, Config, chosen, fingerprint
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "best", "fingerprint", "run"]

CHAPTER = "08_after_2020"
FIGURE = "none: it chooses rates, embeddings and the starts of α for tanh_embeddings"
FINDING = (
    "on one seed embeddings four times as large help dynamic tanh with the last place and α "
    "starting lower; larger ones, and those without the last place, do not"
)
SEEDS = tanh_starts.SEEDS
RATES = (16e-3, 32e-3, 64e-3, 128e-3)
#: Where α starts after the last layer, by whether the output is tied; tanh_starts found it so.
AT_THE_END = {True: 0.25, False: 0.5}


def start(final: bool, tied: bool, scale: float, lower: float = 1.0) -> Cell:
    """Dynamic tanh with embeddings of a size, α starting ``lower`` times lower than usual."""
    return Cell("tanh", final, tied, scale, 0.5 / lower, AT_THE_END[tied] / lower)


CONFIG = Config(
    cells=tuple(
        cell
        for tied in (True, False)
        for cell in (
            *(start(True, tied, scale, lower) for scale in (4.0, 16.0) for lower in (1.0, scale)),
            start(True, tied, 64.0, 64.0),
            *(start(False, tied, 4.0, lower) for lower in (1.0, 4.0)),
            *(Cell("layer", True, tied, scale) for scale in (64.0, 256.0)),
        )
    ),
    rates=RATES,
)
REDUCED = {
    "cells": (start(True, True, 4.0, 4.0), Cell("layer", True, False, 256.0)),
    **{key: value for key, value in final_norm.REDUCED.items() if key != "cells"},
}

run = final_norm.run


def best(saved: Saved) -> dict[tuple[str, bool, bool], dict[str, Any]]:
    """(norm, last place, tied) -> size, starts and rate with the smallest validation loss."""
    places = {(r["norm"], r["final"], r["tied"]) for r in saved.runs[0]["records"]}
    return {
        (norm, final, tied): chosen(saved, norm=norm, final=final, tied=tied)
        for norm, final, tied in places
    }
