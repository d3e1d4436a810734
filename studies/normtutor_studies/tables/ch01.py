"""Chapter 1: why a deep network needs something, and what BatchNorm's noise shows."""

from dataclasses import replace

from normtutor_studies.engine import Study, grid
from normtutor_studies.store import Cell
from normtutor_studies.worlds import SEQUENCES, SIGNALS
from normtutor_studies.worlds.digits import DIGITS

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the initial weights, in units of He's
RATES = [0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
NORMS = {"no norm": "none", "BatchNorm": "batch", "LayerNorm": "layer"}


def largest(of: Study, world: str, norm: str) -> float:
    """The largest rate of the grid at which all seeds end better than guessing among ten."""
    return max(rate for rate in RATES if (of.final(world, f"{norm}, {rate:g}") < 2).all())


Study(
    name="initial_weights",
    chapter=1,
    question="Which initial weights can a deep network start from?",
    predicts={
        "a norm sets the scale": "with a norm every scale trains; without one a narrow band does"
    },
    arms={
        f"{label}, {scale:g}": {"norm": norm, "scale": scale, "depth": 12}
        for label, norm in NORMS.items()
        for scale in SCALES
    },
    worlds=SIGNALS,
    control="He's weights, times a factor; each network at its own learning rate.",
    finding="With BatchNorm every scale trains; without a norm only those near He's do.",
    holds=lambda of: all(
        all((of.final(world, f"BatchNorm, {scale:g}") < 2).all() for scale in SCALES)
        and all((of.final(world, f"no norm, {scale:g}") > 2).all() for scale in (0.25, 2.0, 4.0))
        for world in of.stores
    ),
)

Study(
    name="learning_rates",
    chapter=1,
    question="Does BatchNorm train at rates at which the network without it does not?",
    predicts={
        "BatchNorm permits larger rates": "its curve of loss over rate reaches further right"
    },
    arms={
        f"{label}, {cell['rate']:g}": cell
        for label, norm in NORMS.items()
        for cell in grid(norm=norm, rate=RATES)
    },
    worlds=SIGNALS,
    control="All start from He's weights, which a network without a norm needs.",
    finding="The largest rate that trains is eight times larger with BatchNorm.",
    holds=lambda of: all(
        largest(of, world, "BatchNorm") == 8 * largest(of, world, "no norm") for world in of.stores
    ),
)

Study(
    name="shaken_inputs",
    chapter=1,
    question="Does BatchNorm still help if the inputs of each layer are shaken behind it?",
    predicts={
        "steady inputs are what helps": "with noise the network is no better than without a norm",
        "something else helps": "with noise most of the advantage remains",
    },
    arms={
        "no norm": {"norm": "none"},
        "BatchNorm": {"norm": "batch"},
        "BatchNorm and noise": {"norm": "batch", "noise": 1.0},
        "noise alone": {"norm": "none", "noise": 1.0},
    },
    pairs=[
        ("no norm", "BatchNorm"),
        ("no norm", "BatchNorm and noise"),
        ("BatchNorm and noise", "BatchNorm"),
    ],
    worlds=SIGNALS,
    control="Each at its own rate; the noise alone is an arm of its own. Tests have no noise, and "
    "averages that were gathered behind noise would not fit them: before each test they are "
    "gathered anew without it. Noise is no internal covariate shift: that is caused by the "
    "parameters.",
)

DOSES = (0.0, 0.5, 1.0, 2.0, 4.0)  # the largest shift, in deviations of what the norm puts out
SHAKEN: dict[str, Cell] = {
    "BatchNorm": {"norm": "batch"},
    "BatchNorm without γ": {"norm": "batch", "affine": False},
}

Study(
    name="dose_of_noise",
    chapter=1,
    question="How much noise behind each norm can the network of the opening bear?",
    predicts={
        "steady inputs are what helps": "with any noise it is as without a norm",
        "something else helps": "with shifts of a whole deviation it still learns",
        "γ outgrows the noise": "without γ and β it bears less",
    },
    arms={
        "no norm": {"norm": "none"},
        "noise alone, 0.5": {"norm": "none", "noise": 1.0},
        **{
            f"{label}, {dose:g}": {**cell, "noise": 2 * dose}
            for label, cell in SHAKEN.items()
            for dose in DOSES
        },
    },
    pairs=[("no norm", f"{label}, {dose:g}") for label in SHAKEN for dose in DOSES],
    worlds=[DIGITS],
    control="Each arm at its own rate. BatchNorm without γ and β cannot make the signal larger "
    "than the noise. A shift that all examples of a batch share is in part removed by the next "
    "layer's BatchNorm: dose_under_layer_norm asks whether that is why the network bears it. "
    "Scales are drawn as well, from 1 to 1 plus half the largest shift, and each example has a "
    "little noise of its own. Tests have no noise, with averages gathered anew.",
)

Study(
    name="dose_under_layer_norm",
    chapter=1,
    question="Does a network with LayerNorm, which removes no shift of a unit, bear the noise?",
    predicts={
        "the next norm removes what a batch shares": "much less than BatchNorm",
        "something else helps": "like BatchNorm",
    },
    arms={f"LayerNorm, {dose:g}": {"norm": "layer", "noise": 2 * dose} for dose in DOSES[:3]},
    pairs=[(f"LayerNorm, {dose:g}", "LayerNorm, 0") for dose in DOSES[1:3]],
    worlds=[replace(DIGITS, rate=DIGITS.rate / 16)],
    control="The search begins at a sixteenth of BatchNorm's rate: above, this network learns "
    "nothing with LayerNorm, and a search that begins on that plateau does not leave it.",
)

Study(
    name="what_depth_needs",
    chapter=1,
    question="Does a deep Transformer need a norm, or careful initial weights?",
    predicts={
        "a norm": "without one nothing trains, whatever the weights",
        "the scale of the branches": "Fixup's weights do as well as a norm",
    },
    arms={
        "LayerNorm": {"wiring": "pre"},
        "no norm": {"wiring": "none"},
        "no norm, Fixup": {"wiring": "fixup"},
    },
    pairs=[("no norm", "LayerNorm"), ("no norm, Fixup", "LayerNorm")],
    worlds=SEQUENCES,
    control="Each at its own learning rate. Fixup's branches have a learned factor and start at "
    "zero.",
)

Study(
    name="batch_sizes",
    chapter=1,
    question="What does a small batch do to BatchNorm?",
    predicts={"noise of the statistics": "its advantage shrinks as the batch does"},
    arms={
        f"{label}, {size}": {"norm": norm, "batch_size": size, "examples": 64_000}
        for label, norm in NORMS.items()
        for size in (4, 16, 64)
    },
    pairs=[
        (f"{label}, {size}", f"BatchNorm, {size}")
        for label in ("no norm", "LayerNorm")
        for size in (4, 16, 64)
    ],
    worlds=SIGNALS,
    control="Every run sees the same number of examples, and each has its own rate; norms are "
    "compared at one size of batch.",
)
