"""Which rate and which size of the embeddings suit twelve layers that read a million tokens.

The language models of :mod:`normtutor.experiments.text_stability_rates`, trained for 1,000 steps of
1,024 tokens in place of 300 steps of 256: thirteen times as many. There a model without any layer
ends about as low as the best of those with layers; here it does not. Each network starts from the
rate and the size that were best there and is tried at their neighbours. What was best is run on
fresh seeds by :mod:`normtutor.experiments.more_tokens`.

Control: a network could look bad because of its rate or the size of its embeddings. LayerNorm has
four sizes, and its best lies inside; the others have two, of which the smaller is best, and
Xavier's weights one. Each has two rates or more. Not checked: a second seed; smaller sizes for
Fixup, for RMSNorm and without layers; other sizes for Xavier's weights; rates in between.
"""

import dataclasses

from normtutor.experiments import text_stability
from normtutor.experiments.package_chunks import Size, fingerprint
from normtutor.experiments.text_stability import Condition, Config, run
from normtutor.experiments.text_stability_rates import best_rates

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: it chooses the learning rates of more_tokens"
FINDING = "with thirteen times the tokens LayerNorm's best embeddings are far smaller"
SEEDS = (0,)


CONFIG = Config(
    conditions=(
        Condition("no norm", 0, 1 / 4, 1.6e-2),
        Condition("no norm", 0, 1 / 4, 4e-2),
        Condition("no norm", 0, 1 / 4, 1e-1),
        Condition("no norm", 0, 1.0, 1.6e-2),
        Condition("no norm", 0, 1.0, 4e-2),
        Condition("no norm", 12, 1 / 4, 2.5e-3),
        Condition("no norm", 12, 1 / 4, 6.3e-3),
        Condition("no norm", 12, 1 / 4, 1.6e-2),
        Condition("no norm", 12, 1 / 4, 4e-2),
        Condition("no norm, Fixup", 12, 1 / 4, 6.3e-3),
        Condition("no norm, Fixup", 12, 1 / 4, 1.6e-2),
        Condition("no norm, Fixup", 12, 1 / 4, 4e-2),
        Condition("no norm, Fixup", 12, 1.0, 1.6e-2),
        Condition("no norm, Fixup", 12, 1.0, 4e-2),
        Condition("Pre-LN", 12, 1.0, 1.6e-2),
        Condition("Pre-LN", 12, 4.0, 6.3e-3),
        Condition("Pre-LN", 12, 4.0, 1.6e-2),
        Condition("Pre-LN", 12, 4.0, 4e-2),
        Condition("Pre-LN", 12, 16.0, 1.6e-2),
        Condition("Pre-LN", 12, 16.0, 4e-2),
        Condition("Pre-LN", 12, 256.0, 4e-2),
        Condition("Pre-RMSNorm", 12, 4.0, 1.6e-2),
        Condition("Pre-RMSNorm", 12, 4.0, 4e-2),
        Condition("Pre-RMSNorm", 12, 16.0, 4e-2),
    ),
    size=dataclasses.replace(text_stability.CONFIG.size, batch_size=32, steps=1000, warmup=250),
)
REDUCED = {
    "conditions": (Condition("no norm", 0, 1.0, 1e-3), Condition("Pre-LN", 2, 1.0, 1e-3)),
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}
