"""Two to twenty-four layers with a norm and without one, on fresh seeds, at rates tuned for each.

The builds of :mod:`normtutor_studies.experiments.text_stability_rates`: no norm with Xavier's weights, with
scaled residual weights and with Fixup, Pre-LN, Pre-RMSNorm, Post-LN, and BatchNorm and PowerNorm in
Pre-LN's places. Each has the learning rate and the embedding scale that were best there, and six
seeds that were used nowhere else. Twenty-four layers are trained with the builds that decide: no
norm with scaled weights and with Fixup, Pre-LN and Pre-RMSNorm. Losses are those of the test part.
Gradients are clipped at length 1 for all, and the share of clipped steps is recorded: clipping
hides how unstable a network is, and here it helps those without a norm. A model without any layer,
embeddings and an output matrix, says what layers are worth in these steps.

Pre-LN is held against Pre-RMSNorm in an equivalence test. Its margin was fixed before the first of
these runs of Pre-LN, at 2 % of perplexity, the margin of the shallow comparison in
:mod:`normtutor_studies.experiments.rms_against_layer`: the two are called equivalent if the 95 % interval
of the paired differences lies within the margin on both sides, and undecided if it does not. No
norm with Fixup takes the same test.

Control: a difference could come from the rate and the size of the embeddings, which were tuned for
every network, on another seed; or from clipping, which is on for all but acts on up to 44 % of the
steps of one network and on none of another's. Initial weights differ on purpose: they are what the
norm is compared with. Deep networks could be held back by the few steps: a model without any layer
ends 0.02 nats behind the best of them, so what is compared is how well each keeps out of the
way; where layers pay is another experiment (:mod:`normtutor_studies.experiments.more_tokens`). BatchNorm
and PowerNorm could lose because running averages do not fit, so each loss is also taken with the
statistics of the batch: the same to 0.005. A seventh seed, 40, run afterwards and not on record,
lies where the six expect it in 23 of 24 rows; Post-LN with two layers ends 0.01 above. Fixup
without its learned factor is in :mod:`normtutor_studies.experiments.fixup_factor`. Not checked: more than
300 steps; batches of more than 256 tokens but for BatchNorm
(:mod:`normtutor_studies.experiments.larger_batches`); and training without clipping.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from normtutor_studies.experiments import text_stability_rates
from normtutor_studies.experiments.package_chunks import SMALL, Size, fingerprint
from normtutor_studies.experiments.records import Saved, load
from normtutor_studies.experiments.text_stability_rates import (
    BUILDS,
    train_build,
    working_rates,
)

__all__ = ["CONFIG", "SEEDS", "fingerprint", "rows", "run", "run_seeds"]

CHAPTER = "01_internal_covariate_shift"
FIGURE = "fig-why-normalize"
FINDING = (
    "in 300 steps, of three ways to train twelve layers without a norm, only Fixup comes near "
    "RMSNorm"
)
XLABEL = "test loss minus Pre-RMSNorm's (nats/token)"
REFERENCE_BUILD = "Pre-RMSNorm"
#: Of the equivalence test of Pre-LN and Pre-RMSNorm, in nats: 2 % of perplexity.
MARGIN = math.log(1.02)
SEEDS = tuple(range(10, 16))


@dataclass(frozen=True)
class Condition:
    """One build at one depth, with what was tuned for it."""

    build: str
    depth: int
    scale: float
    learning_rate: float


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    conditions: tuple[Condition, ...]
    size: Size = dataclasses.field(
        default_factory=lambda: dataclasses.replace(SMALL, steps=300, warmup=75, clip=1.0)
    )


# What text_stability_rates chose; a test compares them with its saved run.
CONFIG = Config(
    conditions=(
        Condition("no norm", 0, 1 / 4, 4e-2),
        Condition("no norm", 2, 1 / 4, 4e-2),
        Condition("no norm, scaled weights", 2, 1 / 4, 4e-2),
        Condition("no norm, Fixup", 2, 1 / 4, 4e-2),
        Condition("Pre-LN", 2, 16.0, 4e-2),
        Condition("Pre-RMSNorm", 2, 64.0, 4e-2),
        Condition("Post-LN", 2, 1 / 16, 1.6e-2),
        Condition("Pre-BatchNorm", 2, 16.0, 4e-2),
        Condition("Pre-PowerNorm", 2, 64.0, 4e-2),
        Condition("no norm", 6, 1 / 4, 1.6e-2),
        Condition("no norm, scaled weights", 6, 1.0, 1.6e-2),
        Condition("no norm, Fixup", 6, 1 / 4, 4e-2),
        Condition("Pre-LN", 6, 64.0, 4e-2),
        Condition("Pre-RMSNorm", 6, 64.0, 4e-2),
        Condition("Post-LN", 6, 1 / 4, 6.3e-3),
        Condition("Pre-BatchNorm", 6, 64.0, 4e-2),
        Condition("Pre-PowerNorm", 6, 256.0, 4e-2),
        Condition("no norm", 12, 1 / 4, 6.3e-3),
        Condition("no norm, scaled weights", 12, 1.0, 6.3e-3),
        Condition("no norm, Fixup", 12, 1 / 4, 4e-2),
        Condition("Pre-LN", 12, 256.0, 4e-2),
        Condition("Pre-RMSNorm", 12, 256.0, 4e-2),
        Condition("Post-LN", 12, 1.0, 2.5e-3),
        Condition("Pre-BatchNorm", 12, 256.0, 4e-2),
        Condition("Pre-PowerNorm", 12, 256.0, 4e-2),
        Condition("no norm, scaled weights", 24, 1 / 4, 6.3e-3),
        Condition("no norm, Fixup", 24, 1 / 4, 4e-2),
        Condition("Pre-LN", 24, 256.0, 4e-2),
        Condition("Pre-RMSNorm", 24, 256.0, 4e-2),
    )
)


def LARGE_CONFIG() -> Config:
    """Every build at the rate and the scale that the large run of text_stability_rates chose."""
    rates = load("text_stability_rates", scale="large")
    return Config(
        conditions=tuple(
            Condition(build, depth, scale, rate)
            for (build, depth, scale), rate in text_stability_rates.best_rates(rates).items()
        ),
        size=text_stability_rates.LARGE_CONFIG.size,
    )


REDUCED = {
    "conditions": (Condition("no norm", 2, 1.0, 1e-3), Condition("Pre-RMSNorm", 2, 1.0, 1e-3)),
    "size": Size(width=8, heads=2, steps=5, warmup=2, held_out_chunks=64, clip=1.0),
}


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Train every condition with all seeds at once; a list of records for each seed."""
    by_condition = [
        train_build(
            config.size,
            condition.build,
            condition.depth,
            condition.scale,
            [(seed, condition.learning_rate) for seed in seeds],
        )
        for condition in config.conditions
    ]
    return [list(records) for records in zip(*by_condition, strict=True)]


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every condition with this seed."""
    return run_seeds(config, [seed])[0]


def losses(saved: Saved, depth: int) -> dict[str, np.ndarray]:
    """Build -> test loss of each seed at this depth, NaN where a run diverged."""
    conditions = [c for c in saved.config["conditions"] if c["depth"] == depth]
    return {c["build"]: saved.values("test", build=c["build"], depth=depth) for c in conditions}


def without_layers(saved: Saved) -> np.ndarray:
    """Test loss of each seed without any layer."""
    return losses(saved, 0)["no norm"]


def within_margin(differences: np.ndarray) -> bool:
    """Whether two one-sided t-tests at 5% say so: the 90% interval lies within the margin."""
    from scipy import stats

    low, high = stats.ttest_1samp(differences, 0.0).confidence_interval(0.90)
    return bool(-MARGIN <= low and high <= MARGIN)


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Test loss minus Pre-RMSNorm's, by seed; builds of which a seed diverged are left out."""
    found = {}
    for depth in sorted({c["depth"] for c in saved.config["conditions"]} - {0}):
        at_depth = losses(saved, depth)
        for build in BUILDS:
            if (
                build in at_depth
                and build != REFERENCE_BUILD
                and not np.isnan(at_depth[build]).any()
            ):
                found[f"{build}, {depth} layers"] = at_depth[build] - at_depth[REFERENCE_BUILD]
    return found


