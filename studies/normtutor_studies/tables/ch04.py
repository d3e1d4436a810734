"""Chapter 4: how the length of weights in front of a norm sets their learning rate."""

from functools import partial

import numpy as np

from normtutor_studies.engine import Study
from normtutor_studies.measures.effective_rate import WORLD, over_predicted_angle
from normtutor_studies.store import Cell

CLEAN: Cell = {"noise": 0.0, "hidden": 2}
EQUILIBRIUM: dict[str, Cell] = {
    "start × 1/3": {"rate": 0.5, "times": 1 / 3, "decay": 0.01},
    "start × 1": {"rate": 0.5, "decay": 0.01},
    "start × 3": {"rate": 0.5, "times": 3.0, "decay": 0.01},
    "half the rate, twice the decay": {"rate": 0.25, "decay": 0.02},
    "BatchNorm": {"rate": 0.5, "norm": "BatchNorm", "decay": 0.01},
    "RMSNorm": {"rate": 0.5, "norm": "RMSNorm", "decay": 0.01},
    "momentum 0.9": {"rate": 0.1, "decay": 0.05, "optimizer": "momentum"},
    "AdamW": {"rate": 0.005, "decay": 1.0, "optimizer": "adamw"},
    "correct labels": {"rate": 0.5, "decay": 0.01, "noise": 0.0},
}


def same_run(of: Study) -> bool:
    """Ten times the weights at a hundred times the rate is the same run; without a norm, chance."""
    reference, scaled, stuck = (
        of.values(WORLD.name, label, "loss")
        for label in ("weights × 1", "weights × 10, rate × 100", "weights × 10, no norm")
    )
    return np.allclose(scaled, reference, rtol=1e-4) and bool(
        (np.abs(stuck[:, -1] - np.log(10)) < 0.05).all()
    )


Study(
    name="effective_rate",
    chapter=4,
    question="Does the length of weights in front of a norm act as a learning rate?",
    arms={
        "weights × 1": {"rate": 0.3, **CLEAN},
        "weights × 10": {"rate": 0.3, "times": 10.0, **CLEAN},
        "weights × 10, rate × 100": {"rate": 30.0, "times": 10.0, **CLEAN},
        "weights × 10, no norm": {"rate": 0.3, "times": 10.0, "norm": "none", **CLEAN},
        "growth": {"rate": 1.0},
        **EQUILIBRIUM,
    },
    worlds=[WORLD],
    seeds=range(5),
    rows={
        f"angle per step over the predicted one, {label}": partial(
            over_predicted_angle, label=label
        )
        for label in EQUILIBRIUM
    },
    control="The predicted length is computed from the gradients of the same run, so agreement "
    "there could be circular. The predicted angle is not; it needs the rate and the weight decay "
    "alone. Correct labels are the case in which the assumption of steady gradients fails. Not "
    "checked: more hidden layers, and other products of rate and decay.",
    finding="Ten times the weights at a hundred times the rate is the same run.",
    holds=same_run,
)
