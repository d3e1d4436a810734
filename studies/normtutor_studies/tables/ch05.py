"""Chapter 5: does the mean matter?"""

from normtutor_studies.engine import Study
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
    name="parts_of_layer_norm",
    chapter=5,
    question="What in LayerNorm does the work?",
    predicts={
        "centring": "without the mean, or its gradient, the loss is higher",
        "scaling": "without the scale it is higher",
        "the scale's gradient": "with the scale as a constant to the backward pass it is higher",
    },
    arms={
        "LayerNorm": {"norm": "detach:on:on"},
        "no mean": {"norm": "detach:off:on"},
        "mean detached": {"norm": "detach:detached:on"},
        "scale detached": {"norm": "detach:on:detached"},
        "no scale": {"norm": "detach:on:off"},
    },
    pairs=[
        (label, "LayerNorm") for label in ("no mean", "mean detached", "scale detached", "no scale")
    ],
    worlds=SEQUENCES,
    control="A detached statistic leaves the forward pass as it is. Each arm has its own rate.",
)
