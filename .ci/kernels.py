"""Kernels that have imported before they start what nearly every chapter imports.

To import torch, Matplotlib, pandas, SciPy and scikit-learn takes a kernel more than two seconds.
So one process imports them, once (Python's fork server), and each kernel is a copy of it. Where
there is no such server, or a copy may not be made of a process with threads (macOS), a kernel
starts as kernels do.
"""

import itertools
import multiprocessing
import os
import runpy
import sys
import types
from pathlib import Path
from typing import Any
from unittest import mock

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner

CAN_FORK = sys.platform == "linux"
HERE = str(Path(__file__).parent)

numbers = itertools.count()


def serve(arguments: list[str], cwd: str, environment: dict[str, str]) -> None:
    """Be a kernel, as `python -m ipykernel_launcher` would, in a process that was just copied."""
    os.setsid()  # who interrupts a kernel interrupts what it has started, too
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    # A kernel that has no parent tells the reader how to stop it.
    sys.argv = ["ipykernel_launcher", *arguments, f"--IPKernelApp.parent_handle={os.getppid()}"]
    sys.path[:] = [place for place in sys.path if place != HERE]
    runpy.run_module("ipykernel_launcher", run_name="__main__")


class Copy:
    """A process of the fork server, with the names that :class:`subprocess.Popen` has."""

    stdin = stdout = stderr = None

    def __init__(self, *arguments: Any) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["preloaded"])
        self.process = context.Process(target=serve, args=arguments)
        with (
            # A new process imports the main module of its parent again, unless that has no file.
            mock.patch.dict(sys.modules, {"__main__": types.ModuleType("__main__")}),
            # The server looks for the modules that it imports nowhere else.
            mock.patch.dict(os.environ, {"PYTHONPATH": HERE}),
        ):
            self.process.start()
        assert self.process.pid is not None
        self.pid = self.process.pid
        self.kill, self.terminate = self.process.kill, self.process.terminate

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self) -> int | None:
        self.process.join()
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


class ForkedProvisioner(LocalProvisioner):
    """Starts a kernel as a copy of a process that has imported much."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        if "ipykernel_launcher" not in cmd:  # somebody's own kernel
            return await super().launch_kernel(cmd, **kwargs)
        arguments = cmd[cmd.index("ipykernel_launcher") + 1 :]
        copy = Copy(arguments, str(kwargs.get("cwd") or Path.cwd()), kwargs["env"])
        self.process: Any = copy
        self.pid = self.pgid = copy.pid
        return self.connection_info


def new_kernel(folder: Path, copied: bool = True) -> AsyncKernelManager:
    """Manage a kernel that listens on files: no other process can take its address.

    The system takes paths up to some 100 letters. For one small notebook alone a copy may not pay.
    """
    file = folder / f"{next(numbers)}.json"
    manager = AsyncKernelManager(
        kernel_name="python3", transport="ipc", ip=str(file), connection_file=str(file)
    )
    if CAN_FORK and copied:
        manager.provisioner = ForkedProvisioner(
            kernel_id=manager.kernel_id, kernel_spec=manager.kernel_spec, parent=manager
        )
    return manager
