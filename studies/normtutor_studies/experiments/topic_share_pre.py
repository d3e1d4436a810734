"""Mixed and one-language batches as in :mod:`normtutor_studies.experiments.topic_share`, under Pre-LN.

There the norms stand on the residual sum (Post-LN) and the output is tied to the embedding. Here
they stand inside the branches, a last one follows the layers, and the output has a matrix of its
own. Does BatchNorm suffer from one-language batches all the same, and PowerNorm?

Control: rates that suit Post-LN could make a norm look bad here, so they are chosen anew, on two
other seeds, by :mod:`normtutor_studies.experiments.topic_share_pre_rates`, with a worse one on both sides.
A BatchNorm that is worse in this setting anyway would be behind on mixed batches, too, and it is
not. Wiring, last norm and output change together, so what LayerNorm gains by each is not told
apart. Text, sizes, steps, warm-ups and seeds are those of Post-LN. PowerNorm's deficit rests on a
rate above which one of its two tuning seeds trains badly. Not checked: shares between none and all,
more than 300 steps, a tied output under Pre-LN, and more than two layers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from normtutor_studies.experiments import topic_share
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.topic_share import Condition, fingerprint, run

__all__ = ["CONFIG", "SEEDS", "against_layer", "fingerprint", "rows", "run"]

CHAPTER = topic_share.CHAPTER
FIGURE = "none: a control of topic_share, which chapter 6 cites"
FINDING = (
    "with Pre-LN and an untied output, too, nothing but one-topic batches set BatchNorm back in "
    "300 steps, a norm with the batch's mean alone nine tenths as far, PowerNorm a fifth as far"
)
XLABEL = topic_share.XLABEL
SEEDS = topic_share.SEEDS


@dataclass(frozen=True)
class Config(topic_share.Config):
    """The settings of topic_share, and where the norms stand."""

    wiring: str = "pre"
    tied: bool = False

    @property
    def build(self) -> dict[str, Any]:
        """Where the norms stand, and whether the output matrix is the embedding's."""
        return {"wiring": self.wiring, "tied": self.tied}


# The learning rates that topic_share_pre_rates chose; a test compares them with its saved run.
CONFIG = Config(
    conditions=(
        Condition("layer", 0.0, 96e-3),
        Condition("layer", 1.0, 24e-3),
        Condition("batch", 0.0, 48e-3),
        Condition("batch", 1.0, 48e-3),
        Condition("power", 0.0, 96e-3),
        Condition("power", 1.0, 12e-3),
        Condition("power-v", 1.0, 24e-3),
        Condition("batch mean, rms", 1.0, 48e-3),
    )
)


def against_layer(saved: Saved, norm: str, share: float, key: str = "loss") -> np.ndarray:
    """A norm's test loss minus LayerNorm's, which has one mode, paired by seed."""
    beside = {"own_batch": "own", "mixed_batch": "loss"}.get(key, key)
    return saved.values(key, norm=norm, share=share) - saved.values(
        beside, norm="layer", share=share
    )


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test losses minus LayerNorm's, paired by seed."""
    titles = {
        "batch": "BatchNorm",
        "power": "PN",
        "power-v": "PN-V",
        "batch mean, rms": "batch mean, RMSNorm",
    }
    return {
        f"share {condition.share:g}, {titles[condition.norm]}": against_layer(
            saved, condition.norm, condition.share
        )
        for condition in CONFIG.conditions
        if condition.norm != "layer"
    }
