"""What the tests against other libraries share.

They need packages that the book does not: ``make libraries`` installs them into an environment of
its own and runs these tests there. Elsewhere they are skipped.
"""

import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "core"))


@pytest.fixture(autouse=True)
def seeded():
    """What a test draws does not depend on the tests before it."""
    import torch

    torch.manual_seed(0)


def pytest_configure() -> None:
    """Let torchvision be imported without its operators, which exist only beside a GPU build."""
    import importlib.util

    import torch

    if importlib.util.find_spec("torchvision"):
        for name in ("nms", "qnms"):
            schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", schema)
