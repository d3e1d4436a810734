"""Time of LayerNorm and RMSNorm on a GPU: as formulas, compiled, and as torch's fused kernels.

Run it with ``python -m normtutor.gpu_speed``, on a machine with an NVIDIA GPU; elsewhere it says
so and ends. Nothing in the book rests on it: the book's figures on speed are of a processor
(:mod:`normtutor.experiments.norm_speed`), whose norms and contestants these are.

Timed are the forward pass and forward with backward, for shapes of 8,192 tokens and more. A GPU
works while Python goes on, so each time is taken between two synchronizations, over many calls in a
row. The contestants take turns in random order in every round; what is printed is the median over
the rounds, and RMSNorm's time over LayerNorm's within a round. A small tensor measures how fast
kernels start, a large one how fast memory is; the table gives the share of a plain copy's speed.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from normtutor.experiments.norm_speed import contestants
from normtutor.training import on_device

SHAPES = ((8192, 256), (8192, 1024), (16384, 4096))
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse ``arguments``, measure and print; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m normtutor.gpu_speed",
        description="Time of the norms on a GPU: formulas, compiled, fused.",
    )
    parser.add_argument("--device", default="cuda", help="cuda or cuda:N (default: cuda)")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--calls", type=int, default=50, help="calls in a row (default: 50)")
    chosen = parser.parse_args(arguments)
    try:
        with on_device(chosen.device):
            if torch.get_default_device().type != "cuda":
                raise ValueError(
                    "this measures a GPU; for a processor: python -m normtutor.benchmark"
                )
            print(f"{torch.cuda.get_device_name(chosen.device)}, torch {torch.__version__}")
            for dtype in DTYPES:
                for shape in SHAPES:
                    found = measure(shape, dtype, rounds=chosen.rounds, calls=chosen.calls)
                    print("\n" + "\n".join(table(shape, dtype, found)))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def works(shape: tuple[int, int], dtype: str, *, compiled: bool) -> dict[str, Callable[[], Any]]:
    """Name -> one call: each norm forward and as a step, and a copy of the tensor beside them.

    The name is "way norm, pass". Everything lies on torch's default device.
    """
    torch.manual_seed(0)
    x, grad_y = (torch.randn(shape, dtype=DTYPES[dtype]) for _ in range(2))
    weight, bias = (f(shape[1], dtype=DTYPES[dtype]) for f in (torch.ones, torch.zeros))
    inputs = [t.clone().requires_grad_() for t in (x, weight, bias)]
    found: dict[str, Callable[[], Any]] = {"copy": x.clone}
    for name, function in contestants(compiled=compiled).items():
        if name.split()[1] not in ("layer", "rms"):
            continue

        def forward(function: Callable[..., Tensor] = function) -> Tensor:
            with torch.no_grad():
                return function(x, weight, bias)

        def step(function: Callable[..., Tensor] = function) -> Any:
            return torch.autograd.grad(function(*inputs), inputs, grad_y, allow_unused=True)

        found[f"{name}, forward"] = forward
        found[f"{name}, step"] = step
    return found


def wait() -> None:
    """Let the device finish what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def measure(
    shape: tuple[int, int], dtype: str, *, rounds: int, calls: int, compiled: bool = True
) -> dict[str, list[float]]:
    """Name of each work -> seconds a call, one entry a round."""
    todo = works(shape, dtype, compiled=compiled)
    for work in todo.values():  # compiles, and fills the caches
        for _ in range(3):
            work()
    found: dict[str, list[float]] = {name: [] for name in todo}
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        for name in rng.permutation(list(todo)):
            wait()
            started = time.perf_counter()
            for _ in range(calls):
                todo[name]()
            wait()
            found[name].append((time.perf_counter() - started) / calls)
    return found


def table(shape: tuple[int, int], dtype: str, found: dict[str, list[float]]) -> list[str]:
    """The lines to print: microseconds, and RMSNorm's time over LayerNorm's."""
    copy = statistics.median(found["copy"])
    lines = [
        f"{shape[0]} tokens of {shape[1]} features, {dtype}; a copy takes {1e6 * copy:.1f} µs",
        f"{'':16}{'LayerNorm µs':>14}{'RMSNorm µs':>12}{'RMS / LN':>10}{'copy / LN':>11}",
    ]
    for way in dict.fromkeys(name.split()[0] for name in found if name != "copy"):
        for part in ("forward", "step"):
            layer, rms = (found[f"{way} {norm}, {part}"] for norm in ("layer", "rms"))
            ratio = statistics.median(r / n for r, n in zip(rms, layer, strict=True))
            n, r = statistics.median(layer), statistics.median(rms)
            lines.append(
                f"{way + ', ' + part:20}{1e6 * n:>10.1f}{1e6 * r:>12.1f}{ratio:>10.2f}"
                f"{copy / n:>11.2f}"
            )
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
