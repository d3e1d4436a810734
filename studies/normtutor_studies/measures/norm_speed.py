"""How long LayerNorm and RMSNorm take: as formulas, compiled, and as torch's own functions.

Two things are timed: a norm's forward and backward pass, and a whole training step of a small model
around it. All contestants of a race take turns inside every round, in a new random order, so that a
machine that slows down for a while slows them all; a ratio is taken within a round. Times are CPU
times of one thread. No test depends on any of them.
"""

import shutil
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor import layers, norms
from normtutor.models import NormFactory, TransformerLM
from normtutor_studies.measures import gru_statistics
from normtutor_studies.store import Cell, Run, World

P = 1 / 16

Work = Callable[[], object]
Function = Callable[[Tensor, Tensor, Tensor], Tensor]  # of x, weight and bias

# RMSNorm has no β, so the bias is ignored.
FORMULAS: dict[str, Function] = {
    "layer": lambda x, weight, bias: norms.layer_norm(x, weight, bias)[0],
    "rms": lambda x, weight, bias: norms.rms_norm(x, weight)[0],
    "partial": lambda x, weight, bias: norms.partial_rms_norm(x, weight, p=P)[0],
}
MODEL_NORMS: dict[str, str | NormFactory] = {
    "no norm": "none",
    "formula layer": layers.LayerNorm,
    "formula rms": layers.RMSNorm,
    "formula partial": lambda features: layers.PartialRMSNorm(features, P),
    "torch layer": nn.LayerNorm,
    "torch rms": nn.RMSNorm,
}


def compiler_found() -> bool:
    """Say whether torch.compile has a C++ compiler to work with."""
    return any(shutil.which(name) for name in ("g++", "clang++", "c++", "cl"))


def contestants(*, compiled: bool) -> dict[str, Function]:
    """The functions by name; the name is "way norm"."""
    found: dict[str, Function] = {f"formula {norm}": f for norm, f in FORMULAS.items()}
    found["torch layer"] = lambda x, weight, bias: F.layer_norm(x, weight.shape, weight, bias)
    found["torch rms"] = lambda x, weight, bias: F.rms_norm(x, weight.shape, weight)
    if compiled and compiler_found():
        for norm, function in FORMULAS.items():
            found[f"compiled {norm}"] = torch.compile(function, dynamic=False)
    return found


def norm_work(function: Function, shape: tuple[int, int]) -> Work:
    """One call of a norm on random numbers, forward and backward."""
    generator = torch.Generator().manual_seed(0)
    x, grad_y = (torch.randn(shape, generator=generator) for _ in range(2))
    inputs = [t.requires_grad_() for t in (x, torch.ones(shape[1]), torch.zeros(shape[1]))]
    return lambda: torch.autograd.grad(function(*inputs), inputs, grad_y, allow_unused=True)


def model_work(cell: Cell, model: str, norm: str | NormFactory) -> Work:
    """One training step without the optimizer: forward, loss and backward."""
    torch.manual_seed(0)
    network: nn.Module
    if model == "transformer":
        network = TransformerLM(
            cell["characters"],
            width=cell["model_width"],
            depth=cell["model_depth"],
            max_length=cell["model_length"],
            norm=norm,
            wiring="pre",
            dropout=0.0,
        )
    else:
        shape = {**gru_statistics.WORLD.settings, "width": cell["model_width"]}
        network = gru_statistics.CharacterModel(cell["characters"], shape, norm)
    tokens = torch.randint(cell["characters"], (cell["model_batch"], cell["model_length"] + 1))

    def step() -> None:
        network.zero_grad()
        with layers.formulas():  # torch's own modules are not ours, and keep their kernels
            scores = network(tokens[:, :-1])
        F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten()).backward()

    return step


def race(
    work: dict[str, Work], *, rounds: int, slice_seconds: float, seed: int
) -> dict[str, np.ndarray]:
    """Seconds a call, one row a contestant and one entry a round; all take turns in each round."""
    repeats = {}
    for name, call in work.items():
        call()  # the first call compiles, allocates and fills caches
        call()
        started = time.process_time()
        call()
        once = max(time.process_time() - started, 1e-6)
        repeats[name] = max(1, round(slice_seconds / once))
    rng = np.random.default_rng(seed)
    times: dict[str, list[float]] = {name: [] for name in work}
    names = list(work)
    for _ in range(rounds):
        for index in rng.permutation(len(names)):
            name = names[index]
            started = time.process_time()
            for _ in range(repeats[name]):
                work[name]()
            times[name].append((time.process_time() - started) / repeats[name])
    return {name: np.array(seconds) for name, seconds in times.items()}


def summary(times: dict[str, np.ndarray]) -> Run:
    """Quartiles of each time, and of its ratio to LayerNorm of the same way and to torch's."""
    quartiles: Run = {}
    for name, seconds in times.items():
        way = name.partition(" ")[0]
        quartiles[f"microseconds, {name}"] = np.quantile(seconds * 1e6, [0.25, 0.5, 0.75]).tolist()
        for key, layer in (("to layer", f"{way} layer"), ("to torch layer", "torch layer")):
            if layer in times:
                ratio = seconds / times[layer]
                quartiles[f"{key}, {name}"] = np.quantile(ratio, [0.25, 0.5, 0.75]).tolist()
    return quartiles


def measure(cell: Cell, rate: None, seed: int) -> Run:
    """Run one race; the seed shuffles the order of the contestants."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        # Freeing a large block teaches glibc to keep freed memory. Before that, formulas with
        # many intermediate results spend most of their time on fresh pages, or not, by chance.
        torch.ones(cell["settling_numbers"])
        if cell["model"]:
            work = {n: model_work(cell, cell["model"], norm) for n, norm in MODEL_NORMS.items()}
        else:
            # Else a function compiled for many cases would look for its case at each call.
            torch.compiler.reset()
            shape = tuple(cell["shape"])
            work = {n: norm_work(f, shape) for n, f in contestants(compiled=True).items()}
        rounds, seconds = cell["rounds"], cell["slice_seconds"]
        return summary(race(work, rounds=rounds, slice_seconds=seconds, seed=seed))
    finally:
        torch.set_num_threads(threads)


WORLD = World(
    "norm_speed",
    measure,
    {
        "shape": None,  # (tokens, features) of a norm alone
        "model": "",  # "transformer" or "gru": a training step of it
        "rounds": 21,
        "slice_seconds": 0.004,  # each contestant runs at least this long in a round
        "settling_numbers": 7_500_000,
        "p": P,
        "model_width": 64,
        "model_depth": 3,
        "model_batch": 16,
        "model_length": 32,
        "characters": 100,
    },
    title="Speed",
    small={"rounds": 2, "slice_seconds": 1e-4},
)
