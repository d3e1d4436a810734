"""Chapter 7: Pre-LN and Post-LN."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from normtutor_studies.engine import TUNING, Study, grid
from normtutor_studies.measures import depth_profiles, encoder_decoder, first_steps
from normtutor_studies.measures.sorting import WARMUP_MAP
from normtutor_studies.store import Cell
from normtutor_studies.worlds import SEQUENCES
from normtutor_studies.worlds.code import CODE
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


def cost(of: Study, world: str, wiring: str, arrangement: str) -> np.ndarray:
    """What an arrangement of a trained model's layers adds to the loss of the layers in series."""
    rearranged, series = (
        of.values(world, wiring, name)[:, -1] for name in (arrangement, "in series")
    )
    return np.asarray(rearranged - series)


def kept(of: Study, world: str, wiring: str, beside: str, gone: str) -> np.ndarray:
    """The share of what layers are worth that they keep beside each other: 1 is all of it.

    Their worth is what removing them adds to the loss.
    """
    return 1 - cost(of, world, wiring, beside) / cost(of, world, wiring, gone)


def one_removed(of: Study, world: str, wiring: str) -> np.ndarray:
    """What removing one layer of the last two thirds adds to the loss, the costliest of them."""
    losses = of.values(world, wiring, "without one")[:, -1]  # (seeds, layers)
    series = of.values(world, wiring, "in series")[:, -1]
    return np.asarray(losses[:, losses.shape[1] // 3 :].max(1) - series)


def side_by_side_rows(world: str, wiring: str) -> dict[str, Callable[[Study], np.ndarray]]:
    """ "WORLD, WIRING: ARRANGEMENT" is its cost; "... kept" the share of the layers' worth."""
    where: dict[str, Any] = {"world": world, "wiring": wiring}
    found = {"costliest layer": partial(one_removed, **where)}
    for arrangement in ARRANGED:
        found[arrangement] = partial(cost, **where, arrangement=arrangement)
    for beside, gone in (
        ("in pairs", "removed"),
        ("side by side", "removed"),
        ("half side by side", "half removed"),
    ):
        found[f"{beside}, kept"] = partial(kept, **where, beside=beside, gone=gone)
    return {f"{world}, {wiring}: {name}": row for name, row in found.items()}


def the_task_decides(of: Study) -> bool:
    """On every seed three quarters of the worth stay in sorting, and at most 55% in formulas.

    In formulas the mean of Post-LN's share is no smaller than that of Pre-LN's.
    """
    post = kept(of, "formulas", "Post-LN", "side by side", "removed")
    in_sorting = kept(of, "sorting", "Pre-LN", "side by side", "removed")
    in_formulas = kept(of, "formulas", "Pre-LN", "side by side", "removed")
    parts = (in_sorting > 0.75).all() and (in_formulas < 0.55).all()
    return bool(parts and post.mean() >= in_formulas.mean())


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
    rows={
        name: row
        for world in ("sorting", "formulas")
        for label in WIRINGS
        for name, row in side_by_side_rows(world, label).items()
    },
    finding="Side by side, Pre-LN's later layers keep most of their worth in sorting, and not in "
    "formulas, where Post-LN's keep no less.",
    holds=the_task_decides,
    worlds=[SORTING, FORMULAS],
    control="One rate at which both wirings train in sorting and in formulas, with warm-up. Twelve "
    "layers in sorting, six in formulas; the later ones are those behind the first third. That "
    "layers could be superfluous is what removing them tests. In Post-LN a sum of layers has no "
    "norm behind it: the sum, the sum through the last layer's norm, and the mean are tried, in "
    "both wirings, and the best counts. No model is trained on after it is rearranged.",
)


def pre_ln_keeps_more(of: Study) -> bool:
    """Three quarters of the worth stay in Pre-LN on every seed, and less in Post-LN on each."""
    pre, post = (of.row(f"code, {label}: side by side, kept") for label in WIRINGS)
    return bool(pre.min() > 0.75 and pre.min() > post.max())


Study(
    name="side_by_side_in_code",
    chapter=7,
    question="Do the later layers of a trained model need one another's output on code?",
    predicts={
        "Pre-LN is wide and shallow": "as in sorting its later layers keep most of what they are "
        "worth, and Post-LN's keep less",
        "code needs steps": "as in formulas, neither wiring's keep more than half",
        "code needs no depth": "in both wirings they keep most of it",
    },
    arms={
        "Pre-LN": {"rearranged": True, "rate": 8e-3},
        "Post-LN": {"wiring": "post", "rearranged": True},
    },
    rows={name: row for label in WIRINGS for name, row in side_by_side_rows("code", label).items()},
    finding="On code, as in sorting, Pre-LN's later layers keep most of their worth side by side, "
    "and more than Post-LN's.",
    holds=pre_ln_keeps_more,
    worlds=[CODE],
    seeds=(0, 1, 2),
    control="Each wiring at its best rate in this world, with warm-up; Post-LN's is half of "
    "Pre-LN's. Removed, the same layers show what they are worth.",
)

ACCOUNTS: dict[str, Cell] = {
    "Adam": {},
    "Adam, warm-up": {"warmup": 0.3},
    "Adam, second moments first": {"optimizer": "moments first"},
    "Adam, both moments first": {"optimizer": "both moments first"},
    "Adam, ten steps of warm-up": {"warmup": 0.05},
    "SGD": {"optimizer": "sgd"},
    "SGD, warm-up": {"optimizer": "sgd", "warmup": 0.3},
}
ADAM_RATES, SGD_RATES = (4e-3,), (0.01, 0.02, 0.03, 0.04)
STALL = ("Adam, 0.004", "Adam, both moments first, 0.004", "SGD, 0.04")
TRAIN = ("Adam, warm-up, 0.004", "SGD, 0.01", "SGD, warm-up, 0.01", "SGD, warm-up, 0.04")


def first_update(of: Study, arm: str) -> np.ndarray:
    """How far the first step moves the last hidden states, over their length; one per seed."""
    return np.array([run["changes"][0] for run in of.runs("sorting", arm)])


def edge(of: Study) -> np.ndarray:
    """The rate above which SGD climbs along the most curved direction of the start; per seed."""
    return np.array([3.8 / run["before"]["curvature"] for run in of.runs("sorting", "SGD, 0.01")])


def warm_up_helps_both(of: Study) -> bool:
    """At the larger rates all seeds stall without warm-up and train with it, under both optimizers.

    So they do with moments gathered first, where no step is short. Under SGD some stall below the
    edge of the start and some train above it, and some stall after a shorter first update.
    """
    arms = [f"SGD, {rate:g}" for rate in SGD_RATES]
    stalls = np.concatenate([of.final("sorting", arm) > 2.2 for arm in arms])
    above = np.concatenate([rate > edge(of) for rate in SGD_RATES])
    moved = np.concatenate([first_update(of, arm) for arm in arms])
    return bool(
        all((of.final("sorting", arm) > 2.2).all() for arm in STALL)
        and all((of.final("sorting", arm) < 1.1).all() for arm in TRAIN)
        and (stalls & ~above).any()
        and (~stalls & above).any()
        and moved[stalls].min() < moved[~stalls].max()
    )


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
        "start (its momentum is 0.9): of 0.01, 0.02, 0.03 and 0.04 the last two",
        "the size of the first updates": "stalls follow where the first steps move the states far, "
        "whatever the optimizer",
        "the first steps, not the moments": "ten steps of warm-up, which second moments that are "
        "gathered first bring with them, do as well without them",
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
    pairs=[
        ("Adam, 0.004", "Adam, warm-up, 0.004"),
        ("Adam, both moments first, 0.004", "Adam, warm-up, 0.004"),
        ("Adam, ten steps of warm-up, 0.004", "Adam, second moments first, 0.004"),
        ("SGD, 0.01", "SGD, warm-up, 0.01"),
        ("SGD, 0.04", "SGD, warm-up, 0.04"),
    ],
    rows={
        f"first update: {arm}": partial(first_update, arm=arm)
        for arm in (*STALL, *TRAIN, "Adam, second moments first, 0.004", "Pre-LN, Adam, 0.004")
    }
    | {"edge": edge},
    finding="At a large rate Post-LN stalls without warm-up under Adam and under SGD; moments that "
    "are known in advance do not prevent it, warm-up does. Neither the curvature at the start nor "
    "the size of the first update tells who stalls.",
    holds=warm_up_helps_both,
    worlds=[SORTING],
    seeds=(0, 1, 2),
    control="Twelve layers, to the end of training. Adam's rate is the best one with warm-up on "
    "the map of sorting, which has others; SGD has rates on both sides of its edge at the start. "
    "Under SGD dividing all gradients by a number is dividing the rate by it, and under Adam it "
    "changes nothing but for ε, so gradients cannot be scaled apart from the rate. With second "
    "moments gathered first Adam's average gradient starts at zero, so that its first ten steps "
    "are short: two arms separate that, one with both moments, one with ten steps of warm-up and "
    "neither. One task, in which little depth is needed.",
)

