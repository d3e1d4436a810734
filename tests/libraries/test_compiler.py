"""torch.compile as it is by default: two graphs of C++, forward and backward."""

import shutil

import pytest
import torch._inductor.config
from test_layers_tools import compiled_is_eager, pytestmark  # noqa: F401
from torch import nn

from normtutor import layers


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler")
def test_compiled_with_inductor():
    model = nn.Sequential(
        layers.BatchNorm(5), nn.Linear(4, 4), layers.PowerNorm(4, warmup_steps=2), nn.Tanh()
    )
    # To ask the compiler what this processor can do takes as long as to compile. Every PC's of
    # today has AVX2; on others the code is not vectorized.
    known = {"cpp.simdlen": 256, "cpp.vec_isa_ok": True, "compile_threads": 1}
    with torch._inductor.config.patch(known):
        compiled_is_eager(model, backend="inductor")
