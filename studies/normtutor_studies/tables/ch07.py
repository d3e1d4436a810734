"""Chapter 7: Pre-LN and Post-LN."""

from collections.abc import Callable
from functools import partial

import numpy as np

from normtutor_studies.engine import TUNING, Effect, Study
from normtutor_studies.store import Cell
from normtutor_studies.worlds import SEQUENCES
from normtutor_studies.worlds.formulas import FORMULAS
from normtutor_studies.worlds.sorting import SORTING

WIRINGS = {"Pre-LN": "pre", "Post-LN": "post"}

Study(
    name="warm_up",
    chapter=7,
    question="Which rates train, with which warm-up?",
    predicts={"Post-LN needs warm-up": "without it Post-LN stalls at rates at which Pre-LN trains"},
    arms={
        f"{label}, warm-up {warmup:g}, {rate:g}": {"wiring": wiring, "warmup": warmup, "rate": rate}
        for label, wiring in WIRINGS.items()
        for warmup in (0.0, 0.1)
        for rate in (1e-3, 2e-3, 4e-3, 8e-3, 16e-3)
    },
    worlds=[FORMULAS],
    seeds=TUNING,
    control="The same sublayers, data and steps. Two seeds, those on which rates are chosen: it is "
    "held beside the map of sorting, which has five.",
)

Study(
    name="which_ends_lower",
    chapter=7,
    question="Each at its best rate and warm-up, which ends lower?",
    predicts={"Post-LN ends better": "below Pre-LN", "Pre-LN is easier": "above"},
    arms={
        f"{label}, warm-up {warmup:g}": {"wiring": wiring, "warmup": warmup}
        for label, wiring in WIRINGS.items()
        for warmup in (0.0, 0.1)
    },
    pairs=[
        ("Post-LN, warm-up 0", "Pre-LN, warm-up 0"),
        ("Post-LN, warm-up 0.1", "Pre-LN, warm-up 0.1"),
        ("Post-LN, warm-up 0", "Post-LN, warm-up 0.1"),
        ("Pre-LN, warm-up 0", "Pre-LN, warm-up 0.1"),
    ],
    worlds=SEQUENCES,
    control="Each wiring at its own rate for each length of the warm-up.",
)

ARRANGED = ("in pairs", "side by side", "removed", "half side by side", "half removed")


def cost(of: Study, world: str, wiring: str, arrangement: str) -> Effect:
    """What an arrangement of a trained model's layers adds to the loss of the layers in series."""
    values = of.values(world, wiring, arrangement) - of.values(world, wiring, "in series")
    return Effect(values[:, 0], values[:, -1])


def kept(of: Study, world: str, wiring: str, beside: str, gone: str) -> Effect:
    """The share of what layers are worth that they keep beside each other: 1 is all of it.

    Their worth is what removing them adds to the loss.
    """
    one, all_ = cost(of, world, wiring, beside), cost(of, world, wiring, gone)
    return Effect(1 - one.half / all_.half, 1 - one.full / all_.full)


def one_removed(of: Study, world: str, wiring: str) -> np.ndarray:
    """What removing one layer of the last two thirds adds to the loss, the costliest of them."""
    losses = of.values(world, wiring, "without one")[:, -1]  # (seeds, layers)
    series = of.values(world, wiring, "in series")[:, -1]
    return np.asarray(losses[:, losses.shape[1] // 3 :].max(1) - series)


def side_by_side_rows(world: str, wiring: str) -> dict[str, Callable[[Study], np.ndarray]]:
    """ "WORLD, WIRING: ARRANGEMENT" is its cost; "... kept" the share of the layers' worth."""

    def added(of: Study, arrangement: str) -> np.ndarray:
        return cost(of, world, wiring, arrangement).full

    def share(of: Study, beside: str, gone: str) -> np.ndarray:
        return kept(of, world, wiring, beside, gone).full

    def single(of: Study) -> np.ndarray:
        return one_removed(of, world, wiring)

    found: dict[str, Callable[[Study], np.ndarray]] = {"costliest layer": single}
    for arrangement in ARRANGED:
        found[arrangement] = partial(added, arrangement=arrangement)
    for beside, gone in (
        ("in pairs", "removed"),
        ("side by side", "removed"),
        ("half side by side", "half removed"),
    ):
        found[f"{beside}, kept"] = partial(share, beside=beside, gone=gone)
    return {f"{world}, {wiring}: {name}": row for name, row in found.items()}


Study(
    name="side_by_side",
    chapter=7,
    seeds=(0, 1, 2),
    question="Do the later layers of a trained model need one another's output?",
    predicts={
        "Pre-LN is wide and shallow": "side by side its later layers keep most of what they are "
        "worth, and Post-LN's do not",
        "the layers compute in steps": "side by side they are worth little more than removed",
        "the task needs no depth": "side by side costs little in sorting, much elsewhere",
    },
    arms={
        label: {"wiring": wiring, "rearranged": True, "rate": 4e-3}
        for label, wiring in WIRINGS.items()
    },
    pairs=[("Post-LN", "Pre-LN")],
    rows={
        name: row
        for world in ("sorting", "formulas", "code")
        for label in WIRINGS
        for name, row in side_by_side_rows(world, label).items()
    },
    worlds=[SORTING, *SEQUENCES],
    control="One rate at which both wirings train in sorting and in formulas, with warm-up. Twelve "
    "layers in sorting, six in the others; the later ones are those behind the first third. That "
    "layers could be superfluous is what removing them tests. In Post-LN a sum of layers has no "
    "norm behind it: the sum, the sum through the last layer's norm, and the mean are tried, in "
    "both wirings, and the best counts. No model is trained on after it is rearranged.",
)

ACCOUNTS: dict[str, Cell] = {
    "Adam": {},
    "Adam, warm-up": {"warmup": 0.3},
    "Adam, second moments first": {"optimizer": "moments first"},
    "SGD": {"optimizer": "sgd"},
    "SGD, warm-up": {"optimizer": "sgd", "warmup": 0.3},
}
ADAM_RATES, SGD_RATES = (2e-3, 4e-3), (0.01, 0.02, 0.04)

Study(
    name="what_warm_up_helps",
    chapter=7,
    question="Why does Post-LN need warm-up?",
    predicts={
        "large gradients near the output": "SGD, which takes them as they are, stalls without "
        "warm-up and not with it; Adam, which divides by their size, stalls less",
        "uncertain second moments": "Adam stalls; with second moments gathered first it does "
        "not; SGD has no need",
        "curvature at the start": "rates of SGD that stall lie above 3.8 over the curvature of the "
        "start (its momentum is 0.9), and warm-up ends in a flatter place",
        "the size of the first updates": "stalls follow where the first steps move the states far, "
        "whatever the optimizer",
    },
    arms={
        f"{label}, {rate:g}": {
            "wiring": "post",
            "warmup": 0.0,
            "steps": 200,
            "early": True,
            **cell,
            "rate": rate,
        }
        for label, cell in ACCOUNTS.items()
        for rate in (SGD_RATES if cell.get("optimizer") == "sgd" else ADAM_RATES)
    }
    | {"Pre-LN, Adam, 0.004": {"warmup": 0.0, "steps": 200, "early": True, "rate": 4e-3}},
    worlds=[SORTING],
    seeds=(0, 1, 2),
    control="Twelve layers. To the end of training, at several rates each. Under SGD dividing all "
    "gradients by a number is dividing the rate by it, and under Adam it changes nothing but for "
    "ε, so gradients cannot be scaled apart from the rate. One task, in which little depth is "
    "needed; the map of sorting has more rates, and warm_up has them in formulas.",
)
