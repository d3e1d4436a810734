"""Which rate and which size of the embeddings suit twelve layers with a norm and a million tokens.

The language models of :mod:`normtutor_studies.experiments.text_stability_rates`, trained for 1,000 steps of
1,024 tokens in place of 300 steps of 256: thirteen times as many. There a model without any layer
ends about as low as the best of those with layers; here it does not. Each network starts from the
rate and the size that were best there and is tried at their neighbours. Those without a norm are in
:mod:`normtutor_studies.experiments.more_tokens_rates_none`, so that neither takes more than twenty minutes;
``grids`` puts the two together. What was best is run on fresh seeds by
:mod:`normtutor_studies.experiments.more_tokens`.

The records are part of a run of both; the times are those of this part run again alone, on another
processor.

Control: a network could look bad because of its rate or the size of its embeddings. LayerNorm has
four sizes, and its best lies inside; RMSNorm has two, of which the smaller is best. Each has two
rates or more. Run again on another processor, not on record, RMSNorm's best rate was 0.04, by 0.010
and by rounding alone. Not checked: a second seed; smaller sizes for RMSNorm; rates in between.
"""

import dataclasses

from normtutor_studies.experiments import text_stability
from normtutor_studies.experiments.package_chunks import Size, fingerprint
from normtutor_studies.experiments.rates import joined
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.text_stability import Condition, Config, run
from normtutor_studies.experiments.text_stability_rates import best_rates

__all__ = ["CONFIG", "SEEDS", "best_rates", "fingerprint", "grids", "run"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: it chooses the learning rates of more_tokens"
FINDING = "with thirteen times the tokens LayerNorm's best embeddings are far smaller"
SEEDS = (0,)


CONFIG = Config(
    conditions=(
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


def grids() -> Saved:
    """The book's two grids as one: with a norm, and without."""
    return joined("more_tokens_rates", "more_tokens_rates_none")
