"""Where dynamic tanh's α should start in twelve layers without a last place, on two further seeds.

The networks of :mod:`normtutor_studies.experiments.deep_tanh_starts`, which chose on one seed: would others
choose otherwise? Around what was best there are the starts on both sides, with an untied output a
sixteenth of the usual embeddings too, and the two rates that were best.

Control: a start could look bad because of the rate, so each has two. The losses are of the
validation part, and the seeds are used nowhere else. Not checked: networks with the last place,
and other rates on these seeds.
"""

from dataclasses import replace

import numpy as np

from normtutor_studies.experiments import deep_tanh_starts
from normtutor_studies.experiments.deep_last_norm_rates import (
    Config,
    Row,
    TanhNetwork,
    fingerprint,
    run,
)
from normtutor_studies.experiments.records import Saved

__all__ = ["CONFIG", "SEEDS", "fingerprint", "lost", "run"]

CHAPTER = "08_after_2020"
FIGURE = "none: it chooses once more what deep_tanh_starts chose"
FINDING = (
    "two further seeds choose the same start of α and size of the embeddings in twelve layers "
    "without a last place"
)
SEEDS = (19, 20)
RATES = (1.6e-2, 4e-2)
#: The sizes of the embeddings and the starts of α, by whether the output is tied.
TRIED = {
    True: ((1.0, 0.5), (1.0, 0.25), (1.0, 0.125)),
    False: ((1 / 4, 0.25), (1 / 4, 0.0625), (1 / 4, 1 / 64), (1 / 16, 0.0625)),
}

CONFIG: Config = replace(
    deep_tanh_starts.CONFIG,
    rows=tuple(
        Row(
            TanhNetwork("Pre-DyT", False, tied, scale, alpha, deep_tanh_starts.AT_THE_END[tied]),
            RATES,
        )
        for tied, tried in TRIED.items()
        for scale, alpha in tried
    ),
)
REDUCED = deep_tanh_starts.REDUCED


def lost(saved: Saved, tied: bool) -> dict[tuple[float, float], np.ndarray]:
    """What each size and start costs beside the best: validation loss at its best rate, by seed."""
    losses = {
        (scale, alpha): np.min(
            [
                saved.values("validation", tied=tied, scale=scale, alpha=alpha, learning_rate=rate)
                for rate in RATES
            ],
            axis=0,
        )
        for scale, alpha in TRIED[tied]
    }
    least = np.min(list(losses.values()), axis=0)
    return {where: values - least for where, values in losses.items()}
