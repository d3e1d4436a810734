"""Twelve layers over sizes of their embeddings: with LayerNorm, with BatchNorm, without a norm.

How much the size of the embeddings matters, which is the size of the stream beside what the
branches add to it at first. The settings and the seeds are those of
:mod:`normtutor_studies.experiments.text_stability`; the sizes and, for each size, the rate are those of its
grid (:mod:`normtutor_studies.experiments.text_stability_rates`), so the best size has its whole range of
rates behind it and the others three. The norms stand in Pre-LN's places; RMSNorm has three of the
sizes. The network without a norm is Fixup's.

Control: a size could look bad because of the rate, so each has the best of three, mostly the
largest, in factors of 6.3; at the best sizes a finer grid gained at most a few thousandths of a
nat. It could look bad because the branches are too large from the start, which is what the size
means here: with Pre-LN larger embeddings and smaller branches are the same network at the start. A
seventh seed, 40, run afterwards and not on record, lies where the six expect it in all thirteen
rows. Not checked: other depths over all sizes; larger batches; more than 300 steps.
"""

import numpy as np

from normtutor_studies.experiments import text_stability
from normtutor_studies.experiments.package_chunks import Size, fingerprint
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.text_stability import Condition, Config, run, run_seeds

__all__ = ["CONFIG", "SEEDS", "by_size", "fingerprint", "rows", "run", "run_seeds"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "fig-why-embeddings"
FINDING = (
    "in 300 steps embeddings of 16 times the usual size or more suit twelve layers with "
    "LayerNorm, RMSNorm or BatchNorm; Fixup needs its own size"
)
XLABEL = "test loss minus that at the best size (nats/token)"
SEEDS = text_stability.SEEDS


# At each size the best rate of those that the grid tried there; a test compares them with it.
CONFIG = Config(
    conditions=(
        *(Condition("Pre-LN", 12, scale, 4e-2) for scale in (1.0, 4.0, 16.0, 64.0, 256.0)),
        *(Condition("Pre-RMSNorm", 12, scale, 4e-2) for scale in (4.0, 16.0, 256.0)),
        *(Condition("Pre-BatchNorm", 12, scale, 4e-2) for scale in (1.0, 4.0, 16.0, 64.0, 256.0)),
        *(Condition("no norm, Fixup", 12, scale, 4e-2) for scale in (1 / 16, 1 / 4, 1.0)),
        Condition("no norm, Fixup", 12, 4.0, 6.3e-3),
    )
)
REDUCED = {
    "conditions": (
        Condition("Pre-LN", 2, 1.0, 1e-3),
        Condition("Pre-LN", 2, 4.0, 1e-3),
        Condition("no norm, Fixup", 2, 1.0, 1e-3),
    ),
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}


def by_size(saved: Saved, build: str) -> dict[float, np.ndarray]:
    """Size of the embeddings -> test losses by seed, in order of the sizes."""
    scales = sorted(c["scale"] for c in saved.config["conditions"] if c["build"] == build)
    return {scale: saved.values("test", build=build, scale=scale) for scale in scales}


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus that of the same network at the size with the smallest mean, by seed."""
    found: dict[str, np.ndarray] = {}
    for build in dict.fromkeys(c["build"] for c in saved.config["conditions"]):
        losses = by_size(saved, build)
        best = min(losses.values(), key=np.mean)
        found |= {
            f"{build}, {scale:g} times": values - best
            for scale, values in losses.items()
            if values is not best
        }
    return found
