"""Chapter 9: norms at work."""

from functools import partial

import numpy as np

from normtutor_studies.engine import Study, grid
from normtutor_studies.measures import fine_tuning, modes_disagree
from normtutor_studies.worlds import SEQUENCES, SIGNALS

Study(
    name="averages",
    chapter=9,
    question="What does the momentum of BatchNorm's average do to evaluation?",
    predicts={"an average that has not arrived": "evaluation is far worse than training mode"},
    arms={f"{momentum:g}": {"momentum": momentum} for momentum in (0.001, 0.1, 0.9)},
    worlds=SIGNALS,
    control="Each arm has its own rate. The loss with the statistics of the test batch, which no "
    "average enters, is recorded beside that with the average.",
)

Study(
    name="swapped",
    chapter=9,
    question="Can another norm take LayerNorm's place in a trained model?",
    predicts={"norms are interchangeable": "all end where the model that kept LayerNorm ends"},
    arms={
        "kept": {"then": "keep"},
        "RMSNorm": {"then": "rms"},
        "BatchNorm": {"then": "batch"},
    },
    pairs=[(label, "kept") for label in ("RMSNorm", "BatchNorm")],
    worlds=SEQUENCES,
    control="The same trained models, and the same second training, a fourth as long, for the "
    "model that keeps LayerNorm. Each arm has its own rate in it.",
)


def cost_of(of: Study, mistake: str) -> np.ndarray:
    """The error in evaluation that a mistake costs, in percentage points."""
    made, mended = (of.read(key, mistake=mistake) for key in ("evaluation", "mended"))
    return 100 * (made - mended)


Study(
    name="modes_disagree",
    chapter=9,
    question="Which mistakes make a network with BatchNorm do worse in evaluation?",
    arms={mistake: {"mistake": mistake} for mistake in modes_disagree.MISTAKES},
    worlds=[modes_disagree.WORLD],
    seeds=range(10, 15),
    rows={
        f"percentage points that it costs, {mistake}": partial(cost_of, mistake=mistake)
        for mistake in modes_disagree.MISTAKES
    },
    control="A mistake could merely train a worse network, so the error in training mode stands "
    "beside each; and a remedy could help any network, so the healthy one, with its statistics "
    "recomputed, is a row of its own. What a network without running statistics does depends on "
    "the batches in evaluation, of two images here. One rate for all, not tuned.",
)


def more_than_recomputed(of: Study, way: str, size: int) -> np.ndarray:
    """A way's error minus that with recomputed, frozen statistics, in percentage points."""
    error, best = (
        of.read("error", way=one, batch_size=size) for one in (way, fine_tuning.WAYS[-1])
    )
    return 100 * (error - best)


Study(
    name="fine_tuning",
    chapter=9,
    question="How should BatchNorm be treated in fine-tuning on few images of another look?",
    arms={
        f"batches of {cell['batch_size']}, {cell['way']}": cell
        for cell in grid(batch_size=[2, 16], way=[*fine_tuning.WAYS])
    },
    worlds=[fine_tuning.WORLD],
    seeds=range(10, 15),
    rows={
        f"percentage points more than recomputed and frozen, batches of {size}, {way}": partial(
            more_than_recomputed, way=way, size=size
        )
        for size in (2, 16)
        for way in fine_tuning.WAYS[:-1]
    },
    control="The network before fine-tuning is reported too, in evaluation mode with the old and "
    "with the recomputed statistics, so that what fine-tuning adds can be told from what new "
    "statistics add. All ways of a seed share the network, the images and the order. The learning "
    "rate is chosen for each way, size and seed on 240 other images of the new look. Training mode "
    "in batches of 16 mostly took the smallest of the eight.",
)
