"""Dynamic tanh in twelve layers: which rates and embeddings, and where its α starts best.

The settings and the seed are those of :mod:`normtutor_studies.experiments.deep_last_norm_rates`, where
LayerNorm and RMSNorm stand: 300 steps, gradients clipped at length 1, with and without the last
place, with a tied output and with one of its own.

At three layers a start of 0.5 was as good as any (:mod:`normtutor_studies.experiments.tanh_starts`). At
twelve the best starts are 0.06 to 0.25, and with the last place and an output of its own 0.5 costs
almost half a nat. Larger embeddings cost an untied model with the last place 0.05 nats and more,
also if α starts lower in proportion; a tied one gains 0.09 from embeddings four times as large.
Without the last place an untied one gains 0.06 from embeddings four times smaller.

Control: a start could look bad because of the rate, so each has two to four, and the chosen ones
lie between worse ones; because of the output or the last place, so there are both of each; or
because the embeddings feed tanh inputs of another size, so these were larger and smaller, with α in
proportion too. At the best size of the embeddings the best start lies between worse ones in three
of the four networks; untied and without the last place two were tried there, and the smaller was
best. After the last layer α starts where it did best at three layers; with an output of its own
0.25 was worse than 0.5 there, and 1 failed. Without the last place two further seeds
choose alike (:mod:`normtutor_studies.experiments.deep_tanh_starts_again`). Not checked: such seeds with it,
and every start with every rate and size.
"""

from typing import Any

from normtutor_studies.experiments import deep_last_norm_rates
from normtutor_studies.experiments.deep_last_norm_rates import (
    Config,
    Row,
    TanhNetwork,
    fingerprint,
    run,
)
from normtutor_studies.experiments.package_chunks import Size
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "best_starts", "fingerprint", "run"]

CHAPTER = "08_after_2020"
FIGURE = "none: it chooses rates, embeddings and the starts of α for deep_last_norm"
FINDING = "in twelve layers, on one seed, α starts best at 0.06 to 0.25"
SEEDS = deep_last_norm_rates.SEEDS

LOW = (6.3e-3, 1.6e-2, 4e-2)
HIGH = (1.6e-2, 4e-2, 1e-1)
#: Where α starts after the last layer, by whether the output is tied; tanh_starts found it so.
AT_THE_END = {True: 0.25, False: 0.5}


def _row(
    final: bool,
    tied: bool,
    scale: float,
    alpha: float,
    rates: tuple[float, ...],
    last: float | None = None,
) -> Row:
    last = AT_THE_END[tied] if last is None else last
    return Row(TanhNetwork("Pre-DyT", final, tied, scale, alpha, last), rates)


CONFIG = Config(
    rows=(
        # With a tied output.
        _row(True, True, 1.0, 0.5, LOW),
        _row(True, True, 1.0, 0.25, LOW),
        _row(True, True, 4.0, 0.25, LOW),
        _row(True, True, 4.0, 0.125, LOW),
        _row(True, True, 4.0, 0.0625, LOW[:2]),
        _row(False, True, 1.0, 0.5, LOW),
        _row(False, True, 1.0, 0.25, LOW),
        _row(False, True, 1.0, 0.125, LOW),
        _row(False, True, 4.0, 0.25, LOW),
        # With an output matrix of its own.
        _row(True, False, 1.0, 0.5, LOW),
        _row(True, False, 1.0, 0.25, LOW),
        _row(True, False, 1.0, 0.25, (1e-1,)),
        _row(True, False, 1.0, 0.125, HIGH),
        _row(True, False, 1.0, 0.0625, HIGH[:2]),
        _row(True, False, 4.0, 0.25, LOW),
        _row(True, False, 1.0, 0.25, HIGH, last=0.25),
        _row(True, False, 1.0, 0.125, HIGH[:2], last=1.0),
        _row(False, False, 1.0, 0.5, LOW),
        _row(False, False, 1.0, 0.25, LOW),
        _row(False, False, 1.0, 0.25, (1e-1,)),
        _row(False, False, 1.0, 0.125, HIGH),
        _row(False, False, 1.0, 0.0625, HIGH[:2]),
        _row(False, False, 1.0, 0.03125, HIGH[:2]),
        _row(False, False, 4.0, 0.5, LOW),
        _row(False, False, 4.0, 0.25, LOW),
        # Larger and smaller embeddings, with α and the last place's in proportion or as they are.
        _row(True, False, 4.0, 0.125, (1.6e-2, 4e-2, 1e-1), last=0.125),
        _row(True, False, 1 / 4, 0.125, (1.6e-2, 4e-2, 6.3e-3), last=2.0),
        _row(True, False, 1.0, 0.125, (6.3e-3, 2.5e-3), last=1.0),
        _row(True, False, 4.0, 0.03125, (1.6e-2, 4e-2, 1e-1), last=0.125),
        _row(True, False, 1 / 4, 0.5, (1.6e-2, 4e-2, 6.3e-3), last=2.0),
        _row(True, True, 16.0, 0.03125, (1.6e-2, 4e-2, 6.3e-3), last=0.0625),
        _row(True, True, 1.0, 0.5, (1.6e-2, 4e-2, 6.3e-3), last=1.0),
        _row(True, True, 16.0, 0.125, (1.6e-2, 4e-2, 6.3e-3), last=0.0625),
        _row(True, True, 1.0, 0.125, (1.6e-2, 4e-2), last=1.0),
        _row(False, False, 1 / 4, 0.25, (1.6e-2, 4e-2, 1e-1), last=0.5),
        _row(False, False, 1 / 4, 0.0625, (1.6e-2, 4e-2, 1e-1), last=0.5),
        _row(False, True, 1 / 4, 1.0, (1.6e-2, 4e-2, 1e-1), last=0.25),
        _row(False, True, 1 / 4, 0.25, (1.6e-2, 4e-2, 1e-1), last=0.25),
    )
)
REDUCED = {
    "rows": (_row(True, True, 1.0, 0.5, (1e-3,)),),
    "depth": 2,
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}


def best_starts(saved: Saved) -> dict[tuple[bool, bool], dict[str, Any]]:
    """(last place, tied) -> the record with the smallest validation loss."""
    best: dict[tuple[bool, bool], dict[str, Any]] = {}
    for record in saved.runs[0]["records"]:
        cell = record["final"], record["tied"]
        if not record["diverged"] and (
            cell not in best or record["validation"] < best[cell]["validation"]
        ):
            best[cell] = record
    return best
