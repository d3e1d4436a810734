"""Twelve layers with LayerNorm whose gains start small: which rates, gains and embeddings are best.

A control of :mod:`normtutor_studies.experiments.deep_last_norm`: a network without the last norm could do
badly because its branches are loud from the start. Settings and seed are those of
:mod:`normtutor_studies.experiments.deep_last_norm_rates`.

Control: what helps could be the size of the embeddings, so they vary too; with an output of its own
the best size lies between worse ones, the best gain at the end of those tried (0.03), which gains
0.013 nats on 0.1. With a tied output 0.1 was best of two gains at the usual size and of two at a
quarter of it; larger embeddings were not tried. Not checked: smaller gains, such gains for RMSNorm,
and a second seed.
"""

from normtutor_studies.experiments import deep_last_norm_rates
from normtutor_studies.experiments.deep_last_norm_rates import (
    Config,
    GainNetwork,
    Row,
    fingerprint,
    run,
)
from normtutor_studies.experiments.package_chunks import Size

__all__ = ["CONFIG", "SEEDS", "fingerprint", "run"]

CHAPTER = "05_rms_norm"
FIGURE = "none: it chooses rates, gains and embeddings for deep_last_norm"
FINDING = "in 300 clipped steps small gains lower the loss of twelve layers without the last norm"
SEEDS = deep_last_norm_rates.SEEDS

CONFIG = Config(
    rows=(
        Row(GainNetwork("Pre-LN, small gains", False, True, 1.0, 0.3), (1.6e-2, 4e-2)),
        Row(GainNetwork("Pre-LN, small gains", False, True, 1.0, 0.1), (1.6e-2, 4e-2)),
        Row(GainNetwork("Pre-LN, small gains", False, False, 1.0, 0.1), (1.6e-2, 4e-2)),
        Row(GainNetwork("Pre-LN, small gains", True, False, 1.0, 0.1), (1.6e-2, 4e-2)),
        Row(GainNetwork("Pre-LN, small gains", False, False, 1.0, 0.1), (1e-1,)),
        Row(GainNetwork("Pre-LN, small gains", False, False, 1 / 4, 0.1), (1.6e-2, 4e-2, 1e-1)),
        Row(GainNetwork("Pre-LN, small gains", False, False, 4.0, 0.1), (1.6e-2, 4e-2, 1e-1)),
        Row(GainNetwork("Pre-LN, small gains", False, False, 1 / 16, 0.1), (1.6e-2, 4e-2, 1e-1)),
        Row(GainNetwork("Pre-LN, small gains", False, False, 1.0, 0.03), (1.6e-2, 4e-2, 6.3e-3)),
        Row(GainNetwork("Pre-LN, small gains", False, False, 1 / 4, 0.03), (1.6e-2, 4e-2, 1e-1)),
        Row(GainNetwork("Pre-LN, small gains", False, False, 4.0, 0.03), (1.6e-2, 4e-2, 6.3e-3)),
        Row(GainNetwork("Pre-LN, small gains", False, False, 1 / 16, 0.03), (1.6e-2, 4e-2, 1e-1)),
        Row(GainNetwork("Pre-LN, small gains", True, False, 1.0, 0.1), (1e-1,)),
        Row(GainNetwork("Pre-LN, small gains", True, False, 4.0, 0.1), (1.6e-2, 4e-2, 1e-1)),
        Row(GainNetwork("Pre-LN, small gains", True, False, 16.0, 0.1), (1.6e-2, 4e-2, 1e-1)),
        Row(GainNetwork("Pre-LN, small gains", True, False, 64.0, 0.1), (1.6e-2, 4e-2, 1e-1)),
        Row(GainNetwork("Pre-LN, small gains", False, True, 1 / 4, 0.1), (1.6e-2, 4e-2, 1e-1)),
        Row(GainNetwork("Pre-LN, small gains", False, True, 1 / 4, 0.03), (1.6e-2, 4e-2, 1e-1)),
    )
)
REDUCED = {
    "rows": (Row(GainNetwork("Pre-LN, small gains", False, True, 1.0, 0.1), (1e-3,)),),
    "depth": 2,
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}