# --- sorting --------------------------------------------------------------------------------------

SORTING_RATES = [1e-3, 2e-3, 4e-3, 8e-3, 16e-3]
REMEDIES = ("none", "post-small", "deepnorm", "ds-init", "admin", "peri", "rezero", "fixup")
MAP: list[Cell] = [
    *grid(depth=6, wiring=["post", "pre"], warmup=[0, 60], rate=SORTING_RATES),
    *grid(depth=12, wiring=["post", "pre"], warmup=[0, 20, 60], rate=SORTING_RATES),
    *grid(depth=12, wiring=[*REMEDIES], warmup=0, rate=SORTING_RATES),
]


def gained_by_warmup(of: Study, wiring: str, depth: int) -> np.ndarray:
    """Loss with the longest warm-up minus loss without, paired by seed, at the largest rate."""
    warmed, cold = (
        of.read("loss", wiring=wiring, depth=depth, warmup=warmup, rate=16e-3) for warmup in (60, 0)
    )
    return warmed - cold


Study(
    name="warmup_map",
    chapter=7,
    question="What trains, with and without warm-up, over learning rates and two depths?",
    arms={
        f"{c['wiring']}, {c['depth']} layers, warm-up {c['warmup']}, {c['rate']:g}": c for c in MAP
    },
    worlds=[WARMUP_MAP],
    seeds=range(10, 15),
    rows={
        f"loss with warm-up minus without, {label}, {depth} layers": partial(
            gained_by_warmup, wiring=wiring, depth=depth
        )
        for depth in (6, 12)
        for label, wiring in WIRINGS.items()
    },
    control="A stall could come from the rate, and a remedy could look good at one lucky rate, so "
    "every cell is trained at five. Or it could come from a task that cannot be learned at this "
    "depth in so few steps, for which Pre-LN is the control: it has the same sublayers, sequences "
    "and steps, and it learns. So are the bare layers without norm or remedy, which do not. Not "
    "checked: more steps, clipping, larger embeddings, text, other depths of the remedies, and "
    "remedies with warm-up. Sorting eight digits is easy, so the order among those that train says "
    "little.",
)


