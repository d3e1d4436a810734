"""How the length of weights in front of a norm sets their learning rate, on digits.

A small network in NumPy, trained with the package's own backward passes: linear maps without a
bias, each followed by a norm without an affine map at ε = 0 and by ReLU, and a linear output. The
optimizers are torch's. The output layer, which no norm follows, is trained by plain SGD at a rate
of its own in every condition, so that nothing but the normalized layers differs.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from normtutor import norms
from normtutor.data import load_digits
from normtutor_studies.engine import Study
from normtutor_studies.store import Cell, Run, World

BLOCK = 10  # steps averaged into one point of a curve

Array = np.ndarray
Forward = Callable[[Array], tuple[Array, Any]]
TINY = float(np.finfo(np.float64).tiny)  # BatchNorm refuses an ε of exactly 0

# Each norm at ε = 0: its forward pass on tokens in rows, features last, and its backward pass.
EXACT: dict[str, tuple[Forward, Callable[..., Any]]] = {
    "BatchNorm": (
        lambda z: norms.batch_norm(z, eps=TINY, feature_axis=-1)[:2],
        norms.batch_norm_backward,
    ),
    "LayerNorm": (lambda z: norms.layer_norm(z, eps=0.0), norms.layer_norm_backward),
    "RMSNorm": (lambda z: norms.rms_norm(z, eps=0.0), norms.rms_norm_backward),
    "pRMSNorm": (
        lambda z: norms.partial_rms_norm(z, p=0.5, eps=0.0),
        norms.partial_rms_norm_backward,
    ),
    "InstanceNorm": (
        lambda z: norms.instance_norm(z, eps=0.0, feature_axis=-1)[:2],
        norms.instance_norm_backward,
    ),
    "GroupNorm": (
        lambda z: norms.group_norm(z, num_groups=2, eps=0.0, feature_axis=-1),
        norms.group_norm_backward,
    ),
    "PowerNorm-V": (lambda z: norms.power_norm_v(z, eps=0.0), norms.power_norm_v_backward),
}


MOMENTUM = 0.9
BETAS = (0.9, 0.999)


def batches(
    generator: np.random.Generator, batch: int, noise: float
) -> Iterator[tuple[Array, Array]]:
    """Images (batch, 64) and labels (batch,), a share ``noise`` of which is drawn at random."""
    digits = load_digits()
    images = digits.train.images.numpy().reshape(-1, 64).astype(np.float64)
    targets = digits.train.labels.numpy()
    while True:
        chosen = generator.integers(len(images), size=batch)
        random_labels = generator.integers(10, size=batch)
        yield (
            images[chosen],
            np.where(generator.random(batch) < noise, random_labels, targets[chosen]),
        )


def gradients(
    norm: tuple[Forward, Callable[..., Any]] | None,
    weights: list[Array],
    output: Array,
    images: Array,
    labels: Array,
) -> tuple[float, list[Array], Array]:
    """Loss, gradients of the normalized layers' weights, and gradient of the output layer's."""
    h, caches = images, []
    for w in weights:
        y, cache = norm[0](h @ w.T) if norm else (h @ w.T, None)
        caches.append((h, y, cache))
        h = np.maximum(y, 0)
    scores = h @ output.T
    probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    loss = -np.log(probabilities[np.arange(len(labels)), labels]).mean()
    grad = (probabilities - np.eye(10)[labels]) / len(labels)
    grad_output, grad = grad.T @ h, grad @ output
    gradients_of: list[Array] = []
    for w, (inputs, y, cache) in zip(weights[::-1], caches[::-1], strict=True):
        grad = grad * (y > 0)
        grad = norm[1](grad, cache).x if norm else grad
        gradients_of.insert(0, grad.T @ inputs)
        grad = grad @ w
    return float(loss), gradients_of, grad_output


def optimizer_of(
    name: str, weights: list[torch.Tensor], rate: float, decay: float
) -> torch.optim.Optimizer:
    """torch's own: SGD, SGD with momentum, or AdamW."""
    if name == "adamw":
        return torch.optim.AdamW(weights, lr=rate, weight_decay=decay, betas=BETAS)
    momentum = MOMENTUM if name == "momentum" else 0.0
    return torch.optim.SGD(weights, lr=rate, weight_decay=decay, momentum=momentum)


def _length_squared(arrays: list[Array]) -> list[float]:
    return [float((a * a).sum()) for a in arrays]


def _angle(before: Array, after: Array) -> float:
    cosine = (before * after).sum() / np.sqrt((before**2).sum() * (after**2).sum())
    return float(np.arccos(np.clip(cosine, -1.0, 1.0)))


