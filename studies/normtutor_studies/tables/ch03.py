"""Chapter 3: BatchNorm and LayerNorm on sequences, by who shares a batch."""

from functools import partial

import numpy as np

from normtutor_studies.engine import Study
from normtutor_studies.measures import sentence_end
from normtutor_studies.store import Cell
from normtutor_studies.worlds import SEQUENCES
from normtutor_studies.worlds.formulas import FORMULAS

NORMS = {"LayerNorm": "layer", "BatchNorm": "batch"}
BATCHES: dict[str, Cell] = {
    "varied lengths": {"lengths": "varied"},
    "equal lengths": {"lengths": "equal"},
    "one topic": {"lengths": "varied", "share": 1.0},
}
MIXED = ("varied lengths", "equal lengths")

Study(
    name="batch_composition",
    chapter=3,
    question="Does BatchNorm end behind LayerNorm, and does it depend on who shares a batch?",
    predicts={
        "text does not suit batch statistics": "behind, however batches are composed",
        "composition": "level when batches are mixed, behind when each is about one topic",
    },
    arms={
        f"{label}, {kind}": {"norm": norm, **cell}
        for kind, cell in BATCHES.items()
        for label, norm in NORMS.items()
    },
    pairs=[(f"BatchNorm, {kind}", f"LayerNorm, {kind}") for kind in BATCHES],
    worlds=SEQUENCES,
    control="The same tests for all, mixed and of varied lengths; norms are told what is padding; "
    "each arm has its own rate. The loss with the statistics of the test batch is recorded beside "
    "that of the running average.",
)


def no_lead(of: Study) -> bool:
    """With varied lengths the seeds disagree, with equal lengths BatchNorm is above on all."""
    varied, equal = (of.effect("formulas", *pair).full for pair in of.pairs)
    return bool(varied.min() < 0 < varied.max() and (equal > 0).all())


Study(
    name="without_last_norm",
    chapter=3,
    question="Does BatchNorm still end below LayerNorm if neither model has a norm at its end?",
    predicts={
        "batch statistics suit mixed batches": "below on formulas, as with the last norm",
        "LayerNorm pays more for the last norm": "level or above: BatchNorm's last norm leaves "
        "tokens their lengths, LayerNorm's does not",
    },
    arms={
        f"{label}, {kind}": {"norm": norm, "final_norm": False, **BATCHES[kind]}
        for kind in MIXED
        for label, norm in NORMS.items()
    },
    pairs=[(f"BatchNorm, {kind}", f"LayerNorm, {kind}") for kind in MIXED],
    worlds=[FORMULAS],
    control="As batch_composition, but without the norm after the last layer, which costs "
    "LayerNorm much on formulas. Each arm has its own rate. Not run: batches of one topic, and "
    "code.",
    finding="Without a norm after the last layer BatchNorm does not end lower: with varied lengths "
    "the seeds disagree, with equal lengths LayerNorm does.",
    holds=no_lead,
)

Study(
    name="padding",
    chapter=3,
    question="Does BatchNorm suffer from padding?",
    predicts={"padding enters the statistics": "behind without a mask, level with one"},
    arms={
        "masked": {"norm": "batch", "lengths": "varied"},
        "unmasked": {"norm": "batch", "lengths": "varied", "mask": False},
    },
    pairs=[("unmasked", "masked")],
    worlds=SEQUENCES,
    control="Padding is no target, and no token attends to it.",
)


def likelier_among_short(of: Study, norm: str) -> np.ndarray:
    """How many times as likely the end is among sentences half as long."""
    return of.read("end_among_short", norm=norm) / of.read("end_among_equal", norm=norm)


Study(
    name="sentence_end",
    chapter=3,
    question="Can a token read the end of its sentence off the other sentences of its batch?",
    arms={label: {"norm": norm, "rate": 4e-3} for label, norm in NORMS.items()},
    worlds=[sentence_end.WORLD],
    seeds=range(10, 15),
    rows={
        f"times as likely among short sentences, {label}": partial(likelier_among_short, norm=norm)
        for label, norm in NORMS.items()
    },
    control="The sentences, their tokens and their positions are the same in both batches. "
    "LayerNorm cannot see the other sentences and must give the same probability twice. Not "
    "checked: longer training.",
    finding="A BatchNorm model expects an end where the other sentences end.",
    holds=lambda of: bool((likelier_among_short(of, "batch") > 10).all()),
)
