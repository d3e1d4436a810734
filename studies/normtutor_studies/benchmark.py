"""Time and memory of the layers, side by side with those of ``torch.nn``.

Run it with ``make bench`` or ``python -m normtutor_studies.benchmark``, with ``--device cuda`` on a
GPU, and with ``--fused`` to see the layers with torch's own kernels. Nothing in the book rests on
these numbers and no test checks them: they belong to the machine and to the hour.

For each layer and its counterpart on the same input: *forward*, the forward pass of a training
step; *step*, forward and backward, with gradients for the input and the parameters; *memory*, the
most bytes that torch's allocator holds at once during a step, beyond what was there before it, in
units of the input. *By autograd* is the same layer, eager, without the backward pass that the book
derives. A layer for which both are the same has none by hand.

On one thread, times are processor time of this process; on more threads and on a GPU they are the
clock's. All contestants take turns within every repeat, and ratios to torch's layer are taken
within a repeat: the median over repeats with the quartiles. Above 1 torch's layer takes less.

BatchNorm, InstanceNorm and GroupNorm get the input as (B, H, L), the layout that torch.nn asks for;
the others get (B, L, H). For a layer that torch.nn does not have, the counterpart is the one that
it would replace, and the table names it.
"""

import argparse
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from normtutor import layers
from normtutor.layers import by_hand

# The last is that of 16 images of 32 by 32 pixels with 64 features.
SHAPES = ((8, 512, 768), (32, 128, 256), (16, 1024, 64))
QUANTITIES = ("forward", "step", "memory")
SIDES = ("ours", "theirs", "formula")

Make = Callable[[int], nn.Module]


class Contest(NamedTuple):
    """A layer of this package, its counterpart, and whether they read (B, H, L)."""

    name: str
    ours: Make
    against: str
    theirs: Make
    channels_first: bool = False


def _made(of: Any, *before: Any, **settings: Any) -> Make:
    return lambda features: of(*before, features, **settings)


CONTESTS = (
    Contest("BatchNorm", layers.BatchNorm, "BatchNorm1d", nn.BatchNorm1d, True),
    Contest("LayerNorm", layers.LayerNorm, "LayerNorm", nn.LayerNorm),
    Contest(
        "InstanceNorm",
        _made(layers.InstanceNorm, affine=True),
        "InstanceNorm1d",
        _made(nn.InstanceNorm1d, affine=True),
        True,
    ),
    Contest("GroupNorm", _made(layers.GroupNorm, 8), "GroupNorm", _made(nn.GroupNorm, 8), True),
    Contest("RMSNorm", layers.RMSNorm, "RMSNorm", nn.RMSNorm),
    Contest("PartialRMSNorm", _made(layers.PartialRMSNorm, p=1 / 16), "RMSNorm", nn.RMSNorm),
    Contest("PowerNorm", layers.PowerNorm, "LayerNorm", nn.LayerNorm),
    Contest("PowerNorm pn-v", _made(layers.PowerNorm, variant="pn-v"), "LayerNorm", nn.LayerNorm),
    Contest(
        "weight_norm(Linear)",
        lambda h: layers.weight_norm(nn.Linear(h, h)),
        "weight_norm(Linear)",
        lambda h: parametrizations.weight_norm(nn.Linear(h, h)),
    ),
)


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


def peak_bytes(work: Callable[[], object], device: torch.device | None = None) -> int:
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


class Runner:
    """Runs one layer on one input."""

    def __init__(
        self, layer: nn.Module, x: Tensor, grad_y: Tensor, *, compiled: bool, formula: bool = False
    ) -> None:
        self.layer = layer.to(x.device, x.dtype)
        self.x = x.clone().requires_grad_()
        self.grad_y = grad_y
        self.call: Callable[[Tensor], Tensor] = layer
        if compiled:
            self.call = torch.compile(layer, fullgraph=True, dynamic=False)
        if formula:
            # As where something follows each operation: then the formula runs.
            self.call = mock.patch.object(by_hand, "_followed", lambda _: True)(layer.forward)

    def step(self, quantity: str = "step") -> Tensor:
        y = self.call(self.x)
        if quantity == "step":
            y.backward(self.grad_y)
        return y

    def forget(self) -> None:
        """Drop the gradients, so that each step writes them anew."""
        self.x.grad = None
        self.layer.zero_grad(set_to_none=True)

    def now(self) -> float:
        """The seconds on the clock that this device goes by, once it has done what it was given."""
        if self.x.device.type == "cuda":
            torch.cuda.synchronize()
        elif torch.get_num_threads() == 1:
            return time.process_time()
        return time.perf_counter()

    def seconds(self, quantity: str) -> float:
        """Measure one forward pass or one step."""
        self.forget()
        start = self.now()
        y = self.step(quantity)
        elapsed = self.now() - start
        del y
        return elapsed

    def memory(self) -> float:
        """Measure the peak memory of one step, in units of the input."""
        self.forget()
        return peak_bytes(self.step, self.x.device) / self.x.nbytes


