"""Signal and gradient through depth, before training and after it, in models that learn to sort."""

import numpy as np
import torch

from normtutor.data import TokenBatch
from normtutor.models import TransformerLM
from normtutor.wiring import apply_norm
from normtutor_studies.measures.sorting import SETTINGS, SMALL, fit, model_of, test_batch
from normtutor_studies.store import Cell, Run, World


def profile(model: TransformerLM, batch: TokenBatch) -> dict[str, list[float]]:
    """Root mean square of the stream, and the norm of the loss's gradient with respect to it.

    One entry for the embedding and one for each layer.
    """
    stream = [model.embed(batch.inputs).detach().requires_grad_()]
    for layer in model.layers:
        stream.append(layer(stream[-1]))
    hidden = apply_norm(model.final_norm, stream[-1], None)
    scores = model.scores(hidden)[batch.mask]
    loss = torch.nn.functional.cross_entropy(scores, batch.targets[batch.mask])
    gradients = torch.autograd.grad(loss, stream)
    return {
        "signal": [x.square().mean().sqrt().item() for x in stream],
        "gradient": [gradient.norm().item() for gradient in gradients],
    }


def measure(cell: Cell, rate: float, seed: int) -> Run:
    """Measure a wiring before and after training."""
    model, test = model_of(cell, seed), test_batch(cell, seed)
    untrained = profile(model, test)
    fit(model, cell, rate, np.random.default_rng(seed))
    both = {"untrained": untrained, "trained": profile(model, test)}
    return {f"{when} {key}": of[key] for when, of in both.items() for key in of}


WORLD = World("depth_profiles", measure, SETTINGS | {"warmup": 60}, title="Sorting", small=SMALL)
