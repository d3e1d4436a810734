"""Chapter 5: does the mean matter?"""

from functools import partial

import numpy as np

from normtutor_studies.engine import Study, grid
from normtutor_studies.measures import gru_statistics, norm_speed
from normtutor_studies.measures.sorting import DETACH_NORM, ON, PARTS
from normtutor_studies.worlds import SEQUENCES

Study(
    name="rms_against_layer",
    chapter=5,
    question="Does a model end worse without the mean?",
    predicts={"centring matters": "RMSNorm ends higher", "the scale is all": "the two end alike"},
    arms={"LayerNorm": {"norm": "layer"}, "RMSNorm": {"norm": "rms"}},
    pairs=[("RMSNorm", "LayerNorm")],
    worlds=SEQUENCES,
    control="Each at its own rate. Alike means: the interval of the difference lies within a tenth "
    "of what a norm gains over none; fixed before the first run.",
)

Study(
    name="without_statistics",
    chapter=5,
    question="Can a trained model do without LayerNorm's statistic?",
    predicts={
        "it was needed to train": "with fixed deviations the loss comes back",
        "it is needed to compute": "the loss stays higher",
    },
    arms={
        "kept": {"then": "keep"},
        "fixed one by one": {"then": "fix one by one"},
        "fixed at once": {"then": "fix"},
    },
    pairs=[("fixed one by one", "kept"), ("fixed at once", "kept")],
    worlds=SEQUENCES,
    control="The same trained models, and the same second training, a fourth as long, for the "
    "model that keeps its norms. Each arm has its own rate in it.",
)


def more_than_layer_norm(of: Study, centre: str, scale: str) -> np.ndarray:
    """Test loss minus LayerNorm's, paired by seed, at rate 0.002."""
    loss, layer = (
        of.read("loss", centre=c, scale=s, rate=2e-3) for c, s in ((centre, scale), (ON, ON))
    )
    return loss - layer


Study(
    name="detach_norm",
    chapter=5,
    question="What in LayerNorm does the work: the mean or the scale, forward or backward?",
    arms={
        f"scale {cell['scale']}, mean {cell['centre']}, {cell['rate']:g}": cell
        for cell in grid(scale=[*PARTS], centre=[*PARTS], rate=[5e-4, 2e-3, 8e-3, 32e-3])
    },
    worlds=[DETACH_NORM],
    seeds=range(10, 16),
    rows={
        f"loss minus LayerNorm's, scale {scale}, mean {centre}": partial(
            more_than_layer_norm, centre=centre, scale=scale
        )
        for scale in PARTS
        for centre in PARTS
        if (scale, centre) != (ON, ON)
    },
    control="A failure could come from a rate that does not suit, so all nine norms are trained at "
    "four rates, a factor of 64 apart, and the best of each lies inside the grid. Detaching a "
    "statistic leaves the forward pass exactly as it was, so what changes is the backward pass and "
    "nothing else; initial weights and sequences are the same. Not checked: Pre-LN, text, and "
    "other weights than Xavier's for the network without a norm.",
)

GRU_NORMS = {"no norm": "none", "LayerNorm": "layer", "RMSNorm": "rms", "pRMSNorm": "partial"}

Study(
    name="gru_statistics",
    chapter=5,
    question="What does a norm do to the state of a recurrent network, by position?",
    arms={label: {"norm": norm} for label, norm in GRU_NORMS.items()},
    pairs=[(label, "LayerNorm") for label in ("no norm", "RMSNorm", "pRMSNorm")],
    worlds=[gru_statistics.WORLD],
    rates=(1e-2, 3e-2, 6e-2, 1.2e-1, 2.4e-1),
    seeds=range(10, 16),
    tuning=gru_statistics.TUNING,
    control="A spread that depends on the position could come from the state itself, which starts "
    "at zero and fills up over the first characters; the network without a norm shows how much of "
    "it does. A difference between losses could come from the rate, so each norm has its own, with "
    "a worse one on both sides; all four start from the same weights and read the same batches. "
    "Two seeds tell some rates apart badly: pRMSNorm's best two, 0.06 and 0.12, differ by less "
    "than the seeds do, and so do RMSNorm's, 0.03 and 0.06. Not checked: more than 300 steps, and "
    "other widths, at which a sixteenth of the entries is another number.",
)

SHAPES = ([64, 64], [512, 512], [4096, 768])  # (tokens, features)
WAYS = ("formula", "compiled", "torch")


def time_of_rms(of: Study, way: str, shape: list[int]) -> np.ndarray:
    """RMSNorm's time over LayerNorm's, forward and backward: the median of each repeat."""
    return of.read(f"to layer, {way} rms", shape=shape)[:, 1]


Study(
    name="norm_speed",
    chapter=5,
    question="How long does RMSNorm take, and LayerNorm?",
    arms={f"{a} × {b}": {"shape": [a, b]} for a, b in SHAPES}
    | {f"{model} step": {"model": model} for model in ("transformer", "gru")},
    worlds=[norm_speed.WORLD],
    seeds=range(3),
    rows={
        f"time over LayerNorm's, {way}, {shape[0]} × {shape[1]}": partial(
            time_of_rms, way=way, shape=shape
        )
        for way in WAYS
        for shape in SHAPES
    },
    control="A ratio could come from the machine, so the contestants take turns in random order "
    "and ratios are taken within a round; or from the implementation, so formulas are compared "
    "with formulas, compiled code with compiled code, and torch's own functions with each other. "
    "Not checked: a GPU, several threads, or reduced precision, any of which may change the order.",
)
