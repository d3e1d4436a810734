"""Chapter 6: PowerNorm against LayerNorm and BatchNorm, by the size of a batch."""

from functools import partial

from normtutor_studies.engine import Study
from normtutor_studies.measures import power_statistics
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
    name="power_norm_without_last_norm",
    chapter=6,
    question="Does PowerNorm still end below LayerNorm if neither model has a norm at its end?",
    predicts={
        "a better norm": "below on formulas, as with the last norm",
        "LayerNorm pays more for the last norm": "level or above, as BatchNorm",
    },
    arms={
        f"{label}, 64, no last norm": {**NORMS[label], "final_norm": False}
        for label in ("LayerNorm", "PowerNorm, warmed up")
    },
    pairs=[("PowerNorm, warmed up, 64, no last norm", "LayerNorm, 64, no last norm")],
    worlds=[FORMULAS],
    control="As power_norm_on_formulas with batches of 64, but without the norm after the last "
    "layer. Each arm has its own rate. Not run: code, where PowerNorm ended behind.",
    finding="Without a last norm, too, PowerNorm, warmed up, ends lower on formulas.",
    holds=lambda of: bool((of.effect("formulas", *of.pairs[0]).full < 0).all()),
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

Study(
    name="power_statistics",
    chapter=6,
    question="Do batch statistics fluctuate more on text than on images?",
    arms={
        label: {"condition": condition, "rate": 4e-3}
        for condition, label in power_statistics.SHORT.items()
    }
    | {"text, shuffled, PN-V": {"condition": "power-v", "rate": 4e-3}},
    worlds=[power_statistics.WORLD],
    seeds=range(10, 15),
    rows={
        f"n times the squared distance of the mean, first norm, {label}": partial(
            power_statistics.first_norm, condition=condition, key="effect", quantity="mean"
        )
        for condition, label in power_statistics.SHORT.items()
    },
    control="A larger value on text could come from the number of values that each batch pools, so "
    "the batches are sized to make each first norm pool about as many; from the scale of the "
    "activations, so every quantity is also given scale-free; from the model, so a Transformer "
    "also reads the digits, pixel by pixel; or from who shares a batch, so the same text comes "
    "shuffled and in document order. Not checked: models and batches of the paper's size.",
)
