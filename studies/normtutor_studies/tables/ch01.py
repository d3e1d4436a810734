"""Chapter 1: why a deep network needs something, and what BatchNorm's noise shows."""

from functools import partial

import numpy as np

from normtutor_studies.engine import Study, grid
from normtutor_studies.measures import (
    gradient_parts,
    gradient_shift,
    input_drift,
    loss_landscape,
    scale_and_rate,
)
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


def the_dose_decides(of: Study) -> bool:
    """No norm: a guess. The more noise, the higher the loss after these few steps."""
    plain = of.final("digits", "no norm")
    losses = [of.final("digits", f"BatchNorm, {dose:g}") for dose in DOSES]
    means = [float(loss.mean()) for loss in losses]
    ends = (plain > 2.2).all() and (losses[1] < 1).all() and (losses[-1] > 1.9).all()
    return means == sorted(means) and bool(ends)


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
    finding="Mildly shaken, the network still learns; the stronger the noise, the more slowly.",
    holds=the_dose_decides,
    worlds=[DIGITS],
    control="Each arm at its own rate. BatchNorm without γ and β cannot make the signal larger "
    "than the noise. A shift that all examples of a batch share is in part removed by the next "
    "layer's BatchNorm; more than half of the change that it makes is left, which a test holds. "
    "Scales are drawn as well, from 1 to 1 plus half the largest shift, and each example has a "
    "little noise of its own. Tests have no noise, with averages gathered anew. Not checked: "
    "longer training.",
)