def why_not_compiled() -> str | None:
    """Say why torch.compile does not work here, most often for want of a C++ compiler."""
    try:
        torch.compile(lambda x: x * 2 + 1)(torch.zeros(4))
    except Exception as error:  # whatever goes wrong in there, the eager numbers still stand
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return None


Measurements = dict[tuple[str, bool, str], list[float]]  # side, compiled, quantity -> repeats


def measure(
    contest: Contest,
    shape: tuple[int, int, int],
    *,
    repeats: int,
    compiled: bool,
    dtype: torch.dtype = torch.float32,
) -> Measurements:
    """Measure both layers of a contest at one shape, on torch's default device, taking turns."""
    batch, length, features = shape
    full = (batch, features, length) if contest.channels_first else shape
    torch.manual_seed(0)
    x, grad_y = (torch.randn(full, dtype=dtype) for _ in range(2))
    runners = {
        (side, mode): Runner(make(features), x, grad_y, compiled=mode, formula=side == "formula")
        for side, make in zip(SIDES, (contest.ours, contest.theirs, contest.ours), strict=True)
        for mode in ((False, True) if compiled and side != "formula" else (False,))
    }
    found: Measurements = {}
    for key, runner in runners.items():
        for _ in range(3):  # compile, and touch the memory
            runner.forget()
            runner.step()
        found[(*key, "memory")] = [runner.memory()]
    order = list(runners.items())
    for repeat in range(repeats):
        # Who goes first changes, so that nobody always inherits the other's warm cache.
        for key, runner in order if repeat % 2 else reversed(order):
            for quantity in ("forward", "step"):
                found.setdefault((*key, quantity), []).append(runner.seconds(quantity))
    return found


def rows_of(contest: Contest, found: Measurements) -> list[list[str]]:
    """Lay a contest out as rows of the printed table: what each side takes, and the ratios."""
    rows: list[list[str]] = []
    for mode, title in ((False, "eager"), (True, "compiled")):
        for quantity in QUANTITIES:
            sides = [found.get((side, mode, quantity), []) for side in SIDES]
            ours, theirs, formula = sides
            if ours and theirs:
                form = "{:.2f} x" if quantity == "memory" else "{:.2f} ms"
                unit = 1 if quantity == "memory" else 1e3
                shown = [form.format(statistics.median(s) * unit) if s else "" for s in sides]
                ratios = [ratio_of(s, theirs) if s else "" for s in (ours, formula)]
                rows.append([contest.name, contest.against, title, quantity, *shown, *ratios])
    return rows


def benchmark(
    shapes: tuple[tuple[int, int, int], ...] = SHAPES,
    *,
    repeats: int = 15,
    compiled: bool = True,
    contests: tuple[Contest, ...] = CONTESTS,
    numbers_of_threads: tuple[int, ...] = (1, 2),
    dtype: torch.dtype = torch.float32,
) -> Iterator[str]:
    """Yield the lines of the report, one shape at a time, on torch's default device."""
    yield f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}"
    yield f"{dtype}, {repeats} repeats; median (lower to upper quartile)"
    columns = ["layer", "against torch's", "how", "what", "ours", "torch's", "by autograd"]
    columns += ["ours / torch's", "by autograd / torch's"]
    before = torch.get_num_threads()
    with warnings.catch_warnings():
        # What torch.compile has to say about itself is not part of the report.
        warnings.simplefilter("ignore")
        reason = why_not_compiled() if compiled else "not asked for"
        if reason:
            yield f"torch.compile is left out: {reason}"
        options: Any = {"repeats": repeats, "compiled": not reason, "dtype": dtype}
        for number in numbers_of_threads:
            for shape in shapes:
                yield f"\nB, L, H = {', '.join(map(str, shape))}, threads: {number}"
                rows = []
                torch.set_num_threads(number)
                try:
                    for contest in contests:
                        torch.compiler.reset()
                        rows += rows_of(contest, measure(contest, shape, **options))
                finally:
                    torch.set_num_threads(before)
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
    parser.add_argument("--fused", action="store_true", help="with torch's own kernels")
    parser.add_argument("--layers", nargs="*", help="only these, for instance LayerNorm RMSNorm")
    parser.add_argument("--threads", type=int, nargs="*", default=(1, 2))
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    options = parser.parse_args(arguments)
    chosen = tuple(c for c in CONTESTS if not options.layers or c.name in options.layers)
    if not chosen:
        parser.error(f"no such layer; there are: {', '.join(c.name for c in CONTESTS)}")
    on_gpu = options.device != "cpu"  # setting the default device slows every call down
    if on_gpu and not torch.cuda.is_available():
        parser.error(f"torch {torch.__version__} finds no CUDA device; leave --device out.")
    layers.set_fused(options.fused)
    try:
        if on_gpu:
            # Else matrix products are not repeatable; CUDA reads this when it starts.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.set_default_device(options.device)
        for line in benchmark(
            repeats=options.repeats,
            compiled=not options.eager,
            contests=chosen,
            numbers_of_threads=(1,) if on_gpu else tuple(options.threads),
            dtype=getattr(torch, options.dtype),
        ):
            print(line, flush=True)
    finally:
        layers.set_fused(False)
        torch.set_default_device(None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
