"""Twelve layers with Fixup's weights and without the learned factor of its branches.

"Fixup" is in this book a build of two parts: initial weights, and a learned factor on each branch
that starts at 1. What is the factor worth? Here it stays 1, in the twelve layers of
:mod:`normtutor_studies.experiments.text_stability`, on the same seeds and batches. Fixup itself at its best
rate is on record there and not trained again; here it also has the rate that is best without the
factor.

Control: the weights could look bad without the factor because of a rate or a size of the embeddings
that suits the factor, so they have their own of both, chosen on another seed between worse ones
(:mod:`normtutor_studies.experiments.fixup_factor_rates`): the size is Fixup's, the rate a smaller one. What
stands there at Fixup's best rate was trained on another processor; at the smaller rate both were
trained here. Clipping acts on a fifth of the steps without the factor and on at most 2 % with it,
at that rate. By what the factor helps is not isolated. More tokens are in
:mod:`normtutor_studies.experiments.fixup_factor_longer`. Not checked: other depths and training without
clipping.
"""

import numpy as np

from normtutor_studies.experiments import text_stability
from normtutor_studies.experiments.package_chunks import Size, fingerprint
from normtutor_studies.experiments.records import Saved, load
from normtutor_studies.experiments.text_stability import Condition, Config, run, run_seeds
from normtutor_studies.experiments.text_stability_rates import WITHOUT_FACTOR

__all__ = ["CONFIG", "SEEDS", "fingerprint", "losses", "rows", "run", "run_seeds"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: a control of text_stability, which chapter 1 cites"
FINDING = (
    "in 300 clipped steps twelve layers with Fixup's weights end 0.28 nats higher without the "
    "learned factor, each at its best rate, 0.09 at one rate, and diverge at Fixup's best"
)
XLABEL = "test loss minus Fixup's (nats/token)"
SEEDS = text_stability.SEEDS
FIXUP = "no norm, Fixup"
#: Fixup's best rate and the one that fixup_factor_rates chose without the factor.
RATE, WITHOUT = 4e-2, 1.6e-2
CONFIG = Config(
    conditions=(
        Condition(WITHOUT_FACTOR, 12, 1 / 4, WITHOUT),
        Condition(FIXUP, 12, 1 / 4, WITHOUT),
        Condition(WITHOUT_FACTOR, 12, 1 / 4, RATE),
    ),
    size=text_stability.CONFIG.size,
)
REDUCED = {
    "conditions": (Condition(FIXUP, 2, 1.0, 1e-3), Condition(WITHOUT_FACTOR, 2, 1.0, 1e-3)),
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}


def losses(saved: Saved, build: str, rate: float) -> np.ndarray:
    """Test loss of each seed, NaN where the run diverged; Fixup's at its best rate from there."""
    if (build, rate) == (FIXUP, RATE):
        return text_stability.losses(load("text_stability"), 12)[FIXUP]
    return saved.values("test", build=build, learning_rate=rate)


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus Fixup's, by seed: at the best rate of each, and both at one rate."""
    without = losses(saved, WITHOUT_FACTOR, WITHOUT)
    return {
        "best rate of each": without - losses(saved, FIXUP, RATE),
        f"both at {WITHOUT:g}": without - losses(saved, FIXUP, WITHOUT),
    }