Study(
    name="norm_or_activation_first",
    chapter=1,
    question="Does the norm belong before the activation or behind it?",
    predicts={
        "the activation needs inputs around zero": "norm first ends lower",
        "the next layer needs centred inputs": "activation first ends lower",
        "what counts is that each layer has a norm": "the two end alike",
    },
    arms={
        f"{label}, {order}": {"norm": norm, "norm_first": order == "norm first"}
        for label, norm in {"BatchNorm": "batch", "LayerNorm": "layer"}.items()
        for order in ("norm first", "activation first")
    },
    pairs=[
        (f"{label}, activation first", f"{label}, norm first")
        for label in ("BatchNorm", "LayerNorm")
    ],
    worlds=SIGNALS,
    control="The same layers, weights and data; each order at its own learning rate. On the "
    "convolutional network LayerNorm is GroupNorm with one group.",
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
    "zero. LayerNorm has one more norm, after the last layer, and ends far lower without that one "
    "(embeddings_and_last_norm).",
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

# --- on digits, by plain gradient descent ---------------------------------------------------------

HES = (0.4082, 0.7071, 1.0, 1.4142, 2.4495)  # factors on He's weights; the first is torch's own


def right(of: Study, norm: str) -> np.ndarray:
    """Share of test images right, (seeds, scales, rates)."""
    scales = [1 - of.across("rate", "test_error", norm=norm, scale=scale) for scale in HES]
    return np.stack(scales, axis=1)


def cells_that_train(of: Study, norm: str) -> np.ndarray:
    """In how many cells of the map, of 25, a network gets 60% of the test images right."""
    return (right(of, norm) >= 0.6).sum(axis=(1, 2)).astype(float)


Study(
    name="scale_and_rate",
    chapter=1,
    question="Which initial scales and learning rates train a network of sixteen hidden layers?",
    arms={
        f"{cell['norm']}, {cell['scale']}, {cell['rate']}": cell
        for cell in grid(
            norm=list(NORMS.values()), scale=list(HES), rate=[0.01, 0.03, 0.1, 0.3, 1.0]
        )
    },
    worlds=[scale_and_rate.WORLD],
    seeds=range(5),
    rows={
        f"cells of 25 that train, {label}": partial(cells_that_train, norm=norm)
        for label, norm in NORMS.items()
    },
    control="Too small or too large a rate could explain a failure, so every scale is trained with "
    "every rate of a grid of five. Without a norm 1.4 times He's scale overflows at all of them. "
    "The weights are normal, with biases of zero.",
    finding="With BatchNorm every initial scale trains; without a norm He's alone does.",
    holds=lambda of: bool(
        (right(of, "batch").max(axis=2) >= 0.6).all()
        and [*(right(of, "none").max(axis=2).mean(axis=0) >= 0.6)] == [scale == 1 for scale in HES]
    ),
)

DRIFTING: dict[str, Cell] = {
    "no norm": {"norm": "none"},
    "no norm, weights 4×": {"norm": "none", "scale": 4.0},
    "BatchNorm": {"norm": "batch"},
}

Study(
    name="input_drift",
    chapter=1,
    question="How far does the input of a sigmoid drift while a network trains?",
    arms=DRIFTING,
    worlds=[input_drift.WORLD],
    rates=(0.1, 0.3, 1.0, 3.0),
    seeds=range(2, 8),
    tuning=(0, 1),
    rows={
        f"way of the mean, {label}": partial(
            Study.values, world="input_drift", label=label, key="sigmoid_path_end"
        )
        for label in DRIFTING
    },
    control="Without a norm, Xavier's weights let the signal shrink fourfold in every sigmoid "
    "layer, so the drift is measured against a tiny spread. The network without a norm is "
    "therefore also trained with weights four times as large, which keep the spread. The rate is "
    "chosen on two other seeds by the validation loss.",
)

Study(
    name="input_drift_at_every_rate",
    chapter=1,
    question="How far does it drift at each learning rate?",
    arms={
        f"{label}, {cell['rate']:g}": cell
        for label, network in DRIFTING.items()
        for cell in grid(**network, rate=[0.1, 0.3, 1.0, 3.0])
    },
    worlds=[input_drift.WORLD],
    seeds=range(2, 8),
    control="The runs of the study above, at all rates of its grid.",
)


def sharper_without(of: Study) -> np.ndarray:
    """Log10 of the median largest eigenvalue over the run, no norm minus BatchNorm."""
    none, batch = (
        np.log10(np.median(of.read("fixed_curvature", norm=norm), axis=1))
        for norm in ("none", "batch")
    )
    return none - batch


Study(
    name="loss_landscape",
    chapter=1,
    question="Is the loss smoother with BatchNorm?",
    arms={label: {"norm": NORMS[label], "rate": 0.1} for label in ("no norm", "BatchNorm")},
    worlds=[loss_landscape.WORLD],
    seeds=range(2, 8),
    rows={"log10 of the largest eigenvalue, no norm minus BatchNorm": sharper_without},
    control="Where a norm follows a matrix, the length of that matrix does not change the function "
    "but does change every derivative. So the change of the gradient and the curvature are "
    "recorded for relative changes of the matrices as well, which do not depend on their lengths. "
    "Not checked: more than 200 steps, other depths, and other rates.",
)

SHIFT_RATES = {
    "linear": [0.003, 0.01, 0.03, 0.1, 0.3],
    "relu": [0.03, 0.1, 0.3, 1.0],
    "tanh": [0.03, 0.1, 0.3, 1.0],
    "sigmoid x4": [0.1, 0.3, 1.0, 3.0],
}


def more_shift(of: Study, task: str) -> np.ndarray:
    """Relative shift of the gradient with BatchNorm minus that without a norm, at rate 0.1."""
    with_norm, without = (
        of.read("relative", task=task, norm=norm, rate=0.1) for norm in ("batch", "none")
    )
    return with_norm - without


Study(
    name="gradient_shift",
    chapter=1,
    question="Does a layer's gradient change less, with BatchNorm, when the layers below it move?",
    arms={
        f"{task}, {cell['norm']}, {cell['rate']:g}": cell
        for task, rates in SHIFT_RATES.items()
        for cell in grid(task=task, norm=["none", "batch"], rate=rates)
    },
    worlds=[gradient_shift.WORLD],
    seeds=range(2, 8),
    rows={f"more shift with BatchNorm, {t}": partial(more_shift, task=t) for t in SHIFT_RATES},
    control="A network that does not learn has a gradient that does not shift, which would look "
    "like success. Each network starts with the weights that its activation calls for, so the "
    "sigmoid network, which does not learn from Xavier's, starts with weights four times as large.",
)

Study(
    name="gradient_parts",
    chapter=1,
    question="What does BatchNorm take out of the gradient that passes through it?",
    arms={"BatchNorm": {"rate": 0.3}},
    worlds=[gradient_parts.WORLD],
    seeds=range(6),
    rows={
        "share along the mean, last norm, last step": lambda of: of.read(
            "along_mean", norm="batch"
        )[:, -1, -1]
    },
    control="A share could be chance: a random direction in n dimensions has a share of 1/n in "
    "each of the two.",
)
