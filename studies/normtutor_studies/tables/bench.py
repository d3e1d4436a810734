"""Certificates: in each world a network with layers must be worth its layers."""

from normtutor_studies.engine import Study
from normtutor_studies.worlds import SEQUENCES, SIGNALS

DEPTHS = {"no layers": 0, "one layer": 1, "two layers": 2, "six layers": 6}

for name, worlds in (("layers_pay", SEQUENCES), ("layers_pay_on_signals", SIGNALS)):
    Study(
        name=name,
        chapter=0,
        question="Is the network better than one without layers, and than one layer?",
        arms={label: {"depth": depth} for label, depth in DEPTHS.items()},
        pairs=[("no layers", "six layers"), ("one layer", "six layers")],
        worlds=worlds,
        control="Every depth has its own learning rate. No layers: embeddings, or pixels, and the "
        "output matrix alone.",
    )
