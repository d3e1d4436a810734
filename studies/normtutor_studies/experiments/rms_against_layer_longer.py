"""LayerNorm against RMSNorm as in rms_against_layer, trained five times as long.

In 300 steps of :mod:`normtutor_studies.experiments.rms_against_layer` RMSNorm ends ahead on every seed, and
no norm ahead of both. Do they in 1,500, with rates that
:mod:`normtutor_studies.experiments.rms_against_layer_longer_rates` chose?

Control: a difference could come from rates that suited 300 steps, so each is chosen at 1,500 on
another seed, with a worse one on both sides; for all three it is half of that of 300 steps. Text,
seeds, initial weights, ε and the number of steps of the warm-up are those of 300 steps, and so is
the margin, 2 % of perplexity. RMSNorm is ahead on four seeds and behind on one, by as much. Not
checked: larger embeddings, an untied output, still more steps.
"""

import dataclasses

import numpy as np

from normtutor_studies.experiments import rms_against_layer
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.rms_against_layer import Condition, fingerprint, run, run_seeds

__all__ = ["CONFIG", "SEEDS", "difference", "fingerprint", "rows", "run", "run_seeds"]

CHAPTER = rms_against_layer.CHAPTER
FIGURE = "none: a control of rms_against_layer, which chapter 5 cites"
FINDING = (
    "in 1,500 steps, tied, with a norm at the end and the usual embeddings, RMSNorm and LayerNorm "
    "are equivalent within 2% of perplexity, and no norm is 0.02 nats ahead of LayerNorm"
)
XLABEL = rms_against_layer.XLABEL
SEEDS = tuple(range(10, 15))
RATE = 8e-3  # rms_against_layer_longer_rates chose it for each of the three
CONFIG = dataclasses.replace(
    rms_against_layer.CONFIG,
    conditions=tuple(Condition(norm, RATE) for norm in ("layer", "rms", "none")),
    size=dataclasses.replace(rms_against_layer.CONFIG.size, steps=1500),
    evaluate_every=250,
)
REDUCED = rms_against_layer.REDUCED


def difference(saved: Saved, norm: str = "rms") -> np.ndarray:
    """RMSNorm's test loss, or no norm's, minus LayerNorm's, paired by seed."""
    return saved.values("loss", norm=norm) - saved.values("loss", norm="layer")


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus LayerNorm's, paired by seed."""
    return {"RMSNorm": difference(saved), "no norm": difference(saved, "none")}
