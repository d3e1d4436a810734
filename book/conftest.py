"""Kernels for the tests of the chapters, each with an address that no other process can take.

By default a kernel gets five TCP ports that were free a moment before, and dies where somebody was
quicker. Files in a folder of its own are safe. The system takes paths up to some 100 letters.
"""

import itertools
import tempfile
from pathlib import Path

import nbval.kernel
from jupyter_client.manager import KernelManager

addresses = tempfile.TemporaryDirectory(prefix="kernels-")
numbers = itertools.count()


def kernel_manager(**settings: object) -> KernelManager:
    """Manage a kernel that listens on files instead of ports."""
    file = Path(addresses.name) / f"{next(numbers)}.json"
    return KernelManager(transport="ipc", connection_file=str(file), **settings)


nbval.kernel.KernelManager = kernel_manager
