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