def last_over_first(of: Study, wiring: str) -> np.ndarray:
    """The trained stream's size after the last layer over that after the first."""
    signal = of.read("trained signal", wiring=wiring)
    return signal[:, -1] / signal[:, 1]


PROFILED = ("post", "pre", "peri", "deepnorm")

Study(
    name="depth_profiles",
    chapter=7,
    question="How do signal and gradient change over the layers, before and after training?",
    arms={wiring: {"wiring": wiring, "rate": 2e-3} for wiring in PROFILED},
    worlds=[depth_profiles.WORLD],
    seeds=range(10, 15),
    rows={
        f"stream, last layer over first, {wiring}": partial(last_over_first, wiring=wiring)
        for wiring in PROFILED
    },
    control="A profile could come from the initial weights, so it is also measured before "
    "training. And a gradient with respect to a larger stream is smaller for that reason alone, so "
    "the size of the stream is recorded beside it. The four wirings share the rate, the warm-up "
    "and the sequences. Not checked: a rate tuned for each wiring, and other tasks than sorting.",
)

UPDATED = ("post", "pre", "post-small", "deepnorm", "peri")

Study(
    name="first_update",
    chapter=7,
    question="How far does the first step of Adam move the output, over depth?",
    arms={
        f"{cell['wiring']}, {cell['depth']} layers": cell
        for cell in grid(wiring=[*UPDATED], depth=[4, 8, 16, 32], rate=1e-6)
    },
    worlds=[first_steps.FIRST_UPDATE],
    seeds=range(10, 15),
    rows={
        f"power of depth of the first update, {wiring}": partial(
            first_steps.exponents, wiring=wiring, key="change"
        )
        for wiring in UPDATED
    },
    control="A large first update could simply reflect a large gradient, so the gradient's norm is "
    "recorded too. Post-LN with small initial weights is the control: its norms stand where "
    "Post-LN's do, its top gradient is large and its update small.",
)

