"""Chapter 7: Pre-LN and Post-LN."""

from normtutor_studies.engine import TUNING, Study
from normtutor_studies.worlds import SEQUENCES
from normtutor_studies.worlds.formulas import FORMULAS

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
