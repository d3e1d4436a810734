"""Twelve layers on text with Pre-LN: which learning rates train, by length of the warm-up.

The grid of :mod:`normtutor_studies.experiments.depth_on_text_rates`, whose text says how it is laid out.
Pre-LN learns at every rate and size that was tried, and with embeddings 16 times the usual size as
well without warm-up as with 300 steps of it.

Control: Pre-LN's lead over Post-LN could come from its embeddings: its larger ones gained 0.007
with warm-up and 0.044 without, where it leads by more than a nat. Not checked: a second seed of the
grid, embeddings of more than 16 times the usual size, and clipping.
"""

import dataclasses

from normtutor_studies.experiments import depth_on_text_rates
from normtutor_studies.experiments.depth_on_text_rates import Row, best_rates, fingerprint, run

__all__ = ["CONFIG", "LARGE_CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = depth_on_text_rates.CHAPTER
FIGURE = depth_on_text_rates.FIGURE
FINDING = "in 1,000 steps of 256 tokens Pre-LN learns, at every rate and warm-up tried"
SEEDS = depth_on_text_rates.SEEDS

CONFIG = dataclasses.replace(
    depth_on_text_rates.CONFIG,
    rows=(
        Row("pre", 300, 4.0, (1.6e-2, 4e-2, 1e-1)),
        Row("pre", 300, 16.0, (1.6e-2, 4e-2, 1e-1)),
        Row("pre", 0, 4.0, (6.3e-3, 1.6e-2, 4e-2)),
        Row("pre", 0, 16.0, (1.6e-2, 4e-2, 1e-1)),
        Row("pre", 600, 4.0, (1.6e-2, 4e-2, 1e-1)),
    ),
)
LARGE_CONFIG = dataclasses.replace(
    depth_on_text_rates.LARGE_CONFIG,
    rows=tuple(
        Row("pre", warmup, 4.0, (6.3e-4, 1.6e-3, 4e-3, 1e-2)) for warmup in (0, 100, 300, 600)
    ),
)
REDUCED = depth_on_text_rates.REDUCED | {"rows": (Row("pre", 0, 1.0, (1e-3,)),)}