TRACES: dict[str, Cell] = {
    "Post-LN, 0.001": {"wiring": "post", "rate": 1e-3},
    "Post-LN, 0.004": {"wiring": "post", "rate": 4e-3},
    "Post-LN, 0.004, warm-up": {"wiring": "post", "warmup": 60, "rate": 4e-3},
    "Post-LN, small below, 0.004": {"wiring": "post-small", "rate": 4e-3},
    "Pre-LN, 0.004": {"wiring": "pre", "rate": 4e-3},
    "Pre-LN, 0.016": {"wiring": "pre", "rate": 16e-3},
}


def largest_likeness(of: Study, label: str) -> np.ndarray:
    """How alike the tokens of an arm become, at most."""
    return of.values("first_steps", label, "likeness").max(axis=1)


Study(
    name="first_steps",
    chapter=7,
    question="What happens in the first forty steps of a run that stalls?",
    arms=TRACES,
    worlds=[first_steps.FIRST_STEPS],
    seeds=range(10, 15),
    rows={
        f"largest likeness of the tokens, {label}": partial(largest_likeness, label=label)
        for label in TRACES
    },
    control="The traces differ from one another in the wiring, the rate or the warm-up alone. At "
    "larger rates the output no longer moves in proportion. Not checked: plain SGD, and other "
    "tasks than sorting.",
)

Study(
    name="encoder_decoder",
    chapter=7,
    question="In which half of an encoder-decoder does the gradient vanish before training?",
    arms={
        f"{label}, {depth} layers": {"wiring": wiring, "depth": depth}
        for label, wiring in WIRINGS.items()
        for depth in (6, 12, 18)
    },
    worlds=[encoder_decoder.WORLD],
    seeds=range(10, 16),
    rows={
        f"log2 of the gradient, lowest over highest layer, {label}, {part}, {depth} layers": (
            partial(encoder_decoder.bottom_over_top, part=part, wiring=wiring, depth=depth)
        )
        for part in encoder_decoder.PARTS
        for label, wiring in WIRINGS.items()
        for depth in (6, 12, 18)
    },
    control="A small gradient at the bottom could be a matter of which matrix is looked at, so the "
    "gradient at each layer's output is recorded as well; or of depth alone, for which Pre-LN is "
    "the control: the same sublayers, with the norms in another place. The prediction from the "
    "variance of cross-attention has no fitted number in it. Not checked: initial weights other "
    "than torch's own.",
)
