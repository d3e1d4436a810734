"""The formulas as rows of one table, so that each test runs over all of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from array_api_compat import array_namespace
from torch.nn import functional as F

from normtutor import norms

B, L, H = SHAPE = (3, 5, 6)
EPS = 0.01
RAMP = np.linspace(0.5, 3.0, H)  # running statistics that differ by feature
MASK = np.arange(L) < np.asarray([5, 3, 2])[:, None]


@dataclass(frozen=True)
class Case:
    """A formula on x of shape (B, L, H) with the features last.

    ``parameters`` are the shapes of the arrays that have a gradient, beside x. ``expected`` is the
    same in torch's functions: None for PowerNorm in training, whose gradient is approximate.
    A number of x reaches the outputs of its own token, of its example, or of the batch.
    """

    formula: str
    parameters: dict[str, tuple[int, ...]]
    expected: Callable[..., torch.Tensor] | None
    options: dict[str, Any] = field(default_factory=dict)
    running: dict[str, np.ndarray] = field(default_factory=dict)
    reaches: str = "token"
    note: str = ""

    def __str__(self) -> str:
        return f"{self.formula}-{self.note}".rstrip("-")

    @property
    def takes_mask(self) -> bool:
        return self.formula in ("batch_norm", "instance_norm", "group_norm", "power_norm_v") or (
            self.takes_nu
        )

    @property
    def takes_nu(self) -> bool:
        return self.formula in ("power_norm", "power_norm_authors_code")

    def forward(self, x, *parameters, **more):
        """Return y, the cache, and the running statistics where there are some."""
        xp = array_namespace(x)
        running = {n: xp.asarray(value, dtype=x.dtype) for n, value in self.running.items()}
        named = dict(zip(self.parameters, parameters, strict=False))
        return getattr(norms, self.formula)(x, **{**running, **self.options, **named, **more})

    def backward(self, grad_y, cache):
        """Return the gradients; where ν follows them, without it."""
        backward = getattr(norms, f"{self.formula}_backward")
        if not self.takes_nu:
            return backward(grad_y, cache)
        return backward(grad_y, cache, array_namespace(grad_y).asarray(RAMP, dtype=grad_y.dtype))[0]


def affine(x_hat, weight, bias):
    y = x_hat if weight is None else weight * x_hat
    return y if bias is None else y + bias


def batch_norm(x, weight, bias, *running):
    running = running or (None, None)
    training = running[0] is None
    return F.batch_norm(x.mT, *running, weight, bias, training, eps=EPS).mT


def rms_norm(x, weight, bias=None):
    return affine(F.rms_norm(x, (H,), weight, eps=EPS), None, bias)


def quadratic(x, weight, bias):
    return affine(x / (x.square().mean((0, 1)) + EPS).sqrt(), weight, bias)


def quadratic_average(x, weight, bias):
    return affine(x / (torch.asarray(RAMP) + EPS).sqrt(), weight, bias)


def quadratic_average_of_scaled_tokens(x, weight, bias):
    groups = x.unflatten(-1, (2, 3))
    scaled = groups / (groups.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return quadratic_average(scaled.flatten(-2), weight, bias)


def partial_rms_norm(x, weight, bias):
    return affine(x / (x[..., :3].square().mean(-1, keepdim=True).sqrt() + EPS), weight, bias)


AFFINE = {"weight": (H,), "bias": (H,)}
MODULATION = {"scale": (B, H), "shift": (B, H)}
OPTIONS = {"eps": EPS}
LAST = OPTIONS | {"feature_axis": -1}
EVALUATION = OPTIONS | {"training": False}
RUNNING = {"running_mean": RAMP - 1, "running_var": RAMP}
SQUARE = {"running_mean_square": RAMP}
AVERAGES = tuple(torch.asarray(value) for value in RUNNING.values())

CASES = [
    Case("layer_norm", AFFINE, lambda x, w, b: F.layer_norm(x, (H,), w, b, EPS), OPTIONS),
    Case("rms_norm", AFFINE, rms_norm, OPTIONS),
    Case("partial_rms_norm", AFFINE, partial_rms_norm, OPTIONS | {"p": 0.6}),
    Case("batch_norm", AFFINE, batch_norm, LAST, RUNNING, "batch"),
    Case(
        "batch_norm",
        AFFINE,
        lambda *arrays: batch_norm(*arrays, *AVERAGES),
        LAST | EVALUATION,
        RUNNING,
        note="evaluation",
    ),
    Case(
        "group_norm",
        AFFINE,
        lambda x, w, b: F.group_norm(x.mT, 2, w, b, EPS).mT,
        LAST | {"num_groups": 2},
        reaches="example",
    ),
    Case(
        "instance_norm",
        AFFINE,
        lambda x, w, b: F.instance_norm(x.mT, None, None, w, b, eps=EPS).mT,
        LAST,
        RUNNING,
        "example",
    ),
    Case(
        "instance_norm",
        AFFINE,
        lambda *arrays: batch_norm(*arrays, *AVERAGES),
        LAST | EVALUATION,
        RUNNING,
        note="evaluation",
    ),
    Case("power_norm_v", AFFINE, quadratic, OPTIONS, reaches="batch"),
    Case("power_norm", AFFINE, None, OPTIONS, SQUARE, "batch"),
    Case(
        "power_norm",
        AFFINE,
        quadratic,
        OPTIONS | {"step": 1, "warmup_steps": 1},
        SQUARE,
        "batch",
        note="warm-up",
    ),
    Case("power_norm", AFFINE, quadratic_average, EVALUATION, SQUARE, note="evaluation"),
    Case("power_norm_authors_code", AFFINE, None, OPTIONS | {"groups": 2}, SQUARE, "batch"),
    Case(
        "power_norm_authors_code",
        AFFINE,
        quadratic_average_of_scaled_tokens,
        EVALUATION | {"groups": 2},
        SQUARE,
        note="evaluation",
    ),
]
# Beside x they take other arrays than γ and β.
OTHERS = [
    Case(
        "rms_norm",
        {"weight": (H,)},
        lambda x, w: rms_norm(x, None if w is None else 1 + w),
        OPTIONS | {"add_unit_offset": True, "cast_before_weight": True},
        note="of Llama and Gemma",
    ),
    Case(
        "scale_norm",
        {"g": (1,)},
        lambda x, g: g * x / (x.square().sum(-1, keepdim=True) + EPS).sqrt(),
        OPTIONS,
    ),
    Case(
        "dynamic_tanh",
        {"alpha": (1,), **AFFINE},
        lambda x, a, w, b: affine(torch.tanh(a * x), w, b),
    ),
    Case(
        "weight_norm",
        {"g": (B, 1, 1)},
        lambda v, g: torch._weight_norm(v, g, 0),
        reaches="example",
    ),
    Case("film", MODULATION, lambda x, s, t: x * (1 + s[:, None]) + t[:, None]),
    Case(
        "adaptive_layer_norm",
        MODULATION,
        lambda x, s, t: F.layer_norm(x, (H,), eps=EPS) * (1 + s[:, None]) + t[:, None],
        OPTIONS,
    ),
]
EVERY = CASES + OTHERS
MASKED = [case for case in CASES if case.takes_mask]


def draw(case: Case, seed: int = 0) -> tuple[np.ndarray, ...]:
    """x, the parameters and an upstream gradient for ``case``, in float64."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal(SHAPE) * 2 + 0.7
    parameters = [generator.standard_normal(shape) for shape in case.parameters.values()]
    return x, *parameters, generator.standard_normal(SHAPE)
