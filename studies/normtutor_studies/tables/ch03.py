"""Chapter 3: BatchNorm and LayerNorm on sequences, by who shares a batch."""

from normtutor_studies.engine import Study
from normtutor_studies.store import Cell
from normtutor_studies.worlds import SEQUENCES

NORMS = {"LayerNorm": "layer", "BatchNorm": "batch"}
BATCHES: dict[str, Cell] = {
    "varied lengths": {"lengths": "varied"},
    "equal lengths": {"lengths": "equal"},
    "one topic": {"lengths": "varied", "share": 1.0},
}

Study(
    name="company",
    chapter=3,
    question="Does BatchNorm end behind LayerNorm, and does it depend on who shares a batch?",
    predicts={
        "text does not suit batch statistics": "behind, however batches are composed",
        "composition": "level when batches are mixed, behind when they differ in kind",
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
