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
