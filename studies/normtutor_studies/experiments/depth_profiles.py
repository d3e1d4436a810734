"""Signal and gradient through depth in four wirings, before training and after it.

Models of twelve layers learn to sort. After each layer two sizes are recorded on new sequences: the
root mean square of the residual stream, and the norm of the loss's gradient with respect to it.

Control: a profile could come from the initial weights, so it is also measured before training. And
a gradient with respect to a larger stream is smaller for that reason alone, so the size of the
stream is recorded beside it. The four wirings share the rate, the warm-up and the sequences. Not
checked: a rate tuned for each wiring, and other tasks than sorting.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from normtutor.data import TokenBatch
from normtutor.models import TransformerLM
from normtutor.training import language_model_loss, train
from normtutor.wiring import normalize
from normtutor_studies.experiments.records import Saved
from normtutor_studies.experiments.wired_sorting import (
    Task,
    model_of,
    score,
    short,
    stream_of,
    test_batch,
)

CHAPTER = "07_pre_ln_and_post_ln"
FIGURE = "fig-wiring-profiles"
FINDING = "after training the gradient falls towards the top in all four wirings"
XLABEL = "stream's size after the last layer over that after the first, after training"
REFERENCE = 1.0  # a stream that keeps its size
SEEDS = tuple(range(10, 15))


@dataclass(frozen=True)
class Config:
    """All settings of this experiment."""

    wirings: tuple[str, ...] = ("post", "pre", "peri", "deepnorm")
    depth: int = 12
    steps: int = 200
    warmup: int = 60
    learning_rate: float = 2e-3
    task: Task = field(default_factory=Task)


CONFIG = Config()
REDUCED = {"steps": 5, "warmup": 2, "depth": 3}


def profile(model: TransformerLM, batch: TokenBatch) -> dict[str, list[float | None]]:
    """Root mean square of the stream, and the norm of the loss's gradient with respect to it.

    One entry for the embedding and one for each layer.
    """
    stream = [model.embed(batch.inputs).detach().requires_grad_()]
    for layer in model.layers:
        stream.append(layer(stream[-1]))
    hidden = normalize(model.final_norm, stream[-1], None)
    scores = model.scores(hidden)[batch.mask]
    loss = torch.nn.functional.cross_entropy(scores, batch.targets[batch.mask])
    gradients = torch.autograd.grad(loss, stream)
    return {
        "signal": [short(x.square().mean().sqrt().item()) for x in stream],
        "gradient": [short(gradient.norm().item()) for gradient in gradients],
    }


def run_wiring(config: Config, wiring: str, seed: int) -> list[dict[str, Any]]:
    """Measure one model before and after training."""
    model = model_of(config.task, wiring, config.depth, seed)
    test = test_batch(config.task, seed)
    untrained = {"loss": short(score(model, test)["loss"]), **profile(model, test)}
    train(
        model,
        stream_of(config.task, np.random.default_rng(seed)),
        language_model_loss,
        steps=config.steps,
        learning_rate=config.learning_rate,
        warmup=config.warmup,
    )
    trained = {"loss": short(score(model, test)["loss"]), **profile(model, test)}
    return [
        {"wiring": wiring, "when": "untrained", **untrained},
        {"wiring": wiring, "when": "trained", **trained},
    ]


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Measure every wiring with this seed."""
    return [record for wiring in config.wirings for record in run_wiring(config, wiring, seed)]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """How much larger the trained stream is after the last layer than after the first."""
    signals = {
        wiring: saved.values("signal", wiring=wiring, when="trained")
        for wiring in saved.config["wirings"]
    }
    return {wiring: signal[:, -1] / signal[:, 1] for wiring, signal in signals.items()}
