"""Chapter 9: norms at work."""

from normtutor_studies.engine import Study
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
