"""Signal and gradient through depth in four wirings, before training and after it.

Models of twelve layers learn to sort. After each layer two sizes are recorded on new sequences: the
root mean square of the residual stream, and the norm of the loss's gradient with respect to it.

Control: a profile could come from the initial weights, so it is also measured before training. And
a gradient with respect to a larger stream is smaller for that reason alone, so the size of the
stream is recorded beside it. The four wirings share the rate, the warm-up and the sequences. Not
checked: a rate tuned for each wiring, and other tasks than sorting.
"""

import numpy as np
import torch

from normtutor.data import TokenBatch
from normtutor.models import TransformerLM
from normtutor.training import language_model_loss, train
from normtutor.wiring import normalize
from normtutor_studies.experiments.records import Config, Record, Saved, schedule, short
from normtutor_studies.experiments.wired_sorting import Task, model_of, stream_of, test_batch

CHAPTER = "07_pre_ln_and_post_ln"
SEEDS = tuple(range(10, 15))
CONFIG = Config(
    wirings=("post", "pre", "peri", "deepnorm"),
    depth=12,
    steps=200,
    warmup=60,
    learning_rate=2e-3,
    task=Task(),
)
REDUCED = {"steps": 5, "warmup": 2, "depth": 3}


def profile(model: TransformerLM, batch: TokenBatch) -> Record:
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
        "signal": [short(x.square().mean().sqrt().item(), 5) for x in stream],
        "gradient": [short(gradient.norm().item(), 5) for gradient in gradients],
    }


def run(config: Config, seed: int) -> list[Record]:
    """Measure every wiring before and after training."""
    records = []
    for wiring in config.wirings:
        model = model_of(config.task, wiring, config.depth, seed)
        test, order = test_batch(config.task, seed), np.random.default_rng(seed)
        records.append({"wiring": wiring, "when": "untrained", **profile(model, test)})
        train(model, stream_of(config.task, order), language_model_loss, **schedule(config))
        records.append({"wiring": wiring, "when": "trained", **profile(model, test)})
    return records


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """The trained stream's size after the last layer over that after the first."""
    signals = {w: saved.values("signal", wiring=w, when="trained") for w in saved.config["wirings"]}
    return {wiring: signal[:, -1] / signal[:, 1] for wiring, signal in signals.items()}
