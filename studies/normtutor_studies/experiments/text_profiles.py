"""A deep language model on text, looked at while it trains: gradients by layer, likeness of tokens.

What :mod:`normtutor_studies.experiments.depth_on_text_rates` and :mod:`normtutor_studies.experiments.depth_on_text`
share.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import nn

from normtutor.data import TokenBatch
from normtutor.models import TransformerLM
from normtutor_studies.experiments.depth_profiles import profile
from normtutor_studies.experiments.package_chunks import Size, held_out, measured, train_models
from normtutor_studies.experiments.update_size import likeness
from normtutor_studies.experiments.wired_sorting import gradient_norms, short

LOOK = 10  # steps between two looks at the likeness of the tokens
BLOCK = 50  # steps averaged into one point of the training curve
PROBED = 16  # chunks of the validation part
#: Steps after which the gradients are recorded layer by layer, beside the start and the end.
KEPT = (10, 100, 300)


def look(model: TransformerLM, probe: TokenBatch) -> dict[str, Any]:
    """Size of the stream and the gradient with respect to it, by layer; and at the matrices.

    "matrix" is the gradient's norm at the last feed-forward matrix of each layer.
    """
    model.eval()  # there is no dropout: only norms over the batch would differ
    found: dict[str, Any] = profile(model, probe)
    return {**found, "matrix": [short(norm) for norm in gradient_norms(model, probe)]}


def train_row(
    size: Size,
    wiring: str,
    depth: int,
    scale: float,
    warmup: int,
    runs: Sequence[tuple[int, float]],
) -> list[dict[str, Any]]:
    """Train one wiring with each pair of a seed and a rate; a record for each.

    "likeness" is the mean cosine between the last hidden states of all pairs of tokens, at the
    start and after every ``LOOK`` steps; "profiles" has an entry for each step of "steps".
    """
    batch = held_out(size, "validation")[0]
    probe = TokenBatch(*(part[:PROBED] for part in batch))
    kept = [step for step in KEPT if step < size.steps] + [size.steps]
    seen: dict[int, list[float]] = {}
    profiles: dict[int, list[dict[str, Any]]] = {}

    def at_start(model: TransformerLM) -> None:
        seen[id(model)] = [short(likeness(model, probe))]  # type: ignore[list-item]
        profiles[id(model)] = [look(model, probe)]

    def evaluate(model: nn.Module) -> dict[str, float]:
        found = seen[id(model)]
        step = min(LOOK * len(found), size.steps)
        found.append(short(likeness(model, probe)))  # type: ignore[arg-type]
        if step in kept:
            profiles[id(model)].append(look(model, probe))  # type: ignore[arg-type]
        return {}

    trained = train_models(
        dataclasses.replace(size, warmup=warmup),
        runs,
        adjust=at_start,
        training={"evaluate": evaluate, "evaluate_every": LOOK},
        depth=depth,
        norm="layer",
        wiring=wiring,
        tied=False,
        embedding_scale=scale,
    )
    records = []
    for (_, rate), (model, history) in zip(runs, trained, strict=True):
        looks = profiles[id(model)]
        starts = range(0, len(history.loss) - BLOCK + 1, BLOCK)
        records.append(
            {
                "wiring": wiring,
                "warmup": warmup,
                "scale": scale,
                "learning_rate": rate,
                **measured(size, model, history),
                "curve": [short(float(np.mean(history.loss[i : i + BLOCK]))) for i in starts],
                "likeness": seen[id(model)],
                "steps": [0, *kept][: len(looks)],
                "profiles": looks,
            }
        )
    return records
