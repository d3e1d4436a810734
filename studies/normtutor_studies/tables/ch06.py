"""Chapter 6: PowerNorm against LayerNorm and BatchNorm, by the size of a batch."""

from normtutor_studies.engine import Study
from normtutor_studies.store import Cell
from normtutor_studies.worlds import SEQUENCES
from normtutor_studies.worlds.code import CODE
from normtutor_studies.worlds.formulas import FORMULAS

NORMS: dict[str, Cell] = {
    "LayerNorm": {"norm": "layer"},
    "BatchNorm": {"norm": "batch"},
    "PowerNorm": {"norm": "power"},
    "PowerNorm, warmed up": {"norm": "power", "power_warmup": 0.1},
}
SIZES = {CODE: (4, 16), FORMULAS: (16, 64)}

for _world, _sizes in SIZES.items():
    Study(
        name=f"power_norm_on_{_world.name}",
        chapter=6,
        question="Does PowerNorm end below LayerNorm, and does the size of a batch decide?",
        predicts={
            "a better norm": "below LayerNorm at every size",
            "a repaired BatchNorm": "below BatchNorm, most so in small batches",
        },
        arms={
            f"{label}, {size}": {**cell, "batch_size": size}
            for size in _sizes
            for label, cell in NORMS.items()
        },
        pairs=[
            (f"{label}, {size}", f"{against}, {size}")
            for size in _sizes
            for label in ("PowerNorm", "PowerNorm, warmed up")
            for against in ("LayerNorm", "BatchNorm")
        ],
        worlds=[_world],
        control="Each at its own rate, at each size of batch; PowerNorm with and without a "
        "warm-up of its own.",
    )

Study(
    name="mean_of_a_batch",
    chapter=6,
    question="Does subtracting a batch's mean do the harm, or dividing by its scale?",
    predicts={"the mean": "PowerNorm-V, which subtracts none, ends below BatchNorm"},
    arms={
        label: {"norm": norm, "lengths": "varied", "share": 1.0}
        for label, norm in (
            ("LayerNorm", "layer"),
            ("BatchNorm", "batch"),
            ("PowerNorm-V", "power-v"),
            ("PowerNorm", "power"),
        )
    },
    pairs=[
        ("BatchNorm", "PowerNorm-V"),
        ("PowerNorm-V", "LayerNorm"),
        ("PowerNorm", "LayerNorm"),
    ],
    worlds=SEQUENCES,
    control="PowerNorm-V takes its one statistic from the batch, as BatchNorm does.",
)
