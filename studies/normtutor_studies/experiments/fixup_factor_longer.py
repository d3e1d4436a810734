"""Fixup's weights without the learned factor of its branches, on a million tokens.

The question of :mod:`normtutor_studies.experiments.fixup_factor` where layers pay: in the twelve layers of
:mod:`normtutor_studies.experiments.more_tokens`, on the same seeds and batches. Fixup itself is on record
there and not trained again.

Control: the rate could suit the factor, so it is chosen without it on another seed, between a worse
one and one at which training diverges
(:mod:`normtutor_studies.experiments.fixup_factor_longer_rates`); it is Fixup's own, and so is the size of
the embeddings. Those with which it is compared were trained on another processor, on the same
seeds and batches. Not checked: other sizes of the embeddings, rates in between, other depths, and
training without clipping.
"""

import numpy as np

from normtutor_studies.experiments import more_tokens
from normtutor_studies.experiments.fixup_factor import FIXUP
from normtutor_studies.experiments.package_chunks import Size, fingerprint
from normtutor_studies.experiments.records import Saved, load
from normtutor_studies.experiments.text_stability import Condition, Config, run, run_seeds
from normtutor_studies.experiments.text_stability_rates import WITHOUT_FACTOR

__all__ = ["CONFIG", "SEEDS", "fingerprint", "rows", "run", "run_seeds"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: a control of more_tokens, which chapter 1 cites"
FINDING = (
    "on a million tokens twelve layers with Fixup's weights end a hundredth of a nat higher "
    "without the learned factor, well below no layers"
)
XLABEL = "test loss minus another's (nats/token)"
SEEDS = more_tokens.SEEDS
CONFIG = Config(
    conditions=(Condition(WITHOUT_FACTOR, 12, 1 / 4, 1.6e-2),),
    size=more_tokens.CONFIG.size,
)
REDUCED = {
    "conditions": (Condition(WITHOUT_FACTOR, 2, 1.0, 1e-3),),
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss without the factor minus that of others, by seed."""
    without, there = (
        saved.values("test", build=WITHOUT_FACTOR),
        more_tokens.losses(load("more_tokens")),
    )
    return {name: without - there[name] for name in (FIXUP, "Pre-LN", more_tokens.NO_LAYERS)}
