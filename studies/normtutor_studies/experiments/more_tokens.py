"""Twelve layers that read a million tokens, with a norm and without one, on fresh seeds.

The models of :mod:`normtutor_studies.experiments.text_stability` with thirteen times as many tokens: 1,000
steps of 1,024. A model without any layer runs beside them, embeddings and an output matrix alone:
it predicts the next piece from the present one, and what a model ends below it is what its layers
are worth. Rate and size of the embeddings are those that
:mod:`normtutor_studies.experiments.more_tokens_rates` found best for each on another seed.

Control: a difference could come from the rate, the size of the embeddings or clipping; the first
two were tuned, LayerNorm over four sizes, Xavier's weights at one, the others over two, of which
the smaller was better; the share of clipped steps is recorded. All have the same batches. A sixth
seed, 40, run afterwards and not on record, lies where the five expect it in all four rows. Not
checked: other depths, longer runs, other norms, a full grid of rates, and smaller embeddings for
Fixup, whose deficit is small. Its weights without the learned factor that each branch has are in
:mod:`normtutor_studies.experiments.fixup_factor_longer`.
"""

import numpy as np

from normtutor_studies.experiments import more_tokens_rates
from normtutor_studies.experiments.package_chunks import fingerprint
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.text_stability import Condition, Config, run, run_seeds

__all__ = ["CONFIG", "SEEDS", "fingerprint", "losses", "rows", "run", "run_seeds"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "none: chapter 1 reads it, where layers pay"
FINDING = (
    "where layers pay, twelve of them end lowest with a norm, a little higher with Fixup, higher "
    "still from Xavier's weights"
)
XLABEL = "test loss minus that without layers (nats/token)"
SEEDS = tuple(range(10, 15))
NO_LAYERS = "no layers"

CONFIG = Config(
    conditions=(
        Condition("no norm", 0, 1 / 4, 4e-2),
        Condition("no norm", 12, 1 / 4, 1.6e-2),
        Condition("no norm, Fixup", 12, 1 / 4, 1.6e-2),
        Condition("Pre-LN", 12, 4.0, 1.6e-2),
        Condition("Pre-RMSNorm", 12, 4.0, 1.6e-2),
    ),
    size=more_tokens_rates.CONFIG.size,
)
REDUCED = more_tokens_rates.REDUCED


def losses(saved: Saved) -> dict[str, np.ndarray]:
    """Network -> test loss of each seed; the one without layers is called "no layers"."""
    return {
        c["build"] if c["depth"] else NO_LAYERS: saved.values("test", **c)
        for c in saved.config["conditions"]
    }


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus that without any layer, by seed."""
    found = losses(saved)
    return {name: found[name] - found[NO_LAYERS] for name in found if name != NO_LAYERS}
