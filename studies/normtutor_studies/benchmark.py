"""Time and memory of the layers and formulas, side by side with torch.nn and with code by hand.

Run it with ``make bench`` or ``python -m normtutor_studies.benchmark``, with ``--device cuda`` on a
GPU. Nothing in the book rests on these numbers and no test checks them: they belong to the machine
and to the hour.

A row is a contest: *ours* against another way to compute the same, on the same input. *step* is
forward and backward, with gradients for the input and the parameters; *memory* the most bytes that
torch's allocator holds at once during a step, beyond what was there before it, in units of the
input; *call* a forward pass of one token without gradient. All take turns within every repeat, and
ratios are taken within a repeat: the median over repeats with the quartiles. Above 1 the other way
takes less. *aim* is what we want to stay below. On one thread, times are processor time of this
process; on more threads and on a GPU they are the clock's.
"""

import argparse
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from normtutor import layers, norms
from normtutor.swapping import swap_norms

# Two of sequences, and 16 images of 32 by 32 pixels with 64 features.
SHAPES = ((8, 512, 768), (32, 128, 256), (16, 64, 32, 32))

Work = Callable[[], Any]


class Contest(NamedTuple):
    """Two ways to compute the same, and the ratio of times that we aim at."""

    name: str
    against: str
    what: str
    ours: Work
    theirs: Work
    aim: float
    unit: int = 0  # bytes of the input, where the memory is compared


def ratio_of(numerators: list[float], denominators: list[float]) -> str:
    """Compare two lists of measurements, repeat by repeat: the median and the quartiles.

    >>> ratio_of([2.0, 4.0, 6.0, 8.0], [1.0, 1.0, 1.0, 1.0])
    '5.00 (3.50 to 6.50)'
    >>> ratio_of([3.0], [2.0])
    '1.50'
    """
    ratios = [a / b for a, b in zip(numerators, denominators, strict=True)]
    if len(ratios) == 1:
        return f"{ratios[0]:.2f}"
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


def peak_bytes(work: Work, device: torch.device | None = None) -> int:
    """Return the most bytes that torch's allocator holds at once while ``work`` runs.

    Counts what is allocated from the start of ``work`` on, its result included, from the
    allocator's own reports: on a processor those to the profiler.

    >>> x = torch.zeros(1000)
    >>> peak_bytes(lambda: x + x)
    4000
    """
    if device is not None and device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        kept = work()
        del kept
        return torch.cuda.max_memory_allocated(device) - before
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        kept = work()  # alive until the profiler has stopped
    del kept
    events: Any = profile.profiler.kineto_results.events()
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    held = peak = 0
    for _, change in sorted(changes, key=lambda moment: moment[0]):
        held += change
        peak = max(peak, held)
    return peak


def why_not_compiled() -> str | None:
    """Say why torch.compile does not work here, most often for want of a C++ compiler."""
    try:
        torch.compile(lambda x: x * 2 + 1)(torch.zeros(4))
    except Exception as error:  # whatever goes wrong in there, the eager numbers still stand
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return None


# --- what is compared -----------------------------------------------------------------------------


def training_step(
    call: Callable[..., Tensor], parameters: Iterable[Tensor], x: Tensor, grad_y: Tensor
) -> Work:
    """Forward and backward, with gradients for x and the parameters."""
    x = x.detach().clone().requires_grad_()
    leaves = [x, *parameters]

    def step() -> tuple[Tensor, ...]:
        y = call(x)
        return y, *torch.autograd.grad(y, leaves, grad_y)

    return step


def of_layers(shape: tuple[int, ...], dtype: torch.dtype, compiled: bool) -> Iterator[Contest]:
    """Each layer that torch.nn has too, in the layout that torch.nn asks for."""
    images = len(shape) == 4
    features, kind = shape[1 if images else -1], "2d" if images else "1d"
    first = shape if images else (shape[0], shape[2], shape[1])
    affine: Any = {"affine": True}
    instance_norm, batch_norm = getattr(nn, f"InstanceNorm{kind}"), getattr(nn, f"BatchNorm{kind}")
    contests: list[Any] = [
        ("BatchNorm", first, layers.BatchNorm(features), batch_norm(features)),
        (
            *("InstanceNorm", first),
            *(layers.InstanceNorm(features, **affine), instance_norm(features, **affine)),
        ),
        ("GroupNorm", first, layers.GroupNorm(8, features), nn.GroupNorm(8, features)),
    ]
    if not images:
        contests += [
            ("LayerNorm", shape, layers.LayerNorm(features), nn.LayerNorm(features)),
            ("RMSNorm", shape, layers.RMSNorm(features), nn.RMSNorm(features)),
        ]
    for name, full, *pair in contests:
        x, grad_y = (torch.randn(full, dtype=dtype) for _ in range(2))
        for how in ("eager", "compiled")[: 1 + compiled]:
            steps = []
            for layer in pair:
                call = layer.to(x.device, dtype)
                if how == "compiled":
                    call = torch.compile(layer, fullgraph=True, dynamic=False)
                steps.append(training_step(call, layer.parameters(), x, grad_y))
            aim = 1.1 if how == "eager" else 1.2
            ours, theirs = steps
            yield Contest(name, f"nn.{name}, {how}", "step", ours, theirs, aim, x.nbytes)


