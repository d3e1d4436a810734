"""The denoiser of :mod:`normtutor_studies.experiments.conditional_norms`, trained five times as long.

In 300 steps a condition that is added to the stream once, at the input, gains a quarter of what
AdaLN gains. Does it catch up? And AdaLN-Zero has gates, which AdaLN has not: does it matter that
they start at zero? Here are 1,500 steps, and AdaLN-Zero once more with gates that start at one.

What is on record was run in two parts on one processor, AdaLN-Zero at its best rate after the rest;
the times are of both, and of a rate of 0.003, which was tried in the first and never best.

Control: a distance could come from a rate that suits one way and not another, so each has its own,
chosen by :mod:`normtutor_studies.experiments.conditional_norms_longer_rates` on another seed, with a worse
one on both sides; AdaLN-Zero, for which two rates were level there, has both. Networks, data, noise
and seeds are those of the shorter runs, and the rate falls to zero at the end of each. Gates from
zero and from one differ in nothing else at equal rates. Not checked: still longer runs, deeper
networks, gates that start in between.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from normtutor.data import Split, load_digits
from normtutor_studies.experiments import conditional_norms
from normtutor_studies.experiments.conditional_norms import fingerprint, loss_on, trained
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "fingerprint", "losses", "measured", "rows", "run"]

CHAPTER = conditional_norms.CHAPTER
FIGURE = "none: a control of conditional_norms, which chapter 9 cites in depth"
FINDING = (
    "in 1,500 steps, at its best rate, the condition helps if added once at the input, too, by a "
    "third of what AdaLN gains; AdaLN-Zero ends above AdaLN, and gates from one end below gates "
    "from zero"
)
XLABEL = conditional_norms.XLABEL
SEEDS = conditional_norms.SEEDS[:5]


@dataclass(frozen=True)
class Condition:
    """One way for the condition to reach the network, and its rate."""

    way: str
    learning_rate: float


@dataclass(frozen=True)
class Config(conditional_norms.Config):
    """The settings of the shorter runs, with a rate for each way and five times the steps."""

    conditions: tuple[Condition, ...] = ()  # type: ignore[assignment]
    rates: tuple[float, ...] = ()  # each condition has its own
    steps: int = 1500


# The learning rates that conditional_norms_longer_rates chose, and after them AdaLN-Zero once more
# with that of the others; a test compares them with the saved run.
CONFIG = Config(
    conditions=(
        Condition("none", 0.01),
        Condition("at the input", 0.01),
        Condition("AdaLN", 0.01),
        Condition("AdaLN-Zero", 0.005),
        Condition("AdaLN-Zero, gates from one", 0.01),
        Condition("AdaLN-Zero", 0.01),
    )
)
REDUCED = {"steps": 3, "rates": ()}


def measured(config: Config, seed: int, part: Split) -> list[dict[str, Any]]:
    """Train every way at its rate with this seed; measure on these images."""
    train, records = load_digits().train, []
    for condition in config.conditions:
        model = trained(condition.way, condition.learning_rate, config, train, seed)
        records.append(
            {
                "way": condition.way,
                "learning_rate": condition.learning_rate,
                "loss": loss_on(model, part),
            }
        )
    return records


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train every way with this seed; report on the test images."""
    return measured(config, seed, load_digits().test)


def losses(saved: Saved, way: str, rate: float | None = None) -> np.ndarray:
    """The test losses of a way, by default at the rate that was chosen for it."""
    rates = [c["learning_rate"] for c in saved.config["conditions"] if c["way"] == way]
    return saved.values("loss", way=way, learning_rate=rate or rates[0])


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Each way's test loss minus that of the condition added at the input, paired by seed."""
    reference = losses(saved, "at the input")
    ways = dict.fromkeys(condition["way"] for condition in saved.config["conditions"])
    found = {way: losses(saved, way) - reference for way in ways if way != "at the input"}
    last = saved.config["conditions"][-1]
    name = f"{last['way']}, rate of the others"
    return found | {name: losses(saved, last["way"], last["learning_rate"]) - reference}