NAMES = {
    "none": "none",
    "layer": "LayerNorm",
    "rms": "RMSNorm",
    "batch": "BatchNorm",
    "power": "PowerNorm",
}


class Outcome(NamedTuple):
    """What one build did at one depth."""

    norm: str  # its name in the table of norms, or "none"
    tried: list[float]
    working: list[float]
    best: np.ndarray  # test losses, one per seed; empty where no rate reached the end
    clipped: float  # the mean share of clipped steps there


def outcomes(rates: Saved, saved: Saved, depth: int) -> dict[str, Outcome]:
    """Build -> its working rates and its best loss.

    The loss is that of the fresh seeds where there are any, and else the one of the grid.
    """
    working, fresh = working_rates(rates, depth), losses(saved, depth)
    found = {}
    for (build, at, scale), rate in text_stability_rates.best_rates(rates).items():
        if at == depth:
            where = {"build": build, "depth": depth}
            source = saved if build in fresh else rates
            where |= {} if build in fresh else {"scale": scale, "learning_rate": rate}
            best, clipped = (source.values(key, **where) for key in ("test", "clipped"))
            norm = NAMES[BUILDS[build][0]]
            tried = text_stability_rates.tried_rates(rates, build, depth)
            found[build] = Outcome(norm, tried, working[build], best, float(clipped.mean()))
    return {build: found[build] for build in rates.config["builds"] if build in found}
