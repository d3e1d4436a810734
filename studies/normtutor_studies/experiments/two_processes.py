"""Data-parallel training in the small: two real processes, each with half of a batch.

:func:`compare` starts the processes, waits for them, and returns what each computed. They talk
through ``torch.distributed`` with the gloo backend, over the loopback interface and a file in a
temporary directory, so that no port is fixed and no other machine is involved.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from normtutor import norms

VARIANTS = ("batch, local", "batch, synchronised", "layer")


class _SumOverProcesses(torch.autograd.Function):
    """All-reduce with gradient: every process gets the sum, and the sum of the gradients back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.clone()
        dist.all_reduce(total)
        return total


def synchronised_batch_norm(x: Tensor, *, eps: float = 1e-5) -> Tensor:
    """BatchNorm of x (B, L, H) with the statistics of the batches of all processes together."""
    features = x.shape[-1]
    flat = x.reshape(-1, features)
    # One message: how many tokens there are and their sum. A second for the squared deviations.
    message = torch.cat([flat.sum(dim=0), flat.new_tensor([float(len(flat))])])
    total = _SumOverProcesses.apply(message)
    mean, count = total[:features] / total[features:], total[features:]
    variance = _SumOverProcesses.apply(((flat - mean) ** 2).sum(dim=0)) / count
    return (x - mean) / torch.sqrt(variance + eps)


def normalize(variant: str, h: Tensor) -> Tensor:
    """The norm called ``variant``, on the tokens h (B, L, H) of this process."""
    if variant == "batch, local":
        return norms.batch_norm(h, feature_axis=-1)[0]
    if variant == "batch, synchronised":
        return synchronised_batch_norm(h)
    return norms.layer_norm(h)[0]


def forward_backward(
    variant: str, x: np.ndarray, weight: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Linear layer, norm, tanh, squared error: the normalized tokens and the weight's gradient."""
    w = torch.from_numpy(weight).requires_grad_()
    y = normalize(variant, torch.from_numpy(x) @ w)  # (B, L, H)
    ((torch.tanh(y) - torch.from_numpy(target)) ** 2).mean().backward()
    assert w.grad is not None
    return y.detach().numpy(), w.grad.numpy()


def compare(
    x: np.ndarray, weight: np.ndarray, target: np.ndarray, *, time_limit: float = 60.0
) -> dict[str, dict[str, np.ndarray]]:
    """Run each variant on two processes, half of the batch each.

    Parameters
    ----------
    x, target : arrays of shape (B, L, H), B even
    weight : array of shape (H, H)
    time_limit : float
        Seconds after which both processes are ended and TimeoutError is raised.

    Returns
    -------
    dict
        For each of :data:`VARIANTS`: ``outputs`` (B, L, H), put together from both processes, and
        ``gradient`` (H, H), averaged over them, as data-parallel training does.
    """
    if len(x) % 2:
        raise ValueError(f"x must hold an even number of sequences, to be halved; got {len(x)}.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "inputs.npz", x=x, weight=weight, target=target)
        # The children find this package wherever this process has found it.
        search = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, search)),
            **_loopback(),
        }
        command = [sys.executable, "-m", "normtutor_studies.experiments.two_processes"]
        logs = [folder / f"log{rank}.txt" for rank in (0, 1)]
        processes = []
        for rank, log in enumerate(logs):
            with log.open("w") as output:
                processes.append(
                    subprocess.Popen(
                        [*command, name, str(rank), str(time_limit)],
                        env=environment,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
                )
        _wait(processes, logs, time_limit)
        parts = [dict(np.load(folder / f"outputs{rank}.npz")) for rank in (0, 1)]
    return {
        variant: {
            "outputs": np.concatenate([part[f"{variant} outputs"] for part in parts]),
            "gradient": parts[0][f"{variant} gradient"],
        }
        for variant in VARIANTS
    }


def _wait(processes: list[subprocess.Popen], logs: list[Path], time_limit: float) -> None:
    """Wait until both have ended. If one fails, say why at once: the other would wait for it."""
    deadline = time.monotonic() + time_limit
    try:
        while None in (codes := [process.poll() for process in processes]):
            if any(codes):
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"the two processes took longer than {time_limit} s.")
            time.sleep(0.02)
    finally:
        failed = [bool(process.returncode) for process in processes]
        for process in processes:
            process.kill()
            process.wait()
    for process, log, bad in zip(processes, logs, failed, strict=True):
        if bad:
            raise RuntimeError(f"a process ended with {process.returncode}:\n{log.read_text()}")


def _loopback() -> dict[str, str]:
    """Tell gloo to use the loopback interface: it would ask for the machine's own name instead."""
    interfaces = [name for _, name in socket.if_nameindex()]
    return next(({"GLOO_SOCKET_IFNAME": n} for n in ("lo", "lo0") if n in interfaces), {})


def _work(folder: Path, rank: int, time_limit: float) -> None:
    """What each of the two processes does."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(str(folder / "store"), 2),
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=time_limit),
    )
    inputs = np.load(folder / "inputs.npz")
    half = len(inputs["x"]) // 2
    mine = slice(rank * half, (rank + 1) * half)
    results: dict[str, Any] = {}
    for variant in VARIANTS:
        y, gradient = forward_backward(
            variant, inputs["x"][mine], inputs["weight"], inputs["target"][mine]
        )
        average = torch.from_numpy(gradient)
        dist.all_reduce(average)  # what data-parallel training does with every gradient
        results[f"{variant} outputs"] = y
        results[f"{variant} gradient"] = average.numpy() / 2
    np.savez(folder / f"outputs{rank}.npz", **results)
    dist.destroy_process_group()


if __name__ == "__main__":
    _work(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
