"""Twelve layers that read a million tokens, without the norm after the last one.

The networks of :mod:`normtutor_studies.experiments.more_tokens` with LayerNorm and RMSNorm and an output
matrix of their own, without their last norm, on the same seeds and batches. Those with it are on
record there and not trained again.

Control: in the 300 clipped steps of :mod:`normtutor_studies.experiments.deep_last_norm` the last norm gains
half a nat, which could be a matter of so few tokens. Networks with it have the rate and the size of
the embeddings that were best for them; those without it have the usual size and the rate of the
others, untuned. So what the last norm gains here is at most what it would gain over a tuned
network, and RMSNorm minus LayerNorm without it is a comparison at one rate. Not checked: a tied
output, dynamic tanh, other sizes and rates.
"""

import numpy as np

from normtutor_studies.experiments import deep_last_norm, more_tokens
from normtutor_studies.experiments.deep_last_norm import Condition, Config, run, run_seeds
from normtutor_studies.experiments.package_chunks import Size, fingerprint
from normtutor_studies.experiments.records import Saved, load

__all__ = ["CONFIG", "SEEDS", "fingerprint", "gained", "rows", "run", "run_seeds"]

CHAPTER = "05_rms_norm"
FIGURE = "none: a control of deep_last_norm, which chapter 5 cites"
FINDING = (
    "in 1,000 steps of 1,024 tokens, untied, LayerNorm gains nothing visible by a last norm and "
    "RMSNorm a hundredth of a nat; without it they are level"
)
XLABEL = "test loss minus another's (nats/token)"
SEEDS = more_tokens.SEEDS
CONFIG = Config(
    conditions=tuple(
        Condition(build, False, False, 1.0, 1.6e-2) for build in ("Pre-LN", "Pre-RMSNorm")
    ),
    size=more_tokens.CONFIG.size,
)
REDUCED = {
    "conditions": (Condition("Pre-LN", False, False, 1.0, 1e-3),),
    "depth": 2,
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}


def gained(saved: Saved, build: str) -> np.ndarray:
    """Test loss without the last norm minus that with it at its best size, by seed."""
    with_it = more_tokens.losses(load("more_tokens"))[build]
    return deep_last_norm.losses(saved)[build, False, False] - with_it


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """What the last norm gains either norm, and RMSNorm minus LayerNorm without it."""
    found = deep_last_norm.losses(saved)
    return {
        "LN, without the last norm minus with it": gained(saved, "Pre-LN"),
        "RMSNorm, without the last norm minus with it": gained(saved, "Pre-RMSNorm"),
        "RMSNorm minus LN, both without it": found["Pre-RMSNorm", False, False]
        - found["Pre-LN", False, False],
    }
