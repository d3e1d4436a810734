"""Twelve layers on text with Post-LN, in batches of four times as many tokens.

A control of :mod:`normtutor_studies.experiments.depth_on_text`, in which Post-LN hardly starts: is it
because a step has 256 tokens? Here it has 1,024; the model, the 1,000 steps, the rates, the
embeddings and the seeds are as there, with 300 steps of warm-up and without.

Control: the rate and the embeddings were chosen for steps of 256 tokens, so Post-LN starts with
other than its best settings. Warm-up is the only difference between the two rows. A sixth seed,
40, run afterwards and not on record, lies where the five expect it. Not checked: other rates and
embeddings, and 256 tokens a step for four times as many steps, so that the number of tokens, which
grows too, is not told from the size of the batch.
"""

import dataclasses

import numpy as np

from normtutor_studies.experiments import depth_on_text
from normtutor_studies.experiments.depth_on_text import Condition, fingerprint, run, run_seeds
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "fingerprint", "rows", "run", "run_seeds"]

CHAPTER = depth_on_text.CHAPTER
FIGURE = "none: a control of depth_on_text, which chapter 7 cites"
FINDING = (
    "with 1,024 tokens a step Post-LN leaves the plateau; warm-up lowers its loss by a third of a "
    "nat"
)
XLABEL = "test loss with warm-up minus without (nats/token)"
SEEDS = depth_on_text.SEEDS
CONFIG = dataclasses.replace(
    depth_on_text.CONFIG,
    conditions=tuple(c for c in depth_on_text.CONFIG.conditions if c.wiring == "post"),
    size=dataclasses.replace(depth_on_text.CONFIG.size, batch_size=32),
)
REDUCED = depth_on_text.REDUCED | {
    "conditions": (Condition("post", 2, 1.0, 1e-3), Condition("post", 0, 1.0, 1e-3))
}


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss with warm-up minus that without, paired by seed."""
    cold, warm = sorted(saved.config["conditions"], key=lambda c: c["warmup"])
    return {"Post-LN": saved.values("test", **warm) - saved.values("test", **cold)}