def train(
    norm: str,
    seed: int,
    *,
    steps: int,
    rate: float,
    times: float = 1.0,
    decay: float = 0.0,
    noise: float = 0.0,
    optimizer: str = "sgd",
    direction: Callable[[Array], Array] = lambda g: g,
    eps: float | None = None,
    batch: int = 32,
    width: int = 32,
    hidden: int = 2,
    output_rate: float = 0.1,
) -> dict[str, Array]:
    """Train the network on digits and watch the weights in front of its norms.

    Parameters
    ----------
    norm : str
        A key of :data:`EXACT`, or "none".
    times : float
        Factor on the initial weights of the normalized layers.
    decay : float
        Weight decay λ of the normalized layers; the output layer has none.
    noise : float
        Share of the labels that is drawn at random, anew at every step.
    optimizer : str
        "sgd", "momentum" or "adamw", for the normalized layers.
    direction : function
        Applied to each gradient before the optimizer sees it.
    eps : float, optional
        LayerNorm with this ε in place of ``norm``.

    Returns
    -------
    dict
        "loss" of shape (steps,); and with one column for each normalized layer "w2" and "g2", the
        squared lengths of weights (one row more, for the end) and gradients, and "angle", by which
        the weights turned at each step.
    """
    pair = EXACT[norm] if norm != "none" else None
    if eps is not None:
        pair = (lambda z: norms.layer_norm(z, eps=eps)), norms.layer_norm_backward
    generator = np.random.default_rng(seed)
    sizes = [64] + [width] * hidden
    shapes = zip(sizes[1:], sizes[:-1], strict=True)
    weights = [times * generator.normal(size=s) * np.sqrt(2 / s[1]) for s in shapes]
    output = generator.normal(size=(10, width)) / np.sqrt(width)
    # The tensors share the arrays' memory: a step of the optimizer changes both.
    tensors = [torch.from_numpy(w).requires_grad_() for w in weights]
    step = optimizer_of(optimizer, tensors, rate, decay)
    record: dict[str, list[Any]] = {"loss": [], "w2": [], "g2": [], "angle": []}
    for _, (images, labels) in zip(range(steps), batches(generator, batch, noise), strict=False):
        with np.errstate(all="ignore"):  # without a norm a run may diverge
            loss, by_layer, grad_output = gradients(pair, weights, output, images, labels)
            before = [w.copy() for w in weights]
            for tensor, g in zip(tensors, by_layer, strict=True):
                tensor.grad = torch.from_numpy(direction(g))
            step.step()
            output = output - output_rate * grad_output
            record["loss"].append(loss)
            record["w2"].append(_length_squared(before))
            record["g2"].append(_length_squared(by_layer))
            record["angle"].append([_angle(a, b) for a, b in zip(before, weights, strict=True)])
    record["w2"].append(_length_squared(weights))
    return {name: np.array(values) for name, values in record.items()}


def predicted_angle(optimizer: str, rate: float, decay: float) -> float:
    r"""Angle per step at equilibrium: :math:`\sqrt{2\eta\lambda}` times what the optimizer does.

    Exact for SGD, as :math:`\arccos(1 - \eta\lambda)`; for the others it takes successive gradients
    for independent.
    """
    if optimizer == "sgd":
        return float(np.arccos(1 - rate * decay))
    memory = MOMENTUM if optimizer == "momentum" else BETAS[0]
    factor = 1 / (1 + memory) if optimizer == "momentum" else (1 - memory) / (1 + memory)
    return float(np.sqrt(2 * rate * decay * factor))


def measure(cell: Cell, rate: float, seed: int) -> Run:
    """One run: curves of its first layer in blocks of steps, and the second half in numbers."""
    settings = {key: value for key, value in cell.items() if key != "name"}
    history = train(seed=seed, rate=rate, **settings)
    w2, g2, angle = history["w2"][:-1, 0], history["g2"][:, 0], history["angle"][:, 0]
    on_sphere = w2 * g2  # |∇f(u)|², the gradient at the direction
    late = slice(cell["steps"] // 2, cell["steps"])

    def blocks(values: Array, of: Callable[[Array], Array] = np.asarray) -> list[float]:
        return of(values.reshape(-1, BLOCK).mean(axis=1)).tolist()

    with np.errstate(all="ignore"):  # a dead network has no gradient
        return {
            "loss": blocks(history["loss"]),
            "length": blocks(w2, np.sqrt),
            "gradient": blocks(on_sphere, np.sqrt),
            "late_length": float(np.mean(w2[late] ** 2) ** 0.25),
            "late_gradient": float(np.sqrt(on_sphere[late].mean())),
            "late_angle": float(np.sqrt(np.mean(angle[late] ** 2))),
            "late_peak": float(on_sphere[late].max() / np.median(on_sphere[late])),
        }


def predicted_length(study: Study, label: str) -> Array:
    r"""Length at equilibrium of an arm by seed, for independent gradients.

    Under SGD and momentum it needs the gradients of the second half of the run. Under AdamW, whose
    steps do not depend on the size of the gradients, the number of weights takes their place.
    """
    cell = study.arms_with()[label]
    rate, decay, optimizer = cell["rate"], cell["decay"], cell["optimizer"]
    gradient = study.values(WORLD.name, label, "late_gradient")
    if optimizer == "adamw":
        weights = cell["width"] * 64
        return np.full(len(gradient), (rate * weights / (2 * decay)) ** 0.5)
    memory = MOMENTUM if optimizer == "momentum" else 0.0
    return (rate * gradient**2 / (decay * (2 - rate * decay) * (1 - memory))) ** 0.25


def over_predicted_angle(study: Study, label: str) -> Array:
    """The angle per step of an arm over the predicted one, by seed."""
    cell = study.arms_with()[label]
    rule = predicted_angle(cell["optimizer"], cell["rate"], cell["decay"])
    return study.values(WORLD.name, label, "late_angle") / rule


WORLD = World(
    "effective_rate",
    measure,
    {
        "norm": "LayerNorm",
        "times": 1.0,  # a factor on the initial weights
        "decay": 0.0,
        "noise": 0.5,  # share of the labels that are drawn at random
        "hidden": 1,
        "optimizer": "sgd",
        "steps": 2000,
        "batch": 32,
        "width": 32,
        "output_rate": 0.1,
    },
    title="Digits",
    small={"steps": 20},
)
