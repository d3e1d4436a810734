"""How long LayerNorm and RMSNorm take: as formulas, compiled, and as torch's own functions.

Three things are timed: the norm's forward pass, its forward and backward pass, and a whole training
step of a small model around it. All contestants of a comparison take turns inside every round, in a
new random order, so that a machine that slows down for a while slows them all; a ratio is taken
within a round. Times are CPU times of one thread. No test depends on any of them.

Control: a ratio could come from the machine, so the contestants take turns in random order and
ratios are taken within a round; or from the implementation, so formulas are compared with formulas,
compiled code with compiled code, and torch's own functions with each other. Not checked: a GPU,
several threads, or reduced precision, any of which may change the order.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor import layers, norms
from normtutor.models import NormFactory, TransformerLM
from normtutor_studies.experiments.gru_statistics import CharacterModel
from normtutor_studies.experiments.gru_statistics import Config as GRUConfig
from normtutor_studies.experiments.records import Saved

CHAPTER = "05_rms_norm"
FIGURE = "fig-speed"
FINDING = (
    "on a CPU RMSNorm saves time as an eager formula, less compiled, and loses against a fused "
    "kernel"
)
XLABEL = "RMSNorm's time divided by LayerNorm's"
REFERENCE = 1.0  # equally fast
SEEDS = (0, 1, 2)
ALONE = True  # it measures time: its seeds run one after the other

Work = Callable[[], Any]


@dataclass(frozen=True)
class Config:
    """All settings of this experiment. A shape is (tokens, features)."""

    shapes: tuple[tuple[int, int], ...] = ((64, 64), (512, 512), (4096, 768))
    rounds: int = 21
    slice_seconds: float = 0.004  # each contestant runs at least this long in a round
    settling_numbers: int = 7_500_000
    p: float = 1 / 16
    model_width: int = 64
    model_depth: int = 3
    model_batch: int = 16
    model_length: int = 32
    characters: int = 100


CONFIG = Config()


# --- what is timed --------------------------------------------------------------------------------


def formula_layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """LayerNorm as the package has it."""
    return norms.layer_norm(x, weight, bias)[0]


def formula_rms(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """RMSNorm as the package has it; it has no β, so ``bias`` is ignored."""
    return norms.rms_norm(x, weight)[0]


def formula_partial(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """pRMSNorm as the package has it, from a sixteenth of the entries."""
    return norms.partial_rms_norm(x, weight, p=CONFIG.p)[0]


def torch_layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """torch's LayerNorm."""
    return F.layer_norm(x, weight.shape, weight, bias)


def torch_rms(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """torch's RMSNorm."""
    return F.rms_norm(x, weight.shape, weight)


def compiler_found() -> bool:
    """Say whether torch.compile has a C++ compiler to work with."""
    return any(shutil.which(name) for name in ("g++", "clang++", "c++", "cl"))


def contestants(*, compiled: bool) -> dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]]:
    """Name -> function of x, weight and bias; the name is "way norm"."""
    formulas = {"layer": formula_layer, "rms": formula_rms, "partial": formula_partial}
    found: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
        **{f"formula {norm}": function for norm, function in formulas.items()},
        "torch layer": torch_layer,
        "torch rms": torch_rms,
    }
    if compiled and compiler_found():
        for norm, function in formulas.items():
            found[f"compiled {norm}"] = torch.compile(function, dynamic=False)
    return found


def norm_work(
    function: Callable[[Tensor, Tensor, Tensor], Tensor], shape: tuple[int, int], backward: bool
) -> Work:
    """One call of a norm on random numbers, with or without its backward pass."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator)
    weight, bias = torch.ones(shape[1]), torch.zeros(shape[1])
    if not backward:

        def forward() -> Tensor:
            with torch.no_grad():
                return function(x, weight, bias)

        return forward

    inputs = [t.requires_grad_() for t in (x, weight, bias)]
    grad_y = torch.randn(shape, generator=generator)

    def both() -> Any:
        y = function(*inputs)
        return torch.autograd.grad(y, inputs, grad_y, allow_unused=True)

    return both


def model_work(config: Config, model: str, norm: str | NormFactory) -> Work:
    """One training step without the optimizer: forward, loss and backward."""
    torch.manual_seed(0)
    network: nn.Module
    if model == "transformer":
        network = TransformerLM(
            config.characters,
            width=config.model_width,
            depth=config.model_depth,
            max_length=config.model_length,
            norm=norm,
            wiring="pre",
            dropout=0.0,
        )
    else:
        network = CharacterModel(config.characters, GRUConfig(width=config.model_width), norm)
    tokens = torch.randint(config.characters, (config.model_batch, config.model_length + 1))

    def step() -> None:
        network.zero_grad()
        scores = network(tokens[:, :-1])
        F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten()).backward()

    return step


def model_norms(config: Config) -> dict[str, str | NormFactory]:
    """Name -> norm for the whole models; the name is "way norm"."""
    return {
        "no norm": "none",
        "formula layer": layers.LayerNorm,
        "formula rms": layers.RMSNorm,
        "formula partial": lambda features: layers.PartialRMSNorm(features, config.p),
        "torch layer": nn.LayerNorm,
        "torch rms": nn.RMSNorm,
    }


# --- the clock ------------------------------------------------------------------------------------


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


def summary(times: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Median and quartiles of each contestant's time and of its ratio to LayerNorm and to torch."""
    records = []
    for name, seconds in times.items():
        way, _, norm = name.partition(" ")
        record: dict[str, Any] = {"way": way, "norm": norm}
        record["microseconds"] = [float(q) for q in np.quantile(seconds * 1e6, [0.25, 0.5, 0.75])]
        for key, other in (("to_layer", f"{way} layer"), ("to_torch_layer", "torch layer")):
            if other in times:
                ratio = seconds / times[other]
                record[key] = [float(q) for q in np.quantile(ratio, [0.25, 0.5, 0.75])]
        records.append(record)
    return records


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Run every race once; the seed shuffles the order of the contestants."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    records = []
    clock = {"rounds": config.rounds, "slice_seconds": config.slice_seconds, "seed": seed}
    try:
        # Freeing a large block teaches glibc to keep freed memory. Before that, formulas with
        # many intermediate results spend most of their time on fresh pages, or not, by chance.
        torch.ones(config.settling_numbers)
        for shape in config.shapes:
            for what in ("forward", "forward and backward"):
                # Else a function compiled for many cases would look for its case at each call.
                torch.compiler.reset()
                functions = contestants(compiled=True)
                work = {
                    name: norm_work(function, shape, backward=what != "forward")
                    for name, function in functions.items()
                }
                for record in summary(race(work, **clock)):  # type: ignore[arg-type]
                    records.append({"what": what, "shape": list(shape), **record})
        for model in ("transformer", "gru"):
            work = {
                name: model_work(config, model, norm) for name, norm in model_norms(config).items()
            }
            for record in summary(race(work, **clock)):  # type: ignore[arg-type]
                records.append({"what": f"{model} step", "shape": None, **record})
    finally:
        torch.set_num_threads(threads)
    return records


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """RMSNorm's time over LayerNorm's, forward and backward, each way and shape."""
    return {
        f"{way}, {shape[0]} x {shape[1]}": saved.values(
            "to_layer", what="forward and backward", shape=shape, way=way, norm="rms"
        )[:, 1]
        for way in ("formula", "compiled", "torch")
        for shape in saved.config["shapes"]
    }
