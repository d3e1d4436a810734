"""Which rate and which size of the embeddings suit a million tokens without a norm.

The grid of :mod:`normtutor_studies.experiments.more_tokens_rates`, whose text says how it is laid out, for
a model without layers and for twelve layers with Xavier's weights and with Fixup.

The records are part of a run of both; the times are those of this part run again alone, on another
processor.

Control: a network could look bad because of its rate or the size of its embeddings. Fixup and the
model without layers have two sizes, of which the smaller is best, and Xavier's weights one. Each
has two rates or more. Run again on another processor, not on record, it chose the same. Not
checked: a second seed; smaller sizes for Fixup and without layers; other sizes for Xavier's
weights; rates in between.
"""

import dataclasses

from normtutor_studies.experiments import more_tokens_rates
from normtutor_studies.experiments.more_tokens_rates import best_rates, fingerprint, run
from normtutor_studies.experiments.text_stability import Condition

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "run"]

CHAPTER = more_tokens_rates.CHAPTER
FIGURE = more_tokens_rates.FIGURE
FINDING = "with thirteen times the tokens Fixup's twelve layers are ahead of none"
SEEDS = more_tokens_rates.SEEDS


CONFIG = dataclasses.replace(
    more_tokens_rates.CONFIG,
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
    ),
)
REDUCED = more_tokens_rates.REDUCED