def rms_norm_in_torch(x: Tensor, weight: Tensor) -> Tensor:
    """The lines that one writes by hand."""
    square = x.square().mean(-1, keepdim=True)
    return weight * (x / torch.sqrt(square + 1e-6))


def layer_norm_in_torch(x: Tensor, weight: Tensor) -> Tensor:
    """The lines that one writes by hand."""
    c = x - x.mean(-1, keepdim=True)
    variance = (c**2).mean(-1, keepdim=True)
    return weight * (c / torch.sqrt(variance + 1e-5))


def layer_norm_in_numpy(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The lines that one writes by hand."""
    c = x - x.mean(-1, keepdims=True)
    variance = (c**2).mean(-1, keepdims=True)
    return weight * (c / np.sqrt(variance + 1e-5))


def of_formulas(shape: tuple[int, ...], dtype: torch.dtype) -> Iterator[Contest]:
    """The formulas against five lines by hand, and the norms that torch does not have."""
    x, grad_y = (torch.randn(shape, dtype=dtype) for _ in range(2))
    weight = torch.ones(shape[-1], dtype=dtype, requires_grad=True)

    def step(call: Any, *parameters: Tensor) -> Work:
        return training_step(call, parameters or [weight], x, grad_y)

    for name, formula, lines in (
        ("layer_norm", norms.layer_norm, layer_norm_in_torch),
        ("rms_norm", norms.rms_norm, rms_norm_in_torch),
    ):
        ours = step(lambda x, formula=formula: formula(x, weight)[0])
        theirs = step(lambda x, lines=lines: lines(x, weight))
        yield Contest(name, "five lines of torch", "step", ours, theirs, 1.2)
    if x.device.type == "cpu" and dtype == torch.float32:
        array, ones = x.numpy(), np.ones(shape[-1], np.float32)
        yield Contest(
            *("layer_norm", "five lines of NumPy", "forward"),
            lambda: norms.layer_norm(array, ones),
            lambda: layer_norm_in_numpy(array, ones),
            1.2,
        )

    options: Any = {"feature_axis": -1, "dtype": dtype, "device": x.device}
    power, batch = layers.PowerNorm(shape[-1], **options), layers.BatchNorm(shape[-1], **options)

    def formula_of_batch(x: Tensor) -> Tensor:
        with layers.formulas():
            return batch(x)

    mask = torch.arange(shape[1]) < torch.linspace(shape[1] // 4, shape[1], shape[0])[:, None]

    def gathered(x: Tensor) -> Tensor:
        real = nn.functional.batch_norm(
            x[mask], batch.running_mean, batch.running_var, batch.weight, batch.bias, True
        )
        return torch.zeros_like(x).masked_scatter(mask[..., None], real)

    of_batch = list(batch.parameters())
    yield Contest(
        *("PowerNorm", "BatchNorm's formula", "step"),
        *(step(power, *power.parameters()), step(formula_of_batch, *of_batch), 2.0),
    )
    yield Contest(
        *("BatchNorm, masked", "gather, norm, scatter", "step"),
        *(step(lambda x: batch(x, mask), *of_batch), step(gathered, *of_batch), 2.0),
    )


def of_calls(dtype: torch.dtype) -> Iterator[Contest]:
    """One token without gradient: a layer, and a whole encoder."""

    def call(module: nn.Module, *shape: int) -> Work:
        x = torch.randn(*shape, dtype=dtype)

        @torch.no_grad()
        def hundred() -> None:
            for _ in range(100):
                module(x)

        return hundred

    for name in ("LayerNorm", "RMSNorm"):
        pair = [getattr(module, name)(4096, dtype=dtype) for module in (layers, nn)]
        ours, theirs = (call(module, 1, 1, 4096) for module in pair)
        yield Contest(name, f"nn.{name}", "call", ours, theirs, 2.0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dtype=dtype)
    encoders = [nn.TransformerEncoder(layer, 2, enable_nested_tensor=False) for _ in range(2)]
    swap_norms(encoders[0])
    ours, theirs = (call(encoder, 1, 1, 64) for encoder in encoders)  # training: no fast path
    yield Contest("an encoder, swapped", "torch's", "call", ours, theirs, 1.1)


# --- the report -----------------------------------------------------------------------------------


def now(device: torch.device) -> float:
    """The seconds on the clock that this device goes by, once it has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    elif torch.get_num_threads() == 1:
        return time.process_time()
    return time.perf_counter()


def row_of(contest: Contest, repeats: int, device: torch.device) -> list[str]:
    """Measure both sides, taking turns, and lay the contest out as a row of the table."""
    sides = [contest.ours, contest.theirs]
    for work in sides:
        for _ in range(3):  # compile, and touch the memory
            work()
    seconds: list[list[float]] = [[], []]
    for repeat in range(repeats):
        # Who goes first changes, so that nobody always inherits the other's warm cache.
        for side in (0, 1) if repeat % 2 else (1, 0):
            start = now(device)
            sides[side]()
            seconds[side].append(now(device) - start)
    ratios = [a / b for a, b in zip(*seconds, strict=True)]
    met = "yes" if statistics.median(ratios) <= contest.aim else "no"
    memory = ""
    if contest.unit:
        memory = " / ".join(f"{peak_bytes(work, device) / contest.unit:.1f}" for work in sides)
    shown = [f"{statistics.median(side) * 1e3:.2f} ms" for side in seconds]
    names = [contest.name, contest.against, contest.what]
    return [*names, *shown, ratio_of(*seconds), f"{contest.aim}", met, memory]


def benchmark(
    shapes: tuple[tuple[int, ...], ...] = SHAPES,
    *,
    repeats: int = 15,
    compiled: bool = True,
    numbers_of_threads: tuple[int, ...] = (1, 2),
    dtype: torch.dtype = torch.float32,
    only: str = "",
) -> Iterator[str]:
    """Yield the lines of the report, one shape at a time, on torch's default device."""
    yield f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}"
    yield f"{dtype}, {repeats} repeats; median (lower to upper quartile)"
    columns = ["what", "against", "measured", "ours", "theirs", "ratio", "aim", "met", "memory"]
    before, device = torch.get_num_threads(), torch.empty(0).device
    with warnings.catch_warnings():
        # What torch.compile has to say about itself is not part of the report.
        warnings.simplefilter("ignore")
        reason = why_not_compiled() if compiled else "not asked for"
        if reason:
            yield f"torch.compile is left out: {reason}"
        for number in numbers_of_threads:
            for shape in (*shapes, None):
                torch.manual_seed(0)
                contests = of_calls(dtype)
                if shape:
                    of_shape = of_formulas(shape, dtype) if len(shape) == 3 else ()
                    contests = chain(of_layers(shape, dtype, not reason), of_shape)
                rows = []
                torch.set_num_threads(number)
                try:
                    for contest in contests:
                        if only in contest.name:
                            rows.append(row_of(contest, repeats, device))
                finally:
                    torch.set_num_threads(before)
                    torch.compiler.reset()
                if rows:
                    yield f"\n{shape or '100 calls, one token'}, threads: {number}"
                    yield pd.DataFrame(rows, columns=columns).to_string(index=False)


def main(arguments: list[str] | None = None) -> int:
    """Parse ``arguments``, measure and print; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m normtutor_studies.benchmark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--eager", action="store_true", help="leave torch.compile out")
    parser.add_argument("--only", default="", help="a part of a name, for instance RMSNorm")
    parser.add_argument("--threads", type=int, nargs="*", default=(1, 2))
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    options = parser.parse_args(arguments)
    on_gpu = options.device != "cpu"  # setting the default device slows every call down
    if on_gpu and not torch.cuda.is_available():
        parser.error(f"torch {torch.__version__} finds no CUDA device; leave --device out.")
    try:
        if on_gpu:
            # Else matrix products are not repeatable; CUDA reads this when it starts.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.set_default_device(options.device)
        for line in benchmark(
            repeats=options.repeats,
            compiled=not options.eager,
            numbers_of_threads=(1,) if on_gpu else tuple(options.threads),
            dtype=getattr(torch, options.dtype),
            only=options.only,
        ):
            print(line, flush=True)
    finally:
        torch.set_default_device(None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
