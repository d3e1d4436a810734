"""What BatchNorm takes out of the gradient that passes through it: its mean, and its part along x̂.

A network on digits trains with BatchNorm. At a few moments we look at the gradients above and below
each of its three norms: at the share of the squared length that lies along the constant vector, and
at that along x̂, both averaged over the units.

Control: a share could be chance: a random direction in n dimensions has a share of 1/n in each of
the two.
"""

from itertools import islice

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from normtutor.data import image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import start
from normtutor_studies.experiments.descent import descend, he
from normtutor_studies.experiments.records import Config, Record, Saved

CHAPTER = "01_internal_covariate_shift"
SEEDS = tuple(range(6))
CONFIG = Config(widths=(64, 64, 64, 64, 10), batch_size=128, rate=0.3, looks=(0, 100, 300))
REDUCED = {"looks": (0, 2)}


def around_norms(model: MLP, images: Tensor, labels: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Input x, and the gradients below and above, of each norm of the model on one batch."""
    kept: list[tuple[Tensor, Tensor]] = []
    hooks = [
        norm.register_forward_hook(lambda _, inputs, output: kept.append((inputs[0], output)))
        for norm in model.norms
    ]
    loss = F.cross_entropy(model(images), labels)
    for hook in hooks:
        hook.remove()
    grads = torch.autograd.grad(loss, [tensor for pair in kept for tensor in pair])
    return [
        (x.detach(), below, above)
        for (x, _), below, above in zip(kept, grads[::2], grads[1::2], strict=True)
    ]


def parts(x: Tensor, below: Tensor, above: Tensor, eps: float) -> dict[str, float]:
    """Shares of the gradient along the mean and along x̂, and how much longer it is below.

    ``above`` is the gradient with respect to the norm's output.
    """
    centred = x - x.mean(dim=0)
    x_hat = centred * torch.rsqrt(centred.square().mean(dim=0) + eps)
    length = above.square().sum(dim=0)
    alive = length > 0  # no gradient reaches a unit that is dead
    along_mean = above.sum(dim=0) ** 2 / len(x) / length
    along_x = (above * x_hat).sum(dim=0) ** 2 / x_hat.square().sum(dim=0) / length
    return {
        "along_mean": along_mean[alive].mean().item(),
        "along_x": along_x[alive].mean().item(),
        "ratio": (below.square().sum(dim=0) / length)[alive].median().item(),
    }


def run(config: Config, seed: int) -> list[Record]:
    """Train the network; one record: at each look, for each norm from the bottom, the numbers."""
    order, train = start(seed), load_digits().train
    model = he(MLP(config.widths, norm="batch")).double()
    batches = image_batches(train._replace(images=train.images.double()), config.batch_size, order)
    stream = list(islice(batches, max(config.looks) + 1))
    found: Record = {"norm": "batch"}

    def watch(step: int) -> None:
        if step in config.looks:
            looks = around_norms(model, *stream[step])
            seen = [parts(*look, norm.eps) for look, norm in zip(looks, model.norms, strict=True)]  # type: ignore[arg-type]
            for key in seen[0]:
                found.setdefault(key, []).append([row[key] for row in seen])

    descend(model, stream, steps=len(stream), rate=config.rate, watch=watch)
    return [found]


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """Share of the gradient's squared length along the mean, last norm, last step."""
    return {"batch": saved.values("along_mean", norm="batch")[:, -1, -1]}
