"""What trains: Post-LN and Pre-LN, with and without warm-up, over learning rates and two depths.

Each cell of the map is one wiring, depth, warm-up and learning rate; a small Transformer learns to
sort in it, once a seed. Beside them stand the remedies: wirings that are meant to train deep models
without warm-up, at one depth.

Control: a stall could come from the rate, and a remedy could look good at one lucky rate, so every
cell is trained at five. Or it could come from a task that cannot be learned at this depth in so few
steps, for which Pre-LN is the control: it has the same sublayers, sequences and steps, and it
learns. So are the bare layers without norm or remedy, which do not. Not checked: more steps,
clipping, larger embeddings, text, other depths of the remedies, and remedies with warm-up. Sorting
eight digits is easy, so the order among those that train says little.
"""

import math

import numpy as np
import torch

from normtutor.training import language_model_loss, train
from normtutor_studies.experiments.records import Config, Record, Saved, short
from normtutor_studies.experiments.wired_sorting import Task, model_of, stream_of, test_batch

CHAPTER = "07_pre_ln_and_post_ln"
SEEDS = tuple(range(10, 15))
CONFIG = Config(
    conditions=[
        {"wiring": wiring, "depth": depth, "warmup": warmup}
        for depth, warmups in ((6, (0, 60)), (12, (0, 20, 60)))
        for wiring in ("post", "pre")
        for warmup in warmups
    ],
    remedies=[
        {"wiring": wiring, "depth": 12, "warmup": 0}
        for wiring in (
            *("none", "post-small", "deepnorm", "ds-init"),
            *("admin", "peri", "rezero", "fixup"),
        )
    ],
    rates=(1e-3, 2e-3, 4e-3, 8e-3, 16e-3),
    steps=200,
    task=Task(),
)


def run(config: Config, seed: int) -> list[Record]:
    """Train every cell with every rate; record the loss on new sequences, in nats a digit."""
    test, records = test_batch(config.task, seed), []
    for cell in (*config.conditions, *config.remedies):
        for rate in config.rates:
            model = model_of(config.task, cell["wiring"], cell["depth"], seed)
            stream = stream_of(config.task, np.random.default_rng(seed))
            settings = {"warmup": cell["warmup"], "learning_rate": rate}
            train(model, stream, language_model_loss, steps=config.steps, **settings)
            with torch.no_grad():
                loss = language_model_loss(model, test).item()
            loss = short(loss, 5) if math.isfinite(loss) else math.nan
            records.append({**cell, "learning_rate": rate, "loss": loss})
    return records


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Loss with the longest warm-up minus loss without, paired by seed, at the largest rate."""

    def loss(wiring: str, depth: int, warmup: int) -> np.ndarray:
        cell = {"wiring": wiring, "depth": depth, "warmup": warmup}
        return saved.values("loss", **cell, learning_rate=16e-3)

    return {
        f"{name}, {depth} layers": loss(wiring, depth, 60) - loss(wiring, depth, 0)
        for depth in (6, 12)
        for wiring, name in (("post", "Post-LN"), ("pre", "Pre-LN"))
    }
