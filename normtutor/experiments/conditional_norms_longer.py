"""The denoiser of :mod:`normtutor.experiments.conditional_norms`, trained five times as long.

In 300 steps a condition that is added to the stream once, at the input, does not help. Is it lost,
or slow? And AdaLN-Zero has gates, which AdaLN has not: does it matter that they start at zero? Here
are 1,500 steps, and AdaLN-Zero once more with gates that start at one.

Control: networks, data, noise, rates and seeds are those of the shorter runs, and the rate falls to
zero at the end of each. Gates from zero and from one differ in nothing else. All ways take the
larger of the two rates. Not checked: larger rates, still longer runs, gates that start in between.
"""

import dataclasses

from normtutor.experiments import conditional_norms
from normtutor.experiments.conditional_norms import Condition, fingerprint, rows, run

__all__ = ["CONFIG", "SEEDS", "fingerprint", "rows", "run"]

CHAPTER = conditional_norms.CHAPTER
FIGURE = "none: a control of conditional_norms, which chapter 9 cites in depth"
FINDING = (
    "in 1,500 steps the condition helps if added once at the input, too, by a third of what AdaLN "
    "gains; AdaLN-Zero ends above AdaLN, and gates from one end below gates from zero"
)
XLABEL = conditional_norms.XLABEL
SEEDS = conditional_norms.SEEDS[:5]
CONFIG = dataclasses.replace(
    conditional_norms.CONFIG,
    conditions=tuple(
        Condition(way)
        for way in ("none", "at the input", "AdaLN", "AdaLN-Zero", "AdaLN-Zero, gates from one")
    ),
    steps=1500,
)
REDUCED = {"steps": 3}
