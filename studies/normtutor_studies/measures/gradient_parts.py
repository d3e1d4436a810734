"""What BatchNorm takes out of the gradient that passes through it: its mean, and its part along x̂.

A network on digits trains with BatchNorm. At a few moments we look at the gradients above and below
each of its three norms: at the share of the squared length that lies along the constant vector, and
at that along x̂, both averaged over the units.
"""

from itertools import islice

import torch
from torch import Tensor
from torch.nn import functional as F

from normtutor.data import image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import start
from normtutor_studies.measures.descent import descend, he
from normtutor_studies.store import Cell, Run, World


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


def measure(cell: Cell, rate: float, seed: int) -> Run:
    """Train the network: at each look, for each norm from the bottom, the numbers."""
    order, train = start(seed), load_digits().train
    model = he(MLP(cell["widths"], norm=cell["norm"])).double()
    double = train._replace(images=train.images.double())
    batches = image_batches(double, cell["batch_size"], order)
    stream = list(islice(batches, max(cell["looks"]) + 1))
    seen: Run = {}

    def watch(step: int) -> None:
        if step in cell["looks"]:
            looks = around_norms(model, *stream[step])
            rows = [parts(*look, norm.eps) for look, norm in zip(looks, model.norms, strict=True)]  # type: ignore[arg-type]
            for key in rows[0]:
                seen.setdefault(key, []).append([row[key] for row in rows])

    descend(model, stream, steps=len(stream), rate=rate, watch=watch)
    return seen


WORLD = World(
    "gradient_parts",
    measure,
    {
        "norm": "batch",
        "widths": [64, 64, 64, 64, 10],
        "batch_size": 128,
        "looks": [0, 100, 300],
    },
    title="Digits",
    small={"looks": [0, 2]},
)
